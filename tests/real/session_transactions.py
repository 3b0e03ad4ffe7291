"""Two workers copy a topic in transactions while the sessions of all connections expire."""

import asyncio
import time
from typing import Any, NamedTuple

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, exactly_once
from tools.kafka import KafkaCluster

PARTITIONS = 4
QUIET = 5.0
"""Seconds within which a duplicate record would arrive."""


class Copied(NamedTuple):
    """The number of records and transactions."""

    records: int
    transactions: int


async def copy_in_transactions(
    cluster: KafkaCluster, name: str, options: dict[str, Any], seconds: float
) -> Copied:
    """Copy records; each must appear once in the copy, in the order of its partition.

    Each worker stops once, and another one takes its place.

    Args:
        cluster: The cluster, which limits the sessions.
        name: The group, and a part of the names of the topics and transactional ids.
        options: The options of all clients.
        seconds: How long to send records.
    """
    raw, copied = f"{name}-raw", f"{name}-copied"
    cluster.create_topic(raw, PARTITIONS)
    cluster.create_topic(copied, PARTITIONS)
    sent = [0] * PARTITIONS
    until = time.monotonic() + seconds
    committed = 0

    async def send() -> None:
        async with AIOKafkaProducer(**options) as producer:
            while time.monotonic() < until:
                for partition in range(PARTITIONS):
                    value = b"%d" % sent[partition]
                    await producer.send_and_wait(raw, value, partition=partition)
                    sent[partition] += 1
                await asyncio.sleep(0.01)

    async def work(worker: str, ends: float) -> None:
        nonlocal committed
        reading = AIOKafkaConsumer(
            raw,
            group_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **options,
        )
        writing = AIOKafkaProducer(transactional_id=f"{name}-{worker}", **options)
        async with reading, writing, exactly_once(reading, writing, max_records=20) as batches:
            async for batch in batches:
                for record in batch:
                    await writing.send(copied, record.value, partition=record.partition)
                committed += 1
                if time.monotonic() > ends:
                    return

    async def workers(worker: str, first: float) -> None:
        await work(worker, time.monotonic() + first)
        await work(worker, float("inf"))

    copying = [
        asyncio.create_task(workers("one", seconds / 3)),
        asyncio.create_task(workers("two", seconds / 2)),
    ]
    last = AIOKafkaConsumer(isolation_level="read_committed", **options)
    async with last, asyncio.timeout(seconds + 200):
        last.assign([TopicPartition(copied, partition) for partition in range(PARTITIONS)])
        await last.seek_to_beginning()
        copies: list[list[int]] = [[] for _ in range(PARTITIONS)]
        sending = asyncio.create_task(send())
        while not sending.done() or [len(each) for each in copies] != sent:
            for task in copying:
                assert not task.done(), task.exception()
            for place, records in (await last.getmany(timeout_ms=200)).items():
                copies[place.partition] += [int(record.value or b"") for record in records]
        await sending
        await asyncio.sleep(QUIET)
        assert not any((await last.getmany(timeout_ms=1000)).values())
    for task in copying:
        task.cancel()
    await asyncio.gather(*copying, return_exceptions=True)
    assert copies == [list(range(count)) for count in sent]
    return Copied(sum(sent), committed)
