"""A codec for common commits. It is faster than the generated code, which handles all others.

A consumer of thousands of partitions commits them all at once, on the event loop. The common case
is a version with tagged fields (8, Kafka 2.4, or newer) whose response has no error.

Source: OffsetCommitRequest.json and OffsetCommitResponse.json v8-v10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import ClassVar, Final, Self
from uuid import UUID

from aiokafka_lite.group.membership import CommitIdentity
from aiokafka_lite.group.offsets.messages import (
    COMMIT_NAMES_UNTIL,
    NO_EPOCH,
    NO_GENERATION,
    TopicIds,
    answered,
    commit_request,
)
from aiokafka_lite.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from aiokafka_lite.protocol.primitives import (
    INT32,
    Reader,
    write_array_length,
    write_nullable_string,
    write_string,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["CommitAnswer", "CommitQuestion"]

OLDEST: Final = 8
NEWEST: Final = 10
"""Versions that this codec supports."""

_WORDLESS: Final = Struct(">iqiBB")
"""A partition to commit without metadata: index, offset, epoch; the length of "" + 1, tags."""
_WITH_WORDS: Final = Struct(">iqi")
_ANSWERED: Final = Struct(">ihB")
"""A partition in a response: index, error code, tags."""


class CommitAnswer(OffsetCommitResponse):
    """A response with a compact form for the case that all offsets are stored.

    Attributes:
        stored: In that case the partitions, by topic name or id, and `topics` is empty; otherwise
            None.
    """

    __slots__ = ("stored",)

    stored: dict[str | UUID, tuple[int, ...]] | None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        start = reader.pos
        if OLDEST <= version <= NEWEST:
            self = cls(reader.int32())
            self.stored = _read_stored(reader, by_id=version > COMMIT_NAMES_UNTIL)
            if self.stored is not None:
                return self
            reader.pos = start
        self = super().decode(reader, version)
        self.stored = None
        return self

    def codes(self, ids: TopicIds) -> Iterator[tuple[TopicPartition, int]]:
        """The error code of each partition.

        Args:
            ids: Topic ids of the request.
        """
        if self.stored is None:
            yield from answered(self.topics, ids)
        else:
            for topic, partition in self.all_stored(ids):
                yield TopicPartition(topic, partition), 0

    def all_stored(self, ids: TopicIds) -> set[tuple[str, int]]:
        """The partitions of `stored`, as plain pairs, which are fast to create by thousands."""
        return {
            (name, partition)
            for topic, partitions in (self.stored or {}).items()
            if (name := topic if isinstance(topic, str) else ids.name_of("", topic)) is not None
            for partition in partitions
        }


def _read_stored(reader: Reader, *, by_id: bool) -> dict[str | UUID, tuple[int, ...]] | None:
    """The partitions of a response, read from its topics to its end, if all are stored; None if one
    is not, or if there are unknown fields."""
    stored: dict[str | UUID, tuple[int, ...]] = {}
    for _ in range(reader.array_length(True)):
        topic = reader.uuid() if by_id else reader.string(True)
        count = reader.array_length(True)
        # The first partition with tags is longer, but its tag count is still read in place,
        # because no partition before it has tags.
        results = list(_ANSWERED.iter_unpack(reader.raw(count * _ANSWERED.size)))
        if topic in stored or not results:
            return None
        partitions, codes, tags = zip(*results, strict=True)
        if any(codes) or any(tags) or reader.tagged_fields():
            return None
        stored[topic] = partitions
    return None if reader.tagged_fields() else stored


class CommitQuestion:
    """An OffsetCommitRequest that returns a `CommitAnswer`; a `RequestOf`.

    Args:
        group_id: The group's name.
        offsets: Offsets to commit.
        identity: The member that commits; None: not a member.
        ids: Topic ids; required from version 10 on.
    """

    api_key: ClassVar[int] = OffsetCommitRequest.api_key
    name: ClassVar[str] = OffsetCommitRequest.name
    min_version: ClassVar[int] = OffsetCommitRequest.min_version
    max_version: ClassVar[int] = OffsetCommitRequest.max_version
    flexible_from: ClassVar[int] = OffsetCommitRequest.flexible_from
    response: ClassVar[type[CommitAnswer]] = CommitAnswer

    def __init__(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        identity: CommitIdentity | None,
        ids: TopicIds,
    ) -> None:
        self._group_id = group_id
        self._offsets = offsets
        self._identity = identity
        self._ids = ids

    def encode(self, out: bytearray, version: int) -> None:
        """Append the body; see `Struct.encode`."""
        if not OLDEST <= version <= NEWEST:
            request = commit_request(
                self._group_id, self._offsets, self._identity, self._ids, version
            )
            request.encode(out, version)
            return
        member_id, generation, instance_id = self._identity or ("", NO_GENERATION, None)
        write_string(out, self._group_id, True)
        out += INT32.pack(generation)
        write_string(out, member_id, True)
        write_nullable_string(out, instance_id, True)
        topics = self._partitions_by_topic()
        write_array_length(out, len(topics), True)
        for topic, partitions in topics.items():
            if version > COMMIT_NAMES_UNTIL:
                out += self._ids.by_name[topic].bytes
            else:
                write_string(out, topic, True)
            write_array_length(out, len(partitions), True)
            out += b"".join(partitions)
            out.append(0)
        out.append(0)

    def _partitions_by_topic(self) -> dict[str, list[bytes | bytearray]]:
        """The encoded partitions by topic, for a version that this codec supports."""
        topics: dict[str, list[bytes | bytearray]] = {}
        for (topic, partition), committed in self._offsets.items():
            written = topics.get(topic)
            if written is None:
                written = topics[topic] = []
            offset, metadata = committed
            epoch = committed.leader_epoch
            if epoch is None:
                epoch = NO_EPOCH
            if metadata:
                wordy = bytearray(_WITH_WORDS.pack(partition, offset, epoch))
                write_string(wordy, metadata, True)
                wordy.append(0)
                written.append(wordy)
            else:
                written.append(_WORDLESS.pack(partition, offset, epoch, 1, 0))
        return topics
