"""A consumer in its group, in either protocol: assignments, and what the application sees."""

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite import SubscriptionPattern
from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka_lite.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    IllegalOperation,
    IllegalStateError,
    InvalidSessionTimeoutError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from aiokafka_lite.reading import first_assignment
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.consumer.makers import append, numbered, until
from tests.unit.consumer.members import CONFIGS, JOIN, PROTOCOLS, Diary, Make, members, orders, take

pytestmark = pytest.mark.unhurried


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 4, "other": 2}, broker_configs=CONFIGS) as cluster:
        yield cluster


@pytest.fixture(params=list(PROTOCOLS))
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def make(cluster: FakeCluster, protocol: str) -> AsyncIterator[Make]:
    async with members(cluster, protocol) as make:
        yield make


# --- the usual course


async def test_the_start_returns_with_all_that_is_assigned(
    make: Make, cluster: FakeCluster
) -> None:
    append(cluster, numbered(3), 2)
    consumer = make("orders")
    await consumer.start()
    assert consumer.assignment() == orders(0, 1, 2, 3)
    assert await take(consumer, 3) == numbered(3)
    assert consumer.group_metadata().group_id == "g"
    assert consumer.group_metadata().generation > 0
    assert consumer.group_metadata().member_id in cluster.group("g").members


async def test_stop_commits_returned_records_and_leaves_the_group(
    make: Make, cluster: FakeCluster
) -> None:
    append(cluster, numbered(10), 1)
    first = make("orders")
    await first.start()
    await take(first, 4)
    await first.stop()
    assert cluster.group("g").members == {}
    assert cluster.committed("g")[TopicPartition("orders", 1)] == 4
    second = make("orders")
    await second.start()
    assert await second.position(TopicPartition("orders", 1)) == 4
    assert await take(second, 1) == [b"v4"]


async def test_without_auto_commit_nothing_is_committed_unasked(
    make: Make, cluster: FakeCluster
) -> None:
    append(cluster, numbered(10), 1)
    consumer = make("orders", enable_auto_commit=False)
    await consumer.start()
    await take(consumer, 4)
    await consumer.stop()
    assert cluster.committed("g") == {}


async def test_latest_is_known_when_the_start_returns(make: Make, cluster: FakeCluster) -> None:
    append(cluster, numbered(5))
    consumer = make("orders", auto_offset_reset="latest")
    await consumer.start()
    append(cluster, [b"later"])
    assert await take(consumer, 1) == [b"later"]


async def test_two_share_and_one_takes_over(make: Make, cluster: FakeCluster) -> None:
    first, second = make("orders"), make("orders")
    await first.start()
    await second.start()
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    assert first.assignment() | second.assignment() == orders(0, 1, 2, 3)
    for partition in range(4):
        append(cluster, [b"a"], partition)
    assert await take(first, 2) == await take(second, 2) == [b"a", b"a"]
    await first.stop()
    await until(lambda: second.assignment() == orders(0, 1, 2, 3))
    for partition in range(4):
        append(cluster, [b"b"], partition)
    assert await take(second, 4) == [b"b"] * 4


async def test_a_newcomer_has_its_share_when_its_start_returns(make: Make) -> None:
    first, second = make("orders"), make("orders")
    await first.start()
    await second.start()
    assert second.assignment()
    await second.seek_to_committed()


async def test_more_members_than_partitions(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_assignment, "EMPTY_FOR", 1.0)
    members = [make("other") for _ in range(3)]
    async with asyncio.timeout(10):
        await asyncio.gather(*(member.start() for member in members))
    await until(lambda: sorted(len(member.assignment()) for member in members) == [0, 1, 1])


# --- listeners


async def test_a_listener_is_called(make: Make, protocol: str) -> None:
    diary, other = Diary(), Diary()
    first, second = make(), make()
    first.subscribe(["orders"], listener=diary)
    await first.start()
    # The eager protocol's first join revokes nothing, as in aiokafka.
    begun: list[Any] = [("revoked", set())] if protocol == "eager" else []
    assert diary.told == [*begun, ("assigned", orders(0, 1, 2, 3))]
    diary.told.clear()
    second.subscribe(["orders"], listener=other)
    await second.start()
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    await until(lambda: other.told[-1] == ("assigned", second.assignment()))
    if protocol == "eager":  # the full sets
        await until(lambda: len(diary.told) >= 2)
        assert diary.told[0] == ("revoked", orders(0, 1, 2, 3))
        assert diary.told[-1] == ("assigned", first.assignment())
    else:  # the changes
        revoked = [partitions for what, partitions in diary.told if what == "revoked"]
        assert revoked == [second.assignment()]
    diary.told.clear()
    held = first.assignment()
    await first.stop()
    assert diary.told == [("revoked", held)]


async def test_a_coroutine_listener_seeks_and_commits(make: Make, cluster: FakeCluster) -> None:
    append(cluster, numbered(10), 1)
    tp = TopicPartition("orders", 1)
    seen: list[object] = []

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            assert consumer.assignment() == assigned
            assert await consumer.position(tp) == 0
            await asyncio.sleep(0.05)  # nothing may be handed out meanwhile
            consumer.seek(tp, 6)
            consumer.pause(TopicPartition("orders", 0))

        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            if revoked:
                assert consumer.assignment() == revoked  # still, as in Java and aiokafka
                await consumer.commit({tp: 7})
                seen.append(await consumer.committed(tp))

    consumer = make(enable_auto_commit=False)
    consumer.subscribe(["orders"], listener=Listener())
    reading = asyncio.create_task(take_started(consumer))
    await consumer.start()
    assert await reading == [b"v6"]
    assert consumer.paused() == orders(0)
    await consumer.stop()
    assert seen == [7]
    assert cluster.committed("g") == {tp: 7}


async def take_started(consumer: AIOKafkaConsumer) -> list[bytes]:
    await asyncio.sleep(0)  # the start has begun
    return await take(consumer, 1)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_an_exception_of_a_listener_is_logged(
    make: Make, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    class Listener(Diary):
        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            raise error("of the application's")

    consumer = make()
    consumer.subscribe(["orders"], listener=Listener())
    with caplog.at_level(logging.ERROR):
        await consumer.start()
    assert "of the application's" in caplog.text
    assert consumer.assignment() == orders(0, 1, 2, 3)


async def read_one(consumer: AIOKafkaConsumer) -> None:
    await consumer.getone()


async def read_one_of(consumer: AIOKafkaConsumer) -> None:
    await consumer.getone(*consumer.assignment())


async def read_many(consumer: AIOKafkaConsumer) -> None:
    await consumer.getmany(timeout_ms=600_000)


async def iterate(consumer: AIOKafkaConsumer) -> None:
    async for _ in consumer:
        pass


async def read_batches(consumer: AIOKafkaConsumer) -> None:
    async with consumer.batches() as batches:
        await anext(batches)


READS = [read_one, read_one_of, read_many, iterate, read_batches]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("told", ["assigned", "revoked", "lost"])
async def test_a_read_inside_a_listener_raises_at_once(
    make: Make,
    cluster: FakeCluster,
    protocol: str,
    read: Callable[[AIOKafkaConsumer], Awaitable[None]],
    told: str,
) -> None:
    raised: list[BaseException] = []

    class Listener(Diary):
        async def _read(self, now: str) -> None:
            if now == told and not raised:
                try:
                    async with asyncio.timeout(10):
                        await read(consumer)
                except BaseException as error:
                    raised.append(error)

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            await self._read("assigned")

        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            if revoked:
                await self._read("revoked")

        async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
            await self._read("lost")

    append(cluster, numbered(5))
    consumer = make()
    consumer.subscribe(["orders"], listener=Listener())
    await consumer.start()
    if told == "revoked":
        consumer.subscribe(["other"], listener=Listener())
    elif told == "lost":
        beat = ApiKey.CONSUMER_GROUP_HEARTBEAT if protocol == "modern" else ApiKey.HEARTBEAT
        cluster.control(beat, error=110 if protocol == "modern" else 22)
    await until(lambda: bool(raised))
    (error,) = raised
    assert isinstance(error, IllegalStateError)
    assert "rebalance listener" in str(error)
    if told != "revoked":
        assert await take(consumer, 5) == numbered(5)  # nothing is lost, and reading continues


async def test_a_task_that_a_listener_starts_may_read(make: Make, cluster: FakeCluster) -> None:
    reading: list[asyncio.Task[list[bytes]]] = []

    class Listener(Diary):
        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            if not reading:
                reading.append(asyncio.create_task(take(consumer, 5)))
                await asyncio.sleep(0.01)

    append(cluster, numbered(5))
    consumer = make()
    consumer.subscribe(["orders"], listener=Listener())
    await consumer.start()
    assert await reading[0] == numbered(5)


async def test_lost_partitions_are_reported_as_lost(
    make: Make, cluster: FakeCluster, protocol: str
) -> None:
    diary = Diary()
    consumer = make()
    consumer.subscribe(["orders"], listener=diary)
    await consumer.start()
    diary.told.clear()
    beat = ApiKey.CONSUMER_GROUP_HEARTBEAT if protocol == "modern" else ApiKey.HEARTBEAT
    cluster.control(beat, error=110 if protocol == "modern" else 22)  # out of the generation
    await until(lambda: ("assigned", orders(0, 1, 2, 3)) in diary.told)
    assert diary.told[0] == ("lost", orders(0, 1, 2, 3))


async def test_a_listener_that_stops_the_consumer(make: Make) -> None:
    stopped = asyncio.Event()

    class Listener(Diary):
        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:  # type: ignore[override]  # either is allowed
            await consumer.stop()
            stopped.set()

    consumer = make()
    consumer.subscribe(["orders"], listener=Listener())
    with pytest.raises(ConsumerStoppedError):
        await consumer.start()
    await consumer.stop()


# --- pauses


async def test_a_pause_outlasts_a_rebalance_unless_it_is_eager(
    make: Make, cluster: FakeCluster, protocol: str
) -> None:
    consumer, other = make("orders"), make("orders")
    await consumer.start()
    consumer.pause(*consumer.assignment())
    await other.start()
    await until(lambda: len(consumer.assignment()) == len(other.assignment()) == 2)
    if protocol == "eager":
        await until(lambda: consumer.paused() == set())
    else:
        assert consumer.paused() == consumer.assignment()


# --- changes of mind


async def test_unsubscribe_is_synchronous_and_leaves(make: Make, cluster: FakeCluster) -> None:
    append(cluster, numbered(10), 1)
    diary = Diary()
    consumer = make()
    consumer.subscribe(["orders"], listener=diary)
    await consumer.start()
    await take(consumer, 4)
    diary.told.clear()
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    assert consumer.subscription() == frozenset()
    await until(lambda: cluster.group("g").members == {})
    assert cluster.committed("g")[TopicPartition("orders", 1)] == 4
    assert diary.told == [("revoked", orders(0, 1, 2, 3))]
    with pytest.raises(IllegalStateError):
        await consumer.commit()
    consumer.subscribe(["other"])
    await until(lambda: {tp.topic for tp in consumer.assignment()} == {"other"})
    consumer.unsubscribe()
    consumer.subscribe(["orders"])  # before it has left
    await until(lambda: consumer.assignment() == orders(0, 1, 2, 3))
    assert await take(consumer, 1) == [b"v4"]


async def test_another_subscription(make: Make) -> None:
    consumer = make("orders")
    await consumer.start()
    consumer.subscribe(["orders", "other"])
    await until(lambda: len(consumer.assignment()) == 6)
    consumer.subscribe(["other"])
    await until(lambda: {tp.topic for tp in consumer.assignment()} == {"other"})


async def test_subscribing_after_the_start(make: Make, cluster: FakeCluster) -> None:
    consumer = make()
    await consumer.start()
    assert consumer.assignment() == set()
    waiting = asyncio.create_task(take(consumer, 1))
    consumer.subscribe(["orders"])
    append(cluster, [b"x"], 3)
    assert await waiting == [b"x"]


async def test_manually_assigned_partitions_use_the_commits_of_the_group(
    make: Make, cluster: FakeCluster
) -> None:
    append(cluster, numbered(10), 1)
    tp = TopicPartition("orders", 1)
    consumer = make()
    consumer.assign([tp])
    await consumer.start()
    assert await take(consumer, 3) == numbered(3)
    await consumer.commit()
    assert cluster.committed("g") == {tp: 3}
    assert cluster.count(ApiKey.JOIN_GROUP) == cluster.count(ApiKey.CONSUMER_GROUP_HEARTBEAT) == 0
    await take(consumer, 1)
    await consumer.stop()
    assert cluster.committed("g") == {tp: 4}
    again = make()
    again.assign([tp])
    await again.start()
    assert await take(again, 1) == [b"v4"]


# --- topics that come and grow


async def test_a_pattern_of_the_clients(make: Make, cluster: FakeCluster) -> None:
    consumer = make()
    consumer.subscribe(pattern="o.*r")
    await consumer.start()
    assert consumer.subscription() == {"orders", "other"}
    assert len(consumer.assignment()) == 6
    cluster.create_topic("over", 1)
    await until(lambda: TopicPartition("over", 0) in consumer.assignment())
    assert consumer.subscription() == {"orders", "other", "over"}


async def test_a_pattern_after_the_start(make: Make) -> None:
    consumer = make("orders")
    await consumer.start()
    consumer.unsubscribe()
    consumer.subscribe(pattern="oth")
    await until(lambda: {tp.topic for tp in consumer.assignment()} == {"other"})
    assert len(consumer.assignment()) == 2


async def test_a_pattern_of_the_brokers(make: Make, cluster: FakeCluster, protocol: str) -> None:
    consumer = make()
    if protocol != "modern":
        with pytest.raises(ValueError, match="group_protocol='consumer'"):
            consumer.subscribe(pattern=SubscriptionPattern("o.*"))
        return
    append(cluster, [b"x"], 3)
    consumer.subscribe(pattern=SubscriptionPattern("or.*"))
    await consumer.start()
    await until(lambda: consumer.assignment() == orders(0, 1, 2, 3))
    assert consumer.subscription() == {"orders"}
    assert await take(consumer, 1) == [b"x"]
    with pytest.raises(IllegalStateError):
        consumer.subscribe(["other"])


async def test_partitions_are_added(make: Make, cluster: FakeCluster) -> None:
    consumer = make("orders")
    await consumer.start()
    cluster.add_partitions("orders", 6)
    await until(lambda: consumer.assignment() == orders(*range(6)))
    append(cluster, [b"x"], 5)
    assert await take(consumer, 1) == [b"x"]


async def test_a_rebalance_on_demand(make: Make, cluster: FakeCluster, protocol: str) -> None:
    consumer = make("orders")
    await consumer.start()
    generation = consumer.group_metadata().generation
    joins = cluster.count(JOIN[protocol])
    consumer.enforce_rebalance("a test")
    await until(lambda: cluster.count(JOIN[protocol]) > joins)
    if protocol != "modern":
        await until(lambda: consumer.group_metadata().generation > generation)


# --- polls


async def test_a_member_that_does_not_poll_leaves_until_the_next_poll(
    make: Make, cluster: FakeCluster
) -> None:
    diary = Diary()
    consumer = make(max_poll_interval_ms=300)
    consumer.subscribe(["orders"], listener=diary)
    await consumer.start()
    await until(lambda: cluster.group("g").members == {})
    await until(lambda: ("lost", orders(0, 1, 2, 3)) in diary.told)
    append(cluster, [b"x"], 1)
    assert await take(consumer, 1) == [b"x"]


async def test_a_member_that_waits_for_records_is_not_removed(
    make: Make, cluster: FakeCluster
) -> None:
    diary = Diary()
    consumer = make(max_poll_interval_ms=300)
    consumer.subscribe(["orders"], listener=diary)
    await consumer.start()
    waiting = asyncio.create_task(take(consumer, 1))
    await asyncio.sleep(0.7)
    append(cluster, [b"x"], 1)
    assert await waiting == [b"x"]
    assert not [what for what, _ in diary.told if what == "lost"]


async def test_each_getone_counts_as_a_poll(make: Make, cluster: FakeCluster) -> None:
    append(cluster, numbered(100), 1)
    diary = Diary()
    consumer = make(max_poll_interval_ms=300)
    consumer.subscribe(["orders"], listener=diary)
    await consumer.start()
    for _ in range(10):  # all of one chunk, which was decoded at the first
        await consumer.getone()
        await asyncio.sleep(0.1)
    assert not [what for what, _ in diary.told if what == "lost"]


# --- errors


async def test_the_group_may_not_be_read(make: Make, cluster: FakeCluster, protocol: str) -> None:
    fault = cluster.control(JOIN[protocol], times=None, error=30)
    refused = make("orders")
    with pytest.raises(GroupAuthorizationFailedError):
        async with asyncio.timeout(5):
            await refused.start()
    await refused.stop()
    consumer = make()
    await consumer.start()
    consumer.subscribe(["orders"])
    for _ in range(2):  # again on each read, which retries
        with pytest.raises(GroupAuthorizationFailedError):
            async with asyncio.timeout(5):
                await consumer.getone()
    fault.remove()
    append(cluster, [b"x"])
    assert await take(consumer, 1) == [b"x"]


async def test_a_group_without_a_coordinator(make: Make, cluster: FakeCluster) -> None:
    fault = cluster.control(ApiKey.FIND_COORDINATOR, times=None, error=15)  # not available
    consumer = make("orders", request_timeout_ms=500)
    with pytest.raises(KafkaTimeoutError, match="No coordinator of group g"):
        await consumer.start()
    await consumer.stop()
    fault.remove()
    async with make("orders", request_timeout_ms=500) as again:
        assert again.assignment() == orders(0, 1, 2, 3)


async def test_a_start_waits_for_a_slow_rebalance(make: Make, protocol: str) -> None:
    if protocol == "modern":
        pytest.skip("nobody waits for the others in this protocol")

    class Slow(Diary):
        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:  # type: ignore[override]  # either is allowed
            await asyncio.sleep(1)

    first = make(request_timeout_ms=500)
    first.subscribe(["orders"], listener=Slow())
    second = make("orders", request_timeout_ms=500)
    await first.start()
    await second.start()  # longer than a request takes
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)


async def test_the_topic_may_not_be_read(make: Make, cluster: FakeCluster) -> None:
    cluster.control(ApiKey.METADATA, times=None, error=29, partitions=[("orders", None)])
    consumer = make("orders")
    with pytest.raises(TopicAuthorizationFailedError):
        async with asyncio.timeout(5):
            await consumer.start()


async def test_a_session_out_of_the_brokers_range(make: Make, protocol: str) -> None:
    if protocol == "modern":
        pytest.skip("the session is the group's business")
    consumer = make("orders", session_timeout_ms=200)
    with pytest.raises(InvalidSessionTimeoutError):
        await consumer.start()


async def test_a_fenced_member_stays_so(make: Make, cluster: FakeCluster, protocol: str) -> None:
    first = make("orders", group_instance_id="i")
    await first.start()
    beat = ApiKey.CONSUMER_GROUP_HEARTBEAT if protocol == "modern" else ApiKey.HEARTBEAT
    cluster.control(beat, error=82)
    for _ in range(2):
        with pytest.raises(FencedInstanceIdError):
            async with asyncio.timeout(5):
                await first.getone()


async def test_commit_of_a_member_that_a_heartbeat_found_fenced_says_so(
    make: Make, cluster: FakeCluster, protocol: str
) -> None:
    first = make("orders", group_instance_id="i")
    await first.start()
    [tp, *_] = sorted(first.assignment())
    beat = ApiKey.CONSUMER_GROUP_HEARTBEAT if protocol == "modern" else ApiKey.HEARTBEAT
    cluster.control(beat, error=82)
    await until(lambda: not first.assignment())
    for offsets in ({tp: 1}, None):
        with pytest.raises(FencedInstanceIdError):
            await first.commit(offsets)


async def test_a_fenced_member_cannot_subscribe_again(
    make: Make, cluster: FakeCluster, protocol: str
) -> None:
    if protocol == "modern":
        pytest.skip("it asks for its place, and is told that another one has it")
    first = make("orders", group_instance_id="i")
    await first.start()
    cluster.control(ApiKey.HEARTBEAT, error=82)
    with pytest.raises(FencedInstanceIdError):
        await asyncio.wait_for(first.getone(), 5)
    first.unsubscribe()
    first.subscribe(["other"])
    with pytest.raises(FencedInstanceIdError):
        await asyncio.wait_for(first.getone(), 5)


async def test_a_listener_that_unsubscribes(make: Make, cluster: FakeCluster) -> None:
    class Listener(Diary):
        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            super().on_partitions_assigned(assigned)
            consumer.unsubscribe()

    diary = Listener()
    consumer = make()
    consumer.subscribe(["orders"], listener=diary)
    async with asyncio.timeout(5):
        await consumer.start()
    await until(lambda: cluster.group("g").members == {})
    assert diary.told[-2:] == [
        ("assigned", orders(0, 1, 2, 3)),
        ("revoked", orders(0, 1, 2, 3)),
    ]
    assert consumer.assignment() == set()


async def test_an_assignor_of_the_applications(cluster: FakeCluster) -> None:
    class FirstTakesAll(AbstractPartitionAssignor):
        name = "first-takes-all"

        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            first = min(members)
            everything = [
                (topic, sorted(cluster.partitions_for_topic(topic)))
                for topic in members[first].subscription
            ]
            return {
                member: ConsumerProtocolMemberAssignment(
                    0, everything if member == first else [], b""
                )
                for member in members
            }

        @classmethod
        def metadata(cls, topics: Any) -> Any:
            return ConsumerProtocolMemberMetadata(0, list(topics), b"")

        @classmethod
        def on_assignment(cls, assignment: Any) -> None:
            received.append(
                {TopicPartition(topic, p) for topic, ps in assignment.assignment for p in ps}
            )

    received: list[Any] = []
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "g",
        "partition_assignment_strategy": [FirstTakesAll],
        "heartbeat_interval_ms": 100,
    }
    async with (
        AIOKafkaConsumer("orders", **options) as first,
        AIOKafkaConsumer("orders", **options) as second,
    ):
        await until(lambda: len(first.assignment() | second.assignment()) == 4)
        assert not (first.assignment() and second.assignment())
    assert orders(0, 1, 2, 3) in received


@pytest.mark.parametrize(
    ("version", "group_protocol"),
    [("0.9", "classic"), ("0.10.0", "classic"), ("2.3", "classic"), ("4.0", "consumer")],
)
async def test_old_brokers(version: str, group_protocol: str) -> None:
    async with FakeCluster(topics=["t"], version=version) as cluster:
        options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "group_protocol": group_protocol,
            "enable_auto_commit": False,
        }
        tp = TopicPartition("t", 0)
        async with AIOKafkaConsumer("t", **options) as consumer:
            assert consumer.assignment() == {tp}
            await consumer.commit({tp: 5})
        async with AIOKafkaConsumer("t", **options) as consumer:
            assert await consumer.position(tp) == 5


@pytest.mark.parametrize(
    ("version", "group_protocol", "words"),
    [("0.8.2", "classic", "JoinGroup"), ("2.8", "consumer", "requires Kafka 4.0")],
)
async def test_brokers_without_such_groups(version: str, group_protocol: str, words: str) -> None:
    async with FakeCluster(topics=["t"], version=version) as cluster:
        consumer = AIOKafkaConsumer(
            "t",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            group_protocol=group_protocol,
        )
        with pytest.raises(UnsupportedVersionError, match=words):
            await consumer.start()
        await consumer.stop()


async def test_a_static_member_returns_to_its_assignment(
    make: Make, cluster: FakeCluster, protocol: str
) -> None:
    first = make("orders", group_instance_id="i")
    second = make("orders")
    await first.start()
    await second.start()
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    held = first.assignment()
    await first.stop()
    joins = cluster.count(ApiKey.SYNC_GROUP)
    back = make("orders", group_instance_id="i")
    await back.start()
    assert back.assignment() == held
    if protocol != "modern":
        assert cluster.count(ApiKey.SYNC_GROUP) == joins + 1  # no rebalance


async def test_a_static_member_that_is_stopped_for_good_leaves_its_partitions(
    make: Make, cluster: FakeCluster
) -> None:
    first = make("orders", group_instance_id="i")
    second = make("orders")
    await first.start()
    await second.start()
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    await first.stop(leave_group=True)
    assert len(cluster.group("g").members) == 1
    await until(lambda: len(second.assignment()) == 4)


async def test_a_member_without_an_instance_id_can_remain_until_its_session_expires(
    make: Make, cluster: FakeCluster
) -> None:
    append(cluster, numbered(10), 1)
    consumer = make("orders")
    await consumer.start()
    await take(consumer, 4)
    member_id = consumer.group_metadata().member_id
    await consumer.stop(leave_group=False)
    assert list(cluster.group("g").members) == [member_id]
    assert cluster.committed("g")[TopicPartition("orders", 1)] == 4


async def test_stop_refuses_a_choice_that_is_no_bool(make: Make) -> None:
    consumer = make("orders")
    await consumer.start()
    with pytest.raises(TypeError, match="`leave_group` should be True or False"):
        await consumer.stop(leave_group="yes")  # type: ignore[arg-type]  # on purpose
    assert consumer.assignment() == orders(0, 1, 2, 3)


async def test_without_a_group_there_is_nothing_of_it(cluster: FakeCluster) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    with pytest.raises(IllegalOperation):
        consumer.group_metadata()
    with pytest.raises(IllegalOperation):
        consumer.enforce_rebalance()
    await consumer.stop()


# --- the end


async def test_stop_ends_reads(make: Make) -> None:
    consumer = make("orders")
    await consumer.start()
    one = asyncio.create_task(consumer.getone())
    many = asyncio.create_task(consumer.getmany(timeout_ms=60_000))
    await asyncio.sleep(0)
    await consumer.stop()
    assert one.done() or await asyncio.wait({one})
    assert many.done()
    assert many.result() == {}
    with pytest.raises(ConsumerStoppedError):
        await one
    with pytest.raises(ConsumerStoppedError):
        await consumer.getmany(timeout_ms=0)


async def test_a_listener_may_commit_but_not_subscribe_during_stop(
    make: Make, cluster: FakeCluster
) -> None:
    tp = TopicPartition("orders", 1)

    class Listener(Diary):
        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:  # type: ignore[override]  # either is allowed
            if revoked:
                await consumer.commit({tp: 3})
                with pytest.raises(ConsumerStoppedError):
                    consumer.subscribe(["other"])
                with pytest.raises(ConsumerStoppedError):
                    consumer.assign([tp])
                self.told.append(("through", revoked))

    diary = Listener()
    consumer = make()
    consumer.subscribe(["orders"], listener=diary)
    await consumer.start()
    await consumer.stop()
    assert diary.told[-1] == ("through", orders(0, 1, 2, 3))
    assert cluster.committed("g")[tp] == 3


async def test_stop_within_its_time_without_a_coordinator(make: Make, cluster: FakeCluster) -> None:
    append(cluster, numbered(4))
    consumer = make("orders")
    await consumer.start()
    await take(consumer, 2)
    cluster.control(None, times=None, drop=True)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await consumer.stop()
    assert loop.time() - begun < 6


async def test_stop_during_the_start(make: Make, cluster: FakeCluster, protocol: str) -> None:
    consumer = make("orders")
    fault = cluster.control(JOIN[protocol], times=None, drop=True)
    starting = asyncio.create_task(consumer.start())
    await fault.struck()
    await consumer.stop()
    with pytest.raises(ConsumerStoppedError):
        await starting


async def test_a_start_given_up_leaves_the_group(make: Make, cluster: FakeCluster) -> None:
    waiting = asyncio.Event()

    class Listener(Diary):
        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:  # type: ignore[override]  # either is allowed
            waiting.set()
            await asyncio.sleep(3600)

    consumer = make()
    consumer.subscribe(["orders"], listener=Listener())
    starting = asyncio.create_task(consumer.start())
    await waiting.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await until(lambda: cluster.group("g").members == {})
    await consumer.stop()


@pytest.mark.filterwarnings("ignore:Unclosed AIOKafkaConsumer")
async def test_a_dropped_consumer_ends(make: Make, cluster: FakeCluster, protocol: str) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # it reports the unclosed consumer
    before = asyncio.all_tasks()
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        **PROTOCOLS[protocol],
    )
    await consumer.start()
    gone = weakref.ref(consumer)
    del consumer
    gc.collect()
    assert gone() is None
    await until(lambda: asyncio.all_tasks() <= before)
