"""Reads a large metadata response in slices so that the event loop is not blocked.

A consumer that subscribes by pattern requests all topics. A response with 100,000 partitions takes
half a second to decode and a third of a second to merge. In one go, that would block the event loop
every five minutes. So the bytes of a large response are kept, and decoded and merged partition by
partition, with a yield to the event loop every `SLICE` seconds. Decoded objects are dropped as soon
as they are merged, which also saves the garbage collector work.

Meanwhile the old snapshot stays in use, and leader hints still apply (`Merging.finish`).

Source: MetadataResponse.json, versions 9 and newer (Kafka 2.4); older responses are read at once.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import ClassVar, Final, Self

from aiokafka_lite.cluster.metadata_merge import Merging
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID, Reader

LARGE: Final = 32 * 1024
"""Bytes from which a response is read in slices: about 700 partitions, and 5 ms."""

SLICE: Final = 0.002
"""Seconds of reading before a yield to the event loop."""

LOOK_EVERY: Final = 32
"""Partitions between two reads of the clock."""

_SLICED_FROM: Final = 9


class MetadataAnswer(MetadataResponse):
    """A response that is not decoded if it is large; `unread` then holds its body."""

    __slots__ = ("unread",)

    unread: Reader | None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        if version < _SLICED_FROM or reader.remaining < LARGE:
            self = super().decode(reader, version)
            self.unread = None
            return self
        self = cls()
        self.unread = Reader(reader.raw(reader.remaining))
        return self


class MetadataQuestion:
    """A MetadataRequest that returns a `MetadataAnswer`; a `RequestOf`.

    Args:
        request: The request.
    """

    api_key: ClassVar[int] = MetadataRequest.api_key
    name: ClassVar[str] = MetadataRequest.name
    min_version: ClassVar[int] = MetadataRequest.min_version
    max_version: ClassVar[int] = MetadataRequest.max_version
    flexible_from: ClassVar[int] = MetadataRequest.flexible_from
    response: ClassVar[type[MetadataAnswer]] = MetadataAnswer

    def __init__(self, request: MetadataRequest) -> None:
        self.encode = request.encode


async def read_on(answer: MetadataAnswer, merging: Merging, version: int) -> None:
    """Merge a response. Decodes an unread one first; all fields but its topics are set on it.

    Raises:
        KafkaProtocolError: The bytes are not a MetadataResponse.

    Cancellation: leaves the response partly read; no other caller uses it.
    """
    reader = answer.unread
    if reader is None:
        merging.add_all(answer)
        return
    answer.unread = None
    answer.throttle_time_ms = reader.int32()
    brokers = reader.array_length(True)
    answer.brokers = [MetadataResponseBroker.decode(reader, version) for _ in range(brokers)]
    answer.cluster_id = reader.nullable_string(True)
    answer.controller_id = reader.int32()
    merging.begin(answer.cluster_id)
    until = perf_counter() + SLICE
    credit = LOOK_EVERY
    for _ in range(reader.array_length(True)):
        topic = MetadataResponseTopic(error_code=reader.int16())
        topic.name = reader.nullable_string(True) if version >= 12 else reader.string(True)
        topic.topic_id = reader.uuid() if version >= 10 else ZERO_UUID
        topic.is_internal = reader.boolean()
        merging.begin_topic(topic)
        for _ in range(reader.array_length(True)):
            merging.add_partition(MetadataResponsePartition.decode(reader, version))
            credit -= 1
            if credit <= 0:
                credit = LOOK_EVERY
                if perf_counter() >= until:
                    await asyncio.sleep(0)
                    until = perf_counter() + SLICE
        reader.int32()  # authorized operations, which are not requested
        reader.tagged_fields()
        merging.end_topic()
        credit -= 1
    if version <= 10:
        answer.cluster_authorized_operations = reader.int32()
    if version >= 13:
        answer.error_code = reader.int16()
    answer.unknown_tagged_fields = reader.tagged_fields()
    reader.expect_end()
