"""Members of the consumer protocol on the embedded broker, in virtual time."""

import pytest

from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InvalidRegularExpressionError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from aiokafka_lite.group.consumer.machine import MemberState
from aiokafka_lite.group.consumer.requests import Heartbeats
from aiokafka_lite.group.consumer.target_assignment import LocalAssignment
from aiokafka_lite.group.membership import Assign, Lost, MembershipOptions, Revoke, TopicLayout
from aiokafka_lite.group.share.heartbeats import ShareHeartbeats
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from tests.unit.group.modern_crew import Crew, tps
from tests.unit.testing.raw import SocketlessBroker


@pytest.fixture
def broker() -> SocketlessBroker:
    return SocketlessBroker()


@pytest.fixture
def crew(broker: SocketlessBroker) -> Crew:
    return Crew(broker, t=6, u=2)


def test_one_member_gets_everything_and_is_stable(crew: Crew) -> None:
    member = crew.member("t")
    crew.run(2)
    everything = tps("t", *range(6))
    assert member.log == [Assign(everything, everything)]
    assert member.state is MemberState.STABLE
    assert member.machine.generation > 0
    assert not member.machine.rejoin_needed


def test_a_second_member_gets_the_partitions_that_the_first_revokes(crew: Crew) -> None:
    first = crew.member("t")
    crew.run(2)
    second = crew.member("t")
    crew.run(15)
    assert crew.held() == [3, 3]
    assert first.held | second.held == tps("t", *range(6))
    assert first.kinds() == ["Assign", "Revoke", "Assign"]
    assert first.state is second.state is MemberState.STABLE


def test_heartbeats_contain_only_changes(crew: Crew) -> None:
    member = crew.member("t", client_rack="here", server_assignor="range")
    crew.run(12)
    first, acknowledgement, *others = member.sent
    assert first.member_epoch == 0
    assert first.member_id == member.machine.member_id
    assert first.rebalance_timeout_ms == 300_000
    assert first.subscribed_topic_names == ["t"]
    assert first.subscribed_topic_regex == ""
    assert (first.server_assignor, first.rack_id) == ("range", "here")
    assert first.topic_partitions == []
    assert [topic.partitions for topic in acknowledgement.topic_partitions] == [[*range(6)]]
    assert 2 <= len(others) <= 3  # one in five seconds, the coordinator's interval
    for one in (acknowledgement, *others):
        assert (one.rebalance_timeout_ms, one.subscribed_topic_names) == (-1, None)
        assert (one.server_assignor, one.rack_id, one.subscribed_topic_regex) == (None, None, None)
    assert all(one.topic_partitions is None for one in others)


def test_a_lost_answer_is_followed_by_a_full_heartbeat(crew: Crew) -> None:
    member = crew.member("t")
    crew.run(2)
    member.lose_answer = True
    crew.run(6)
    member.lose_answer = False
    crew.run(2)
    full = member.sent[-1]
    assert full.subscribed_topic_names == ["t"]
    assert full.rebalance_timeout_ms > 0
    assert [topic.partitions for topic in full.topic_partitions] == [[*range(6)]]
    assert member.state is MemberState.STABLE
    assert member.kinds() == ["Assign"]


@pytest.mark.parametrize("requests", [Heartbeats, ShareHeartbeats])
def test_a_dead_connection_does_not_cost_the_place(
    requests: type[Heartbeats] | type[ShareHeartbeats],
) -> None:
    """A request timeout after an unanswered heartbeat, the session must continue: 45 s, with up
    to 15 s between heartbeats."""
    made = requests(MembershipOptions("g", request_timeout=40.0), "me")
    for send in (
        made.heartbeat("me", 0, frozenset({"t"}), None, LocalAssignment()),
        made.heartbeat("me", 1, frozenset({"t"}), None, LocalAssignment()),
        made.leave("me", -1),
    ):
        assert 15 + send.timeout <= 45 - 5
    made = requests(MembershipOptions("g", request_timeout=3.0), "me")
    assert made.heartbeat("me", 0, frozenset(), None, LocalAssignment()).timeout == 3.0


@pytest.mark.parametrize("version", [0, 1])
def test_member_ids(crew: Crew, version: int) -> None:
    member = crew.member("t", version=version)
    crew.run(1)
    told = member.machine.member_id
    assert member.sent[0].member_id == ("" if version == 0 else told)
    member.leave()
    crew.run(1)
    member.subscribe("t")
    crew.run(1)
    assert member.machine.member_id == told  # for life
    assert member.state is MemberState.STABLE


def test_a_join_with_a_lost_response_adds_only_one_member(
    crew: Crew, broker: SocketlessBroker
) -> None:
    member = crew.member()
    member.lose_answer = True
    member.subscribe("t")
    member.machine.on_coordinator(member.now)
    member.pump()
    crew.run(5)
    member.lose_answer = False
    crew.run(3)
    group = broker.state.groups.get("g")
    assert list(group.members) == [member.machine.member_id]
    assert member.held == tps("t", *range(6))


def test_leaving(crew: Crew) -> None:
    member = crew.member("t")
    crew.run(2)
    member.leave()
    crew.run(1)
    assert member.kinds() == ["Assign", "Revoke"]
    assert member.sent[-1].member_epoch == -1
    assert member.state is MemberState.UNSUBSCRIBED
    assert not member.is_member
    assert not member.machine.closed


def test_a_leaving_member_waits_for_its_listener_and_heartbeats_meanwhile(crew: Crew) -> None:
    member = crew.member("t")
    crew.run(2)
    member.listener = 12.0
    sent = len(member.sent)
    member.close()
    crew.run(11)
    assert member.state is MemberState.PREPARE_LEAVING
    assert len(member.sent) - sent == 2
    crew.run(2)
    assert member.machine.closed
    assert member.sent[-1].member_epoch == -1


@pytest.mark.parametrize(
    ("instance", "stay", "epoch"),
    [
        (None, None, -1),
        (None, False, -1),
        (None, True, None),
        ("i", None, -2),
        ("i", False, -1),
        ("i", True, -2),
    ],
)
def test_closing(crew: Crew, instance: str | None, stay: bool | None, epoch: int | None) -> None:
    member = crew.member("t", group_instance_id=instance)
    crew.run(2)
    member.close(stay)
    crew.run(1)
    assert member.machine.closed
    assert member.kinds() == ["Assign", "Revoke"]
    last = member.sent[-1].member_epoch
    assert last == epoch if epoch is not None else last > 0
    assert member.is_member is (epoch != -1)


def test_a_static_member_returns_to_its_partitions(crew: Crew) -> None:
    crew.member("t")
    static = crew.member("t", group_instance_id="i")
    crew.run(15)
    had = static.held
    assert len(had) == 3
    static.close()
    crew.run(5)
    again = crew.member("t", group_instance_id="i")
    crew.run(5)
    assert again.held == had
    assert again.kinds() == ["Assign"]


def test_an_instance_id_in_use_is_reported_and_retried(crew: Crew) -> None:
    first = crew.member("t", group_instance_id="i")
    crew.run(2)
    second = crew.member("t", group_instance_id="i")
    crew.run(2)
    assert [type(error) for error in second.failures] == [UnreleasedInstanceIdError]
    assert "group_instance_id 'i'" in str(second.failures[0])
    assert second.state is MemberState.FATAL
    first.close()
    crew.run(1)
    second.retry()
    crew.run(2)
    assert second.held == tps("t", *range(6))


def test_a_replaced_static_member_does_not_join_again(crew: Crew) -> None:
    member = crew.member("t", group_instance_id="i")
    crew.run(2)
    # Its session expires unnoticed, and another member takes its place.
    member.lose_request = True
    crew.run(60)
    other = crew.member("t", group_instance_id="i")
    crew.run(2)
    assert other.held == tps("t", *range(6))
    member.lose_request = False
    crew.run(5)
    assert member.state is MemberState.FATAL
    assert member.kinds() == ["Assign", "Lost", "Fail"] or member.kinds() == [
        "Assign",
        "Fail",
        "Lost",
    ]
    assert isinstance(member.failures[0], FencedInstanceIdError)
    member.retry()
    crew.run(5)
    assert len(member.failures) == 2
    sent = len(member.sent)
    member.close()
    crew.run(1)
    assert member.machine.closed
    assert len(member.sent) == sent  # another member has its place: there is nothing to leave


def test_a_member_that_was_away_too_long_loses_everything_and_joins_again(crew: Crew) -> None:
    member = crew.member("t")
    other = crew.member("t")
    crew.run(15)
    member.lose_request = True
    crew.run(60)
    assert other.held == tps("t", *range(6))
    member.lose_request = False
    crew.run(20)
    assert member.kinds()[-2:] == ["Lost", "Assign"] or "Lost" in member.kinds()
    assert crew.held() == [3, 3]
    assert member.machine.counters.lost == 1


def test_too_slow_a_listener_costs_the_place(crew: Crew) -> None:
    member = crew.member("t", rebalance_timeout=20.0)
    crew.run(2)
    member.listener = 30.0
    crew.member("t")
    crew.run(31)
    assert "Revoke" in member.kinds()
    assert not member.is_member
    member.listener = 0.0
    crew.run(60)
    assert crew.held() == [3, 3]
    assert [kind for kind in member.kinds() if kind == "Lost"] == ["Lost"]


def test_an_application_that_does_not_poll_leaves_until_it_does(crew: Crew) -> None:
    member = crew.member("t", max_poll_interval=10.0)
    other = crew.member("t")
    crew.run(9)
    member.poll()
    crew.run(9)
    assert member.is_member
    crew.run(2)
    assert not member.is_member
    assert member.sent[-1].member_epoch == -1
    assert member.state is MemberState.STALE
    assert isinstance(member.log[-1], Lost)
    crew.run(20)
    assert other.held == tps("t", *range(6))
    member.poll(waiting=True)
    crew.run(100)
    assert crew.held() == [3, 3]
    assert member.state is MemberState.STABLE


def test_a_changed_subscription_is_sent_at_once(crew: Crew) -> None:
    member = crew.member("t")
    crew.run(2)
    member.subscribe("u")
    crew.run(3)
    assert member.held == tps("u", 0, 1)
    assert member.sent[2].subscribed_topic_names == ["u"]
    assert set().union(*(step.partitions for step in member.log if isinstance(step, Revoke))) == (
        tps("t", *range(6))
    )


def test_a_pattern_of_the_broker_and_back_to_names(crew: Crew) -> None:
    member = crew.member()
    member.subscribe(pattern="t|u")
    crew.run(15)
    assert member.held == tps("t", *range(6)) | tps("u", 0, 1)
    assert member.sent[0].subscribed_topic_regex == "t|u"
    assert member.sent[0].subscribed_topic_names == []
    assert {one.topic for one in member.held} == member.machine.watched_topics
    member.subscribe("u")
    crew.run(10)
    assert member.held == tps("u", 0, 1)


def test_a_bad_pattern_can_be_mended(crew: Crew) -> None:
    member = crew.member()
    member.subscribe(pattern="t(")
    crew.run(2)
    assert isinstance(member.failures[0], InvalidRegularExpressionError)
    assert "'t('" in str(member.failures[0])
    member.subscribe(pattern="t")
    crew.run(15)
    assert member.held == tps("t", *range(6))


def test_the_same_subscription_again_mends_nothing(crew: Crew) -> None:
    member = crew.member("t", server_assignor="mine")
    crew.run(1)
    sent = len(member.sent)
    member.subscribe("t")
    crew.run(5)
    assert member.state is MemberState.FATAL
    assert len(member.sent) == sent


def test_a_pattern_needs_the_second_version(crew: Crew) -> None:
    member = crew.member(version=0)
    member.subscribe(pattern="t")
    crew.run(1)
    assert isinstance(member.failures[0], UnsupportedVersionError)
    assert "pattern" in str(member.failures[0])
    assert member.state is MemberState.FATAL


def test_a_cluster_without_the_protocol() -> None:
    broker = SocketlessBroker(features={"group.version": 0})
    crew = Crew(broker, t=1)
    member = crew.member("t")
    crew.run(1)
    assert isinstance(member.failures[0], UnsupportedVersionError)
    assert "group.version 1" in str(member.failures[0])


def test_an_assignor_that_the_broker_does_not_have(crew: Crew) -> None:
    member = crew.member("t", server_assignor="mine")
    crew.run(1)
    assert isinstance(member.failures[0], UnsupportedAssignorError)
    assert "'mine'" in str(member.failures[0])


def test_a_full_group(broker: SocketlessBroker, crew: Crew) -> None:
    member = crew.member()
    broker.fail_next(ApiKey.CONSUMER_GROUP_HEARTBEAT, GroupMaxSizeReachedError.errno)
    member.subscribe("t")
    crew.run(1)
    assert isinstance(member.failures[0], GroupMaxSizeReachedError)
    member.retry()
    crew.run(1)
    assert member.state is MemberState.STABLE


def test_partitions_are_assigned_once_metadata_has_their_topic_names(
    broker: SocketlessBroker, crew: Crew
) -> None:
    member = crew.member()
    member.names = {}
    member.subscribe("t", "u")
    crew.run(5)
    assert member.log == []
    assert member.state is MemberState.RECONCILING
    ids = {name: topic.topic_id for name, topic in broker.state.topics.items()}
    assert member.machine.unresolved_topic_ids == {ids["t"], ids["u"]}
    member.names = {"u": TopicLayout(2, topic_id=ids["u"])}
    crew.run(5)
    assert member.log == [Assign(tps("u", 0, 1), tps("u", 0, 1))]
    assert [len(topic.partitions) for topic in member.sent[-1].topic_partitions or ()] in ([], [2])
    assert member.state is MemberState.RECONCILING
    sent = len(member.sent)
    crew.run(20)
    assert len(member.sent) - sent <= 5  # it acknowledges that once
    member.names = None
    crew.run(5)
    assert member.held == tps("t", *range(6)) | tps("u", 0, 1)
    assert member.state is MemberState.STABLE


def test_a_recreated_topic_is_revoked_and_assigned_again(
    broker: SocketlessBroker, crew: Crew
) -> None:
    member = crew.member("t", "u")
    crew.run(2)
    broker.state.delete_topic("u")
    broker.state.create_topic("u", 2)
    crew.run(20)
    assert member.held == tps("t", *range(6)) | tps("u", 0, 1)
    taken = [step.partitions for step in member.log if isinstance(step, Revoke)]
    assert taken == [tps("u", 0, 1)]


def test_partitions_that_are_added(broker: SocketlessBroker, crew: Crew) -> None:
    member = crew.member("u")
    crew.run(2)
    broker.state.add_partitions("u", 4)
    crew.run(10)
    assert member.log[-1] == Assign(tps("u", 2, 3), tps("u", *range(4)))


def test_a_coordinator_that_moves() -> None:
    broker = SocketlessBroker(3)
    crew = Crew(broker, t=6)
    members = [crew.member("t") for _ in range(2)]
    crew.run(15)
    logs = [list(member.kinds()) for member in members]
    for node in (0, 1, 2, 1):
        broker.state.coordinators.move(CoordinatorType.GROUP, "g", node)
        crew.run(10)
        assert {member.node for member in members} == {node}
    assert [member.kinds() for member in members] == logs
    assert crew.held() == [3, 3]


def test_the_identity_for_commits_exists_while_it_is_a_member(crew: Crew) -> None:
    member = crew.member("t")
    machine = member.machine
    assert machine.commit_identity() is None
    assert machine.group_metadata() == ("g", -1, "", None)
    crew.run(2)
    identity = machine.commit_identity()
    assert identity == (machine.member_id, machine.generation, None)
    assert machine.group_metadata() == ("g", machine.generation, machine.member_id, None)
    member.close()
    crew.run(1)
    assert machine.commit_identity() is None


@pytest.mark.parametrize("error", [StaleMemberEpochError, UnknownMemberIdError])
def test_a_refused_commit_of_this_member_sends_a_heartbeat(
    crew: Crew, error: type[StaleMemberEpochError]
) -> None:
    member = crew.member("t")
    crew.run(2)
    sent = len(member.sent)
    identity = member.machine.commit_identity()
    member.machine.on_commit_error(error(), member.now, identity)
    member.pump()
    crew.run(1)
    assert len(member.sent) == sent + 1
    member.machine.on_commit_error(error(), member.now, ("other", 1, None))
    member.pump()
    crew.run(1)
    assert len(member.sent) == sent + 1
