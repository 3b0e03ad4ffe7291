"""Any sequence of events of members: no partition has two owners, and all become stable.

The embedded broker is the reference: it agrees with a real Kafka on such sequences.
"""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokafka_lite.group.consumer.machine import MemberState
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from tests.unit.group.modern_crew import Crew, Member
from tests.unit.testing.raw import SocketlessBroker

TOPICS = {"one": 1, "four": 4, "six": 6}
SUBSCRIPTIONS = st.lists(st.sampled_from(sorted(TOPICS)), unique=True, min_size=1)
PATTERNS = st.sampled_from(["four|six", "o.*", "[fs].*"])
PASSING = (14, 15, 16, 25, 29, 110)  # errors from which the member recovers by itself
LASTING = (30, 42, 81, 112, 128)
MOST = 5


class Group(RuleBasedStateMachine):
    """Members join, leave, lose connections, and have slow listeners; then all faults end."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = SocketlessBroker(2)
        self.crew = Crew(self.broker, **TOPICS)
        self.crew.random = Random(3)
        self.time = 0.0

    @property
    def alive(self) -> list[Member]:
        return [one for one in self.crew.members if not one.dead and not one.machine.closed]

    def one(self, data: st.DataObject) -> Member:
        return data.draw(st.sampled_from(self.alive))

    @precondition(lambda self: len(self.alive) < MOST)
    @rule(topics=SUBSCRIPTIONS, version=st.sampled_from([0, 1]), static=st.booleans())
    def join(self, topics: list[str], version: int, static: bool) -> None:
        taken = {one.machine.options.group_instance_id for one in self.alive}
        free = sorted({"i", "j"} - taken) if static else []
        self.crew.member(
            *topics,
            version=version,
            group_instance_id=free[0] if free else None,
            rebalance_timeout=30.0,
            max_poll_interval=40.0,
        )

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), topics=SUBSCRIPTIONS)
    def subscribe(self, data: st.DataObject, topics: list[str]) -> None:
        member = self.one(data)
        if not member.closing:
            member.subscribe(*topics)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), pattern=PATTERNS)
    def subscribe_by_pattern(self, data: st.DataObject, pattern: str) -> None:
        member = self.one(data)
        if member.version and not member.closing:
            member.subscribe(pattern=pattern)

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), waiting=st.booleans())
    def poll(self, data: st.DataObject, waiting: bool) -> None:
        self.one(data).poll(waiting=waiting)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.one(data).leave()

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), stay=st.sampled_from([None, True, False]))
    def close(self, data: st.DataObject, stay: bool | None) -> None:
        self.one(data).close(stay)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        self.one(data).die()

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), request=st.booleans(), cut=st.booleans())
    def cut(self, data: st.DataObject, request: bool, cut: bool) -> None:
        member = self.one(data)
        if request:
            member.lose_request = cut
        else:
            member.lose_answer = cut

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), seconds=st.sampled_from([0.0, 0.3, 7.0, 40.0]))
    def listen_slowly(self, data: st.DataObject, seconds: float) -> None:
        self.one(data).listener = seconds

    @rule(code=st.sampled_from(PASSING + LASTING))
    def refuse(self, code: int) -> None:
        self.broker.fail_next(ApiKey.CONSUMER_GROUP_HEARTBEAT, code)

    @rule(node=st.sampled_from([0, 1]))
    def move_coordinator(self, node: int) -> None:
        self.broker.state.coordinators.move(CoordinatorType.GROUP, "g", node)

    @rule(name=st.sampled_from(sorted(TOPICS)))
    def make_topic_anew(self, name: str) -> None:
        self.broker.state.delete_topic(name)
        self.broker.state.create_topic(name, TOPICS[name])

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 50.0]))
    def wait(self, seconds: float) -> None:
        self.time += seconds
        self.crew.run(seconds)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        self.crew.check()

    @invariant()
    def one_listener_at_a_time_and_one_heartbeat(self) -> None:
        for member in self.crew.members:
            assert member.most_listeners <= 1
            assert member.most_in_flight <= 1

    def teardown(self) -> None:
        """End all faults: then every partition is assigned once."""
        self.broker.control.faults.clear()
        for member in self.alive:
            member.lose_request = member.lose_answer = False
            member.listener = 0.0
            member.poll(waiting=True)
        self.crew.run(120)
        for member in self.alive:
            member.retry()
        self.crew.run(90)
        wanted = set()
        for member in self.alive:
            assert member.state in (MemberState.STABLE, MemberState.UNSUBSCRIBED), member.machine
            if member.state is MemberState.STABLE:
                wanted |= self.wanted_by(member)
        held = [tp for member in self.alive for tp in member.held]
        assert len(held) == len(set(held))
        assert {(tp.topic, tp.partition) for tp in held} == wanted
        self.no_storm()
        for member in self.alive:
            member.close()
        self.crew.run(10)
        assert not self.alive

    def wanted_by(self, member: Member) -> set[tuple[str, int]]:
        names = member.topics if member.pattern is None else member.matching(TOPICS)
        return {(name, number) for name in names for number in range(TOPICS[name])}

    def no_storm(self) -> None:
        """A stable member heartbeats at the interval, and does nothing else."""
        before = {member: (len(member.sent), len(member.log)) for member in self.alive}
        self.crew.run(50)
        for member, (sent, log) in before.items():
            assert len(member.log) == log
            assert len(member.sent) - sent <= 11


Group.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestGroup = Group.TestCase
