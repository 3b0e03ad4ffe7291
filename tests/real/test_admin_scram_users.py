"""SCRAM users of the admin client against a real Kafka; clients log in with what it set."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    ScramCredential,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from aiokafka_lite.errors import AuthenticationFailedError, ResourceNotFoundError
from tools.kafka import KafkaCluster, Security

confluent_admin = pytest.importorskip("confluent_kafka.admin")

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
PASSWORD = "pass, word=\N{LATIN SMALL LETTER E WITH ACUTE}"


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    config = {"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}
    security = Security(("SASL_PLAINTEXT",), {"root": "root-secret"})
    with KafkaCluster(config=config, security=security, heap="256m") as cluster:
        yield cluster


@pytest.fixture
async def admin(guarded: KafkaCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=guarded.bootstrap_servers) as client:
        yield client


def a_name() -> str:
    return f"user-{uuid.uuid4().hex[:10]}"


async def logs_in(cluster: KafkaCluster, user: str, mechanism: ScramMechanism, word: str) -> bool:
    client = AIOKafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_of("SASL_PLAINTEXT"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism.name.replace("_", "-"),
        sasl_plain_username=user,
        sasl_plain_password=word,
    )
    try:
        await client.start()
        return bool((await client.describe_cluster())["brokers"])
    except AuthenticationFailedError:
        return False
    finally:
        await client.close()


def librdkafka_logs_in(cluster: KafkaCluster, user: str, mechanism: ScramMechanism) -> bool:
    judge = confluent_admin.AdminClient(
        {
            "bootstrap.servers": cluster.bootstrap_of("SASL_PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism.name.replace("_", "-"),
            "sasl.username": user,
            "sasl.password": PASSWORD,
        }
    )
    return bool(judge.list_topics(timeout=20).brokers)


async def until(condition: Any) -> None:
    """Wait until a coroutine function returns a true value: brokers apply users later."""
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.05)


async def test_a_user_is_created_logs_in_and_is_deleted(
    admin: AIOKafkaAdminClient, guarded: KafkaCluster
) -> None:
    alice, bob = a_name(), a_name()
    altered = await admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion(alice, SHA_256, PASSWORD),
            UserScramCredentialUpsertion(bob, SHA_512, PASSWORD, 8192, b"some salt"),
            UserScramCredentialDeletion(a_name(), SHA_256),
        ]
    )
    assert altered[alice] is altered[bob] is None
    assert [type(error) for error in altered.errors().values()] == [ResourceNotFoundError]
    for user, mechanism in ((alice, SHA_256), (bob, SHA_512)):

        async def learned(user: str = user, mechanism: ScramMechanism = mechanism) -> bool:
            return await logs_in(guarded, user, mechanism, PASSWORD)

        await until(learned)
        assert not await logs_in(guarded, user, mechanism, "another")
        assert await asyncio.to_thread(librdkafka_logs_in, guarded, user, mechanism)
    assert not await logs_in(guarded, alice, SHA_512, PASSWORD)

    described = await admin.describe_user_scram_credentials()
    assert described.value(alice) == (ScramCredential(SHA_256, 4096),)
    assert described.value(bob) == (ScramCredential(SHA_512, 8192),)
    judge = confluent_admin.AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    seen = judge.describe_user_scram_credentials([bob])[bob]
    [info] = (await asyncio.to_thread(seen.result, 30)).scram_credential_infos
    assert (info.mechanism.name, info.iterations) == ("SCRAM_SHA_512", 8192)

    deletions = [
        UserScramCredentialDeletion(alice, SHA_256),
        UserScramCredentialDeletion(bob, SHA_512),
    ]
    (await admin.alter_user_scram_credentials(deletions)).raise_for_errors()

    async def forgotten() -> bool:
        return not await logs_in(guarded, alice, SHA_256, PASSWORD)

    await until(forgotten)
    gone = await admin.describe_user_scram_credentials([alice])
    assert isinstance(gone[alice], ResourceNotFoundError)


async def test_a_password_is_replaced(admin: AIOKafkaAdminClient, guarded: KafkaCluster) -> None:
    user = a_name()
    for word in ("first", "second"):
        set_ = UserScramCredentialUpsertion(user, SHA_256, word)
        (await admin.alter_user_scram_credentials([set_])).raise_for_errors()

        async def learned(word: str = word) -> bool:
            return await logs_in(guarded, user, SHA_256, word)

        await until(learned)
    assert not await logs_in(guarded, user, SHA_256, "first")
