"""Behaviour that applications of aiokafka rely on, beyond signatures, tested with both packages.

Each test runs with aiokafka 0.14 and with this package against the same broker. Intended
differences are stated in the test. Authorization errors are in test_consumer_rights.py (row 10),
signatures in the unit tests' test_same_as_aiokafka.py.
"""

import asyncio
import contextlib
import gc
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import Any

import pytest

from tests.real.test_consumer import numbered, write, writer
from tools.kafka import RealKafka

aiokafka: Any = pytest.importorskip("aiokafka", reason="the interop extra is not installed")
pytest.importorskip("confluent_kafka")

TopicFactory = Callable[..., str]
ABSENT = b"nothing"


@pytest.fixture(params=["aiokafka", "aiokafka_lite", "aiokafka_lite, consumer protocol"])
def subject(request: pytest.FixtureRequest) -> str:
    """One of the two packages; this package again with the consumer protocol (KIP-848)."""
    return str(request.param)


@pytest.fixture
def modern(subject: str) -> bool:
    return "," in subject


@pytest.fixture
def package(subject: str) -> Any:
    name = subject.partition(",")[0]
    module: Any = import_module(name)
    import_module(f"{name}.abc")
    return module


@pytest.fixture
def errors(package: Any) -> Any:
    return import_module(f"{package.__name__}.errors")


@pytest.fixture
def make(package: Any, modern: bool, kafka: RealKafka) -> Callable[..., Any]:
    """Creates consumers of the package."""

    def make(*topics: str, **options: Any) -> Any:
        defaults = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "metadata_max_age_ms": 1000,
            **({"group_protocol": "consumer"} if modern else {"heartbeat_interval_ms": 200}),
        }
        return package.AIOKafkaConsumer(*topics, **{**defaults, **options})

    return make


@contextlib.asynccontextmanager
async def started(consumer: Any) -> AsyncIterator[Any]:
    try:
        async with asyncio.timeout(30):
            await consumer.start()
        yield consumer
    finally:
        await consumer.stop()


def group() -> str:
    return f"semantics-{uuid.uuid4().hex[:12]}"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


async def one(consumer: Any, *partitions: Any) -> bytes:
    async with asyncio.timeout(30):
        record = await consumer.getone(*partitions)
    return record.value or ABSENT


# --- row 1: import paths


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            "",
            "AIOKafkaConsumer AIOKafkaProducer ConsumerRebalanceListener ConsumerRecord "
            "ConsumerStoppedError IllegalOperation OffsetAndMetadata OffsetAndTimestamp "
            "TopicPartition",
        ),
        (".consumer", "AIOKafkaConsumer"),
        (".structs", "ConsumerRecord OffsetAndMetadata OffsetAndTimestamp TopicPartition"),
        (".abc", "ConsumerRebalanceListener AbstractTokenProvider"),
        (".helpers", "create_ssl_context"),
        (".coordinator.assignors.range", "RangePartitionAssignor"),
        (".coordinator.assignors.roundrobin", "RoundRobinPartitionAssignor"),
        (".coordinator.assignors.sticky.sticky_assignor", "StickyPartitionAssignor"),
        (".coordinator.assignors.abstract", "AbstractPartitionAssignor"),
        (
            ".errors",
            "IllegalOperation IllegalStateError ConsumerStoppedError NoOffsetForPartitionError "
            "OffsetOutOfRangeError KafkaTimeoutError InvalidSessionTimeoutError CommitFailedError "
            "TopicAuthorizationFailedError GroupAuthorizationFailedError RecordTooLargeError "
            "UnknownTopicOrPartitionError CorruptRecordException KafkaConnectionError KafkaError",
        ),
    ],
)
def test_public_import_paths(package: Any, module: str, names: str) -> None:
    found = import_module(package.__name__ + module)
    assert not [name for name in names.split() if not hasattr(found, name)]


def test_error_base_classes(errors: Any) -> None:
    for plain in (errors.ConsumerStoppedError, errors.IllegalOperation):
        assert not issubclass(plain, errors.KafkaError)
    for name in ("OffsetOutOfRangeError", "NoOffsetForPartitionError", "KafkaTimeoutError"):
        assert issubclass(getattr(errors, name), errors.KafkaError)
    assert str(errors.UnknownTopicOrPartitionError("why")).startswith(
        "[Error 3] UnknownTopicOrPartitionError"
    )


# --- row 2: life cycle


async def test_stop_is_idempotent_and_works_after_a_failed_start(package: Any, errors: Any) -> None:
    consumer = package.AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    with pytest.raises(errors.KafkaConnectionError):
        await consumer.start()
    await consumer.stop()
    await consumer.stop()


async def test_stop_before_the_start(package: Any) -> None:
    consumer = package.AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
    await consumer.stop()


async def test_loop_argument_is_accepted(make: Any, kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic(1)
    write(kafka, name, [b"x"])
    with pytest.warns(DeprecationWarning, match="loop"):
        consumer = make(name, loop=asyncio.get_running_loop())
    async with started(consumer):
        assert await one(consumer) == b"x"


# --- row 3: topic creation


@pytest.mark.parametrize("grouped", [False, True])
async def test_start_waits_for_its_topics(make: Any, kafka: RealKafka, grouped: bool) -> None:
    name = f"made-by-asking-{uuid.uuid4().hex[:10]}"
    options = {"group_id": group()} if grouped else {}
    async with started(make(name, **options)) as consumer:
        assert consumer.partitions_for_topic(name)
        if not grouped:  # aiokafka assigns at the next metadata
            await until(lambda: bool(consumer.assignment()))
        await asyncio.to_thread(write, kafka, name, [b"x"])
        assert await one(consumer) == b"x"


# --- row 6: the state after start


async def test_start_with_a_group_returns_after_the_assignment(
    make: Any, package: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(2)
    p0, p1 = (package.TopicPartition(name, i) for i in range(2))
    write(kafka, name, numbered(10))
    name_of_group = group()
    async with started(make(name, group_id=name_of_group)) as consumer:
        assert consumer.assignment() == {p0, p1}
        assert await consumer.seek_to_committed() == {p0: None, p1: None}
        assert await one(consumer) == b"value 0"
        await consumer.commit()
        assert await one(consumer) == b"value 1"
        sought = await consumer.seek_to_committed()
        assert sought[p0] == 1
        assert await one(consumer) == b"value 1"
    async with started(make(name, group_id=name_of_group)) as consumer:  # which committed at stop
        assert await consumer.position(p0) == 2
        assert await one(consumer) == b"value 2"


# --- row 7: reading


async def test_getmany_returns_at_most_max_records(
    make: Any, package: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(1)
    tp = package.TopicPartition(name, 0)
    write(kafka, name, numbered(25))
    async with started(make(name, group_id=group(), max_poll_records=10)) as consumer:
        assert await consumer.getmany(max_records=1, timeout_ms=20_000) != {}
        lists = await consumer.getmany(timeout_ms=20_000)
        assert [record.offset for record in lists[tp]] == list(range(1, 11))
        lists = await consumer.getmany(tp, timeout_ms=20_000, max_records=3)
        assert [record.offset for record in lists[tp]] == [11, 12, 13]
        left = 25 - 14
        while left:
            lists = await consumer.getmany(timeout_ms=20_000)
            left -= len(lists[tp])
        assert await consumer.getmany(timeout_ms=50) == {}
        assert await consumer.getmany() == {}
        with pytest.raises(ValueError, match="max_records"):
            await consumer.getmany(max_records=0)


async def test_a_cancelled_getone_loses_nothing(
    make: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(1)
    async with started(make(name, group_id=group())) as consumer:
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.getone(), 0.05)
        await asyncio.to_thread(write, kafka, name, numbered(5))
        values: list[Any] = []
        while len(values) < 5:
            with contextlib.suppress(asyncio.TimeoutError):
                values.append((await asyncio.wait_for(consumer.getone(), 0.05)).value)
        assert values == numbered(5)


async def test_fields_of_a_record(make: Any, kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic(1)
    write(kafka, name, [b"abc", None])
    async with started(make(name)) as consumer:
        first = await asyncio.wait_for(consumer.getone(), 30)
        second = await asyncio.wait_for(consumer.getone(), 30)
    assert (first.topic, first.partition, first.offset, first.key) == (name, 0, 0, None)
    assert (first.serialized_key_size, first.serialized_value_size) == (-1, 3)
    assert (second.value, second.serialized_value_size) == (None, -1)
    assert abs(first.timestamp - time.time() * 1000) < 600_000
    assert (first.timestamp_type, first.headers) == (0, ())
    assert first != second


async def test_records_compare_by_value(make: Any, kafka: RealKafka, topic: TopicFactory) -> None:
    name = topic(1)
    producer = writer(kafka)
    headers = [("a", b"1"), ("a", b"2"), ("none", None)]
    producer.produce(name, b"v", key=b"k", partition=0, timestamp=1234, headers=headers)
    assert producer.flush(30) == 0
    found: list[Any] = []
    for _ in range(2):
        async with started(make(name)) as consumer:
            found.append(await asyncio.wait_for(consumer.getone(), 30))
    assert found[0] == found[1]
    assert found[0].headers == (("a", b"1"), ("a", b"2"), ("none", None))
    assert (found[0].key, found[0].timestamp) == (b"k", 1234)


# --- row 8: background tasks


async def test_rebalances_continue_without_reads(
    make: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(4)
    name_of_group = group()
    async with started(make(name, group_id=name_of_group)) as first:
        async with started(make(name, group_id=name_of_group)) as second:
            await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
        await until(lambda: len(first.assignment()) == 4)


async def test_latest_position_is_set_right_after_start(
    make: Any, kafka: RealKafka, topic: TopicFactory, package: Any
) -> None:
    name = topic(1)
    write(kafka, name, numbered(3))
    async with started(make(name, group_id=group(), auto_offset_reset="latest")) as consumer:
        assert await consumer.position(package.TopicPartition(name, 0)) == 3
        await asyncio.to_thread(write, kafka, name, [b"new"])
        assert await one(consumer) == b"new"


async def test_member_that_does_not_read_leaves_until_the_next_read(
    make: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(2)
    name_of_group = group()
    async with (
        started(make(name, group_id=name_of_group, max_poll_interval_ms=1000)) as idle,
        started(make(name, group_id=name_of_group)) as busy,
    ):
        reading = asyncio.create_task(busy.getone())
        await until(lambda: len(busy.assignment()) == 2)  # the idle member has left
        reading.cancel()
        waiting = asyncio.create_task(idle.getone())
        await until(lambda: len(idle.assignment()) == len(busy.assignment()) == 1)
        waiting.cancel()
        await asyncio.gather(reading, waiting, return_exceptions=True)


async def test_auto_commit_runs_on_a_timer(
    make: Any, package: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(1)
    tp = package.TopicPartition(name, 0)
    write(kafka, name, numbered(3))
    async with started(make(name, group_id=group(), auto_commit_interval_ms=200)) as consumer:
        await one(consumer)
        await one(consumer)
        waiting = asyncio.create_task(consumer.getmany(timeout_ms=1))
        await waiting
        reading = asyncio.create_task(consumer.getone())
        async with asyncio.timeout(20):
            while await consumer.committed(tp) != 3:
                await asyncio.sleep(0.05)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_returned_records_are_committed_before_a_rebalance(
    make: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    """No record is repeated or skipped when its partition moves to a new member."""
    name = topic(2)
    name_of_group = group()
    for partition in range(2):
        write(kafka, name, numbered(4), partition=partition)
    options = {"group_id": name_of_group, "auto_commit_interval_ms": 600_000}
    async with started(make(name, **options)) as first:
        seen = [await asyncio.wait_for(first.getone(), 30) for _ in range(5)]
        async with started(make(name, **options)) as second:
            await until(lambda: len(first.assignment()) == len(second.assignment()) == 1)
            gained = second.assignment()
            handed_out = {
                tp: max((r.offset + 1 for r in seen if r.partition == tp.partition), default=None)
                for tp in gained
            }
            for tp, offset in handed_out.items():
                assert await second.committed(tp) == offset
                assert await second.position(tp) == (offset or 0)


async def test_a_commit_does_not_wait_behind_a_fetch(
    make: Any, package: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(1)
    tp = package.TopicPartition(name, 0)
    async with started(make(name, group_id=group(), fetch_max_wait_ms=20_000)) as consumer:
        reading = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.3)  # until the fetch is in flight
        async with asyncio.timeout(10):
            await consumer.commit({tp: 0})
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


# --- row 9: classic and eager


async def test_session_timeout_out_of_the_brokers_range(
    make: Any, errors: Any, modern: bool, topic: TopicFactory
) -> None:
    if modern:
        pytest.skip("the session is the group's own setting")
    consumer = make(topic(1), group_id=group(), session_timeout_ms=200, heartbeat_interval_ms=100)
    with pytest.raises(errors.InvalidSessionTimeoutError):
        await asyncio.wait_for(consumer.start(), 30)
    await consumer.stop()


@pytest.mark.parametrize("coroutine", [False, True])
async def test_listeners_get_the_full_sets(
    make: Any, package: Any, modern: bool, topic: TopicFactory, coroutine: bool
) -> None:
    if modern:
        pytest.skip("its listeners are told what changes")
    name = topic(2)
    name_of_group = group()
    both = {package.TopicPartition(name, i) for i in range(2)}
    told: list[tuple[str, set[Any]]] = []

    class Plain(package.ConsumerRebalanceListener):  # type: ignore[misc]  # by name
        def on_partitions_revoked(self, revoked: set[Any]) -> None:
            told.append(("revoked", set(revoked)))

        def on_partitions_assigned(self, assigned: set[Any]) -> None:
            told.append(("assigned", set(assigned)))

    class Coroutine(package.ConsumerRebalanceListener):  # type: ignore[misc]  # by name
        async def on_partitions_revoked(self, revoked: set[Any]) -> None:
            await asyncio.sleep(0.01)
            told.append(("revoked", set(revoked)))

        async def on_partitions_assigned(self, assigned: set[Any]) -> None:
            await asyncio.sleep(0.01)
            told.append(("assigned", set(assigned)))

    consumer = make(group_id=name_of_group)
    consumer.subscribe([name], listener=Coroutine() if coroutine else Plain())
    async with started(consumer):
        await until(lambda: len(told) >= 2)
        assert told == [("revoked", set()), ("assigned", both)]
        async with started(make(name, group_id=name_of_group)):
            await until(lambda: len(told) >= 4)
            assert told[2] == ("revoked", both)
            assert told[3] == ("assigned", consumer.assignment())
            assert len(consumer.assignment()) == 1


# --- row 12: commit and committed


async def test_commit_without_a_group(make: Any, package: Any, topic: TopicFactory) -> None:
    name = topic(1)
    async with started(make(name)) as consumer:
        with pytest.raises(package.IllegalOperation):
            await consumer.commit()
        with pytest.raises(package.IllegalOperation):
            await consumer.committed(package.TopicPartition(name, 0))


async def test_forms_of_commits(
    make: Any, package: Any, errors: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(2)
    p0, p1 = (package.TopicPartition(name, i) for i in range(2))
    write(kafka, name, numbered(10))
    async with started(make(name, group_id=group(), enable_auto_commit=False)) as consumer:
        assert await consumer.committed(p0) is None
        assert await consumer.committed(package.TopicPartition("no-such-" + name, 0)) is None
        await consumer.commit({p0: 0})
        assert await consumer.committed(p0) == 0
        await consumer.commit({p0: 5, p1: (0, "text")})
        assert await consumer.committed(p0) == 5
        await consumer.commit({p0: package.OffsetAndMetadata(7, "more")})
        assert await consumer.committed(p0) == 7
        await one(consumer)
        await consumer.commit()
        assert await consumer.committed(p0) == 1
        for wrong in ({}, [p0], {p0: (1, "", 3)}):
            with pytest.raises(ValueError):
                await consumer.commit(wrong)
        with pytest.raises(TypeError, match="Key should be TopicPartition instance"):
            await consumer.commit({"x": 1})
        with pytest.raises(TypeError, match="Metadata should be a string"):
            await consumer.commit({p0: (1, 2)})
        with pytest.raises(errors.IllegalStateError, match="is not assigned"):
            await consumer.commit({package.TopicPartition(name, 77): 1})
        consumer.unsubscribe()
        with pytest.raises(errors.IllegalStateError, match="Not subscribed to any topics"):
            await consumer.commit({p0: 1})


async def test_commits_of_manually_assigned_partitions(
    make: Any, package: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(1)
    tp = package.TopicPartition(name, 0)
    write(kafka, name, numbered(4))
    name_of_group = group()
    for start in (0, 2):
        consumer = make(group_id=name_of_group, enable_auto_commit=False)
        consumer.assign([tp])
        async with started(consumer):
            for i in range(2):
                assert await one(consumer) == b"value %d" % (start + i)
            await consumer.commit()


# --- row 14: seeks and pauses


async def test_seek_calls(
    make: Any, package: Any, errors: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(2)
    p0 = package.TopicPartition(name, 0)
    write(kafka, name, numbered(10))
    async with started(make(name, group_id=group())) as consumer:
        assert await one(consumer) == b"value 0"
        consumer.seek(p0, 7)
        assert await one(consumer) == b"value 7"
        await consumer.seek_to_beginning(p0)
        assert await one(consumer) == b"value 0"
        await consumer.seek_to_end(p0)
        assert await consumer.position(p0) == 10
        for offset in (-1, "1", None):
            with pytest.raises(ValueError):
                consumer.seek(p0, offset)
        for seek in (
            consumer.seek_to_beginning,
            consumer.seek_to_end,
            consumer.seek_to_committed,
        ):
            with pytest.raises(TypeError):
                await seek("p0")
            with pytest.raises(errors.IllegalStateError):
                await seek(package.TopicPartition(name, 9))


async def test_position_moves_past_control_records(
    make: Any, package: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    """Also if a fetch has room for the marker only."""
    name = topic(1)
    tp = package.TopicPartition(name, 0)
    producer = writer(kafka, **{"transactional.id": name})
    await asyncio.to_thread(producer.init_transactions, 60)

    def transact(value: bytes, end: Callable[[float], None]) -> None:
        producer.begin_transaction()
        producer.produce(name, value, partition=0)
        assert producer.flush(30) == 0
        end(60)

    for value, end in (
        (b"one", producer.commit_transaction),
        (b"gone", producer.abort_transaction),
        (b"two", producer.commit_transaction),
    ):
        await asyncio.to_thread(transact, value, end)
    options = {
        "max_partition_fetch_bytes": 1,
        "fetch_max_bytes": 1,
        "isolation_level": "read_committed",
    }
    async with started(make(name, group_id=group(), **options)) as consumer:
        assert [await one(consumer), await one(consumer)] == [b"one", b"two"]
        assert await consumer.getmany(timeout_ms=300) == {}
        async with asyncio.timeout(20):
            while await consumer.position(tp) != 6:  # after the last marker
                assert await consumer.getmany(timeout_ms=100) == {}
        await consumer.commit()
        assert await consumer.committed(tp) == 6


async def test_pause_hides_fetched_records(
    make: Any, package: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(2)
    p0 = package.TopicPartition(name, 0)
    write(kafka, name, numbered(10))
    async with started(make(name, group_id=group())) as consumer:
        assert await one(consumer) == b"value 0"
        consumer.pause(p0)
        assert consumer.paused() == {p0}
        assert await consumer.getmany(timeout_ms=300) == {}
        await asyncio.to_thread(write, kafka, name, [b"other"], partition=1)
        assert await one(consumer) == b"other"
        consumer.resume(p0)
        assert consumer.paused() == set()
        assert await one(consumer) == b"value 1"


async def test_missing_reset_policy_raises_on_each_read(
    make: Any, package: Any, errors: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(1)
    tp = package.TopicPartition(name, 0)
    write(kafka, name, numbered(3))
    async with started(make(name, group_id=group(), auto_offset_reset="none")) as consumer:
        for _ in range(2):
            with pytest.raises(errors.NoOffsetForPartitionError):
                await one(consumer)
        consumer.seek(tp, 1000)
        for _ in range(2):
            with pytest.raises(errors.OffsetOutOfRangeError):
                await one(consumer)
        consumer.seek(tp, 2)
        assert await one(consumer) == b"value 2"


# --- row 15: offsets and lag


async def test_offsets_and_lag(
    make: Any, package: Any, errors: Any, kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(2)
    p0, p1 = (package.TopicPartition(name, i) for i in range(2))
    write(kafka, name, numbered(10))
    async with started(make(name, group_id=group())) as consumer:
        assert await consumer.offsets_for_times({}) == {}
        found = await consumer.offsets_for_times({p0: 0, p1: 0})
        assert found[p0].offset == 0
        assert found[p1] is None
        with pytest.raises(ValueError, match="cannot be negative"):
            await consumer.offsets_for_times({p0: -1})
        assert await consumer.beginning_offsets([p0, p1]) == {p0: 0, p1: 0}
        assert await consumer.end_offsets([p0, p1]) == {p0: 10, p1: 0}
        async with started(make(request_timeout_ms=6000)) as impatient:  # its start has to succeed
            with pytest.raises(errors.KafkaTimeoutError):
                await impatient.end_offsets([package.TopicPartition(name, 9)])
        await one(consumer)
        assert consumer.highwater(p0) == 10
        assert consumer.last_stable_offset(p0) in (-1, 10)
        await until(lambda: consumer.last_poll_timestamp(p1) is not None)
        before = consumer.last_poll_timestamp(p1)
        reading = asyncio.create_task(consumer.getone(p1))
        await until(lambda: consumer.last_poll_timestamp(p1) > before)  # by empty fetches
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert abs(before - time.time() * 1000) < 600_000


# --- row 16: stopping


async def test_calls_after_stop(make: Any, package: Any, topic: TopicFactory) -> None:
    consumer = make(topic(1), group_id=group())
    await consumer.start()
    single = asyncio.create_task(consumer.getone())
    lists = asyncio.create_task(consumer.getmany(timeout_ms=60_000))

    async def iterate() -> int:
        return len([record async for record in consumer])

    iterating = asyncio.create_task(iterate())
    await asyncio.sleep(0.05)
    await consumer.stop()
    assert lists.done()
    assert lists.result() == {}
    with pytest.raises(package.ConsumerStoppedError):
        await single
    assert await iterating == 0
    with pytest.raises(package.ConsumerStoppedError):
        await consumer.getone()
    with pytest.raises(package.ConsumerStoppedError):
        await consumer.getmany(timeout_ms=0)
    with pytest.raises(package.ConsumerStoppedError):
        async for _ in consumer:
            pass


# --- row 17: subscribing


async def test_subscription_arguments(package: Any, errors: Any, make: Any) -> None:
    consumer = make()
    for arguments in ({}, {"topics": ["a"], "pattern": "a"}, {"topics": "abc"}):
        with pytest.raises(TypeError):
            consumer.subscribe(**arguments)
    with pytest.raises(TypeError):
        consumer.subscribe(topics=["a"], listener=object())
    with pytest.raises(ValueError):
        consumer.subscribe(pattern="(")
    consumer.subscribe(topics=["a"])
    assert consumer.subscription() == {"a"}
    with pytest.raises(errors.IllegalStateError):
        consumer.assign([package.TopicPartition("a", 0)])
    assert consumer.unsubscribe() is None
    consumer.assign([package.TopicPartition("a", 0)])
    assert consumer.assignment() == {package.TopicPartition("a", 0)}
    with pytest.raises(errors.IllegalStateError):
        consumer.subscribe(topics=["a"])
    await consumer.stop()


@pytest.mark.parametrize("grouped", [False, True])
async def test_patterns_match_from_the_beginning(
    make: Any, kafka: RealKafka, grouped: bool
) -> None:
    own = uuid.uuid4().hex[:10]
    for name in (f"pat-{own}-1", f"x-pat-{own}"):
        kafka.create_topic(name, 1)
    consumer = make(**({"group_id": group()} if grouped else {}))
    consumer.subscribe(pattern=f"pat-{own}")
    async with started(consumer):
        await until(lambda: consumer.subscription() == {f"pat-{own}-1"})
        await until(lambda: len(consumer.assignment()) == 1)
        kafka.create_topic(f"pat-{own}-2", 1)
        await until(lambda: len(consumer.assignment()) == 2)
        await asyncio.to_thread(write, kafka, f"pat-{own}-2", [b"x"])
        assert await one(consumer) == b"x"


async def test_unsubscribe_releases_the_partitions(
    make: Any, package: Any, topic: TopicFactory
) -> None:
    if package is aiokafka:
        pytest.skip("its fetcher fails after unsubscribe(), and then its stop()")
    name = topic(2)
    name_of_group = group()
    async with (
        started(make(name, group_id=name_of_group)) as first,
        started(make(name, group_id=name_of_group)) as second,
    ):
        await until(lambda: len(first.assignment()) == len(second.assignment()) == 1)
        second.unsubscribe()
        assert second.assignment() == set()
        await until(lambda: len(first.assignment()) == 2)


# --- row 18: error messages


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"security_protocol": "SOME"}, "`security_protocol` should be SSL or PLAINTEXT"),
        (
            {"security_protocol": "SASL_PLAINTEXT"},
            "sasl_plain_username and sasl_plain_password required for PLAIN sasl",
        ),
        ({"max_poll_records": 0}, "`max_poll_records` should be positive Integer"),
    ],
)
async def test_invalid_arguments_raise(package: Any, arguments: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        package.AIOKafkaConsumer(**arguments)


async def test_unknown_isolation_level_raises(make: Any, topic: TopicFactory) -> None:
    """aiokafka raises in start, this package at once."""
    with pytest.raises(ValueError, match="Incorrect isolation level X"):
        async with started(make(topic(1), isolation_level="X")):
            pass


# --- row 20: garbage collection


async def test_dropped_consumer_warns(make: Any, package: Any, topic: TopicFactory) -> None:
    loop = asyncio.get_running_loop()
    told: list[Any] = []
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))
    consumer = make(topic(1), group_id=group())
    await consumer.start()
    if package is aiokafka:  # its tasks keep it alive
        await consumer.stop()
        consumer._closed = False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert "Unclosed AIOKafkaConsumer" in " ".join(str(each.message) for each in caught)
    assert told == ["Unclosed AIOKafkaConsumer"]
    await asyncio.sleep(0.1)  # until its remaining tasks end
