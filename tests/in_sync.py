"""The state in which a test finds three shared brokers: replicas in sync, preferred leaders."""

import asyncio
from typing import Final

from aiokafka_lite.admin import AIOKafkaAdminClient, ElectionType, PartitionDescription
from aiokafka_lite.structs import TopicPartition
from tools.kafka import OwnCluster
from tools.kafka.wire import ask_metadata

PATIENCE: Final = 10.0
"""Seconds in which a follower catches up by itself, if it does so at all."""

GUARD: Final = 120.0
"""Seconds in which all replicas are in sync."""


async def restore(cluster: OwnCluster) -> None:
    """Wait until the brokers know each other and replicate Kafka's own topics; move leaders back.

    A restarted broker answers before all others have registered it. A test may also rely on
    replication: it kills a coordinator, and another broker has to take over. After a broker was
    killed, a follower whose fetch overlaps with the change of leaders can stay out of sync until
    the next change (Kafka logs "marked as failed"): such a broker is restarted.

    Args:
        cluster: All its brokers run.

    Raises:
        TimeoutError: A replica is out of sync for `GUARD` seconds.
    """
    loop = asyncio.get_running_loop()
    servers = cluster.bootstrap_servers
    async with asyncio.timeout(GUARD), AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        while not await asyncio.to_thread(_is_complete, cluster):
            await asyncio.sleep(0.1)
        until = loop.time() + PATIENCE
        while behind := _behind(await _own_topics(admin)):
            if loop.time() > until:
                node_id = min(behind)
                await asyncio.to_thread(cluster.stop, node_id)
                await asyncio.to_thread(cluster.start, node_id)
                until = loop.time() + PATIENCE
            await asyncio.sleep(0.1)
        while misled := _misled(await _own_topics(admin)):
            await admin.elect_leaders(ElectionType.PREFERRED, misled)
            await asyncio.sleep(0.1)


def _is_complete(cluster: OwnCluster) -> bool:
    """True if each broker answers and lists all brokers."""
    places = [address.rpartition(":") for address in cluster.bootstrap_servers.split(",")]
    try:
        views = [ask_metadata((host, int(port)), version=1) for host, _, port in places]
    except OSError:
        return False
    return all(set(view.brokers) == set(cluster.node_ids) for view in views)


async def _own_topics(admin: AIOKafkaAdminClient) -> dict[TopicPartition, PartitionDescription]:
    listed = await admin.list_topics(typed=True)
    names = [name for name, topic in listed.items() if topic.is_internal]
    described = (await admin.describe_topics(names, typed=True)).raise_for_errors()
    return {
        TopicPartition(topic.name, info.partition): info
        for topic in described.values()
        for info in topic.partitions.values()
    }


def _behind(partitions: dict[TopicPartition, PartitionDescription]) -> set[int]:
    """The brokers with a replica that is out of sync."""
    return {node_id for each in partitions.values() for node_id in {*each.replicas} - {*each.isr}}


def _misled(partitions: dict[TopicPartition, PartitionDescription]) -> list[TopicPartition]:
    """The partitions that their preferred replica does not lead."""
    return [tp for tp, each in partitions.items() if each.leader != each.replicas[0]]
