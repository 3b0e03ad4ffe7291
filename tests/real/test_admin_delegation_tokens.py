"""Delegation tokens of the admin client against a real Kafka.

No client here but Java's logs in with a token, so the secret itself is checked: Kafka derives it
from the token's id with the brokers' key (HMAC-SHA512).
"""

import asyncio
import hmac
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

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
)
from tools.kafka import KafkaCluster, RealKafka, Security

KEY = "the-key-of-the-brokers"
CONFIG = {
    "delegation.token.secret.key": KEY,
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
    """Wait until a coroutine function returns a true value: brokers learn of tokens later."""
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

        sooner = await alice.expire_delegation_token(token.hmac, expiry_period_ms=600_000)
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
