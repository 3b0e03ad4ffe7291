"""Members of either protocol that a `GroupDriver` drives, on any cluster, for the unit tests and
the tests with a real broker."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.assignors.interface import LeadingAssignor
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor
from aiokafka_lite.group.classic.machine import ClassicMembership
from aiokafka_lite.group.consumer.machine import ConsumerMembership
from aiokafka_lite.group.membership import Membership, MembershipOptions
from aiokafka_lite.group.membership_driver import GroupDriver
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.structs import TopicPartition

Partitions = frozenset[TopicPartition]

GUARD = 60.0
"""Maximum seconds of any wait."""


async def until(holds: Callable[[], bool], told: Callable[[], object] = lambda: "") -> None:
    """Wait until a condition holds."""
    try:
        async with asyncio.timeout(GUARD):
            while not holds():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not in time: {told()}") from None


class CrewMember:
    """A consumer without records: it owns a membership and records its events.

    Attributes:
        log: Its callbacks, in order.
        held: The partitions assigned and not revoked.
        failures: The errors of `on_fail`.
        mistakes: The exceptions that ended tasks.
        listener: Awaited in each callback, with its name.
    """

    def __init__(
        self,
        bootstrap: str,
        group_id: str,
        *,
        modern: bool = False,
        assignors: Sequence[LeadingAssignor] | None = None,
        new_assignor: Callable[[], LeadingAssignor] = RangeAssignor,
        connection: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        options.setdefault("session_timeout", 6.0)
        options.setdefault("heartbeat_interval", 0.2)
        self.cluster = Cluster(
            bootstrap, ConnectionOptions(**(connection or {})), retry_backoff=0.02
        )
        self.options = MembershipOptions(group_id, **options)
        self.log: list[tuple[str, Partitions]] = []
        self.held: Partitions = frozenset()
        self.failures: list[KafkaError] = []
        self.mistakes: list[BaseException] = []
        self.listener: Callable[[str], Any] | None = None
        self.changes = 0
        self.tasks = TaskOwner("crew", lambda name, error: self.mistakes.append(error))
        leading = [] if modern else list(assignors or [new_assignor()])
        membership: Membership = (
            ConsumerMembership(self.options) if modern else ClassicMembership(self.options, leading)
        )
        self.driver = GroupDriver(
            self.cluster,
            membership,
            self,
            options=self.options,
            assignors=leading,
            tasks=self.tasks,
            loop=asyncio.get_running_loop(),
        )
        self.topics: frozenset[str] = frozenset()
        self.stopped = False

    # as its driver's owner

    async def on_revoke(self, partitions: Partitions) -> None:
        await self._hear("revoke", partitions)
        self.held -= partitions

    async def on_lost(self, partitions: Partitions) -> None:
        await self._hear("lost", partitions)
        self.held -= partitions

    async def on_assign(self, added: Partitions, all: Partitions) -> None:
        assert self.held | added == all
        self._track()
        self.held = all
        await self._hear("assign", added)

    def on_fail(self, error: KafkaError) -> None:
        self.failures.append(error)

    def on_change(self) -> None:
        self.changes += 1
        self._track()

    async def _hear(self, what: str, partitions: Partitions) -> None:
        self.log.append((what, partitions))
        if self.listener is not None:
            await self.listener(what)

    # as a consumer

    @property
    def machine(self) -> Membership:
        return self.driver.membership

    @property
    def stable(self) -> bool:
        return self.machine.generation > 0 and not self.machine.rejoin_needed

    async def start(self, *topics: str, pattern: str | None = None) -> Self:
        await self.cluster.start()
        self.cluster.add_listener(self._on_metadata)
        self.driver.start()
        self.subscribe(*topics, pattern=pattern)
        return self

    def subscribe(self, *topics: str, pattern: str | None = None) -> None:
        self.topics = frozenset(topics)
        self._track()
        self.driver.subscribe(topics, pattern)

    def _track(self) -> None:
        if not self.cluster.closed:
            self.cluster.set_topics(self.topics | self.driver.watched_topics)

    def _on_metadata(self, metadata: Metadata) -> None:
        self.driver.on_metadata(metadata)

    async def stop(self, stay: bool | None = None, within: float = GUARD) -> None:
        deadline = asyncio.get_running_loop().time() + within
        await self.driver.close(deadline, stay)
        await self.die()

    async def die(self) -> None:
        """End without a request to the group."""
        if self.stopped:
            return
        self.stopped = True
        self.driver.abort()
        deadline = asyncio.get_running_loop().time() + GUARD
        stuck = await self.tasks.close(deadline)
        await self.cluster.close(deadline)
        assert not stuck
        assert not self.mistakes

    def __repr__(self) -> str:
        return f"{self.machine.state.name} {sorted(self.held)} {self.failures} {self.log[-3:]}"


class Crew:
    """The members of one group.

    Args:
        bootstrap: The cluster's address.
        group_id: The group.
        partitions: The number of partitions to share.
        options: The options of each member.
    """

    def __init__(
        self, bootstrap: str, group_id: str, topic: str, partitions: int, **options: Any
    ) -> None:
        self.bootstrap = bootstrap
        self.group_id = group_id
        self.topic = topic
        self.partitions = partitions
        self.options = options
        self.members: list[CrewMember] = []

    async def add(self, **options: Any) -> CrewMember:
        member = CrewMember(self.bootstrap, self.group_id, **{**self.options, **options})
        self.members.append(member)
        return await member.start(self.topic)

    @property
    def alive(self) -> list[CrewMember]:
        return [member for member in self.members if not member.stopped]

    @property
    def settled(self) -> bool:
        """True if all partitions are held, each once, roughly evenly."""
        held = [tp for member in self.alive for tp in member.held]
        counts = [len(member.held) for member in self.alive]
        return (
            all(member.stable for member in self.alive)
            and len(held) == len(set(held)) == self.partitions
            and max(counts) - min(counts) <= 1
        )

    async def until_settled(self) -> None:
        await until(lambda: self.settled, lambda: self.alive)

    async def end(self) -> None:
        for member in self.members:
            await member.die()
