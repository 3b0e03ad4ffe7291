"""Races in a group: the application changes its subscription while partitions come and go."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka_lite.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupLoadInProgressError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka_lite.producer.producer import AIOKafkaProducer
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.consumer.makers import append, numbered, until
from tests.unit.consumer.members import CONFIGS, JOIN, PROTOCOLS, Diary, Make, members, orders, take

pytestmark = pytest.mark.unhurried

FIRST = TopicPartition("orders", 0)
HEARTBEAT = {
    "eager": ApiKey.HEARTBEAT,
    "cooperative": ApiKey.HEARTBEAT,
    "modern": ApiKey.CONSUMER_GROUP_HEARTBEAT,
}


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 4}, broker_configs=CONFIGS) as cluster:
        for partition in range(4):
            append(cluster, numbered(10), partition)
        yield cluster


@pytest.fixture(params=list(PROTOCOLS))
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def make(cluster: FakeCluster, protocol: str) -> AsyncIterator[Make]:
    async with members(cluster, protocol) as make:
        yield make


async def test_a_manually_assigned_partition_is_read_although_the_group_lost_it(
    make: Make, cluster: FakeCluster, protocol: str
) -> None:
    go_on = asyncio.Event()

    class Slow(Diary):
        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            super().on_partitions_assigned(assigned)
            await go_on.wait()

    diary = Slow()
    consumer = make()
    await consumer.start()
    consumer.subscribe(["orders"], listener=diary)
    await until(lambda: ("assigned", orders(0, 1, 2, 3)) in diary.told)
    lost = cluster.control(HEARTBEAT[protocol], error=UnknownMemberIdError)
    consumer.unsubscribe()
    consumer.assign([FIRST])
    await lost.struck()
    await until(lambda: consumer.group_metadata().generation == -1)
    go_on.set()
    await until(lambda: diary.told[-1] == ("lost", orders(0, 1, 2, 3)))
    assert await take(consumer, 10) == numbered(10)


async def test_unsubscribe_during_a_revocation_reports_all_partitions(
    make: Make, cluster: FakeCluster
) -> None:
    diary = Diary()
    consumer = make()
    consumer.subscribe(["orders"], listener=diary)
    await consumer.start()
    await take(consumer, 35)  # of all of them
    committing = cluster.control(ApiKey.OFFSET_COMMIT, delay=0.3)
    other = asyncio.create_task(make("orders").start())
    await committing.struck()
    consumer.unsubscribe()
    await other

    def revoked() -> list[TopicPartition]:
        told = (partitions for word, partitions in diary.told if word == "revoked")
        return sorted(tp for partitions in told for tp in partitions)

    await until(lambda: revoked() == sorted(orders(0, 1, 2, 3)))


async def test_a_commit_of_reassigned_partitions_is_not_retried(
    make: Make, cluster: FakeCluster
) -> None:
    one, other = (make("orders", enable_auto_commit=False) for _ in range(2))
    await one.start()
    me = one.group_metadata().member_id
    loading = cluster.control(
        ApiKey.OFFSET_COMMIT,
        times=None,
        error=GroupLoadInProgressError,
        when=lambda request: request.member_id == me,
    )
    late = asyncio.create_task(one.commit(dict.fromkeys(orders(0, 1, 2, 3), 1)))
    await loading.struck()
    await other.start()
    await until(lambda: len(other.assignment()) == len(one.assignment()) == 2)
    theirs = other.assignment()
    await other.commit(dict.fromkeys(theirs, 5))
    loading.remove()
    with pytest.raises(CommitFailedError) as refused:
        await late
    assert isinstance(refused.value.__cause__, RebalanceInProgressError)
    assert cluster.committed("g") == dict.fromkeys(theirs, 5)


async def test_a_subscription_that_changes_during_the_start(cluster: FakeCluster) -> None:
    cluster.control(ApiKey.METADATA, delay=0.2)
    consumer = AIOKafkaConsumer(
        "missing",
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        request_timeout_ms=3000,
    )
    starting = asyncio.create_task(consumer.start())
    await asyncio.sleep(0)
    consumer.subscribe(["orders"])
    await starting
    try:
        assert len(await take(consumer, 40)) == 40
    finally:
        await consumer.stop()


async def test_errors_of_an_unsubscribed_topic_fail_no_read(
    make: Make, cluster: FakeCluster
) -> None:
    consumer = make(metadata_max_age_ms=300_000)
    await consumer.start()
    consumer.subscribe(["not legal!"])
    with pytest.raises(InvalidTopicError):
        await asyncio.wait_for(consumer.getone(), 5)
    consumer.unsubscribe()
    consumer.assign([FIRST])
    assert await take(consumer, 10) == numbered(10)


async def test_a_fenced_member_can_assign_partitions_manually(
    make: Make, cluster: FakeCluster, protocol: str
) -> None:
    consumer = make("orders", group_instance_id="i")
    await consumer.start()
    cluster.control(HEARTBEAT[protocol], error=FencedInstanceIdError)
    with pytest.raises(FencedInstanceIdError):
        await take(consumer, 1000)
    consumer.unsubscribe()
    consumer.assign([FIRST])
    assert await take(consumer, 10) == numbered(10)


async def test_an_assignor_that_fails_to_describe_its_member_is_reported(
    cluster: FakeCluster,
) -> None:
    class Mute(RoundRobinPartitionAssignor):
        name = "mute"

        @classmethod
        def metadata(cls, topics: Any) -> Any:
            raise LookupError("no metadata")

    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        partition_assignment_strategy=[Mute],
        request_timeout_ms=2000,
    )
    try:
        with pytest.raises(KafkaError, match="no metadata"):
            await asyncio.wait_for(consumer.start(), 5)
    finally:
        await consumer.stop()


async def test_a_start_given_up_and_stopped_while_a_listener_does_not_heed_it(make: Make) -> None:
    told = asyncio.Event()

    class Stubborn(Diary):
        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            told.set()
            for _ in range(3):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.8)

    consumer = make()
    consumer.subscribe(["orders"], listener=Stubborn())
    starting = asyncio.create_task(consumer.start())
    await told.wait()
    starting.cancel()
    await asyncio.sleep(0.7)
    await consumer.stop()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_a_bug_ends_start(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(now: float) -> None:
        raise LookupError("ours")

    consumer = make("orders")
    core: Any = consumer._core
    monkeypatch.setattr(core.group.driver.membership, "next_step", mistaken)
    with pytest.raises(KafkaError, match="ours"):
        await asyncio.wait_for(consumer.start(), 5)


@pytest.mark.parametrize("before", ["the start", "the subscription"])
async def test_a_read_begun_before_joining_counts_as_polling(
    before: str, make: Make, cluster: FakeCluster
) -> None:
    cluster.create_topic("empty", 1)
    consumer = make(max_poll_interval_ms=400, rebalance_timeout_ms=400)
    if before == "the start":
        consumer.subscribe(["empty"])
        starting = asyncio.create_task(consumer.start())
        await asyncio.sleep(0)
        reading = asyncio.create_task(consumer.getone())
        await starting
    else:
        await consumer.start()
        reading = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.01)
        consumer.subscribe(["empty"])
    await until(lambda: bool(consumer.assignment()))
    await asyncio.sleep(1)
    assert consumer.assignment() == {TopicPartition("empty", 0)}
    append(cluster, numbered(1), 0, "empty")
    assert (await asyncio.wait_for(reading, 5)).offset == 0
    core: Any = consumer._core
    assert core.group.driver.membership.counters.lost == 0


async def test_a_topic_briefly_missing_from_metadata_stays_in_a_pattern(
    make: Make, cluster: FakeCluster
) -> None:
    def without_orders(response: Any) -> None:
        response.topics = [topic for topic in response.topics if topic.name != "orders"]

    consumer = make(metadata_max_age_ms=50, enable_auto_commit=False)
    consumer.subscribe(pattern="ord.*")
    await consumer.start()
    assert len(await take(consumer, 25)) == 25
    late = cluster.control(ApiKey.METADATA, times=None, edit=without_orders)
    await until(lambda: late.hits > 3)
    late.remove()
    assert len(await take(consumer, 15)) == 15  # and none of them twice
    core: Any = consumer._core
    assert core.group.driver.membership.counters.rebalances == 1


@pytest.mark.parametrize("topics", [["orders"], ["orders", "other"]])
async def test_subscribe_retries_after_an_unreported_failure(
    topics: list[str], make: Make, cluster: FakeCluster, protocol: str
) -> None:
    cluster.control(JOIN[protocol], error=GroupAuthorizationFailedError)
    cluster.create_topic("other", 1)
    consumer = make()
    await consumer.start()
    consumer.subscribe(["orders"])
    core: Any = consumer._core
    await until(lambda: core.group.failure is not None)
    consumer.subscribe(topics)
    assert await take(consumer, 1)


@pytest.mark.parametrize("told", ["revoked", "assigned"])
async def test_a_listener_whose_task_is_cancelled_holds_no_partition_back(
    make: Make, cluster: FakeCluster, told: str
) -> None:
    """For example, by a watchdog of the application, because the listener hangs."""

    class Hanging(Diary):
        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            super().on_partitions_revoked(revoked)
            await self.hang("revoked")

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            super().on_partitions_assigned(assigned)
            await self.hang("assigned")

        async def hang(self, where: str) -> None:
            task = asyncio.current_task()
            if where == told and task is not None:
                asyncio.get_running_loop().call_later(0.1, task.cancel)
                await asyncio.sleep(3600)

    consumer = make()
    consumer.subscribe(["orders"], listener=Hanging())
    await consumer.start()
    await take(consumer, 40)
    other = make("orders")
    await other.start()
    await until(lambda: len(consumer.assignment()) == len(other.assignment()) == 2)
    await other.stop()
    await until(lambda: len(consumer.assignment()) == 4)
    for partition in range(4):
        append(cluster, [b"new"], partition, base_offset=10)
    assert await take(consumer, 4) == [b"new"] * 4


async def test_a_listener_may_call_stop_during_stop(make: Make) -> None:
    through: list[bool] = []

    class Stopping(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            if revoked:
                await consumer.stop()
                through.append(True)

        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            pass

    consumer = make()
    consumer.subscribe(["orders"], listener=Stopping())
    await consumer.start()
    await consumer.stop()
    assert through == [True]


async def test_a_listener_reads_the_positions_of_revoked_partitions(make: Make) -> None:
    """As applications do that store the offsets elsewhere."""
    kept: dict[TopicPartition, int] = {}

    class Keeping(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            for tp in revoked:
                kept[tp] = await consumer.position(tp)

        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            pass

    consumer = make(enable_auto_commit=False)
    consumer.subscribe(["orders"], listener=Keeping())
    await consumer.start()
    await take(consumer, 40)
    consumer.unsubscribe()
    await until(lambda: kept == dict.fromkeys(orders(0, 1, 2, 3), 10))
    with pytest.raises(IllegalStateError):
        await consumer.position(FIRST)


@pytest.mark.parametrize("after", [0.0, 0.001, 0.003, 0.01, 0.03])
async def test_a_start_interrupted_by_stop_raises(after: float, make: Make) -> None:
    consumer = make("orders")
    starting = asyncio.create_task(consumer.start())
    await asyncio.sleep(after)
    stopped_before = not starting.done()
    await consumer.stop()
    if stopped_before:
        with contextlib.suppress(ConsumerStoppedError):
            await starting


@pytest.mark.parametrize("word", ["assigned", "revoked", "lost"])
async def test_a_listener_continues_after_it_called_stop(
    word: str, make: Make, cluster: FakeCluster, protocol: str
) -> None:
    through: list[str] = []

    class Stopping(ConsumerRebalanceListener):
        async def stop(self, when: str, partitions: set[TopicPartition]) -> None:
            if when == word and partitions:
                await consumer.stop()
                through.append(when)

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            await self.stop("assigned", assigned)

        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            await self.stop("revoked", revoked)

        async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
            await self.stop("lost", lost)

    consumer = make()
    consumer.subscribe(["orders"], listener=Stopping())
    with contextlib.suppress(ConsumerStoppedError):
        await consumer.start()
        if word == "lost":
            cluster.control(HEARTBEAT[protocol], error=UnknownMemberIdError)
        else:
            consumer.unsubscribe()
    await until(lambda: through == [word])


async def test_group_metadata_for_a_transaction_changes_only_with_a_read(
    make: Make, cluster: FakeCluster
) -> None:
    """A rebalance in the background while the application processes records: its offsets are
    rejected, because another member has the partition (KIP-447)."""
    one = make("orders", enable_auto_commit=False)
    await one.start()
    assert len(await take(one, 35)) == 35  # of all of them
    read_as = one.group_metadata()
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="copies"
    ) as producer:
        await producer.begin_transaction()
        await make("orders", enable_auto_commit=False).start()
        await until(lambda: len(one.assignment()) == 2)
        assert one.group_metadata() == read_as
        offsets = dict.fromkeys(orders(0, 1, 2, 3), 1)
        with pytest.raises(CommitFailedError):
            await producer.send_offsets_to_transaction(offsets, one.group_metadata())
        await producer.abort_transaction()
    await one.getmany(timeout_ms=0)
    assert one.group_metadata().generation > read_as.generation
    one.unsubscribe()
    await until(lambda: one.group_metadata().generation == -1)
