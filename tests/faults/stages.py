"""The cluster of a chaos run: three real brokers behind proxies."""

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka_lite import AIOKafkaAdminClient, TopicPartition
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
from tests.faults import clock_shift, small_disk
from tests.faults.clock_shift import WallClock
from tests.faults.peer_links import PeerLinks
from tests.faults.proxy import Proxy
from tests.faults.small_disk import SmallDisk
from tools.kafka import NEWEST, BrokerFailed, KafkaCluster
from tools.kafka.broker import free_ports

__all__ = ["MOST_PARTITIONS", "Hardware", "Real", "Watch", "real_stage"]

MOST_PARTITIONS = 12
STARTS = 3  # attempts to start a broker
OPERATOR_TIMEOUT = 30.0  # seconds that an operator's command may take
DURABLE = {"min.insync.replicas": 2}
JUMPS = (-600.0, -90.0, -20.0, 20.0, 90.0, 600.0)  # seconds that a wall clock jumps
FULL_AT_LEAST = 6.0  # seconds: a broker writes its checkpoints every 5 s
CUT_WITHIN = (100, 2_000, 50_000)  # bytes: in a header, in a batch, in one of the next requests


Watch = Callable[[int, int, int], None]
"""Takes the node of a fault, or -1 for any, and when it began and ended (monotonic ns)."""


@dataclass
class Hardware:
    """The hardware of the brokers, as far as it can fail.

    Attributes:
        links: The connections between brokers; None: they connect to each other directly.
        clocks: The wall clock of each broker.
        clients_clock: The wall clock of the clients that use its environment.
        disks: By node, the disk of half of its logs.
    """

    links: PeerLinks | None = None
    clocks: list[WallClock] = field(default_factory=list)
    clients_clock: WallClock | None = None
    disks: dict[int, SmallDisk] = field(default_factory=dict)

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults that it offers."""
        found: tuple[str, ...] = ()
        if self.links is not None:
            found += ("isolate",)
        if self.clocks:
            found += ("jump_broker", "jump_clients")
        if self.disks:
            found += ("fill_disk",)
        return found


class Real:
    """Three real brokers; clients come through a proxy for each.

    Args:
        kafka: Running, and advertising the proxies.
        proxies: One per node; none if the network has no faults.
        seed: The seed of the faults' choices.
        hardware: The brokers' hardware.

    Attributes:
        topics: The topics to which faults add partitions, and whose leaders they move.
        watches: Called with each fault that ended, by stages that report them.
        bootstrap_servers: The proxies, or the brokers if there are none.
        overdue: Seconds that outlast the client's request timeout.
        closes_ports: True if the proxy of a broker that is down refuses connections; otherwise it
            accepts and resets them.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        proxies: Sequence[Proxy],
        seed: int,
        hardware: Hardware | None = None,
    ) -> None:
        self.kafka = kafka
        self.hardware = hardware or Hardware()
        self.topics: list[str] = []
        self.watches: list[Watch] = []
        self.overdue = 4.0
        self.closes_ports = False
        addresses = [f"127.0.0.1:{proxy.port}" for proxy in proxies]
        self.bootstrap_servers = ",".join(addresses) or kafka.bootstrap_servers
        self._proxies = proxies
        self._random = random.Random(seed)

    def beside(self, seed: int) -> "Real":
        """Another stage with the same brokers and proxies, and its own topics and draws."""
        return Real(self.kafka, self._proxies, seed, self.hardware)

    @property
    def cuts(self) -> int:
        return sum(proxy.cuts for proxy in self._proxies)

    async def kill(self, node: int, seconds: float) -> None:
        await self.kill_for_long(node, min(seconds, 5))

    async def kill_for_long(self, node: int, seconds: float) -> None:
        """Send SIGKILL; restart after the whole time."""
        await self._down(node, self.kafka.kill)
        await asyncio.sleep(seconds)
        await self._up(node)

    async def outage(self, node: int, seconds: float) -> None:
        """Send SIGKILL to every broker: no coordinator responds until they restart."""
        nodes = self.kafka.node_ids
        await asyncio.gather(*(self._down(each, self.kafka.kill) for each in nodes))
        await asyncio.sleep(seconds)
        await asyncio.gather(*(self._up(each) for each in nodes))

    async def _down(self, node: int, end: Callable[[int], None]) -> None:
        """End a broker, whose port is closed then, if `closes_ports`."""
        await asyncio.to_thread(end, node)
        if self.closes_ports:
            self._proxies[node].refuse()

    async def _up(self, node: int) -> None:
        """Start a broker; try again if it did not answer in time on a busy machine."""
        for _ in range(STARTS - 1):
            try:
                await asyncio.to_thread(self.kafka.start, node)
            except BrokerFailed:
                await asyncio.to_thread(self.kafka.kill, node)
            else:
                break
        else:
            await asyncio.to_thread(self.kafka.start, node)
        if self.closes_ports:
            await self._proxies[node].listen()

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
        await self._down(node, self.kafka.stop)
        await self._up(node)

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
        """Reverse the replicas of half of the partitions, and elect the preferred leaders."""
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

    async def reassign(self, node: int, seconds: float) -> None:
        """Take a node's replicas of half of the partitions away, and copy them to it again.

        Partitions that lack a replica since an earlier reassignment was cut short get it now.
        """
        async with AIOKafkaAdminClient(
            bootstrap_servers=self.bootstrap_servers, request_timeout_ms=10_000
        ) as admin:
            whole: dict[TopicPartition, list[int]] = {}
            for topic in await admin.describe_topics(self.topics):
                for partition in topic["partitions"]:
                    place = TopicPartition(topic["topic"], partition["partition"])
                    replicas = list(partition["replicas"])
                    missing = [each for each in self.kafka.node_ids if each not in replicas]
                    if missing or self._random.random() < 0.5:
                        whole[place] = replicas + missing
            fewer = {
                place: [each for each in replicas if each != node]
                for place, replicas in whole.items()
            }
            try:
                await self._reassign(admin, fewer)
                await asyncio.sleep(seconds / 2)
            finally:
                # The node comes last: other brokers lead those partitions from now on.
                turned = {place: [*replicas, node] for place, replicas in fewer.items()}
                await self._reassign(admin, turned)

    async def _reassign(
        self, admin: AIOKafkaAdminClient, replicas: Mapping[TopicPartition, list[int]]
    ) -> None:
        """Reassign, and wait until the copies are there, or for `OPERATOR_TIMEOUT`."""
        (await admin.alter_partition_reassignments(replicas)).raise_for_errors()
        deadline = self._deadline()
        while await admin.list_partition_reassignments(list(replicas)):
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.2)

    async def isolate(self, node: int, seconds: float) -> None:
        """Drop all bytes between a broker and clients or its peers; connections stay open."""
        links = self.hardware.links
        assert links is not None
        links.drop(node)
        self._proxies[node].drop()
        try:
            await asyncio.sleep(seconds)
        finally:
            await self._proxies[node].listen()
            await links.listen(node)

    async def jump_broker(self, node: int, seconds: float) -> None:
        """Let the wall clock of a broker jump, and later jump back."""
        await self._jump(self.hardware.clocks[node], seconds)

    async def jump_clients(self, node: int, seconds: float) -> None:
        """Let the wall clock of all clients jump, and later jump back."""
        assert self.hardware.clients_clock is not None
        await self._jump(self.hardware.clients_clock, seconds)

    async def _jump(self, clock: WallClock, seconds: float) -> None:
        clock.jump_to(self._random.choice(JUMPS))
        try:
            await asyncio.sleep(seconds)
        finally:
            clock.jump_to(0.0)

    async def fill_disk(self, node: int, seconds: float) -> None:
        """Let a disk of a broker be full; free it later, and restart the broker.

        The broker takes the disk offline at its first failed write, and other brokers lead its
        partitions. It checks the disk again when it starts.
        """
        disk = self.hardware.disks[node]
        disk.fill()
        try:
            await asyncio.sleep(max(seconds, FULL_AT_LEAST))
        finally:
            disk.empty()
            await self.restart(node, 0.0)

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

    def cut_now(self) -> None:
        """Reset all connections of clients."""
        for proxy in self._proxies:
            proxy.cut_all()

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
    failing_hardware: bool = False,
) -> AsyncIterator[Real]:
    """Three real brokers behind three proxies.

    Args:
        failing_hardware: Their links, clocks and disks can fail, too, as far as this machine
            allows: a small disk needs root.
    """
    async with AsyncExitStack() as stack:
        proxies = [
            await stack.enter_async_context(Proxy(port, seed * 10 + port % 3))
            for port in free_ports(3)
        ]
        hardware = await _hardware(stack) if failing_hardware else Hardware()
        kafka = KafkaCluster(
            version,
            nodes=3,
            config=config,
            heap=heap,
            advertised_ports=[proxy.port for proxy in proxies],
            peer_ports=hardware.links.ports if hardware.links else None,
            environments=[clock.environment for clock in hardware.clocks],
            more_data={node: disk.folder for node, disk in hardware.disks.items()},
        )
        await asyncio.to_thread(kafka.__enter__)
        stack.callback(kafka.close)
        for node, proxy in enumerate(proxies):
            proxy.target = kafka.address(node)
        yield Real(kafka, proxies, seed, hardware)


async def _hardware(stack: AsyncExitStack) -> Hardware:
    """The hardware that can fail on this machine."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hardware-")))
    hardware = Hardware(await stack.enter_async_context(PeerLinks(3)))
    if clock_shift.missing() is None:
        hardware.clocks = [WallClock(folder / f"clock-{node}") for node in range(3)]
        hardware.clients_clock = WallClock(folder / "clock-clients")
    if small_disk.missing() is None:
        for node in range(3):
            (folder / f"disk-{node}").mkdir()
            disk = SmallDisk(folder / f"disk-{node}")
            hardware.disks[node] = stack.enter_context(disk)
    return hardware
