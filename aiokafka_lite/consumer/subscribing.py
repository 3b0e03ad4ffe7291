"""Changes of the subscription and of the assigned partitions by the application."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.consumer.membership.assignment import Assignment
from aiokafka_lite.consumer.membership.subscription import Subscription
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:  # imported at runtime only with a group
    from aiokafka_lite.consumer.membership.consumer_group import ConsumerGroup


class Subscribing:
    """Applies the subscription of one consumer to its parts.

    Args:
        cluster: Keeps the metadata of the topics.
        subscription: What the application subscribed to, or assigned.
        assignment: The assigned partitions.
        group: The group, or None.
        started: True once the consumer is started. Before that, its start applies the changes.
        on_metadata: Called with the current metadata after a change of the subscription.
        report_refused_topics: Called after a change of the assigned partitions.
    """

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        assignment: Assignment,
        group: ConsumerGroup | None,
        *,
        started: Callable[[], bool],
        on_metadata: Callable[[Metadata], None],
        report_refused_topics: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._assignment = assignment
        self._group = group
        self._started = started
        self._on_metadata = on_metadata
        self._report_refused_topics = report_refused_topics
        self._tracked: frozenset[str] | None = frozenset()

    def subscribe(self) -> None:
        """Apply a changed subscription."""
        if self._started():
            self.track_topics()
            if self._group is not None:
                self._group.subscribe()
            elif self._subscription.pattern is not None:
                self._cluster.request_update()
            self._on_metadata(self._cluster.metadata)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assigned partitions."""
        wanted = dict.fromkeys(partitions)
        if self._group is not None:
            self._group.commits.let_go(self._assignment.partitions.difference(wanted))
        self._assignment.replace(wanted)
        if self._started():
            self.track_topics()
            self._report_refused_topics()

    def unsubscribe(self) -> None:
        """Drop the subscription and the assignment."""
        if self._group is not None:
            if self._subscription.manual:
                self._group.commits.let_go(self._assignment.partitions)
            self._group.unsubscribe()
        self._subscription.unsubscribe()
        self._assignment.replace(())
        if self._started():
            self.track_topics()
            self._report_refused_topics()

    def track_topics(self) -> None:
        """Track the metadata of the subscribed topics, and of those the group's leader watches."""
        names: frozenset[str] | None = None
        if self._subscription.pattern is None:
            names = self._subscription.topics
            if self._group is not None:
                names |= self._group.topics
        if names != self._tracked:
            self._tracked = names
            self._cluster.set_topics(names)
