"""The methods of `AIOKafkaConsumer` that select what is read: subscribe, assign, pause.

A base class of `AIOKafkaConsumer`, separate only to keep both readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer.membership.subscription import SubscriptionPattern
from aiokafka_lite.consumer.offset_calls import OffsetCalls
from aiokafka_lite.group.assignment_lease import ConsumerGroupMetadata
from aiokafka_lite.structs import TopicPartition


class SubscriptionCalls(OffsetCalls):
    """Methods that select the topics and partitions to read."""

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others.

        A partition that was already assigned keeps its position. A new one starts where
        `auto_offset_reset` or `seek` sets it.

        Raises:
            IllegalStateError: The consumer is subscribed to topics or a pattern.
            TypeError: An element is not a TopicPartition.
            ValueError: A partition number is below 0 or above 2**31 - 1.
            InvalidTopicError: A request cannot carry a topic name. The broker checks whether the
                name is legal.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        self._check_wanted()
        self._core.assign(self._core.subscription.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """Return a new set of the assigned partitions."""
        return self._core.assignment.partitions

    def subscribe(
        self,
        topics: Sequence[str] | set[str] = (),
        pattern: str | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics, replacing the previous subscription, whose records are no longer
        returned.

        In a group, the members share the partitions, and this consumer joins the next rebalance.
        Without a group, the consumer reads all partitions. A metadata refresh
        (`metadata_max_age_ms`) finds partitions, and with a pattern topics, that are added later.
        Where the group has no committed offset, reading starts at `auto_offset_reset`.

        Args:
            topics: Topic names.
            pattern: A regular expression that is matched from the beginning of each topic name
                (`re.match`), or a `SubscriptionPattern`, which the broker resolves. Pass either
                this or `topics`.
            listener: Called when the group assigns and revokes partitions; never called without
                a group. The rebalance waits for its methods; if one raises, the exception is
                logged and the rebalance continues. A new listener also receives the partitions
                that are already assigned: in a rebalance that this call starts, or, with
                `group_protocol="consumer"`, at the next change.

        Raises:
            TypeError: Neither or both of `topics` and `pattern` are given, or one has the wrong
                type.
            ValueError: The pattern is not a regular expression; or it is a `SubscriptionPattern`
                without `group_protocol="consumer"`.
            InvalidTopicError: A request cannot carry a topic name. Reads raise it later for a
                name that the broker rejects.
            IllegalStateError: Partitions are assigned manually, or the consumer is subscribed in
                the other way.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        self._check_wanted()
        self._core.subscription.subscribe(topics, pattern, listener)
        self._core.subscribe()

    def subscription(self) -> frozenset[str]:
        """Return the topics that are subscribed to, matched by the pattern, or those of the
        assigned partitions (also with a pattern that the broker resolves)."""
        return self._core.subscription.topics

    def unsubscribe(self) -> None:
        """Stop reading and discard all positions. `subscribe` or `assign` may follow.

        The consumer leaves its group in the background: with auto-commit it commits the offsets of
        delivered records, the listener's `on_partitions_revoked` receives all partitions, and the
        group assigns them to the other members.
        """
        self._core.check_home()
        self._core.unsubscribe()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions, buffered ones included, until `resume`.

        Raises:
            TypeError: An argument is not a TopicPartition.
            IllegalStateError: A partition is not assigned.
        """
        self._core.check_home()
        for state in self._states(partitions):
            self._core.assignment.pause(state)

    def paused(self) -> set[TopicPartition]:
        """Return a new set of the paused partitions."""
        return self._core.assignment.paused

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions. Reading continues after the last delivered record.

        Raises:
            TypeError: An argument is not a TopicPartition.
            IllegalStateError: A partition is not assigned.
        """
        self._core.check_home()
        for state in self._states(partitions):
            self._core.assignment.resume(state)

    def _check_wanted(self) -> None:
        """Reject changes once `stop` has begun. A listener may still commit then."""
        if self._core.stopping:
            raise self._core.ended()
        self._core.check_home()

    # --- the group

    def enforce_rebalance(self, reason: str = "") -> None:
        """Request a rebalance of the group in the background. Not in aiokafka (KIP-568).

        With `group_protocol="consumer"` the broker decides whether to rebalance; this sends a
        heartbeat at once.

        Args:
            reason: For the coordinator's log.

        Raises:
            IllegalOperation: There is no group.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        self._group().enforce_rebalance(reason or "the application requested it")

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the member's group metadata as of its last read, for a transaction that commits
        the offsets of those records. Not in aiokafka (KIP-447).

        The coordinator rejects it after a rebalance. In addition, the object records which
        partitions were revoked from this consumer after the read: a producer in this process
        raises CommitFailedError for their offsets, even if the consumer was assigned them again in
        the same generation. Pass this object itself: only the coordinator checks one that was
        pickled or created by the application.

        Returns:
            The group id, the generation (-1 outside the group), the member id ("" outside the
            group) and the `group_instance_id`.

        Raises:
            IllegalOperation: There is no group.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        return self._group().metadata
