"""The classic protocol on a virtual clock: timeouts, and the order of waits."""

import pytest

from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupCoordinatorNotAvailableError,
    GroupIdNotFound,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
    UnknownError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.base_group import Joiner
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.reply import Reply
from tests.unit.testing.groups.members import FakeMember, form
from tests.unit.testing.raw import RawClient, SocketlessBroker

UNKNOWN = UnknownMemberIdError.errno
REBALANCE = RebalanceInProgressError.errno


def group_of(broker: SocketlessBroker, group_id: str = "g") -> ClassicGroup:
    group = broker.state.groups.get(group_id)
    assert isinstance(group, ClassicGroup)
    return group


def test_member_ids_are_the_same_under_the_same_seed() -> None:
    found = []
    for _ in range(2):
        member = FakeMember(SocketlessBroker())
        member.join()
        found.append(member.member_id)
    assert found[0] == found[1]
    assert found[0].startswith("test-")
    static = FakeMember(SocketlessBroker(), instance_id="one")
    static.join()
    assert static.member_id.startswith("one-")


def test_a_member_stays_while_it_sends_heartbeats(broker: SocketlessBroker) -> None:
    member = FakeMember(broker, session_timeout_ms=10_000)
    form(member)
    for _ in range(5):
        broker.clock.advance(9.999)
        assert member.beat() == 0
    broker.clock.advance(9.999)
    assert group_of(broker).state == "Stable"
    broker.clock.advance(0.001)
    assert group_of(broker).state == "Empty"
    assert member.beat() == UNKNOWN


def test_an_expired_member_causes_a_rebalance(broker: SocketlessBroker) -> None:
    loud, silent = FakeMember(broker), FakeMember(broker)
    form(loud, silent)
    broker.clock.advance(6)
    assert loud.beat() == 0
    broker.clock.advance(4)
    assert loud.beat() == REBALANCE
    assert loud.join().generation_id == 3
    assert [each.member_id for each in loud.joined().members] == [loud.member_id]


def test_waiting_members_need_no_heartbeats(broker: SocketlessBroker) -> None:
    first = FakeMember(broker, session_timeout_ms=300_000)
    form(first)
    newcomer = FakeMember(broker, session_timeout_ms=10_000)
    joining = newcomer.begin_join()
    broker.clock.advance(59)
    assert joining.answer is None
    broker.clock.advance(1)  # the first one's rebalance timeout
    assert joining.code == 0
    assert newcomer.joined().members[0].member_id == newcomer.member_id


def test_a_new_member_gives_up_its_join_after_five_minutes(broker: SocketlessBroker) -> None:
    first = FakeMember(broker, rebalance_timeout_ms=1_000_000, session_timeout_ms=1_000_000)
    form(first)
    newcomer = FakeMember(broker)
    joining = newcomer.begin_join()
    broker.clock.advance(299.9)
    assert joining.answer is None
    broker.clock.advance(0.1)
    assert joining.code == UNKNOWN
    assert list(group_of(broker).members) == [first.member_id]


def test_an_unused_member_id_is_forgotten(broker: SocketlessBroker) -> None:
    first = FakeMember(broker, session_timeout_ms=100_000)
    form(first)
    absent = FakeMember(broker, session_timeout_ms=6_000)
    refusal = absent._join()
    assert refusal.code == 79
    joining = first.begin_join()
    assert joining.answer is None
    broker.clock.advance(6)
    assert joining.code == 0
    absent.member_id = refusal.answer.member_id
    assert absent.begin_join().code == UNKNOWN


def test_a_pending_member_cannot_become_static(broker: SocketlessBroker) -> None:
    member = FakeMember(broker)
    member.member_id = member._join().answer.member_id
    member.instance_id = "one"
    assert member.begin_join().code == UnknownError.errno


def test_a_member_that_does_not_sync_by_the_deadline_is_removed(broker: SocketlessBroker) -> None:
    leader, lazy = FakeMember(broker), FakeMember(broker, rebalance_timeout_ms=5_000)
    leader.rebalance_timeout_ms = 5_000
    form(leader)
    lazy.begin_join()
    leader.join()
    lazy.joined()
    assert leader.begin_sync((leader.member_id, b"all")).code == 0
    broker.clock.advance(4.9)
    assert leader.beat() == 0
    broker.clock.advance(0.1)
    assert leader.beat() == REBALANCE
    assert lazy.beat() == UNKNOWN


def test_a_rebalance_without_a_join_is_checked_again(broker: SocketlessBroker) -> None:
    a = FakeMember(broker, instance_id="a", rebalance_timeout_ms=5_000, session_timeout_ms=60_000)
    b = FakeMember(broker, instance_id="b", rebalance_timeout_ms=5_000, session_timeout_ms=6_000)
    form(a, b)
    broker.clock.advance(6)  # b is out, a should join
    assert group_of(broker).state == "PreparingRebalance"
    broker.clock.advance(20)
    assert group_of(broker).state == "PreparingRebalance"
    assert a.join().generation_id == 3


@pytest.mark.parametrize("how", ["leaves", "falls silent", "is removed"])
def test_a_rebalance_does_not_wait_for_members_that_left(
    broker: SocketlessBroker, how: str
) -> None:
    a, b = FakeMember(broker), FakeMember(broker, session_timeout_ms=6_000, instance_id="b")
    form(a, b)
    joining = a.begin_join()
    assert joining.answer is None
    if how == "leaves":
        assert b.leave() == 0
    elif how == "is removed":
        b.member_id = ""  # as an administrator removes static members by their instance ids
        assert b.leave() == 0
    else:
        broker.clock.advance(6)
    assert joining.code == 0
    assert len(a.joined().members) == 1


def test_an_unknown_member_cannot_leave(broker: SocketlessBroker) -> None:
    form(FakeMember(broker))
    assert FakeMember(broker, member_id="you").leave() == UNKNOWN
    assert FakeMember(broker, instance_id="one").leave() == UNKNOWN
    assert FakeMember(broker).leave() == UNKNOWN
    assert group_of(broker).state == "Stable"


def test_a_late_join_waits_for_the_next_deadline_check(broker: SocketlessBroker) -> None:
    a, b, c = (
        FakeMember(broker, instance_id=name, rebalance_timeout_ms=5_000, session_timeout_ms=ms)
        for name, ms in (("a", 60_000), ("b", 60_000), ("c", 6_000))
    )
    form(a, b, c)
    broker.clock.advance(6 + 5 + 1)  # c is out, and no member has joined by the first deadline
    joining = a.begin_join()
    broker.clock.advance(3.9)
    assert joining.answer is None
    broker.clock.advance(0.1)
    assert joining.code == 0
    assert len(a.joined().members) == 2  # a static member has its whole session to rejoin


def test_the_first_rebalance_waits_for_more_members() -> None:
    broker = SocketlessBroker(broker_configs={"group.initial.rebalance.delay.ms": 3000})
    a, b, c = (FakeMember(broker, rebalance_timeout_ms=7_000) for _ in range(3))
    first = a.begin_join()
    broker.clock.advance(2)
    second = b.begin_join()
    broker.clock.advance(2)  # 4: prolonged by b
    assert (first.answer, second.answer) == (None, None)
    third = c.begin_join()
    broker.clock.advance(2.9)  # 6.9: prolonged by c, but not beyond the rebalance timeout
    assert third.answer is None
    broker.clock.advance(0.1)
    assert [each.joined().generation_id for each in (a, b, c)] == [1, 1, 1]
    assert len(first.answer.members) == 3


def test_a_group_that_all_have_left_at_once_keeps_its_kind() -> None:
    broker = SocketlessBroker(broker_configs={"group.initial.rebalance.delay.ms": 3000})
    first = FakeMember(broker, instance_id="one")
    joining = first.begin_join()
    assert FakeMember(broker, instance_id="one", member_id="").leave() == 0
    assert joining.code == UNKNOWN
    assert group_of(broker).state == "PreparingRebalance"
    refused = InconsistentGroupProtocolError.errno
    assert FakeMember(broker, protocol_type="connect").begin_join().code == refused
    assert FakeMember(broker, protocols=[]).begin_join().code == refused
    second = FakeMember(broker, protocols=[("other", b"")])
    assert second.begin_join().answer is None
    broker.clock.advance(60)
    assert second.joined().generation_id == 1


def test_protocols_have_to_be_common_to_all(broker: SocketlessBroker) -> None:
    both = [("range", b""), ("sticky", b"")]
    form(FakeMember(broker, protocols=both))
    refused = InconsistentGroupProtocolError.errno
    assert FakeMember(broker, protocol_type="connect").begin_join().code == refused
    assert FakeMember(broker, protocols=[("other", b"")]).begin_join().code == refused
    assert FakeMember(broker, protocols=[("sticky", b"")]).begin_join().answer is None


def test_a_full_group_rejects_new_members() -> None:
    broker = SocketlessBroker(broker_configs={"group.max.size": 2})
    a, b, c = (FakeMember(broker) for _ in range(3))
    form(a, b)
    assert c.begin_join().code == GroupMaxSizeReachedError.errno
    joining = a.begin_join()
    assert joining.answer is None
    assert c.begin_join().answer is None  # b has not rejoined yet: the first one gets in
    assert b.begin_join().code == GroupMaxSizeReachedError.errno
    assert joining.answer is None  # as in Kafka, even if all remaining members have joined
    broker.clock.advance(60)
    assert joining.code == 0
    assert c.joined().generation_id == 3


def test_one_timeout_serves_for_both_in_v0(broker: SocketlessBroker) -> None:
    member = FakeMember(broker, version=0, session_timeout_ms=12_000)
    member.join()
    (known,) = group_of(broker).members.values()
    assert (known.rebalance_timeout_ms, known.client_id) == (12_000, "test")
    assert known.client_host == "/127.0.0.1"


async def test_a_fault_is_answered_before_anything_happens() -> None:
    refused = GroupCoordinatorNotAvailableError.errno
    async with FakeCluster() as cluster:
        client = await RawClient.connect(cluster.address(0))
        cluster.control(ApiKey.JOIN_GROUP, error=refused)
        request = JoinGroupRequest("g", 10_000, protocol_type="consumer")
        assert (await client.ask(request, 9)).error_code == refused
        assert cluster.state.groups.get("g") is None
        await client.close()


def test_a_member_waiting_to_sync_rejoins_when_another_joins(broker: SocketlessBroker) -> None:
    leader, follower, newcomer = (FakeMember(broker) for _ in range(3))
    form(leader)
    follower.begin_join()
    leader.join()
    follower.joined()
    syncing = follower.begin_sync()
    assert syncing.answer is None
    newcomer.begin_join()
    assert syncing.code == REBALANCE
    assert leader.beat() == REBALANCE
    leader.begin_join()
    follower.begin_join()
    assert {each.joined().generation_id for each in (leader, follower, newcomer)} == {3}


def test_a_returning_static_member_fences_its_waiting_requests(broker: SocketlessBroker) -> None:
    fenced = FencedInstanceIdError.errno
    a, b, c = FakeMember(broker), FakeMember(broker), FakeMember(broker)
    b.instance_id = c.instance_id = "one"
    form(a)
    joining = b.begin_join()
    c.begin_join()
    assert (joining.code, joining.answer.member_id[:4]) == (fenced, "one-")
    assert a.join().generation_id == c.joined().generation_id == 2
    syncing = c.begin_sync()
    back = FakeMember(broker, instance_id="one")
    rejoining = back.begin_join()
    assert (syncing.code, rejoining.answer) == (fenced, None)
    assert a.beat() == REBALANCE
    a.join()
    assert back.joined().generation_id == 3


@pytest.mark.parametrize("version", [8, 9])
def test_a_returning_static_leader_does_not_assign_partitions(
    broker: SocketlessBroker, version: int
) -> None:
    old = FakeMember(broker, instance_id="one", version=version)
    form(old)
    back = FakeMember(broker, instance_id="one", version=version)
    answer = back.join()
    if version == 9:
        assert (answer.skip_assignment, answer.leader) == (True, back.member_id)
        assert [each.member_id for each in answer.members] == [back.member_id]
    else:
        assert (answer.leader, answer.members) == (old.member_id, [])
    assert back.begin_sync().answer.assignment == old.member_id.encode()


def test_a_static_member_s_next_incarnation_has_a_session_of_its_own(
    broker: SocketlessBroker,
) -> None:
    old = FakeMember(broker, instance_id="one", session_timeout_ms=10_000)
    form(old)
    broker.clock.advance(9)
    back = FakeMember(broker, instance_id="one", session_timeout_ms=20_000)
    assert back.join().generation_id == 1
    broker.clock.advance(9.9)
    assert back.beat() == 0  # the new timeout counts from the first heartbeat on
    broker.clock.advance(19.9)
    assert group_of(broker).state == "Stable"
    broker.clock.advance(0.1)
    assert group_of(broker).state == "Empty"


def test_an_unchanged_rejoin_gets_the_current_generation(broker: SocketlessBroker) -> None:
    leader, follower = FakeMember(broker), FakeMember(broker)
    form(leader, follower)
    again = follower.join()
    assert (again.generation_id, again.leader, again.members) == (2, leader.member_id, [])
    assert group_of(broker).state == "Stable"
    follower.protocols = [("range", b"changed")]
    assert follower.begin_join().answer is None
    assert leader.join().generation_id == 3
    follower.joined()
    again = leader.join()  # the leader too, as long as nothing is assigned
    assert (again.generation_id, len(again.members)) == (3, 2)


def test_shares_are_those_of_one_generation(broker: SocketlessBroker) -> None:
    member = FakeMember(broker)
    form(member)
    member.generation += 1
    assert member.begin_sync().code == IllegalGenerationError.errno


def test_a_commit_shows_that_a_member_lives(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1)
    member = FakeMember(broker)
    form(member)
    topics = [OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition(0, 1)])]
    commit = OffsetCommitRequest("g", member.generation, member.member_id, topics=topics)
    for _ in range(3):
        broker.clock.advance(9)
        (answer,) = broker.ask(commit, 8).topics
        assert answer.partitions[0].error_code == 0
    assert group_of(broker).state == "Stable"


# Another coordinator


def test_another_broker_does_not_coordinate(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    here = broker.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id
    member = FakeMember(broker, node=(here + 1) % 3)
    wrong = NotCoordinatorForGroupError.errno
    assert member.begin_join().code == wrong
    assert member.begin_sync().code == wrong
    assert member.beat() == wrong


def test_a_new_coordinator_restores_the_last_generation(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    here = broker.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id
    there = (here + 1) % 3
    a, b = FakeMember(broker, node=here), FakeMember(broker, node=here)
    form(a)
    joining = b.begin_join()
    broker.state.coordinators.move(CoordinatorType.GROUP, "g", there)
    assert joining.code == NotCoordinatorForGroupError.errno
    assert a.beat() == NotCoordinatorForGroupError.errno
    a.node = b.node = there
    assert a.beat() == 0
    assert a.begin_sync().answer.assignment == a.member_id.encode()
    assert b.begin_join().code == UNKNOWN  # an unassigned generation is discarded
    broker.clock.advance(10)
    assert a.beat() == UNKNOWN


def test_waiting_syncs_fail_when_the_coordinator_moves(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    here = broker.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id
    a, b = FakeMember(broker, node=here), FakeMember(broker, node=here)
    form(a)
    b.begin_join()
    a.join()
    b.joined()
    syncing = b.begin_sync()
    assert syncing.answer is None
    broker.state.on_node_down(here)
    assert syncing.code == NotCoordinatorForGroupError.errno
    assert group_of(broker).generation == 1


def test_a_static_member_keeps_its_new_id_over_a_move(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    here = broker.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id
    old = FakeMember(broker, node=here, instance_id="one")
    form(old)
    back = FakeMember(broker, node=here, instance_id="one")
    back.join()
    broker.state.coordinators.move(CoordinatorType.GROUP, "g", (here + 1) % 3)
    old.node = back.node = (here + 1) % 3
    assert old.beat() == FencedInstanceIdError.errno
    assert back.beat() == 0
    back.generation += 1
    assert back.beat() == IllegalGenerationError.errno


def test_a_new_coordinator_of_an_empty_group_finds_no_members(
    three_brokers: SocketlessBroker,
) -> None:
    broker = three_brokers
    here = broker.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id
    member = FakeMember(broker, node=here)
    form(member)
    member.leave()
    broker.state.coordinators.move(CoordinatorType.GROUP, "g", (here + 1) % 3)
    assert (group_of(broker).state, group_of(broker).generation) == ("Empty", 2)


@pytest.mark.parametrize("shared_out", [True, False])
def test_timers_of_the_old_coordinator_do_not_fire(
    three_brokers: SocketlessBroker, shared_out: bool
) -> None:
    broker = three_brokers
    here = broker.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id
    a, b = FakeMember(broker, node=here), FakeMember(broker, node=here)
    form(a)
    b.begin_join()
    if not shared_out:
        a.join()
        b.joined()
        a.generation = 1
    broker.state.coordinators.move(CoordinatorType.GROUP, "g", (here + 1) % 3)
    a.node = (here + 1) % 3
    for _ in range(20):
        broker.clock.advance(9)
        assert a.beat() == 0
    assert group_of(broker).generation == 1


def test_a_dead_group_sends_its_members_away(broker: SocketlessBroker) -> None:
    gone = GroupCoordinatorNotAvailableError
    form(FakeMember(broker))
    group = group_of(broker)
    broker.state.groups.delete("g")
    assert group.state == "Dead"
    joining: Reply[JoinGroupResponse] = Reply()
    group.on_join(JoinGroupRequest("g"), Joiner("c", "/h"), joining)
    syncing: Reply[SyncGroupResponse] = Reply()
    group.on_sync(SyncGroupRequest("g"), syncing)
    assert joining.answer is not None
    assert syncing.answer is not None
    assert (joining.answer.error_code, syncing.answer.error_code) == (gone.errno, gone.errno)
    with pytest.raises(gone):
        group.on_heartbeat(HeartbeatRequest("g"))
    with pytest.raises(gone):
        group.on_leave(LeaveGroupRequest("g"))
    with pytest.raises(gone):
        group.check_commit("", -1, None, transactional=False)
    with pytest.raises(GroupIdNotFound):
        group.check_fetch(None, -1)
    with pytest.raises(RuntimeError, match="already answered"):
        joining.send(joining.answer)


@pytest.mark.parametrize("leaves", [True, False])
def test_timers_of_a_deleted_group_do_not_fire(broker: SocketlessBroker, leaves: bool) -> None:
    member = FakeMember(broker)
    form(member)
    joining = FakeMember(broker).begin_join()
    if leaves:
        member.leave()
    broker.state.groups.delete("g")
    assert joining.code in (0, GroupCoordinatorNotAvailableError.errno)
    broker.clock.advance(10_000)
    assert broker.state.groups.get("g") is None
