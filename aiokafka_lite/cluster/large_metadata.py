"""A large metadata answer, read a slice at a time so that the event loop goes on.

Who reads by pattern asks for all topics. An answer about 100,000 partitions takes half a second to
decode and a third to merge: at once, that would be a service standing still every five minutes. So
the bytes of a large answer are kept as they came, and are decoded and merged partition by
partition, with the loop let run every `SLICE` seconds. What is decoded is dropped as soon as it is
merged, so that there is less for the garbage collector to go through, too.

Meanwhile the old snapshot is in force, and a leader told in passing counts (`Merging.finish`).

Source: MetadataResponse.json, versions 9 and newer (Kafka 2.4); older answers are read at once.
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
"""Bytes from which on an answer is read in slices: about 700 partitions, and 5 ms."""

SLICE: Final = 0.002
"""Seconds of reading after which the event loop is let run."""

LOOK_EVERY: Final = 32
"""Partitions between two looks at the clock."""

_SLICED_FROM: Final = 9


class MetadataAnswer(MetadataResponse):
    """A response that stays unread while it is large; then `unread` is what follows its header."""

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
    """A MetadataRequest that gets a `MetadataAnswer`; a `RequestOf`.

    Args:
        request: What is asked.
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
    """Merge an answer. What is unread of it is read: all but its topics into it.

    Raises:
        KafkaProtocolError: The bytes are not a MetadataResponse.

    Cancellation: leaves the answer half read; nobody else has seen it.
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
        reader.int32()  # what the client is allowed to do with it, which is not asked for
        reader.tagged_fields()
        merging.end_topic()
        credit -= 1
    if version <= 10:
        answer.cluster_authorized_operations = reader.int32()
    if version >= 13:
        answer.error_code = reader.int16()
    answer.unknown_tagged_fields = reader.tagged_fields()
    reader.expect_end()
