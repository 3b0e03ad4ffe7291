"""Log lines of a group's life, in both protocols: one per change."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest

from aiokafka_lite.group.membership_log import named
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.consumer.makers import until
from tests.unit.consumer.members import CONFIGS, PROTOCOLS, Make, members

pytestmark = pytest.mark.unhurried


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(brokers=2, topics={"orders": 4}, broker_configs=CONFIGS) as cluster:
        yield cluster


@pytest.fixture(params=list(PROTOCOLS))
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def make(cluster: FakeCluster, protocol: str) -> AsyncIterator[Make]:
    async with members(cluster, protocol) as make:
        yield make


class Lines:
    """The lines at INFO and above that the group's loggers wrote."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, "aiokafka_lite.group")

    def __iter__(self) -> Iterator[str]:
        for record in self._caplog.records:
            if record.name.startswith("aiokafka_lite.group"):
                yield record.getMessage()

    def with_(self, *parts: str) -> list[str]:
        return [line for line in self if all(part in line for part in parts)]

    def clear(self) -> None:
        self._caplog.clear()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    return Lines(caplog)


async def test_a_member_s_life_is_logged(make: Make, protocol: str, lines: Lines) -> None:
    modern = protocol == "modern"
    consumer = make("orders", client_id="orders-service")
    await consumer.start()
    me = consumer.group_metadata()
    group, member = me.group_id, me.member_id
    client = "orders-service"
    epoch = f"member epoch {me.generation}" if modern else f"generation {me.generation}"
    assert len(lines.with_(f"{client}: the coordinator of group {group} is broker")) == 1
    assert len(lines.with_(f"{client}: joining group {group}", ": ")) == 1
    if modern:
        assert lines.with_(f"{client}: member {member} of group {group} is in {epoch}")
    else:
        assert (
            len(lines.with_(f"joined group {group} as member {member} in {epoch}", "protocol")) == 1
        )
        assert len(lines.with_(f"member {member}, {epoch}: leader of 1 members")) == 1
    assert (
        len(lines.with_(f"{client}: group {group}, member {member}, {epoch}: assigned orders 0-3"))
        == 1
    )
    lines.clear()
    await consumer.stop()
    assert len(lines.with_(f"member {member}", "revoking orders 0-3")) == 1
    assert (
        len(lines.with_(f"{client}: leaving group {group} as member {member}: the consumer is"))
        == 1
    )
    assert lines.with_(f"{client}: member {member} left group {group}") == list(lines)[-1:]


async def test_a_rebalance_is_logged_with_its_reason(
    make: Make, protocol: str, lines: Lines
) -> None:
    first = make("orders")
    await first.start()
    me = first.group_metadata().member_id
    lines.clear()
    second = make("orders")
    await second.start()
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    other = second.group_metadata().member_id
    assert lines.with_(f"member {me}", "revoking orders")
    assert lines.with_(f"member {other}", "assigned orders")
    if protocol != "modern":
        assert lines.with_(
            f"joining group {first.group_metadata().group_id} as member {me}: group is"
        )


async def test_lost_partitions_are_logged(
    make: Make, cluster: FakeCluster, protocol: str, lines: Lines
) -> None:
    consumer = make("orders")
    await consumer.start()
    me = consumer.group_metadata().member_id
    lines.clear()
    beat = ApiKey.CONSUMER_GROUP_HEARTBEAT if protocol == "modern" else ApiKey.HEARTBEAT
    cluster.control(beat, error=110 if protocol == "modern" else 22)
    await until(lambda: bool(lines.with_("assigned orders 0-3")))
    assert len(lines.with_(f"member {me}: lost orders 0-3")) == 1


async def test_a_search_for_the_coordinator_is_logged_once(
    make: Make, cluster: FakeCluster, lines: Lines
) -> None:
    consumer = make("orders")
    await consumer.start()
    lines.clear()
    for node in (0, 1):
        cluster.kill(node)
    await until(lambda: bool(lines.with_("lost its coordinator")))
    await until(lambda: cluster.count(ApiKey.FIND_COORDINATOR) >= 1)
    assert not lines.with_("the coordinator of group")
    for node in (0, 1):
        await cluster.restart(node)
    await until(lambda: bool(lines.with_("the coordinator of group")))
    assert len(lines.with_("lost its coordinator")) == 1


def test_partitions_are_named_by_topic_in_ranges() -> None:
    def some(*partitions: int, topic: str = "orders") -> set[TopicPartition]:
        return {TopicPartition(topic, partition) for partition in partitions}

    assert named(()) == "none"
    assert named(some(3)) == "orders 3"
    assert named(some(0, 1, 2, 5, 7, 8)) == "orders 0-2, 5, 7-8"
    assert named(some(10, 9, 2) | some(0, topic="a")) == "a 0; orders 2, 9-10"
    assert named(some(*range(1000))) == "orders 0-999"
