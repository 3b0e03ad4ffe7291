"""Members of the consumer protocol driven in virtual time against the embedded broker.

A `Member` is a machine with a synchronous driver and an application that only records events.
Everything uses the broker's virtual clock, so thousands of seconds take no real time.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any
from uuid import UUID

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import KafkaConnectionError, KafkaError, UnsupportedVersionError, for_code
from aiokafka_lite.group.consumer.machine import ConsumerMembership, MemberState
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    Assign,
    Fail,
    FindCoordinator,
    Lost,
    MembershipOptions,
    Revoke,
    Send,
    Step,
    TopicLayout,
)
from aiokafka_lite.protocol.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing.clock import Timer
from tests.unit.testing.raw import SocketlessBroker

LOSING = {MemberState.FENCED, MemberState.FATAL, MemberState.LEAVING, MemberState.STALE}
LATENCY = 0.004  # seconds, one way
STEPS_AT_ONCE = 50  # more than that at one instant is an endless loop


def options(**fields: Any) -> MembershipOptions:
    """A member's options, with deterministic backoffs."""
    fields = {"group_id": "g", "retry_backoff": Backoff(0.1, 1.0, jitter=0.0), **fields}
    return MembershipOptions(**fields)


def tps(topic: str, *partitions: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, partition) for partition in partitions)


class Member:
    """A machine, its driver, its application.

    Args:
        broker: The group's broker.
        random: The source of its id.
        version: The maximum version of its heartbeats.
        fields: Fields of its options.
    """

    def __init__(
        self, broker: SocketlessBroker, random: Random, version: int = 1, **fields: Any
    ) -> None:
        self.broker = broker
        self.version = version
        self.machine = ConsumerMembership(options(**fields), lambda: _uuid(random))
        self.listener = 0.0  # seconds that each listener takes
        self.log: list[Step] = []  # all but Send and FindCoordinator
        self.sent: list[Any] = []
        self.failures: list[KafkaError] = []
        self.ids: dict[TopicPartition, UUID] = {}  # of the topics that it holds
        self.topics: tuple[str, ...] = ()
        self.pattern: str | None = None
        self.listeners = self.most_listeners = 0  # running now, and at most so far
        self.in_flight = self.most_in_flight = 0
        self.lose_request = self.lose_answer = False  # for as long as they are set
        self.dead = False
        self.closing = False
        self.node = 0
        self.names: dict[str, TopicLayout] | None = None  # None: the broker's topics
        self._wakeup: Timer | None = None
        self._pumping = False

    @property
    def now(self) -> float:
        return self.broker.clock.now_ms() / 1000

    @property
    def held(self) -> frozenset[TopicPartition]:
        return self.machine.assignment

    @property
    def state(self) -> MemberState:
        return self.machine.state

    @property
    def is_member(self) -> bool:
        """True if the coordinator has it as a member."""
        group = self.broker.state.groups.get(self.machine.options.group_id)
        return group is not None and self.machine.member_id in getattr(group, "members", {})

    def kinds(self) -> list[str]:
        """The calls of the application's listener, in short form."""
        return [type(step).__name__ for step in self.log]

    def subscribe(self, *topics: str, pattern: str | None = None) -> "Member":
        self.topics, self.pattern = topics, pattern
        self.machine.on_subscription(topics, self.now, pattern=pattern)
        return self.pump()

    def matching(self, names: Iterable[str]) -> list[str]:
        """The topics that its pattern matches."""
        return [name for name in names if self.pattern and re.fullmatch(self.pattern, name)]

    def poll(self, *, waiting: bool = False) -> None:
        self.machine.on_poll(self.now, waiting=waiting)
        self.pump()

    def retry(self) -> None:
        self.machine.retry(self.now)
        self.pump()

    def leave(self) -> None:
        self.machine.leave("a test says so", self.now)
        self.pump()

    def close(self, stay: bool | None = None) -> None:
        self.closing = True
        self.machine.close(self.now, stay)
        self.pump()

    def die(self) -> None:
        """End without a request."""
        self.dead = True
        if self._wakeup is not None:
            self._wakeup.cancel()

    def pump(self) -> "Member":
        """Carry out the machine's current steps."""
        if self._pumping or self.dead:
            return self
        self._pumping = True
        try:
            for _ in range(STEPS_AT_ONCE):
                step = self.machine.next_step(self.now)
                if step is None:
                    break
                self._begin(step)
            else:
                raise AssertionError(f"{self.machine!r} does not come to rest: {self.log[-3:]}")
            if self.machine.unresolved_topic_ids:
                self.later(0.05, self._tell_metadata)
            self._sleep()
        finally:
            self._pumping = False
        return self

    def later(self, delay: float, call: Callable[[], None]) -> None:
        def run() -> None:
            if not self.dead:
                call()
                self.pump()

        self.broker.clock.call_later(delay, run)

    def _sleep(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        at = self.machine.next_wakeup(self.now)
        if at is not None:
            # A millisecond late rather than early, because the clock rounds.
            self._wakeup = self.broker.clock.call_later(max(at - self.now, 0.0) + 0.001, self._wake)

    def _wake(self) -> None:
        self._wakeup = None
        self.pump()

    def _begin(self, step: Step) -> None:
        match step:
            case Send():
                self._send(step)
            case FindCoordinator():
                self.later(LATENCY, self._find)
            case Fail(error):
                self.log.append(step)
                self.failures.append(error)
            case Revoke():
                self.log.append(step)
                self._listen(self.machine.on_revoked)
            case Lost():
                self.log.append(step)
                self._listen(self.machine.on_lost)
            case Assign():
                self.log.append(step)
                assert step.all == self.machine.assignment
                change = self.machine._parts._change
                assert change is not None
                self.ids = {tp: topic_id for (topic_id, _), tp in change.names.items()}
                self._listen(self.machine.on_assigned)
            case _:
                raise AssertionError(f"unexpected {step}")

    def _listen(self, through: Callable[[float], None]) -> None:
        self.listeners += 1
        self.most_listeners = max(self.most_listeners, self.listeners)

        def end() -> None:
            self.listeners -= 1
            through(self.now)

        self.later(self.listener, end)

    def _send(self, send: Send) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self.version < send.oldest:
            error = UnsupportedVersionError("the broker is too old")
            self.later(0.0, lambda: self._fail(send.kind, error))
            return
        request = send.request_for(self.version)
        self.sent.append(request)
        node = self.node

        def arrive() -> None:
            if self.lose_request:
                self.later(1.0, lost)
                return
            response = self.broker.ask(request, self.version, node)
            if self.lose_answer:
                self.later(1.0, lost)
            else:
                self.later(LATENCY, lambda: answered(response))

        def answered(response: Any) -> None:
            self.in_flight -= 1
            self.machine.on_response(send.kind, response, self.now)

        def lost() -> None:
            self._fail(send.kind, KafkaConnectionError("cut"))

        self.broker.clock.call_later(LATENCY, arrive)

    def _fail(self, kind: str, error: KafkaError) -> None:
        self.in_flight -= 1
        self.machine.on_error(kind, error, self.now)

    def _find(self) -> None:
        group_id = self.machine.options.group_id
        if self.lose_request or self.lose_answer:
            error: KafkaError = KafkaConnectionError("cut")
            self.machine.on_error(FIND_COORDINATOR, error, self.now)
            return
        request = FindCoordinatorRequest(coordinator_keys=[group_id])
        (found,) = self.broker.ask(request, 4).coordinators
        if found.error_code:
            error = for_code(found.error_code)(found.error_message or "")
            self.machine.on_error(FIND_COORDINATOR, error, self.now)
        else:
            self.node = found.node_id
            self.machine.on_coordinator(self.now)

    def _tell_metadata(self) -> None:
        names = self.names
        if names is None:
            names = {
                name: TopicLayout(len(topic.partitions), topic_id=topic.topic_id)
                for name, topic in self.broker.state.topics.items()
            }
        self.machine.on_metadata(names, self.now)


def _uuid(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)


class Crew:
    """Some members of one group, and checks of their ownership."""

    def __init__(self, broker: SocketlessBroker, **topics: int) -> None:
        self.broker = broker
        self.random = Random(1)
        self.members: list[Member] = []
        for name, count in topics.items():
            broker.state.create_topic(name, count)

    def member(self, *topics: str, **fields: Any) -> Member:
        """Add a member, which subscribes at once if there are topics."""
        member = Member(self.broker, self.random, **fields)
        self.members.append(member)
        if topics:
            member.subscribe(*topics)
        return member

    def run(self, seconds: float, step: float = 0.25) -> None:
        """Advance the clock, and check that no partition has two owners."""
        for _ in range(max(round(seconds / step), 1)):
            self.broker.clock.advance(step)
            self.check()

    def check(self) -> None:
        """Check that no two of the coordinator's members hold the same partition."""
        # By id: a recreated topic has the same name.
        owners: Counter[tuple[UUID, TopicPartition]] = Counter()
        for member in self.members:
            # Lost partitions, and those about to be lost, no longer count as owned.
            if not member.dead and member.is_member and member.state not in LOSING:
                owners.update((member.ids[tp], tp) for tp in member.held)
        assert not [key for key, count in owners.items() if count > 1]

    def held(self) -> list[int]:
        """The number of partitions of each live member."""
        return sorted(len(member.held) for member in self.members if not member.dead)
