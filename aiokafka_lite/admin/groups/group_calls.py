"""What the calls about groups share: their arguments, and the errors that are worth a retry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from aiokafka_lite._arguments import wire_string
from aiokafka_lite.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    KafkaProtocolError,
    NotCoordinatorForGroupError,
    RebalanceInProgressError,
)
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "NAMES_UNTIL",
    "by_topic",
    "group_label",
    "may_settle",
    "names_of",
    "of_coordinator",
    "partitions_of",
]

_OF_COORDINATOR: Final = (
    GroupLoadInProgressError,
    GroupCoordinatorNotAvailableError,
    NotCoordinatorForGroupError,
)

NAMES_UNTIL: Final = 9
"""The last version of OffsetFetch and OffsetCommit that names topics; later ones have topic ids."""


def of_coordinator(error: KafkaError) -> bool:
    """True for the errors of a coordinator that moves or loads.

    As in Java's admin client, others that Kafka's table calls retriable are final for the
    administration of a group.
    """
    return isinstance(error, _OF_COORDINATOR)


def may_settle(error: KafkaError) -> bool:
    """True for the errors that Java retries when it changes offsets: also a rebalance, which may
    be the last member's leave."""
    return of_coordinator(error) or isinstance(error, RebalanceInProgressError)


def group_label(group_id: str) -> str:
    """Name a group in an error message."""
    return f"group {group_id!r}"


def names_of(name: str, given: object) -> list[str]:
    """Check an argument that is several strings, such as group ids; duplicates count once.

    Raises:
        TypeError: It is one string, or no iterable of strings.
        ValueError: A string cannot be sent.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"`{name}` must be an iterable of strings, not {given!r}")
    return list(dict.fromkeys(wire_string(name, each) for each in given))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions by topic, in order."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


class _NamedPartitions(Protocol):
    @property
    def topic_name(self) -> str: ...
    @property
    def partitions(self) -> Sequence[int]: ...


class _Assignment(Protocol):
    @property
    def topic_partitions(self) -> Sequence[_NamedPartitions]: ...


def partitions_of(assignment: _Assignment | None) -> frozenset[TopicPartition]:
    """Return the partitions of an assignment in a response; none if there is no assignment.

    Raises:
        KafkaProtocolError: A partition is negative.
    """
    if assignment is None:
        return frozenset()
    found = frozenset(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )
    if any(tp.partition < 0 for tp in found):
        raise KafkaProtocolError("the coordinator describes an assignment of a negative partition")
    return found
