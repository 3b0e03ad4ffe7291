"""Delegation tokens against a real Kafka: the admin client's calls, and clients that log in."""

import asyncio
import hmac
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.admin import (
    AclBinding,
    AclOperation,
    AIOKafkaAdminClient,
    DelegationToken,
    ResourcePattern,
    ResourceType,
)
from aiokafka_lite.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
)
from tools.kafka import KafkaCluster, RealKafka, Security

KEY = "the-key-of-the-brokers"
CONFIG = {
    "delegation.token.secret.key": KEY,
    "delegation.token.expiry.check.interval.ms": 500,  # an hour by default
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    users = {name: f"{name}-secret" for name in ("alice", "bob", "carol")}
    security = Security(("SASL_PLAINTEXT",), users)
    with KafkaCluster(config=CONFIG, security=security, heap="256m") as cluster:
        yield cluster


def arguments(cluster: KafkaCluster, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_of("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_plain_username": user,
        "sasl_plain_password": f"{user}-secret",
    }


async def until(condition: Callable[[], Any]) -> None:
    """Wait until a coroutine function returns a true value: brokers apply tokens later."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.05)


async def test_a_token_is_created_renewed_described_and_expired(guarded: KafkaCluster) -> None:
    async with AsyncExitStack() as stack:
        alice, bob, carol = [
            await stack.enter_async_context(AIOKafkaAdminClient(**arguments(guarded, user)))
            for user in ("alice", "bob", "carol")
        ]
        before = time.time() * 1000
        token = await alice.create_delegation_token(["User:bob"], max_lifetime_ms=3_600_000)
        assert (token.owner, token.requester, token.renewers) == (
            *("User:alice", "User:alice"),
            ("User:bob",),
        )
        assert abs(token.issue_timestamp - before) < 60_000
        assert token.max_timestamp == token.issue_timestamp + 3_600_000
        assert token.hmac == hmac.digest(KEY.encode(), token.token_id.encode(), "sha512")

        async def described(client: AIOKafkaAdminClient) -> list[DelegationToken]:
            return await client.describe_delegation_token(["User:alice"])

        async def learned() -> bool:
            return await described(alice) == [token]

        await until(learned)
        assert await described(bob) == [token]
        assert await described(carol) == []
        assert token in await alice.describe_delegation_token()

        sooner = token.expiry_timestamp

        async def shortened() -> bool:  # the controller applies tokens after the brokers
            nonlocal sooner
            try:
                sooner = await alice.expire_delegation_token(token.hmac, expiry_period_ms=600_000)
            except DelegationTokenNotFound:
                return False
            return True

        await until(shortened)
        assert sooner < token.expiry_timestamp

        async def renewed() -> bool:
            try:
                return (
                    await bob.renew_delegation_token(token.hmac, renew_period_ms=900_000) > sooner
                )
            except DelegationTokenNotFound:
                return False

        await until(renewed)
        with pytest.raises(DelegationTokenOwnerMismatch):
            await carol.renew_delegation_token(token.hmac)
        with pytest.raises(DelegationTokenNotFound):
            await alice.renew_delegation_token(b"another")
        await alice.expire_delegation_token(token.hmac)

        async def gone() -> bool:
            return not await described(alice)

        await until(gone)


async def test_a_token_of_another_owner_needs_the_right(guarded: KafkaCluster) -> None:
    async with (
        AIOKafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers) as root,
        AIOKafkaAdminClient(**arguments(guarded, "bob")) as bob,
    ):
        with pytest.raises(DelegationTokenAuthorizationFailed):
            await bob.create_delegation_token(owner="User:carol")
        carol = ResourcePattern(ResourceType.USER, "User:carol")
        may = AclBinding(carol, "User:bob", AclOperation.CREATE_TOKENS)
        (await root.create_acls([may])).raise_for_errors()
        created: list[DelegationToken] = []

        async def allowed() -> bool:
            try:
                created.append(await bob.create_delegation_token(owner="User:carol"))
            except DelegationTokenAuthorizationFailed:
                return False
            return True

        await until(allowed)
        [token] = created
        assert (token.owner, token.requester) == ("User:carol", "User:bob")


async def test_clients_that_may_have_no_tokens(guarded: KafkaCluster, kafka: RealKafka) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers) as admin:
        with pytest.raises(DelegationTokenRequestNotAllowed):
            await admin.create_delegation_token()
    async with AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        with pytest.raises((DelegationTokenRequestNotAllowed, DelegationTokenAuthDisabled)):
            await admin.describe_delegation_token()


def with_token(cluster: KafkaCluster, token: DelegationToken, mechanism: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_of("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": token.token_id,
        "sasl_plain_password": token.password,
        "sasl_scram_tokenauth": True,
    }


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_clients_log_in_with_a_token_as_its_owner(
    guarded: KafkaCluster, mechanism: str
) -> None:
    topic = f"of-tokens-{mechanism.lower()}"
    guarded.create_topic(topic)
    async with (
        AIOKafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers) as root,
        AIOKafkaAdminClient(**arguments(guarded, "alice")) as alice,
    ):
        bindings = [
            AclBinding(ResourcePattern(ResourceType.TOPIC, topic), "User:alice", AclOperation.ALL),
            AclBinding(ResourcePattern(ResourceType.GROUP, topic), "User:alice", AclOperation.ALL),
        ]
        (await root.create_acls(bindings)).raise_for_errors()
        token = await alice.create_delegation_token(max_lifetime_ms=3_600_000)
        chosen = with_token(guarded, token, mechanism)
        sent: list[bytes] = []

        async def logs_in() -> bool:
            """Brokers apply tokens and ACLs later."""
            try:
                async with AIOKafkaProducer(**chosen) as producer:
                    await producer.send_and_wait(topic, b"as alice")
            except (SaslAuthenticationFailed, TopicAuthorizationFailedError):
                return False
            sent.append(b"as alice")
            return True

        await until(logs_in)
        consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **chosen)
        async with consumer, asyncio.timeout(60):
            assert (await consumer.getone()).value == b"as alice"
            await consumer.commit()
        async with AIOKafkaAdminClient(**chosen) as admin:
            with pytest.raises(DelegationTokenRequestNotAllowed):
                await admin.create_delegation_token()  # a token cannot create tokens
        await alice.expire_delegation_token(token.hmac)

        refusals: list[str] = []

        async def refused() -> bool:
            producer = AIOKafkaProducer(**chosen)
            try:
                await producer.start()
            except SaslAuthenticationFailed as error:
                refusals.append(str(error))
                return True
            finally:
                await producer.stop()
            return False

        await until(refused)
        assert "the delegation token may have expired" in refusals[0]
        assert token.password not in refusals[0]


async def use_until_it_fails(admin: AIOKafkaAdminClient) -> None:
    async with asyncio.timeout(60):
        while True:
            await admin.list_topics()
            await asyncio.sleep(0.05)


@pytest.mark.long
async def test_session_of_a_token_ends_with_it(guarded: KafkaCluster) -> None:
    """The broker limits the session to the token's time; a renewal then finds it removed."""
    async with AIOKafkaAdminClient(**arguments(guarded, "alice")) as alice:
        token = await alice.create_delegation_token(max_lifetime_ms=6_000)
        admins: list[AIOKafkaAdminClient] = []

        async def started() -> bool:
            admin = AIOKafkaAdminClient(**with_token(guarded, token, "SCRAM-SHA-256"))
            try:
                await admin.start()
            except SaslAuthenticationFailed:
                await admin.close()
                return False
            admins.append(admin)
            return True

        await until(started)
        [admin] = admins
        try:
            with pytest.raises(SaslAuthenticationFailed, match="token may have expired"):
                await use_until_it_fails(admin)
        finally:
            await admin.close()


async def test_tokens_of_others_are_described_only_with_the_right(guarded: KafkaCluster) -> None:
    async with (
        AIOKafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers) as root,
        AIOKafkaAdminClient(**arguments(guarded, "alice")) as alice,
        AIOKafkaAdminClient(**arguments(guarded, "carol")) as carol,
    ):
        token = await alice.create_delegation_token(max_lifetime_ms=3_600_000)

        async def known() -> bool:
            return token in await alice.describe_delegation_token()

        await until(known)
        assert token not in await carol.describe_delegation_token()
        assert await carol.describe_delegation_token(["User:alice"]) == []
        of_alice = ResourcePattern(ResourceType.USER, "User:alice")
        may = AclBinding(of_alice, "User:carol", AclOperation.DESCRIBE_TOKENS)
        (await root.create_acls([may])).raise_for_errors()

        async def shown() -> bool:
            return token in await carol.describe_delegation_token(["User:alice"])

        await until(shown)
        (await root.delete_acls([may.to_filter()])).raise_for_errors()

        async def hidden() -> bool:
            return await carol.describe_delegation_token(["User:alice"]) == []

        await until(hidden)
        await alice.expire_delegation_token(token.hmac)
