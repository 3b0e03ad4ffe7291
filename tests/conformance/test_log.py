"""Changes of a log: DeleteRecords, timestamps, epochs, and the effects of its topic's settings."""

from collections.abc import Sequence
from random import Random

import pytest

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokafka_lite.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.record.compression import Compression
from tests.conformance.conftest import Compare
from tests.conformance.requests import GOOD, NOW, changed, fetch, produce
from tests.conformance.target import Target
from tests.unit.testing.raw import make_batch


def delete(topic: str, *offsets: int) -> DeleteRecordsRequest:
    wanted = [DeleteRecordsPartition(index, offset) for index, offset in enumerate(offsets)]
    return DeleteRecordsRequest([DeleteRecordsTopic(topic, wanted)], 5000)


def look_up(
    topic: str,
    *timestamps: int,
    index: int = 0,
    replica_id: int = -1,
    isolation: int = 0,
    epoch: int = -1,
) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(index, epoch, timestamp) for timestamp in timestamps]
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(topic, wanted)],
        timeout_ms=5000,
    )


def end_of(topic: str, *epochs: int, current: int = -1) -> OffsetForLeaderEpochRequest:
    wanted = [OffsetForLeaderPartition(0, current, epoch) for epoch in epochs]
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, wanted)])


async def look_all_over(target: Target, topic: str, timestamps: Sequence[int]) -> None:
    requests: list[tuple[Request, int]] = [(look_up(topic, each), 11) for each in timestamps]
    requests += [(end_of(topic, epoch), 4) for epoch in (-1, 0, 1)]
    for request, version in requests:
        await target.ask(request, version)


async def test_delete_records(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        for _ in range(3):
            await target.ask(produce(topic, GOOD), 9)
        for version in range(3):
            await target.ask(delete(topic, version, 0, 0), version)
        for offset in (1, 3, 7, -2, 2**40):
            await target.ask(delete(topic, offset), 2)
            await target.ask(fetch(topic, 3), 12)
            await target.ask(fetch(topic, 2), 12)
            await look_all_over(target, topic, (-1, -2, -3, -4, 0, NOW, NOW + 5))
        await target.ask(delete(topic, -1), 2)
        await look_all_over(target, topic, (-1, -2, -3, -4, 0, NOW, NOW + 5))
        await target.ask(produce(topic, GOOD), 9)
        await look_all_over(target, topic, (-1, -2, -3, -4, 0, NOW, NOW + 5))
        await target.ask(delete("no-such-topic", 0), 2)
        twice = delete(topic, 7)
        twice.topics[0].partitions.append(DeleteRecordsPartition(0, 8))
        await target.ask(twice, 2)

    await compare(scenario)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
async def test_delete_records_of_compacted_topics(compare: Compare, policy: str) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1, **{"cleanup.policy": policy})
        await target.ask(produce(topic, make_batch((NOW, b"k", b"v"))), 9)
        for offset in (-1, 1, 9):
            await target.ask(delete(topic, offset), 2)

    await compare(scenario)


async def test_offsets_by_time(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        written = [(NOW, NOW + 50), (NOW + 20,), (NOW + 70, NOW + 10, NOW + 70), (NOW + 30,)]
        for times in written:
            await target.ask(produce(topic, make_batch(*[(t, None, b"v") for t in times])), 9)
        for isolation in (0, 1):
            for timestamp in (*range(NOW - 10, NOW + 90, 10), -3):
                await target.ask(look_up(topic, timestamp, isolation=isolation), 7)
        await target.ask(look_up(topic, -1, -1), 7)
        await target.ask(look_up(topic, NOW, NOW + 20), 7)
        await target.ask(look_up(topic, -1, replica_id=-2), 7)
        await target.ask(look_up(topic, -1, index=5, replica_id=-2), 7)
        await target.ask(look_up(topic, -1, epoch=0), 7)
        await target.ask(look_up(topic, -1, epoch=7), 7)

    await compare(scenario)


@pytest.mark.parametrize("needed", ["2", "1000"])
async def test_min_insync_replicas_above_the_replication_factor(
    compare: Compare, needed: str
) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1, **{"min.insync.replicas": needed})
        for acks in (-1, 1):
            await target.ask(produce(topic, GOOD, acks=acks), 9)
        await target.ask(fetch(topic, 0), 12)
        await look_all_over(target, topic, (-1, -2))

    await compare(scenario)


async def test_largest_timestamp_without_records(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        for largest in (NOW + 999, NOW - 999, -1):
            await target.ask(produce(topic, changed(max_timestamp=largest)), 9)
        await target.ask(fetch(topic, 0), 12)
        for timestamp in (-3, NOW + 5, NOW + 6):
            await target.ask(look_up(topic, timestamp), 7)

    await compare(scenario)


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
async def test_compression_of_a_topic(compare: Compare, codec: str) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1, **{"compression.type": codec})
        for compression in Compression:
            batch = make_batch(
                *((NOW + 5, b"k", b"v" * 500), (NOW, None, b"w")), compression=compression
            )
            await target.ask(produce(topic, batch), 9)
        answer = await target.quietly(fetch(topic, 0), 12)
        (data,) = answer.responses[0].partitions
        target.note("codecs", tuple(codecs_in(bytes(data.records))))
        for timestamp in (-3, NOW, NOW + 5):
            await target.ask(look_up(topic, timestamp), 7)

    await compare(scenario)


def codecs_in(records: bytes) -> list[tuple[int, ...]]:
    """(base offset, codec, last offset delta, count, base timestamp, largest) of each batch."""
    from aiokafka_lite.record.header import BatchHeader

    found, at = [], 0
    while at < len(records):
        header = BatchHeader.read(records, at)
        found.append(
            (
                *(header.base_offset, header.codec, header.last_offset_delta),
                *(header.record_count, header.base_timestamp - NOW, header.max_timestamp - NOW),
            )
        )
        at += header.size
    return found


async def test_a_partition_twice_in_a_request(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(2)
        other = make_batch((NOW, b"k", b"other"))
        data = [PartitionProduceData(0, GOOD), PartitionProduceData(0, other)]
        twice = ProduceRequest(
            acks=-1, timeout_ms=3000, topic_data=[TopicProduceData(topic, partition_data=data)]
        )
        await target.ask(twice, 9)
        await target.ask(fetch(topic, 0), 12)

    await compare(scenario)


async def test_timestamps_out_of_range(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        before = "message.timestamp.before.max.ms"
        after = "message.timestamp.after.max.ms"
        topic = await target.topic(1, **{before: 3_600_000, after: 3_600_000})
        stamped = await target.topic(1, **{"message.timestamp.type": "LogAppendTime"})
        half = 1_800_000  # NOW is the time of the import: stay away from the limits
        times = (NOW, NOW - half, NOW - 4 * half, NOW + half, NOW + 4 * half, -1)
        for each in times:
            await target.ask(produce(topic, make_batch((NOW, None, b"v"), (each, None, b"w"))), 9)
            await target.ask(produce(stamped, make_batch((each, None, b"w"))), 9)
        await target.ask(fetch(topic, 0), 12)
        await target.ask(fetch(stamped, 0), 12)

    await compare(scenario)


async def test_too_large_batches(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for codec in ("producer", "uncompressed"):
            topic = await target.topic(1, **{"max.message.bytes": 500, "compression.type": codec})
            for size in (400, 500):
                await target.ask(produce(topic, make_batch((NOW, None, bytes(size)))), 9)
            packed = make_batch((NOW, None, bytes(5000)), compression=Compression.GZIP)
            await target.ask(produce(topic, packed), 9)

    await compare(scenario)


@pytest.mark.parametrize("seed", range(6))
async def test_random_writes(compare: Compare, seed: int) -> None:
    """Random batches, lookups and deletions, the same on both."""

    async def scenario(target: Target) -> None:
        chance = Random(seed)
        configs: dict[str, object] = {}
        if chance.random() < 0.5:
            configs["max.message.bytes"] = 900
        if chance.random() < 0.3:
            configs["message.timestamp.before.max.ms"] = 3_600_000
        topic = await target.topic(1, **configs)
        end = 0
        for _ in range(80):
            step = chance.choice(["write", "write", "write", "delete", "fetch", "look"])
            if step == "write":
                times = [NOW + chance.randint(-40, 40) for _ in range(chance.randint(1, 5))]
                if chance.random() < 0.1:
                    times[0] = chance.choice([-1, NOW - 7_200_000, NOW + 10**8])
                records = [(time, None, chance.randbytes(chance.randint(0, 400))) for time in times]
                batch = make_batch(*records, compression=chance.choice(list(Compression)))
                response = await target.ask(produce(topic, batch), 9)
                if not response.responses[0].partition_responses[0].error_code:
                    end += len(times)
            elif step == "delete":
                if chance.random() < 0.3:
                    await target.ask(delete(topic, chance.randint(0, end + 1)), 2)
            elif step == "look":
                for timestamp in (-1, -2, -3, -4, NOW + chance.randint(-50, 50)):
                    await target.ask(look_up(topic, timestamp), 11)
            else:
                limit = chance.choice([0, 1, 300, 1000, 2**20])
                await target.ask(fetch(topic, chance.randint(0, end + 1), limit=limit), 12)

    await compare(scenario)
