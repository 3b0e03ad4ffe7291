"""Reads a large metadata response in slices so that the event loop is not blocked.

A consumer that subscribes by pattern requests all topics every five minutes, and the admin client
describes them. A response with 100,000 partitions takes half a second to decode and a third of a
second to merge. Done in one step, this would block the event loop. So the bytes of a large response
are kept; they are decoded and merged partition by partition, with a yield to the event loop every
`SLICE` seconds. Decoded objects are dropped as soon as they are merged, which also saves the
garbage collector work.

Meanwhile the old snapshot stays in use, and leader hints still apply (`Merging.finish`).

Source: MetadataResponse.json, versions 9 and newer (Kafka 2.4); older responses are read at once.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import ClassVar, Final, Protocol, Self

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


class TopicSink(Protocol):
    """Receives the topics of a response, partition by partition; `Merging` is one."""

    def begin(self, cluster_id: str | None) -> None:
        """A response from a cluster begins (None: the id is not reported)."""
        ...

    def begin_topic(self, reported: MetadataResponseTopic) -> None:
        """A topic begins, without its partitions."""
        ...

    def add_partition(self, reported: MetadataResponsePartition) -> None:
        """A partition of the current topic."""
        ...

    def end_topic(self) -> None:
        """The current topic has no more partitions; its other fields are complete."""
        ...


class Slices:
    """Divides long work in the event loop: `if slices.over(): await slices.pause()`."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = perf_counter() + SLICE

    def over(self) -> bool:
        """True if the current slice has taken `SLICE` seconds."""
        return perf_counter() >= self._until

    async def pause(self) -> None:
        """Let pending callbacks run, and begin the next slice. Cancellation: safe."""
        await asyncio.sleep(0)
        self._until = perf_counter() + SLICE


class MetadataAnswer(MetadataResponse):
    """A response that is not decoded if it is large; `unread` then holds its body, without
    `throttle_time_ms`.

    Attributes:
        unread: None if the response is complete.
        version: The API version of `unread`.
    """

    __slots__ = ("unread", "version")

    unread: Reader | None
    version: int

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        if version < _SLICED_FROM or reader.remaining < LARGE:
            self = super().decode(reader, version)
            self.unread = None
        else:
            self = cls(throttle_time_ms=reader.int32())  # the connection acts on it at once
            self.unread = Reader(reader.raw(reader.remaining))
        self.version = version
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


async def read_on(answer: MetadataAnswer, sink: TopicSink) -> None:
    """Give the topics of a response to `sink`. Decodes an unread response first; all fields but its
    topics are set on it.

    Raises:
        KafkaProtocolError: The bytes are not a MetadataResponse.

    Cancellation: leaves the response partly read; no other caller uses it.
    """
    reader = answer.unread
    if reader is None:
        sink.begin(answer.cluster_id)
        for topic in answer.topics:
            sink.begin_topic(topic)
            for partition in topic.partitions:
                sink.add_partition(partition)
            sink.end_topic()
        return
    answer.unread = None
    version = answer.version
    brokers = reader.array_length(True)
    answer.brokers = [MetadataResponseBroker.decode(reader, version) for _ in range(brokers)]
    answer.cluster_id = reader.nullable_string(True)
    answer.controller_id = reader.int32()
    sink.begin(answer.cluster_id)
    slices = Slices()
    credit = LOOK_EVERY
    for _ in range(reader.array_length(True)):
        topic = MetadataResponseTopic(error_code=reader.int16())
        topic.name = reader.nullable_string(True) if version >= 12 else reader.string(True)
        topic.topic_id = reader.uuid() if version >= 10 else ZERO_UUID
        topic.is_internal = reader.boolean()
        sink.begin_topic(topic)
        for _ in range(reader.array_length(True)):
            sink.add_partition(MetadataResponsePartition.decode(reader, version))
            credit -= 1
            if credit <= 0:
                credit = LOOK_EVERY
                if slices.over():
                    await slices.pause()
        topic.topic_authorized_operations = reader.int32()
        topic.unknown_tagged_fields = reader.tagged_fields()
        sink.end_topic()
        credit -= 1
    if version <= 10:
        answer.cluster_authorized_operations = reader.int32()
    if version >= 13:
        answer.error_code = reader.int16()
    answer.unknown_tagged_fields = reader.tagged_fields()
    reader.expect_end()
