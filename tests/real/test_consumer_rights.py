"""Errors of aiokafka and of this package when a broker's ACLs deny reading.

Topics and groups whose name begins with "secret" are denied to all users.
"""

import asyncio
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaShareConsumer
from aiokafka_lite.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError
from aiokafka_lite.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tests.real.visibility import acls_count
from tools.kafka import KafkaCluster

pytest.importorskip("aiokafka", reason="the interop extra is not installed")

TOPIC, GROUP = 2, 3  # ACL resource types
READ, DENY, PREFIXED = 3, 2, 4
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """The address of a broker with such ACLs."""

    async def forbid() -> None:
        async with AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            acls = [
                AclCreation(kind, "secret", PREFIXED, "User:*", "*", READ, DENY)
                for kind in (TOPIC, GROUP)
            ]
            told = await client.send(cluster.node_ids[0], CreateAclsRequest(acls))
            assert [result.error_code for result in told.results] == [0, 0]
        await acls_count(cluster.bootstrap_servers, "secret", len(acls))

    with KafkaCluster(config=CONFIG, heap="256m") as cluster:
        for name in ("open", "secret"):
            cluster.create_topic(name, 1)
        asyncio.run(forbid())
        yield cluster.bootstrap_servers


@pytest.fixture(params=["aiokafka", "aiokafka_lite"])
def package(request: pytest.FixtureRequest) -> Any:
    return import_module(request.param)


@pytest.fixture
def make(package: Any, guarded: str) -> Callable[..., Any]:
    def make(*topics: str, **options: Any) -> Any:
        return package.AIOKafkaConsumer(*topics, bootstrap_servers=guarded, **options)

    return make


async def test_denied_group_raises_as_in_aiokafka(make: Any, package: Any) -> None:
    error = package.errors.GroupAuthorizationFailedError
    consumer = make("open", group_id="secret-group")
    with pytest.raises(error):
        await asyncio.wait_for(consumer.start(), 20)
    await consumer.stop()


async def test_denied_group_raises_at_a_read(make: Any, package: Any) -> None:
    consumer = make(group_id="secret-group")
    await consumer.start()
    consumer.subscribe(["open"])
    with pytest.raises(package.errors.GroupAuthorizationFailedError):
        await asyncio.wait_for(consumer.getone(), 20)
    await consumer.stop()


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
async def test_denied_group_raises_repeatedly_in_both_protocols(
    guarded: str, group_protocol: str
) -> None:
    ours: Any = import_module("aiokafka_lite")
    consumer = ours.AIOKafkaConsumer(
        bootstrap_servers=guarded, group_id="secret-group", group_protocol=group_protocol
    )
    async with consumer:
        consumer.subscribe(["open"])
        for _ in range(2):
            with pytest.raises(ours.errors.GroupAuthorizationFailedError):
                await asyncio.wait_for(consumer.getone(), 20)


@pytest.mark.parametrize("group_id", [None, "free"])
async def test_denied_topic_raises(make: Any, package: Any, group_id: str | None) -> None:
    consumer = make("secret", group_id=group_id)
    with pytest.raises(package.errors.TopicAuthorizationFailedError):
        await asyncio.wait_for(consumer.start(), 20)
    await consumer.stop()


async def test_a_share_consumer_without_rights_raises(guarded: str) -> None:
    options = {"bootstrap_servers": guarded, "request_timeout_ms": 20_000}
    for topic, group_id, error in (
        ("open", "secret-workers", GroupAuthorizationFailedError),
        ("secret", "workers", TopicAuthorizationFailedError),
    ):
        consumer = AIOKafkaShareConsumer(topic, group_id=group_id, **options)
        with pytest.raises(error, match="secret"):
            await consumer.start()
        await consumer.stop()
