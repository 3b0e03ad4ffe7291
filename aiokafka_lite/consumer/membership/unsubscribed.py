"""Partitions of topics that are subscribed to no longer: held back until the group takes them.

Their member keeps them until the rebalance that the new subscription brings about, and commits what
was read of them. The application asked for other topics, and its reads shall not tell of these any
more, as in aiokafka; in Java the `poll` that follows rebalances first.

Non-obvious: what a rebalance is about to take or to give is its own to hand out, and held back here
only from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from aiokafka_lite.consumer.membership.assignment import Assignment
from aiokafka_lite.consumer.membership.subscription import Subscription
from aiokafka_lite.structs import TopicPartition


class Unwanted:
    """What one group's member has of topics that its application has given up.

    Args:
        subscription: What the application wants.
        assignment: What it has.
    """

    def __init__(self, subscription: Subscription, assignment: Assignment) -> None:
        self._subscription = subscription
        self._assignment = assignment
        self._topics: set[str] = set()
        self._held: set[TopicPartition] = set()

    def on_subscription(self, before: Iterable[str]) -> None:
        """The application subscribes anew.

        Args:
            before: The topics it had subscribed to; what is assigned counts, too.
        """
        self._topics.update(before, (tp.topic for tp in self._assignment.partitions))
        self._topics = {name for name in self._topics if not self._subscription.wants(name)}
        self.hold()

    def hold(self) -> None:
        """Hold back what is not wanted, and hand out what is wanted again."""
        held = {tp for tp in self._assignment.partitions if tp.topic in self._topics}
        self._assignment.release(self._held - held)
        held = {tp for tp in held if tp in self._held or not self._assignment.is_in_transit(tp)}
        self._assignment.withhold(held)
        self._held = held

    def on_unsubscribe(self) -> None:
        """Nothing is the group's to take any more: what is assigned now is wanted."""
        self._topics.clear()
        self._held.clear()

    def on_transit(self, partitions: Collection[TopicPartition]) -> None:
        """The group takes or gives these: whether they are handed out is its own affair."""
        self._held.difference_update(partitions)
