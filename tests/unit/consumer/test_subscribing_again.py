"""A member that subscribes again: what its reads return, and how its listener is called."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import IllegalOperation, IllegalStateError
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.consumer.makers import append, numbered, until
from tests.unit.consumer.members import CONFIGS, JOIN, PROTOCOLS, Diary, orders

pytestmark = pytest.mark.unhurried

OTHER = TopicPartition("other", 0)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 2, "other": 1}, broker_configs=CONFIGS) as cluster:
        append(cluster, numbered(5), 0)
        yield cluster


def member(cluster: FakeCluster, protocol: str, *topics: str, **more: Any) -> AIOKafkaConsumer:
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 10,
        **PROTOCOLS[protocol],
        **more,
    }
    return AIOKafkaConsumer(*topics, **options)


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
@pytest.mark.parametrize("by", ["getone", "getmany"])
async def test_an_unsubscribed_topic_is_not_reported_again(
    cluster: FakeCluster, protocol: str, by: str
) -> None:
    """Its records are buffered, and the rebalance that revokes it has not begun."""
    append(cluster, [b"of the other"], 0, topic="other")
    async with member(cluster, protocol, "orders") as consumer:
        assert (await consumer.getone()).value == b"v0"
        consumer.subscribe(["other"])
        assert await consumer.getmany(timeout_ms=0) == {}
        async with asyncio.timeout(10):
            if by == "getone":
                record = await consumer.getone()
            else:
                [[record]] = (await consumer.getmany(timeout_ms=5000)).values()
        assert record.value == b"of the other"
        assert consumer.assignment() == {OTHER}
    assert cluster.committed("g")[TopicPartition("orders", 0)] == 1


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
async def test_back_before_the_group_has_heard_of_it(cluster: FakeCluster, protocol: str) -> None:
    async with member(cluster, protocol, "orders") as consumer:
        read = [(await consumer.getone()).value]
        consumer.subscribe(["other"])
        consumer.subscribe(["orders"])
        async with asyncio.timeout(10):
            read += [(await consumer.getone()).value for _ in range(4)]
        assert read == numbered(5)


async def test_a_pause_survives_subscribing_to_other_topics_and_back(cluster: FakeCluster) -> None:
    async with member(cluster, "cooperative", "orders") as consumer:
        await consumer.getone()
        consumer.pause(*orders(0))
        consumer.subscribe(["other"])
        consumer.subscribe(["orders"])
        assert await consumer.getmany(timeout_ms=200) == {}
        assert consumer.paused() == orders(0)
        consumer.resume(*orders(0))
        assert (await consumer.getone()).value == b"v1"


@pytest.mark.parametrize("protocol", ["eager", "cooperative"])
async def test_a_new_listener_receives_the_current_assignment(
    cluster: FakeCluster, protocol: str
) -> None:
    """An application that starts with topics, and then adds a listener, would wait forever."""
    diary = Diary()
    async with member(cluster, protocol, "orders") as consumer:
        assert (await consumer.getone()).value == b"v0"
        consumer.subscribe(["orders"], listener=diary)
        await until(lambda: ("assigned", orders(0, 1)) in diary.told)
        assert (("revoked", orders(0, 1)) in diary.told) is (protocol == "eager")
        assert (await consumer.getone()).value == b"v1"


async def test_a_new_listener_hears_at_the_next_change_where_the_broker_assigns(
    cluster: FakeCluster,
) -> None:
    diary = Diary()
    async with member(cluster, "modern", "orders") as consumer:
        consumer.subscribe(["orders"], listener=diary)
        consumer.subscribe(["orders", "other"], listener=diary)
        await until(lambda: ("assigned", orders(0, 1) | {OTHER}) in diary.told)


async def test_a_listener_set_again_receives_partitions_assigned_meanwhile(
    cluster: FakeCluster,
) -> None:
    diary = Diary()
    consumer = member(cluster, "eager")
    consumer.subscribe(["orders"], listener=diary)
    async with consumer:
        consumer.subscribe(["orders", "other"])
        await until(lambda: OTHER in consumer.assignment())
        consumer.subscribe(["orders", "other"], listener=diary)
        await until(lambda: ("assigned", orders(0, 1) | {OTHER}) in diary.told)


class Slow(ConsumerRebalanceListener):
    """Blocks in the given callback until it is released."""

    def __init__(self, event: str) -> None:
        self.slow: str | None = None
        self._event = event
        self.at_it = asyncio.Event()
        self.go_on = asyncio.Event()

    def begin(self) -> None:
        self.slow = self._event

    async def _take_time(self, event: str) -> None:
        if event == self.slow:
            self.slow = None
            self.at_it.set()
            await self.go_on.wait()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._take_time("revoked")

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await self._take_time("assigned")


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
async def test_a_changed_subscription_does_not_report_partitions_being_revoked(
    cluster: FakeCluster, protocol: str
) -> None:
    """It was committed already: the next owner would read it again."""
    append(cluster, numbered(5), 0, topic="other")
    listener = Slow("revoked")
    consumer = member(cluster, protocol)
    consumer.subscribe(["orders", "other"], listener=listener)
    async with consumer:
        listener.begin()
        consumer.subscribe(["orders"], listener=listener)
        await asyncio.wait_for(listener.at_it.wait(), 10)
        consumer.subscribe(["orders"], listener=listener)
        consumer.subscribe(["orders", "other"], listener=listener)
        assert await consumer.getmany(OTHER, timeout_ms=200) == {}
        listener.go_on.set()
        async with asyncio.timeout(10):
            assert (await consumer.getone(OTHER)).offset == 0


async def test_a_partition_being_given_up_can_be_assigned_manually(cluster: FakeCluster) -> None:
    """While the listener is still being called for the previous subscription."""
    append(cluster, numbered(5), 0, topic="other")
    listener = Slow("assigned")
    consumer = member(cluster, "eager")
    consumer.subscribe(["orders", "other"], listener=listener)
    async with consumer:
        listener.begin()
        consumer.subscribe(["orders"], listener=listener)
        await asyncio.wait_for(listener.at_it.wait(), 10)
        consumer.unsubscribe()
        consumer.assign([OTHER])
        listener.go_on.set()
        group = consumer._core.group
        assert group is not None
        await until(lambda: group._parting is None)
        async with asyncio.timeout(10):
            assert (await consumer.getone()).value == b"v0"


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
async def test_a_partition_assigned_manually_resumes_where_the_group_left_off(
    cluster: FakeCluster, protocol: str
) -> None:
    """Although an earlier commit delays that of the offsets read before `unsubscribe`."""
    tp = TopicPartition("orders", 0)
    async with member(cluster, protocol, "orders") as consumer:
        values = [(await consumer.getone()).value for _ in range(3)]
        earlier = asyncio.create_task(consumer.commit({tp: 1}))
        await asyncio.sleep(0)
        consumer.unsubscribe()
        consumer.assign([tp])
        async with asyncio.timeout(10):
            values += [(await consumer.getone()).value for _ in range(2)]
        assert values == numbered(5)
        await earlier


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
async def test_a_subscription_resumes_where_the_manual_assignment_left_off(
    cluster: FakeCluster, protocol: str
) -> None:
    """The records read before `unsubscribe` are committed, although the consumer is joining."""
    async with member(cluster, protocol) as consumer:
        consumer.assign(orders(0))
        values = [(await consumer.getone()).value for _ in range(3)]
        consumer.unsubscribe()
        consumer.subscribe(["orders"])
        async with asyncio.timeout(10):
            values += [(await consumer.getone()).value for _ in range(2)]
        assert values == numbered(5)


async def test_a_slow_listener_delays_a_manual_assignment_only_for_the_request_timeout(
    cluster: FakeCluster,
) -> None:
    """It is still called about the previous subscription."""
    tp = TopicPartition("orders", 0)
    listener = Slow("assigned")
    consumer = member(cluster, "cooperative", request_timeout_ms=300)
    consumer.subscribe(["orders"], listener=listener)
    async with consumer:
        listener.begin()
        consumer.subscribe(["orders", "other"], listener=listener)
        await asyncio.wait_for(listener.at_it.wait(), 10)
        consumer.unsubscribe()
        consumer.assign([tp])
        async with asyncio.timeout(10):
            assert (await consumer.getone()).value == b"v0"
        listener.go_on.set()


async def test_a_listener_that_assigns_partitions_manually_does_not_wait_for_itself(
    cluster: FakeCluster,
) -> None:
    tp = TopicPartition("orders", 0)
    positions: list[int] = []

    class Turncoat(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            if revoked and not positions:
                consumer.unsubscribe()
                consumer.assign([tp])
                positions.append(await consumer.position(tp))

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            pass

    consumer = member(cluster, "cooperative")
    consumer.subscribe(["orders", "other"], listener=Turncoat())
    async with consumer:
        await consumer.getone()
        consumer.subscribe(["other"], listener=Turncoat())
        async with asyncio.timeout(10):
            await until(lambda: bool(positions))
    assert positions == [1]


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
async def test_the_same_once_more_changes_nothing(cluster: FakeCluster, protocol: str) -> None:
    diary = Diary()
    consumer = member(cluster, protocol)
    consumer.subscribe(["orders"], listener=diary)
    async with consumer:
        told = list(diary.told)
        joins = [each for each in cluster.requests if each.api_key is JOIN[protocol]]
        for _ in range(3):
            consumer.subscribe(["orders"], listener=diary)
            await consumer.getmany(timeout_ms=50)
        assert diary.told == told
        if protocol != "modern":  # where it is the heartbeat, too
            now = [each for each in cluster.requests if each.api_key is ApiKey.JOIN_GROUP]
            assert now == joins


async def test_an_unassigned_partition_raises_before_a_missing_group(
    cluster: FakeCluster,
) -> None:
    async with member(cluster, "eager", group_id=None) as consumer:
        consumer.assign(orders(0))
        with pytest.raises(IllegalStateError):
            await consumer.seek_to_committed(*orders(1))
        with pytest.raises(IllegalOperation):
            await consumer.seek_to_committed()
