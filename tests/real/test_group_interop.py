"""Groups with members of this package, aiokafka and Java, in both protocols and in migration."""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import ModuleType
from typing import Any

import pytest

import aiokafka_lite
from aiokafka_lite import AIOKafkaProducer, TopicPartition
from aiokafka_lite.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyPartitionAssignor,
)
from tests.conftest import TopicFactory
from tools.kafka import RealKafka
from tools.kafka.java import run
from tools.kafka.releases import FALLBACK

PARTITIONS = 6
EACH = 20  # records per partition
SETTLES_IN = 40.0  # seconds
SESSION_MS = 30_000
"""Members leave with a request; none may lose its place because it was not scheduled."""
SESSION = f"session.timeout.ms={SESSION_MS}"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
STRATEGIES = {
    "range": ("range", "RangePartitionAssignor"),
    "roundrobin": ("roundrobin", "RoundRobinPartitionAssignor"),
    "sticky": ("sticky.sticky_assignor", "StickyPartitionAssignor"),
}
JAVAS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


def strategy_of(package: str, name: str) -> list[type[Any]]:
    module, found = STRATEGIES[name]
    assignors = pytest.importorskip(f"{package}.coordinator.assignors.{module}")
    return [getattr(assignors, found)]


def classic(name: str) -> dict[str, Any]:
    """This package's settings for the classic protocol."""
    if name == "cooperative-sticky":
        return {"partition_assignment_strategy": [CooperativeStickyPartitionAssignor]}
    return {"partition_assignment_strategy": strategy_of("aiokafka_lite", name)}


class Member:
    """A consumer that is read continuously.

    Attributes:
        seen: How often each value was read.
    """

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer
        self.seen: Counter[bytes] = Counter()
        self._reading: asyncio.Task[None] | None = None

    @property
    def held(self) -> set[int]:
        return {tp.partition for tp in self.consumer.assignment()}

    async def start(self) -> None:
        await self.consumer.start()
        self._reading = asyncio.create_task(self._read())

    async def stop(self) -> None:
        await self.consumer.stop()
        if self._reading is not None:
            await self._reading

    async def _read(self) -> None:
        async for record in self.consumer:
            self.seen[record.value] += 1


class Group:
    """A group on a topic and its members.

    Attributes:
        sent: All values so far.
        java: What Java's members printed.
    """

    def __init__(self, kafka: RealKafka, topic: str, producer: AIOKafkaProducer) -> None:
        self.name = f"group-{uuid.uuid4().hex[:8]}"
        self.sent: Counter[bytes] = Counter()
        self.members: list[Member] = []
        self.left: Counter[bytes] = Counter()
        self._kafka, self._topic, self._producer = kafka, topic, producer
        self._javas: list[asyncio.Task[list[str]]] = []

    async def join(self, package: ModuleType = aiokafka_lite, **settings: Any) -> Member:
        """Add a member, and read it continuously."""
        defaults: dict[str, Any] = {
            "bootstrap_servers": self._kafka.bootstrap_servers,
            "group_id": self.name,
            "auto_offset_reset": "earliest",
        }
        if "group_protocol" not in settings:
            defaults |= {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 200}
        member = Member(package.AIOKafkaConsumer(self._topic, **{**defaults, **settings}))
        self.members.append(member)
        await member.start()
        return member

    async def leave(self, member: Member) -> None:
        self.members.remove(member)
        await member.stop()
        self.left += member.seen

    def java(self, count: int, *properties: str) -> "asyncio.Task[list[str]]":
        """Java's console consumer, which leaves after this many records."""
        words = ["--bootstrap-server", self._kafka.bootstrap_servers, "--topic", self._topic]
        words += ["--group", self.name, "--max-messages", str(count), "--timeout-ms", "90000"]
        for each in ("auto.offset.reset=earliest", *properties):
            words += ["--command-property", each]
        # The newest release's own tools are not published.
        running = asyncio.to_thread(run, CONSOLE, words, FALLBACK, timeout=120)
        self._javas.append(asyncio.create_task(running))
        return self._javas[-1]

    async def send(self) -> None:
        """Send the same number of records to each partition."""
        for partition in range(PARTITIONS):
            first = self.sent.total()
            values = [b"%d" % number for number in range(first, first + EACH)]
            acks = await self._producer.send_many(self._topic, values, partition=partition)
            await asyncio.gather(*acks)
            self.sent.update(values)

    async def settled(self, *shares: int) -> None:
        """Wait until the members own this many partitions, none of them twice."""

        def settled() -> bool:
            held = [each.held for each in self.members]
            return sorted(map(len, held)) == sorted(shares) and len(set().union(*held)) == sum(
                shares
            )

        await self._until(settled, lambda: [each.held for each in self.members])

    async def all_read(self, *others: Counter[bytes]) -> None:
        """Wait until every record is read, and check that none was read twice."""

        def read() -> Counter[bytes]:
            total = self.left.copy()
            for each in (*others, *(member.seen for member in self.members)):
                total += each
            return total

        await self._until(lambda: read().keys() >= self.sent.keys(), lambda: self.sent - read())
        assert read() == self.sent

    async def close(self) -> None:
        """Stop all members. Java's consumers end when no more records arrive."""
        for member in list(self.members):
            await self.leave(member)
        await asyncio.gather(*self._javas, return_exceptions=True)

    async def java_has_committed(self, count: int) -> None:
        """Wait until the group's offsets cover this many records."""
        looker = aiokafka_lite.AIOKafkaConsumer(
            bootstrap_servers=self._kafka.bootstrap_servers, group_id=self.name
        )
        partitions = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        async with looker:
            looker.assign(partitions)
            loop = asyncio.get_running_loop()
            deadline = loop.time() + SETTLES_IN
            while sum([await looker.committed(tp) or 0 for tp in partitions]) < count:
                assert loop.time() < deadline, "Java's consumer commits nothing"
                await asyncio.sleep(0.1)

    async def _until(self, holds: Callable[[], bool], say: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLES_IN
        while not holds():
            assert loop.time() < deadline, f"not within {SETTLES_IN:.0f} s: {say()}"
            await asyncio.sleep(0.02)


@asynccontextmanager
async def grouped(kafka: RealKafka, topic: str) -> AsyncIterator[Group]:
    async with AsyncExitStack() as stack:
        servers = kafka.bootstrap_servers
        producer = await stack.enter_async_context(AIOKafkaProducer(bootstrap_servers=servers))
        group = Group(kafka, topic, producer)
        try:
            yield group
        finally:
            await group.close()


@pytest.mark.parametrize("ours_lead", [True, False], ids=["ours lead", "theirs lead"])
@pytest.mark.parametrize("name", STRATEGIES)
async def test_group_with_aiokafka(
    kafka: RealKafka, topic: TopicFactory, name: str, ours_lead: bool
) -> None:
    """Two members of each; then the leader leaves, and another member leads."""
    aiokafka = pytest.importorskip("aiokafka")
    ours = (aiokafka_lite, classic(name))
    theirs = (aiokafka, {"partition_assignment_strategy": strategy_of("aiokafka", name)})
    order = [ours, theirs, theirs, ours] if ours_lead else [theirs, ours, ours, theirs]
    async with grouped(kafka, topic(PARTITIONS)) as group:
        package, settings = order[0]
        first = await group.join(package, **settings)
        await group.send()
        await group.settled(6)
        for package, settings in order[1:]:
            await group.join(package, **settings)
        await group.settled(2, 2, 1, 1)
        await group.send()
        await group.all_read()
        await group.leave(first)
        await group.settled(2, 2, 2)
        await group.send()
        await group.all_read()


@pytest.mark.parametrize("java_leads", [False, True], ids=["ours leads", "Java leads"])
@pytest.mark.parametrize("name", JAVAS)
async def test_group_with_java(
    kafka: RealKafka, topic: TopicFactory, name: str, java_leads: bool
) -> None:
    """Each has half of the partitions; when the Java member has left, the other has all."""
    strategy = f"partition.assignment.strategy=org.apache.kafka.clients.consumer.{JAVAS[name]}"
    quick = (SESSION, "heartbeat.interval.ms=200", "auto.commit.interval.ms=200")
    async with grouped(kafka, topic(PARTITIONS)) as group:
        half = PARTITIONS // 2 * EACH
        if java_leads:
            await group.send()
            # It reads the first records of all partitions before the other member joins.
            java = group.java(PARTITIONS * EACH + half, strategy, *quick)
            await group.java_has_committed(PARTITIONS * EACH)
        else:
            java = group.java(half, strategy, *quick)
        await group.join(**classic(name))
        await group.settled(PARTITIONS // 2)
        await group.send()
        printed = Counter(line.encode() for line in await java)
        await group.settled(PARTITIONS)
        await group.send()
        await group.all_read(printed)


async def test_group_with_java_in_the_consumer_protocol(
    kafka: RealKafka, topic: TopicFactory
) -> None:
    async with grouped(kafka, topic(PARTITIONS)) as group:
        java = group.java(PARTITIONS // 2 * EACH, "group.protocol=consumer")
        await group.join(group_protocol="consumer")
        await group.settled(PARTITIONS // 2)
        await group.send()
        printed = Counter(line.encode() for line in await java)
        await group.settled(PARTITIONS)
        await group.send()
        await group.all_read(printed)


@pytest.mark.parametrize("name", ["range", "cooperative-sticky"])
async def test_group_migrates_between_protocols(
    kafka: RealKafka, topic: TopicFactory, name: str
) -> None:
    """Members migrate one by one while records flow; each record is read once."""
    modern = {"group_protocol": "consumer"}
    async with grouped(kafka, topic(PARTITIONS)) as group:
        old = [await group.join(**classic(name)), await group.join(**classic(name))]
        await group.settled(3, 3)
        for one in old:
            await group.send()
            await group.join(**modern)
            await group.settled(2, 2, 2)
            await group.send()
            await group.leave(one)
            await group.settled(3, 3)
        await group.send()
        await group.all_read()
        for one in list(group.members):
            await group.join(**classic(name))
            await group.settled(2, 2, 2)
            await group.send()
            await group.leave(one)
            await group.settled(3, 3)
        await group.send()
        await group.all_read()


@pytest.mark.parametrize("ours_is_modern", [True, False], ids=["ours modern", "Java modern"])
async def test_group_with_java_in_the_other_protocol(
    kafka: RealKafka, topic: TopicFactory, ours_is_modern: bool
) -> None:
    async with grouped(kafka, topic(PARTITIONS)) as group:
        if ours_is_modern:
            quick = (SESSION, "heartbeat.interval.ms=200")
            java = group.java(PARTITIONS // 2 * EACH, "group.protocol=classic", *quick)
            await group.join(group_protocol="consumer")
        else:
            java = group.java(PARTITIONS // 2 * EACH, "group.protocol=consumer")
            await group.join(**classic("range"))
        await group.settled(PARTITIONS // 2)
        await group.send()
        printed = Counter(line.encode() for line in await java)
        await group.settled(PARTITIONS)
        await group.send()
        await group.all_read(printed)
