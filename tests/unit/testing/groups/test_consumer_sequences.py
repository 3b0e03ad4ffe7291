"""Any sequence of joins, leaves, subscriptions and reports: no partition has two owners."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.testing.groups.reporters import FakeReporter, group_of
from tests.unit.testing.raw import SocketlessBroker

TOPICS = {"one": 1, "four": 4, "six": 6}
NAMES = "abcde"
SUBSCRIPTIONS = st.lists(st.sampled_from(sorted(TOPICS)), unique=True)


class Group(RuleBasedStateMachine):
    """Members like real clients: they revoke partitions after a delay."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = SocketlessBroker()
        for name, count in TOPICS.items():
            self.broker.state.create_topic(name, count)
        self.members: dict[str, FakeReporter] = {}
        self.sessions = dict.fromkeys(NAMES, 0)

    @rule(name=st.sampled_from(NAMES), topics=SUBSCRIPTIONS, static=st.booleans())
    def join(self, name: str, topics: list[str], static: bool) -> None:
        if name in self.members:
            return
        self.sessions[name] += 1
        member = FakeReporter(
            self.broker,
            f"{name}{self.sessions[name]}",
            instance_id=name if static else None,
            subscribed_topic_names=topics,
            rebalance_timeout_ms=60_000,
        )
        assert member.join() == 0
        self.members[name] = member

    @precondition(lambda self: self.members)
    @rule(data=st.data(), topics=SUBSCRIPTIONS)
    def subscribe(self, data: st.DataObject, topics: list[str]) -> None:
        assert self._one(data).tell(subscribed_topic_names=topics) == 0

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        assert self._one(data).report() == 0

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def report_nothing(self, data: st.DataObject) -> None:
        assert self._one(data).tell() == 0

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def fail_and_rejoin(self, data: st.DataObject) -> None:
        member = self._one(data)
        if member.instance_id is None:
            assert member.join(subscribed_topic_names=["four"]) == 0

    @precondition(lambda self: self.members)
    @rule(data=st.data(), epoch=st.sampled_from([-1, -2]))
    def leave(self, data: st.DataObject, epoch: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.members)))
        member = self.members.pop(name)
        assert member.leave(epoch if member.instance_id else -1) == 0
        if member.instance_id and epoch == -2:  # only a member of that instance may follow
            again = FakeReporter(
                self.broker,
                f"{member.member_id}x",
                instance_id=name,
                subscribed_topic_names=[],
                rebalance_timeout_ms=60_000,
            )
            assert again.join() == 0
            self.members[name] = again

    @rule(seconds=st.sampled_from([0.1, 1.0, 9.0]))
    def pass_time(self, seconds: float) -> None:
        for member in self.members.values():
            assert member.report() == 0
        self.broker.clock.advance(seconds)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        if self.broker.state.groups.get("g") is None:
            return
        owners = Counter(
            (topic_id, number)
            for member in group_of(self.broker).members.values()
            for held in (member.assigned, member.revoking)
            for topic_id, numbers in held.items()
            for number in numbers
        )
        assert not owners or max(owners.values()) == 1
        told = Counter(
            (topic_id, number)
            for member in self.members.values()
            for topic_id, numbers in member.owned.items()
            for number in numbers
        )
        assert not told or max(told.values()) == 1

    def teardown(self) -> None:
        """At the end all members have their target assignment, and the target is balanced."""
        if not self.members:
            return
        group = group_of(self.broker)
        for _ in range(20):
            self.broker.clock.advance(1.0)
            for member in self.members.values():
                assert member.report() == 0
            if group.state == "Stable":
                break
        assert group.state == "Stable"
        read = group.subscribed_topics()
        assert sum(member.count for member in self.members.values()) == sum(
            TOPICS[name] for name in read
        )
        wanted = {one.member_id: group.members[one.member_id] for one in self.members.values()}
        for member in self.members.values():
            for topic_id in member.owned:
                name = group.topic_names()[topic_id]
                for other in self.members.values():
                    if name in wanted[other.member_id].subscribed_topics:
                        assert member.count - other.count <= 1

    def _one(self, data: st.DataObject) -> FakeReporter:
        return self.members[data.draw(st.sampled_from(sorted(self.members)))]


Group.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestGroup = Group.TestCase
