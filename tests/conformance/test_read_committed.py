"""Responses to a read_committed consumer: last stable offsets, aborted transactions, markers."""

from random import Random
from typing import Any

import pytest

from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokafka_lite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.conformance.conftest import Compare
from tests.conformance.requests import GOOD, NOW, fetch, produce
from tests.conformance.target import Target
from tests.conformance.transactional import Writer
from tests.unit.testing.raw import make_batch

COMMITTED = 1


def look_up(topic: str, timestamp: int, isolation: int = COMMITTED) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(0, timestamp=timestamp)]
    return ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(topic, wanted)])


def waiting(topic: str, offset: int, **fields: Any) -> FetchRequest:
    wanted = [FetchPartition(0, -1, offset, partition_max_bytes=2**20)]
    fields = {"max_wait_ms": 20_000, "min_bytes": 1, "isolation_level": COMMITTED, **fields}
    return FetchRequest(topics=[FetchTopic(topic, partitions=wanted)], **fields)


async def look_around(target: Target, topic: str, end: int) -> None:
    """From every offset, with both isolation levels, and by every special timestamp."""
    for offset in range(end + 2):
        await target.ask(fetch(topic, offset, isolation=COMMITTED), 12)
    await target.ask(fetch(topic, 0), 12)
    for isolation in (0, COMMITTED):
        for timestamp in (-1, -2, -3, NOW, NOW + 10):
            response = await target.quietly(look_up(topic, timestamp, isolation), 7)
            (found,) = response.topics[0].partitions
            # Without its timestamp: that of a marker is the broker's own.
            target.note(f"offset by {timestamp}", (found.error_code, found.offset))


async def begin(target: Target, topic: str) -> Writer:
    writer = Writer(target, target.unique("tx"))
    await writer.await_coordinator()
    await writer.init()
    await writer.add(topic, 0)
    return writer


@pytest.mark.parametrize("committed", [False, True])
async def test_an_open_transaction_and_its_end(compare: Compare, committed: bool) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        await target.ask(produce(topic, GOOD), 9)
        writer = await begin(target, topic)
        await writer.produce(topic, 0, count=2)
        later = make_batch((NOW + 10, None, b"later"))
        await target.ask(produce(topic, later), 9)
        await look_around(target, topic, 5)
        await writer.end(committed=committed)
        await look_around(target, topic, 6)

    await compare(scenario)


async def test_overlapping_transactions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        first, second = await begin(target, topic), await begin(target, topic)
        await first.produce(topic, 0)
        await second.produce(topic, 0)
        await target.ask(produce(topic, GOOD), 9)
        await second.end(committed=False)
        await look_around(target, topic, 5)
        await second.add(topic, 0)
        await second.produce(topic, 1)
        await first.end(committed=False)
        await look_around(target, topic, 7)
        await second.end(committed=False)
        await look_around(target, topic, 8)

    await compare(scenario)


async def test_range_of_aborted_transactions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        writer = await begin(target, topic)
        filler = make_batch((NOW, None, bytes(1500)))
        for sequence in range(4):
            await writer.produce(topic, sequence)
            await writer.end(committed=False)
            await writer.add(topic, 0)
            for _ in range(5):
                await target.ask(produce(topic, filler), 9)
        for offset in range(0, 28, 3):
            # All remaining records: how far Kafka looks beyond the records that it reads depends on
            # its index.
            await target.ask(fetch(topic, offset, isolation=COMMITTED), 12)

    await compare(scenario)


async def test_a_wait_ends_with_the_transaction(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        writer = await begin(target, topic)
        await writer.produce(topic, 0)
        task = target.start(waiting(topic, 0), 12, "waits")
        await target.waits(task)
        await target.ask(produce(topic, GOOD), 9)
        await target.waits(task)
        await writer.end(committed=True)
        await target.settle(task)

    await compare(scenario)


async def test_fetch_session_reports_stable_offsets(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        writer = await begin(target, topic)
        opened = await target.ask(waiting(topic, 0, session_epoch=0, max_wait_ms=0), 12)
        epoch = 0

        async def go_on(offset: int | None = None) -> None:
            nonlocal epoch
            epoch += 1
            request = waiting(topic, offset or 0, max_wait_ms=0)
            request.session_id, request.session_epoch = opened.session_id, epoch
            if offset is None:
                request.topics = []
            await target.ask(request, 12)

        await writer.produce(topic, 0)
        await go_on()
        await go_on()
        await target.ask(produce(topic, GOOD), 9)
        await go_on()
        await writer.end(committed=False)
        await go_on()
        await go_on(4)
        await go_on()

    await compare(scenario)


async def test_log_start_inside_a_transaction(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1)
        writer = await begin(target, topic)
        await writer.produce(topic, 0, count=2)
        await writer.end(committed=False)
        await writer.add(topic, 0)
        await writer.produce(topic, 2, count=2)
        await target.ask(produce(topic, GOOD), 9)
        for offset in (1, 2, 4, 6):
            wanted = [DeleteRecordsPartition(0, offset)]
            request = DeleteRecordsRequest([DeleteRecordsTopic(topic, wanted)], 5000)
            await target.ask(request, 2)
            await look_around(target, topic, 8)
        await writer.end(committed=True)
        await look_around(target, topic, 9)

    await compare(scenario)


@pytest.mark.parametrize("seed", range(5))
async def test_random_events(compare: Compare, seed: int) -> None:
    """Random transactions of two producers, deletions and lookups, the same on both."""

    async def scenario(target: Target) -> None:
        chance = Random(seed)
        topic = await target.topic(1)
        writers = [Writer(target, target.unique("tx")) for _ in range(2)]
        for writer in writers:
            await writer.await_coordinator()
            await writer.init()
        sequences, is_open, end = [0, 0], [False, False], 0
        for _ in range(60):
            who = chance.randrange(2)
            step = chance.choice(["write", "write", "end", "plain", "delete", "fetch", "look"])
            if step == "write":
                if not is_open[who]:
                    await writers[who].add(topic, 0)
                    is_open[who] = True
                count = chance.randint(1, 3)
                await writers[who].produce(topic, sequences[who], count=count)
                sequences[who] += count
                end += count
            elif step == "end" and is_open[who]:
                await writers[who].end(committed=chance.random() < 0.5)
                is_open[who] = False
                end += 1
            elif step == "plain":
                times = [NOW - chance.randint(0, 50) for _ in range(chance.randint(1, 4))]
                records = [(time, None, bytes(chance.randint(0, 900))) for time in times]
                await target.ask(produce(topic, make_batch(*records)), 9)
                end += len(times)
            elif step == "delete" and chance.random() < 0.4:
                wanted = [DeleteRecordsPartition(0, chance.randint(0, end))]
                request = DeleteRecordsRequest([DeleteRecordsTopic(topic, wanted)], 5000)
                await target.ask(request, 2)
            elif step == "look":
                for isolation in (0, COMMITTED):
                    # Not the latest: two markers may have the same time on one of both only.
                    for timestamp in (-1, -2, NOW - chance.randint(0, 60)):
                        asked = look_up(topic, timestamp, isolation)
                        (found,) = (await target.quietly(asked, 7)).topics[0].partitions
                        told = (found.error_code, found.offset)
                        target.note(f"offset by {timestamp}, isolation {isolation}", told)
            else:
                limit = chance.choice([1, 100, 1000, 2**20])
                offset = chance.randint(0, end + 1)
                isolation = chance.choice([0, COMMITTED])
                await target.ask(fetch(topic, offset, limit=limit, isolation=isolation), 12)

    await compare(scenario)
