"""What a member is told of topics, out of the cluster's metadata. Sans-IO.

A leader rebalances whenever the layout of a topic that it watches changes, so passing trouble must
not look like a change:

- A topic that a broker does not know may be one that the broker has not heard of yet. It counts as
  gone after `GONE_AFTER`.
- Partitions are only ever added to a topic: an answer with fewer of the same topic (by its id) is
  an old one.
- The rack of a broker that is down is the one it had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from aiokafka_lite.cluster.metadata import Metadata, Node, Topic
from aiokafka_lite.errors import UnknownTopicOrPartitionError
from aiokafka_lite.group.membership import TopicLayout

__all__ = ["GONE_AFTER", "Layouts"]

GONE_AFTER: Final = 5.0
"""Seconds for which a topic is missing before it is believed to be deleted."""


class Layouts:
    """The layouts of topics as told so far; one of these belongs to one member."""

    def __init__(self) -> None:
        self._known: dict[str, TopicLayout] = {}
        self._missing_since: dict[str, float] = {}
        self._racks: dict[int, str] = {}

    def of(
        self, topics: Collection[str], metadata: Metadata, now: float
    ) -> Mapping[str, TopicLayout]:
        """The layouts of these topics, as far as they exist; others are forgotten.

        Args:
            now: When `metadata` was looked at.
        """
        self._learn_racks(metadata.brokers)
        layouts: dict[str, TopicLayout] = {}
        missing_since: dict[str, float] = {}
        for name in topics:
            topic, known = metadata.topics.get(name), self._known.get(name)
            if topic is not None and _is_there(topic):
                layouts[name] = self._layout(topic, known)
            elif known is not None:
                since = missing_since[name] = self._missing_since.get(name, now)
                if now < since + GONE_AFTER:
                    layouts[name] = known
        self._known, self._missing_since = layouts, missing_since
        return layouts

    def _layout(self, topic: Topic, known: TopicLayout | None) -> TopicLayout:
        count = len(topic.partitions)
        if (
            known is not None
            and topic.topic_id is not None
            and known.topic_id == topic.topic_id
            and known.partitions > count
        ):
            return known
        racks: tuple[frozenset[str], ...] = ()
        if self._racks:
            racks = tuple(
                frozenset(
                    self._racks[replica]
                    for replica in topic.partitions[number].replicas
                    if replica in self._racks
                )
                for number in sorted(topic.partitions)
            )
        return TopicLayout(count, racks, topic.topic_id)

    def _learn_racks(self, brokers: Mapping[int, Node]) -> None:
        for node_id, node in brokers.items():
            if node.rack:  # which is unknown of one that a coordinator look-up told
                self._racks[node_id] = node.rack


def _is_there(topic: Topic) -> bool:
    """True if a broker knows it; other errors, such as that it has no leader, do not matter."""
    return bool(topic.partitions) and topic.error is not UnknownTopicOrPartitionError
