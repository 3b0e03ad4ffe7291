"""How records are handed out, in both builds."""

import asyncio
import gc
import sys
import weakref
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest


def record(delivery: ModuleType, offset: int) -> Any:
    """A record of the same build."""
    build = delivery.__name__.rsplit("_", 1)[1]
    make = import_module(f"aiokafka_lite._consumer_record_{build}").ConsumerRecord
    return make("orders", 0, offset, 0, 0, None, b"value", None, -1, 5, ())


def chunk(delivery: ModuleType, offsets: list[int], end: int, start: int | None = None) -> Any:
    first = offsets[0] if start is None else start
    return delivery.Chunk([record(delivery, offset) for offset in offsets], first, end, True)


class Source:
    """Feeds a stream with chunks; counts uses of the slow path."""

    def __init__(self, delivery: ModuleType, chunks: list[Any]) -> None:
        self.delivery = delivery.Delivery()
        self.delivery.until = float("inf")
        self.chunks = chunks
        self.calls = 0

    async def next(self) -> Any:
        self.calls += 1
        await asyncio.sleep(0)
        if self.delivery.current.index == self.delivery.current.count:
            if not self.chunks:
                raise StopAsyncIteration
            self.delivery.current = self.chunks.pop(0)
        until, self.delivery.until = self.delivery.until, float("inf")
        record = self.delivery.take()
        self.delivery.until = until
        return record


def test_position_follows_the_records(delivery: ModuleType) -> None:
    it = chunk(delivery, [5, 7, 8], end=12, start=3)
    seen = [it.position]
    while it.index < it.count:
        it.take_many(1)
        seen.append(it.position)
    assert seen == [3, 6, 8, 12]


def test_take_many(delivery: ModuleType) -> None:
    it = chunk(delivery, [0, 1, 2, 3], end=4)
    assert [r.offset for r in it.take_many(3)] == [0, 1, 2]
    assert it.position == 3
    assert [r.offset for r in it.take_many(100)] == [3]
    assert it.take_many(5) == []
    assert it.position == 4
    whole = chunk(delivery, [0, 1], end=2)
    assert whole.take_many(2) is whole.records


def test_an_empty_chunk_stands_at_its_end(delivery: ModuleType) -> None:
    assert delivery.Chunk([], 3, 9).position == 9


def test_take_needs_records_and_time(delivery: ModuleType) -> None:
    it = delivery.Delivery()
    it.until = float("inf")
    assert it.take() is None
    it.current = chunk(delivery, list(range(100)), end=100)
    it.until = 0.0
    assert it.take() is None
    it.until = float("inf")
    assert it.take().offset == 0
    it.until = 0.0  # noticed when the clock is next read
    handed_out = 1
    while it.take() is not None:
        handed_out += 1
    assert 1 <= handed_out <= 16
    it.until = float("inf")
    assert it.take().offset == handed_out


async def test_a_stream_gives_every_record_once_and_ends(delivery: ModuleType) -> None:
    source = Source(
        delivery,
        [chunk(delivery, list(range(10)), 10), chunk(delivery, list(range(10, 15)), 15)],
    )
    stream = delivery.RecordStream(source.delivery, source.next, None)
    offsets = [r.offset async for r in stream]
    assert offsets == list(range(15))
    assert source.calls == 3


async def test_a_stream_keeps_no_record_that_it_gave(delivery: ModuleType) -> None:
    class Value:
        pass

    build = delivery.__name__.rsplit("_", 1)[1]
    make = import_module(f"aiokafka_lite._consumer_record_{build}").ConsumerRecord
    values = [Value() for _ in range(20)]
    references = [weakref.ref(value) for value in values]
    records = [make("orders", 0, n, 0, 0, None, v, None, -1, 5, ()) for n, v in enumerate(values)]
    source = Source(delivery, [delivery.Chunk(records, 0, 20, True)])
    stream = delivery.RecordStream(source.delivery, source.next, None)
    for _ in range(20):
        await anext(stream)
    source.delivery.current = delivery.EMPTY
    del values, records
    assert [reference() for reference in references] == [None] * 20


async def test_the_slow_path_is_called_after_the_timeout(delivery: ModuleType) -> None:
    source = Source(delivery, [chunk(delivery, list(range(100)), 100)])
    stream = delivery.RecordStream(source.delivery, source.next, None)
    seen = []
    async for r in stream:
        seen.append(r.offset)
        source.delivery.until = 0.0
        if source.calls == 2:
            break
    assert 1 < len(seen) <= 18


async def test_two_iterations_share_the_records(delivery: ModuleType) -> None:
    source = Source(delivery, [chunk(delivery, list(range(100)), 100)])
    got: list[int] = []

    async def read() -> None:
        async for r in delivery.RecordStream(source.delivery, source.next, None):
            got.append(r.offset)
            await asyncio.sleep(0)

    await asyncio.gather(read(), read())
    assert sorted(got) == list(range(100))


async def test_an_awaitable_made_before_the_record_was_taken(delivery: ModuleType) -> None:
    source = Source(delivery, [chunk(delivery, [0, 1, 2], 3)])
    stream = delivery.RecordStream(source.delivery, source.next, None)
    assert (await anext(stream)).offset == 0
    late = stream.__anext__()
    assert (await stream.__anext__()).offset == 1
    assert (await stream.__anext__()).offset == 2
    with pytest.raises(StopAsyncIteration):
        await late


async def test_an_emptied_hand_stops_the_stream_at_once(delivery: ModuleType) -> None:
    source = Source(delivery, [chunk(delivery, list(range(10)), 10)])
    stream = delivery.RecordStream(source.delivery, source.next, None)
    await anext(stream)
    source.delivery.current = delivery.EMPTY
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_stream_keeps_its_owner_alive_and_nothing_else_does(delivery: ModuleType) -> None:
    class Owner:
        pass

    owner = Owner()
    gone = weakref.ref(owner)
    stream = delivery.RecordStream(delivery.Delivery(), None, owner)
    del owner
    gc.collect()
    assert gone() is not None
    del stream
    gc.collect()
    assert gone() is None


async def test_records_are_not_leaked(delivery: ModuleType) -> None:
    held = [record(delivery, 0)]  # in a list: Python decides how variables count
    source = Source(delivery, [delivery.Chunk(held.copy(), 0, 1)])
    before = sys.getrefcount(held[0])
    async for r in delivery.RecordStream(source.delivery, source.next, None):
        del r
    source.delivery.current = delivery.EMPTY
    after = sys.getrefcount(held[0])  # not within the assert, which holds it, too
    assert after < before


async def test_the_awaitable_may_be_wrapped_into_a_task(delivery: ModuleType) -> None:
    source = Source(delivery, [chunk(delivery, [0, 1], 2)])
    stream = delivery.RecordStream(source.delivery, source.next, None)
    await anext(stream)
    assert (await asyncio.wait_for(anext(stream), 5)).offset == 1


async def test_take_returns_nothing_outside_the_event_loop(delivery: ModuleType) -> None:
    other = asyncio.new_event_loop()
    try:
        foreign, own = delivery.Delivery(other), delivery.Delivery(asyncio.get_running_loop())
        for each in (foreign, own):
            each.until = float("inf")
            each.current = chunk(delivery, [0], end=1)
        assert foreign.take() is None
        assert own.take().offset == 0
    finally:
        other.close()
