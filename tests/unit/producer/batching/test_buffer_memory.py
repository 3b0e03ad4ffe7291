"""The memory pool: each rule on its own, and a model for any sequence of events."""

import asyncio
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
import uvloop
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiokafka_lite.errors import KafkaTimeoutError, ProducerClosed
from aiokafka_lite.producer.batching.buffer_memory import MemoryPool

BATCH = 16


def pool_of(total: int) -> MemoryPool:
    return MemoryPool(total, BATCH, lambda: "the brokers are on holiday")


class ClockedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock advances only when the test moves it."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def turn(self, times: int = 4) -> None:
        async def idle() -> None:
            for _ in range(times):
                await asyncio.sleep(0)

        self.run_until_complete(idle())


@pytest.fixture
def loop() -> Iterator[ClockedLoop]:
    loop = ClockedLoop()
    yield loop
    loop.close()


def test_the_one_size_is_reused_and_others_are_dropped() -> None:
    pool = pool_of(10 * BATCH)
    buffer = pool.try_take(BATCH)
    odd = pool.try_take(BATCH + 1)
    assert buffer is not None
    assert odd is not None
    assert pool.used == 2 * BATCH + 1
    pool.give(buffer)
    pool.give(odd)
    assert pool.used == 0
    assert pool.try_take(BATCH) is buffer
    assert pool.try_take(BATCH + 1) is not odd


def test_pooled_buffers_make_room_for_another_size() -> None:
    pool = pool_of(4 * BATCH)
    buffers = [pool.try_take(BATCH) for _ in range(4)]
    assert pool.try_take(1) is None
    for buffer in buffers:
        assert buffer is not None
        pool.give(buffer)
    whole = pool.try_take(4 * BATCH)
    assert whole is not None
    assert len(whole) == 4 * BATCH
    assert pool.unused == 0


def test_more_than_all_memory_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="more than all of buffer_memory"):
        pool_of(BATCH).try_take(BATCH + 1)


def test_a_large_request_collects_memory_and_is_not_overtaken(loop: ClockedLoop) -> None:
    pool = pool_of(4 * BATCH)
    buffers = [pool.try_take(BATCH) for _ in range(4)]
    large = loop.create_task(pool.take(3 * BATCH, 10.0))
    small = loop.create_task(pool.take(1, 10.0))
    loop.turn()
    for taken, buffer in enumerate(buffers[:3]):
        assert buffer is not None
        assert not large.done(), taken
        pool.give(buffer)
        assert pool.try_take(1) is None, "what came back belongs to the head of the line"
        loop.turn()
    assert len(large.result()) == 3 * BATCH
    assert not small.done()
    pool.give(large.result())
    loop.turn()
    assert small.done()


def test_waiters_are_served_in_the_order_they_came(loop: ClockedLoop) -> None:
    pool = pool_of(BATCH)
    buffer = pool.try_take(BATCH)
    served: list[int] = []

    async def client(number: int) -> None:
        mine = await pool.take(BATCH, 10.0)
        served.append(number)
        pool.give(mine)

    tasks = [loop.create_task(client(number)) for number in range(20)]
    loop.turn()
    assert buffer is not None
    pool.give(buffer)
    loop.run_until_complete(asyncio.gather(*tasks))
    assert served == list(range(20))
    assert pool.used == 0


def test_a_timeout_returns_collected_memory_and_serves_the_next_waiter(loop: ClockedLoop) -> None:
    pool = pool_of(4 * BATCH)
    held = pool.try_take(3 * BATCH)
    large = loop.create_task(pool.take(2 * BATCH, 1.0))
    small = loop.create_task(pool.take(BATCH, 5.0))
    loop.turn()
    assert not small.done()
    loop.now = 1.5
    loop.turn()
    with pytest.raises(KafkaTimeoutError, match="buffer_memory"):
        large.result()
    assert len(small.result()) == BATCH
    assert held is not None
    pool.give(held)
    pool.give(small.result())
    assert pool.used == 0


def test_one_cancelled_between_the_grant_and_its_next_step_gives_back(loop: ClockedLoop) -> None:
    pool = pool_of(BATCH)
    buffer = pool.try_take(BATCH)
    first = loop.create_task(pool.take(BATCH, 10.0))
    second = loop.create_task(pool.take(BATCH, 10.0))
    loop.turn()
    assert buffer is not None
    pool.give(buffer)  # granted to the first, which has not run yet
    first.cancel()
    loop.turn()
    assert first.cancelled()
    assert second.result() is buffer


def test_close_fails_current_and_later_waiters(loop: ClockedLoop) -> None:
    pool = pool_of(BATCH)
    buffer = pool.try_take(BATCH)
    waiting = loop.create_task(pool.take(BATCH, 10.0))
    loop.turn()
    pool.close(ProducerClosed("closed"))
    loop.turn()
    with pytest.raises(ProducerClosed):
        waiting.result()
    with pytest.raises(ProducerClosed):
        pool.try_take(1)
    assert buffer is not None
    pool.give(buffer)
    assert pool.used == 0


class PoolMachine(RuleBasedStateMachine):
    """Any order of takes, gives, cancellations, timeouts and loop turns.

    Invariants: no byte is created or lost; the queue is first in, first out; no request waits that
    could be served; a request that was cancelled or timed out holds nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = ClockedLoop()
        self.held: list[bytearray] = []
        self.line: list[tuple[int, asyncio.Task[bytearray]]] = []
        self.served: list[int] = []
        self.asked = 0

    @initialize(total=st.integers(BATCH, 8 * BATCH))
    def make(self, total: int) -> None:
        self.pool = pool_of(total)

    def _settle(self) -> None:
        """Run all pending callbacks, and record which requests were served."""
        self.loop.turn()
        for number, task in list(self.line):
            if not task.done():
                continue
            self.line.remove((number, task))
            if task.cancelled():
                continue
            error = task.exception()
            if error is not None:
                assert isinstance(error, KafkaTimeoutError)
                continue
            self.held.append(task.result())
            assert not self.served or self.served[-1] < number, "served out of turn"
            self.served.append(number)

    @rule(size=st.one_of(st.just(BATCH), st.integers(1, 8 * BATCH)), patience=st.integers(1, 5))
    def take(self, size: int, patience: int) -> None:
        size = min(size, self.pool.total)
        deadline = self.loop.now + patience
        task = self.loop.create_task(self.pool.take(size, deadline))
        self.line.append((self.asked, task))
        self.asked += 1
        self._settle()

    @rule(size=st.one_of(st.just(BATCH), st.integers(1, 8 * BATCH)))
    def try_take(self, size: int) -> None:
        buffer = self.pool.try_take(min(size, self.pool.total))
        if buffer is not None:
            assert not self.line, "overtook those in line"
            self.held.append(buffer)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), settle=st.booleans())
    def give(self, data: st.DataObject, settle: bool) -> None:
        number = data.draw(st.integers(0, len(self.held) - 1))
        self.pool.give(self.held.pop(number))
        if settle:
            self._settle()

    @precondition(lambda self: self.line)
    @rule(data=st.data(), settle=st.booleans())
    def cancel(self, data: st.DataObject, settle: bool) -> None:
        _, task = data.draw(st.sampled_from(self.line))
        task.cancel()
        if settle:
            self._settle()

    @rule(seconds=st.integers(0, 3))
    def pass_time(self, seconds: int) -> None:
        self.loop.now += seconds
        self._settle()

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "pool"):
            return
        self._settle()
        held = sum(map(len, self.held))
        assert self.pool.waiting == len(self.line)
        if not self.line:
            assert self.pool.used == held
        else:
            assert held <= self.pool.used <= self.pool.total
            # The head has gathered all free memory, and still cannot be served.
            assert self.pool.unused == 0

    def teardown(self) -> None:
        if hasattr(self, "pool"):
            for _, task in self.line:
                task.cancel()
            self._settle()
            for buffer in self.held:
                self.pool.give(buffer)
            self.held.clear()
            self._settle()
            assert self.pool.used == 0
            assert self.pool.waiting == 0
        self.loop.close()


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_waiters_whose_deadlines_have_passed_on_uvloop() -> None:
    """uvloop's handle of a past time has no `when()`."""

    async def wait_twice() -> list[BaseException | None]:
        pool = pool_of(BATCH)
        assert pool.try_take(BATCH) is not None
        deadline = asyncio.get_running_loop().time()
        tasks = [asyncio.ensure_future(pool.take(BATCH, deadline)) for _ in range(2)]
        await asyncio.wait(tasks)
        return [task.exception() for task in tasks]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        errors = runner.run(wait_twice())
    assert [type(error) for error in errors] == [KafkaTimeoutError] * 2
