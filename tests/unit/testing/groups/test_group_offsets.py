"""Committed offsets: their expiry, transactions that may change them, and a restart."""

from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.errors import (
    OffsetMetadataTooLargeError,
    UnstableOffsetCommitError,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from aiokafka_lite.testing.groups.base_group import Group
from aiokafka_lite.testing.groups.committed_offsets import (
    CommittedOffset,
    GroupOffsets,
    check_metadata,
)
from tests.unit.testing.groups.members import FakeMember, form
from tests.unit.testing.raw import NOW_MS, SocketlessBroker
from tests.unit.testing.remembering import Remembering

DAY = 86_400.0
WEEK = 7 * DAY  # how long offsets are kept


@pytest.fixture
def broker() -> SocketlessBroker:
    broker = SocketlessBroker()
    broker.state.create_topic("orders", 2)
    broker.state.create_topic("other", 1)
    return broker


def commit(
    broker: SocketlessBroker,
    *offsets: int,
    group: str = "g",
    topic: str = "orders",
    member: FakeMember | None = None,
    version: int = 8,
    node: int = 0,
    **fields: Any,
) -> list[int]:
    """Commit an offset for each partition from 0 on; return the error codes."""
    partitions = [OffsetCommitRequestPartition(*each) for each in enumerate(offsets)]
    request = OffsetCommitRequest(
        group, topics=[OffsetCommitRequestTopic(topic, partitions=partitions)], **fields
    )
    if member is not None:
        request.member_id = member.member_id
        request.generation_id_or_member_epoch = member.generation
    (answer,) = broker.ask(request, version, node).topics
    return [each.error_code for each in answer.partitions]


def committed(
    broker: SocketlessBroker, group: str = "g", topic: str = "orders", node: int = 0
) -> list[int]:
    """The offsets of partitions 0 and 1, -1 for none."""
    wanted = [OffsetFetchRequestTopics(topic, partition_indexes=[0, 1])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=wanted)])
    (answer,) = broker.ask(request, 8, node).groups[0].topics
    return [each.committed_offset for each in answer.partitions]


def consumer(broker: SocketlessBroker, *topics: str) -> FakeMember:
    encoded = bytearray(b"\x00\x01")
    ConsumerProtocolSubscription(list(topics)).encode(encoded, 1)
    return FakeMember(broker, protocols=[("range", bytes(encoded))], session_timeout_ms=1_800_000)


def group_of(broker: SocketlessBroker, group_id: str = "g") -> Group:
    group = broker.state.groups.get(group_id)
    assert group is not None
    return group


# Expiry


def test_offsets_of_outsiders_go_a_week_after_their_commit(broker: SocketlessBroker) -> None:
    commit(broker, 1, 2)
    broker.clock.advance(DAY)
    commit(broker, 3)
    broker.clock.advance(WEEK - DAY)
    broker.state.groups.expire_offsets()
    assert committed(broker) == [3, -1]
    broker.clock.advance(DAY)
    assert committed(broker) == [-1, -1]
    assert broker.state.groups.get("g") is None


def test_offsets_of_an_empty_group_go_a_week_after_its_last_member(
    broker: SocketlessBroker,
) -> None:
    member = consumer(broker, "orders")
    form(member)
    assert commit(broker, 1, 2, member=member) == [0, 0]
    broker.clock.advance(1_700)
    assert member.leave() == 0
    broker.clock.advance(WEEK - 1)
    broker.state.groups.expire_offsets()
    assert committed(broker) == [1, 2]
    broker.clock.advance(1)
    broker.state.groups.expire_offsets()
    assert committed(broker) == [-1, -1]
    assert broker.state.groups.get("g") is None


def keep_alive(broker: SocketlessBroker, member: FakeMember, seconds: float) -> None:
    while seconds > 0:
        broker.clock.advance(min(seconds, 1_700.0))
        assert member.beat() == 0
        seconds -= 1_700.0


def test_offsets_of_topics_without_readers_expire(broker: SocketlessBroker) -> None:
    member = consumer(broker, "orders")
    form(member)
    commit(broker, 1, 2, member=member)
    commit(broker, 3, topic="other", member=member)
    keep_alive(broker, member, WEEK + 600)
    assert committed(broker) == [1, 2]
    assert committed(broker, topic="other") == [-1, -1]


@pytest.mark.parametrize(("protocol_type", "metadata"), [("connect", b"x"), ("consumer", b"?")])
def test_offsets_of_members_with_an_unknown_subscription_are_kept(
    broker: SocketlessBroker, protocol_type: str, metadata: bytes
) -> None:
    protocols = [("p", metadata)]
    member = FakeMember(
        broker, protocol_type=protocol_type, protocols=protocols, session_timeout_ms=1_800_000
    )
    form(member)
    commit(broker, 1, member=member)
    keep_alive(broker, member, WEEK + 600)
    assert committed(broker) == [1, -1]


def test_a_group_that_rebalances_keeps_its_offsets(broker: SocketlessBroker) -> None:
    member = consumer(broker, "other")
    member.rebalance_timeout_ms = 2**31 - 1
    form(member)
    commit(broker, 1, member=member)
    newcomer = consumer(broker, "other")
    newcomer.begin_join()
    keeping = group_of(broker)
    assert keeping.state == "PreparingRebalance"
    assert not keeping.expire_offsets(broker.clock.now_ms() + 2**40, 1)
    assert committed(broker) == [1, -1]


def test_an_old_client_sets_the_retention_time(broker: SocketlessBroker) -> None:
    commit(broker, 1, version=4, retention_time_ms=60_000)
    commit(broker, 2, group="kept", version=4)
    broker.clock.advance(59)
    broker.state.groups.expire_offsets()
    assert committed(broker) == [1, -1]
    broker.clock.advance(1)
    broker.state.groups.expire_offsets()
    assert committed(broker) == [-1, -1]
    assert committed(broker, "kept") == [2, -1]


def test_an_older_client_sets_the_expiry_time(broker: SocketlessBroker) -> None:
    partition = OffsetCommitRequestPartition(0, 5, commit_timestamp=NOW_MS - 6 * 86_400_000)
    topics = [OffsetCommitRequestTopic("orders", partitions=[partition])]
    broker.ask(OffsetCommitRequest("g", topics=topics), 1)
    broker.clock.advance(DAY - 1)
    broker.state.groups.expire_offsets()
    assert committed(broker) == [5, -1]
    broker.clock.advance(1)
    broker.state.groups.expire_offsets()
    assert committed(broker) == [-1, -1]


def test_expiry_is_looked_for_every_ten_minutes(broker: SocketlessBroker) -> None:
    commit(broker, 1, version=4, retention_time_ms=60_000)
    broker.clock.advance(599.9)
    assert broker.state.groups.get("g") is not None
    broker.clock.advance(0.1)
    assert broker.state.groups.get("g") is None


def test_a_member_that_left_cannot_commit(broker: SocketlessBroker) -> None:
    member = consumer(broker, "orders")
    form(member)
    assert commit(broker, 1, member=member) == [0]
    assert commit(broker, 2) == [25]  # nor may a stranger, while there are members
    assert member.leave() == 0
    assert commit(broker, 3, member=member) == [25]
    assert commit(broker, 4, group="other", member=member) == [22]
    member.generation = 0
    assert commit(broker, 4, group="other", member=member) == [22]
    assert commit(broker, 4, group="other", member=member, version=9) == [69]
    assert committed(broker) == [1, -1]
    assert commit(broker, 5) == [0]


# Versions that Kafka 4 has dropped


def test_v0_commits_from_outside(broker: SocketlessBroker) -> None:
    assert commit(broker, 7, version=0) == [0]
    assert commit(broker, 8, version=0, topic="none") == [3]
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0, 1])])
    (answer,) = broker.ask(request, 0).topics
    assert [(each.committed_offset, each.error_code) for each in answer.partitions] == [
        (7, 0),
        (-1, 0),
    ]


def test_v1_of_a_fetch_has_no_place_for_an_error_but_at_partitions(
    three_brokers: SocketlessBroker,
) -> None:
    from aiokafka_lite.testing.coordinator_table import CoordinatorType

    broker = three_brokers
    node = broker.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id
    wrong = (node + 1) % 3
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0])])
    (partition,) = broker.ask(request, 1, wrong).topics[0].partitions
    assert (partition.error_code, partition.committed_offset) == (16, -1)
    answer = broker.ask(request, 2, wrong)
    assert (answer.error_code, answer.topics) == (16, [])
    newer = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    assert broker.ask(newer, 8, wrong).groups[0].error_code == 16
    assert commit_to(broker, wrong) == 3  # there is no topic: the group is not checked
    broker.state.create_topic("orders", 1)
    assert commit_to(broker, wrong) == 16


def commit_to(broker: SocketlessBroker, node: int) -> int:
    partitions = [OffsetCommitRequestPartition(0, 1)]
    topics = [OffsetCommitRequestTopic("orders", partitions=partitions)]
    answer = broker.ask(OffsetCommitRequest("g", topics=topics), 8, node)
    return int(answer.topics[0].partitions[0].error_code)


# Created and deleted topics


def test_deleting_a_topic_deletes_its_offsets(broker: SocketlessBroker) -> None:
    commit(broker, 1, 2)
    commit(broker, 3, topic="other")
    group_of(broker).offsets.commit_pending(5, "orders", 0, CommittedOffset(9))
    broker.state.delete_topic("orders")
    assert committed(broker) == [-1, -1]
    group_of(broker).offsets.on_marker(5, committed=True)
    assert committed(broker) == [-1, -1]
    assert committed(broker, topic="other") == [3, -1]


def test_by_id_a_topic_created_again_is_another_one(broker: SocketlessBroker) -> None:
    before = broker.state.topics["orders"].topic_id
    broker.state.delete_topic("orders")
    broker.state.create_topic("orders", 1)
    for topic_id, code in ((before, 100), (UUID(int=9), 100)):
        partitions = [OffsetCommitRequestPartition(0, 1)]
        topics = [OffsetCommitRequestTopic("", topic_id, partitions)]
        (answer,) = broker.ask(OffsetCommitRequest("g", topics=topics), 10).topics
        assert answer.partitions[0].error_code == code


# Transactions


def pending(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, commit_ms=NOW_MS)


def test_an_open_transaction_makes_offsets_unstable(broker: SocketlessBroker) -> None:
    commit(broker, 1, 2)
    offsets = group_of(broker).offsets
    offsets.commit_pending(7, "orders", 0, pending(10))
    wanted = [OffsetFetchRequestTopics("orders", partition_indexes=[0, 1])]
    for topics in (wanted, None):
        groups = [OffsetFetchRequestGroup("g", topics=topics)]
        request = OffsetFetchRequest(groups=groups, require_stable=True)
        (answer,) = broker.ask(request, 8).groups[0].topics
        assert [(each.error_code, each.committed_offset) for each in answer.partitions] == [
            (UnstableOffsetCommitError.errno, -1),
            (0, 2),
        ]
    assert committed(broker) == [1, 2]
    offsets.on_marker(7, committed=True)
    assert committed(broker) == [10, 2]
    assert not offsets.has_pending("orders", 0)


def test_an_aborted_transaction_commits_nothing(broker: SocketlessBroker) -> None:
    commit(broker, 1)
    offsets = group_of(broker).offsets
    offsets.commit_pending(7, "orders", 0, pending(10))
    offsets.commit_pending(8, "orders", 0, pending(20))
    offsets.on_marker(7, committed=False)
    offsets.on_marker(9, committed=True)  # of an unrelated producer
    assert committed(broker) == [1, -1]
    assert offsets.has_pending("orders", 0)


def test_a_later_commit_wins_over_a_transaction_that_ends_after_it(
    broker: SocketlessBroker,
) -> None:
    commit(broker, 1)
    offsets = group_of(broker).offsets
    offsets.commit_pending(7, "orders", 0, pending(10))
    commit(broker, 5)
    offsets.on_marker(7, committed=True)
    assert committed(broker) == [5, -1]


def test_nothing_expires_under_an_open_transaction(broker: SocketlessBroker) -> None:
    commit(broker, 1)
    group_of(broker).offsets.commit_pending(7, "orders", 0, pending(10))
    broker.clock.advance(WEEK + 600)
    assert committed(broker) == [1, -1]
    group_of(broker).offsets.on_marker(7, committed=False)
    broker.clock.advance(600)
    assert broker.state.groups.get("g") is None


# Metadata


@pytest.mark.parametrize(("text", "length"), [("", 0), ("abc", 3), ("é", 1), ("😀", 2)])
def test_metadata_is_measured_as_java_does(text: str, length: int) -> None:
    assert check_metadata(text, length) == text
    with pytest.raises(OffsetMetadataTooLargeError):
        check_metadata(text + "x", length)


def test_no_metadata_is_empty_metadata() -> None:
    assert check_metadata(None, 0) == ""


# A restart


def test_a_restart_forgets_members_but_neither_group_nor_offsets() -> None:
    journal = Remembering()
    before = SocketlessBroker(journal=journal)
    before.state.create_topic("orders", 2)
    member = consumer(before, "orders")
    form(member)
    commit(before, 4, 5, member=member)
    commit(before, 6, group="outside")
    group_of(before).offsets.commit_pending(0, "orders", 0, pending(10))
    after = SocketlessBroker(journal=journal)
    group = group_of(after)
    assert (group.state, group.kind) == ("Empty", "classic")
    assert committed(after) == [4, 5]
    assert committed(after, "outside") == [6, -1]
    assert group.offsets.has_pending("orders", 0)
    member.broker = after
    assert member.beat() == 25
    group.offsets.on_marker(0, committed=True)
    assert committed(after) == [10, 5]
    member.member_id = ""
    assert member.join().generation_id == 2
    for group_id in ("g", "outside"):
        after.state.groups.delete(group_id)
    assert not [key for key in journal.kept if key[0] in ("offset", "group")]


def test_a_commit_after_a_pending_one_survives_a_restart() -> None:
    journal = Remembering()
    before = GroupOffsets("g", journal)
    before.commit("orders", 0, CommittedOffset(1))
    before.commit_pending(7, "orders", 0, CommittedOffset(10))
    before.commit("orders", 0, CommittedOffset(5))
    after = SocketlessBroker(journal=journal)
    group_of(after).offsets.on_marker(7, committed=True)
    assert committed(after) == [5, -1]
    group_of(after).offsets.commit_pending(8, "orders", 0, CommittedOffset(20))
    group_of(after).offsets.on_marker(8, committed=True)
    assert committed(after) == [20, -1]


def test_deleted_offsets_leave_the_journal() -> None:
    journal = Remembering()
    offsets = GroupOffsets("g", journal)
    offsets.commit("orders", 0, CommittedOffset(1))
    offsets.commit_pending(7, "orders", 0, CommittedOffset(2))
    offsets.commit_pending(7, "orders", 1, CommittedOffset(3))
    assert len(journal.kept) == 3
    assert offsets.delete("orders", 0)
    assert not offsets.delete("orders", 1)
    assert journal.kept == {}
