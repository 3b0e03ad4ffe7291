"""`run` ends at random moments, while brokers reject, cut off or ignore its last requests.

Members handle records; some handlers return at once, others outlive the lock, fail, or resist their
cancellation. Each life of a member ends by `stop`, by cancellations of `run` and of `stop`, or by
two calls at a time, while handlers are in flight, while a renewal is due, while a fetch is being
answered, and while the last acknowledgements are refused or their connection dies.

Invariants, checked with the brokers' state of each delivery:
- No record is accepted before its handler has returned, and none rejected unless it raised.
- No record is released after its handler returned, nor while it runs undisturbed.
- What a handler finished is accepted, unless its lock ended or its broker could not be reached.
- The result of an acceptance is true: confirmed only if applied, refused only if not.
- Each call ends by its documented time, and nothing stays acquired after `stop`.
- At the end, each record was accepted or rejected, or has used up its deliveries.

Idle time is skipped, and nothing depends on the kernel or the system clock: a seed repeats its
walk.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaShareConsumer, ShareRecord
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    RequestTimedOutError,
    ShareSessionNotFoundError,
)
from aiokafka_lite.net import dial
from aiokafka_lite.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchResponse
from aiokafka_lite.share.records.record_marks import Acknowledgement
from aiokafka_lite.testing import ApiKey, FakeCluster
from aiokafka_lite.testing.control import Fault
from aiokafka_lite.testing.server import broker_server
from tests.local_sockets import local_sockets
from tests.skipping_loop import SkippingLoop
from tests.unit.producer.outage_walk import LoopClock
from tests.unit.share.watched_brokers import LOCK, Brokers, Delivery

__all__ = [
    "LIVES",
    "PARTITIONS",
    "RECORDS",
    "Brokers",
    "Delivery",
    "Walk",
    "acknowledges",
    "embedded",
    "run_skipping",
]

PARTITIONS = 2
LIMIT = 10  # deliveries
STOP = 5.0 + 5.0 + 0.5  # seconds: `stop` itself, cancelled handlers, and latency
LIVES = 5
RECORDS = 24  # in each life

Record = ShareRecord[Any, Any]


class Walk:
    """Members of one group, one life after the other."""

    def __init__(
        self, cluster: FakeCluster, brokers: Brokers, loop: SkippingLoop, chance: random.Random
    ) -> None:
        self._cluster, self._brokers = cluster, brokers
        self._loop, self._chance = loop, chance
        self._produced = [0] * PARTITIONS
        self._marks: list[tuple[Delivery, Acknowledgement]] = []
        self._faults: list[Fault] = []

    # --- the application

    async def _handle(self, record: Record) -> None:
        """Handle a record in one of many ways."""
        brokers, chance = self._brokers, self._chance
        delivery = Delivery(record.partition, record.offset, record.delivery_count)
        brokers.begun.add(delivery)
        try:
            way = chance.random()
            if way < 0.2:
                await asyncio.sleep(0)
            elif way < 0.5:
                await self._sleep(delivery, chance.choice([0.001, 0.05, 0.5, 3.0]))
            elif way < 0.65:
                await self._sleep(delivery, chance.choice([LOCK / 2, LOCK * 1.2, LOCK * 2]))
            elif way < 0.72:
                raise TimeoutError("a dependency is away")
            elif way < 0.76:
                brokers.failed.add(delivery)
                raise ValueError("no such order")
            elif way < 0.86:
                brokers.finished[delivery] = self._loop.time()
                self._marks.append((delivery, record.accept()))
                await asyncio.sleep(chance.choice([0, 0.01, 1.0]))
            brokers.finished.setdefault(delivery, self._loop.time())
        finally:
            brokers.ended.add(delivery)

    async def _sleep(self, delivery: Delivery, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self._brokers.cancelled.add(delivery)
            what = self._chance.random()
            if what < 0.2:
                await asyncio.sleep(0.3)  # to clean up
            elif what < 0.4:
                return  # it resists, and finishes its work
            raise

    # --- lives

    async def live(self) -> None:
        """One member, which handles records until its life ends in some way."""
        chance = self._chance
        for _ in range(RECORDS):
            partition = chance.randrange(PARTITIONS)
            key = b"%d" % chance.randrange(3)
            self._cluster.produce("jobs", b"v", key, partition=partition)
            self._produced[partition] += 1
        self._loop.set_latency(chance.choice([0.0, 0.001, 0.03]))
        drain = chance.choice([0.0, 0.1, 5.0, 20.0])
        options: dict[str, Any] = {
            "concurrency": chance.choice([1, 3, 30]),
            "retry_delay_ms": chance.choice([0, 300, 20_000]),
            "ordered_by_key": chance.random() < 0.3,
            "drain_timeout_ms": drain * 1000,
        }
        mode = chance.choice(["record_limit", "batch_optimized"])
        consumer = self._consumer(acquire_mode=mode)
        await consumer.start()
        running = asyncio.create_task(consumer.run(self._handle, **options))
        await asyncio.sleep(chance.choice([0.0, 0.002, 0.05, 1.0, LOCK / 2 - 0.02, LOCK]))
        self._disturb()
        await self._wait_for_a_moment()
        end = chance.choice([self._stop, self._stop, self._stop, self._cancel, self._stop_twice])
        if chance.random() < 0.15:
            end = self._cancel_stop
        async with asyncio.timeout(10 * LOCK):
            began = self._loop.time()
            await end(consumer, running)
            took = self._loop.time() - began
        if took > drain + 2 * STOP:
            self._brokers.wrong.append(f"{end.__name__} took {took:.2f} s")
        self._brokers.seen[end.__name__] += 1
        for fault in self._faults:
            fault.remove()
        self._faults.clear()
        await self._check_end()

    def _consumer(self, **options: Any) -> AIOKafkaShareConsumer:
        return AIOKafkaShareConsumer(
            "jobs",
            bootstrap_servers=self._cluster.bootstrap_servers,
            group_id="workers",
            request_timeout_ms=2000,
            retry_backoff_ms=10,
            retry_backoff_max_ms=100,
            enable_metrics_push=False,
            **options,
        )

    async def _check_end(self) -> None:
        """Check that no departed member holds a record, and that every reported result is true."""
        await asyncio.sleep(3.0)  # the broker notices the end of connections; late requests end
        brokers = self._brokers
        held = self._cluster.share_group("workers").acquired
        for partition, offsets in held.items():
            if any(held_by := offsets.values()) and not any(
                part == partition.partition for _, part in brokers.cuts
            ):
                brokers.wrong.append(f"acquired by nobody: {partition} {offsets} {held_by}")
        for delivery, mark in self._marks:
            if not mark.done():
                brokers.wrong.append(f"the acceptance has no result: {delivery}")
                continue
            error, applied = mark.exception(), delivery in brokers.accepted
            if error is None and not applied:
                brokers.wrong.append(f"confirmed without effect: {delivery}")
            if isinstance(error, InvalidRecordStateError) and applied:
                brokers.wrong.append(f"refused although it was applied: {delivery}: {error}")
            brokers.seen[f"reported {type(error).__name__}"] += 1
        self._marks.clear()
        brokers.check_finished()
        brokers.finished.clear()
        assert not brokers.wrong, "\n".join(brokers.wrong[:20])

    async def _stop(self, consumer: AIOKafkaShareConsumer, running: asyncio.Task[None]) -> None:
        await consumer.stop()
        await running

    async def _stop_twice(
        self, consumer: AIOKafkaShareConsumer, running: asyncio.Task[None]
    ) -> None:
        another = asyncio.create_task(consumer.stop())
        await asyncio.sleep(self._chance.choice([0, 0.001, 0.1]))
        await consumer.stop()
        await another
        await running

    async def _cancel(self, consumer: AIOKafkaShareConsumer, running: asyncio.Task[None]) -> None:
        running.cancel()
        if self._chance.random() < 0.5:
            stopping = asyncio.create_task(consumer.stop())
            await asyncio.wait([running])
            await stopping
        else:
            await asyncio.wait([running])
            await consumer.stop()
        assert running.cancelled()

    async def _cancel_stop(
        self, consumer: AIOKafkaShareConsumer, running: asyncio.Task[None]
    ) -> None:
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(self._chance.choice([0, 0.001, 0.1, 2.0]))
        stopping.cancel()
        self._brokers.cut(*range(PARTITIONS))
        await asyncio.wait([stopping])
        running.cancel()
        await asyncio.wait([running])
        with pytest.raises(ConsumerStoppedError):
            await consumer.getone()

    # --- faults

    def _disturb(self) -> None:
        """Let the next requests with acknowledgements fail in some way, or none."""
        chance = self._chance
        api = chance.choice([ApiKey.SHARE_ACKNOWLEDGE, ApiKey.SHARE_FETCH])
        kind = {
            ApiKey.SHARE_ACKNOWLEDGE: ShareAcknowledgeResponse,
            ApiKey.SHARE_FETCH: ShareFetchResponse,
        }[api]
        error = chance.choice(
            [InvalidShareSessionEpochError, ShareSessionNotFoundError, RequestTimedOutError]
        )
        times, node = chance.randint(1, 3), chance.randrange(PARTITIONS)
        (way,) = chance.choices(range(8), [2, 2, 3, 4, 2, 1, 1, 1])
        if way == 0:
            self._fault(api, times=times, when=_any, respond_with=kind(error_code=error.errno))
        elif way == 1:
            self._fault(api, times=times, when=acknowledges, error=RequestTimedOutError)
        elif way == 2:
            cut = self._cuts(node, acknowledges)
            after = chance.random() < 0.5
            self._fault(api, node=node, when=cut, disconnect=True, after_handling=after)
        elif way == 3:
            cut = self._cuts(node, acknowledges)
            self._fault(api, node=node, when=cut, drop=True, after_handling=chance.random() < 0.5)
        elif way == 4:
            self._brokers.cut(node)
            self._cluster.disconnect(node)
        elif way == 5:
            self._fault(api, times=times, when=_any, delay=chance.choice([0.05, 0.5]))
        elif way == 6:
            self._fault(ApiKey.SHARE_ACKNOWLEDGE, times=times, when=_renews, delay=0.3)
        self._brokers.seen[f"disturbance {way}"] += 1

    def _fault(self, api: ApiKey, **options: Any) -> None:
        self._faults.append(self._cluster.control(api, **options))

    def _cuts(self, node: int, condition: Callable[[Any], bool]) -> Callable[[Any], bool]:
        """A condition that also writes down that the session with a broker ends."""

        def strikes(request: Any) -> bool:
            if not condition(request):
                return False
            self._brokers.cut(node)  # each broker leads the partition of its number
            return True

        return strikes

    async def _wait_for_a_moment(self) -> None:
        """Wait until something is in flight: a fetch, an acknowledgement, a renewal."""
        chance = self._chance
        api, condition = chance.choice(
            [
                (ApiKey.SHARE_FETCH, _any),
                (ApiKey.SHARE_FETCH, acknowledges),
                (ApiKey.SHARE_ACKNOWLEDGE, acknowledges),
                (ApiKey.SHARE_ACKNOWLEDGE, _renews),
            ]
        )
        delay = chance.choice([0.01, 0.2])
        fault = self._cluster.control(api, when=condition, delay=delay)
        self._faults.append(fault)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOCK):
                await fault.struck()
                self._brokers.seen["a moment"] += 1
        await asyncio.sleep(chance.choice([0, 0, delay - 0.001, delay, delay + 0.001]))

    # --- the end

    async def finish(self) -> None:
        """Handle all remaining records, without faults."""
        brokers = self._brokers
        self._loop.set_latency(0.0)
        async with asyncio.timeout(100 * LOCK), self._consumer() as consumer:

            async def handle(record: Record) -> None:
                delivery = Delivery(record.partition, record.offset, record.delivery_count)
                brokers.begun.add(delivery)
                brokers.finished[delivery] = self._loop.time()
                brokers.ended.add(delivery)

            running = asyncio.create_task(consumer.run(handle))
            await asyncio.sleep(0.5)
            while self._left():
                await asyncio.sleep(0.5)
            await consumer.stop()
            await running
        await self._check_end()

    def _left(self) -> set[tuple[int, int]]:
        """The records that are neither accepted nor rejected, and may still be delivered."""
        brokers = self._brokers
        over = {(each.partition, each.offset) for each in brokers.accepted | brokers.rejected}
        starts = self._cluster.share_group("workers").start_offsets
        dead = {
            (each.partition, each.offset) for each in brokers.acquired if each.count == LIMIT
        } & {(tp.partition, offset) for tp, start in starts.items() for offset in range(start)}
        return {
            (partition, offset)
            for partition, count in enumerate(self._produced)
            for offset in range(count)
        } - (over | dead)


def _any(request: Any) -> bool:
    return request.share_session_epoch > 0


def acknowledges(request: Any) -> bool:
    return not request.is_renew_ack and any(
        one.acknowledgement_batches for topic in request.topics for one in topic.partitions
    )


def _renews(request: Any) -> bool:
    return bool(request.is_renew_ack)


@contextlib.asynccontextmanager
async def embedded(loop: asyncio.AbstractEventLoop) -> AsyncIterator[FakeCluster]:
    """As many brokers as partitions; each leads the partition of its number."""
    async with FakeCluster(PARTITIONS, {"jobs": PARTITIONS}, clock=LoopClock(loop)) as cluster:
        configs = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(int(LOCK * 1000)),
            "share.delivery.count.limit": str(LIMIT),
        }
        cluster.configure_group("workers", configs)
        for number in range(PARTITIONS):
            cluster.move_leader("jobs", number, number)
        yield cluster


def run_skipping(loop: SkippingLoop, main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; idle time is skipped, and sockets are local."""
    problems: list[Any] = []
    loop.set_exception_handler(lambda _, context: problems.append(context))
    with (
        local_sockets(dial, broker_server),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        runner.run(main)
    assert not problems
