"""The clusters of chaos runs: three real brokers behind proxies, or embedded ones."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.retry import CONTROLLER, call
from aiokafka_lite.errors import for_code
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from aiokafka_lite.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from aiokafka_lite.protocol.messages.elect_leaders import ElectLeadersRequest
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.faults.proxy import Proxy
from tools.kafka import NEWEST, KafkaCluster
from tools.kafka.broker import free_ports

__all__ = ["Embedded", "Real", "Watch", "real_stage"]

MOST_PARTITIONS = 12
OPERATOR_TIMEOUT = 30.0  # seconds that an operator's command may take
DURABLE = {"min.insync.replicas": 2}
CUT_WITHIN = (100, 2_000, 50_000)  # bytes: in a header, in a batch, in one of the next requests


Watch = Callable[[int, int, int], None]
"""Takes the node of a fault, or -1 for any, and when it began and ended (monotonic ns)."""


class Real:
    """Three real brokers; clients come through a proxy for each.

    Args:
        kafka: Running, and advertising the proxies.
        proxies: One a node; none where nothing is done to the wire.
        seed: Of what a fault chooses.

    Attributes:
        topics: Those that partitions are added to, and that other brokers may lead.
        watches: Called with each fault that ended, by stages that report them.
        bootstrap_servers: The proxies, or the brokers where there are none.
        overdue: Seconds that outlast the client's request timeout.
    """

    def __init__(self, kafka: KafkaCluster, proxies: Sequence[Proxy], seed: int) -> None:
        self.kafka = kafka
        self.topics: list[str] = []
        self.watches: list[Watch] = []
        self.overdue = 4.0
        addresses = [f"127.0.0.1:{proxy.port}" for proxy in proxies]
        self.bootstrap_servers = ",".join(addresses) or kafka.bootstrap_servers
        self._proxies = proxies
        self._random = random.Random(seed)

    def beside(self, seed: int) -> "Real":
        """Another stage with the same brokers and proxies, and its own topics and draws."""
        return Real(self.kafka, self._proxies, seed)

    @property
    def cuts(self) -> int:
        return sum(proxy.cuts for proxy in self._proxies)

    async def kill(self, node: int, seconds: float) -> None:
        await asyncio.to_thread(self.kafka.kill, node)
        await asyncio.sleep(min(seconds, 5))
        await asyncio.to_thread(self.kafka.start, node)

    async def kill_for_long(self, node: int, seconds: float) -> None:
        """Send SIGKILL; restart after the whole time."""
        await asyncio.to_thread(self.kafka.kill, node)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.kafka.start, node)

    async def outage(self, node: int, seconds: float) -> None:
        """Send SIGKILL to every broker: no coordinator responds until they restart."""
        nodes = self.kafka.node_ids
        await asyncio.gather(*(asyncio.to_thread(self.kafka.kill, each) for each in nodes))
        await asyncio.sleep(seconds)
        await asyncio.gather(*(asyncio.to_thread(self.kafka.start, each) for each in nodes))

    async def freeze_all(self, node: int, seconds: float) -> None:
        """Send SIGSTOP to every broker: all connections stay open without responses."""
        for each in self.kafka.node_ids:
            self.kafka.pause(each)
        try:
            await asyncio.sleep(seconds)
        finally:
            for each in self.kafka.node_ids:
                self.kafka.resume(each)

    async def restart(self, node: int, seconds: float) -> None:
        await asyncio.to_thread(self.kafka.stop, node)
        await asyncio.to_thread(self.kafka.start, node)

    async def upgrade_all(self, version: str, between: float) -> None:
        """Restart the brokers with another release, one after the other.

        Args:
            version: The release.
            between: Seconds between two brokers.
        """
        for node in self.kafka.node_ids:
            await asyncio.to_thread(self.kafka.upgrade, node, version)
            await asyncio.sleep(between)

    async def freeze(self, node: int, seconds: float) -> None:
        self.kafka.pause(node)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.kafka.resume(node)

    async def lead_elsewhere(self, node: int, seconds: float) -> None:
        """Turn the replicas of half of the partitions round, and elect the preferred leaders."""
        await self._turn(self.topics)

    async def move_coordinator(self, node: int, seconds: float) -> None:
        """Move group coordinators by moving leaders of the offsets topic."""
        await self._turn(["__consumer_offsets"])

    async def move_coordinators(self, node: int, seconds: float) -> None:
        """Of transactions, too."""
        await self._turn(["__consumer_offsets", "__transaction_state"])

    async def _turn(self, names: Sequence[str]) -> None:
        async with self._operator() as operator:
            topics = []
            for name in names:
                partitions = await operator.partitions_of(name, self._deadline())
                chosen = self._random.sample(sorted(partitions), (len(partitions) + 1) // 2)
                turned = [
                    ReassignablePartition(p, [*replicas[1:], replicas[0]])
                    for p in chosen
                    if (replicas := list(partitions[p].replicas))
                ]
                topics.append(ReassignableTopic(name, turned))
            await self._command(
                operator, AlterPartitionReassignmentsRequest(topics=topics), "responses"
            )
            await self._command(operator, ElectLeadersRequest(topic_partitions=None), "")

    async def grow(self, node: int, seconds: float) -> None:
        async with self._operator() as operator:
            name = self._random.choice(self.topics)
            count = len(await operator.partitions_of(name, self._deadline())) + 1
            if count <= MOST_PARTITIONS:
                request = CreatePartitionsRequest(
                    [CreatePartitionsTopic(name, count, None)], 20_000
                )
                await self._command(operator, request, "results")

    async def cut(self, node: int, seconds: float) -> None:
        ends = asyncio.get_running_loop().time() + seconds
        while (left := ends - asyncio.get_running_loop().time()) > 0:
            for proxy in self._proxies:
                proxy.cut_all_within(self._random.choice(CUT_WITHIN))
            await asyncio.sleep(min(left, self._random.uniform(0.2, 2)))

    async def delay(self, node: int, seconds: float) -> None:
        for proxy in self._proxies:
            proxy.delay, proxy.delayed_share = self.overdue, 0.1
        try:
            await asyncio.sleep(seconds)
        finally:
            for proxy in self._proxies:
                proxy.delayed_share = 0.0

    async def stall(self, node: int, seconds: float) -> None:
        self._proxies[node].stall()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._proxies[node].flow()

    @asynccontextmanager
    async def _operator(self) -> AsyncIterator[Cluster]:
        """A connection for commands; it goes through the proxies, too."""
        options = ConnectionOptions(client_id="operator", request_timeout=10)
        operator = Cluster(self.bootstrap_servers, options)
        try:
            await operator.start(self._deadline())
            yield operator
        finally:
            await operator.close(asyncio.get_running_loop().time() + 1)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + OPERATOR_TIMEOUT

    async def _command(self, operator: Cluster, request: object, results: str) -> None:
        def check(response: Response) -> None:
            found = [response]
            found += getattr(response, results, []) if results else []
            for each in found:
                if code := getattr(each, "error_code", 0):
                    raise for_code(code)(str(getattr(each, "error_message", "")))

        await call(operator, request, CONTROLLER, self._deadline(), check=check)  # type: ignore[arg-type, type-var]  # one of three


@asynccontextmanager
async def real_stage(
    seed: int,
    config: Mapping[str, object] = DURABLE,
    *,
    heap: str = "400m",
    version: str = NEWEST,
) -> AsyncIterator[Real]:
    """Three real brokers behind three proxies."""
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(Proxy(port, seed * 10 + port % 3))
            for port in free_ports(3)
        ]
        kafka = KafkaCluster(
            version,
            nodes=3,
            config=config,
            heap=heap,
            advertised_ports=[proxy.port for proxy in proxies],
        )
        await asyncio.to_thread(kafka.__enter__)
        stack.callback(kafka.close)
        for node, proxy in enumerate(proxies):
            proxy.target = kafka.address(node)
        yield Real(kafka, proxies, seed)


class Embedded:
    """Brokers in this process; a tenth of a second stands for one.

    Args:
        cluster: Running, with three brokers.
        seed: Of what a fault chooses.
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
