"""Many requests succeed while brokers die, move and return, and leaders change or are wrong.

The events are drawn from a seed, so that a failure can be reproduced.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from aiokafka_lite.cluster.retry import ANY, CONTROLLER, LeaderOf, ToNode, call
from aiokafka_lite.errors import KafkaTimeoutError
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from aiokafka_lite.protocol.registry import ApiKey
from tests.seeds import seeds

PARTITIONS = 6


class Chaos:
    """Disturbs three brokers, and repairs them at the end."""

    def __init__(self, kafka, seed: int) -> None:
        self.kafka = kafka
        self.random = random.Random(seed)
        self.epoch = 0
        self.down: set[int] = set()

    async def act(self) -> None:
        await self.random.choice([self.kill, self.revive, self.move, self.lead, self.drop])()

    async def kill(self) -> None:
        if len(self.down) < 2:
            node = self.random.choice(sorted(set(self.kafka.brokers) - self.down))
            self.down.add(node)
            self.kafka.hidden.add(node)
            await self.kafka.brokers[node].stop()
            await self.lead()

    async def revive(self) -> None:
        for node in list(self.down):
            await self.kafka.brokers[node].start()
        self.kafka.hidden -= self.down
        self.down.clear()

    async def move(self) -> None:
        await self.revive()
        broker = self.kafka.brokers[self.random.choice([2, 3])]  # 1 keeps its address
        await broker.stop()
        broker.port = 0
        await broker.start()

    async def lead(self) -> None:
        self.epoch += 1
        up = sorted(set(self.kafka.brokers) - self.down)
        self.kafka.controller_id = self.random.choice(up)
        self.kafka.topics["t"] = {
            p: (self.random.choice([*up, -1]), self.epoch) for p in range(PARTITIONS)
        }

    async def drop(self) -> None:
        await self.random.choice(list(self.kafka.brokers.values())).drop_connections()

    async def calm(self) -> None:
        await self.revive()
        self.epoch += 1
        self.kafka.topics["t"] = {p: (1 + p % 3, self.epoch) for p in range(PARTITIONS)}
        self.kafka.controller_id = 2


@pytest.mark.parametrize("seed", seeds(8))
async def test_requests_succeed_while_brokers_fail_at_random(seed, tiny_kafka, cluster_of, soon):
    kafka = await tiny_kafka(brokers=3)
    chaos = Chaos(kafka, seed)
    await chaos.calm()
    served: list[tuple[int, int]] = []  # (node, partition or -1)

    def answer(broker, request, version):
        # The request carries its partition in the field of a filter.
        partition = int(request.states_filter[0])
        leader = kafka.topics["t"].get(partition, (broker.node_id, 0))[0]
        if leader != broker.node_id:
            return ListGroupsResponse(error_code=6)
        served.append((broker.node_id, partition))
        return ListGroupsResponse()

    kafka.answers[ApiKey.LIST_GROUPS] = answer
    cluster = cluster_of(kafka)
    await cluster.start()
    epochs: dict[int, int] = {}
    went_back: list[tuple[int, int, int]] = []

    def never_back(metadata):
        topic = metadata.topics.get("t")
        for p, known in topic.partitions.items() if topic else ():
            if known.leader_epoch < epochs.get(p, -1):
                went_back.append((p, epochs[p], known.leader_epoch))
            epochs[p] = known.leader_epoch

    cluster.add_listener(never_back)

    async def caller(number: int) -> None:
        random_ = random.Random(seed * 100 + number)
        for _ in range(6):
            partition = random_.randrange(PARTITIONS)
            routes = [(LeaderOf("t", partition), partition), (ANY, -1), (CONTROLLER, -1)]
            route, filter_ = random_.choice(routes)
            request = ListGroupsRequest(states_filter=[str(filter_)])
            deadline = soon(random_.choice([0.01, 30.0]))
            try:
                await call(cluster, request, route, deadline, oldest=4)
            except KafkaTimeoutError:
                # uvloop's clock ticks in milliseconds.
                assert deadline <= asyncio.get_running_loop().time() + 0.002

    callers = [asyncio.create_task(caller(n)) for n in range(20)]
    for _ in range(40):
        await chaos.act()
        await asyncio.sleep(chaos.random.uniform(0, 0.01))
        if chaos.random.random() < 0.3:
            callers[chaos.random.randrange(20)].cancel()
    await chaos.calm()
    outcomes = await asyncio.gather(*callers, return_exceptions=True)
    assert {type(o) for o in outcomes} <= {type(None), asyncio.CancelledError}, outcomes
    for p in range(PARTITIONS):
        await call(
            cluster, ListGroupsRequest(states_filter=[str(p)]), LeaderOf("t", p), soon(), oldest=4
        )
        assert served[-1] == (1 + p % 3, p)
    for node in kafka.brokers:
        await call(cluster, ListGroupsRequest(states_filter=["-1"]), ToNode(node), soon(), oldest=4)
    assert not went_back
    assert epochs == dict.fromkeys(range(PARTITIONS), chaos.epoch)
