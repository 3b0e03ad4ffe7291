"""Code that the calls about groups share: arguments, and which errors to retry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from aiokafka_lite._arguments import wire_string
from aiokafka_lite.admin.core.item_outcomes import item_error
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
    "id_label",
    "may_settle",
    "names_of",
    "never",
    "of_coordinator",
    "partition_label",
    "partitions_of",
    "raise_of_group",
]

_OF_COORDINATOR: Final = (
    GroupLoadInProgressError,
    GroupCoordinatorNotAvailableError,
    NotCoordinatorForGroupError,
)

NAMES_UNTIL: Final = 9
"""The last version of OffsetFetch and OffsetCommit that names topics; later ones have topic ids."""


def of_coordinator(error: KafkaError) -> bool:
    """True for the errors of a coordinator that is moving or loading.

    As in Java's admin client, other errors that are retriable in Kafka's table are final for the
    administration of a group.
    """
    return isinstance(error, _OF_COORDINATOR)


def never(error: KafkaError) -> bool:
    """For calls in which Java retries errors of whole responses, but not those of single items."""
    return False


def may_settle(error: KafkaError) -> bool:
    """True for the errors that Java retries when it changes offsets: also a rebalance, which may
    be the last member's leave."""
    return of_coordinator(error) or isinstance(error, RebalanceInProgressError)


def group_label(group_id: str) -> str:
    """Name a group in an error message."""
    return f"group {group_id!r}"


def id_label(transactional_id: str) -> str:
    """Name a transactional id in an error message."""
    return f"transactional id {transactional_id!r}"


def partition_label(tp: TopicPartition) -> str:
    """Name a partition in an error message."""
    return f"partition {tp.topic}-{tp.partition}"


def raise_of_group(group_id: str, code: int, message: str | None = None) -> None:
    """Raise the error of a whole response about a group, if the code is one."""
    if code:
        raise item_error(code, group_label(group_id), message)


def names_of(name: str, given: object) -> list[str]:
    """Check an argument that is several strings, such as group ids; duplicates count once.

    Raises:
        TypeError: It is one string, or not an iterable of strings.
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
