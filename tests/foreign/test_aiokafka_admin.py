"""aiokafka's admin client and this one return the same results for the same calls."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import aiokafka_lite
import aiokafka_lite.admin
from aiokafka_lite.admin import config_resource as our_resources
from aiokafka_lite.testing import FakeCluster

aiokafka = pytest.importorskip("aiokafka")
their_admin = pytest.importorskip("aiokafka.admin")
their_resources = pytest.importorskip("aiokafka.admin.config_resource")


class Both:
    """Both clients, each with the argument classes of its package."""

    def __init__(self, theirs: Any, ours: Any) -> None:
        self.theirs, self.ours = theirs, ours

    async def call(self, name: str, arguments: Any = lambda package, resources: ()) -> list[Any]:
        """Call a method of both, with arguments from a function of the package."""
        return [
            await getattr(client, name)(*arguments(package, resources))
            for client, package, resources in (
                (self.theirs, their_admin, their_resources),
                (self.ours, aiokafka_lite.admin, our_resources),
            )
        ]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(2, {"orders": 3, "payments": 1}, auto_create_topics=False) as brokers:
        yield brokers


@pytest.fixture
async def both(cluster: FakeCluster) -> AsyncIterator[Both]:
    servers = cluster.bootstrap_servers
    theirs = their_admin.AIOKafkaAdminClient(bootstrap_servers=servers)
    ours = aiokafka_lite.admin.AIOKafkaAdminClient(bootstrap_servers=servers)
    await theirs.start()
    await ours.start()
    yield Both(theirs, ours)
    await theirs.close()
    await ours.close()


def plain(value: Any) -> Any:
    """A result as nested dicts, lists and tuples, in a fixed order."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in sorted(value.items())}
    if isinstance(value, list | tuple):
        return tuple(plain(each) for each in value)
    return value


async def test_list_topics(both: Both) -> None:
    theirs, ours = await both.call("list_topics")
    assert type(ours) is type(theirs)
    assert sorted(ours) == sorted(theirs) == ["orders", "payments"]


@pytest.mark.parametrize("topics", [["orders"], ["payments", "none"], None])
async def test_describe_topics(both: Both, topics: Any) -> None:
    theirs, ours = await both.call("describe_topics", lambda *_: (topics,))
    assert {each["topic"]: each for each in ours} == {each["topic"]: each for each in theirs}
    assert len(ours) == len(theirs)


async def test_describe_cluster(both: Both) -> None:
    theirs, ours = await both.call("describe_cluster")
    assert ours.pop("controller_id") in (0, 1)  # any live broker, drawn for each response
    assert theirs.pop("controller_id") in (0, 1)
    assert plain(ours) == plain(theirs)


async def test_create_and_delete_topics(both: Both, cluster: FakeCluster) -> None:
    def new(package: Any, _: Any) -> Any:
        name = "of-" + package.__name__.split(".")[0]
        return (
            [
                package.NewTopic(name, 2, 1),
                package.NewTopic("orders", 1, 1),
                package.NewTopic(name + "-default", -1, -1, {}),
                package.NewTopic(name + "-placed", -1, -1, {0: [1]}, {"retention.ms": "1000"}),
            ],
        )

    theirs, ours = await both.call("create_topics", new)
    assert ours.throttle_time_ms == theirs.throttle_time_ms
    for mine, yours in zip(ours.topic_errors, theirs.topic_errors, strict=True):
        assert mine[0].replace("aiokafka_lite", "aiokafka") == yours[0]
        assert mine[1:] == yours[1:]
        topic, code, *_ = mine
        assert bool(code) == (topic == "orders")
    assert list(ours.to_object()) == list(theirs.to_object())
    assert [list(each) for each in ours.to_object()["topic_errors"]] == [
        list(each) for each in theirs.to_object()["topic_errors"]
    ]

    def gone(package: Any, _: Any) -> Any:
        return (["of-" + package.__name__.split(".")[0], "none"],)

    theirs, ours = await both.call("delete_topics", gone)
    assert [code for _, code in ours.topic_error_codes] == [
        code for _, code in theirs.topic_error_codes
    ]
    assert ours.topic_error_codes[1] == theirs.topic_error_codes[1] == ("none", 3)


async def test_create_partitions(both: Both) -> None:
    counts = iter((4, 5))

    def more(package: Any, _: Any) -> Any:
        return ({"orders": package.NewPartitions(next(counts))},)

    theirs, ours = await both.call("create_partitions", more)
    assert plain(ours.topic_errors) == plain(theirs.topic_errors) == (("orders", 0, None),)
    for client, package in ((both.theirs, their_admin), (both.ours, aiokafka_lite.admin)):
        with pytest.raises(Exception, match="InvalidPartitions"):
            await client.create_partitions({"orders": package.NewPartitions(2)})


async def test_describe_and_alter_configs(both: Both) -> None:
    def altered(_: Any, resources: Any) -> Any:
        of = resources.ConfigResource
        return (
            [
                of(resources.ConfigResourceType.TOPIC, "orders", {"cleanup.policy": "compact"}),
                of("broker", "1", {"log.retention.ms": "5000"}),
                of("topic", "none", {"cleanup.policy": "delete"}),
            ],
        )

    theirs, ours = await both.call("alter_configs", altered)
    assert [plain(each.resources) for each in ours] == [plain(each.resources) for each in theirs]

    def described(_: Any, resources: Any) -> Any:
        return (altered(_, resources)[0], True)

    theirs, ours = await both.call("describe_configs", described)
    assert len(ours) == len(theirs) == 2
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.throttle_time_ms == yours.throttle_time_ms
        for left, right in zip(mine.resources, yours.resources, strict=True):
            assert (left[1] or None) == (right[1] or None)  # "" or null: no error
            assert plain([left[0], *left[2:]]) == plain([right[0], *right[2:]])


async def test_delete_records(both: Both, cluster: FakeCluster) -> None:
    for _ in range(5):
        cluster.produce("orders", b"value", partition=0)
    offsets = iter((1, 2))

    def before(package: Any, _: Any) -> Any:
        structs = (aiokafka if package is their_admin else aiokafka_lite).TopicPartition
        return ({structs("orders", 0): package.RecordsToDelete(next(offsets))},)

    theirs, ours = await both.call("delete_records", before)
    assert (theirs, ours) == ({("orders", 0): 1}, {("orders", 0): 2})
    assert type(ours) is type(theirs)


async def test_list_consumer_groups(both: Both, cluster: FakeCluster) -> None:
    for number in range(4):
        consumer = aiokafka.AIOKafkaConsumer(
            group_id=f"group-{number}", bootstrap_servers=cluster.bootstrap_servers
        )
        await consumer.start()
        consumer.assign([aiokafka.TopicPartition("orders", 0)])
        await consumer.commit({aiokafka.TopicPartition("orders", 0): 1})
        await consumer.stop()
    theirs, ours = await both.call("list_consumer_groups")
    assert sorted(ours) == sorted(theirs)
    assert len(ours) == 4
    one, two = await asyncio.gather(
        both.ours.list_consumer_groups([0]), both.theirs.list_consumer_groups([0])
    )
    assert sorted(one) == sorted(two)


async def test_what_faststream_does(cluster: FakeCluster) -> None:
    """It passes the options of its connection, starts, pings by `describe_cluster`, and closes;
    applications create topics through it."""
    options = {
        "bootstrap_servers": [cluster.bootstrap_servers],
        "client_id": "faststream",
        "request_timeout_ms": 40_000,
        "retry_backoff_ms": 100,
        "metadata_max_age_ms": 300_000,
        "connections_max_idle_ms": 540_000,
        "security_protocol": "PLAINTEXT",
        "loop": None,
    }
    admin = aiokafka_lite.admin.client.AIOKafkaAdminClient(**options)
    await admin.start()
    await admin.create_topics([aiokafka_lite.admin.NewTopic("new", 1, 1)])
    assert await admin.describe_cluster()
    await admin.close()
    assert "new" in cluster.state.topics
