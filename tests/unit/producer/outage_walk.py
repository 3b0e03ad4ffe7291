"""A random walk of a producer through outages of its brokers.

Brokers die, freeze, refuse, throttle, slow down and lose the lead of partitions, with every kind of
producer. The cluster and the producer are complete. Only idle time is skipped, and nothing depends
on the kernel, another thread or the system clock, so that a seed always repeats its walk.

Invariants:
- Every call and every record has its outcome by its documented timeout.
- After each step of the event loop, every queue that holds a batch waits for an event that will
  occur (see `waiting_queues`).
- The timer of the delivery timeout runs while any batch is held.
- After the outage, records are stored again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any
from unittest.mock import patch

import hypothesis
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from aiokafka_lite.errors import (
    DeliveryTimeoutError,
    IllegalOperation,
    InvalidProducerEpoch,
    KafkaError,
    NotEnoughReplicasError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    UnknownProducerId,
)
from aiokafka_lite.net import dial
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.clock import Clock, Timer
from aiokafka_lite.testing.server import broker_server
from tests.local_sockets import local_sockets
from tests.skipping_loop import SkippingLoop
from tests.unit.producer.waiting_queues import stranded

DELIVERY = 3.0  # seconds: delivery_timeout_ms
REQUEST = 1.0  # seconds: request_timeout_ms
BLOCK = 2.0  # seconds: max_block_ms
SWEEP = DELIVERY / 10  # the maximum delay of a delivery timeout
ROUNDING = 0.05

BROKERS = 2
MOST_PARTITIONS = 3
MOST_STEPS = 20_000  # of the event loop, in one rule; a hundred are usual

KINDS: dict[str, dict[str, Any]] = {
    "idempotent": {},
    "plain": {"enable_idempotence": False},
    "compressed elsewhere": {"compression_type": "gzip"},
    "without answers": {"acks": 0},
    "transactional": {"transactional_id": "t"},
    "transactional, partitions added first": {"transactional_id": "t"},
}


def throttle(seconds: float) -> Callable[[Any], None]:
    def edit(response: Any) -> None:
        response.throttle_time_ms = int(seconds * 1000)

    return edit


TROUBLES: dict[str, dict[str, Any]] = {
    "another leader": {"api_key": ApiKey.PRODUCE, "error": NotLeaderForPartitionError},
    "too few replicas": {"api_key": ApiKey.PRODUCE, "error": NotEnoughReplicasError},
    "cut before": {"api_key": ApiKey.PRODUCE, "disconnect": True},
    "cut after": {"api_key": ApiKey.PRODUCE, "disconnect": True, "after_handling": True},
    "no answer": {"api_key": ApiKey.PRODUCE, "drop": True},
    "throttled": {"api_key": ApiKey.PRODUCE, "edit": throttle(0.8)},
    "throttled for long": {"api_key": ApiKey.PRODUCE, "edit": throttle(60.0)},
    "no metadata": {"api_key": ApiKey.METADATA, "drop": True},
    "no id": {"api_key": ApiKey.INIT_PRODUCER_ID, "drop": True},
    "numbers refused": {"api_key": ApiKey.PRODUCE, "error": UnknownProducerId},
    "out of order": {"api_key": ApiKey.PRODUCE, "error": OutOfOrderSequenceNumber},
    "old epoch": {"api_key": ApiKey.PRODUCE, "error": InvalidProducerEpoch},
    "partitions not added": {"api_key": ApiKey.ADD_PARTITIONS_TO_TXN, "drop": True},
}
PAUSES = st.sampled_from([0.0, 0.0, 0.001, 0.05, 0.4, 1.0, 2.0, 3.5, 7.0])  # seconds
NODES = st.sampled_from([[0], [1], [0, 1], [0, 1]])


class WatchedLoop(SkippingLoop):
    """Calls `check` after each step."""

    check: Callable[[], None] | None = None

    def __init__(self) -> None:
        super().__init__(delay=0.0)  # the sockets are local

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]  # asyncio's own
        if self.check is not None:
            self.check()


class LaterThreads:
    """Replaces the codec threads: the work takes 20 ms of the loop's time."""

    @staticmethod
    def run(
        loop: asyncio.AbstractEventLoop, work: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        done = loop.create_future()

        def finish() -> None:
            if not done.cancelled():
                done.set_result(work(*args))

        loop.call_later(0.02, finish)
        return done


class LoopTimer(Timer):
    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self.cancel = handle.cancel  # type: ignore[method-assign]

    def cancel(self) -> None: ...


class LoopClock(Clock):
    """Lets the cluster follow the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._began = time.time() - loop.time()  # the clients timestamp their records with it

    def now_ms(self) -> int:
        return int((self._began + self._loop.time()) * 1000)

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        return LoopTimer(self._loop.call_later(delay, callback))

    def close(self) -> None:
        pass


class Outages(RuleBasedStateMachine):
    """An application, its producer, and a cluster with outages."""

    def __init__(self, room: dict[str, ModuleType], options: dict[str, Any]) -> None:
        super().__init__()
        self.options = options
        self.loop = WatchedLoop()
        self.steps = 0
        self.left = MOST_STEPS
        self.make = room["producer"].AIOKafkaProducer
        self.promises: list[tuple[asyncio.Task[Any], float]] = []  # with their deadlines
        self.broken: list[str] = []
        self.faults: list[Any] = []
        self.mistakes: list[Any] = []
        self.loop.set_exception_handler(lambda loop, context: self.mistakes.append(context))
        self.ending: asyncio.Task[Any] | None = None

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        task = self.loop.create_task(awaitable)
        self.left = MOST_STEPS
        try:
            return self.loop.run_until_complete(task)
        finally:
            if not task.done():  # the loop itself raised: let the coroutine close what it opened
                self.left = MOST_STEPS
                task.cancel()
                with suppress(asyncio.CancelledError, AssertionError):
                    self.loop.run_until_complete(task)

    @initialize(
        kind=st.sampled_from(sorted(KINDS)),
        linger_ms=st.sampled_from([0, 30]),
        batches=st.sampled_from([3, 1000]),
        partitions=st.sampled_from([1, MOST_PARTITIONS]),
        in_flight=st.sampled_from([1, 5]),
    )
    def start(
        self, kind: str, linger_ms: int, batches: int, partitions: int, in_flight: int
    ) -> None:
        kind = self.options.get("kind", kind)
        partitions = self.options.get("partitions", partitions)
        in_flight = self.options.get("in_flight", in_flight)
        version = {"version": "2.8"} if kind.endswith("first") else {}

        async def start() -> None:
            self.cluster = FakeCluster(
                brokers=BROKERS,
                topics={"orders": partitions},
                clock=LoopClock(self.loop),
                **version,  # type: ignore[arg-type]
            )
            await self.cluster.start()
            self.producer = self.make(
                bootstrap_servers=self.cluster.bootstrap_servers,
                delivery_timeout_ms=DELIVERY * 1000,
                request_timeout_ms=REQUEST * 1000,
                max_block_ms=BLOCK * 1000,
                retry_backoff_ms=50,
                linger_ms=linger_ms,
                max_in_flight_requests_per_connection=in_flight,
                max_batch_size=1000,
                buffer_memory=batches * 1000,
                **KINDS[kind],
            )
            self.loop.check = self.note_stranded
            await self.producer.start()
            if self.transactional:
                await self.producer.begin_transaction()

        self.partitions = partitions
        self.transactional = kind.startswith("transactional")
        self.ample = batches > 3
        self.run(start())

    def promise(self, what: str, within: float, keep: Coroutine[Any, Any, Any]) -> None:
        """Start a call that must return or raise within a number of seconds."""
        began = self.loop.time()
        task = self.loop.create_task(keep)

        def note(done: "asyncio.Task[Any]") -> None:
            if not isinstance(done.exception(), KafkaError | IllegalOperation | None):
                self.broken.append(f"{what}: {done.exception()!r}")
            if self.loop.time() - began > within + ROUNDING:
                self.broken.append(f"{what} took {self.loop.time() - began:.2f} s")

        task.add_done_callback(note)
        self.promises.append((task, began + within + ROUNDING))

    def promise_record(self, partition: int | None, size: int) -> None:
        async def send() -> None:
            ack = await self.producer.send("orders", bytes(size), partition=partition)
            appended = self.loop.time()
            try:
                await ack
            except DeliveryTimeoutError as error:
                took = self.loop.time() - appended
                own = "their transaction failed" not in str(error)
                if own and self.ample and took < DELIVERY / 2 - SWEEP - ROUNDING:
                    self.broken.append(f"a record timed out after {took:.2f} s: {error}")
                raise

        self.promise("a record", BLOCK + DELIVERY + SWEEP, send())

    # The application

    @rule(
        partition=st.sampled_from([None, *range(MOST_PARTITIONS)]),
        size=st.sampled_from([10, 700]),
        count=st.integers(1, 4),
        pause=PAUSES,
    )
    def send(self, partition: int | None, size: int, count: int, pause: float) -> None:
        for _ in range(count):
            self.promise_record(None if partition is None else partition % self.partitions, size)
        self.run(asyncio.sleep(pause))

    @rule(count=st.integers(3, 6), pause=PAUSES)
    def fill_batches(self, count: int, pause: float) -> None:
        """Send records of which no two fit into a batch."""
        self.run(asyncio.sleep(0.005))  # the topic is known
        for _ in range(count):
            self.promise_record(None, 700)
            self.run(asyncio.sleep(0))
        self.run(asyncio.sleep(pause))

    @rule(partition=st.integers(0, MOST_PARTITIONS - 1), pause=PAUSES)
    def send_batch(self, partition: int, pause: float) -> None:
        async def send() -> None:
            batch = self.producer.create_batch()
            batch.append(value=bytes(300), key=None, timestamp=None)
            await (
                await self.producer.send_batch(
                    batch, "orders", partition=partition % self.partitions
                )
            )

        self.promise("a batch", BLOCK + DELIVERY + SWEEP, send())
        self.run(asyncio.sleep(pause))

    @rule()
    def send_to_an_unknown_topic(self) -> None:
        self.promise("an unknown topic", BLOCK, self.producer.send("elsewhere", b"v", partition=7))

    @rule(pause=PAUSES)
    def flush(self, pause: float) -> None:
        self.promise("flush", DELIVERY + SWEEP, self.producer.flush())
        self.run(asyncio.sleep(pause))

    @precondition(lambda self: self.transactional and (not self.ending or self.ending.done()))
    @rule(commit=st.booleans(), pause=PAUSES)
    def end_transaction(self, commit: bool, pause: float) -> None:
        async def end() -> None:
            try:
                await (
                    self.producer.commit_transaction()
                    if commit
                    else self.producer.abort_transaction()
                )
            finally:
                await self.producer.begin_transaction()

        self.promise("the end of a transaction", BLOCK, end())
        self.ending = self.promises[-1][0]
        self.run(asyncio.sleep(pause))

    # The cluster

    @rule(nodes=NODES, frozen=st.booleans())
    def take_away(self, nodes: list[int], frozen: bool) -> None:
        """Kill brokers, or freeze them, until they recover."""
        for node in nodes:
            if frozen:
                self.cluster.pause(node)
            else:
                self.cluster.kill(node)

    @rule(nodes=NODES)
    def recover(self, nodes: list[int]) -> None:
        self.run(self._recover(nodes))

    async def _recover(self, nodes: list[int]) -> None:
        for node in nodes:
            self.cluster.resume(node)
            await self.cluster.restart(node)

    @rule(partition=st.integers(0, MOST_PARTITIONS - 1), node=st.integers(0, BROKERS - 1))
    def move_leader(self, partition: int, node: int) -> None:
        self.cluster.move_leader("orders", partition % self.partitions, node)

    @rule(latency=st.sampled_from([0.0, 0.002, 0.2, 1.5]))
    def slow_down(self, latency: float) -> None:
        self.loop.set_latency(latency)

    @rule(trouble=st.sampled_from(sorted(TROUBLES)), times=st.integers(1, 5))
    def strike(self, trouble: str, times: int) -> None:
        self.faults.append(self.cluster.control(**TROUBLES[trouble], times=times))

    # Invariants

    def note_stranded(self) -> None:
        self.steps += 1
        self.broken += stranded(self.producer._sender)
        self.left -= 1
        assert self.left, "the walk does not end"

    @invariant()
    def promises_are_kept(self) -> None:
        assert not self.broken, self.broken[:3]
        assert not self.mistakes, self.mistakes[:3]
        now = self.loop.time()
        late = [task for task, until in self.promises if now > until and not task.done()]
        assert not late, late

    @invariant()
    def nothing_is_held_without_a_timer(self) -> None:
        if not hasattr(self, "producer"):
            return
        sender = self.producer._sender
        timer = sender._sweep_timer
        assert sender.accumulator.watched == (timer is not None)
        if sender.accumulator.active:
            assert timer is not None
            assert not timer.cancelled()
            assert timer.when() <= self.loop.time() + SWEEP + ROUNDING

    def teardown(self) -> None:
        try:
            if hasattr(self, "producer"):
                self.run(self._end())
                self.promises_are_kept()
                assert self.steps > 10
        finally:
            self.loop.close()

    async def _end(self) -> None:
        sender = self.producer._sender
        try:
            self.slow_down(0.0)
            self.take_away([0, 1], frozen=False)
            for _ in range(3):  # later records of an outage must time out, too
                if not self.transactional:
                    for partition in range(self.partitions):
                        self.promise_record(partition, 10)
                await asyncio.sleep(BLOCK + DELIVERY + REQUEST + 2 * SWEEP)
                self.promises_are_kept()
            assert all(task.done() for task, _ in self.promises)
            assert sender.pool.waiting == 0
            assert sender.pool.used == 0
            await self._recover(list(range(BROKERS)))
            for fault in self.faults:
                fault.remove()
            if not self.transactional:
                await self._store_again()
        finally:
            await self.producer.stop(timeout=0)
            assert sender._sweep_timer is None or sender._sweep_timer.cancelled()
            await self.cluster.stop()

    async def _store_again(self) -> None:
        """Records are stored again after the outage."""
        for partition in range(self.partitions):
            for retries in reversed(range(4)):
                try:
                    await self.producer.send_and_wait("orders", b"again", partition=partition)
                    break
                except KafkaError:
                    if not retries:
                        raise


@contextmanager
def isolated(room: dict[str, ModuleType]) -> Iterator[None]:
    """Make walks of this build independent of the kernel, other threads and the log level."""
    # Both builds run this function of the Python twin.
    elsewhere = room["accumulator"].BatchCore.compress_elsewhere.__globals__
    log = logging.getLogger("aiokafka_lite")
    level = log.level
    log.setLevel(logging.CRITICAL)  # outages log warnings and errors
    try:
        with (
            patch.dict(
                elsewhere,
                COMPRESS_ELSEWHERE_FROM=500,
                COMPRESS_FAST_ELSEWHERE_FROM=500,
                codec_threads=LaterThreads,
            ),
            local_sockets(dial, broker_server),
        ):
            yield
    finally:
        log.setLevel(level)


def walk(
    room: dict[str, ModuleType], seed: int, examples: int, *, shrink: bool = True, **options: Any
) -> None:
    """Run the walks of one seed.

    Args:
        room: The producer's modules, of one build.
        seed: Selects the walks.
        examples: Number of walks.
        shrink: Reduce a failing walk to a short one.
        **options: Fixed arguments of `Outages.start`: kind, partitions, in_flight.

    Raises:
        AssertionError: A promise was not kept, or a batch is stranded.
    """

    def make() -> Outages:
        return Outages(room, options)

    hypothesis.seed(seed)(make)
    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            phases=tuple(Phase) if shrink else (Phase.generate,),
        ),
    )
