"""SASL, SCRAM users, ACLs and quotas, compared with a real Kafka with StandardAuthorizer."""

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from aiokafka_lite.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from aiokafka_lite.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from aiokafka_lite.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from aiokafka_lite.protocol.messages.describe_acls import DescribeAclsRequest
from aiokafka_lite.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from aiokafka_lite.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
)
from aiokafka_lite.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from aiokafka_lite.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from aiokafka_lite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lite.protocol.messages.sasl_handshake import SaslHandshakeRequest
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.security.acl_table import Operation, Pattern, Permission, Resource
from tests.conformance.comparing import AllowedDifferences
from tests.conformance.conftest import Compare
from tests.conformance.conftest import _judge as judge_both
from tests.conformance.requests import NOW
from tests.conformance.secured import USERS, SecuredTarget, guarded_kafka, plain
from tests.conformance.target import ConnectionEnded, Target
from tests.unit.testing.raw import make_batch
from tools.kafka import KafkaCluster, KafkaNotAvailable

pytestmark = pytest.mark.real

NOTHING = MetadataRequest([])


async def ask_all(target: Target, on: str, *requests: tuple[Request, int]) -> None:
    """One after the other on one connection; the end of the connection is the end."""
    for request, version in requests:
        try:
            if isinstance(request, ApiVersionsRequest):  # its content does not matter here
                answer = await target.quietly(request, version, on)
                target.note("ApiVersions", answer.error_code)
            else:
                await target.ask(request, version, on)
        except ConnectionEnded:
            target.note("cut", True)
            return


# Authentication


async def test_authentication(compare_guarded: Compare) -> None:
    metadata = (NOTHING, 9)
    versions = (ApiVersionsRequest("a", "1"), 3)
    handshake = (SaslHandshakeRequest("PLAIN"), 1)
    alice = (SaslAuthenticateRequest(plain("alice")), 2)
    ways = [
        [handshake, alice, metadata],
        [versions, handshake, alice, metadata, versions],
        [handshake, (SaslAuthenticateRequest(plain("alice")), 0), metadata],
        [handshake, (SaslAuthenticateRequest(plain("alice", authorization_id="alice")), 1)],
        [metadata],
        [versions, versions],
        [(ApiVersionsRequest("-", "1"), 3), versions, handshake],
        [versions, metadata],
        [(SaslAuthenticateRequest(plain("alice")), 1)],
        [handshake, metadata],
        [handshake, versions],
        [handshake, handshake],
        [(SaslHandshakeRequest("GSSAPI"), 1), handshake],
        [(SaslHandshakeRequest(""), 0), handshake],
        [handshake, alice, handshake, metadata],
        [handshake, alice, alice, metadata],
    ]

    async def scenario(target: Target) -> None:
        for number, way in enumerate(ways):
            target.note("way", number)
            await ask_all(target, f"-{number}", *way)

    await compare_guarded(scenario)


@pytest.fixture
def renewing() -> Iterator[KafkaCluster]:
    """A real Kafka whose clients must re-authenticate within an hour."""
    try:
        with guarded_kafka(**{"connections.max.reauth.ms": 3_600_000}) as cluster:
            yield cluster
    except KafkaNotAvailable as error:
        pytest.skip(f"no real Kafka: {error}")


async def test_reauthentication(renewing: KafkaCluster, allowed: AllowedDifferences) -> None:
    metadata = (NOTHING, 9)
    handshake = (SaslHandshakeRequest("PLAIN"), 1)
    alice = (SaslAuthenticateRequest(plain("alice")), 2)
    begin = [handshake, alice, metadata]
    ways = [
        [*begin, handshake, alice, metadata],
        [*begin, handshake, alice, handshake, metadata],
        [*begin, alice, metadata],
        [*begin, handshake, metadata],
        [*begin, handshake, (ApiVersionsRequest("a", "1"), 3)],
        [*begin, handshake, (SaslAuthenticateRequest(plain("bob")), 2), metadata],
        [*begin, handshake, (SaslAuthenticateRequest(plain("alice", "wrong")), 2), metadata],
        [*begin, (SaslHandshakeRequest("SCRAM-SHA-256"), 1), alice, metadata],
        [*begin, (SaslHandshakeRequest("GSSAPI"), 1), metadata],
        [handshake, (SaslAuthenticateRequest(plain("alice")), 0), handshake, metadata],
        [handshake, (SaslAuthenticateRequest(plain("alice")), 1), handshake, alice, metadata],
    ]

    async def scenario(target: Target) -> None:
        for number, way in enumerate(ways):
            target.note("way", number)
            await ask_all(target, f"-{number}", *way)

    async with FakeCluster(users=USERS, super_users=(), sasl_session_lifetime=3600.0) as fake:
        suffix = uuid.uuid4().hex[:10]
        judge = SecuredTarget("Kafka", renewing.bootstrap_of("SASL_PLAINTEXT"), suffix)
        judged = SecuredTarget("embedded", fake.bootstrap_servers, suffix)
        await judge_both("test_reauthentication", scenario, judge, judged, allowed)


async def test_refused_credentials(compare_guarded: Compare) -> None:
    messages = [
        ("PLAIN", plain("alice", "wrong")),
        ("PLAIN", plain("nobody", "wrong")),
        ("PLAIN", plain("", "wrong")),
        ("PLAIN", plain("alice", "")),
        ("PLAIN", plain("alice", authorization_id="bob")),
        ("PLAIN", b"alice"),
        ("PLAIN", b"\0a\0b\0c"),
        ("PLAIN", b"\xff\0\xfe\0a"),
        ("PLAIN", b""),
        ("SCRAM-SHA-256", b""),
        ("SCRAM-SHA-256", b"n,,n=nobody,r=abc"),
        ("SCRAM-SHA-256", b"y,,n=alice,r=abc"),
        ("SCRAM-SHA-512", b"n,a=bob,n=alice,r=abc"),
        ("SCRAM-SHA-512", b"n,,n=al=ice,r=abc"),
    ]

    async def scenario(target: Target) -> None:
        for number, (mechanism, message) in enumerate(messages):
            target.note("message", number)
            handshake = (SaslHandshakeRequest(mechanism), 1)
            answer = (SaslAuthenticateRequest(message), 2)
            await ask_all(target, f"-{number}", handshake, answer, (NOTHING, 9))
            try:
                asked = SaslHandshakeRequest(mechanism)
                await target.quietly(asked, 1, f"-text{number}")
                said = await target.quietly(answer[0], 2, f"-text{number}")
                target.note("told", said.error_message)
            except ConnectionEnded:
                target.note("told", "nothing")

    await compare_guarded(scenario)


async def test_a_listener_without_sasl(compare: Any) -> None:
    async def scenario(target: Target) -> None:
        for version in (0, 1):
            await target.ask(SaslHandshakeRequest("PLAIN"), version)
        for version in (0, 1, 2):
            await target.ask(SaslAuthenticateRequest(plain("alice")), version)
        await target.ask(CreateDelegationTokenRequest(None, None, [], -1), 3)
        await target.ask(RenewDelegationTokenRequest(b"x", 1), 2)
        await target.ask(ExpireDelegationTokenRequest(b"x", 1), 2)
        await target.ask(DescribeDelegationTokenRequest(None), 3)
        await target.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3)
        await target.ask(CreateAclsRequest([creation()] * 2), 3)
        await target.ask(DeleteAclsRequest([everything()]), 3)

    await compare(scenario)


# SCRAM users


async def test_scram_users(compare_guarded: Compare) -> None:
    def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> Any:
        return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", b"salted-password")

    async def scenario(target: Target) -> None:
        frank, gina = target.unique("frank"), target.unique("gina")
        changes = itertools.count()

        async def catch_up() -> None:
            """Wait until the broker shows a user that was created after all changes so far."""
            last = target.unique(f"last-{next(changes)}")
            await target.quietly(AlterUserScramCredentialsRequest([], [upsertion(last)]), 0)
            request = DescribeUserScramCredentialsRequest([UserName(last)])
            async with asyncio.timeout(60):
                while (await target.quietly(request, 0)).results[0].error_code:
                    await asyncio.sleep(0.05)

        async def alter(deleted: list[Any], upserted: list[Any]) -> None:
            await target.ask(AlterUserScramCredentialsRequest(deleted, upserted), 0)
            await catch_up()
            for users in ([frank], [gina], [frank, gina, frank]):
                asked = [UserName(name) for name in users]
                await target.ask(DescribeUserScramCredentialsRequest(asked), 0)

        await alter([], [upsertion(frank), upsertion(gina, 2, 8192)])
        await alter([], [upsertion(frank, 2)])
        await alter([], [upsertion(frank), upsertion(frank, 2)])
        await alter([ScramCredentialDeletion(frank, 1)], [upsertion(frank, 1)])
        await alter([ScramCredentialDeletion(frank, 1), ScramCredentialDeletion("nobody", 1)], [])
        await alter([ScramCredentialDeletion(frank, 1), ScramCredentialDeletion(frank, 2)], [])
        await alter([ScramCredentialDeletion(frank, 0)], [upsertion(gina, 3), upsertion("")])
        await alter([], [upsertion(frank, 1, 4095), upsertion(gina, 1, 16385)])
        await alter([ScramCredentialDeletion(gina, 2)], [upsertion(frank, 1, 16384)])
        await ask_all(target, "alice", (AlterUserScramCredentialsRequest([], [upsertion(gina)]), 0))
        await ask_all(target, "alice", (DescribeUserScramCredentialsRequest([UserName(gina)]), 0))

    await compare_guarded(scenario)


# ACLs


def creation(
    resource: int = Resource.TOPIC,
    name: str = "orders",
    pattern: int = Pattern.LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = Operation.READ,
    permission: int = Permission.ALLOW,
) -> AclCreation:
    return AclCreation(resource, name, pattern, principal, host, operation, permission)


def everything(
    resource: int = Resource.ANY,
    name: str | None = None,
    pattern: int = Pattern.ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = Operation.ANY,
    permission: int = Permission.ANY,
) -> DeleteAclsFilter:
    return DeleteAclsFilter(resource, name, pattern, principal, host, operation, permission)


def describe(which: DeleteAclsFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(*(getattr(which, name) for name in which.__slots__))


async def test_acl_administration(compare_guarded: Compare) -> None:
    async def scenario(target: Target) -> None:
        name = target.unique("t")
        good = [
            creation(name=name),
            creation(name=name, permission=Permission.DENY, principal="User:*"),
            creation(name=name[:-1], pattern=Pattern.PREFIXED, host="10.0.0.1"),
            creation(Resource.GROUP, f"g-{name}", operation=Operation.ALL),
            creation(Resource.TRANSACTIONAL_ID, f"x-{name}", operation=Operation.WRITE),
        ]
        bad = [
            creation(name=""),
            creation(name=name, pattern=Pattern.ANY),
            creation(name=name, pattern=Pattern.MATCH),
            creation(Resource.ANY, name),
            creation(name=name, operation=Operation.ANY),
            creation(name=name, permission=Permission.ANY),
            creation(Resource.CLUSTER, "my-cluster"),
            creation(name=name, principal="alice"),
            creation(name=name, principal=""),
        ]
        for version in (1, 2, 3):
            await target.ask(CreateAclsRequest(good), version)
        for one in bad:
            await target.ask(CreateAclsRequest([one, good[0]]), 3)
        await target.published()
        filters = [
            everything(Resource.TOPIC, name),
            everything(Resource.TOPIC, name, Pattern.MATCH),
            everything(Resource.TOPIC, name, Pattern.LITERAL),
            everything(Resource.TOPIC, name, Pattern.PREFIXED),
            everything(Resource.TOPIC, name[:-1], Pattern.PREFIXED),
            everything(Resource.ANY, name, Pattern.MATCH, permission=Permission.DENY),
            everything(Resource.TOPIC, name, Pattern.MATCH, host="10.0.0.1"),
            everything(Resource.TOPIC, name, Pattern.MATCH, principal="User:*"),
            everything(Resource.TOPIC, name, Pattern.MATCH, operation=Operation.WRITE),
            everything(Resource.GROUP, f"g-{name}", operation=Operation.ALL),
        ]
        for which in filters:
            for version in (1, 3):
                await target.ask(describe(which), version)
        await target.ask(describe(filters[0]), 3, "alice")
        await target.ask(CreateAclsRequest(good[:2]), 3, "alice")
        await target.ask(DeleteAclsRequest(filters[:2]), 3, "alice")
        await target.ask(DeleteAclsRequest(filters[4:6]), 3)
        await target.published()
        await target.ask(describe(filters[1]), 3)
        await target.ask(DeleteAclsRequest([filters[1], filters[1]]), 3)
        await target.ask(DeleteAclsRequest([filters[9]]), 3)

    await compare_guarded(scenario)


async def test_delegation_tokens(compare_guarded: Compare) -> None:
    async def scenario(target: Target) -> None:
        await target.ask(CreateDelegationTokenRequest(None, None, [], -1), 3, "alice")
        await target.ask(CreateDelegationTokenRequest("User", "bob", [], -1), 3, "alice")
        for version in (1, 2, 3):
            await target.ask(DescribeDelegationTokenRequest(None), version, "alice")
        for version in (1, 2):
            await target.ask(RenewDelegationTokenRequest(b"x", 1), version, "alice")
            await target.ask(ExpireDelegationTokenRequest(b"x", 1), version, "alice")

    await compare_guarded(scenario)


# Quotas


async def test_quota_administration(compare_guarded: Compare) -> None:
    def alter(
        entity: list[tuple[str, str | None]], *ops: tuple[Any, ...], dry: bool = False
    ) -> Any:
        parts = [EntityData(*part) for part in entity]
        entry = AlterClientQuotasRequestEntryData(parts, [OpData(*op) for op in ops])
        return AlterClientQuotasRequest([entry], validate_only=dry)

    def find(*parts: tuple[str, int, str | None], strict: bool = False) -> Any:
        return DescribeClientQuotasRequest([ComponentData(*part) for part in parts], strict)

    async def scenario(target: Target) -> None:
        user, client = target.unique("u"), target.unique("c")
        rate = ("producer_byte_rate", 1000.0)
        changes = [
            alter([("user", user)], rate),
            alter([("user", user), ("client-id", client)], rate, ("consumer_byte_rate", 5.0)),
            alter([("client-id", client)], ("request_percentage", 12.5)),
            alter([("user", user), ("client-id", None)], ("controller_mutation_rate", 2.5)),
            alter([("ip", "127.0.0.9")], ("connection_creation_rate", 10.0)),
            alter([("user", user)], rate, dry=True),
            alter([("user", user)], ("consumer_byte_rate", 7.0), dry=True),
            alter([], rate),
            alter([("user", "")], rate),
            alter([("shoe", "x")], rate),
            alter([("user", user), ("ip", "127.0.0.1")], rate),
            alter([("ip", "127.0.0.1")], rate),
            alter([("user", user)], ("no_such_rate", 1.0)),
            alter([("user", user)], ("producer_byte_rate", 0.0)),
            alter([("user", user)], ("producer_byte_rate", -5.0)),
            alter([("user", user)], ("producer_byte_rate", 1.5)),
            alter([("user", user)], rate, rate),
            alter([("user", user)], ("consumer_byte_rate", 0.0, True)),
        ]
        for request in changes:
            await target.ask(request, 1)
        await target.published()
        wanted = [
            find(("user", 0, user)),
            find(("user", 0, user), strict=True),
            find(("user", 0, user), ("client-id", 2, None)),
            find(("user", 0, user), ("client-id", 1, None)),
            find(("client-id", 0, client)),
            find(("ip", 0, "127.0.0.9")),
            find(("ip", 0, "127.0.0.9"), ("user", 0, user)),
            find(("shoe", 0, "x")),
            find(("", 0, "x")),
            find(("user", 0, None)),
            find(("user", 1, "x")),
            find(("user", 2, "x")),
            find(("user", 3, None)),
            find(("user", 0, user), ("user", 2, None)),
        ]
        for request in wanted:
            await target.ask(request, 1)
        await target.ask(changes[0], 1, "alice")
        await target.ask(wanted[0], 1, "alice")
        for entity, keys in (
            ([("user", user)], ["producer_byte_rate"]),
            (
                [("user", user), ("client-id", client)],
                ["producer_byte_rate", "consumer_byte_rate"],
            ),
            ([("client-id", client)], ["request_percentage"]),
            ([("user", user), ("client-id", None)], ["controller_mutation_rate"]),
            ([("ip", "127.0.0.9")], ["connection_creation_rate"]),
        ):
            await target.ask(alter(entity, *((key, 0.0, True) for key in keys)), 1)
        await target.published()
        await target.ask(wanted[0], 1)

    await compare_guarded(scenario)


async def test_quota_throttle_times(compare_guarded: Compare) -> None:
    """100 kB too many at 100 kB a second: a second, twice, as ten windows count as full."""

    def quota(client_id: str, rate: float) -> AlterClientQuotasRequest:
        parts = [EntityData("client-id", client_id)]
        return AlterClientQuotasRequest(
            [AlterClientQuotasRequestEntryData(parts, [OpData("producer_byte_rate", rate)])]
        )

    def of_size(topic: str, size: int) -> Request:
        batch = make_batch((NOW, b"k", bytes(size)))
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
        return ProduceRequest(None, -1, 3000, data)

    async def scenario(target: Target) -> None:
        topic = await target.topic()
        await target.quietly(quota("eve", 100_000.0), 1, "admin")
        await target.published()
        # A million bytes are the allowance of the first ten seconds.
        for size, least, most in ((900_000, 0, 0), (200_000, 800, 1050), (100, 800, 1050)):
            response = await target.quietly(of_size(topic, size), 9, "admin@0")
            target.note("free", response.throttle_time_ms)
            response = await target.quietly(of_size(topic, size), 9, "eve")
            assert least <= response.throttle_time_ms <= most, (target.kind, size, response)
        await target.quietly(
            AlterClientQuotasRequest(
                [
                    AlterClientQuotasRequestEntryData(
                        [EntityData("client-id", "eve")], [OpData("producer_byte_rate", 0.0, True)]
                    )
                ]
            ),
            1,
            "admin",
        )

    await compare_guarded(scenario)
