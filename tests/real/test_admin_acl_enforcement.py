"""Each operation on each type of resource, first with an ACL that permits it and then without.

CREATE_TOKENS of users: `test_admin_delegation_tokens.py`. DESCRIBE_TOKENS of users is not tested.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.admin import (
    AbortTransactionSpec,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AIOKafkaAdminClient,
    ConfigResource,
    ElectionType,
    NewPartitions,
    NewTopic,
    PatternType,
    RecordsToDelete,
    ResourcePattern,
    ResourceType,
)
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import AuthorizationError, KafkaError, UnsupportedVersionError, for_code
from aiokafka_lite.protocol.messages.init_producer_id import InitProducerIdRequest
from tools.kafka import KafkaCluster, Security

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the admin client and the brokers, on the plain listener
    "transaction.two.phase.commit.enable": "true",
    "unstable.api.versions.enable": "true",  # InitProducerId v6 has two-phase commit
}
ALICE = "User:alice"
CLUSTER = ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    security = Security(("SASL_PLAINTEXT",), {"alice": "alice-secret"})
    with KafkaCluster(config=CONFIG, security=security, heap="256m") as cluster:
        yield cluster


@pytest.fixture
async def admin(guarded: KafkaCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers) as client:
        yield client


class Alice:
    """Clients that log in as alice, and what they attempt.

    Attributes:
        name: The topic, group or transactional id of the attempt; it exists as a topic.
    """

    def __init__(self, login: dict[str, Any], name: str) -> None:
        self.name = name
        self.partition = TopicPartition(name, 0)
        self._login = login
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Alice":
        enter = self._stack.enter_async_context
        self.admin = await enter(AIOKafkaAdminClient(**self._login))
        self.producer = await enter(AIOKafkaProducer(**self._login, enable_idempotence=False))
        self.client = AIOKafkaClient(**self._login)
        await self.client.bootstrap()
        self._stack.push_async_callback(self.client.close)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def read(self) -> None:
        async with AIOKafkaConsumer(**self._login, auto_offset_reset="earliest") as consumer:
            consumer.assign([self.partition])
            await asyncio.wait_for(consumer.getone(), 60)

    async def write(self) -> None:
        await self.producer.send_and_wait(self.name, b"x", partition=0)

    async def create_below(self) -> None:
        new = NewTopic(f"{self.name}-{uuid.uuid4().hex[:6]}", 1, 1)
        await self.admin.create_topics([new], validate_only=True, raise_errors=True)

    async def delete_records(self) -> None:
        await self.admin.delete_records({self.partition: RecordsToDelete(0)})

    async def add_partitions(self) -> None:
        await self.admin.create_partitions({self.name: NewPartitions(9)}, validate_only=True)

    async def describe(self) -> None:
        (await self.admin.describe_topics([self.name], typed=True)).raise_for_errors()

    async def describe_configs(self, kind: str = "topic", name: str | None = None) -> None:
        resource = ConfigResource(kind, self.name if name is None else name)
        (await self.admin.describe_configs([resource], typed=True)).raise_for_errors()

    async def alter_configs(self, kind: str, name: str | None, config: dict[str, str]) -> None:
        changes = {ConfigResource(kind, self.name if name is None else name): config}
        found = await self.admin.incremental_alter_configs(changes, validate_only=True)
        found.raise_for_errors()

    async def commit(self) -> None:
        found = await self.admin.alter_consumer_group_offsets(self.name, {self.partition: 0})
        found.raise_for_errors()

    async def describe_group(self) -> None:
        (await self.admin.describe_classic_groups([self.name])).raise_for_errors()

    async def delete_group(self) -> None:
        (await self.admin.delete_consumer_groups([self.name])).raise_for_errors()

    async def elect(self) -> None:
        await self.admin.elect_leaders(ElectionType.PREFERRED, [self.partition])

    async def list_reassignments(self) -> None:
        await self.admin.list_partition_reassignments([self.partition])

    async def abort(self) -> None:
        await self.admin.abort_transaction(AbortTransactionSpec(self.partition, 987, 0, 0))

    async def describe_transaction(self) -> None:
        (await self.admin.describe_transactions([self.name])).raise_for_errors()

    async def fence(self) -> None:
        (await self.admin.fence_producers([self.name])).raise_for_errors()

    async def get_producer_id(self, transactional_id: str | None, two_phase: bool = False) -> None:
        node = 0
        if transactional_id is not None:
            kind = CoordinatorKind.TRANSACTION
            node = await self.admin.find_coordinator(transactional_id, kind)
        request = InitProducerIdRequest(
            transactional_id, -1 if two_phase else 60_000, enable2_pc=two_phase
        )
        response = await self.client.send(node, request)
        if response.error_code:
            raise for_code(response.error_code)


Attempt = Callable[[Alice], Awaitable[None]]
T, G, C, X = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
CASES: dict[tuple[ResourceType, str], Attempt] = {
    (T, "READ"): Alice.read,
    (T, "WRITE"): Alice.write,
    (T, "CREATE"): Alice.create_below,
    (T, "DELETE"): Alice.delete_records,
    (T, "ALTER"): Alice.add_partitions,
    (T, "DESCRIBE"): Alice.describe,
    (T, "DESCRIBE_CONFIGS"): Alice.describe_configs,
    (T, "ALTER_CONFIGS"): lambda a: a.alter_configs("topic", None, {"retention.ms": "99"}),
    (G, "READ"): Alice.commit,
    (G, "DESCRIBE"): Alice.describe_group,
    (G, "DELETE"): Alice.delete_group,
    (G, "DESCRIBE_CONFIGS"): lambda a: a.describe_configs("group"),
    (G, "ALTER_CONFIGS"): lambda a: a.alter_configs(
        "group", None, {"consumer.session.timeout.ms": "50000"}
    ),
    (C, "CREATE"): Alice.create_below,
    (C, "ALTER"): Alice.elect,
    (C, "DESCRIBE"): Alice.list_reassignments,
    (C, "CLUSTER_ACTION"): Alice.abort,
    (C, "DESCRIBE_CONFIGS"): lambda a: a.describe_configs("broker", "0"),
    (C, "ALTER_CONFIGS"): lambda a: a.alter_configs("broker", "0", {"log.cleaner.threads": "2"}),
    (C, "IDEMPOTENT_WRITE"): lambda a: a.get_producer_id(None),
    (X, "DESCRIBE"): Alice.describe_transaction,
    (X, "WRITE"): Alice.fence,
    (X, "TWO_PHASE_COMMIT"): lambda a: a.get_producer_id(a.name, two_phase=True),
}
ALSO: dict[tuple[ResourceType, str], list[tuple[ResourceType, AclOperation]]] = {
    (G, "READ"): [(T, AclOperation.READ)],
    (C, "CLUSTER_ACTION"): [(T, AclOperation.DESCRIBE)],  # to find the partition's leader
    (X, "TWO_PHASE_COMMIT"): [(X, AclOperation.WRITE)],
}
"""What else an attempt needs; it is always permitted."""


def test_every_operation_is_tried() -> None:
    tried = {AclOperation[operation] for _, operation in CASES}
    elsewhere = {AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS}
    groups = {AclOperation.UNKNOWN, AclOperation.ANY, AclOperation.ALL}
    assert tried == set(AclOperation) - elsewhere - groups


PATTERNS: dict[str, Callable[[ResourceType, str], ResourcePattern]] = {
    "literal": lambda kind, name: ResourcePattern(kind, name),
    "prefixed": lambda kind, name: ResourcePattern(kind, name[:-2], PatternType.PREFIXED),
    "wildcard": lambda kind, name: ResourcePattern(kind, "*"),
}


IN_EACH_PATTERN = {(T, "READ"), (G, "READ"), (X, "WRITE")}
"""The other operations use one pattern, and all of them under `make test-long`."""

ATTEMPTS = [
    pytest.param(
        *(kind, operation, pattern),
        id=f"{kind.name}-{operation}-{pattern}",
        marks=[]
        if pattern == "literal" or (kind, operation) in {*IN_EACH_PATTERN, (T, "CREATE")}
        else [pytest.mark.long],
    )
    for kind, operation in CASES
    for pattern in PATTERNS
    # The cluster has one name, and a literal pattern permits no topic below its name.
    if (kind is not C or pattern == "literal")
    and (kind, operation, pattern) != (T, "CREATE", "literal")
]


@pytest.mark.parametrize(("kind", "operation", "pattern"), ATTEMPTS)
async def test_client_may_do_only_what_an_acl_permits(
    guarded: KafkaCluster,
    admin: AIOKafkaAdminClient,
    kind: ResourceType,
    operation: str,
    pattern: str,
) -> None:
    case = (kind, operation)
    name = f"acl-{uuid.uuid4().hex[:10]}"
    await admin.create_topics([NewTopic(name, 1, 1)], raise_errors=True)
    await admin.wait_for_topics([name])
    async with AIOKafkaProducer(bootstrap_servers=guarded.bootstrap_servers) as producer:
        await producer.send_and_wait(name, b"first")
    login: dict[str, Any] = {
        "bootstrap_servers": guarded.bootstrap_of("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
    }
    besides = [
        AclBinding(ResourcePattern(also, name), ALICE, needed)
        for also, needed in ALSO.get(case, ())
    ]
    target = CLUSTER if kind is C else PATTERNS[pattern](kind, name)
    acl = AclBinding(target, ALICE, AclOperation[operation])
    another = AclBinding(ResourcePattern(target.resource_type, "another"), ALICE, acl.operation)
    async with Alice(login, name) as alice:

        async def may() -> bool:
            try:
                await CASES[case](alice)
            except AuthorizationError:
                return False
            except UnsupportedVersionError:
                raise
            except KafkaError:
                return True  # an error of the attempt, which was permitted
            return True

        async def until(wanted: bool) -> None:
            """Brokers apply ACLs later."""
            deadline = time.monotonic() + 60
            while await may() is not wanted:
                assert time.monotonic() < deadline, f"{acl} does not count"
                await asyncio.sleep(0.05)

        try:
            others = besides if kind is C else [*besides, another]
            (await admin.create_acls(others)).raise_for_errors()
            await until(False)
            (await admin.create_acls([acl])).raise_for_errors()
            await until(True)
            assert (await admin.delete_acls([acl.to_filter()])).deleted() == [acl]
            await until(False)
        finally:
            mine = AclBindingFilter(principal=ALICE)
            (await admin.delete_acls([mine])).raise_for_errors()
