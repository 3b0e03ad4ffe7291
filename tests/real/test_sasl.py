"""Clients authenticate to a real Kafka with each mechanism, and re-authenticate in time."""

import asyncio
import base64
import itertools
import json
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafka_lite import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
    TopicPartition,
)
from aiokafka_lite.abc import AbstractTokenProvider
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import AuthenticationFailedError, KafkaError
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.oauth import ClientCredentials, Token, TokenSource, token_source
from tests.oidc_server import Answer, OidcServer, Received, success, unsigned_jwt
from tests.real.session_transactions import copy_in_transactions
from tools.kafka import KafkaCluster, Security

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SESSION_MS = 1500
"""The broker closes a connection that is used after this time without re-authentication."""
MARGIN = 0.05 * SESSION_MS / 1000
"""Clients re-authenticate at least this many seconds before a session ends. On a busy machine, a
process may stand still for longer. The broker then closes the connection."""
PATIENT = {"bootstrap_timeout_ms": 20_000}
"""A session may end before the start of a client that stands still."""
PASSWORD = "alice-secret, =\N{LATIN SMALL LETTER E WITH ACUTE}"


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    listener = "listener.name.sasl_plaintext"
    login = f'{module} required unsecuredLoginStringClaim_sub="x";'
    config = {
        f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{listener}.oauthbearer.sasl.jaas.config": login,
        "connections.max.reauth.ms": SESSION_MS,
    }
    security = Security(("SASL_PLAINTEXT", "SASL_SSL"), {"alice": "alice-secret"})
    with KafkaCluster(config=config, security=security) as cluster:
        cluster.create_topic("guarded")
        yield cluster


class Unsecured(AbstractTokenProvider):
    """Unsigned tokens, which a broker without configured keys accepts."""

    def __init__(self, lifetime: float = 3600) -> None:
        self.asked = 0
        self._lifetime = lifetime

    async def token(self) -> str:
        self.asked += 1
        now = int(time.time())
        claims = {"sub": "alice", "iat": now, "exp": now + self._lifetime}
        parts = [json.dumps({"alg": "none"}), json.dumps(claims)]
        return (
            ".".join(
                base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts
            )
            + "."
        )


def arguments(cluster: KafkaCluster, mechanism: str, protocol: str) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_of(protocol),
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
    }
    if mechanism == "OAUTHBEARER":
        chosen["sasl_oauth_token_provider"] = Unsecured()
    if protocol == "SASL_SSL":
        assert cluster.security is not None
        chosen["ssl_context"] = ssl.create_default_context(cafile=cluster.security.ca_file)
    return chosen


@pytest.mark.parametrize(
    ("mechanism", "protocol"),
    [
        ("PLAIN", "SASL_PLAINTEXT"),
        ("PLAIN", "SASL_SSL"),
        ("SCRAM-SHA-256", "SASL_PLAINTEXT"),
        ("SCRAM-SHA-512", "SASL_SSL"),
        ("OAUTHBEARER", "SASL_PLAINTEXT"),
    ],
)
async def test_round_trip_over_several_sasl_sessions(
    guarded: KafkaCluster, mechanism: str, protocol: str
) -> None:
    """Records flow for three session lifetimes on the same connections."""
    chosen = arguments(guarded, mechanism, protocol) | PATIENT
    consumer = AIOKafkaConsumer(**chosen, auto_offset_reset="latest")
    async with AIOKafkaProducer(**chosen) as producer, consumer:
        consumer.assign([TopicPartition("guarded", 0)])
        await consumer.seek_to_end()
        sent = []

        async def exchange(seconds: float) -> float:
            """Return the time of the slowest round trip."""
            slowest, now = 0.0, time.monotonic()
            until = now + seconds
            while now < until:
                sent.append(str(len(sent)).encode())
                await producer.send_and_wait("guarded", sent[-1])
                assert (await asyncio.wait_for(consumer.getone(), 20)).value == sent[-1]
                await asyncio.sleep(0.02)
                began, now = now, time.monotonic()
                slowest = max(slowest, now - began)
            return slowest

        await exchange(0.2)
        for _ in range(20):
            connections = connections_of(producer._cluster) + connections_of(consumer._core.cluster)
            slowest = await exchange(3 * SESSION_MS / 1000)
            if not any(connection.closed for connection in connections):
                break
            assert slowest > MARGIN
        else:
            pytest.fail("the broker closed a connection in each of 20 periods")
    if mechanism == "OAUTHBEARER":
        provider = chosen["sasl_oauth_token_provider"]
        assert provider.asked > len(connections)  # the sessions were renewed on open connections


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_two_minutes_of_transactions_under_short_sessions_store_each_record_once(
    guarded: KafkaCluster,
) -> None:
    """Sessions expire after 1.5 s; all mechanisms are used at the same time."""
    mechanisms = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
    async with asyncio.TaskGroup() as group:
        copies = {
            mechanism: group.create_task(
                copy_in_transactions(
                    guarded,
                    f"copies-{mechanism}",
                    arguments(
                        guarded,
                        mechanism,
                        "SASL_SSL" if mechanism.startswith("SCRAM") else "SASL_PLAINTEXT",
                    ),
                    120,
                )
            )
            for mechanism in mechanisms
        }
    for mechanism, copied in copies.items():
        print(mechanism, copied.result())


async def test_locks_outlive_several_sasl_sessions(guarded: KafkaCluster) -> None:
    """A share consumer's session belongs to its connection, which is re-authenticated."""
    for attempt in range(10):
        async with asyncio.timeout(60):
            if await locks_outlive_sessions(guarded, f"share-sasl-{attempt}"):
                return
    pytest.fail("the broker closed a connection in each of 10 attempts")


async def locks_outlive_sessions(guarded: KafkaCluster, group: str) -> bool:
    """Return False if the broker closed a connection because a process stood still."""
    chosen = arguments(guarded, "SCRAM-SHA-512", "SASL_SSL") | PATIENT
    async with (
        AIOKafkaShareConsumer("guarded", group_id=group, **chosen) as consumer,
        AIOKafkaProducer(**chosen) as producer,
    ):
        reading = asyncio.create_task(consumer.getone())
        while not reading.done():  # a new group begins at the end, once it has fetched
            await producer.send_and_wait("guarded", b"kept")
            await asyncio.sleep(0.1)
        kept = await reading
        connections = connections_of(consumer._core.cluster)
        slowest, now = 0.0, time.monotonic()
        until = now + 3 * SESSION_MS / 1000
        try:
            while now < until:
                await producer.send_and_wait("guarded", b"record")
                assert await (await consumer.getone()).accept() is None
                # Kafka delivers only 2,000 records beyond one that is still locked.
                await asyncio.sleep(0.01)
                began, now = now, time.monotonic()
                slowest = max(slowest, now - began)
            assert (kept.value, kept.delivery_count) == (b"kept", 1)
            assert await kept.accept() is None
        except KafkaError:
            if not any(connection.closed for connection in connections):
                raise
        if any(connection.closed for connection in connections):
            assert max(slowest, time.monotonic() - now) > MARGIN
            return False
        return True


def connections_of(cluster: Cluster) -> list[Connection]:
    brokers = [cluster.broker(node_id) for node_id in cluster.metadata.brokers]
    return [connection for broker in brokers for connection in broker._connections.values()]


async def test_tokens_of_an_identity_provider_are_renewed_under_traffic(
    guarded: KafkaCluster,
) -> None:
    """Tokens live 4 s; the provider is unavailable at times."""
    answers = itertools.cycle([None, (503, {}, b""), None])
    tokens: list[str] = []

    def answer(_: Received) -> Answer:
        refused = next(answers)
        if refused is not None:
            return refused
        tokens.append(unsigned_jwt(4))
        return success(tokens[-1])

    with OidcServer(answer) as server:
        chosen = arguments(guarded, "OAUTHBEARER", "SASL_PLAINTEXT")
        chosen["sasl_oauth_token_provider"] = ClientCredentials(server.url, "orders", "secret")
        consumer = AIOKafkaConsumer(**chosen, auto_offset_reset="latest")
        async with AIOKafkaProducer(**chosen) as producer, consumer:
            consumer.assign([TopicPartition("guarded", 0)])
            await consumer.seek_to_end()
            until = time.monotonic() + 12
            number = 0
            while time.monotonic() < until or len(tokens) < 3:
                value = b"%d" % number
                await producer.send_and_wait("guarded", value)
                assert (await asyncio.wait_for(consumer.getone(), 20)).value == value
                number += 1
                await asyncio.sleep(0.02)


async def test_tokens_that_expire_early_are_replaced(
    guarded: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider claims a lifetime of an hour, but brokers reject its tokens after 2 s."""
    monkeypatch.setattr(token_source, "RETRY_SECONDS", 1.0)

    class Early(TokenSource):
        fetched = 0

        async def fetch(self) -> Token:
            self.fetched += 1
            return Token(unsigned_jwt(2), time.time() + 3600)

    source = Early()
    chosen = arguments(guarded, "OAUTHBEARER", "SASL_PLAINTEXT")
    chosen["sasl_oauth_token_provider"] = source
    async with AIOKafkaProducer(**chosen) as producer, asyncio.timeout(120):
        stored = []
        while source.fetched < 4:
            stored.append((await producer.send_and_wait("guarded", b"x")).offset)
            await asyncio.sleep(0.02)
        assert stored == list(range(stored[0], stored[0] + len(stored)))


async def test_client_reconnects_if_its_principal_changes(guarded: KafkaCluster) -> None:
    """Brokers refuse another principal on an open connection, and accept it on a new one."""
    subjects = itertools.cycle(["alice", "bob"])

    class Changing(AbstractTokenProvider):
        async def token(self) -> str:
            return unsigned_jwt(60, next(subjects))

    chosen = arguments(guarded, "OAUTHBEARER", "SASL_PLAINTEXT")
    chosen["sasl_oauth_token_provider"] = Changing()
    async with AIOKafkaProducer(**chosen) as producer:
        until = time.monotonic() + 3 * SESSION_MS / 1000
        stored = []
        while time.monotonic() < until:
            stored.append((await producer.send_and_wait("guarded", b"x")).offset)
            await asyncio.sleep(0.02)
        assert stored == list(range(stored[0], stored[0] + len(stored)))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_wrong_password_raises_at_once(guarded: KafkaCluster, mechanism: str) -> None:
    chosen = arguments(guarded, mechanism, "SASL_PLAINTEXT")
    chosen["sasl_plain_password"] = PASSWORD
    began = time.monotonic()
    for client in (AIOKafkaProducer(**chosen), AIOKafkaConsumer(**chosen)):
        with pytest.raises(AuthenticationFailedError, match="Authentication failed"):
            await client.start()
        await client.stop()
    assert time.monotonic() - began < 20


async def test_expired_token_raises_with_the_brokers_reason(guarded: KafkaCluster) -> None:
    chosen = arguments(guarded, "OAUTHBEARER", "SASL_PLAINTEXT")
    chosen["sasl_oauth_token_provider"] = Unsecured(lifetime=-60)
    producer = AIOKafkaProducer(**chosen)
    with pytest.raises(AuthenticationFailedError, match="invalid_token"):
        await producer.start()
    await producer.stop()
