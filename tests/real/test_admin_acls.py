"""ACLs of the admin client against a broker with Kafka's authorizer; librdkafka cross-checks."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermission,
    AIOKafkaAdminClient,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from aiokafka_lite.errors import InvalidRequestError, TopicAuthorizationFailedError
from tools.kafka import KafkaCluster, Security

confluent_admin = pytest.importorskip("confluent_kafka.admin")

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the admin client and the brokers, on the plain listener
}
OPERATIONS = {
    ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.GROUP: "READ DESCRIBE DELETE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.CLUSTER: "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS "
    "IDEMPOTENT_WRITE",
    ResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE TWO_PHASE_COMMIT",
    ResourceType.DELEGATION_TOKEN: "DESCRIBE",
    ResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    security = Security(("SASL_PLAINTEXT",), {"alice": "alice-secret"})
    with KafkaCluster(config=CONFIG, security=security, heap="256m") as cluster:
        yield cluster


@pytest.fixture
async def admin(guarded: KafkaCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers) as client:
        yield client


def a_name() -> str:
    return f"acl-{uuid.uuid4().hex[:10]}"


async def seen_by_librdkafka(guarded: KafkaCluster, principal: str) -> set[tuple[Any, ...]]:
    judge = confluent_admin.AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    every = confluent_admin.AclBindingFilter(
        confluent_admin.ResourceType.ANY,
        None,
        confluent_admin.ResourcePatternType.ANY,
        principal,
        None,
        confluent_admin.AclOperation.ANY,
        confluent_admin.AclPermissionType.ANY,
    )
    found = await asyncio.to_thread(judge.describe_acls(every).result, 30)
    return {
        (
            each.name,
            each.resource_pattern_type.name,
            each.operation.name,
            each.permission_type.name,
            each.host,
        )
        for each in found
    }


async def until(condition: Any) -> None:
    """Wait until a coroutine function returns a true value: brokers apply ACLs later."""
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.05)


async def test_every_operation_is_created_described_and_deleted(
    admin: AIOKafkaAdminClient,
) -> None:
    principal = f"User:{a_name()}"
    acls = []
    for resource_type, operations in OPERATIONS.items():
        name = "kafka-cluster" if resource_type is ResourceType.CLUSTER else a_name()
        acls += [
            AclBinding(ResourcePattern(resource_type, name), principal, AclOperation[operation])
            for operation in (*operations.split(), "ALL")
        ]
    created = await admin.create_acls(acls)
    assert created.errors() == {}
    assert {acl.operation for acl in acls} >= set(AclOperation) - {
        AclOperation.UNKNOWN,
        AclOperation.ANY,
    }
    mine = AclBindingFilter(principal=principal)

    async def all_there() -> bool:
        return set(await admin.describe_acls(mine)) == set(acls)

    await until(all_there)
    for acl in acls:
        assert await admin.describe_acls(acl.to_filter()) == [acl]
    deleted = await admin.delete_acls([acl.to_filter() for acl in acls])
    assert set(deleted.deleted()) == set(acls)
    deleted.raise_for_errors()

    async def all_gone() -> bool:
        return not await admin.describe_acls(mine)

    await until(all_gone)


async def test_pattern_types_match_as_librdkafka_sees_them(
    admin: AIOKafkaAdminClient, guarded: KafkaCluster
) -> None:
    principal, topic = f"User:{a_name()}", a_name()
    literal, prefixed, wildcard = (
        AclBinding(ResourcePattern(ResourceType.TOPIC, name, kind), principal, operation, *rest)
        for name, kind, operation, *rest in (
            (topic, PatternType.LITERAL, AclOperation.READ),
            (topic[:8], PatternType.PREFIXED, AclOperation.WRITE, AclPermission.DENY, "10.0.0.1"),
            ("*", PatternType.LITERAL, AclOperation.DESCRIBE),
        )
    )
    acls = {literal, prefixed, wildcard}
    (await admin.create_acls(acls)).raise_for_errors()

    async def found(name: str | None, kind: PatternType) -> set[AclBinding]:
        pattern = ResourcePatternFilter(ResourceType.TOPIC, name, kind)
        return set(await admin.describe_acls(AclBindingFilter(pattern, principal)))

    async def all_there() -> bool:
        return await found(None, PatternType.ANY) == acls

    await until(all_there)
    assert await found(topic, PatternType.MATCH) == acls
    assert await found(topic, PatternType.ANY) == {literal}
    assert await found(topic[:8], PatternType.ANY) == {prefixed}
    assert await found(None, PatternType.LITERAL) == {literal, wildcard}
    assert await found(None, PatternType.PREFIXED) == {prefixed}
    assert await seen_by_librdkafka(guarded, principal) == {
        (topic, "LITERAL", "READ", "ALLOW", "*"),
        (topic[:8], "PREFIXED", "WRITE", "DENY", "10.0.0.1"),
        ("*", "LITERAL", "DESCRIBE", "ALLOW", "*"),
    }
    deleted = await admin.delete_acls(
        [
            AclBindingFilter(
                ResourcePatternFilter(ResourceType.TOPIC, topic, PatternType.MATCH), principal
            )
        ]
    )
    assert set(deleted.deleted()) == acls

    async def all_gone() -> bool:
        return not await seen_by_librdkafka(guarded, principal)

    await until(all_gone)


async def test_an_invalid_acl_fails_alone(admin: AIOKafkaAdminClient) -> None:
    principal = f"User:{a_name()}"
    bad = AclBinding(ResourcePattern(ResourceType.CLUSTER, "other"), principal, AclOperation.ALTER)
    good = AclBinding(ResourcePattern(ResourceType.TOPIC, a_name()), principal, AclOperation.READ)
    created = await admin.create_acls([bad, good])
    assert isinstance(created[bad], InvalidRequestError)
    assert created[good] is None
    (await admin.delete_acls([AclBindingFilter(principal=principal)])).raise_for_errors()


async def test_a_client_may_read_and_write_what_acls_allow(
    admin: AIOKafkaAdminClient, guarded: KafkaCluster
) -> None:
    topic = a_name()
    guarded.create_topic(topic, 1)
    prefix = ResourcePattern(ResourceType.TOPIC, topic[:9], PatternType.PREFIXED)
    write = AclBinding(prefix, "User:alice", AclOperation.WRITE)
    read = AclBinding(ResourcePattern(ResourceType.TOPIC, topic), "User:alice", AclOperation.READ)
    deny = AclBinding(prefix, "User:*", AclOperation.READ, AclPermission.DENY)
    login: dict[str, Any] = {
        "bootstrap_servers": guarded.bootstrap_of("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
    }

    async def may_write() -> bool:
        async with AIOKafkaProducer(**login) as producer:
            try:
                await producer.send_and_wait(topic, b"x")
            except TopicAuthorizationFailedError:
                return False
            return True

    async def may_read() -> bool:
        async with AIOKafkaConsumer(**login, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            try:
                await asyncio.wait_for(consumer.getone(), 20)
            except TopicAuthorizationFailedError:
                return False
            return True

    async def may_not_read() -> bool:
        return not await may_read()

    assert not await may_write()
    (await admin.create_acls([write])).raise_for_errors()
    await until(may_write)
    assert not await may_read()
    (await admin.create_acls([read])).raise_for_errors()
    await until(may_read)
    (await admin.create_acls([deny])).raise_for_errors()
    await until(may_not_read)
    assert (await admin.delete_acls([deny.to_filter()])).deleted() == [deny]
    await until(may_read)
    assert await may_write()
    ours = [AclBindingFilter(principal="User:alice")]
    assert set((await admin.delete_acls(ours)).deleted()) == {write, read}
