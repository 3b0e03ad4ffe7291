"""Withholds partitions of topics that are no longer subscribed to until the group revokes them.

The member keeps them until the rebalance that the new subscription triggers, and commits the
positions of their delivered records. The application subscribed to other topics, so its reads must
no longer return records of these, as in aiokafka; in Java the next `poll` rebalances first.

Non-obvious: the rebalance itself withholds and releases partitions in transit; this module
withholds them only after that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from aiokafka_lite.consumer.membership.assignment import Assignment
from aiokafka_lite.consumer.membership.subscription import Subscription
from aiokafka_lite.structs import TopicPartition


class Unwanted:
    """The assigned partitions of topics that the application no longer subscribes to.

    Args:
        subscription: The application's subscription.
        assignment: The consumer's assignment.
    """

    def __init__(self, subscription: Subscription, assignment: Assignment) -> None:
        self._subscription = subscription
        self._assignment = assignment
        self._topics: set[str] = set()
        self._held: set[TopicPartition] = set()

    def on_subscription(self, before: Iterable[str]) -> None:
        """The application changed its subscription.

        Args:
            before: The previously subscribed topics; those of the assignment are added.
        """
        self._topics.update(before, (tp.topic for tp in self._assignment.partitions))
        self._topics = {name for name in self._topics if not self._subscription.wants(name)}
        self.hold()

    def hold(self) -> None:
        """Withhold unsubscribed partitions, and release those subscribed to again."""
        held = {tp for tp in self._assignment.partitions if tp.topic in self._topics}
        self._assignment.release(self._held - held)
        held = {tp for tp in held if tp in self._held or not self._assignment.is_in_transit(tp)}
        self._assignment.withhold(held)
        self._held = held

    def on_unsubscribe(self) -> None:
        """Drop all state: the group no longer assigns the partitions."""
        self._topics.clear()
        self._held.clear()

    def on_transit(self, partitions: Collection[TopicPartition]) -> None:
        """A rebalance revokes or assigns these partitions, and withholds them itself."""
        self._held.difference_update(partitions)
