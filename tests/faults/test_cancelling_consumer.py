"""Cancels consumer operations at every step: no record is lost or duplicated, no task is leaked.

In `exhaustively`, an operation is cancelled before its first loop pass, after one, after two, and
so on, until it ends before it is cancelled, and so at each of its awaits. At random, many calls
are cancelled concurrently while brokers fail and the group rebalances.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyPartitionAssignor,
)
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.seeds import seeds

PARTITIONS = 2
FIRST = 20  # records that are there when a consumer starts
PATIENCE = 60  # seconds; uvloop's clock keeps running while a busy machine does not
LONGEST = 3_000  # loop passes: far more than any of these takes
QUICK = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 50,
}
KINDS: dict[str, dict[str, Any]] = {
    "alone": {},
    "classic": {"session_timeout_ms": 20_000, "heartbeat_interval_ms": 50},
    "consumer": {"group_protocol": "consumer"},
}


class Reading:
    """A consumer, and everything that its reads returned.

    Attributes:
        values: In the order in which they came, by partition.
    """

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self.consumer = consumer
        self.values: dict[int, list[bytes]] = {n: [] for n in range(PARTITIONS)}

    @property
    def count(self) -> int:
        return sum(map(len, self.values.values()))

    def took(self, record: Any) -> None:
        self.values[record.partition].append(record.value)

    async def one(self) -> None:
        self.took(await self.consumer.getone())

    async def one_of_a_partition(self) -> None:
        self.took(await self.consumer.getone(TopicPartition("orders", 1)))

    async def many(self) -> None:
        for records in (await self.consumer.getmany(timeout_ms=1_000, max_records=7)).values():
            for record in records:
                self.took(record)

    async def iterate(self) -> None:
        async for record in self.consumer:
            self.took(record)
            return

    async def rest(self, count: int) -> None:
        """Read on, undisturbed, until there are this many."""
        async with asyncio.timeout(PATIENCE):
            while self.count < count:
                await self.many()

    def assert_each_once(self, count: int) -> None:
        found = {n: [int(value) for value in values] for n, values in self.values.items()}
        assert found == {n: list(range(n, count, PARTITIONS)) for n in range(PARTITIONS)}


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    topics = {"orders": PARTITIONS}
    async with FakeCluster(brokers=2, topics=topics, broker_configs=QUICK) as running:
        yield running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def make(cluster: FakeCluster, kind: str, **options: Any) -> AIOKafkaConsumer:
    settings: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 1,
        "request_timeout_ms": 30_000,
        "fetch_max_wait_ms": 50,
        "enable_auto_commit": False,
    }
    if kind != "alone":
        settings["group_id"] = f"{kind}-{random.random()}"
    return AIOKafkaConsumer("orders", **{**settings, **KINDS[kind], **options})


async def write(producer: AIOKafkaProducer, first: int, count: int) -> None:
    """Number n into partition n % 2."""
    acks = [
        await producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
        for number in range(first, first + count)
    ]
    await asyncio.gather(*acks)


@pytest.fixture
async def producer(cluster: FakeCluster) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as running:
        yield running


async def cancelled_after(passes: int, awaitable: Awaitable[object]) -> bool:
    """Cancel after a number of loop passes; True if it had already ended."""
    task = asyncio.ensure_future(awaitable)
    for _ in range(passes):
        if task.done():
            break
        await asyncio.sleep(0)
    ended = task.done()
    task.cancel()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    assert not isinstance(result, Exception), repr(result)
    return ended


async def assert_no_task_is_left(before: "set[asyncio.Task[Any]]") -> None:
    for _ in range(10):  # cancelled tasks end within some passes of the loop
        names = {task: task.get_name() for task in asyncio.all_tasks() - before}
        left = [n for n in names.values() if "aiokafka_lite" in n and "producer" not in n]
        if not left:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"left running: {left}")


READS: list[Callable[[Reading], Awaitable[None]]] = [
    Reading.one,
    Reading.one_of_a_partition,
    Reading.many,
    Reading.iterate,
]


@pytest.mark.parametrize("read", READS, ids=lambda each: each.__name__)
async def test_a_read_is_cancelled_at_each_step(
    cluster: FakeCluster,
    producer: AIOKafkaProducer,
    kind: str,
    read: Callable[[Reading], Awaitable[None]],
) -> None:
    """While records are buffered, while none are, and just as some arrive."""
    count = 0
    async with make(cluster, kind) as consumer:
        reading = Reading(consumer)
        for round_ in range(42):
            writing = asyncio.create_task(write(producer, count, PARTITIONS * 2))
            count += PARTITIONS * 2
            # A few reads at once, and each is cancelled some passes later than the one before.
            for passes in range(round_ % 7, 60, 7):
                await cancelled_after(passes, read(reading))
            await writing
        await reading.rest(count)
        reading.assert_each_once(count)


@pytest.mark.parametrize("seed", seeds(2))
async def test_random_cancellations_of_reads_with_failing_brokers(
    cluster: FakeCluster, producer: AIOKafkaProducer, kind: str, seed: int
) -> None:
    draw = random.Random(seed)
    before = asyncio.all_tasks()
    total = 600
    consumer = make(cluster, kind)
    async with consumer:
        reading = Reading(consumer)

        async def weather() -> None:
            while True:
                match draw.randrange(5):
                    case 0:
                        cluster.control(ApiKey.FETCH, after_handling=True, disconnect=True)
                    case 1:
                        cluster.control(ApiKey.FETCH, error=draw.choice([6, 9, 70, 71]))
                    case 2:
                        cluster.disconnect(draw.randrange(2))
                    case 3:
                        cluster.control(ApiKey.FETCH, delay=0.02)
                    case 4:
                        cluster.move_leader("orders", draw.randrange(2), draw.randrange(2))
                await asyncio.sleep(draw.random() * 0.03)

        async def writing() -> None:
            for first in range(0, total, 20):
                await write(producer, first, 20)
                await asyncio.sleep(draw.random() * 0.02)

        troubles = asyncio.create_task(weather())
        written = asyncio.create_task(writing())
        while not written.done():
            read = draw.choice(READS)(reading)
            await cancelled_after(draw.randrange(40), read)
            await asyncio.sleep(draw.random() * 0.003)
        await written
        troubles.cancel()
        await asyncio.wait([troubles])
        await reading.rest(total)
        reading.assert_each_once(total)
    await assert_no_task_is_left(before)


GROUPS: dict[str, dict[str, Any]] = {
    "eager": KINDS["classic"],
    "cooperative": {
        **KINDS["classic"],
        "partition_assignment_strategy": [CooperativeStickyPartitionAssignor],
    },
    "consumer": KINDS["consumer"],
}


@pytest.mark.parametrize("protocol", GROUPS)
async def test_random_cancellations_of_reads_during_rebalances(
    cluster: FakeCluster, producer: AIOKafkaProducer, protocol: str
) -> None:
    """Returned records are committed when partitions move, so each is returned once."""
    draw = random.Random(1)
    total = 600
    group = {
        **GROUPS[protocol],
        "group_id": "readers",
        "enable_auto_commit": True,
        "auto_commit_interval_ms": 60_000,
    }
    given: list[Reading] = []
    end = asyncio.Event()

    async def read_for(reading: Reading, seconds: float) -> None:
        ends = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends:
            await cancelled_after(draw.randrange(40), draw.choice(READS)(reading))
            await asyncio.sleep(draw.random() * 0.003)

    async def guest() -> None:
        while not end.is_set():
            async with make(cluster, "alone", **group) as consumer:
                given.append(Reading(consumer))
                await read_for(given[-1], draw.random() * 0.3)

    async def writing() -> None:
        for first in range(0, total, 20):
            await write(producer, first, 20)
            await asyncio.sleep(draw.random() * 0.06)

    async with make(cluster, "alone", **group) as host:
        given.append(Reading(host))
        visits = asyncio.create_task(guest())
        written = asyncio.create_task(writing())
        while not written.done() or len(given) <= 2:  # the host and two guests, at least
            await read_for(given[0], 0.05)
        await written
        end.set()
        await visits  # not cancelled: a cancelled stop() may close before it commits
        async with asyncio.timeout(PATIENCE):
            while sum(each.count for each in given) < total:
                await given[0].many()
    values = [int(v) for each in given for some in each.values.values() for v in some]
    assert sorted(values) == list(range(total))


# --- everything else that can be awaited


async def commit(consumer: AIOKafkaConsumer) -> None:
    await consumer.commit()


async def commit_some(consumer: AIOKafkaConsumer) -> None:
    await consumer.commit({TopicPartition("orders", 0): 3})


async def committed(consumer: AIOKafkaConsumer) -> None:
    await consumer.committed(TopicPartition("orders", 0))


async def position(consumer: AIOKafkaConsumer) -> None:
    for tp in consumer.assignment():
        await consumer.position(tp)


async def seek_to_beginning(consumer: AIOKafkaConsumer) -> None:
    await consumer.seek_to_beginning()


async def seek_to_end_and_back(consumer: AIOKafkaConsumer) -> None:
    await consumer.seek_to_end()
    await consumer.seek_to_beginning()


async def seek_to_committed(consumer: AIOKafkaConsumer) -> None:
    await consumer.seek_to_committed()


async def end_offsets(consumer: AIOKafkaConsumer) -> None:
    await consumer.end_offsets([TopicPartition("orders", n) for n in range(PARTITIONS)])


async def offsets_for_times(consumer: AIOKafkaConsumer) -> None:
    await consumer.offsets_for_times({TopicPartition("orders", 0): 0})


async def resubscribe(consumer: AIOKafkaConsumer) -> None:
    consumer.unsubscribe()
    await asyncio.sleep(0)
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        await asyncio.sleep(0)


Operation = Callable[[AIOKafkaConsumer], Awaitable[None]]
OFFSETS: list[Operation] = [
    position,
    seek_to_beginning,
    seek_to_end_and_back,
    end_offsets,
    offsets_for_times,
    resubscribe,
]
OF_GROUPS: list[Operation] = [commit, commit_some, committed, seek_to_committed]


@pytest.mark.parametrize("operation", OFFSETS + OF_GROUPS, ids=lambda each: each.__name__)
async def test_an_operation_is_cancelled_at_each_step(
    cluster: FakeCluster, producer: AIOKafkaProducer, kind: str, operation: Operation
) -> None:
    if kind == "alone" and operation in OF_GROUPS:
        pytest.skip("needs a group")
    await write(producer, 0, FIRST)
    before = asyncio.all_tasks()
    ended = False
    async with make(cluster, kind) as consumer:
        for passes in range(LONGEST):
            await consumer.getone()
            ended = await cancelled_after(passes, operation(consumer))
            if not consumer.subscription():
                consumer.subscribe(["orders"])
            # The consumer still works: the same call once more, and reading from the start.
            async with asyncio.timeout(PATIENCE):
                await operation(consumer)
                await consumer.seek_to_beginning()
            reading = Reading(consumer)
            await reading.rest(FIRST)
            reading.assert_each_once(FIRST)
            await consumer.seek_to_beginning()
            if ended:
                break
    assert ended, f"{operation.__name__} takes more than {LONGEST} passes"
    await assert_no_task_is_left(before)


async def test_start_is_cancelled_at_each_step(
    cluster: FakeCluster, producer: AIOKafkaProducer, kind: str
) -> None:
    before = asyncio.all_tasks()
    for passes in range(LONGEST):
        consumer = make(cluster, kind)
        ended = await cancelled_after(passes, consumer.start())
        await asyncio.wait_for(consumer.stop(), PATIENCE)
        await assert_no_task_is_left(before)
        if ended:
            break
    assert ended
    assert passes > 3


async def test_stop_is_cancelled_at_each_step(
    cluster: FakeCluster, producer: AIOKafkaProducer, kind: str
) -> None:
    await write(producer, 0, FIRST)
    before = asyncio.all_tasks()
    for passes in range(LONGEST):
        consumer = make(cluster, kind)
        await consumer.start()
        await consumer.getone()
        ended = await cancelled_after(passes, consumer.stop())
        await asyncio.wait_for(consumer.stop(), PATIENCE)
        await assert_no_task_is_left(before)
        if ended:
            break
    assert ended


async def test_record_goes_to_one_of_many_cancelled_readers(
    cluster: FakeCluster, producer: AIOKafkaProducer, kind: str
) -> None:
    """Many readers wait; some are cancelled in the loop pass in which the record arrives."""
    draw = random.Random(1)
    async with make(cluster, kind) as consumer:
        reading = Reading(consumer)
        for count in range(0, 200, PARTITIONS):
            crowd = [asyncio.create_task(draw.choice(READS[:3])(reading)) for _ in range(6)]
            writing = asyncio.create_task(write(producer, count, PARTITIONS))
            for _ in range(draw.randrange(30)):
                await asyncio.sleep(0)
            for task in crowd:
                task.cancel()
            results = await asyncio.gather(*crowd, return_exceptions=True)
            assert not [each for each in results if isinstance(each, KafkaError)]
            await writing
        await reading.rest(count + PARTITIONS)
        assert sorted(int(v) for values in reading.values.values() for v in values) == list(
            range(count + PARTITIONS)
        )
