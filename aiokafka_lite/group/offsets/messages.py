"""Builds offset requests to a group's coordinator and reads the responses. Sans-IO.

`store` uses them for one group; the admin client uses them for several groups in a request, and
transactions for TxnOffsetCommit, whose response has the form of OffsetCommit's.

Requests use topic ids where the version has them (OffsetCommit and OffsetFetch v10, TxnOffsetCommit
v6). The coordinator then rejects a commit for a topic that was deleted and recreated under its
name, instead of moving the offsets of the new one.

Source: OffsetCommitRequest.json v1-v10, OffsetFetchRequest.json v1-v10, KIP-211, 320, 345, 447,
709, 848.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.group.membership import CommitIdentity
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
    OffsetFetchResponse,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "COMMIT_NAMES_UNTIL",
    "FETCH_ALL_FROM",
    "FETCH_NAMES_UNTIL",
    "NO_EPOCH",
    "NO_GENERATION",
    "OLDEST",
    "Committed",
    "GroupAnswer",
    "GroupQuestion",
    "PartitionAnswer",
    "TopicIds",
    "answered",
    "commit_request",
    "fetch_request",
    "read_fetch",
]

OLDEST: Final = 1
"""Version 0 of both stored offsets in ZooKeeper."""

COMMIT_NAMES_UNTIL: Final = 9
FETCH_NAMES_UNTIL: Final = 9
"""Last versions that use topic names."""

FETCH_ALL_FROM: Final = 2
"""First OffsetFetch version that can request all partitions (Kafka 0.10.2)."""

_GROUPS_FROM: Final = 8
_STABLE_FROM: Final = 7
NO_GENERATION: Final = -1
NO_EPOCH: Final = -1


class Committed(NamedTuple):
    """A group's committed offset for a partition."""

    offset: int
    """Offset of the next record to read."""
    leader_epoch: int | None
    """Leader epoch of the record before it; None if unknown (before Kafka 2.1)."""
    metadata: str
    """Metadata of the commit, "" for none."""


class TopicIds:
    """A snapshot of the ids of some topics.

    Attributes:
        by_name: Id by name, for the topics that have one.

    Args:
        by_name: The same.
    """

    def __init__(self, by_name: Mapping[str, UUID]) -> None:
        self.by_name = by_name
        self._names = {topic_id: name for name, topic_id in by_name.items()}

    @classmethod
    def of(cls, metadata: Metadata, names: Iterable[str]) -> TopicIds:
        """The ids of these topics in the metadata."""
        topics = ((name, metadata.topics.get(name)) for name in names)
        return cls({name: t.topic_id for name, t in topics if t is not None and t.topic_id})

    def cover(self, names: Collection[str]) -> bool:
        """True if all these topics have an id: a request uses ids or names, never both."""
        return all(name in self.by_name for name in names)

    def name_of(self, name: str, topic_id: UUID) -> str | None:
        """The name of a topic in a response; None if it was not requested."""
        return name if topic_id == ZERO_UUID else self._names.get(topic_id)


# --- committing


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    identity: CommitIdentity | None,
    ids: TopicIds,
    version: int,
) -> OffsetCommitRequest:
    """Build an OffsetCommit request.

    Args:
        identity: The member that commits; None: not a member.
        ids: Topic ids; required from version 10 on.
    """
    member_id, generation, instance_id = identity or ("", NO_GENERATION, None)
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for tp, offset in offsets.items():
        topic = topics.get(tp.topic)
        if topic is None:
            by_id = version > COMMIT_NAMES_UNTIL
            topic = topics[tp.topic] = OffsetCommitRequestTopic(
                name="" if by_id else tp.topic,
                topic_id=ids.by_name[tp.topic] if by_id else ZERO_UUID,
                partitions=[],
            )
        epoch = offset.leader_epoch
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=NO_EPOCH if epoch is None else epoch,
                committed_metadata=offset.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=list(topics.values()),
    )


class _PartitionCode(Protocol):
    partition_index: int
    error_code: int


class _TopicCodes(Protocol):
    name: str
    topic_id: UUID

    @property
    def partitions(self) -> Sequence[_PartitionCode]: ...


def answered(topics: Iterable[_TopicCodes], ids: TopicIds) -> Iterator[tuple[TopicPartition, int]]:
    """The error code of each partition in a response to OffsetCommit or TxnOffsetCommit.

    Args:
        topics: Topics of the response.
        ids: Topic ids of the request.
    """
    for topic in topics:
        name = ids.name_of(topic.name, topic.topic_id)
        if name is not None:
            for partition in topic.partitions:
                yield TopicPartition(name, partition.partition_index), partition.error_code


# --- reading what was committed


@dataclass(frozen=True, slots=True)
class GroupQuestion:
    """An offset query for one group.

    Attributes:
        partitions: Partitions to fetch; None: all that have a committed offset.
        identity: The member of a KIP-848 group that asks, which is rejected if its epoch is stale;
            None: not a member, never rejected as stale.
    """

    partitions: Collection[TopicPartition] | None
    identity: CommitIdentity | None = None


PartitionAnswer: TypeAlias = Committed | int | None
"""The committed offset, an error code, or None if nothing is committed."""


class GroupAnswer(NamedTuple):
    """The response for one group."""

    error_code: int
    """Error code of the group. Version 1 has it at each partition."""
    partitions: Mapping[TopicPartition, PartitionAnswer]


def fetch_request(
    asked: Mapping[str, GroupQuestion], ids: TopicIds, version: int, *, require_stable: bool
) -> OffsetFetchRequest:
    """Build an OffsetFetch request.

    Args:
        asked: Queries by group id; only one before version 8.
        ids: Topic ids; required from version 10 on.
        require_stable: Reject offsets that an open transaction may change. Brokers before 2.5
            (version 7) ignore it and return the offset from before the transaction.
    """
    if version >= _GROUPS_FROM:
        return OffsetFetchRequest(
            groups=[_group(each, question, ids, version) for each, question in asked.items()],
            require_stable=require_stable,
        )
    ((group_id, question),) = asked.items()
    return OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if question.partitions is None
        else [
            OffsetFetchRequestTopic(name, indexes)
            for name, indexes in _by_topic(question.partitions).items()
        ],
        require_stable=require_stable and version >= _STABLE_FROM,
    )


def _group(
    group_id: str, question: GroupQuestion, ids: TopicIds, version: int
) -> OffsetFetchRequestGroup:
    topics: list[OffsetFetchRequestTopics] | None = None
    if question.partitions is not None:
        by_id = version > FETCH_NAMES_UNTIL
        topics = [
            OffsetFetchRequestTopics(
                name="" if by_id else name,
                topic_id=ids.by_name[name] if by_id else ZERO_UUID,
                partition_indexes=indexes,
            )
            for name, indexes in _by_topic(question.partitions).items()
        ]
    group = OffsetFetchRequestGroup(group_id, topics=topics)
    if question.identity is not None:
        group.member_id = question.identity.member_id
        group.member_epoch = question.identity.generation
    return group


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


def read_fetch(
    response: OffsetFetchResponse, version: int, asked: Collection[str], ids: TopicIds
) -> dict[str, GroupAnswer]:
    """Read an OffsetFetch response, by group.

    Args:
        version: Version of the request.
        asked: Queries of the request; old responses do not name the group.
        ids: Topic ids of the request.
    """
    if version >= _GROUPS_FROM:
        return {
            group.group_id: GroupAnswer(
                group.error_code,
                {
                    TopicPartition(name, result.partition_index): _partition(
                        result.error_code,
                        result.committed_offset,
                        result.committed_leader_epoch,
                        result.metadata,
                    )
                    for topic in group.topics
                    if (name := ids.name_of(topic.name, topic.topic_id)) is not None
                    for result in topic.partitions
                },
            )
            for group in response.groups
        }
    (group_id,) = asked
    partitions = {
        TopicPartition(topic.name, result.partition_index): _partition(
            result.error_code,
            result.committed_offset,
            result.committed_leader_epoch,
            result.metadata,
        )
        for topic in response.topics
        for result in topic.partitions
    }
    return {group_id: GroupAnswer(response.error_code, partitions)}


def _partition(code: int, offset: int, epoch: int, metadata: str | None) -> PartitionAnswer:
    if code:
        return code
    if offset < 0:
        return None
    return Committed(offset, None if epoch < 0 else epoch, metadata or "")
