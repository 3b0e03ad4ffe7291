"""The usual commit, written and read faster than by the generated code, which does all others.

Who reads thousands of partitions commits them all at once, on the event loop. Usual is: a version
with tagged fields (8, Kafka 2.4, or newer), answered by "all of them are stored".

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
"""Versions that are written and read by hand."""

_WORDLESS: Final = Struct(">iqiBB")
"""A partition to commit without metadata: index, offset, epoch; the length of "" + 1, tags."""
_WITH_WORDS: Final = Struct(">iqi")
_ANSWERED: Final = Struct(">ihB")
"""A partition that was answered: index, error code, tags."""


class CommitAnswer(OffsetCommitResponse):
    """A response that is kept in short where it says of everything that it was stored.

    Attributes:
        stored: Then the partitions, by the name or the id of their topic, and `topics` is empty;
            otherwise None.
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
            ids: As they were asked with.
        """
        if self.stored is None:
            yield from answered(self.topics, ids)
        else:
            for topic, partition in self.all_stored(ids):
                yield TopicPartition(topic, partition), 0

    def all_stored(self, ids: TopicIds) -> set[tuple[str, int]]:
        """The partitions of `stored`: plain pairs, of which thousands are made in no time."""
        return {
            (name, partition)
            for topic, partitions in (self.stored or {}).items()
            if (name := topic if isinstance(topic, str) else ids.name_of("", topic)) is not None
            for partition in partitions
        }


def _read_stored(reader: Reader, *, by_id: bool) -> dict[str | UUID, tuple[int, ...]] | None:
    """The partitions of an answer, from its topics to its end, if each is stored; None if one is
    not, or if something is told that is not known here."""
    stored: dict[str | UUID, tuple[int, ...]] = {}
    for _ in range(reader.array_length(True)):
        topic = reader.uuid() if by_id else reader.string(True)
        count = reader.array_length(True)
        # A partition with tags takes more: its tags are found where those of all before it end.
        told = list(_ANSWERED.iter_unpack(reader.raw(count * _ANSWERED.size)))
        if topic in stored or not told:
            return None
        partitions, codes, tags = zip(*told, strict=True)
        if any(codes) or any(tags) or reader.tagged_fields():
            return None
        stored[topic] = partitions
    return None if reader.tagged_fields() else stored


class CommitQuestion:
    """An OffsetCommitRequest that gets a `CommitAnswer`; a `RequestOf`.

    Args:
        group_id: The group's name.
        offsets: What to commit.
        identity: The member that commits; None: nobody of the group.
        ids: Of the topics; needed from version 10 on.
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
        """Each partition in the bytes of a version that is written by hand."""
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
