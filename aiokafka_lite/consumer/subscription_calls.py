"""The part of the public face that is about what is read: subscribing, assigning, pausing.

A base class of `AIOKafkaConsumer`, apart only to keep both readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer.membership.subscription import SubscriptionPattern
from aiokafka_lite.consumer.offset_calls import OffsetCalls
from aiokafka_lite.group.assignment_lease import ConsumerGroupMetadata
from aiokafka_lite.structs import TopicPartition


class SubscriptionCalls(OffsetCalls):
    """What is read."""

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others.

        A partition that was assigned before keeps its position; a new one begins where
        `auto_offset_reset` says, or where `seek` does.

        Raises:
            IllegalStateError: Topics or a pattern are subscribed to.
            TypeError: Something among them is no TopicPartition.
            ValueError: A partition's number is below 0 or above 2**31 - 1.
            InvalidTopicError: A topic's name that no request can carry; legality is the broker's
                to judge.
            ConsumerStoppedError: Stopped before.
        """
        self._check_wanted()
        self._core.assign(self._core.subscription.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now: a new set."""
        return self._core.assignment.partitions

    def subscribe(
        self,
        topics: Sequence[str] | set[str] = (),
        pattern: str | SubscriptionPattern | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read these topics, instead of those subscribed to before, of which reads tell nothing
        from here on.

        In a group, its members share the partitions, and this takes part in the next rebalance.
        Without one all partitions are read. Partitions and, with a pattern, topics that are added
        later are found when the metadata is refreshed (`metadata_max_age_ms`); where the group has
        committed nothing, reading begins where `auto_offset_reset` says.

        Args:
            topics: Names.
            pattern: A regular expression; topics whose name it matches from its beginning
                (`re.match`). Either this or `topics`. Or a `SubscriptionPattern`, which the broker
                resolves.
            listener: Told what the group gives and takes; without a group there is nothing to
                tell. Its methods run inside the rebalance, which waits for them; what they raise
                is logged, and the rebalance goes on. One that is new while partitions are
                assigned hears of them, too: in a rebalance that this begins, or, with
                `group_protocol="consumer"`, at the next change.

        Raises:
            TypeError: Neither or both of `topics` and `pattern`, or one of a wrong type.
            ValueError: The pattern is no regular expression; or is the broker's, without
                `group_protocol="consumer"`.
            InvalidTopicError: A name that no request can carry, at once; one that is not legal
                otherwise, when the broker says so.
            IllegalStateError: Partitions are assigned by hand, or the other kind is subscribed to.
            ConsumerStoppedError: Stopped before.
        """
        self._check_wanted()
        self._core.subscription.subscribe(topics, pattern, listener)
        self._core.subscribe()

    def subscription(self) -> frozenset[str]:
        """The topics that are read: subscribed to, matched, or of the assigned partitions (also
        with a pattern that the broker resolves)."""
        return self._core.subscription.topics

    def unsubscribe(self) -> None:
        """Read nothing more; positions are forgotten. `subscribe` or `assign` may follow.

        A group is left in the background: with auto-commit what was handed out is committed, the
        listener is told that everything was revoked, and the others get it.
        """
        self._core.check_home()
        self._core.unsubscribe()

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing more of these partitions until `resume`, nor what is buffered already.

        Raises:
            TypeError: One is no TopicPartition.
            IllegalStateError: One is not assigned.
        """
        self._core.check_home()
        for state in self._states(partitions):
            self._core.assignment.pause(state)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused: a new set."""
        return self._core.assignment.paused

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`. The next record is the one after the last that was handed out.

        Raises:
            TypeError: One is no TopicPartition.
            IllegalStateError: One is not assigned.
        """
        self._core.check_home()
        for state in self._states(partitions):
            self._core.assignment.resume(state)

    def _check_wanted(self) -> None:
        """Who is about to leave for good takes no more wishes; a listener may still commit then."""
        if self._core.stopping:
            raise self._core.ended()
        self._core.check_home()

    # --- the group

    def enforce_rebalance(self, reason: str = "") -> None:
        """Have the group rebalance, in the background (KIP-568; ours).

        With `group_protocol="consumer"` that is the broker's to decide: it is asked for news.

        Args:
            reason: For the coordinator's log.

        Raises:
            IllegalOperation: There is no group.
            ConsumerStoppedError: Stopped before.
        """
        self._group().enforce_rebalance(reason or "the application asked for it")

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The consumer's identity in its group at its last read, for a transaction that commits the
        offsets of what was read (KIP-447; ours).

        The coordinator refuses it after a rebalance. Besides, the object itself remembers which
        partitions the group took from this consumer after the read: a producer in this process
        raises CommitFailedError for their offsets, even if the consumer was assigned them again in
        the same generation. Hand the object itself over; one that was pickled, or made by hand, is
        checked by the coordinator alone.

        Returns:
            The group's id, the generation (-1 outside of the group), the member's id ("" outside)
            and the `group_instance_id`.

        Raises:
            IllegalOperation: There is no group.
            ConsumerStoppedError: Stopped before.
        """
        return self._group().metadata
