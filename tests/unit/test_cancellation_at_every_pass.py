"""Calls are cut in every pass of the event loop, and so at each await: nothing is lost or
duplicated.

A walk cuts a call in its first pass, with a new cluster and client in its second, and so on until
the call ends before it is cut. `tests/faults/test_cancelling*.py` do that to the calls of
producers, consumers and admin clients while nothing fails. Here are the others (transactions,
`exactly_once`, bulk reads, share consumers), starts that are repeated, second cancellations,
timeouts, and cuts in the moment in which connections break.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from aiokafka_lite import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
    ShareRecord,
    TopicPartition,
    exactly_once,
)
from aiokafka_lite.client import AIOKafkaClient
from aiokafka_lite.errors import IllegalOperation, KafkaConnectionError
from aiokafka_lite.read_process_write import TransactionBatch
from aiokafka_lite.share.acknowledgement import Acknowledgement
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

COUNT = 12  # records, half of them in each partition of "orders"
HALF = {("orders", 0): COUNT // 2, ("orders", 1): COUNT // 2}  # the offsets behind them
FIRST = TopicPartition("orders", 0)
LONGEST = 400  # passes: far more than any call takes
PROMPT = 1.0  # seconds of the loop's time from a cut to the end of the call
PATIENCE = 100.0  # likewise, for what must end; longer than a session
AT_ONCE = {
    "group.initial.rebalance.delay.ms": 0,
    # The brokers measure it with the machine's clock, which hardly advances here.
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
}
WAYS = {
    # How a call is cut, and the passes from one cut to the next: a broken connection takes more
    # passes.
    "cancelled": 1,
    "cancelled twice": 5,
    "timed out": 7,
    "connections break": 7,
    "answers are lost": 9,
}


class Cut:
    """Awaits one call, and cuts it in a pass of the event loop.

    Args:
        cluster: The cluster of the call.
        way: One of `WAYS`.
        passes: The pass, counted from the call's first.

    Attributes:
        made: True once the call was cut; False if it ended before.
    """

    def __init__(self, cluster: FakeCluster, way: str, passes: int) -> None:
        self._cluster = cluster
        self._way = way
        self._left = passes
        self._at = 0.0
        self.made = False

    async def __call__(self, call: Awaitable[object]) -> bool:
        """Return True if the call has ended before the cut."""
        loop: Any = asyncio.get_running_loop()
        run_once = loop._run_once
        fault = None
        if self._way == "answers are lost":
            fault = self._cluster.control(disconnect=True, after_handling=True, times=2)

        async def bounded() -> None:
            async with asyncio.timeout(None) as self._limit:
                await call

        def run_and_cut() -> None:
            if not self._left and not task.done():
                self.made, self._at = True, loop.time()
                self._cut(loop, task)
            self._left -= 1
            run_once()

        task = asyncio.ensure_future(bounded())
        await asyncio.sleep(0)  # it has begun
        loop._run_once = run_and_cut
        try:
            await asyncio.wait([task], timeout=PATIENCE)
        finally:
            loop._run_once = run_once
        assert task.done(), "the call hangs"
        if fault is not None:
            fault.remove()
        if not self.made or (self._way == "timed out" and not self._limit.expired()):
            await task
            return True
        assert loop.time() - self._at <= PROMPT
        with pytest.raises(TimeoutError if self._way == "timed out" else asyncio.CancelledError):
            await task
        return False

    @property
    def harmless(self) -> bool:
        """True if the brokers and connections always work."""
        return self._way not in ("connections break", "answers are lost")

    def _cut(self, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
        if self._way == "timed out":
            self._limit.reschedule(loop.time())
            return
        if self._way == "connections break":
            self._cluster.disconnect()
        task.cancel()
        if self._way == "cancelled twice":
            loop.call_soon(loop.call_soon, task.cancel)


Scenario = Callable[[FakeCluster, Cut], Awaitable[None]]


async def walk(scenario: Scenario, way: str, version: str | None = None) -> None:
    """Run a scenario with cuts in ever later passes, until the call ends before its cut."""
    for passes in range(0, LONGEST, WAYS[way]):
        before = asyncio.all_tasks()
        topics = {"orders": 2, "meals": 2}
        async with FakeCluster(2, topics, version=version, broker_configs=AT_ONCE) as cluster:
            cut = Cut(cluster, way, passes)
            try:
                await scenario(cluster, cut)
                await assert_disconnected(cluster)
            except BaseException as error:
                error.add_note(f"{way} in pass {passes}")
                raise
        for _ in range(3):  # done callbacks
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        assert not timers()
        if not cut.made:
            break
    assert not cut.made, f"the call takes more than {LONGEST} passes"
    assert passes > 2 or WAYS[way] > 1  # it was cut several times


async def assert_disconnected(cluster: FakeCluster) -> None:
    for _ in range(100):
        if not any(server.connections for server in cluster._servers.values()):
            return
        await asyncio.sleep(0)
    raise AssertionError("a client that was stopped is connected")


def timers() -> list[asyncio.TimerHandle]:
    """The timers of this package."""
    loop: Any = asyncio.get_running_loop()
    pending = [each for each in loop._scheduled if not each.cancelled()]
    return [
        each
        for each in pending
        if (getattr(each._callback, "__module__", "") or "").startswith("aiokafka_lite")
    ]


async def assert_ends(call: Awaitable[object]) -> None:
    async with asyncio.timeout(PATIENCE):
        await call


def fill(cluster: FakeCluster, first: int = 0, end: int = COUNT) -> None:
    """Store number n in partition n % 2."""
    for number in range(first, end):
        cluster.produce("orders", b"%d" % number, partition=number % 2)


def stored(
    cluster: FakeCluster, topic: str = "orders", partition: int | None = None
) -> list[bytes]:
    """The records that "read_committed" consumers see."""
    found = cluster.records(topic, partition, committed_only=True)
    return [record.value or b"" for record in found]


# --- producers


def make_producer(cluster: FakeCluster, **options: Any) -> AIOKafkaProducer:
    servers = cluster.bootstrap_servers
    return AIOKafkaProducer(bootstrap_servers=servers, retry_backoff_ms=5, **options)


async def start_a_producer(cluster: FakeCluster, cut: Cut) -> None:
    producer = make_producer(cluster, transactional_id="till")
    if not await cut(producer.start()):
        await producer.start()
    async with producer.transaction():
        await producer.send("orders", b"sold")
    await producer.stop()
    assert stored(cluster) == [b"sold"]


async def send_with_little_memory(cluster: FakeCluster, cut: Cut) -> None:
    values = [b"%02d" % number + b"v" * 300 for number in range(8)]
    acked: list[bytes] = []
    producer = make_producer(cluster, max_batch_size=1000, buffer_memory=2000)
    await producer.start()

    async def send() -> None:
        acks = [await producer.send("orders", value, partition=0) for value in values]
        for value, ack in zip(values, acks, strict=True):
            await ack
            acked.append(value)

    await cut(send())
    await assert_ends(producer.send_and_wait("orders", b"next", partition=0))
    assert (producer._sender.pool.used, producer._sender.pool.waiting) == (0, 0)
    await producer.stop()
    found = stored(cluster)
    assert found == [*values[: len(found) - 1], b"next"]
    assert len(acked) < len(found)


async def stop_in_two_tasks(
    make: Callable[[FakeCluster], Any], cluster: FakeCluster, cut: Cut
) -> None:
    """Cutting one call does not cancel the other."""
    fill(cluster)
    client = make(cluster)
    await client.start()
    begun = []

    async def stop() -> None:
        begun.append(asyncio.ensure_future(client.stop()))
        await client.stop()

    await cut(stop())
    for other in begun:
        await assert_ends(other)
    await assert_ends(client.stop())


# --- transactions: all of it is visible or nothing, and the next one succeeds


async def commit(producer: AIOKafkaProducer) -> None:
    await producer.commit_transaction()


async def abort(producer: AIOKafkaProducer) -> None:
    await producer.abort_transaction()


async def commit_with_offsets(producer: AIOKafkaProducer) -> None:
    await producer.send_offsets_to_transaction({FIRST: 7}, "kitchen")
    await producer.commit_transaction()


async def end_by_hand(
    end: Callable[[AIOKafkaProducer], Awaitable[None]], cluster: FakeCluster, cut: Cut
) -> None:
    """A commit that was cut is repeated, and so is an abort."""
    producer = make_producer(cluster, transactional_id="till")
    await producer.start()
    await producer.begin_transaction()
    for value in (b"1", b"2", b"3"):
        await producer.send("orders", value, partition=int(value) % 2)
    if not await cut(end(producer)):
        await assert_ends(abort(producer) if end is abort else commit(producer))
    async with producer.transaction():
        await producer.send("orders", b"next", partition=0)
    await producer.stop()
    assert sorted(stored(cluster)) == ([b"next"] if end is abort else [b"1", b"2", b"3", b"next"])
    offsets = {("orders", 0): 7} if end is commit_with_offsets else {}
    assert cluster.committed("kitchen") == offsets


async def end_by_context(cluster: FakeCluster, cut: Cut) -> None:
    producer = make_producer(cluster, transactional_id="till")
    await producer.start()

    async def sell() -> None:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"1", partition=1)
            await producer.send_offsets_to_transaction({FIRST: 7}, "kitchen")
            await producer.send("orders", b"2", partition=0)

    await cut(sell())
    for end in (commit, abort):  # whichever continues; the other, or both, are refused
        try:
            await assert_ends(end(producer))
        except IllegalOperation:
            continue
    async with producer.transaction():
        await producer.send("orders", b"next", partition=0)
    await producer.stop()
    found = sorted(stored(cluster))
    assert found in ([b"next"], [b"1", b"2", b"next"])
    assert cluster.committed("kitchen") == ({("orders", 0): 7} if len(found) == 3 else {})
    assert cut.made or len(found) == 3


# --- consumers


def make_consumer(protocol: str | None, cluster: FakeCluster, **options: Any) -> AIOKafkaConsumer:
    group: dict[str, Any] = {}
    if protocol is not None:
        group = {"group_id": "kitchen", "group_protocol": protocol, "enable_auto_commit": False}
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        retry_backoff_ms=5,
        fetch_max_wait_ms=50,
        **{**group, **options},
    )


async def read_on(consumer: AIOKafkaConsumer, taken: list[Any]) -> None:
    """Read until there are `COUNT` records, each of them once and in order."""
    async with asyncio.timeout(PATIENCE):
        while len(taken) < COUNT:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                taken.extend(records)
    for partition in range(2):
        numbers = [int(record.value) for record in taken if record.partition == partition]
        assert numbers == list(range(partition, COUNT, 2))


async def start_a_consumer(protocol: str | None, cluster: FakeCluster, cut: Cut) -> None:
    fill(cluster)
    consumer = make_consumer(protocol, cluster)
    if not await cut(consumer.start()):
        await consumer.start()
    await read_on(consumer, [])
    if protocol is not None:
        await consumer.commit()
        assert cluster.committed("kitchen") == HALF
    await consumer.stop()


async def read_one(consumer: AIOKafkaConsumer, taken: list[Any]) -> None:
    taken.append(await consumer.getone())


async def read_many(consumer: AIOKafkaConsumer, taken: list[Any]) -> None:
    for records in (await consumer.getmany(timeout_ms=1000, max_records=3)).values():
        taken.extend(records)


async def iterate(consumer: AIOKafkaConsumer, taken: list[Any]) -> None:
    async for record in consumer:
        taken.append(record)
        return


async def read_batches(consumer: AIOKafkaConsumer, taken: list[Any]) -> None:
    """A batch counts once its processing, which awaits, has ended."""
    async with consumer.batches(max_records=3) as batches:
        async for batch in batches:
            records = list(batch.records)
            await asyncio.sleep(0)
            taken.extend(records)
            return


async def read(
    act: Callable[[AIOKafkaConsumer, list[Any]], Awaitable[None]], cluster: FakeCluster, cut: Cut
) -> None:
    """While records arrive."""
    loop = asyncio.get_running_loop()
    taken: list[Any] = []
    consumer = make_consumer("consumer", cluster)
    await consumer.start()
    for seconds in (0.01, 0.02, 0.03):
        number = round(seconds * 100 - 1) * 4
        loop.call_later(seconds, fill, cluster, number, number + 4)
    await cut(act(consumer, taken))
    await act(consumer, taken)
    await read_on(consumer, taken)
    await consumer.stop()


async def of_offsets(
    act: Callable[[AIOKafkaConsumer], Awaitable[object]], cluster: FakeCluster, cut: Cut
) -> None:
    """Everything is read and not committed; the call is repeated, and others follow."""
    fill(cluster)
    consumer = make_consumer("classic", cluster)
    await consumer.start()
    await read_on(consumer, [])
    await cut(act(consumer))
    assert cluster.committed("kitchen") in ({}, HALF)
    await assert_ends(act(consumer))
    await consumer.commit({FIRST: 5})
    assert await consumer.seek_to_committed(FIRST) == {FIRST: 5}
    assert await consumer.position(FIRST) == 5
    await consumer.seek_to_beginning()
    await read_on(consumer, [])
    await consumer.stop()


OF_OFFSETS: dict[str, Callable[[AIOKafkaConsumer], Awaitable[object]]] = {
    "commit of offsets": lambda consumer: consumer.commit(),
    "committed": lambda consumer: consumer.committed(FIRST),
    "seek_to_committed": lambda consumer: consumer.seek_to_committed(),
    "seek_to_end": lambda consumer: consumer.seek_to_end(),
    "end_offsets": lambda consumer: consumer.end_offsets([FIRST]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({FIRST: 0}),
}


# --- exactly once


async def cook(style: str, cluster: FakeCluster, cut: Cut) -> None:
    fill(cluster)
    consumer = make_consumer("classic", cluster, isolation_level="read_committed")
    producer = make_producer(cluster, transactional_id="cook")
    await consumer.start()
    await producer.start()

    def left() -> int:
        return COUNT - sum(cluster.committed("kitchen").values())

    async def process(batch: TransactionBatch) -> None:
        for record in batch:
            await producer.send("meals", record.value, partition=record.partition)

    async def loop() -> None:
        async with exactly_once(consumer, producer, max_records=5) as batches:
            async for batch in batches:
                await process(batch)
                if left() == len(batch):
                    return

    async def run() -> None:
        running = asyncio.ensure_future(
            exactly_once(consumer, producer, max_records=5).run(process)
        )
        try:
            while left() and not running.done():
                await asyncio.sleep(0.05)
        finally:
            running.cancel()
            await asyncio.wait([running])

    await cut(run() if style == "run" else loop())
    await assert_ends(run())
    await consumer.stop()
    await producer.stop()
    for partition in range(2):
        meals = [int(value) for value in stored(cluster, "meals", partition)]
        assert meals == list(range(partition, COUNT, 2))


# --- share consumers


def make_share_consumer(cluster: FakeCluster) -> AIOKafkaShareConsumer:
    cluster.configure_group("cooks", {"share.auto.offset.reset": "earliest"})
    return AIOKafkaShareConsumer(
        "orders",
        group_id="cooks",
        bootstrap_servers=cluster.bootstrap_servers,
        fetch_max_wait_ms=50,
        retry_backoff_ms=5,
    )


async def learn(acks: dict[int, Acknowledgement], accepted: set[int]) -> None:
    """Wait until each acknowledgement is stored or has failed."""
    outcomes = await asyncio.gather(*acks.values(), return_exceptions=True)
    accepted.update(number for number, failure in zip(acks, outcomes, strict=True) if not failure)


async def accept_all(
    consumer: AIOKafkaShareConsumer, cluster: FakeCluster, accepted: set[int]
) -> None:
    """Read the rest: no accepted record is redelivered."""
    async with asyncio.timeout(PATIENCE):
        while cluster.share_group("cooks").start_offsets != HALF:
            records = await consumer.getmany(timeout_ms=1000)
            assert accepted.isdisjoint(int(record.value) for record in records)
            await learn({int(record.value): record.accept() for record in records}, accepted)
    assert not cluster.share_group("cooks").acquired


async def start_a_share_consumer(cluster: FakeCluster, cut: Cut) -> None:
    fill(cluster)
    consumer = make_share_consumer(cluster)
    if not await cut(consumer.start()):
        await consumer.start()
    await accept_all(consumer, cluster, set())
    await consumer.stop()


async def stop_a_share_consumer(cluster: FakeCluster, cut: Cut) -> None:
    """An acknowledgement that is reported as sent is stored; records that it did not cover are
    free."""
    fill(cluster)
    consumer, successor = make_share_consumer(cluster), make_share_consumer(cluster)
    await consumer.start()
    records = list(await consumer.getmany(timeout_ms=1000, max_records=5))
    acks = {int(record.value): record.accept() for record in records[:2]}
    await cut(consumer.stop())
    await assert_ends(consumer.stop())
    accepted: set[int] = set()
    await learn(acks, accepted)
    await successor.start()
    await accept_all(successor, cluster, accepted)
    await successor.stop()
    assert accepted >= set(range(COUNT)) - acks.keys()


class Sharing:
    """A share consumer, the records that its reads have returned, and their acknowledgements."""

    def __init__(self, consumer: AIOKafkaShareConsumer) -> None:
        self.consumer = consumer
        self.taken: list[ShareRecord[bytes, bytes]] = []
        self.acks: dict[int, Acknowledgement] = {}

    def accept(self) -> None:
        """Accept the records that were taken and are not yet accepted."""
        for record in self.taken:
            if not record.settled:
                self.acks[int(record.value)] = record.accept()

    async def one(self) -> None:
        self.taken.append(await self.consumer.getone())

    async def many(self) -> None:
        self.taken.extend(await self.consumer.getmany(timeout_ms=1000, max_records=3))

    async def one_accepted(self) -> None:
        await self.one()
        self.accept()
        with suppress(KafkaConnectionError):  # the answer was lost
            await self.acks[int(self.taken[-1].value)]

    async def many_flushed(self) -> None:
        await self.many()
        self.accept()
        await self.consumer.flush()


async def share(act: Callable[[Sharing], Awaitable[None]], cluster: FakeCluster, cut: Cut) -> None:
    """While records arrive. The returned records are accepted; the rest arrives later."""
    consumer = make_share_consumer(cluster)
    await consumer.start()
    fill(cluster, 0, 4)
    asyncio.get_running_loop().call_later(0.02, fill, cluster, 4, COUNT)
    sharing = Sharing(consumer)
    await cut(act(sharing))
    sharing.accept()
    accepted: set[int] = set()
    await learn(sharing.acks, accepted)
    assert not cut.harmless or accepted == sharing.acks.keys()
    await accept_all(consumer, cluster, accepted)
    assert not cut.harmless or accepted == set(range(COUNT))
    await consumer.stop()


async def run_handlers(cluster: FakeCluster, cut: Cut) -> None:
    """A handler that has ended is not called again with its record, unless it was cancelled."""
    fill(cluster)
    begun: Counter[int] = Counter()
    consumer = make_share_consumer(cluster)
    await consumer.start()

    async def handle(record: ShareRecord[bytes, bytes]) -> None:
        number = int(record.value)
        begun[number] += 1
        await asyncio.sleep(0.002 * (number % 3))

    async def run_until_accepted() -> None:
        running = asyncio.ensure_future(consumer.run(handle, concurrency=3))
        try:
            while cluster.share_group("cooks").start_offsets != HALF:
                await asyncio.sleep(0.05)
        finally:
            running.cancel()
            await asyncio.wait([running])

    ended = await cut(run_until_accepted())
    await assert_ends(run_until_accepted())
    assert begun.keys() == set(range(COUNT))
    assert not cut.harmless or begun.total() <= COUNT + (0 if ended else 3)
    assert not cluster.share_group("cooks").acquired
    await consumer.stop()


# --- clients


async def bootstrap(cluster: FakeCluster, cut: Cut) -> None:
    client = AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers)
    if not await cut(client.bootstrap()):
        await client.bootstrap()
    assert "orders" in (await client.fetch_all_metadata()).topics()
    await client.close()


async def ask(cluster: FakeCluster, cut: Cut) -> None:
    async with AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:

        async def call() -> None:
            await client.ping()
            await client.coordinator_lookup(0, "kitchen")
            await client.add_topic("orders")
            await client.committed_offsets("kitchen")

        await cut(call())
        await assert_ends(call())


SCENARIOS: dict[str, Scenario] = {
    "start of a producer": start_a_producer,
    "send with little memory": send_with_little_memory,
    "stop of a producer": partial(stop_in_two_tasks, make_producer),
    "commit of a transaction": partial(end_by_hand, commit),
    "abort of a transaction": partial(end_by_hand, abort),
    "transaction with offsets": partial(end_by_hand, commit_with_offsets),
    "transaction()": end_by_context,
    "start of a consumer": partial(start_a_consumer, None),
    "start in a classic group": partial(start_a_consumer, "classic"),
    "start in a consumer group": partial(start_a_consumer, "consumer"),
    "stop of a consumer": partial(stop_in_two_tasks, partial(make_consumer, "classic")),
    "getone": partial(read, read_one),
    "getmany": partial(read, read_many),
    "async for": partial(read, iterate),
    "batches": partial(read, read_batches),
    **{name: partial(of_offsets, act) for name, act in OF_OFFSETS.items()},
    "exactly_once": partial(cook, "loop"),
    "exactly_once.run": partial(cook, "run"),
    "start of a share consumer": start_a_share_consumer,
    "stop of a share consumer": stop_a_share_consumer,
    "getone of a share consumer": partial(share, Sharing.one),
    "getmany of a share consumer": partial(share, Sharing.many),
    "accept": partial(share, Sharing.one_accepted),
    "flush of a share consumer": partial(share, Sharing.many_flushed),
    "run": run_handlers,
    "bootstrap": bootstrap,
    "calls of a client": ask,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_call_is_cut_in_every_pass(name: str, way: str) -> None:
    await walk(SCENARIOS[name], way)


@pytest.mark.parametrize("name", [each for each in SCENARIOS if "transaction" in each])
async def test_a_transaction_that_registers_its_partitions_is_cut_in_every_pass(name: str) -> None:
    """As before Kafka 4.0, and so with more requests."""
    await walk(SCENARIOS[name], "cancelled", version="3.9")
