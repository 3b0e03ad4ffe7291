"""Consumer groups on a virtual clock: sessions, revocations, created and deleted topics."""

from uuid import UUID

import pytest

from aiokafka_lite.errors import (
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    InvalidRegularExpressionError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.committed_offsets import CommittedOffset
from aiokafka_lite.testing.groups.consumer_member import MemberState
from aiokafka_lite.testing.security.acl_table import Acl, Operation, Pattern, Permission, Resource
from aiokafka_lite.testing.security.authorizer import Authorizer
from tests.unit.testing.groups.reporters import FakeReporter, group_of, settle
from tests.unit.testing.raw import SocketlessBroker
from tests.unit.testing.remembering import Remembering

UNKNOWN = UnknownMemberIdError.errno
FENCED = FencedMemberEpochError.errno


@pytest.fixture
def broker() -> SocketlessBroker:
    broker = SocketlessBroker()
    broker.state.create_topic("t", 4)
    return broker


def test_a_partition_is_given_up_before_another_gets_it(broker: SocketlessBroker) -> None:
    a, b = FakeReporter(broker, "a", "t"), FakeReporter(broker, "b", "t")
    a.join()
    assert (a.epoch, a.count) == (2, 4)
    broker.clock.advance(1.0)
    b.join()
    group = group_of(broker)
    assert (b.epoch, b.count, group.state) == (3, 0, "Reconciling")
    assert group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    whole = dict(a.owned)
    assert a.tell() == 0
    assert (a.epoch, a.count) == (2, 2)
    assert group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    kept, a.owned = a.owned, whole
    assert a.report() == 0  # it still has all of them
    b.report()
    assert (a.epoch, b.count) == (2, 0)
    a.owned = kept
    a.report()
    assert (a.epoch, a.count) == (3, 2)
    b.report()
    assert (b.count, group.state) == (2, "Stable")


def test_a_member_stays_until_its_session_times_out(broker: SocketlessBroker) -> None:
    a = FakeReporter(broker, "a", "t")
    a.join()
    for _ in range(5):
        broker.clock.advance(44.999)
        assert a.tell() == 0
    broker.clock.advance(44.999)
    assert group_of(broker).state == "Stable"
    broker.clock.advance(0.001)
    assert group_of(broker).state == "Empty"
    assert a.tell() == UNKNOWN


def test_a_member_that_does_not_revoke_by_the_deadline_is_fenced(broker: SocketlessBroker) -> None:
    slow, b = FakeReporter(broker, "slow", "t"), FakeReporter(broker, "b", "t")
    slow.join(rebalance_timeout_ms=5_000)
    broker.clock.advance(1.0)
    b.join()
    whole = dict(slow.owned)
    slow.tell()
    slow.owned = whole
    broker.clock.advance(4.9)
    assert slow.report() == 0
    broker.clock.advance(0.1)
    assert slow.report() == UNKNOWN
    b.report()
    assert b.count == 4


def test_a_member_that_revokes_by_the_deadline_is_not_fenced(broker: SocketlessBroker) -> None:
    a, b = FakeReporter(broker, "a", "t"), FakeReporter(broker, "b", "t")
    a.join(rebalance_timeout_ms=5_000)
    broker.clock.advance(1.0)
    b.join()
    a.tell()
    a.report()
    broker.clock.advance(5.0)
    assert a.report() == 0


def test_an_assignment_includes_all_members_that_join_within_a_second(
    broker: SocketlessBroker,
) -> None:
    members = [FakeReporter(broker, name, "t") for name in "abcd"]
    for member in members:
        member.join()
    assert [member.count for member in members] == [4, 0, 0, 0]
    assert group_of(broker).state == "Assigning"
    broker.clock.advance(0.999)
    members[1].tell()
    assert group_of(broker).target_epoch == 2
    broker.clock.advance(0.001)
    members[1].tell()
    assert group_of(broker).target_epoch == 5
    settle(broker, *members)
    assert [member.count for member in members] == [1, 1, 1, 1]


def test_the_interval_is_the_groups_own() -> None:
    configs = {"group.consumer.assignment.interval.ms": 0}
    broker = SocketlessBroker(broker_configs=configs)
    broker.state.create_topic("t", 4)
    a, b = FakeReporter(broker, "a", "t"), FakeReporter(broker, "b", "t")
    a.join()
    b.join()
    assert group_of(broker).target_epoch == 3


def test_created_grown_and_deleted_topics_are_assigned_again(broker: SocketlessBroker) -> None:
    a = FakeReporter(broker, "a", "t", "later")
    a.join()
    assert a.count == 4
    for change, count in (
        (lambda: broker.state.create_topic("later", 2), 6),
        (lambda: broker.state.add_partitions("t", 5), 7),
        (lambda: broker.state.delete_topic("later"), 5),
        (lambda: broker.state.create_topic("later", 3), 8),  # with another id
    ):
        epoch = group_of(broker).epoch
        change()
        settle(broker, a)
        assert (a.count, group_of(broker).epoch) == (count, epoch + 1)


def test_expressions_find_new_topics_after_ten_seconds(broker: SocketlessBroker) -> None:
    a = FakeReporter(broker, "a", subscribed_topic_regex="t.*")
    a.join()
    assert a.count == 0  # Kafka looks for them after the response
    a.report()
    assert a.count == 4
    broker.state.create_topic("t2", 2)
    broker.clock.advance(10.0)
    a.report()
    a.report()
    assert a.count == 4
    broker.clock.advance(0.001)
    a.report()
    a.report()
    assert a.count == 6
    assert group_of(broker).subscribed_topics() == {"t", "t2"}
    assert a.report(subscribed_topic_regex="(") == InvalidRegularExpressionError.errno
    assert group_of(broker).members["a"].subscribed_regex == "t.*"


def test_expressions_match_only_topics_that_the_member_may_describe(
    broker: SocketlessBroker,
) -> None:
    broker.state.create_topic("t-secret", 2)
    broker.state.authorizer = Authorizer()
    who = broker.session.principal
    for resource, name, operation in (
        (Resource.GROUP, "g", Operation.READ),
        (Resource.TOPIC, "t", Operation.DESCRIBE),
    ):
        allowed = Acl(resource, name, Pattern.LITERAL, who, "*", operation, Permission.ALLOW)
        broker.state.authorizer.acls.add(allowed)
    a = FakeReporter(broker, "a", subscribed_topic_regex="t.*")
    assert a.join() == 0
    a.report()
    assert group_of(broker).subscribed_topics() == {"t"}
    other = FakeReporter(broker, "b", "t", "t-secret")
    assert other.join() == TopicAuthorizationFailedError.errno


def test_a_static_member_keeps_its_partitions_while_it_is_away(broker: SocketlessBroker) -> None:
    a = FakeReporter(broker, "a", "t", instance_id="i")
    b = FakeReporter(broker, "b", "t")
    a.join()
    b.join()
    settle(broker, a, b)
    kept = dict(a.owned)
    twin = FakeReporter(broker, "twin", "t", instance_id="i")
    assert twin.join() == UnreleasedInstanceIdError.errno
    assert a.leave(-2) == 0
    epoch = group_of(broker).epoch
    broker.clock.advance(40.0)
    b.report()
    assert twin.join() == 0
    assert (twin.owned, group_of(broker).epoch) == (kept, epoch)
    twin.leave(-2)
    broker.clock.advance(44.0)
    b.report()
    broker.clock.advance(1.0)  # it did not return within its session
    b.report()
    assert b.count == 4


def test_a_lost_answer_is_forgiven(broker: SocketlessBroker) -> None:
    a, b = FakeReporter(broker, "a", "t"), FakeReporter(broker, "b", "t")
    a.join()
    broker.clock.advance(1.0)
    b.join()
    a.tell()
    a.report()
    assert a.epoch == 3
    a.epoch = 2
    assert a.tell() == FENCED  # it must show that it owns no more than it may
    assert a.report() == 0
    a.epoch = 2
    (topic_id,) = a.owned
    a.owned = {topic_id: {0, 1, 2, 3}}
    assert a.report() == FENCED
    a.owned = {UUID(int=9): {0}}
    assert a.report() == FENCED


def test_a_full_group_accepts_only_returning_members() -> None:
    broker = SocketlessBroker(broker_configs={"group.consumer.max.size": 1})
    broker.state.create_topic("t", 4)
    a = FakeReporter(broker, "a", "t", instance_id="i")
    a.join()
    assert FakeReporter(broker, "b", "t").join() == GroupMaxSizeReachedError.errno
    a.leave(-2)
    assert FakeReporter(broker, "c", "t", instance_id="i").join() == 0


def test_nothing_is_left_of_a_first_report_that_failed(broker: SocketlessBroker) -> None:
    a = FakeReporter(broker, "a", subscribed_topic_regex="(")
    assert a.join() == InvalidRegularExpressionError.errno
    assert broker.state.groups.get("g") is None
    assert a.join(server_assignor="sticky") == UnsupportedAssignorError.errno


def test_a_new_coordinator_gives_everyone_time(broker: SocketlessBroker) -> None:
    three = SocketlessBroker(3)
    three.state.create_topic("t", 4)
    coordinators = three.state.coordinators
    coordinators.move(CoordinatorType.GROUP, "g", 0)
    a = FakeReporter(three, "a", "t")
    a.join()
    three.clock.advance(40.0)
    coordinators.move(CoordinatorType.GROUP, "g", 1)
    assert a.tell() == 16  # NOT_COORDINATOR
    three.clock.advance(44.0)
    assert group_of(three).state == "Stable"
    three.clock.advance(1.0)
    assert group_of(three).state == "Empty"


def test_a_group_outlives_the_cluster_but_its_members_do_not() -> None:
    """A remaining member must rejoin; it does not get an error for a missing group."""
    journal = Remembering()
    before = SocketlessBroker(journal=journal)
    before.state.create_topic("t", 4)
    a = FakeReporter(before, "a", "t")
    a.join()
    group_of(before).offsets.commit("t", 0, CommittedOffset(5))
    after = SocketlessBroker(journal=journal)
    after.state.create_topic("t", 4)
    a.broker = after
    assert a.tell() == UNKNOWN
    assert (group_of(after).state, group_of(after).epoch) == ("Empty", 2)
    assert a.join() == 0
    assert (a.epoch, a.count) == (3, 4)
    committed = group_of(after).offsets.find("t", 0)
    assert committed is not None
    assert committed.offset == 5
    a.leave()
    after.state.groups.delete("g")
    assert SocketlessBroker(journal=journal).state.groups.get("g") is None


@pytest.mark.parametrize(
    "options",
    [
        {"version": "3.9"},
        {"features": {"group.version": 0}},
        {"broker_configs": {"group.coordinator.rebalance.protocols": "classic"}},
    ],
)
def test_a_cluster_without_the_consumer_protocol(options: dict[str, object]) -> None:
    broker = SocketlessBroker(**options)
    broker.state.create_topic("t", 4)
    assert FakeReporter(broker, "a", "t").join() == UnsupportedVersionError.errno
