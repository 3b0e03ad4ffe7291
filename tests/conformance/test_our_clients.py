"""This package's producer and consumer behave the same on both.

The results that applications see are compared: acknowledgements, records, offsets, errors.
"""

import asyncio
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import KafkaError
from tests.conformance.conftest import Compare
from tests.conformance.requests import NOW
from tests.conformance.target import Target

PATIENCE = 30.0  # seconds
PARTITIONS = 3


def producer_of(target: Target, **options: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=target.bootstrap, **{"linger_ms": 5, **options})


def consumer_of(target: Target, *topics: str, **options: Any) -> AIOKafkaConsumer:
    defaults = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    return AIOKafkaConsumer(*topics, bootstrap_servers=target.bootstrap, **{**defaults, **options})


async def write(target: Target, topic: str, numbers: range, **options: Any) -> None:
    """Write numbered records to all partitions, and record their acknowledgements."""
    async with producer_of(target, **options) as producer:
        sent = [
            await producer.send(
                topic,
                b"value %d" % number * (number % 7),
                key=None if number % 5 == 0 else b"%d" % number,
                partition=number % PARTITIONS,
                headers=[("n", b"%d" % number)] * (number % 3),
                timestamp_ms=NOW + number,
            )
            for number in numbers
        ]
        note_acks(target, await asyncio.gather(*sent))


def note_acks(target: Target, acks: list[Any]) -> None:
    """With acks=0 each result is None."""
    told = [ack and (ack.partition, ack.offset, ack.timestamp_type) for ack in acks]
    target.note("acks", tuple(told))


async def read(target: Target, consumer: AIOKafkaConsumer, count: int) -> None:
    """Read this many records and record them by partition, in order."""
    found: dict[int, list[Any]] = {}
    async with asyncio.timeout(PATIENCE):
        for _ in range(count):
            r = await consumer.getone()
            found.setdefault(r.partition, []).append(
                (r.offset, r.timestamp - NOW, r.key, r.value, tuple(r.headers))
            )
    target.note("records", {index: tuple(found[index]) for index in sorted(found)})


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_record_round_trip(compare: Compare, codec: str) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(PARTITIONS)
        compression = None if codec == "none" else codec
        await write(target, topic, range(200), compression_type=compression)
        async with consumer_of(target, topic) as consumer:
            await read(target, consumer, 200)

    await compare(scenario)


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_acknowledgements(compare: Compare, acks: int | str) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(PARTITIONS)
        await write(target, topic, range(30), acks=acks, enable_idempotence=acks == "all")
        async with consumer_of(target, topic) as consumer:
            await read(target, consumer, 30)

    await compare(scenario)


async def test_offsets_and_seeking(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(PARTITIONS)
        await write(target, topic, range(60))
        tps = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        async with consumer_of(target) as consumer:
            consumer.assign(tps)
            target.note("ends", list((await consumer.end_offsets(tps)).values()))
            target.note("beginnings", list((await consumer.beginning_offsets(tps)).values()))
            found = await consumer.offsets_for_times(
                {tps[0]: NOW + 31, tps[1]: NOW + 10_000, tps[2]: 0}
            )
            target.note("offsets", [tuple(found[tp] or ())[:1] for tp in tps])
            consumer.seek(tps[1], 15)
            await consumer.seek_to_end(tps[0], tps[2])
            target.note("positions", [await consumer.position(tp) for tp in tps])
            await read(target, consumer, 5)
            consumer.seek(tps[2], 10_000)  # out of range: earliest, by the reset policy
            await read(target, consumer, 20)

    await compare(scenario)


async def test_rejected_requests(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        small = await target.topic(**{"max.message.bytes": 1000})
        compacted = await target.topic(**{"cleanup.policy": "compact"})
        async with producer_of(target) as producer:
            for topic, value in ((small, bytes(5000)), (compacted, b"no key"), (small, b"fine")):
                try:
                    note_acks(target, [await producer.send_and_wait(topic, value)])
                except KafkaError as error:
                    target.note("refused", type(error).__name__)

    await compare(scenario)


async def test_topic_created_by_its_first_record(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = target.unique("auto")
        async with producer_of(target) as producer:
            ack = await producer.send_and_wait(topic, b"first")
            target.note("offset", ack.offset)
        async with consumer_of(target, topic) as consumer, asyncio.timeout(PATIENCE):
            target.note("value", (await consumer.getone()).value)

    await compare(scenario)


async def test_broker_restart(compare3: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(PARTITIONS)
        await write(target, topic, range(30))
        leader = await target.leader_of(topic, 0)
        await target.kill(leader)
        try:
            async with producer_of(target) as producer:
                sent = [
                    await producer.send(topic, b"v", partition=n % PARTITIONS, timestamp_ms=NOW)
                    for n in range(30)
                ]
                note_acks(target, await asyncio.gather(*sent))
            async with consumer_of(target, topic) as consumer:
                await read(target, consumer, 60)
        finally:
            await target.restart(leader)  # others want three brokers, too

    await compare3(scenario)
