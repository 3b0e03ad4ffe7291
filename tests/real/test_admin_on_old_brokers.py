"""Topics, configurations, records and ACLs on old brokers; librdkafka and Kafka's own tools
verify what the admin client did. Groups and transactions: test_admin_transactions.py."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer, TopicPartition
from aiokafka_lite.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AIOKafkaAdminClient,
    ClientQuotaEntity,
    ConfigResource,
    ElectionType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PatternType,
    RecordsToDelete,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from aiokafka_lite.errors import (
    InvalidReplicationFactorError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from tools.kafka import KafkaCluster, KafkaNotAvailable
from tools.kafka.java import run

confluent_admin = pytest.importorskip("confluent_kafka.admin")

AUTHORIZERS = {
    "2.8.2": "kafka.security.authorizer.AclAuthorizer",
    "0.11.0.3": "kafka.security.auth.SimpleAclAuthorizer",
}

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=AUTHORIZERS)
def old(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    config = {
        "authorizer.class.name": AUTHORIZERS[request.param],
        "super.users": "User:ANONYMOUS",
        "delete.topic.enable": "true",  # not the default of 0.11
    }
    try:
        with KafkaCluster(request.param, config=config) as cluster:
            yield cluster
    except KafkaNotAvailable as error:
        pytest.skip(f"no real Kafka: {error}")


def is_2_8(old: KafkaCluster) -> bool:
    return old.release.number >= (2, 8)


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.1)


async def topics_of(old: KafkaCluster) -> dict[str, Any]:
    judge = confluent_admin.AdminClient({"bootstrap.servers": old.bootstrap_servers})
    return (await asyncio.to_thread(judge.list_topics, timeout=30)).topics


async def value_of(old: KafkaCluster, topic: str, name: str) -> str:
    judge = confluent_admin.AdminClient({"bootstrap.servers": old.bootstrap_servers})
    resource = confluent_admin.ConfigResource("topic", topic)
    found = await asyncio.to_thread(judge.describe_configs([resource])[resource].result, 30)
    return str(found[name].value)


async def test_topics(old: KafkaCluster) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin:
        result = await admin.create_topics(
            [
                NewTopic("one", 2, 1, topic_configs={"retention.ms": 123_456}),
                NewTopic("placed", -1, -1, {0: [0], 1: [0]}),
                NewTopic("refused", 1, 9),
            ]
        )
        assert set(result.valid()) == {"one", "placed"}
        assert isinstance(result["refused"], InvalidReplicationFactorError)
        again = await admin.create_topics([NewTopic("one", 1, 1)])
        assert isinstance(again["one"], TopicAlreadyExistsError)
        checked = await admin.create_topics([NewTopic("checked", 1, 1)], validate_only=True)
        assert checked.errors() == {}
        await admin.wait_for_topics({"one": 2, "placed": 2})
        seen = await topics_of(old)
        assert (len(seen["one"].partitions), len(seen["placed"].partitions)) == (2, 2)
        assert "checked" not in seen
        assert await value_of(old, "one", "retention.ms") == "123456"

        assert {"one", "placed"} <= set(await admin.list_topics())
        described = await admin.describe_topics(["one", "none"], typed=True)
        assert {each.leader for each in described.value("one").partitions.values()} == {0}
        assert (described.value("one").topic_id is not None) == is_2_8(old)
        assert isinstance(described["none"], UnknownTopicOrPartitionError)
        [plain] = await admin.describe_topics(["one"])
        assert [each["replicas"] for each in plain["partitions"]] == [[0], [0]]
        assert "none" not in await topics_of(old)

        if is_2_8(old):
            await admin.create_partitions({"one": NewPartitions(3)})
            await admin.wait_for_topics({"one": 3})
            assert len((await topics_of(old))["one"].partitions) == 3
            moved = await admin.alter_partition_reassignments({TopicPartition("one", 0): [0]})
            assert moved.errors() == {}
            await admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("one", 0)])
            log_dirs = (await admin.describe_log_dirs([0])).value(0)
            replicas = {tp for each in log_dirs.values() for tp in each.replicas}
            assert {TopicPartition("one", number) for number in range(3)} <= replicas
        else:
            for call, release in (
                (admin.create_partitions({"one": NewPartitions(3)}), r"1\.0"),
                (admin.describe_log_dirs([0]), r"1\.0"),
                (admin.alter_partition_reassignments({TopicPartition("one", 0): [0]}), r"2\.4"),
                (admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("one", 0)]), r"2\.2"),
            ):
                with pytest.raises(UnsupportedVersionError, match=f"{release}.* or newer"):
                    await call

        gone = await admin.delete_topics(["placed", "none"])
        assert gone["placed"] is None
        assert isinstance(gone["none"], UnknownTopicOrPartitionError)

        async def deleted() -> bool:
            return "placed" not in await topics_of(old)

        await until(deleted)


async def test_configs_and_records(old: KafkaCluster) -> None:
    old.create_topic("configured", 1)
    servers, resource = old.bootstrap_servers, ConfigResource("topic", "configured")
    partition = TopicPartition("configured", 0)
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        await admin.wait_for_topics(["configured"])
        await admin.alter_configs([ConfigResource("topic", "configured", {"retention.ms": 2000})])

        async def is_altered() -> bool:
            return await value_of(old, "configured", "retention.ms") == "2000"

        await until(is_altered)
        changes = {resource: {"max.message.bytes": 5000}}
        if is_2_8(old):
            (await admin.incremental_alter_configs(changes)).raise_for_errors()

            async def is_added() -> bool:
                return await value_of(old, "configured", "max.message.bytes") == "5000"

            await until(is_added)
        else:
            with pytest.raises(UnsupportedVersionError, match=r"2\.3.* or newer"):
                await admin.incremental_alter_configs(changes)
        assert await value_of(old, "configured", "retention.ms") == "2000"  # still
        config = (await admin.describe_configs([resource], typed=True)).value(resource)
        assert config["retention.ms"].value == "2000"
        assert config["segment.bytes"].is_default
        broker = ConfigResource("broker", "0")
        described = (await admin.describe_configs([broker], typed=True)).value(broker)
        assert described["delete.topic.enable"].value == "true"

        await admin.alter_configs([ConfigResource("topic", "configured", {})])  # keeps the records

        async def is_reset() -> bool:
            return await value_of(old, "configured", "retention.ms") != "2000"

        await until(is_reset)
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(6):
                await producer.send_and_wait("configured", b"%d" % number, partition=0)
        found = await admin.list_offsets({partition: OffsetSpec.LATEST})
        assert found.value(partition).offset == 6
        assert await admin.delete_records({partition: RecordsToDelete(4)}) == {partition: 4}
        found = await admin.list_offsets({partition: OffsetSpec.EARLIEST})
        assert found.value(partition).offset == 4
        with pytest.raises(UnsupportedVersionError, match=r"3\.0 or newer"):
            await admin.list_offsets({partition: OffsetSpec.MAX_TIMESTAMP})


async def acls_of(old: KafkaCluster) -> str:
    """The ACLs as Kafka's own tool of the release lists them, from ZooKeeper."""
    arguments = ["--authorizer", AUTHORIZERS[old.version]]
    arguments += ["--authorizer-properties", f"zookeeper.connect={old.zookeeper()}", "--list"]
    return "\n".join(await asyncio.to_thread(run, "kafka.admin.AclCommand", arguments, old.version))


async def test_acls(old: KafkaCluster) -> None:
    topic = ResourcePattern(ResourceType.TOPIC, "guarded")
    literal = AclBinding(topic, "User:cook", AclOperation.READ)
    prefixed = AclBinding(
        ResourcePattern(ResourceType.TOPIC, "kitchen-", PatternType.PREFIXED),
        "User:cook",
        AclOperation.WRITE,
    )
    async with AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin:
        (await admin.create_acls([literal])).raise_for_errors()
        everything = AclBindingFilter()
        only_literal = literal.to_filter()

        async def is_there() -> bool:
            return literal in await admin.describe_acls(only_literal)

        await until(is_there)
        listed = await acls_of(old)
        assert "guarded" in listed
        assert "User:cook" in listed
        if is_2_8(old):
            (await admin.create_acls([prefixed])).raise_for_errors()

            async def both_are_there() -> bool:
                return {literal, prefixed} <= set(await admin.describe_acls(everything))

            await until(both_are_there)
            assert "kitchen-" in await acls_of(old)
            deleted = await admin.delete_acls([prefixed.to_filter()])
            assert deleted.deleted() == [prefixed]
        else:
            with pytest.raises(UnsupportedVersionError, match=r"2\.0.* or newer"):
                await admin.create_acls([prefixed])
        deleted = await admin.delete_acls([only_literal])
        assert deleted.deleted() == [literal]

        async def is_gone() -> bool:
            return "User:cook" not in await acls_of(old)

        await until(is_gone)


async def test_users_quotas_and_the_cluster(old: KafkaCluster) -> None:
    user = UserScramCredentialUpsertion("cook", ScramMechanism.SCRAM_SHA_256, "secret")
    quotas = {ClientQuotaEntity({"user": "cook"}): {"consumer_byte_rate": 1_000_000}}
    async with AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin:
        cluster = await admin.describe_cluster()
        assert [each["node_id"] for each in cluster["brokers"]] == [0]
        if is_2_8(old):
            (await admin.alter_user_scram_credentials([user])).raise_for_errors()
            (await admin.alter_client_quotas(quotas)).raise_for_errors()
            arguments = ["--bootstrap-server", old.bootstrap_servers, "--describe"]
            arguments += ["--entity-type", "users", "--entity-name", "cook"]

            async def seen() -> bool:
                lines = await asyncio.to_thread(
                    run, "kafka.admin.ConfigCommand", arguments, old.version
                )
                text = "\n".join(lines)
                return "consumer_byte_rate=1000000" in text and "SCRAM-SHA-256" in text

            await until(seen)
        else:
            for call, release in (
                (admin.alter_user_scram_credentials([user]), r"2\.7"),
                (admin.alter_client_quotas(quotas), r"2\.6"),
                (admin.create_delegation_token(), r"1\.1"),
            ):
                with pytest.raises(UnsupportedVersionError, match=f"{release}.* or newer"):
                    await call
        for call, release in (
            (admin.describe_metadata_quorum(), r"3\.\d"),
            (admin.list_config_resources(["client_metrics"]), r"3\.\d"),
        ):
            with pytest.raises(UnsupportedVersionError, match=f"{release}.* or newer"):
                await call
