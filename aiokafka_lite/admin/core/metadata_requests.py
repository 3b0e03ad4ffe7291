"""Requests topics with Metadata, and reads large responses in slices (`cluster.large_metadata`).

A response about 20,000 partitions takes 0.2 s to decode and convert. Each partition is converted as
soon as it is decoded, so that few objects live at a time.

Source: MetadataRequest.json v0-v13, KIP-516.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar
from uuid import UUID

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.large_metadata import MetadataAnswer, MetadataQuestion, read_on
from aiokafka_lite.cluster.metadata import metadata_request
from aiokafka_lite.cluster.retry import raise_error_code
from aiokafka_lite.errors import UnknownTopicOrPartitionError
from aiokafka_lite.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

__all__ = ["FoundTopic", "TopicMetadata"]

P = TypeVar("P")

FoundTopic: TypeAlias = tuple[MetadataResponseTopic, list[P]]
"""A topic, without `partitions`, and the converted form of each of its partitions."""

_AT_ONCE: Final = 1000
"""Topics in a request: to encode 20,000 names takes 20 ms."""
_NO_CREATION_FROM: Final = 4
"""The version that can name a topic without creating it (Kafka 0.11)."""


class TopicMetadata(Generic[P]):
    """The topics of Metadata responses; a `TopicSink`.

    Args:
        convert: Returns the converted form of a partition.

    Attributes:
        found: The topics, in the order of the responses.
        brokers: The brokers of the last response.
    """

    def __init__(self, convert: Callable[[MetadataResponsePartition], P]) -> None:
        self.found: list[FoundTopic[P]] = []
        self.brokers = MetadataAnswer().brokers
        self._convert = convert
        self._partitions: list[P] = []

    async def request(
        self,
        ask: Callable[[PerVersion[MetadataAnswer]], Awaitable[MetadataAnswer]],
        topics: Sequence[str] | Sequence[UUID] | None,
        *,
        include_authorized_operations: bool = False,
    ) -> list[FoundTopic[P]]:
        """Request topics, by their names or their ids, or all topics (None); creates none.

        Brokers before 0.11 create topics that a request names, so the client requests all topics
        from them.

        Args:
            ask: Sends a request and returns its response.

        Raises:
            KafkaError: Any error of `ask`, or the error of a whole response.
        """
        everything = False

        def build(version: int, part: Sequence[str] | Sequence[UUID] | None) -> MetadataQuestion:
            nonlocal everything
            everything = version < _NO_CREATION_FROM
            names = [each for each in part or () if isinstance(each, str)]
            request = metadata_request(
                None if everything or part is None else names, version, auto_create=False
            )
            if part is not None and not everything and request.topics is not None:
                request.topics += [
                    MetadataRequestTopic(topic_id=each, name=None)
                    for each in part
                    if isinstance(each, UUID)
                ]
            request.include_topic_authorized_operations = include_authorized_operations
            return MetadataQuestion(request)

        def question(
            part: Sequence[str] | Sequence[UUID] | None,
        ) -> PerVersion[MetadataAnswer]:
            return PerVersion(MetadataRequest, lambda version: build(version, part))

        starts = range(0, 1 if topics is None else len(topics), _AT_ONCE)
        for start in starts:
            part = None if topics is None else topics[start : start + _AT_ONCE]
            answer = await ask(question(part))
            await read_on(answer, self)
            raise_error_code(answer)
            self.brokers = answer.brokers
            if everything and topics is not None:
                return self._only(topics)
        return self.found

    def _only(self, topics: Sequence[str] | Sequence[UUID]) -> list[FoundTopic[P]]:
        found = {topic.name: (topic, partitions) for topic, partitions in self.found}
        unknown = UnknownTopicOrPartitionError.errno
        self.found = [
            found.get(name) or (MetadataResponseTopic(error_code=unknown, name=name), [])
            for name in topics
            if isinstance(name, str)
        ]
        return self.found

    # As a TopicSink

    def begin(self, cluster_id: str | None) -> None:
        """A response begins."""

    def begin_topic(self, reported: MetadataResponseTopic) -> None:
        """A topic begins."""
        self._partitions = []
        self.found.append((reported, self._partitions))

    def add_partition(self, reported: MetadataResponsePartition) -> None:
        """Convert and keep a partition of the current topic."""
        self._partitions.append(self._convert(reported))

    def end_topic(self) -> None:
        """The current topic ends."""
