"""Several classic members in one group on the embedded broker, in virtual time."""

from random import Random

import pytest

from aiokafka_lite.errors import FencedInstanceIdError, InvalidSessionTimeoutError
from aiokafka_lite.group.assignors.cooperative_sticky_assignor import CooperativeStickyAssignor
from aiokafka_lite.group.assignors.interface import LeadingAssignor
from aiokafka_lite.group.assignors.range_assignor import RangeAssignor
from aiokafka_lite.group.assignors.roundrobin_assignor import RoundRobinAssignor
from aiokafka_lite.group.assignors.sticky_assignment import StickyAssignor
from aiokafka_lite.group.classic.machine import ClassicState
from aiokafka_lite.group.membership import Assign, Lost, RebalanceProtocol, Revoke, TopicLayout
from aiokafka_lite.structs import TopicPartition
from tests.seeds import seeds
from tests.unit.group.classic_drive import COOPERATIVE, EAGER, DrivenGroup, Driver

both = pytest.mark.parametrize("protocols", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
T = [TopicPartition("t", number) for number in range(6)]


def test_one_member_gets_everything() -> None:
    group = DrivenGroup()
    member = Driver(group)
    group.run_until_stable()
    assert member.told(Revoke, Lost, Assign) == [
        Revoke(frozenset()),  # a newcomer's listener is called too, as in aiokafka
        Assign(frozenset(T), frozenset(T)),
    ]
    assert [step.kind for step in member.sent("JoinGroup")] == ["JoinGroup"] * 2  # KIP-394
    assert member.machine.counters.rebalances == 1
    assert member.machine.counters.failed_rebalances == 0


@both
def test_members_come_and_go(protocols: frozenset[RebalanceProtocol]) -> None:
    group = DrivenGroup()
    members = [Driver(group, protocols=protocols)]
    group.run_until_stable()
    for _ in range(3):
        members.append(Driver(group, protocols=protocols))
        group.run_until_stable()
    assert max(len(member.held) for member in members) == 2
    members[0].machine.close(group.now)
    group.run_until_stable()
    assert members[0].machine.closed
    assert members[0].held == frozenset()
    members[1].alive = False  # killed: its session has to time out
    group.run_until_stable()
    assert sorted(len(member.held) for member in members[2:]) == [3, 3]
    assert not any(member.told(Lost) for member in members)


@pytest.mark.parametrize(
    "assignor", [RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor]
)
def test_members_with_the_assignors_that_users_have(assignor: type[LeadingAssignor]) -> None:
    group = DrivenGroup()
    members = [Driver(group, assignor=assignor()) for _ in range(2)]
    group.run_until_stable()
    members.append(Driver(group, assignor=assignor()))
    group.run_until_stable()
    assert [len(member.held) for member in members] == [2, 2, 2]
    members[0].alive = False
    group.run_until_stable()
    members[1].close()
    group.run_until_stable()
    members[0].alive = True
    group.run_until_stable()
    assert len(members[0].held) == len(members[2].held) == 3


def test_a_cooperative_member_revokes_only_the_partitions_that_move() -> None:
    group = DrivenGroup()
    first = Driver(group, protocols=COOPERATIVE)
    group.run_until_stable()
    first.steps.clear()
    Driver(group, protocols=COOPERATIVE)
    group.run_until_stable()
    (revoked,) = first.told(Revoke)
    assert isinstance(revoked, Revoke)
    assert len(revoked.partitions) == 3
    assert all(not step.added for step in first.told(Assign) if isinstance(step, Assign))


def test_an_eager_member_gives_everything_back() -> None:
    group = DrivenGroup()
    first = Driver(group)
    group.run_until_stable()
    first.steps.clear()
    Driver(group)
    group.run_until_stable()
    assert first.told(Revoke)[0] == Revoke(frozenset(T))


@both
def test_heartbeats_keep_a_member_for_hours(protocols: frozenset[RebalanceProtocol]) -> None:
    group = DrivenGroup()
    members = [Driver(group, protocols=protocols) for _ in range(2)]
    group.run_until_stable()
    rebalances = [member.machine.counters.rebalances for member in members]
    group.run(7200, step=10)
    assert [member.machine.counters.rebalances for member in members] == rebalances
    assert members[0].machine.counters.heartbeats == pytest.approx(2400, abs=20)


def test_heartbeats_continue_while_a_listener_runs() -> None:
    group = DrivenGroup()
    slow = Driver(group, rebalance_timeout=60.0)
    slow.listener_time = 25.0
    group.run_until_stable(200)
    Driver(group, rebalance_timeout=60.0)
    group.run_until_stable(200)
    assert not slow.told(Lost)


@both
def test_a_coordinator_that_moves_disturbs_nothing(
    protocols: frozenset[RebalanceProtocol],
) -> None:
    group = DrivenGroup()
    members = [Driver(group, protocols=protocols) for _ in range(2)]
    group.run_until_stable()
    rebalances = [member.machine.counters.rebalances for member in members]
    group.move_coordinator()
    group.run(30)
    group.run_until_stable()
    assert [member.machine.counters.rebalances for member in members] == rebalances


@both
def test_a_connection_that_breaks_disturbs_nothing(
    protocols: frozenset[RebalanceProtocol],
) -> None:
    group = DrivenGroup()
    members = [Driver(group, protocols=protocols) for _ in range(2)]
    group.run_until_stable()
    for _ in range(10):
        members[0].cut()
        group.run(1.7)
    assert not any(member.told(Lost) for member in members)
    assert all(member.machine.counters.rebalances <= 3 for member in members)


@both
def test_a_disconnected_member_keeps_its_partitions_until_the_coordinator_disowns_it(
    protocols: frozenset[RebalanceProtocol],
) -> None:
    group = DrivenGroup()
    gone, stays = Driver(group, protocols=protocols), Driver(group, protocols=protocols)
    group.run_until_stable()
    gone.connected = False
    group.run(15.0)  # the coordinator ends its session
    assert len(gone.held) == 3
    assert len(stays.held) == 6
    assert gone.told(Lost) == []
    gone.connected = True
    group.run(3.0)  # the first heartbeat is answered
    assert len(gone.told(Lost)) == 1
    group.run_until_stable()
    assert len(gone.held) == 3
    assert len(gone.told(Lost)) == 1


@both
def test_a_suspended_process_loses_its_partitions_and_rejoins(
    protocols: frozenset[RebalanceProtocol],
) -> None:
    group = DrivenGroup()
    stopped, stays = Driver(group, protocols=protocols), Driver(group, protocols=protocols)
    group.run_until_stable()
    stopped.alive = False
    group.run(40.0)
    assert len(stays.held) == 6
    stopped.alive = True
    group.settle()
    assert stopped.held == frozenset()  # before any other event
    group.run_until_stable()


def test_partitions_that_are_added_are_assigned() -> None:
    group = DrivenGroup()
    members = [Driver(group) for _ in range(2)]
    group.run_until_stable()
    before = sum(member.machine.counters.rebalances for member in members)
    group.add_partitions("t", 8)
    group.run_until_stable()
    assert sum(member.machine.counters.rebalances for member in members) == before + 2


def test_a_follower_watches_nothing_of_others() -> None:
    group = DrivenGroup()
    members = [Driver(group, topics={"t"})]
    group.run_until_stable()
    group.layouts = {**group.layouts, "u": TopicLayout(2)}
    members.append(Driver(group, topics={"u"}))
    group.run_until_stable()
    assert {member.machine.watched_topics for member in members} == {
        frozenset({"t", "u"}),  # the leader
        members[1].machine.watched_topics,
    }


@both
def test_another_subscription(protocols: frozenset[RebalanceProtocol]) -> None:
    group = DrivenGroup()
    member = Driver(group, protocols=protocols)
    group.run_until_stable()
    group.add_partitions("u", 2)
    member.machine.on_subscription({"u"}, group.now)
    group.run(5)
    assert member.held == {TopicPartition("u", 0), TopicPartition("u", 1)}
    assert member.machine.counters.rebalances == 2


def test_a_member_that_does_not_poll_leaves_until_it_does() -> None:
    group = DrivenGroup()
    lazy, stays = Driver(group, max_poll_interval=30.0), Driver(group)
    lazy.machine.on_poll(group.now, waiting=True)
    group.run_until_stable()
    group.run(100)
    assert lazy.machine.state is ClassicState.STABLE  # it waits in a poll
    lazy.machine.on_poll(group.now)
    group.run(31)
    assert lazy.machine.state is ClassicState.IDLE
    assert lazy.held == frozenset()
    assert lazy.told(Lost)
    group.run(5)  # at once: it has left, no session has to time out
    assert len(stays.held) == 6
    lazy.machine.on_poll(group.now)
    group.run_until_stable()
    assert len(lazy.held) == 3


def test_a_static_member_that_restarts_is_not_missed() -> None:
    group = DrivenGroup()
    first = Driver(group, group_instance_id="a", session_timeout=30.0)
    other = Driver(group, group_instance_id="b", session_timeout=30.0)
    group.run_until_stable()
    rebalances = other.machine.counters.rebalances
    held = first.held
    first.machine.close(group.now)
    group.run(5)
    assert first.machine.closed
    assert not first.sent("LeaveGroup")
    again = Driver(group, group_instance_id="a", session_timeout=30.0)
    group.run(20)
    assert again.held == held
    assert other.machine.counters.rebalances == rebalances


def test_a_static_member_leaves_on_request() -> None:
    group = DrivenGroup()
    first = Driver(group, group_instance_id="a", session_timeout=300.0)
    other = Driver(group, group_instance_id="b", session_timeout=300.0)
    group.run_until_stable()
    first.machine.close(group.now, stay=False)
    group.run(20)
    assert len(other.held) == 6


def test_two_static_members_of_one_name() -> None:
    group = DrivenGroup()
    first = Driver(group, group_instance_id="a")
    group.run_until_stable()
    second = Driver(group, group_instance_id="a")
    group.run(10)
    assert first.machine.state is ClassicState.FENCED
    assert first.held == frozenset()
    assert [type(error) for error in first.failures] == [FencedInstanceIdError]
    first.machine.retry(group.now)
    first.machine.close(group.now, stay=False)
    group.run(10)
    assert first.machine.closed
    assert not first.sent("LeaveGroup")
    assert len(second.held) == 6


def test_a_session_timeout_that_the_broker_refuses() -> None:
    group = DrivenGroup()
    member = Driver(group, session_timeout=4.0)
    group.run(10)
    assert [type(error) for error in member.failures] == [InvalidSessionTimeoutError]
    assert member.machine.state is ClassicState.FAILED
    member.machine.retry(group.now)
    group.run(10)
    assert len(member.failures) == 2


def test_unsubscribe_and_subscribe_again() -> None:
    group = DrivenGroup()
    member, other = Driver(group), Driver(group)
    group.run_until_stable()
    member.steps.clear()
    member.machine.leave("unsubscribed", group.now)
    group.run(1)
    assert member.machine.state is ClassicState.UNSUBSCRIBED
    (revoked,) = member.told(Revoke, Lost)
    assert isinstance(revoked, Revoke)
    assert len(revoked.partitions) == 3
    group.run(5)
    assert len(other.held) == 6
    member.machine.on_subscription({"t"}, group.now)
    member.machine.leave("unsubscribed", group.now)
    member.machine.on_subscription({"t"}, group.now)
    group.run_until_stable()
    assert len(member.held) == 3


def test_leaving_while_a_join_without_an_id_is_under_way() -> None:
    """An old broker returns the id only with the generation: the member then leaves with it."""
    group = DrivenGroup()
    old = {"JoinGroup": 3, "SyncGroup": 2, "Heartbeat": 2, "LeaveGroup": 2}
    Driver(group)
    group.run_until_stable()
    late = Driver(group, version=lambda request: old[request.name])
    late.pump()
    late.pump()
    assert "JoinGroup" in late.waiting
    late.machine.close(group.now)
    group.run_until_stable()
    assert late.machine.closed
    assert len(late.sent("LeaveGroup")) == 1


@pytest.mark.parametrize("version", range(10))
def test_every_version(version: int) -> None:
    newest = {"JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4, "LeaveGroup": 5}
    group = DrivenGroup()
    members = [
        Driver(group, version=lambda request: min(version, newest[request.name])) for _ in range(3)
    ]
    group.run_until_stable()
    members[0].machine.close(group.now)
    group.run_until_stable()
    assert sorted(len(member.held) for member in members) == [0, 3, 3]


@both
@pytest.mark.parametrize("seed", seeds(1, first=7))
def test_joins_deaths_and_moves_for_hours(
    protocols: frozenset[RebalanceProtocol], seed: int
) -> None:
    """Whatever happens, everything is owned at the end, and rebalances are bounded."""
    random = Random(seed)
    group = DrivenGroup(partitions=12)
    events = 0
    for _ in range(150):
        alive = group.alive
        event = random.choice(["join", "join", "close", "kill", "stop", "cut", "move", "listen"])
        events += 1
        if event == "join" and len(alive) < 6:
            Driver(group, protocols=protocols, rebalance_timeout=30.0)
        elif alive:
            victim = random.choice(alive)
            if event == "close":
                victim.machine.close(group.now)
            elif event == "kill":
                victim.alive = False
            elif event == "stop":
                victim.alive = False
                group.run(random.uniform(1, 60))
                victim.alive = True
            elif event == "cut":
                victim.cut()
            elif event == "move":
                group.move_coordinator()
            elif event == "listen":
                victim.listener_time = random.choice([0.0, 0.5, 5.0])
        group.run(random.uniform(0, 40))
    Driver(group, protocols=protocols, rebalance_timeout=30.0)
    group.run_until_stable(200)
    for driver in group.drivers:
        # No member sees more than a few per event (a cooperative rebalance takes two).
        assert driver.machine.counters.rebalances <= 4 * events
