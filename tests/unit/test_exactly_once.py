"""`exactly_once` on the embedded cluster, with transactions v1 and v2."""

import asyncio
import gc
import warnings
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, exactly_once
from aiokafka_lite.errors import (
    CommitFailedError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    IllegalOperation,
    KafkaError,
    NotCoordinatorError,
    ProducerFenced,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.read_process_write import ExactlyOnce, TransactionBatch
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

INPUT, OUTPUT, GROUP = "orders", "meals", "kitchen"
PARTITIONS = 3

Make = Callable[..., Any]


@pytest.fixture(params=["3.9", None], ids=["adds partitions", "batches add"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[FakeCluster]:
    async with FakeCluster(
        topics={INPUT: PARTITIONS, OUTPUT: PARTITIONS}, version=request.param
    ) as cluster:
        yield cluster


@pytest.fixture
async def make(cluster: FakeCluster) -> AsyncIterator[Make]:
    """Creates and starts a consumer or producer; stops all of them after the test."""
    made: list[Any] = []

    async def make(kind: Any, *topics: str, **options: Any) -> Any:
        defaults: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "retry_backoff_ms": 10,
        }
        if kind is AIOKafkaConsumer:
            defaults |= {
                "group_id": GROUP,
                "enable_auto_commit": False,
                "auto_offset_reset": "earliest",
                "isolation_level": "read_committed",
                "fetch_max_wait_ms": 50,
            }
        else:
            defaults |= {"transactional_id": "cook"}
        one = kind(*topics, **{**defaults, **options})
        made.append(one)
        await one.start()
        return one

    yield make
    for one in made:
        await one.stop()


@pytest.fixture
async def consumer(make: Make) -> AIOKafkaConsumer:
    consumer: AIOKafkaConsumer = await make(AIOKafkaConsumer, INPUT)
    return consumer


@pytest.fixture
async def producer(make: Make) -> AIOKafkaProducer:
    producer: AIOKafkaProducer = await make(AIOKafkaProducer)
    return producer


def fill(cluster: FakeCluster, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        cluster.produce(INPUT, b"%d" % number, partition=number % PARTITIONS)


def read_so_far(cluster: FakeCluster) -> int:
    return sum(cluster.committed(GROUP).values())


async def output(cluster: FakeCluster) -> list[int]:
    """All records that a read_committed consumer reads, in order."""
    found: dict[TopicPartition, list[int]] = {}
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        places = [TopicPartition(OUTPUT, number) for number in range(PARTITIONS)]
        consumer.assign(places)
        ends = {tp: cluster.partition(*tp).log.end_offset for tp in places}
        async with asyncio.timeout(20):
            while any([await consumer.position(tp) < ends[tp] for tp in places]):
                for tp, records in (await consumer.getmany(timeout_ms=50)).items():
                    found.setdefault(tp, []).extend(int(record.value or b"") for record in records)
    assert all(values == sorted(values) for values in found.values())
    return sorted(value for values in found.values() for value in values)


async def cook(producer: AIOKafkaProducer, batch: TransactionBatch) -> None:
    for record in batch:
        await producer.send(OUTPUT, record.value, partition=record.partition)


async def cook_all(
    cluster: FakeCluster,
    consumer: AIOKafkaConsumer,
    producer: AIOKafkaProducer,
    count: int,
    max_records: int = 4,
) -> None:
    """Wait until this many offsets are committed."""
    async with asyncio.timeout(20):
        async with exactly_once(consumer, producer, max_records=max_records) as batches:
            async for batch in batches:
                await cook(producer, batch)
                if read_so_far(cluster) + len(batch) >= count:
                    break


async def fail_at(
    consumer: AIOKafkaConsumer,
    producer: AIOKafkaProducer,
    act: Callable[[ExactlyOnce, TransactionBatch], Awaitable[None]],
    max_records: int | None = None,
) -> None:
    """Process the batches in the body of a loop, and act on each."""
    async with exactly_once(consumer, producer, max_records=max_records) as batches:
        async for batch in batches:
            await cook(producer, batch)
            await act(batches, batch)


async def stumble(*_: object) -> None:
    raise ZeroDivisionError


# Without failures


async def test_output_of_each_record_is_stored_once(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 50)
    await cook_all(cluster, consumer, producer, 50)
    assert await output(cluster) == list(range(50))
    assert read_so_far(cluster) == 50
    fill(cluster, 10, first=50)
    await cook_all(cluster, consumer, producer, 60)
    assert await output(cluster) == list(range(60))


async def test_batch_has_several_partitions_and_stays_within_its_limit(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 30)
    sizes = []
    async with exactly_once(consumer, producer, max_records=12) as batches:
        async for batch in batches:
            assert 0 < len(batch) == len(list(batch)) <= 12
            assert batch.offsets == {
                part.topic_partition: OffsetAndMetadata(part.records[-1].offset + 1, "")
                for part in batch.parts
            }
            sizes.append(len(batch))
            if sum(sizes) == 30:
                break
    assert max(sizes) == 12
    assert read_so_far(cluster) == 30


async def test_batch_is_committed_when_the_next_is_requested(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 9)
    async with exactly_once(consumer, producer, max_records=3) as batches:
        done = 0
        async for batch in batches:
            assert read_so_far(cluster) == done
            await cook(producer, batch)
            done += len(batch)
            if done == 9:
                break
        assert read_so_far(cluster) < 9
    assert read_so_far(cluster) == 9


async def test_manually_assigned_partitions(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 9)
    consumer = await make(AIOKafkaConsumer)
    consumer.assign([TopicPartition(INPUT, 1)])
    await cook_all(cluster, consumer, producer, 3)
    assert await output(cluster) == [1, 4, 7]
    assert cluster.committed(GROUP) == {(INPUT, 1): 3}


async def test_stopping_the_consumer_ends_the_loop_after_its_batch(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 9)
    async with exactly_once(consumer, producer) as batches:
        async for batch in batches:
            stop = asyncio.create_task(consumer.stop())
            await asyncio.sleep(0.05)
            await cook(producer, batch)
    await stop
    done = read_so_far(cluster)
    assert done
    assert len(await output(cluster)) == done


# Leaving the loop


async def test_batch_is_read_again_after_an_exception(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 12)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await fail_at(consumer, producer, stumble, max_records=6)
    assert await output(cluster) == []
    await cook_all(cluster, consumer, producer, 12)
    assert await output(cluster) == list(range(12))


async def test_leaving_a_loop_without_a_block_aborts_its_batch(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 12)
    seen = 0
    async for batch in exactly_once(consumer, producer, max_records=3):
        await cook(producer, batch)
        seen += 1
        if seen == 3:
            break

    async def fail() -> None:
        async for batch in exactly_once(consumer, producer, max_records=3):
            await cook(producer, batch)
            await stumble()

    with pytest.raises(ZeroDivisionError):
        await fail()
    await cook_all(cluster, consumer, producer, 12)
    assert await output(cluster) == list(range(12))
    assert consumer._core.group is not None
    assert consumer._core.group.work is None


@pytest.mark.parametrize("steps", [0, 3])
async def test_another_loop_over_the_same_object_commits_no_batch_that_failed(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, steps: int
) -> None:
    fill(cluster, 12)
    batches = exactly_once(consumer, producer, max_records=3)
    failures, seen = 3, 0
    async with asyncio.timeout(20):
        while seen < 12:
            try:
                async for batch in batches:
                    await cook(producer, batch)
                    if failures:
                        failures -= 1
                        await stumble()
                    seen = read_so_far(cluster) + len(batch)
                    if seen == 12:
                        break
            except ZeroDivisionError:
                for _ in range(steps):
                    await asyncio.sleep(0)
    await cook_all(cluster, consumer, producer, 12)
    assert await output(cluster) == list(range(12))


async def test_batch_of_a_loop_within_a_generator_is_read_again_after_an_exception(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    """The generator, and with it the loop, is closed after the next loop has begun."""
    fill(cluster, 12)
    batches = exactly_once(consumer, producer, max_records=6)

    async def orders() -> AsyncGenerator[Any, None]:
        async for batch in batches:
            for record in batch:
                yield record

    left = orders()

    async def work() -> None:
        async for record in left:
            await producer.send(OUTPUT, record.value, partition=record.partition)
            await stumble()

    with pytest.raises(ZeroDivisionError):
        await work()
    async with asyncio.timeout(20):
        async for batch in batches:
            await cook(producer, batch)
            if read_so_far(cluster) + len(batch) >= 12:
                break
    await cook_all(cluster, consumer, producer, 12)
    await left.aclose()
    assert await output(cluster) == list(range(12))


async def cook_and_wait(
    consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> asyncio.Task[None]:
    """Return a task that has written the results of its first batch, and does not go on."""
    reached = asyncio.Event()

    async def work() -> None:
        async with exactly_once(consumer, producer, max_records=6) as batches:
            async for batch in batches:
                await cook(producer, batch)
                reached.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await reached.wait()
    return task


async def test_batch_of_a_cancelled_task_is_read_again(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 12)
    task = await cook_and_wait(consumer, producer)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await output(cluster) == []
    await cook_all(cluster, consumer, producer, 12)
    assert await output(cluster) == list(range(12))


async def test_stop_does_not_wait_for_a_batch_whose_block_was_cancelled_twice(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 12)
    task = await cook_and_wait(consumer, producer)
    fault = cluster.control(ApiKey.END_TXN, delay=0.3)
    task.cancel()
    await fault.struck()
    task.cancel()  # during the abort
    with pytest.raises(asyncio.CancelledError):
        await task
    loop = asyncio.get_running_loop()
    began = loop.time()
    await consumer.stop()
    assert loop.time() - began < 1


@pytest.mark.parametrize("api", [ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN], ids=lambda a: a.name)
@pytest.mark.parametrize("steps", [0, 1, 3])
async def test_cancelled_commit_loses_nothing(
    cluster: FakeCluster,
    consumer: AIOKafkaConsumer,
    producer: AIOKafkaProducer,
    api: ApiKey,
    steps: int,
) -> None:
    fill(cluster, 12)
    fault = cluster.control(api, delay=0.05)

    async def work() -> None:
        async with exactly_once(consumer, producer, max_records=6) as batches:
            async for batch in batches:
                await cook(producer, batch)

    task = asyncio.create_task(work())
    async with asyncio.timeout(10):
        while not fault.hits:
            await asyncio.sleep(0.001)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await cook_all(cluster, consumer, producer, 12)
    assert await output(cluster) == list(range(12))


async def test_task_that_is_cancelled_while_a_failed_commit_is_aborted(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 12)
    refused = TransactionAbortableError.errno
    cluster.control(ApiKey.END_TXN, error=refused, when=lambda request: request.committed)
    abort = cluster.control(ApiKey.END_TXN, delay=0.3, when=lambda request: not request.committed)

    async def work() -> None:
        async with exactly_once(consumer, producer) as batches:
            async for batch in batches:
                await cook(producer, batch)

    task = asyncio.create_task(work())
    await abort.struck()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await cook_all(cluster, consumer, producer, 12)
    assert await output(cluster) == list(range(12))


@pytest.mark.parametrize("pause", [0, 1], ids=["aborting", "aborted"])
@pytest.mark.parametrize("refused", ["offsets", "commit"])
async def test_abort_that_was_cancelled_is_continued_by_the_next_call(
    cluster: FakeCluster,
    consumer: AIOKafkaConsumer,
    producer: AIOKafkaProducer,
    refused: str,
    pause: float,
) -> None:
    fill(cluster, 12)
    async with exactly_once(consumer, producer) as batches:
        await cook(producer, await batches.next_batch())
        if refused == "offsets":
            cluster.control(ApiKey.TXN_OFFSET_COMMIT, error=IllegalGenerationError.errno)
        else:
            code = TransactionAbortableError.errno
            cluster.control(ApiKey.END_TXN, error=code, when=lambda request: request.committed)
        abort = cluster.control(
            ApiKey.END_TXN, delay=0.5, when=lambda request: not request.committed
        )
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(batches.next_batch(), 0.2)
        assert abort.hits == 1
        await asyncio.sleep(pause)
        await cook(producer, await batches.next_batch())
    if read_so_far(cluster) < 12:
        await cook_all(cluster, consumer, producer, 12)
    assert await output(cluster) == list(range(12))


async def test_records_taken_before_an_interrupt_are_read_again(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    """It interrupts the decoding of the second partition of a batch."""
    fill(cluster, 12)

    class Interrupt(BaseException):
        """Not an error of the deserializer, such as a KeyboardInterrupt."""

    interrupts = [Interrupt()]
    decoded: set[int] = set()

    def deserialize(value: bytes) -> bytes:
        decoded.add(int(value) % PARTITIONS)
        if len(decoded) == 2 and interrupts:
            raise interrupts.pop()
        return value

    consumer = await make(AIOKafkaConsumer, INPUT, value_deserializer=deserialize)
    async with asyncio.timeout(10):
        while len(consumer._core.buffer._line) < PARTITIONS:
            await asyncio.sleep(0.001)
    with pytest.raises(Interrupt):
        await cook_all(cluster, consumer, producer, 12, max_records=12)
    assert await output(cluster) == []
    await cook_all(cluster, consumer, producer, 12)
    assert await output(cluster) == list(range(12))


async def test_position_set_by_seek_is_kept_after_an_abort(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 12)
    sought: list[TopicPartition] = []

    async def seek(_: ExactlyOnce, batch: TransactionBatch) -> None:
        for part in batch.parts:
            consumer.seek(part.topic_partition, 3)
            sought.append(part.topic_partition)
        await stumble()

    with pytest.raises(ZeroDivisionError):
        await fail_at(consumer, producer, seek)
    assert sought
    for tp in sought:
        assert await consumer.position(tp) == 3


# Failures

PASSING = [
    (ApiKey.PRODUCE, TransactionAbortableError),
    (ApiKey.TXN_OFFSET_COMMIT, IllegalGenerationError),
    (ApiKey.TXN_OFFSET_COMMIT, NotCoordinatorError),
    (ApiKey.END_TXN, TransactionAbortableError),
    (ApiKey.END_TXN, NotCoordinatorError),
]


@pytest.mark.parametrize(("api", "error"), PASSING, ids=lambda each: getattr(each, "name", ""))
async def test_batch_is_repeated_after_a_retriable_error(
    cluster: FakeCluster,
    consumer: AIOKafkaConsumer,
    producer: AIOKafkaProducer,
    api: ApiKey,
    error: type[Any],
) -> None:
    fill(cluster, 24)
    times = 1 if api is ApiKey.END_TXN else 2  # or the abort would also be refused
    fault = cluster.control(api, error=error.errno, times=times)
    await cook_all(cluster, consumer, producer, 24, max_records=8)
    assert fault.hits == times
    assert await output(cluster) == list(range(24))


@pytest.mark.parametrize(
    ("api", "error"),
    [
        (ApiKey.PRODUCE, TopicAuthorizationFailedError),
        (ApiKey.TXN_OFFSET_COMMIT, GroupAuthorizationFailedError),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
async def test_lasting_error_is_raised_and_the_batch_read_again(
    cluster: FakeCluster,
    consumer: AIOKafkaConsumer,
    producer: AIOKafkaProducer,
    api: ApiKey,
    error: type[Any],
) -> None:
    fill(cluster, 12)
    cluster.control(api, error=error.errno)
    with pytest.raises(error):
        await cook_all(cluster, consumer, producer, 12, max_records=12)
    await cook_all(cluster, consumer, producer, 12)
    assert await output(cluster) == list(range(12))


async def test_run_repeats_the_function_after_a_retriable_error(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 24)
    calls = 0

    async def process(batch: TransactionBatch) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            cluster.control(ApiKey.PRODUCE, error=TransactionAbortableError.errno)
            ack = await producer.send(OUTPUT, b"-1", partition=0)
            await ack
        await cook(producer, batch)
        if read_so_far(cluster) + len(batch) == 24:
            stops.append(asyncio.create_task(consumer.stop()))

    stops: list[asyncio.Task[None]] = []
    async with asyncio.timeout(20):
        await exactly_once(consumer, producer, max_records=8).run(process)
    await asyncio.gather(*stops)
    assert calls >= 4
    assert await output(cluster) == list(range(24))


async def test_exception_of_the_function_ends_run(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 6)

    async def fail(batch: TransactionBatch) -> None:
        await cook(producer, batch)
        raise KafkaError("of its own")

    with pytest.raises(KafkaError, match="of its own"):
        await exactly_once(consumer, producer).run(fail)
    await cook_all(cluster, consumer, producer, 6)
    assert await output(cluster) == list(range(6))


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
async def test_commit_outcome_is_resolved_after_the_producer_is_fenced(
    cluster: FakeCluster, make: Make, consumer: AIOKafkaConsumer, answered: bool
) -> None:
    """Both if the commit took place before it was fenced, and if not."""
    fill(cluster, 12)
    producer = await make(AIOKafkaProducer)
    cluster.control(ApiKey.END_TXN, after_handling=answered, error=ProducerFenced.errno)
    with pytest.raises(ProducerFenced):
        await cook_all(cluster, consumer, producer, 12, max_records=12)
    successor = await make(AIOKafkaProducer)
    fill(cluster, 3, first=12)
    await cook_all(cluster, consumer, successor, 15)
    assert await output(cluster) == list(range(15))


async def test_zombie_is_fenced(
    cluster: FakeCluster, make: Make, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 12)
    successors: list[AIOKafkaProducer] = []

    async def succeed(*_: object) -> None:
        successors.append(await make(AIOKafkaProducer))

    with pytest.raises(ProducerFenced):
        await fail_at(consumer, producer, succeed, max_records=6)
    await cook_all(cluster, consumer, successors[0], 12)
    assert await output(cluster) == list(range(12))


# Rebalances


async def test_a_rebalance_waits_for_the_batch(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 12)
    consumer = await make(AIOKafkaConsumer, INPUT, heartbeat_interval_ms=50)
    others = await make(AIOKafkaProducer, transactional_id="other cook")
    async with exactly_once(consumer, producer, max_records=6) as batches:
        async for batch in batches:
            joining = asyncio.create_task(make(AIOKafkaConsumer, INPUT))
            async with asyncio.timeout(10):
                while not batches._through._waiters:
                    await asyncio.sleep(0.01)
            await cook(producer, batch)
            break
    assert read_so_far(cluster) == len(batch)
    newcomer = await joining
    work = [
        asyncio.create_task(exactly_once(each, by).run(partial(cook, by)))
        for each, by in ((consumer, producer), (newcomer, others))
    ]
    await all_is_read(cluster, 12)
    await consumer.stop()
    await newcomer.stop()
    await asyncio.gather(*work)
    assert await output(cluster) == list(range(12))


async def all_is_read(cluster: FakeCluster, count: int) -> None:
    async with asyncio.timeout(20):
        while read_so_far(cluster) < count:
            await asyncio.sleep(0.01)


async def test_slow_batch_is_aborted_at_a_rebalance(
    cluster: FakeCluster, make: Make, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 12)
    times = {"rebalance_timeout_ms": 200, "heartbeat_interval_ms": 50}
    consumer = await make(AIOKafkaConsumer, INPUT, **times)
    others = await make(AIOKafkaProducer, transactional_id="other cook")
    work: list[asyncio.Task[None]] = []
    newcomers: list[AIOKafkaConsumer] = []

    async def dawdle(batch: TransactionBatch) -> None:
        await cook(producer, batch)
        if not newcomers:
            newcomer = await make(AIOKafkaConsumer, INPUT)
            newcomers.append(newcomer)
            assert 0 < len(newcomer.assignment()) < PARTITIONS
            newcomers_work = exactly_once(newcomer, others).run(partial(cook, others))
            work.append(asyncio.create_task(newcomers_work))
        assert read_so_far(cluster) < 12

    work.append(asyncio.create_task(exactly_once(consumer, producer).run(dawdle)))
    await all_is_read(cluster, 12)
    for each in (consumer, *newcomers):
        await each.stop()
    await asyncio.gather(*work)
    assert newcomers
    assert await output(cluster) == list(range(12))


async def test_revoked_partitions_are_not_committed(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 6)

    async def unsubscribe(batches: ExactlyOnce, _: TransactionBatch) -> None:
        consumer.unsubscribe()
        await batches._commit()

    with pytest.raises(CommitFailedError, match="took orders-"):
        await fail_at(consumer, producer, unsubscribe)
    assert await output(cluster) == []
    assert not cluster.committed(GROUP)


async def test_brokers_without_member_fencing_are_rejected() -> None:
    async with FakeCluster(topics={INPUT: PARTITIONS, OUTPUT: PARTITIONS}, version="2.4") as old:
        fill(old, 3)
        async with (
            AIOKafkaConsumer(
                INPUT,
                bootstrap_servers=old.bootstrap_servers,
                group_id=GROUP,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            ) as consumer,
            AIOKafkaProducer(
                bootstrap_servers=old.bootstrap_servers, transactional_id="cook"
            ) as producer,
        ):
            with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.5"):
                await cook_all(old, consumer, producer, 3)
        assert await output(old) == []


# Misuse


async def test_misuse_raises_at_once(
    cluster: FakeCluster, make: Make, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    with pytest.raises(IllegalOperation, match="group_id"):
        exactly_once(await make(AIOKafkaConsumer, INPUT, group_id=None), producer)
    with pytest.raises(IllegalOperation, match="transactional_id"):
        exactly_once(consumer, await make(AIOKafkaProducer, transactional_id=None))
    with pytest.raises(ValueError, match="enable_auto_commit"):
        exactly_once(
            await make(AIOKafkaConsumer, INPUT, group_id="b", enable_auto_commit=True), producer
        )
    for number in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="max_records"):
            exactly_once(consumer, producer, max_records=number)  # type: ignore[arg-type]  # so


async def test_foreign_transaction_raises(
    cluster: FakeCluster, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer
) -> None:
    fill(cluster, 6)
    async with producer.transaction():
        with pytest.raises(IllegalOperation, match="begin"):
            await cook_all(cluster, consumer, producer, 6)

    async def abort(*_: object) -> None:
        await producer.abort_transaction()

    with pytest.raises(IllegalOperation, match="transaction"):
        await fail_at(consumer, producer, abort)
    await cook_all(cluster, consumer, producer, 6)
    assert await output(cluster) == list(range(6))


async def test_loop_does_not_keep_a_dropped_consumer_alive(
    cluster: FakeCluster, producer: AIOKafkaProducer
) -> None:
    consumer = AIOKafkaConsumer(
        INPUT,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await consumer.start()
    fill(cluster, 3)
    async with exactly_once(consumer, producer) as batches:
        async for _ in batches:
            break
        left = weakref.ref(consumer)
        core = consumer._core
        loop = asyncio.get_running_loop()
        reported: list[Any] = []
        loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            del consumer
            gc.collect()
        assert ["Unclosed AIOKafkaConsumer" in str(each.message) for each in warned] == [True]
        del warned  # it refers to the dropped consumer
        gc.collect()
        assert left() is None
        loop.set_exception_handler(None)
        assert reported == ["Unclosed AIOKafkaConsumer"]
    await core.stop()
    assert isinstance(batches, ExactlyOnce)
