"""Whether partitions that metadata does not tell any more are gone, or only not told. Sans-IO.

A broker that has just started, or lags, may tell a topic with fewer partitions than it has, or not
at all; who gave up their positions would skip or repeat records when they are back. Partitions of
a topic are never taken away but with the whole topic. So what is not told stays until it was not
told for `patience` seconds, in more than one answer; or until the topic is told under another id:
then it was deleted and made again, with fewer partitions.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple
from uuid import UUID

from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.errors import UnknownTopicIdError, UnknownTopicOrPartitionError
from aiokafka_lite.structs import TopicPartition

PATIENCE: Final = 10.0
"""Seconds. A deletion is known to all brokers of a cluster within one or two."""


_NOT_THERE: Final = (UnknownTopicOrPartitionError, UnknownTopicIdError)


class _Absence(NamedTuple):
    """Since when a partition is not told, and by which metadata that was seen first."""

    since: float
    version: int


class Presence:
    """Remembers which of the partitions that are read are not told.

    Args:
        patience: Seconds after which such a partition is gone.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._absent: dict[TopicPartition, _Absence] = {}
        self._ids: dict[str, UUID] = {}  # of the topics that are read, as last told

    def kept(
        self, metadata: Metadata, partitions: Collection[TopicPartition], now: float
    ) -> set[TopicPartition]:
        """The partitions that are not told but not gone either.

        Args:
            metadata: As it was told now.
            partitions: Those that are read.
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
                kept.add(tp)  # an error that says nothing about it
                continue
            absence = self._absent.get(tp, _Absence(now, metadata.version))
            if now - absence.since < self._patience or metadata.version == absence.version:
                kept.add(tp)
                absent[tp] = absence
        self._absent = absent
        self._ids = ids
        return kept
