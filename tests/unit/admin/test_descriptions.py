"""Describing topics, waiting for them, and making sure that they exist."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from aiokafka_lite.admin import (
    AclOperation,
    AIOKafkaAdminClient,
    NewTopic,
    OffsetSpec,
    TopicDifference,
)
from aiokafka_lite.errors import (
    IllegalArgumentError,
    KafkaProtocolError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.describe_topic_partitions import Cursor
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried

UNKNOWN = UnknownTopicOrPartitionError.errno


async def test_topics_as_aiokafka_describes_them(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    orders, none = await admin.describe_topics(["orders", "none"])
    assert (orders["error_code"], orders["topic"], orders["is_internal"]) == (0, "orders", False)
    first = orders["partitions"][0]
    replicas = list(brokers.partition("orders", 0).replicas)
    assert first == {
        "error_code": 0,
        "partition": 0,
        "leader": brokers.partition("orders", 0).leader,
        "replicas": replicas,
        "isr": replicas,
        "offline_replicas": [],
    }
    assert (none["error_code"], none["topic"], none["partitions"]) == (UNKNOWN, "none", [])
    assert {each["topic"] for each in await admin.describe_topics()} == {"orders", "payments"}
    assert await admin.describe_topics([]) == []
    assert "none" not in brokers.state.topics


async def test_a_response_that_is_read_in_slices_is_complete() -> None:
    async with (
        FakeCluster(topics={"large": 3000, "orders": 2}) as brokers,
        AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers) as admin,
    ):
        large, orders = await admin.describe_topics(["large", "orders"])
        typed = await admin.describe_topics(["large", "orders"], typed=True)
        listed = await admin.list_offsets(
            {TopicPartition("large", 2999): OffsetSpec.LATEST, TopicPartition("orders", 1): 0}
        )
    assert [each["partition"] for each in large["partitions"]] == list(range(3000))
    assert len(orders["partitions"]) == 2
    for each in large["partitions"]:
        partition = typed.value("large").partitions[each["partition"]]
        assert (partition.leader, list(partition.replicas)) == (each["leader"], each["replicas"])
    assert set(listed.valid()) == {TopicPartition("large", 2999), TopicPartition("orders", 1)}


async def test_the_typed_description(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    results = await admin.describe_topics(["orders", "none", "payments"], typed=True)
    assert list(results) == ["orders", "none", "payments"]
    orders = results.value("orders")
    assert list(orders.partitions) == list(range(6))
    assert orders.partitions[3].leader == brokers.partition("orders", 3).leader
    assert orders.partitions[3].eligible_leader_replicas == ()
    assert orders.authorized_operations is None
    assert isinstance(results["none"], UnknownTopicOrPartitionError)
    assert brokers.count(ApiKey.DESCRIBE_TOPIC_PARTITIONS) == 1
    assert set(await admin.describe_topics(typed=True)) == {"orders", "payments"}


async def test_topics_are_described_by_id(admin: AIOKafkaAdminClient) -> None:
    topic_id = (await admin.list_topics(typed=True))["orders"].topic_id
    assert topic_id is not None
    unknown = uuid4()
    results = await admin.describe_topics([topic_id, unknown, "payments"], typed=True)
    assert results.value(topic_id).name == "orders"
    assert results.value("payments").name == "payments"
    assert isinstance(results[unknown], UnknownTopicIdError)


async def test_authorized_operations_are_described_on_request(admin: AIOKafkaAdminClient) -> None:
    described = await admin.describe_topics(
        ["orders"], typed=True, include_authorized_operations=True
    )
    operations = described.value("orders").authorized_operations
    assert operations is not None
    assert AclOperation.ALTER in operations
    with pytest.raises(IllegalArgumentError, match="typed=True"):
        await admin.describe_topics(  # type: ignore[call-overload]
            ["orders"], include_authorized_operations=True
        )


@pytest.mark.parametrize("limit", [1, 2, 4, 7])
async def test_topics_are_read_in_pages(limit: int) -> None:
    topics = {"a": 3, "b": 1, "c": 5}
    async with (
        FakeCluster(
            1, topics, broker_configs={"max.request.partition.size.limit": limit}
        ) as brokers,
        AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers) as admin,
    ):
        results = await admin.describe_topics(["c", "none", "a", "b"], typed=True)
        assert {name: list(each.partitions) for name, each in results.valid().items()} == {
            name: list(range(count)) for name, count in topics.items()
        }
        assert isinstance(results["none"], UnknownTopicOrPartitionError)
        assert brokers.count(ApiKey.DESCRIBE_TOPIC_PARTITIONS) > 1


@pytest.mark.parametrize(
    "cursor", [Cursor("orders", 0), Cursor("orders", -1), Cursor("other", 0), Cursor("a", 0)]
)
async def test_pages_that_do_not_go_on_are_a_protocol_error(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, cursor: Cursor
) -> None:
    brokers.control(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        after_handling=True,
        times=None,
        edit=lambda response: setattr(response, "next_cursor", cursor),
    )
    with pytest.raises(KafkaProtocolError, match="not after the previous page"):
        (await admin.describe_topics(["orders"], typed=True)).raise_for_errors()


async def test_a_topic_missing_from_every_page_fails(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        after_handling=True,
        edit=lambda response: response.topics.pop(),
    )
    results = await admin.describe_topics(["orders", "payments"], typed=True)
    assert set(results.valid()) == {"orders"}
    assert isinstance(results["payments"], KafkaProtocolError)


@pytest.mark.parametrize("release", ["0.10.2", "2.2", "3.6"])
async def test_older_brokers_receive_a_metadata_request(release: str) -> None:
    async with (
        FakeCluster(1, {"a": 2}, version=release) as brokers,
        AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers) as admin,
    ):
        results = await admin.describe_topics(["a", "none"], typed=True)
        assert list(results.value("a").partitions) == [0, 1]
        assert isinstance(results["none"], UnknownTopicOrPartitionError)
        described = await admin.describe_topics(["none", "a"])
        assert [each["error_code"] for each in described] == [UNKNOWN, 0]
        assert "none" not in brokers.state.topics
        if release != "3.6":
            with pytest.raises(UnsupportedVersionError, match=r"by id requires Kafka 3\.1"):
                await admin.describe_topics([uuid4()], typed=True)
            with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 2\.3 or newer"):
                await admin.describe_topics(["a"], typed=True, include_authorized_operations=True)


async def test_a_new_topic_is_looked_up_at_every_broker(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    await admin.create_topics([NewTopic("new", 2, 1)])
    fault = brokers.control(
        ApiKey.METADATA,
        node=1,
        times=3,
        when=lambda request: [each.name for each in request.topics or ()] == ["new"],
        error=UnknownTopicOrPartitionError,
        partitions=[("new", None)],
    )
    await admin.wait_for_topics(["new"])
    assert fault.hits == 3
    asked = {
        seen.node_id
        for seen in brokers.requests
        if seen.api_key == ApiKey.METADATA
        and [each.name for each in seen.body.topics or ()] == ["new"]
    }
    assert asked == {0, 1, 2}


async def test_waiting_names_the_broker_and_the_topic(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    with pytest.raises(KafkaTimeoutError, match=r"broker \d did not show the topics.*'none'"):
        await admin.wait_for_topics(["orders", "none"], timeout_ms=300)
    with pytest.raises(KafkaTimeoutError, match="topic 'orders' has 6 partitions here, not 7"):
        await admin.wait_for_topics({"orders": 7}, timeout_ms=300)
    await admin.wait_for_topics({"orders": 6, "payments": 1})
    await admin.wait_for_topics([])


async def test_waiting_for_leaders(admin: AIOKafkaAdminClient, brokers: FakeCluster) -> None:
    def without_leader(response: Any) -> None:
        for topic in response.topics:
            for each in topic.partitions:
                each.leader_id = -1

    fault = brokers.control(
        ApiKey.METADATA,
        after_handling=True,
        when=lambda request: bool(request.topics),
        edit=without_leader,
        times=None,
    )
    with pytest.raises(KafkaTimeoutError, match="partition 0 has no leader here") as raised:
        await admin.wait_for_topics(["payments"], timeout_ms=300)
    assert isinstance(raised.value.__cause__, LeaderNotAvailableError)
    fault.remove()
    await admin.wait_for_topics(["payments"])


async def test_a_broker_that_stops_is_not_waited_for(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.create_topic("spread", 3)
    fault = brokers.control(
        ApiKey.METADATA, node=2, drop=True, when=lambda request: bool(request.topics)
    )
    waiting = asyncio.create_task(admin.wait_for_topics(["spread"]))
    await fault.struck()
    brokers.kill(2)
    await waiting


async def test_a_lasting_error_ends_the_wait(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(
        ApiKey.METADATA,
        times=None,
        error=TopicAuthorizationFailedError,
        partitions=[("orders", None)],
    )
    with pytest.raises(TopicAuthorizationFailedError):
        await admin.wait_for_topics(["orders"])


async def test_missing_topics_are_created_and_others_compared(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    wanted = [
        NewTopic("new", 3, 2),
        NewTopic("orders", 4, 2, topic_configs={"retention.ms": 1000}),
        NewTopic("payments", -1, -1, {0: list(brokers.partition("payments", 0).replicas)}),
    ]
    results = await admin.ensure_topics(wanted)
    assert results.value("new").created
    assert results.value("new").differences == {}
    orders = results.value("orders")
    assert not orders.created
    replicas = len(brokers.partition("orders", 0).replicas)
    assert orders.differences["num_partitions"] == TopicDifference(4, 6)
    assert orders.differences["retention.ms"] == ("1000", "604800000")
    assert ("replication_factor" in orders.differences) == (replicas != 2)
    assert results.value("payments").differences == {}
    again = await admin.ensure_topics(wanted)
    assert not again.value("new").created
    assert again.value("new").differences == {}
    assert brokers.count(ApiKey.CREATE_TOPICS) == 1


async def test_a_topic_that_another_client_creates_first_is_compared(
    admin: AIOKafkaAdminClient, brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    def another(request: Any) -> bool:
        brokers.create_topic("new", 5)
        return False

    brokers.control(ApiKey.CREATE_TOPICS, when=another)
    results = await admin.ensure_topics([NewTopic("new", 3, -1)])
    assert not results.value("new").created
    assert results.value("new").differences == {"num_partitions": TopicDifference(3, 5)}
    assert not caplog.records


async def test_a_topic_that_cannot_be_created_has_its_error(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    brokers.control(ApiKey.CREATE_TOPICS, error=PolicyViolationError, partitions=[("bad", None)])
    results = await admin.ensure_topics([NewTopic("bad", 1, 1), NewTopic("good", 1, 1)])
    assert isinstance(results["bad"], PolicyViolationError)
    assert results.value("good").created
