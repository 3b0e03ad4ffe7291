"""A task's transaction and its mark, on the embedded cluster, without Spark and Java."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import ClusterAuthorizationFailedError, KafkaError
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.spark.sink.exactly_once import (
    Marker,
    Place,
    ReplayError,
    TaskTransaction,
    TaskWritten,
    check_marks,
)
from aiokafka_lite.structs import OffsetAndMetadata
from aiokafka_lite.testing import FakeCluster


@pytest.fixture(params=["3.9", None], ids=["adds partitions", "batches add"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[FakeCluster]:
    """A cluster with the older generation of transactions, then with the newer one."""
    async with FakeCluster(topics={"orders": 2}, version=request.param) as cluster:
        yield cluster


def place(epoch: int, task: int = 0, run: str = "run-1") -> Place:
    return Place("till", "query", epoch, task, run)


def transaction(cluster: FakeCluster, at: Place, topic: str = "orders") -> TaskTransaction:
    return TaskTransaction(at, topic, {"bootstrap_servers": cluster.bootstrap_servers})


async def write(cluster: FakeCluster, at: Place, *values: bytes) -> Marker | None:
    """Run a whole attempt of a task; return the mark that kept it from writing, if any."""
    attempt = transaction(cluster, at)
    try:
        found = await attempt.open()
        if found is None:
            await attempt.producer.send_many("orders", values)
            await attempt.commit(len(values), 7)
        return found
    finally:
        await attempt.close()


async def committed(cluster: FakeCluster) -> list[bytes]:
    places = [TopicPartition("orders", number) for number in range(2)]
    found: list[Any] = []
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign(places)
        async with asyncio.timeout(20):
            ends = await consumer.end_offsets(places)
            while any([await consumer.position(each) < ends[each] for each in places]):
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    found += [record.value for record in records]
    return sorted(found)


async def test_an_epoch_is_written_once(cluster: FakeCluster) -> None:
    assert await write(cluster, place(0), b"a", b"b") is None
    again = await write(cluster, place(0, run="run-2"), b"a", b"b")
    assert again == Marker(0, 2, 7, "run-1")
    assert again is not None
    assert again.topic == "orders"
    assert await write(cluster, place(1), b"c") is None
    assert await committed(cluster) == [b"a", b"b", b"c"]


async def test_an_earlier_attempt_is_fenced(cluster: FakeCluster) -> None:
    zombie = transaction(cluster, place(3))
    await zombie.open()
    await zombie.producer.send_and_wait("orders", b"twice?")
    assert await write(cluster, place(3), b"once") is None
    with pytest.raises(KafkaError):
        await zombie.commit(1, 7)
    await zombie.close()
    assert await committed(cluster) == [b"once"]


async def test_an_attempt_that_fails_leaves_nothing(cluster: FakeCluster) -> None:
    attempt = transaction(cluster, place(3))
    await attempt.open()
    await attempt.producer.send_and_wait("orders", b"no")
    await attempt.close()
    assert await write(cluster, place(3), b"yes") is None
    assert await committed(cluster) == [b"yes"]


async def test_a_task_that_finds_a_later_epoch(cluster: FakeCluster) -> None:
    await write(cluster, place(5), b"a")
    with pytest.raises(ReplayError, match="the checkpoint was reset"):
        await write(cluster, place(4), b"a")


async def test_the_newest_of_several_markers_counts(cluster: FakeCluster) -> None:
    cluster.create_topic("bills", 1)
    await write(cluster, place(0), b"a")
    attempt = transaction(cluster, place(1), "bills")
    assert await attempt.open() is None
    await attempt.producer.send_many("bills", [b"b"])
    await attempt.commit(1, 7)
    await attempt.close()
    assert await write(cluster, place(1), b"c") == Marker(1, 1, 7, "run-1")


async def test_a_group_with_foreign_offsets_is_an_error(cluster: FakeCluster) -> None:
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=place(0).name
    ) as consumer:
        tp = TopicPartition("orders", 0)
        consumer.assign([tp])
        await consumer.commit({tp: 5})
    with pytest.raises(ReplayError, match="not a marker of this sink"):
        await write(cluster, place(0), b"a")


QUERIES = ["0b5d2c1e-6f0c-4a44-9a53-1f4b9c1d7a11", "7c1f4d2a-3b9e-4d8e-8f61-52d0a9c3e402"]
USERS_TEXT = st.one_of(
    st.text("p-a1/@*%", min_size=1, max_size=4),
    st.sampled_from([f"p-{QUERIES[0]}", f"{QUERIES[0]}-1", "a/orders/1", "p/a"]),
)
PLACES = st.one_of(
    st.builds(
        Place,
        prefix=USERS_TEXT,
        query=st.sampled_from(QUERIES),
        epoch=st.just(0),
        task=st.integers(0, 12),
        run=st.just(""),
    ),
    st.builds(
        Place,
        prefix=USERS_TEXT,
        query=st.sampled_from(["", *QUERIES]),
        epoch=st.just(0),
        task=st.integers(0, 12),
        run=st.just(""),
        write=USERS_TEXT,
        topic=st.none() | st.text("o-1._", min_size=1, max_size=3),
    ),
)


@given(PLACES, PLACES)
def test_two_places_never_share_a_name(one: Place, other: Place) -> None:
    assert (one.name == other.name) == (one == other)
    same_write = dataclasses.replace(one, task=0) == dataclasses.replace(other, task=0)
    assert one.is_of_same_write(other.name) == same_write
    assert one.name.startswith(one.prefix), "ACLs are for what begins with the prefix"


def test_names_distinguish_prefix_and_write_id() -> None:
    one = Place("p", "", 0, 3, "", write="a-1", topic="orders")
    other = Place("p-a", "", 0, 3, "", write="1", topic="orders")
    assert (one.name, other.name) == ("p/a-1/orders/3", "p-a/1/orders/3")


def test_a_stream_keeps_the_names_that_its_checkpoint_has_marks_under() -> None:
    assert Place("till", QUERIES[0], 7, 3, "run").name == f"till-{QUERIES[0]}-3"


def test_the_name_of_a_write_within_a_micro_batch() -> None:
    fan_out = Place("till", QUERIES[0], 7, 3, "run", write="a/b c", topic=None)
    assert fan_out.name == f"till/a%2Fb%20c/*@{QUERIES[0]}/3"


def test_a_marker_round_trips() -> None:
    mark = Marker(12, 3, 0xABC, "run")
    assert mark.committed()[0] == 13
    assert Marker.read(mark.committed(), "x") == mark
    assert Marker.read(mark.committed(), "x", "orders").topic == "orders"


def test_a_marker_of_the_previous_layout() -> None:
    text = '{"v":1,"epoch":12,"rows":3,"digest":"0000000000000abc","run":"run"}'
    mark = Marker.read(OffsetAndMetadata(13, text), "x")
    assert mark == Marker(12, 3, 0xABC, "run", layout=1)


@pytest.mark.parametrize(
    "text", ["", "7", "{}", '{"v":3}', '{"v":0}', '{"v":"x"}', '{"v":1,"epoch":"x"}']
)
def test_invalid_marker_text_is_an_error(text: str) -> None:
    with pytest.raises(ReplayError, match="another transactionalIdPrefix"):
        Marker.read(OffsetAndMetadata(1, text), "x")


# The driver's check of the marks


def done(at: Place, rows: int, **more: bool) -> TaskWritten:
    return TaskWritten(at, rows, 7, topic="orders", **more)


async def check(cluster: FakeCluster, *written: TaskWritten) -> None:
    async with AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        await check_marks(client, written)


async def test_markers_that_match_the_tasks(cluster: FakeCluster) -> None:
    await write(cluster, place(0, 0), b"a", b"b")
    await write(cluster, place(0, 1), b"c")
    told = [done(place(0, 0), 2), done(place(0, 1), 1)]
    await check(cluster, *told, TaskWritten(place(0, 2), 0))


async def test_a_first_mark_that_is_being_committed_is_waited_for(cluster: FakeCluster) -> None:
    """Brokers omit it in responses about all marks."""
    attempt = transaction(cluster, place(0))
    assert await attempt.open() is None
    await attempt.producer.send_and_wait("orders", b"a")
    marks = {TopicPartition("orders", 0): Marker(0, 1, 7, "run-1").committed()}
    await attempt.producer.send_offsets_to_transaction(marks, place(0).name)
    asked = cluster.count(ApiKey.OFFSET_FETCH)
    checking = asyncio.create_task(check(cluster, done(place(0), 1)))
    async with asyncio.timeout(20):
        while cluster.count(ApiKey.OFFSET_FETCH) < asked + 3:  # each response asks it to retry
            await asyncio.sleep(0.01)
    assert not checking.done()
    await attempt.producer.commit_transaction()
    await checking
    await attempt.close()


async def test_a_marker_that_differs_is_an_error(cluster: FakeCluster) -> None:
    await write(cluster, place(0, 0), b"a")
    with pytest.raises(ReplayError, match="reported 2 rows of epoch 0"):
        await check(cluster, done(place(0, 0), 2))
    with pytest.raises(ReplayError, match="its marker is None"):
        await check(cluster, done(place(0, 1), 2, first=False))


async def test_rows_of_an_earlier_run_without_a_task_are_an_error(cluster: FakeCluster) -> None:
    for task in range(3):
        await write(cluster, place(0, task), b"a")
    now = place(0, 0, "run-2")
    with pytest.raises(ReplayError, match="already written by other tasks"):
        await check(cluster, done(now, 1, skipped=True))


@pytest.mark.parametrize("query", ["query-2026", "query-2026-01"])
async def test_markers_of_a_write_with_a_similar_name_are_ignored(
    cluster: FakeCluster, query: str
) -> None:
    for task in range(2):
        await write(cluster, Place("till", query, 0, task, ""), b"theirs")
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id="till-query-report"
    ) as consumer:
        tp = TopicPartition("orders", 0)
        consumer.assign([tp])
        await consumer.commit({tp: 5})
    await write(cluster, place(0), b"a")
    await check(cluster, done(place(0), 1))


async def test_a_task_that_lost_its_rows_is_an_error(cluster: FakeCluster) -> None:
    await write(cluster, place(0), b"a")
    with pytest.raises(ReplayError, match="already written by other tasks"):
        await check(cluster, TaskWritten(place(0, 0, "run-2"), 0))


@pytest.mark.parametrize("away", [{"error": 14}, {"disconnect": True}], ids=["loading", "lost"])
async def test_listing_groups_retries_retriable_errors(
    cluster: FakeCluster, away: dict[str, Any]
) -> None:
    await write(cluster, place(0), b"a")
    cluster.control(ApiKey.LIST_GROUPS, times=2, **away)
    before = cluster.count(ApiKey.LIST_GROUPS)
    await check(cluster, done(place(0), 1))
    assert cluster.count(ApiKey.LIST_GROUPS) == before + 3


async def test_listing_groups_raises_fatal_errors(cluster: FakeCluster) -> None:
    await write(cluster, place(0), b"a")
    denied = ClusterAuthorizationFailedError
    cluster.control(ApiKey.LIST_GROUPS, error=denied.errno)
    with pytest.raises(denied):
        await check(cluster, done(place(0), 1))


async def test_markers_of_earlier_epochs_are_ignored(cluster: FakeCluster) -> None:
    for task in range(3):
        await write(cluster, place(0, task), b"a")
    await write(cluster, place(1), b"b")
    await check(cluster, done(place(1), 1))


async def test_nothing_is_checked_without_exactly_once(cluster: FakeCluster) -> None:
    seen = len(cluster.requests)
    async with AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        before = len(cluster.requests)
        await check_marks(client, [TaskWritten(None, 3)])
        assert len(cluster.requests) == before > seen


async def test_all_committed_offsets_of_a_group_are_returned(cluster: FakeCluster) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="x"
    ) as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction(
                {TopicPartition("orders", 1): (4, "four")}, "readers"
            )
        found = await producer.client.committed_offsets("readers")
        assert found == {TopicPartition("orders", 1): (4, "four")}
        places = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
        assert await producer.client.committed_offsets("readers", places) == found
        assert await producer.client.committed_offsets("nobody") == {}
