"""A temporary topic for the duration of a command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.retry import CONTROLLER, call
from aiokafka_lite.errors import TopicAlreadyExistsError, for_code
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from aiokafka_lite.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

PATIENCE = 30.0  # seconds for the creation, and again for the deletion


@asynccontextmanager
async def created_topic(bootstrap: str, name: str, partitions: int) -> AsyncIterator[None]:
    """Create a topic with the broker's default replication factor; delete it on exit.

    Raises:
        KafkaError: The controller rejects the topic or is unreachable.
    """
    cluster = Cluster(bootstrap, ConnectionOptions())
    loop = asyncio.get_running_loop()
    await cluster.start(loop.time() + PATIENCE)
    try:
        await _create(cluster, name, partitions)
        try:
            yield
        finally:
            await _delete(cluster, name)
    finally:
        await cluster.close(loop.time() + 1.0)


async def _create(cluster: Cluster, name: str, partitions: int) -> None:
    def check(response: CreateTopicsResponse) -> None:
        for topic in response.topics:
            error = for_code(topic.error_code)
            # A retry finds the topic of the first request, whose response was lost.
            if topic.error_code and error is not TopicAlreadyExistsError:
                raise error(topic.error_message or f"cannot create topic {topic.name}")

    deadline = asyncio.get_running_loop().time() + PATIENCE
    # -1: the broker's own default (KIP-464, Kafka 2.4).
    wanted = CreatableTopic(name, num_partitions=partitions, replication_factor=-1)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=int(PATIENCE * 1000))
    await call(cluster, request, CONTROLLER, deadline, check=check, oldest=4)
    await cluster.partitions_of(name, deadline)


async def _delete(cluster: Cluster, name: str) -> None:
    def check(response: DeleteTopicsResponse) -> None:
        for topic in response.responses:
            if topic.error_code:
                raise for_code(topic.error_code)(f"cannot delete topic {name}")

    def build(version: int) -> DeleteTopicsRequest:
        timeout_ms = int(PATIENCE * 1000)
        if version >= 6:
            return DeleteTopicsRequest(topics=[DeleteTopicState(name)], timeout_ms=timeout_ms)
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=timeout_ms)

    deadline = asyncio.get_running_loop().time() + PATIENCE
    await call(cluster, PerVersion(DeleteTopicsRequest, build), CONTROLLER, deadline, check=check)
