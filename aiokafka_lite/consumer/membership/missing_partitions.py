"""Decides whether partitions missing from metadata were deleted. Sans-IO.

A broker that has just started, or lags, may report a topic with too few partitions, or omit it. A
consumer that dropped their positions would skip or repeat records when they reappear. Partitions
are deleted only together with their topic. So a missing partition is kept until it was missing for
`patience` seconds in more than one response; or until the topic appears with another id, because
then it was deleted and recreated with fewer partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple
from uuid import UUID

from aiokafka_lite.cluster.metadata import Metadata, Topic
from aiokafka_lite.errors import UnknownTopicIdError, UnknownTopicOrPartitionError
from aiokafka_lite.structs import TopicPartition

PATIENCE: Final = 10.0
"""Seconds. All brokers of a cluster receive a deletion within one or two seconds."""


_NOT_THERE: Final = (UnknownTopicOrPartitionError, UnknownTopicIdError)


class _Absence(NamedTuple):
    """When a partition was first missing, and the metadata version that first lacked it."""

    since: float
    version: int


class Presence:
    """Tracks the assigned partitions that are missing from metadata.

    Args:
        patience: Seconds after which a missing partition counts as deleted.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._absent: dict[TopicPartition, _Absence] = {}
        self._ids: dict[str, UUID] = {}  # of the assigned topics, as last reported

    def know(self, topics: Iterable[Topic]) -> None:
        """Store the ids of assigned topics that were not passed to `kept`."""
        self._ids.update((topic.name, topic.topic_id) for topic in topics if topic.topic_id)

    def kept(
        self, metadata: Metadata, partitions: Collection[TopicPartition], now: float
    ) -> set[TopicPartition]:
        """Return the partitions that are missing but do not count as deleted yet.

        Args:
            metadata: The newest metadata.
            partitions: The assigned partitions.
            now: Monotonic seconds.
        """
        kept: set[TopicPartition] = set()
        absent: dict[TopicPartition, _Absence] = {}
        ids: dict[str, UUID] = {}
        for tp in partitions:
            topic = metadata.topics.get(tp.topic)
            before = self._ids.get(tp.topic)
            known = before if topic is None or topic.topic_id is None else topic.topic_id
            if known is not None:
                ids[tp.topic] = known
            if topic is not None and topic.error is None:
                if tp.partition in topic.partitions:
                    continue
                if None not in (before, topic.topic_id) and before != topic.topic_id:
                    continue
            elif topic is not None and topic.error not in _NOT_THERE:
                kept.add(tp)  # the error does not mean that the partition is missing
                continue
            absence = self._absent.get(tp, _Absence(now, metadata.version))
            if now - absence.since < self._patience or metadata.version == absence.version:
                kept.add(tp)
                absent[tp] = absence
        self._absent = absent
        self._ids = ids
        return kept
