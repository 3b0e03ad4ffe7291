"""The cluster of a chaos run without a real Kafka: brokers in this process."""

import asyncio
import random

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.faults.stages import MOST_PARTITIONS

__all__ = ["Embedded"]


class Embedded:
    """Brokers in this process; a tenth of a second stands for one.

    Args:
        cluster: Running, with three brokers.
        seed: The seed of the faults' choices.
    """

    def __init__(self, cluster: FakeCluster, seed: int) -> None:
        self.cluster = cluster
        self.topics: list[str] = []
        self.overdue = 0.6
        self._random = random.Random(seed)

    async def kill(self, node: int, seconds: float) -> None:
        self.cluster.kill(node)
        await asyncio.sleep(seconds)
        await self.cluster.restart(node)

    async def restart(self, node: int, seconds: float) -> None:
        for topic in self.topics:
            for number, partition in enumerate(self.cluster.state.topics[topic].partitions):
                if partition.leader == node:
                    self.cluster.move_leader(topic, number, (node + 1) % 3)
        await self.kill(node, seconds / 5)

    async def freeze(self, node: int, seconds: float) -> None:
        self.cluster.pause(node)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.cluster.resume(node)

    async def lead_elsewhere(self, node: int, seconds: float) -> None:
        for topic in self.topics:
            for number in range(len(self.cluster.state.topics[topic].partitions)):
                if self._random.random() < 0.5:
                    self.cluster.move_leader(topic, number, self._random.randrange(3))

    async def grow(self, node: int, seconds: float) -> None:
        topic = self._random.choice(self.topics)
        count = len(self.cluster.state.topics[topic].partitions)
        if count < MOST_PARTITIONS:
            self.cluster.add_partitions(topic, count + 1)

    async def cut(self, node: int, seconds: float) -> None:
        after = self._random.random() < 0.7
        faults = [
            self.cluster.control(
                ApiKey.PRODUCE, after_handling=after, disconnect=self._random.randrange(2, 60)
            )
            for _ in range(5)
        ]
        await asyncio.sleep(seconds)
        for fault in faults:
            fault.remove()

    async def delay(self, node: int, seconds: float) -> None:
        fault = self.cluster.control(
            ApiKey.PRODUCE,
            after_handling=self._random.random() < 0.5,
            delay=self.overdue,
            times=None,
            when=lambda _: self._random.random() < 0.2,
        )
        await asyncio.sleep(seconds)
        fault.remove()

    async def stall(self, node: int, seconds: float) -> None:
        fault = self.cluster.control(ApiKey.PRODUCE, node=node, drop=True, times=3)
        await asyncio.sleep(seconds)
        fault.remove()
