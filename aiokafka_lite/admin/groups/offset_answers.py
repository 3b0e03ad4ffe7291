"""Requests the offsets of many groups, and reads the responses in slices, without intermediate
objects.

A response about 250 groups can have any number of partitions, so its bytes are kept, and read group
by group. A partition in the common form has no error and no metadata, and so a fixed size.

Source: OffsetFetchRequest.json and OffsetFetchResponse.json v8-v9; KIP-709.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from struct import Struct
from typing import ClassVar, Final, NamedTuple, Self, TypeAlias

from aiokafka_lite.cluster.large_metadata import Slices
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.group.offsets.messages import FETCH_NAMES_UNTIL
from aiokafka_lite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
)
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = [
    "GROUPS_FROM",
    "AnsweredGroup",
    "OffsetsAnswer",
    "OffsetsQuestion",
    "PartitionOffset",
    "read_on",
]

GROUPS_FROM: Final = 8
"""The version of OffsetFetch that names several groups."""

PartitionOffset: TypeAlias = OffsetAndMetadata | int | None
"""The committed offset of a partition, an error code, or None if nothing is committed."""

_PLAIN: Final = Struct(">iqiBhB")
"""A partition without metadata: index, offset, epoch; length of the metadata + 1, error, tags."""


class AnsweredGroup(NamedTuple):
    """The response for one group."""

    group_id: str
    error_code: int
    partitions: dict[TopicPartition, PartitionOffset]
    plain: bool
    """True if each partition has a committed offset."""


class OffsetsAnswer(OffsetFetchResponse):
    """A response whose groups are not decoded; `unread` holds them.

    Attributes:
        unread: The rest of the body.
    """

    __slots__ = ("unread",)

    unread: Reader

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        if not GROUPS_FROM <= version <= FETCH_NAMES_UNTIL:
            raise KafkaProtocolError(f"OffsetFetch version {version} does not name groups")
        self = cls(throttle_time_ms=reader.int32())
        self.unread = Reader(reader.raw(reader.remaining))
        return self


class OffsetsQuestion:
    """An OffsetFetchRequest that returns an `OffsetsAnswer`; a `RequestOf`.

    Args:
        request: The request, with groups.
    """

    api_key: ClassVar[int] = OffsetFetchRequest.api_key
    name: ClassVar[str] = OffsetFetchRequest.name
    min_version: ClassVar[int] = OffsetFetchRequest.min_version
    max_version: ClassVar[int] = OffsetFetchRequest.max_version
    flexible_from: ClassVar[int] = OffsetFetchRequest.flexible_from
    response: ClassVar[type[OffsetsAnswer]] = OffsetsAnswer

    def __init__(self, request: OffsetFetchRequest) -> None:
        self.encode = request.encode


async def read_on(answer: OffsetsAnswer) -> AsyncIterator[AnsweredGroup]:
    """Yield the groups of a response. Lets the event loop run between them.

    Raises:
        KafkaProtocolError: The bytes are not an OffsetFetchResponse.

    Cancellation: leaves the response partly read; no other caller uses it.
    """
    reader = answer.unread
    known: dict[str, dict[int, TopicPartition]] = {}
    slices = Slices()
    for _ in range(reader.array_length(True)):
        yield _read_group(reader, known)
        if slices.over():
            await slices.pause()
    reader.tagged_fields()
    reader.expect_end()


def _read_group(reader: Reader, known: dict[str, dict[int, TopicPartition]]) -> AnsweredGroup:
    """Read a group.

    Args:
        known: The partitions so far by topic and index: groups have the same ones.
    """
    group_id = reader.string(True)
    found: dict[TopicPartition, PartitionOffset] = {}
    plain = True
    for _ in range(reader.array_length(True)):
        topic = reader.string(True)
        partitions = known.get(topic)
        if partitions is None:
            partitions = known[topic] = {}
        count = reader.array_length(True)
        start = reader.pos
        for index, offset, epoch, size, code, tags in _PLAIN.iter_unpack(
            reader.raw(count * _PLAIN.size)
        ):
            if index < 0 or offset < 0 or size != 1 or code or tags:
                reader.pos = start
                plain = False
                for _ in range(count):
                    _read_partition(reader, topic, found)
                break
            tp = partitions.get(index)
            if tp is None:
                tp = partitions[index] = TopicPartition(topic, index)
            found[tp] = OffsetAndMetadata(offset, "", None if epoch < 0 else epoch)
        reader.tagged_fields()
    answered = AnsweredGroup(group_id, reader.int16(), found, plain)
    reader.tagged_fields()
    return answered


def _read_partition(
    reader: Reader, topic: str, found: dict[TopicPartition, PartitionOffset]
) -> None:
    """Read a partition of any form."""
    each = OffsetFetchResponsePartitions.decode(reader, FETCH_NAMES_UNTIL)
    if each.partition_index < 0:
        raise KafkaProtocolError(f"an offset of a negative partition: {each.partition_index}")
    committed: PartitionOffset = each.error_code
    if not committed:
        epoch = each.committed_leader_epoch
        committed = (
            None
            if each.committed_offset < 0
            else OffsetAndMetadata(
                each.committed_offset, each.metadata or "", None if epoch < 0 else epoch
            )
        )
    found[TopicPartition(topic, each.partition_index)] = committed
