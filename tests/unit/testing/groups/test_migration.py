"""Members of both protocols in one group, on a virtual clock."""

import pytest

from aiokafka_lite.errors import (
    GroupIdNotFound,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    TopicPartition as OwnedPartition,
)
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.committed_offsets import CommittedOffset
from aiokafka_lite.testing.groups.consumer_protocol import read_assignment
from tests.unit.testing.groups.members import FakeMember
from tests.unit.testing.groups.reporters import FakeReporter, group_of
from tests.unit.testing.raw import SocketlessBroker

REBALANCE = RebalanceInProgressError.errno
UNKNOWN = UnknownMemberIdError.errno


def metadata(*owned: int) -> bytes:
    encoded = bytearray(b"\x00\x01")
    partitions = [OwnedPartition("t", list(owned))] if owned else []
    ConsumerProtocolSubscription(["t"], None, partitions).encode(encoded, 1)
    return bytes(encoded)


def share(*numbers: int) -> bytes:
    encoded = bytearray(b"\x00\x01")
    ConsumerProtocolAssignment([TopicPartition("t", list(numbers))]).encode(encoded, 1)
    return bytes(encoded)


def synced(member: FakeMember) -> list[int]:
    """The partitions in the SyncGroup response."""
    answer = member.begin_sync().answer
    assert answer.error_code == 0
    return [
        n
        for topic in read_assignment(answer.assignment).assigned_partitions
        for n in topic.partitions
    ]


@pytest.fixture
def broker() -> SocketlessBroker:
    broker = SocketlessBroker()
    broker.state.create_topic("t", 4)
    return broker


@pytest.fixture
def old(broker: SocketlessBroker) -> FakeMember:
    """The only member of a classic group, with all four partitions."""
    member = FakeMember(broker, protocols=[("range", metadata())])
    member.join()
    assert member.begin_sync((member.member_id, share(0, 1, 2, 3))).code == 0
    return member


def classic_group(broker: SocketlessBroker) -> ClassicGroup:
    group = broker.state.groups.get("g")
    assert isinstance(group, ClassicGroup)
    return group


def test_there_and_back(broker: SocketlessBroker, old: FakeMember) -> None:
    offsets = classic_group(broker).offsets
    offsets.commit("t", 0, CommittedOffset(7))
    new = FakeReporter(broker, "new", "t")
    assert new.join() == 0
    assert new.count == 0
    assert group_of(broker).offsets is offsets
    assert old.beat() == REBALANCE
    old.protocols = [("range", metadata(0, 1, 2, 3))]
    assert old.join().error_code == 0
    kept = synced(old)
    assert len(kept) == 2
    assert old.beat() == REBALANCE  # to report that it revoked the other two
    old.protocols = [("range", metadata(*kept))]
    old.join()
    assert sorted(synced(old)) == kept
    assert old.beat() == 0
    new.report()
    assert new.count == 2
    assert group_of(broker).state == "Stable"
    assert new.leave() == 0
    assert classic_group(broker).state == "PreparingRebalance"
    assert old.beat() == REBALANCE
    old.join()
    assert old.begin_sync((old.member_id, share(0, 1, 2, 3))).code == 0
    assert old.beat() == 0
    assert classic_group(broker).offsets is offsets


def test_a_classic_member_has_its_own_session(broker: SocketlessBroker, old: FakeMember) -> None:
    new = FakeReporter(broker, "new", "t")
    new.join()
    for _ in range(3):
        broker.clock.advance(9.999)
        old.beat()
    assert old.member_id in group_of(broker).members
    broker.clock.advance(10.0)
    assert group_of(broker).members.keys() == {"new"}
    assert old.beat() == UNKNOWN


def test_a_member_that_must_rejoin_has_a_rebalance_timeout(broker: SocketlessBroker) -> None:
    new = FakeReporter(broker, "new", "t")
    new.join()
    old = FakeMember(
        broker,
        protocols=[("range", metadata())],
        rebalance_timeout_ms=5_000,
        session_timeout_ms=30_000,
    )
    old.join()
    assert synced(old) == []
    broker.clock.advance(1.0)
    new.tell()
    assert old.beat() == REBALANCE
    broker.clock.advance(4.9)
    assert old.beat() == REBALANCE
    broker.clock.advance(0.1)
    assert old.beat() == UNKNOWN


def test_a_joined_member_must_sync_by_the_deadline(broker: SocketlessBroker) -> None:
    FakeReporter(broker, "new", "t").join()
    old = FakeMember(
        broker,
        protocols=[("range", metadata())],
        rebalance_timeout_ms=5_000,
        session_timeout_ms=30_000,
    )
    old.join()
    broker.clock.advance(5.0)
    assert old.beat() == UNKNOWN


def test_the_last_member_of_the_new_protocol_falls_silent(
    broker: SocketlessBroker, old: FakeMember
) -> None:
    FakeReporter(broker, "new", "t").join()
    old.join()
    synced(old)
    for _ in range(9):
        broker.clock.advance(5.0)
        old.beat()
    assert classic_group(broker).state == "PreparingRebalance"
    assert classic_group(broker).members.keys() == {old.member_id}


@pytest.mark.parametrize(
    ("policy", "goes_over", "joins"),
    [
        ("disabled", False, False),
        ("upgrade", True, True),
        ("downgrade", False, True),
        ("bidirectional", True, True),
    ],
)
def test_the_brokers_policy(policy: str, goes_over: bool, joins: bool) -> None:
    broker = SocketlessBroker(broker_configs={"group.consumer.migration.policy": policy})
    broker.state.create_topic("t", 4)
    old = FakeMember(broker, "first", protocols=[("range", metadata())])
    old.join()
    old.begin_sync((old.member_id, share(0)))
    new = FakeReporter(broker, "new", "t", group="first")
    assert new.join() == (0 if goes_over else GroupIdNotFound.errno)
    FakeReporter(broker, "new", "t", group="second").join()
    late = FakeMember(broker, "second", protocols=[("range", metadata())])
    code = late.join().error_code
    assert code == (0 if joins else InconsistentGroupProtocolError.errno)


def test_without_a_way_back_the_group_stays_as_it_is() -> None:
    broker = SocketlessBroker(broker_configs={"group.consumer.migration.policy": "upgrade"})
    broker.state.create_topic("t", 4)
    new = FakeReporter(broker, "new", "t")
    new.join()
    old = FakeMember(broker, protocols=[("range", metadata())])
    old.join()
    synced(old)
    new.leave()
    assert group_of(broker).members.keys() == {old.member_id}


def test_wrong_requests_of_a_classic_member_are_refused(broker: SocketlessBroker) -> None:
    new = FakeReporter(broker, "new", "t")
    new.join()
    old = FakeMember(broker, protocols=[("range", metadata())])
    old.join()
    synced(old)
    old.generation += 1
    assert old.beat() == IllegalGenerationError.errno
    assert old.begin_sync().code == IllegalGenerationError.errno
    other = FakeMember(broker, protocols=[("range", b"")])
    assert other.begin_join().code == -1
    other.member_id, other.generation = "new", new.epoch
    assert other.beat() == UNKNOWN  # that one uses the other protocol


def test_a_failed_first_report_leaves_the_classic_group_alone(
    broker: SocketlessBroker, old: FakeMember
) -> None:
    new = FakeReporter(broker, "new", subscribed_topic_regex="(")
    assert new.join() != 0
    assert classic_group(broker).state == "Stable"
    assert old.beat() == 0
