"""Drives the classic machine in tests: an assignor, a driver without tasks, and a group of such
members with a socketless broker. Time is the broker's virtual clock."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from aiokafka_lite.errors import KafkaConnectionError, KafkaError
from aiokafka_lite.group.assignment_data import (
    Assignment,
    Subscription,
    read_assignment,
    read_subscription,
    subscribed_topics,
    write_assignment,
    write_subscription,
)
from aiokafka_lite.group.assignors.interface import LeadingAssignor
from aiokafka_lite.group.classic.machine import ClassicMembership, ClassicState
from aiokafka_lite.group.membership import (
    Assign,
    Elect,
    Fail,
    FindCoordinator,
    GroupMember,
    Lost,
    MembershipOptions,
    RebalanceProtocol,
    Revoke,
    Send,
    Step,
    TopicLayout,
)
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from tests.unit.testing.groups.members import Asked
from tests.unit.testing.raw import SocketlessBroker

EAGER = frozenset({RebalanceProtocol.EAGER})
COOPERATIVE = frozenset({RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER})

Layouts = Mapping[str, TopicLayout]


class Spread:
    """As balanced as possible. With COOPERATIVE, owners keep their partitions if they may, and a
    partition that has to move stays unassigned until its owner has revoked it."""

    def __init__(
        self, name: str = "spread", protocols: frozenset[RebalanceProtocol] = EAGER
    ) -> None:
        self.name = name
        self.rebalance_protocols: Collection[RebalanceProtocol] = protocols

    def subscription(
        self,
        topics: frozenset[str],
        owned: frozenset[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        return write_subscription(Subscription(tuple(topics), tuple(owned), generation, rack))

    def on_assignment(self, assignment: bytes, generation: int) -> Collection[TopicPartition]:
        return read_assignment(assignment).partitions

    def assign(self, members: Sequence[GroupMember], topics: Layouts) -> dict[str, bytes]:
        told = {each.member_id: read_subscription(each.subscription) for each in members}
        partitions = sorted(
            TopicPartition(name, number)
            for name, layout in topics.items()
            for number in range(layout.partitions)
            if any(name in each.topics for each in told.values())
        )
        owners = _owners(told) if self.rebalance_protocols == COOPERATIVE else {}
        shares: dict[str, list[TopicPartition]] = {member: [] for member in told}
        most = -(-len(partitions) // len(told))
        homeless = []
        for tp in partitions:
            owner = owners.get(tp)
            if owner and tp.topic in told[owner].topics and len(shares[owner]) < most:
                shares[owner].append(tp)
            else:
                homeless.append(tp)
        for tp in homeless:
            takers = [member for member, each in told.items() if tp.topic in each.topics]
            taker = min(takers, key=lambda member: (len(shares[member]), member))
            shares[taker].append(tp)
        return {
            member: write_assignment(
                Assignment(tuple(tp for tp in share if owners.get(tp) in (None, member)))
            )
            for member, share in shares.items()
        }


def _owners(told: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
    """Partitions by owner; of two claimants, the one of the later generation (KIP-792)."""
    owners: dict[TopicPartition, str] = {}
    for member, each in sorted(told.items(), key=lambda item: item[1].generation):
        owners.update(dict.fromkeys(each.owned, member))
    return owners


class Driver:
    """Carries out the steps of one machine at once, except listeners, which take `listener_time`.

    Attributes:
        steps: All requested steps.
        failures: The errors reported to the application.
        held: The partitions that the application may read.
        alive: False if it is not driven: after SIGKILL, or while its process is stopped.
        connected: True if requests reach the broker.
        heard_at: Loop time of the last request that the coordinator answered. A response that
            stayed unread while the process was stopped says nothing about the present.
    """

    def __init__(
        self,
        group: "DrivenGroup",
        *,
        topics: Iterable[str] = ("t",),
        protocols: frozenset[RebalanceProtocol] = EAGER,
        assignor: LeadingAssignor | None = None,
        version: Callable[[type], int] | None = None,
        **options: Any,
    ) -> None:
        self.group = group
        name = "cooperative" if protocols == COOPERATIVE else "spread"
        self.assignor = assignor or Spread(name, protocols)
        self.machine = ClassicMembership(MembershipOptions(group.name, **options), [self.assignor])
        self.version = version or (lambda request: int(request.max_version))
        self.steps: list[Step] = []
        self.failures: list[KafkaError] = []
        self.held: frozenset[TopicPartition] = frozenset()
        self.waiting: dict[str, Asked] = {}
        self.alive = True
        self.connected = True
        self.sent_at: dict[str, float] = {}
        self.heard_at = group.now
        self.closing = False
        self.listener_time = 0.0
        self.listener_done: tuple[float, Callable[[float], None]] | None = None
        group.drivers.append(self)
        self.machine.on_metadata(group.layouts, group.now)
        self.machine.on_subscription(frozenset(topics), group.now)

    @property
    def instance_id(self) -> str | None:
        return self.machine.options.group_instance_id

    @property
    def stable(self) -> bool:
        return self.machine.state is ClassicState.STABLE and not self.machine.rejoin_needed

    def told(self, *kinds: type[Step]) -> list[Step]:
        """The steps of these kinds so far."""
        return [step for step in self.steps if isinstance(step, kinds)]

    def sent(self, kind: str) -> list[Send]:
        return [step for step in self.steps if isinstance(step, Send) and step.kind == kind]

    def pump(self) -> bool:
        """Do what can be done now; return whether there was anything."""
        if not self.alive:
            return False
        now = self.group.now
        did = False
        for kind, asked in list(self.waiting.items()):
            if not self.connected:
                del self.waiting[kind]
                self.machine.on_error(kind, KafkaConnectionError("cut"), now)
                did = True
            elif (answer := asked.answer) is not None:
                del self.waiting[kind]
                self.heard_at = max(self.heard_at, self.sent_at[kind])
                self.machine.on_response(kind, answer, now)
                did = True
        if self.listener_done is not None and self.listener_done[0] <= now:
            through, self.listener_done = self.listener_done[1], None
            through(now)
            did = True
        while (step := self.machine.next_step(now)) is not None:
            did = True
            self.steps.append(step)
            self._begin(step, now)
        wakeup = self.machine.next_wakeup(now)
        assert wakeup is None or wakeup > now, "it would spin"
        return did

    def _begin(self, step: Step, now: float) -> None:
        machine, group = self.machine, self.group
        match step:
            case Send():
                self._check_request(step)
                if not self.connected:
                    machine.on_error(step.kind, KafkaConnectionError("cut"), now)
                    return
                self.sent_at[step.kind] = now
                version = self.version(step.request_class)
                request = step.request_for(version)
                self.waiting[step.kind] = Asked(group.broker, request, version, group.coordinator)
            case FindCoordinator():
                if self.connected:
                    group.broker.state.coordinators.node_of(CoordinatorType.GROUP, group.name)
                    machine.on_coordinator(now)
                else:
                    machine.on_error("FindCoordinator", KafkaConnectionError("cut"), now)
            case Revoke() | Lost():
                self.held -= step.partitions
                self._listen(machine.on_lost if isinstance(step, Lost) else machine.on_revoked)
            case Assign():
                assert step.all - step.added == self.held
                self.held = step.all
                self._listen(machine.on_assigned)
            case Elect():
                topics = subscribed_topics(member.subscription for member in step.members)
                shares = {} if step.skip else self.assignor.assign(step.members, group.layouts)
                machine.on_elected(shares, now, topics)
            case Fail():
                self.failures.append(step.error)

    def _check_request(self, step: Send) -> None:
        """Check for requests that must never be sent."""
        assert step.kind not in self.waiting, "two of a kind"
        eager = self.machine.rebalance_protocol is RebalanceProtocol.EAGER
        if step.kind == "JoinGroup":
            assert self.listener_done is None, "a listener is at work"
            assert not (eager and self.held), "eager members give everything back first"
            assert not self.waiting.keys() & {"SyncGroup", "LeaveGroup"}
        if step.kind == "SyncGroup":
            assert "JoinGroup" not in self.waiting
        if step.kind == "Heartbeat":
            assert not self.waiting.keys() & {"JoinGroup", "SyncGroup"}, "it would wait in line"
            assert self.machine.generation >= 0

    def _listen(self, through: Callable[[float], None]) -> None:
        assert self.listener_done is None, "one listener at a time"
        self.listener_done = (self.group.now + self.listener_time, through)

    def next_at(self) -> float | None:
        if not self.alive:
            return None
        times = [self.machine.next_wakeup(self.group.now)]
        if self.listener_done is not None:
            times.append(self.listener_done[0])
        return min((each for each in times if each is not None), default=None)

    def close(self, stay: bool | None = None) -> None:
        self.closing = True
        self.machine.close(self.group.now, stay)

    def cut(self) -> None:
        """Break its connection; pending requests may have been carried out."""
        self.connected = False
        self.pump()
        self.connected = True


class DrivenGroup:
    """Members of one group, their clock, and their invariants."""

    def __init__(self, partitions: int = 6, name: str = "g", **broker: Any) -> None:
        self.broker = SocketlessBroker(2, **broker)
        self.name = name
        self.layouts: dict[str, TopicLayout] = {"t": TopicLayout(partitions)}
        self.drivers: list[Driver] = []

    @property
    def now(self) -> float:
        return self.broker.clock.now_ms() / 1000

    @property
    def coordinator(self) -> int:
        coordinators = self.broker.state.coordinators
        return coordinators.node_of(CoordinatorType.GROUP, self.name).node_id

    def move_coordinator(self) -> None:
        node = 1 - self.coordinator
        self.broker.state.coordinators.move(CoordinatorType.GROUP, self.name, node)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self.layouts = {**self.layouts, topic: TopicLayout(partitions)}
        for driver in self.drivers:
            if driver.alive:
                driver.machine.on_metadata(self.layouts, self.now)

    def settle(self) -> None:
        """Everything that can happen at this instant."""
        for _ in range(200):
            busy = [driver for driver in self.drivers if driver.pump()]
            if not busy:
                self.check()
                return
        raise AssertionError("it goes on for ever at one instant")

    def run(self, seconds: float, step: float = 0.5) -> None:
        """Advance the clock, never past the next wakeup at once."""
        until = self.now + seconds
        self.settle()
        while self.now < until:
            times = [at for driver in self.drivers if (at := driver.next_at()) is not None]
            to = min([until, self.now + step, *times])
            self.broker.clock.advance(max(to - self.now, 0.001))
            self.settle()

    def run_until_stable(self, seconds: float = 60.0) -> None:
        """Wait until all are stable; raise AssertionError if they are not in that time."""
        until = self.now + seconds
        self.settle()
        while not self.stable:
            assert self.now < until, [driver.machine.state for driver in self.drivers]
            self.run(0.05)

    @property
    def alive(self) -> list[Driver]:
        return [driver for driver in self.drivers if driver.alive and not driver.machine.closed]

    @property
    def stable(self) -> bool:
        return all(driver.stable for driver in self.alive) and self.complete

    @property
    def complete(self) -> bool:
        """Check that each partition belongs to one member."""
        held = [tp for driver in self.alive for tp in driver.held]
        wanted = sum(layout.partitions for layout in self.layouts.values())
        return len(held) == wanted == len(set(held))

    def check(self) -> None:
        """Check that no two members in contact with the coordinator hold the same partition.

        As in Java, a member without a response for a whole session keeps its partitions: the first
        response tells it that it lost them. Of two members that share an instance id, the older one
        detects with its next heartbeat that it is fenced: Kafka has that gap, too.
        """
        owners: dict[TopicPartition, Driver] = {}
        for driver in self.drivers:
            # A SyncGroup restarts the session with its response, not on arrival, so the session may
            # have begun with the JoinGroup just before it.
            session = driver.machine.options.session_timeout - 1.0
            in_touch = driver.alive and self.now - driver.heard_at < session
            for tp in driver.held if in_touch else ():
                owner = owners.setdefault(tp, driver)
                same = owner.instance_id is not None and owner.instance_id == driver.instance_id
                assert owner is driver or same, f"two owners of {tp}"
