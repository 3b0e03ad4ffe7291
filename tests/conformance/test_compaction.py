"""The embedded broker compacts a log as the log cleaner of a real Kafka does.

Kafka's cleaner runs every 15 seconds and skips the active segment, so all cases are partitions of
one topic that is cleaned once; a last batch with a much later timestamp ends the segment. The
cleaner must not begin before the test has read the logs: until then, their dirty ratio, which is at
most 1, is too low for it.
"""

import asyncio
import uuid
from random import Random
from typing import Any

from aiokafka_lite.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.log.compaction import DELETE_HORIZON
from tests.conformance.requests import NOW, fetch, produce
from tests.conformance.target import Target
from tests.conformance.transactional import Writer
from tests.unit.testing.raw import RecordFields, make_batch
from tools.kafka import RealKafka

SEGMENT_MS = 1_800_000
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1",
    "segment.ms": str(SEGMENT_MS),
    "delete.retention.ms": "86400000",
}
PATIENCE = 60  # seconds
PARTITIONS = 20

PLAIN: list[list[RecordFields]] = [
    [(NOW, b"a", b"1"), (NOW + 1, b"b", b"1"), (NOW + 2, b"a", b"2"), (NOW + 3, b"c", b"1")],
    [(NOW + 4, b"c", b"2")],
    [(NOW + 5, b"d", None), (NOW + 6, b"a", None), (NOW + 7, b"e", b"x" * 300)],
    [(NOW + 8, b"e", b"y" * 300), (NOW + 9, b"", b""), (NOW + 10, b"", b"-")],
    [(NOW + 11, b"b", None), (NOW + 12, b"b", b"3")],
]


async def write(target: Target, topic: str) -> None:
    """The cases, a partition each."""
    for index, codec in enumerate((Compression.NONE, Compression.GZIP, Compression.ZSTD)):
        for records in PLAIN:
            await put(target, topic, index, make_batch(*records, compression=codec))
    for sequence in range(4):  # a producer whose state remains, but none of its records
        batch = make_batch(
            (NOW, b"k", b"%d" % sequence), producer_id=900, producer_epoch=0, base_sequence=sequence
        )
        await put(target, topic, 3, batch)
    await put(target, topic, 3, make_batch((NOW, b"k", b"newest")))
    writer = Writer(target, target.unique("tx"))
    await writer.await_coordinator()
    await writer.init()
    await put(target, topic, 4, make_batch((NOW, b"k", b"before")))
    for sequence, committed in enumerate((False, True, True, False)):
        await writer.add(topic, 4)
        await writer.produce(topic, sequence, partition=4)
        await writer.end(committed=committed)
    chance = Random(7)
    for index in range(5, PARTITIONS):
        await write_by_chance(target, topic, index, writer, chance)
    for index in range(PARTITIONS):
        await put(target, topic, index, make_batch((NOW, b"last of the segment", b"v")))
        await put(target, topic, index, make_batch((NOW + SEGMENT_MS + 99, b"rolls", b"v")))


async def write_by_chance(
    target: Target, topic: str, index: int, writer: Writer, chance: Random
) -> None:
    """Some batches of few keys, of an idempotent and of a transactional producer and of neither."""
    sequence = 0
    for _ in range(chance.randint(3, 12)):
        records: list[RecordFields] = [
            (NOW + chance.randint(-50, 50), bytes((chance.choice(b"abcde"),)), value)
            for value in chance.choices([None, b"", b"1", b"2" * 200], k=chance.randint(1, 5))
        ]
        codec = chance.choice(list(Compression))
        who = chance.choice(["idempotent", "transactional", "neither", "neither"])
        if who == "idempotent":
            fields = {"producer_id": 900, "producer_epoch": 0, "base_sequence": sequence}
            sequence += len(records)
            await put(target, topic, index, make_batch(*records, compression=codec, **fields))
        elif who == "neither":
            await put(target, topic, index, make_batch(*records, compression=codec))
        else:
            await writer.init()  # a new epoch, so that its sequence starts again
            await writer.add(topic, index)
            producer_id, epoch = writer.producer
            fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0}
            batch = make_batch(*records, compression=codec, **fields, transactional=True)
            await writer.produce_batch(topic, batch, partition=index)
            await writer.end(committed=chance.random() < 0.5)


async def put(target: Target, topic: str, index: int, batch: bytes) -> None:
    request = produce(topic, batch)
    request.topic_data[0].partition_data[0].index = index
    response = await target.quietly(request, 9)
    assert response.responses[0].partition_responses[0].error_code == 0


async def logs(target: Target, topic: str) -> list[list[Any]]:
    """The content of each partition, without times of the broker's clock."""
    return [await log(target, topic, index) for index in range(PARTITIONS)]


async def log(target: Target, topic: str, index: int) -> list[Any]:
    found: list[Any] = []
    offset, end = 0, 1
    while offset < end:  # Kafka reads from one segment at a time
        request = fetch(topic, offset)
        request.topics[0].partitions[0].partition = index
        (data,) = (await target.quietly(request, 12)).responses[0].partitions
        assert data.error_code == 0
        end = data.high_watermark
        found += batches_of(bytes(data.records))
        offset = found[-1][0].last_offset + 1
    return found


def batches_of(data: bytes) -> list[Any]:
    found, at = [], 0
    while at < len(data):
        header = BatchHeader.read(data, at)
        batch = data[at : at + header.size]
        at += header.size
        records = RecordSet(batch, "", 0, 0).read(10**6)
        timeless = header.control or header.attributes & DELETE_HORIZON
        found.append(
            (
                header._replace(
                    crc=0,
                    batch_length=0 if header.codec else header.batch_length,
                    producer_id=min(header.producer_id, 0),
                    base_timestamp=0 if timeless else header.base_timestamp,
                    max_timestamp=0 if header.control else header.max_timestamp,
                ),
                [(each.offset, each.timestamp, each.key, each.value) for each in records],
            )
        )
    return found


async def test_compaction(kafka: RealKafka) -> None:
    suffix = uuid.uuid4().hex[:10]
    async with FakeCluster(check_records=True) as fake:
        judge = Target("Kafka", kafka.bootstrap_servers, suffix)
        judged = Target("embedded", fake.bootstrap_servers, suffix)
        try:
            topics = [await target.topic(PARTITIONS, **CONFIGS) for target in (judge, judged)]
            topic = topics[0]
            for target in (judge, judged):
                await write(target, topic)
            before = await logs(judge, topic)
            assert await logs(judged, topic) == before
            change = AlterableConfig("min.cleanable.dirty.ratio", 0, "0")
            altered = await judge.quietly(
                IncrementalAlterConfigsRequest([AlterConfigsResource(2, topic, [change])]), 1
            )
            assert altered.responses[0].error_code == 0
            async with asyncio.timeout(PATIENCE):
                cleaned = before
                while any(log == old for log, old in zip(cleaned, before, strict=True)):
                    await asyncio.sleep(0.2)
                    cleaned = await logs(judge, topic)
            fake.state.compact(topic)
            found = await logs(judged, topic)
            for index in range(PARTITIONS):
                assert found[index] == cleaned[index], f"partition {index}"
        finally:
            await judge.close()
            await judged.close()
