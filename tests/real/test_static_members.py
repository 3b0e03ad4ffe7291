"""A static member that is killed, and the one that takes its place: what a real broker says."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, TopicPartition
from aiokafka_lite.errors import FencedInstanceIdError, UnreleasedInstanceIdError
from aiokafka_lite.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.conftest import TopicFactory
from tools.kafka import RealKafka

PARTITIONS = 2
SESSION_MS = 3000  # the least that the tests' brokers allow
GROUP, SET = 32, 0  # a kind of resource, and what to do to a config


class Scene:
    """A topic, and static members of one group that read it."""

    def __init__(self, kafka: RealKafka, topic: str) -> None:
        self.bootstrap = kafka.bootstrap_servers
        self.topic = topic
        self.group_id = f"static-{uuid.uuid4().hex[:10]}"
        self.members: list[AIOKafkaConsumer] = []

    async def set_session(self) -> None:
        """Give the group a short session: in the consumer protocol it is the broker's business."""
        config = AlterableConfig("consumer.session.timeout.ms", SET, str(SESSION_MS))
        resource = AlterConfigsResource(GROUP, self.group_id, [config])
        async with AIOKafkaClient(bootstrap_servers=self.bootstrap) as client:
            (node, *_) = client.cluster.brokers()
            answer = await client.send(node.nodeId, IncrementalAlterConfigsRequest([resource]))
        assert [told.error_code for told in answer.responses] == [0], answer

    async def join(self, instance: str, protocol: str) -> AIOKafkaConsumer:
        member = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group_id,
            group_instance_id=instance,
            group_protocol=protocol,
        )
        self.members.append(member)
        await member.start()
        return member

    async def until_shared(self, *members: AIOKafkaConsumer) -> None:
        """Until these have all partitions between them."""
        whole = {TopicPartition(self.topic, number) for number in range(PARTITIONS)}
        async with asyncio.timeout(40):
            while set().union(*(member.assignment() for member in members)) != whole or not all(
                member.assignment() for member in members
            ):
                await asyncio.sleep(0.05)


@pytest.fixture
async def scene(kafka: RealKafka, topic: TopicFactory) -> AsyncIterator[Scene]:
    scene = Scene(kafka, topic(PARTITIONS))
    yield scene
    for member in scene.members:
        await member.stop()


def kill(member: AIOKafkaConsumer) -> None:
    """End it as SIGKILL would: its connections close, and nothing is said to anybody."""
    member._core.abort()


async def test_classic_protocol_replaces_a_stopped_static_member(scene: Scene) -> None:
    first = await scene.join("a", "classic")
    other = await scene.join("b", "classic")
    await scene.until_shared(first, other)
    held = first.assignment()
    rebalances = other.metrics()["rebalance-total"]
    kill(first)
    again = await scene.join("a", "classic")
    assert again.assignment() == held
    assert other.metrics()["rebalance-total"] == rebalances


async def test_classic_protocol_fences_a_live_static_member(scene: Scene) -> None:
    first = await scene.join("a", "classic")
    again = await scene.join("a", "classic")
    assert len(again.assignment()) == PARTITIONS
    with pytest.raises(FencedInstanceIdError):
        async with asyncio.timeout(20):
            await first.getone()


async def test_consumer_protocol_waits_for_the_session_to_end(scene: Scene) -> None:
    await scene.set_session()
    first = await scene.join("a", "consumer")
    other = await scene.join("b", "consumer")
    await scene.until_shared(first, other)
    kill(first)
    with pytest.raises(UnreleasedInstanceIdError, match="'a' is in use by another member"):
        await scene.join("a", "consumer")
    await scene.until_shared(other)  # the session is over
    again = await scene.join("a", "consumer")
    await scene.until_shared(again, other)


async def test_consumer_protocol_keeps_a_live_static_member(scene: Scene) -> None:
    first = await scene.join("a", "consumer")
    held = first.assignment()
    with pytest.raises(UnreleasedInstanceIdError, match="'a' is in use by another member"):
        await scene.join("a", "consumer")
    assert first.assignment() == held
    await first.stop()  # which releases it, and keeps its place
    again = await scene.join("a", "consumer")
    assert again.assignment() == held
