"""A classic member's subscription, and the changes that make it rejoin. A leader watches the topics
of all members (KIP-62) and their racks (KIP-881). Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from aiokafka_lite.group.membership import TopicLayout
from aiokafka_lite.structs import TopicPartition


class Watch:
    """The subscription of one member, the one it joined with, and the leader's view of topics.

    Attributes:
        topics: The current subscription.
        joined: The subscription in the last JoinGroup; None: there was none.

    Args:
        racks: True if the racks of partitions matter.
    """

    def __init__(self, *, racks: bool) -> None:
        self._racks = racks
        self.topics: frozenset[str] = frozenset()
        self.joined: frozenset[str] | None = None
        self._matches: Callable[[str], bool] | None = None
        self._group_topics: frozenset[str] = frozenset()
        self._layouts: dict[str, TopicLayout] = {}
        self._elected_with: dict[str, TopicLayout] | None = None

    @property
    def watched(self) -> frozenset[str]:
        """Topics whose metadata matters: this member's; for a leader, those of all members."""
        return self.topics | self._group_topics

    def on_subscription(
        self, topics: Collection[str], matches: Callable[[str], bool] | None
    ) -> None:
        """The application changes its subscription."""
        self.topics = frozenset(topics)
        self._matches = matches

    def on_metadata(self, topics: Mapping[str, TopicLayout]) -> None:
        """New topic layouts arrived."""
        self._layouts = dict(topics)

    def on_join(self) -> None:
        """A JoinGroup is sent with `topics`; the next leader is not known yet."""
        self.joined = self.topics
        self.stop_leading()

    def on_elected(self, topics: Collection[str]) -> None:
        """This member leads: it watches the topics of the whole group from now on."""
        self._group_topics = frozenset(topics)
        self._elected_with = self._snapshot()

    def stop_leading(self) -> None:
        """Another member leads and watches the topics."""
        self._group_topics = frozenset()
        self._elected_with = None

    def forget(self) -> None:
        """The member left: clear the subscription."""
        self.topics = frozenset()
        self.joined = None
        self._matches = None
        self.stop_leading()

    def why_rejoin(self) -> str | None:
        """The change since the last join that requires a rejoin, or None."""
        if self.joined is not None and self.joined != self.topics:
            return "subscription has changed since the last join"
        if self._elected_with is not None and self._elected_with != (now := self._snapshot()):
            changed = sorted(
                topic
                for topic in self._group_topics
                if self._elected_with.get(topic) != now.get(topic)
            )
            return f"metadata of {', '.join(changed)} has changed since the assignment"
        return None

    def accept(self, partitions: Collection[TopicPartition]) -> bool:
        """True if an assignment matches the subscription; its topics are then added to it.

        The leader may know topics of this member's pattern that it does not know yet itself.
        """
        others = {tp.topic for tp in partitions} - self.topics
        if others and not (self._matches is not None and all(map(self._matches, others))):
            return False
        self.topics |= others
        if self.joined is not None:
            self.joined |= others
        return True

    def _snapshot(self) -> dict[str, TopicLayout]:
        """The data that the leader's assignment depends on. Topic ids do not count: a recreated
        topic has the same partitions to assign."""
        return {
            topic: TopicLayout(layout.partitions, layout.racks if self._racks else ())
            for topic in self._group_topics
            if (layout := self._layouts.get(topic)) is not None
        }
