"""The admin client against a real Kafka; another client verifies the results."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    AlterConfigOp,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    RecordsToDelete,
)
from aiokafka_lite.cluster.retry import ANY
from aiokafka_lite.errors import (
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    KafkaError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from aiokafka_lite.structs import TopicPartition
from tools.kafka import OwnCluster, RealKafka

confluent_admin = pytest.importorskip("confluent_kafka.admin")


@pytest.fixture
async def admin(kafka: RealKafka) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        yield client


@pytest.fixture
async def admin3(kafka3: OwnCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka3.bootstrap_servers) as client:
        yield client


def a_name() -> str:
    return f"admin-{uuid.uuid4().hex[:10]}"


async def topics_of(kafka: RealKafka) -> dict[str, Any]:
    """The topics as librdkafka describes them."""
    judge = confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    return (await asyncio.to_thread(judge.list_topics, timeout=30)).topics


async def configs_of(kafka: RealKafka, topic: str) -> dict[str, Any]:
    judge = confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    resource = confluent_admin.ConfigResource("topic", topic)
    asked = judge.describe_configs([resource])[resource]
    return await asyncio.to_thread(asked.result, 30)


async def configs_once(kafka: RealKafka, topic: str, **wanted: str) -> dict[str, Any]:
    """The configurations, once the broker shows these values: it applies a change later."""
    named = {key.replace("_", "."): value for key, value in wanted.items()}
    async with asyncio.timeout(30):
        while True:
            seen = await configs_of(kafka, topic)
            if {key: seen[key].value for key in named} == named:
                return seen
            await asyncio.sleep(0.05)


async def test_topics_are_created_and_deleted(kafka3, admin3) -> None:
    plain, placed, default = a_name(), a_name(), a_name()
    result = await admin3.create_topics(
        [
            NewTopic(plain, 3, 2, topic_configs={"retention.ms": 123_456}),
            NewTopic(placed, -1, -1, {0: [2, 0], 1: [1, 2]}),
            NewTopic(default, -1, -1, {}),
            NewTopic("not a name", 1, 1),
            NewTopic(a_name(), 1, 9),
        ]
    )
    created = result.valid()
    assert set(created) == {plain, placed, default}
    assert (created[plain].num_partitions, created[plain].replication_factor) == (3, 2)
    assert created[plain].configs["retention.ms"].value == "123456"
    assert InvalidReplicationFactorError in {type(error) for error in result.errors().values()}
    again = await admin3.create_topics([NewTopic(plain, 1, 1)])
    with pytest.raises(TopicAlreadyExistsError, match="already exists"):
        again.raise_for_errors()

    await admin3.wait_for_topics(list(created))  # a broker applies a new topic later
    listed = await admin3.list_topics(typed=True)
    assert {listed[name].topic_id for name in created} == {
        each.topic_id for each in created.values()
    }
    seen = await topics_of(kafka3)
    assert len(seen[plain].partitions) == 3
    assert [each.replicas for each in seen[placed].partitions.values()] == [[2, 0], [1, 2]]
    assert (await configs_of(kafka3, plain))["retention.ms"].value == "123456"

    gone = await admin3.delete_topics([plain, created[placed].topic_id, default, a_name()])
    assert [code for _, code in gone.topic_error_codes] == [
        *(0, 0, 0),
        UnknownTopicOrPartitionError.errno,
    ]
    async with asyncio.timeout(30):
        while {plain, placed, default} & set(await admin3.list_topics()):  # on each broker
            await asyncio.sleep(0.1)


async def test_validate_only_creates_nothing(kafka, admin) -> None:
    name = a_name()
    checked = await admin.create_topics([NewTopic(name, 2, 1)], validate_only=True)
    assert checked.value(name).num_partitions == 2
    refused = await admin.create_topics([NewTopic(name, 2, 3)], validate_only=True)
    assert isinstance(refused[name], InvalidReplicationFactorError | InvalidPartitionsError)
    assert name not in await topics_of(kafka)


async def test_the_cluster_is_described(kafka3, admin3) -> None:
    told = await admin3.describe_cluster()
    addresses = {f"{each['host']}:{each['port']}" for each in told["brokers"]}
    assert addresses == set(kafka3.bootstrap_servers.split(","))
    assert told["controller_id"] in (0, 1, 2)
    typed = await admin3.describe_cluster(
        typed=True, include_authorized_operations=True, include_fenced_brokers=True
    )
    assert typed.cluster_id == told["cluster_id"]
    assert {each.is_fenced for each in typed.brokers.values()} == {False}
    assert typed.authorized_operations is not None


async def test_groups_of_every_broker_are_listed(kafka3, admin3, topic3) -> None:
    name = topic3(partitions=3)
    groups = [f"{name}-{number}" for number in range(6)]
    confluent = pytest.importorskip("confluent_kafka")

    def commit(group: str) -> None:
        consumer = confluent.Consumer(
            {"bootstrap.servers": kafka3.bootstrap_servers, "group.id": group}
        )
        offsets = [confluent.TopicPartition(name, 0, 0)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    for group in groups:
        await asyncio.to_thread(commit, group)
    listings = await admin3.list_groups()
    assert listings.errors() == {}
    found = {each.group_id: each for each in listings.valid()}
    assert set(groups) <= set(found)
    assert {(found[group].state, found[group].type) for group in groups} == {("Empty", "classic")}
    assert {(group, "") for group in groups} <= set(await admin3.list_consumer_groups())
    assert not set(groups) & {
        each.group_id for each in (await admin3.list_groups(states=["Stable"])).valid()
    }


async def test_topics_are_described_as_librdkafka_describes_them(kafka3, admin3, topic3) -> None:
    name = topic3(partitions=5)
    await admin3.wait_for_topics({name: 5})
    described = (await admin3.describe_topics([name], typed=True)).value(name)
    seen = (await topics_of(kafka3))[name]
    assert {number: each.leader for number, each in described.partitions.items()} == {
        number: each.leader for number, each in seen.partitions.items()
    }
    assert all(
        sorted(each.isr) == sorted(seen.partitions[number].isrs)
        for number, each in described.partitions.items()
    )
    by_id = await admin3.describe_topics([described.topic_id], typed=True)
    assert by_id.value(described.topic_id).name == name
    [plain] = await admin3.describe_topics([name])
    assert [each["replicas"] for each in plain["partitions"]] == [
        list(each.replicas) for each in described.partitions.values()
    ]
    missing, [none] = a_name(), await admin3.describe_topics([a_name()])
    assert none["error_code"] == UnknownTopicOrPartitionError.errno
    assert isinstance(
        (await admin3.describe_topics([missing], typed=True))[missing],
        UnknownTopicOrPartitionError,
    )
    assert missing not in await admin3.list_topics()


async def test_a_topic_is_known_everywhere_once_it_was_waited_for(kafka3, admin3) -> None:
    wanted = [NewTopic(a_name(), 6, 3), NewTopic(a_name(), 1, 1)]
    ensured = (await admin3.ensure_topics(wanted)).raise_for_errors()
    assert all(each.created for each in ensured.values())
    for server in kafka3.bootstrap_servers.split(","):
        async with AIOKafkaAdminClient(bootstrap_servers=server) as other:
            assert {each.name for each in wanted} <= set(await other.list_topics())
    name = wanted[0].name
    await admin3.create_partitions({name: NewPartitions(8)})
    await admin3.wait_for_topics({name: 8})
    changed = NewTopic(name, 6, 3, topic_configs={"retention.ms": 5})
    again = (await admin3.ensure_topics([changed])).value(name)
    assert not again.created
    found = (await configs_of(kafka3, name))["retention.ms"].value
    assert again.differences == {"num_partitions": (6, 8), "retention.ms": ("5", found)}


async def test_configurations_change_one_by_one(kafka, admin, topic) -> None:
    name = topic(**{"retention.ms": 1000})
    resource, none = ConfigResource("topic", name), ConfigResource("topic", a_name())
    results = await admin.incremental_alter_configs(
        {
            resource: [
                AlterConfigOp.set("max.message.bytes", 5000),
                AlterConfigOp.append("cleanup.policy", "compact"),
            ],
            none: {"retention.ms": 1},
        }
    )
    assert results[resource] is None
    assert isinstance(results[none], UnknownTopicOrPartitionError)
    seen = await configs_once(
        kafka, name, max_message_bytes="5000", cleanup_policy="delete,compact"
    )
    assert seen["retention.ms"].value == "1000"
    described = await admin.describe_configs([resource], include_documentation=True, typed=True)
    ours = described.value(resource)
    assert {key: each.value for key, each in ours.items()} == {
        key: each.value for key, each in seen.items()
    }
    assert {key: int(each.source) for key, each in ours.items()} == {
        key: each.source for key, each in seen.items()
    }
    assert ours["retention.ms"].documentation
    await admin.alter_configs([ConfigResource("topic", name, {"retention.ms": 2000})])
    await configs_once(kafka, name, retention_ms="2000", cleanup_policy="delete")
    assert resource in await admin.list_config_resources(["topic"])


async def test_offsets_records_and_lag(kafka3, admin3, topic3) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    name = topic3(partitions=3)
    partitions = [TopicPartition(name, number) for number in range(3)]

    def write() -> None:
        producer = confluent.Producer({"bootstrap.servers": kafka3.bootstrap_servers})
        for tp in partitions:
            for number in range(10):
                producer.produce(
                    name,
                    b"%d" % number,
                    partition=tp.partition,
                    timestamp=1_000_000_000_000 + number,
                )
        assert producer.flush(60) == 0

    await asyncio.to_thread(write)
    latest = await admin3.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    assert {each.offset for each in latest.raise_for_errors().values()} == {10}
    specs = [OffsetSpec.EARLIEST, 1_000_000_000_004, OffsetSpec.MAX_TIMESTAMP]
    found = await admin3.list_offsets(dict(zip(partitions, specs, strict=True)))
    assert [each.offset for each in found.raise_for_errors().values()] == [0, 4, 9]
    deleted = await admin3.delete_records(
        {partitions[0]: RecordsToDelete(3), partitions[1]: RecordsToDelete(-1)}
    )
    assert deleted == {partitions[0]: 3, partitions[1]: 10}
    with pytest.raises(OffsetOutOfRangeError):
        await admin3.delete_records({partitions[0]: RecordsToDelete(99)})

    def commit() -> None:
        consumer = confluent.Consumer(
            {"bootstrap.servers": kafka3.bootstrap_servers, "group.id": name}
        )
        consumer.commit(offsets=[confluent.TopicPartition(name, 2, 6)], asynchronous=False)
        consumer.close()

    await asyncio.to_thread(commit)
    lags = (await admin3.lag(name, partitions)).raise_for_errors()
    assert [each.lag for each in lags.values()] == [7, 0, 4]
    assert set(await admin3.lag(name)) == {partitions[2]}


async def test_controllers_administer_the_cluster_directly(kafka3, admin3) -> None:
    """KIP-919: through the controllers' own listener, which serves no broker requests."""
    quorum = await admin3._dispatcher.ask(
        DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequestTopicData(
                    "__cluster_metadata", [DescribeQuorumRequestPartitionData(0)]
                )
            ]
        ),
        ANY,
        admin3._dispatcher.deadline(None),
        oldest=2,
    )
    addresses = [f"{each.host}:{each.port}" for node in quorum.nodes for each in node.listeners]
    assert len(addresses) == 3
    name, resource = a_name(), ConfigResource("broker", "")
    async with AIOKafkaAdminClient(bootstrap_controllers=addresses) as admin:
        told = await admin.describe_cluster(typed=True)
        assert {f"{each.host}:{each.port}" for each in told.brokers.values()} == set(addresses)
        assert told.controller_id == quorum.topics[0].partitions[0].leader_id
        assert told.cluster_id == (await admin3.describe_cluster())["cluster_id"]
        await admin.create_topics([NewTopic(name, 2, 3)], raise_errors=True)
        await admin3.wait_for_topics({name: 2})
        changes = {resource: {"log.cleaner.threads": 2}}
        (await admin.incremental_alter_configs(changes)).raise_for_errors()
        (
            await admin.incremental_alter_configs({resource: {"log.cleaner.threads": None}})
        ).raise_for_errors()
        await admin.delete_topics([name], raise_errors=True)
        with pytest.raises(UnsupportedVersionError, match="bootstrap_servers"):
            await admin.list_topics()
    with pytest.raises(KafkaError, match="needs the addresses of KRaft controllers"):
        async with AIOKafkaAdminClient(bootstrap_controllers=kafka3.bootstrap_servers):
            pass
