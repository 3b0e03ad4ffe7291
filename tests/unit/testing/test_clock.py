"""The virtual clock: due calls run in order, each at its own instant; nothing runs otherwise."""

import asyncio
import weakref

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.testing import FakeCluster, VirtualClock
from aiokafka_lite.testing.clock import SystemClock


def test_timers_run_in_order_and_on_time() -> None:
    clock = VirtualClock(1000)
    ran: list[tuple[str, int]] = []

    def note(name: str) -> None:
        ran.append((name, clock.now_ms()))

    def chain() -> None:
        note("chain")
        clock.call_later(0.5, lambda: note("chained"))

    clock.call_later(2.0, lambda: note("late"))
    clock.call_later(1.0, chain)
    clock.call_later(1.0, lambda: note("second of its instant"))
    clock.call_later(1.2, lambda: note("cancelled")).cancel()
    clock.call_later(9.0, lambda: note("not yet"))
    clock.advance(3)
    assert ran == [
        ("chain", 2000),
        ("second of its instant", 2000),
        ("chained", 2500),
        ("late", 3000),
    ]
    assert clock.now_ms() == 4000
    with pytest.raises(ValueError, match="must not be negative"):
        clock.advance(-1)


async def test_clients_stamp_records_with_a_time_that_fits() -> None:
    async with FakeCluster(topics=["orders"], clock=VirtualClock()) as cluster:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"one tea")
        assert len(cluster.records("orders")) == 1


def test_cancelled_timers_are_forgotten_though_time_stands_still() -> None:
    clock = VirtualClock()
    ran: list[int] = []
    timers = [
        weakref.ref(clock.call_later(1000 - number, lambda number=number: ran.append(number)))
        for number in range(1000)
    ]
    for number, timer in enumerate(timers):
        left = timer()
        if number % 100 and left is not None:
            left.cancel()
    for _ in range(1000):
        clock.call_later(1, lambda: None).cancel()
    assert sum(timer() is not None for timer in timers) < 50
    clock.advance(2000)
    assert ran == [*range(900, -1, -100)]


async def test_a_system_clock_cancels_its_timers_when_closed() -> None:
    clock = SystemClock()
    ran = asyncio.Event()
    clock.call_later(0.0, ran.set)
    clock.call_later(0.0, lambda: pytest.fail("it was cancelled")).cancel()
    clock.begin()  # earlier timers count from here on
    await asyncio.wait_for(ran.wait(), 5)
    clock.call_later(0.0, lambda: pytest.fail("it was closed"))
    clock.close()
    await asyncio.sleep(0.01)


async def test_only_a_virtual_clock_can_be_advanced() -> None:
    async with FakeCluster() as cluster:
        with pytest.raises(RuntimeError, match="VirtualClock"):
            cluster.advance(1)
