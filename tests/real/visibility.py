"""Waits for changes that Kafka has confirmed, but does not show yet.

The controller answers as soon as a change is committed. Each broker applies it later; this includes
the only broker of a cluster, and the broker that forwarded the request.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiokafka_lite import AIOKafkaClient
from aiokafka_lite.admin import (
    AclBindingFilter,
    AIOKafkaAdminClient,
    PatternType,
    ResourcePatternFilter,
    ResourceType,
)
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

PATIENCE = 60.0  # seconds, on a busy machine
GROUP = 32  # the resource type of DescribeConfigs

Placement = list[tuple[int, list[int]]]
"""The leader and the replicas of each partition."""


def seen(look: Callable[[], object], wanted: object) -> None:
    """Poll until a function returns a value.

    Raises:
        AssertionError: It returns a different one for a minute.
    """
    deadline = time.monotonic() + PATIENCE
    while (found := look()) != wanted:
        assert time.monotonic() < deadline, f"{found!r} is not {wanted!r}"
        time.sleep(0.05)


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait until a coroutine function returns a true value."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.05)


async def on_every_broker(servers: str, shows: Callable[[AIOKafkaClient, int], Any]) -> None:
    """Wait until `shows` of a client and a node id returns a true value for each broker."""
    async with AIOKafkaClient(bootstrap_servers=servers) as client:
        for broker in client.cluster.brokers():
            await until(lambda node_id=broker.nodeId: shows(client, node_id))  # type: ignore[misc]


async def topic_is_placed(servers: str, topic: str, enough: Callable[[Placement], object]) -> None:
    """Wait until every broker shows the topic with an accepted placement."""

    async def shows(client: AIOKafkaClient, node_id: int) -> object:
        request = MetadataRequest([MetadataRequestTopic(name=topic)], False)
        (told,) = (await client.send(node_id, request)).topics
        found = sorted(told.partitions, key=lambda each: each.partition_index)
        return not told.error_code and enough(
            [(each.leader_id, sorted(each.replica_nodes)) for each in found]
        )

    await on_every_broker(servers, shows)


async def topic_is_gone(servers: str, topic: str) -> None:
    """Wait until no broker shows a topic."""

    async def shows(client: AIOKafkaClient, node_id: int) -> bool:
        told = (await client.send(node_id, MetadataRequest(None, False))).topics
        return topic not in {each.name for each in told}

    await on_every_broker(servers, shows)


async def group_has_configs(servers: str, group: str, configs: Mapping[str, str]) -> None:
    """Wait until every broker has these configurations of a group."""

    async def shows(client: AIOKafkaClient, node_id: int) -> object:
        resource = DescribeConfigsResource(GROUP, group, list(configs))
        (told,) = (await client.send(node_id, DescribeConfigsRequest([resource]))).results
        return {each.name: each.value for each in told.configs} == configs

    await on_every_broker(servers, shows)


async def acls_count(servers: str, name: str, count: int) -> None:
    """Wait until a one-broker cluster enforces this many ACLs on resources with a name or
    prefix."""
    pattern = ResourcePatternFilter(ResourceType.ANY, name, PatternType.ANY)
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:

        async def known() -> bool:
            return len(await admin.describe_acls(AclBindingFilter(pattern))) >= count

        await until(known)
