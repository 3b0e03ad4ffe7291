"""Responses to a group's requests that are well-formed but false: none has a lasting effect. The
application gets a documented error, or the request is retried, and everything is read."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import InconsistentGroupProtocolError, KafkaError, KafkaProtocolError
from aiokafka_lite.group.assignment_data import Assignment, write_assignment
from aiokafka_lite.protocol.messages import consumer_group_heartbeat as heartbeat
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.consumer.makers import append, numbered, until
from tests.unit.consumer.members import CONFIGS, PROTOCOLS

pytestmark = pytest.mark.unhurried

VALUES = numbered(20)
HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
NOWHERE = UUID(int=77)

Edit = Callable[[Any], None]


def set_to(**fields: Any) -> Edit:
    """Overwrites fields of a response."""

    def edit(response: Any) -> None:
        for name, value in fields.items():
            setattr(response, name, value)

    return edit


def of_coordinator(**fields: Any) -> Edit:
    return lambda response: set_to(**fields)(response.coordinators[0])


def assigned(*partitions: tuple[str, int]) -> Edit:
    told = Assignment(tuple(TopicPartition(*each) for each in partitions))
    return set_to(assignment=write_assignment(told))


def target(*partitions: tuple[UUID, int]) -> Edit:
    def edit(response: Any) -> None:
        response.assignment = heartbeat.Assignment(
            [heartbeat.TopicPartitions(topic_id, [number]) for topic_id, number in partitions]
        )

    return edit


def committed(**fields: Any) -> Edit:
    def edit(response: Any) -> None:
        for group in response.groups:
            for topic in group.topics:
                for partition in topic.partitions:
                    set_to(**fields)(partition)

    return edit


# Errors that reads may raise, once, or not at all.
INCONSISTENT, UNREADABLE = InconsistentGroupProtocolError, KafkaProtocolError

CASES: list[tuple[str, ApiKey, str, Edit, type[KafkaError] | None]] = [
    ("eager", ApiKey.FIND_COORDINATOR, "no host", of_coordinator(host=""), None),
    ("eager", ApiKey.FIND_COORDINATOR, "no port", of_coordinator(port=0), None),
    ("eager", ApiKey.FIND_COORDINATOR, "a negative port", of_coordinator(port=-7), None),
    ("eager", ApiKey.FIND_COORDINATOR, "too large a port", of_coordinator(port=70_000), None),
    ("eager", ApiKey.FIND_COORDINATOR, "a negative id", of_coordinator(node_id=-7), None),
    ("eager", ApiKey.FIND_COORDINATOR, "another group", of_coordinator(key="other"), None),
    ("eager", ApiKey.FIND_COORDINATOR, "nobody", set_to(coordinators=[]), None),
    ("eager", ApiKey.JOIN_GROUP, "no name", set_to(protocol_name=None), INCONSISTENT),
    ("eager", ApiKey.JOIN_GROUP, "a name from nowhere", set_to(protocol_name="x"), INCONSISTENT),
    ("eager", ApiKey.JOIN_GROUP, "another kind", set_to(protocol_type="connect"), INCONSISTENT),
    ("eager", ApiKey.JOIN_GROUP, "another generation", set_to(generation_id=99), None),
    ("eager", ApiKey.JOIN_GROUP, "a negative generation", set_to(generation_id=-7), None),
    ("eager", ApiKey.JOIN_GROUP, "another member id", set_to(member_id="x", leader="x"), None),
    ("eager", ApiKey.JOIN_GROUP, "a leader of nobody", set_to(members=[]), None),
    ("eager", ApiKey.JOIN_GROUP, "another leader", set_to(leader="x", members=[]), None),
    ("eager", ApiKey.SYNC_GROUP, "another topic", assigned(("other", 0)), None),
    ("eager", ApiKey.SYNC_GROUP, "no such partition", assigned(("orders", 9)), None),
    ("eager", ApiKey.SYNC_GROUP, "a negative partition", assigned(("orders", -1)), UNREADABLE),
    ("eager", ApiKey.SYNC_GROUP, "one twice", assigned(("orders", 0), ("orders", 0)), None),
    ("eager", ApiKey.SYNC_GROUP, "no assignment", set_to(assignment=b"\0\0\0"), UNREADABLE),
    ("eager", ApiKey.SYNC_GROUP, "another name", set_to(protocol_name="x"), INCONSISTENT),
    ("eager", ApiKey.OFFSET_FETCH, "before the first", committed(committed_offset=-5), None),
    ("eager", ApiKey.OFFSET_FETCH, "after the last", committed(committed_offset=2**62), None),
    ("eager", ApiKey.OFFSET_FETCH, "a negative epoch", committed(committed_leader_epoch=-9), None),
    ("modern", HEARTBEAT, "epoch 0", set_to(member_epoch=0), None),
    ("modern", HEARTBEAT, "a negative epoch", set_to(member_epoch=-7), None),
    ("modern", HEARTBEAT, "a later epoch", set_to(member_epoch=99), None),
    ("modern", HEARTBEAT, "no interval", set_to(heartbeat_interval_ms=0), None),
    ("modern", HEARTBEAT, "a negative interval", set_to(heartbeat_interval_ms=-9), None),
    ("modern", HEARTBEAT, "no member id", set_to(member_id=""), None),
    ("modern", HEARTBEAT, "another member id", set_to(member_id="x"), None),
    ("modern", HEARTBEAT, "a topic from nowhere", target((NOWHERE, 0)), None),
    ("modern", HEARTBEAT, "no such partition", target((NOWHERE, 9)), None),
    ("modern", HEARTBEAT, "a negative partition", target((NOWHERE, -1)), UNREADABLE),
    ("modern", HEARTBEAT, "the longest interval", set_to(heartbeat_interval_ms=2**31 - 1), None),
    ("modern", HEARTBEAT, "the least interval", set_to(heartbeat_interval_ms=-(2**31)), None),
]

WAITED_FOR = ("no such partition", "a topic from nowhere", "a leader of nobody", "another leader")
"""Nothing shows that the response is false, or soon outdated: the consumer waits until it
rejoins."""


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    topics = {"orders": 1, "other": 1}
    async with FakeCluster(topics=topics, broker_configs=CONFIGS) as cluster:
        append(cluster, VALUES)
        yield cluster


@pytest.mark.parametrize(
    ("protocol", "api", "lie", "edit", "told"),
    [pytest.param(*case, id=f"{case[1].name}-{case[2]}") for case in CASES],
)
async def test_nothing_is_lost(
    cluster: FakeCluster,
    protocol: str,
    api: ApiKey,
    lie: str,
    edit: Edit,
    told: type[KafkaError] | None,
) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 10,
        "metadata_max_age_ms": 200,
        "request_timeout_ms": 1000,
        **PROTOCOLS[protocol],
    }
    if protocol != "modern":
        options["session_timeout_ms"] = 500
    consumer = AIOKafkaConsumer(**options)
    # The response to a first join has only the member id.
    fault = cluster.control(
        api,
        when=lambda request: api != ApiKey.JOIN_GROUP or request.member_id != "",
        after_handling=True,
        edit=edit,
    )
    raised: list[KafkaError] = []
    values: list[Any] = []
    async with asyncio.timeout(20):
        try:
            await consumer.start()
            consumer.subscribe(["orders"])
            if lie in WAITED_FOR:
                await until(lambda: fault.hits == 1)
                assert await consumer.getmany(timeout_ms=200) == {}
                consumer.unsubscribe()
                consumer.subscribe(["orders"])
            while len(values) < len(VALUES):
                try:
                    values.append((await consumer.getone()).value)
                except KafkaError as error:
                    raised.append(error)
                    assert len(raised) < 5, raised
            assert fault.hits == 1
            await consumer.commit()
        finally:
            await consumer.stop()
    assert values == VALUES
    assert [type(error) for error in raised] == ([] if told is None else [told])
    assert cluster.committed("g") == {("orders", 0): len(VALUES)}
