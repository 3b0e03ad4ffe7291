"""The bytes of subscriptions and assignments: every version, including newer ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.group.assignment_data import (
    Assignment,
    Subscription,
    read_assignment,
    read_subscription,
    subscribed_topics,
    write_assignment,
    write_subscription,
)
from aiokafka_lite.structs import TopicPartition

OWNED = (TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0))
FULL = Subscription(("a", "b"), OWNED, 4, "north", b"mine")


@pytest.mark.parametrize(
    ("version", "read"),
    [
        (0, Subscription(("a", "b"), user_data=b"mine")),
        (1, Subscription(("a", "b"), OWNED, user_data=b"mine")),
        (2, Subscription(("a", "b"), OWNED, 4, user_data=b"mine")),
        (3, FULL),
    ],
)
def test_an_old_version_omits_later_fields(version: int, read: Subscription) -> None:
    assert read_subscription(write_subscription(FULL, version)) == read


def test_a_newer_version_is_read_as_our_newest() -> None:
    data = b"\x00\x09" + write_subscription(FULL)[2:] + b"what we know nothing of"
    assert read_subscription(data) == FULL
    assigned = Assignment(OWNED, b"mine")
    data = b"\x00\x09" + write_assignment(assigned)[2:] + b"what we know nothing of"
    assert read_assignment(data) == assigned


def test_topics_and_partitions_are_encoded_once_and_in_order() -> None:
    shuffled = Subscription(("b", "a"), (OWNED[2], OWNED[1], OWNED[0]), 4, "north", b"mine")
    assert write_subscription(shuffled) == write_subscription(FULL)


def test_an_empty_rack_is_none_and_a_topic_counts_once() -> None:
    data = write_subscription(Subscription(("a", "a"), rack=""))
    assert read_subscription(data, "i1") == Subscription(("a",), instance_id="i1")


def test_no_bytes_assign_nothing() -> None:
    assert read_assignment(b"") == Assignment()


def test_all_topics_of_a_group() -> None:
    group = [Subscription(("a", "b")), Subscription(()), Subscription(("c", "b"))]
    assert subscribed_topics(map(write_subscription, group)) == {"a", "b", "c"}


@pytest.mark.parametrize("version", range(4))
def test_topics_of_an_assignor_in_aiokafka_s_form(version: int) -> None:
    """It writes the fields of version 0, regardless of its `version`."""
    data = ConsumerProtocolMemberMetadata(version, ["b", "a"], b"mine").encode()
    assert subscribed_topics([data]) == {"a", "b"}


@pytest.mark.parametrize("read", [read_assignment, read_subscription])
@pytest.mark.parametrize("data", [b"\xff\xff" + bytes(20), b"\x00", b"\x00\x03\x7f\xff\xff\xff"])
def test_malformed_data_is_refused(read: object, data: bytes) -> None:
    assert callable(read)
    with pytest.raises(KafkaProtocolError):
        read(data)


def test_a_negative_partition_is_refused() -> None:
    data = write_assignment(Assignment((TopicPartition("t", 0), TopicPartition("t", -1))))
    with pytest.raises(KafkaProtocolError, match="negative"):
        read_assignment(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_assignment, read_subscription):
        try:
            read(data)
        except KafkaProtocolError:
            continue
