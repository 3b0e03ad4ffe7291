"""Brokers that die, freeze, refuse and throttle at random moments, under records of every kind of
producer: whatever a record waits for, its outcome comes within the time that is promised for it.

The cluster and the producer are whole, sockets included; only the time is skipped through.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings
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
    KafkaError,
    NotEnoughReplicasError,
    NotLeaderForPartitionError,
    UnknownProducerId,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.skipping_loop import SkippingLoop

DELIVERY = 3.0  # seconds: delivery_timeout_ms
REQUEST = 1.0  # seconds: request_timeout_ms
BLOCK = 2.0  # seconds: max_block_ms
SWEEP = DELIVERY / 10  # how late a timeout may be noticed
ROUNDING = 0.05

BROKERS = 2
MOST_PARTITIONS = 3

KINDS: dict[str, dict[str, Any]] = {
    "idempotent": {},
    "plain": {"enable_idempotence": False},
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
    "partitions not added": {"api_key": ApiKey.ADD_PARTITIONS_TO_TXN, "drop": True},
}
PAUSES = st.sampled_from([0.0, 0.0, 0.001, 0.05, 0.4, 1.0, 2.0, 3.5, 7.0])  # seconds
NODES = st.sampled_from([[0], [1], [0, 1], [0, 1]])


class Outages(RuleBasedStateMachine):
    """An application, its producer, and a cluster that gives them trouble."""

    def __init__(self, room: dict[str, ModuleType]) -> None:
        super().__init__()
        self.loop = SkippingLoop()
        self.make = room["producer"].AIOKafkaProducer
        self.promises: list[tuple[asyncio.Task[Any], float]] = []  # and when each must be kept
        self.broken: list[str] = []
        self.faults: list[Any] = []
        self.mistakes: list[Any] = []
        self.loop.set_exception_handler(lambda loop, context: self.mistakes.append(context))
        self.ending: asyncio.Task[Any] | None = None

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(awaitable)

    @initialize(
        kind=st.sampled_from(sorted(KINDS)),
        linger_ms=st.sampled_from([0, 30]),
        batches=st.sampled_from([3, 1000]),
        partitions=st.sampled_from([1, MOST_PARTITIONS]),
    )
    def start(self, kind: str, linger_ms: int, batches: int, partitions: int) -> None:
        version = {"version": "2.8"} if kind.endswith("first") else {}

        async def start() -> None:
            self.cluster = FakeCluster(
                brokers=BROKERS,
                topics={"orders": partitions},
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
                max_batch_size=1000,
                buffer_memory=batches * 1000,
                **KINDS[kind],
            )
            await self.producer.start()
            if self.transactional:
                await self.producer.begin_transaction()

        self.partitions = partitions
        self.transactional = kind.startswith("transactional")
        self.ample = batches > 3
        self.run(start())

    def promise(self, what: str, within: float, keep: Coroutine[Any, Any, Any]) -> None:
        """Something that the producer is asked to do, and when it must have an end, good or bad."""
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
                    self.broken.append(f"a record was given {took:.2f} s: {error}")
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
        """These brokers are gone, or say nothing any more, until they recover."""
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

    @rule(trouble=st.sampled_from(sorted(TROUBLES)), times=st.integers(1, 5))
    def strike(self, trouble: str, times: int) -> None:
        self.faults.append(self.cluster.control(**TROUBLES[trouble], times=times))

    # What holds

    @invariant()
    def promises_are_kept(self) -> None:
        assert not self.broken
        assert not self.mistakes
        now = self.loop.time()
        late = [task for task, until in self.promises if now > until and not task.done()]
        assert not late

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
        finally:
            self.loop.close()

    async def _end(self) -> None:
        sender = self.producer._sender
        try:
            self.take_away([0, 1], frozen=False)
            for _ in range(3):  # the first of an outage are not the last
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
        """The outage is over, and so is its effect."""
        for partition in range(self.partitions):
            for patience in reversed(range(4)):
                try:
                    await self.producer.send_and_wait("orders", b"again", partition=partition)
                    break
                except KafkaError:
                    if not patience:
                        raise


def test_every_record_has_its_outcome_in_time(
    room: dict[str, ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "aiokafka_lite")  # the rest is what an outage brings along

    def make() -> Outages:
        return Outages(room)

    machine: Callable[[], RuleBasedStateMachine] = make
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=30, stateful_step_count=25, deadline=None),
    )
