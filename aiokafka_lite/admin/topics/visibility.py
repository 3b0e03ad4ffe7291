"""Waits until every broker has topics in its metadata: a controller responds before all of them do.

Source: MetadataRequest.json v0-v13.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from aiokafka_lite._arguments import INT32, whole
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.item_outcomes import item_error
from aiokafka_lite.admin.core.metadata_requests import FoundTopic, TopicMetadata
from aiokafka_lite.admin.topics.description import names_of_topics
from aiokafka_lite.cluster.metadata import NO_LEADER
from aiokafka_lite.cluster.retry import ToNode
from aiokafka_lite.errors import (
    KafkaError,
    KafkaProtocolError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NodeNotReadyError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.metadata import MetadataResponsePartition

__all__ = ["wait_for_topics"]

_TURN: Final = 5.0
"""Seconds without a response after which the client checks whether the broker is still in the
cluster."""


async def wait_for_topics(
    dispatcher: Dispatcher,
    topics: Iterable[str] | Mapping[str, int],
    timeout_ms: float | None,
) -> None:
    """See `AIOKafkaAdminClient.wait_for_topics`."""
    deadline = dispatcher.deadline(timeout_ms)
    least = dict.fromkeys(names_of_topics(topics), 1)
    if isinstance(topics, Mapping):
        for name, count in topics.items():
            least[name] = whole(f"partitions of {name!r}", count, least=1, most=INT32)
    if not least:
        return
    cluster = dispatcher.cluster
    nodes = list((await cluster.refresh(deadline)).brokers)
    waits = [asyncio.ensure_future(_wait_for(dispatcher, each, least, deadline)) for each in nodes]
    try:
        await asyncio.gather(*waits)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _wait_for(
    dispatcher: Dispatcher, node_id: int, least: Mapping[str, int], deadline: float
) -> None:
    """Wait until one broker reports the topics, or has left the cluster and need not report
    them."""
    cluster, loop = dispatcher.cluster, asyncio.get_running_loop()
    names, failures = list(least), 0
    while True:
        turn = min(deadline, loop.time() + _TURN)
        try:
            ask = partial(dispatcher.ask, route=ToNode(node_id), deadline=turn)
            found = await TopicMetadata(_leader).request(ask, names)
            _check_visible(least, found)
            return
        except (KafkaTimeoutError, NodeNotReadyError) as error:
            if node_id not in cluster.metadata.brokers:
                return
            cluster.request_update()
            reason: KafkaError = error
        except KafkaError as error:
            if not error.retriable:
                raise
            reason = error
        failures += 1
        pause = cluster.retry_backoff.delay(failures)
        if loop.time() + pause >= deadline:
            raise KafkaTimeoutError(
                f"broker {node_id} did not show the topics: {reason.__cause__ or reason}"
            ) from reason
        await asyncio.sleep(pause)


def _leader(partition: MetadataResponsePartition) -> tuple[int, int]:
    return partition.partition_index, partition.leader_id


def _check_visible(least: Mapping[str, int], found: list[FoundTopic[tuple[int, int]]]) -> None:
    """Raise unless a broker reports all topics with their partitions and their leaders."""
    topics = {topic.name: (topic, partitions) for topic, partitions in found}
    for name, count in least.items():
        label = f"topic {name!r}"
        if name not in topics:
            raise KafkaProtocolError(f"{label}: the response omits it")
        topic, partitions = topics[name]
        if topic.error_code:
            raise item_error(topic.error_code, label)
        if len(partitions) < count:
            raise UnknownTopicOrPartitionError(
                f"{label} has {len(partitions)} partitions here, not {count}"
            )
        without = [number for number, leader in partitions if leader == NO_LEADER]
        if without:
            raise LeaderNotAvailableError(f"{label}: partition {without[0]} has no leader here")
