"""Derives the topic layouts that a member receives from the cluster's metadata. Sans-IO.

A leader rebalances whenever the layout of a watched topic changes, so temporary problems must not
look like a change:

- A topic that is unknown to a broker may be new to that broker. It counts as deleted after
  `GONE_AFTER`.
- A topic's partitions only increase: a response with fewer for the same topic id is outdated.
- A broker that is down keeps its last rack.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from aiokafka_lite.cluster.metadata import Metadata, Node, Topic
from aiokafka_lite.errors import UnknownTopicOrPartitionError
from aiokafka_lite.group.membership import TopicLayout

__all__ = ["GONE_AFTER", "Layouts"]

GONE_AFTER: Final = 5.0
"""Seconds after which a missing topic counts as deleted."""


class Layouts:
    """The topic layouts that one member received so far."""

    def __init__(self) -> None:
        self._known: dict[str, TopicLayout] = {}
        self._missing_since: dict[str, float] = {}
        self._racks: dict[int, str] = {}

    def of(
        self, topics: Collection[str], metadata: Metadata, now: float
    ) -> Mapping[str, TopicLayout]:
        """The layouts of these topics that exist; other topics are dropped.

        Args:
            now: Loop time when `metadata` was read.
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
            if node.rack:  # unknown for a node from a coordinator lookup
                self._racks[node_id] = node.rack


def _is_there(topic: Topic) -> bool:
    """True if a broker has the topic; other errors, such as a missing leader, do not matter."""
    return bool(topic.partitions) and topic.error is not UnknownTopicOrPartitionError
