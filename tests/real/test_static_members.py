"""A static member that is killed and its successor, on a real broker."""

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
from tests.real.visibility import group_has_configs
from tools.kafka import RealKafka

PARTITIONS = 2
SESSION_MS = 6000  # a successor has to come earlier, also on a busy machine
GROUP, SET = 32, 0  # a resource type, and a config operation


class Scene:
    """A topic, and static members of one group that read it."""

    def __init__(self, kafka: RealKafka, topic: str) -> None:
        self.bootstrap = kafka.bootstrap_servers
        self.topic = topic
        self.group_id = f"static-{uuid.uuid4().hex[:10]}"
        self.members: list[AIOKafkaConsumer] = []

    async def set_session(self) -> None:
        """Give the group a short session, which is a broker config in the consumer protocol."""
        name = "consumer.session.timeout.ms"
        config = AlterableConfig(name, SET, str(SESSION_MS))
        resource = AlterConfigsResource(GROUP, self.group_id, [config])
        async with AIOKafkaClient(bootstrap_servers=self.bootstrap) as client:
            (node, *_) = client.cluster.brokers()
            answer = await client.send(node.nodeId, IncrementalAlterConfigsRequest([resource]))
        assert [told.error_code for told in answer.responses] == [0], answer
        await group_has_configs(self.bootstrap, self.group_id, {name: str(SESSION_MS)})

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
        """Wait until these members own all partitions."""
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
    """Stop it as SIGKILL does: its connections close, and nothing is sent."""
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
    await scene.until_shared(other)  # the session has ended
    again = await scene.join("a", "consumer")
    await scene.until_shared(again, other)


async def test_consumer_protocol_keeps_a_live_static_member(scene: Scene) -> None:
    first = await scene.join("a", "consumer")
    held = first.assignment()
    with pytest.raises(UnreleasedInstanceIdError, match="'a' is in use by another member"):
        await scene.join("a", "consumer")
    assert first.assignment() == held
    await first.stop()  # which stops it, but keeps its membership
    again = await scene.join("a", "consumer")
    assert again.assignment() == held
