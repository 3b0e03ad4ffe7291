"""The part of the public face that is about what is read: subscribing, assigning, pausing.

A base class of `AIOKafkaConsumer`, apart only to keep both readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer.offset_calls import OffsetCalls
from aiokafka_lite.structs import TopicPartition


class SubscriptionCalls(OffsetCalls):
    """What is read."""

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others.

        A partition that was assigned before keeps its position; a new one begins where
        `auto_offset_reset` says, or where `seek` does.

        Raises:
            IllegalStateError: topics or a pattern are subscribed to.
            TypeError: something among them is no TopicPartition.
            ValueError: a partition's number is below 0 or above 2**31 - 1.
            InvalidTopicError: a topic's name that no request can carry; legality is the broker's
                to judge.
            ConsumerStoppedError: stopped before.
        """
        self._check_running()
        self._core.assign(self._core.subscription.assign(partitions))

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now: a new set."""
        return self._core.positions.partitions()

    def subscribe(
        self,
        topics: Sequence[str] | set[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Read all partitions of these topics, instead of those subscribed to before.

        Partitions and, with a pattern, topics that are added later are found when the metadata is
        refreshed (`metadata_max_age_ms`), and read from the position `auto_offset_reset` says.

        Args:
            topics: Names.
            pattern: A regular expression; topics whose name it matches from its beginning
                (`re.match`). Either this or `topics`.
            listener: For groups; without one nothing is revoked.

        Raises:
            TypeError: neither or both of `topics` and `pattern`, or one of a wrong type.
            ValueError: the pattern is no regular expression.
            InvalidTopicError: a name that no request can carry, at once; one that is not legal
                otherwise, when the broker says so.
            IllegalStateError: partitions are assigned by hand, or the other kind is subscribed to.
            ConsumerStoppedError: stopped before.
        """
        self._check_running()
        self._core.subscription.subscribe(topics, pattern, listener)
        self._core.subscribe()

    def subscription(self) -> frozenset[str]:
        """The topics that are read: subscribed to, matched, or of the assigned partitions."""
        return self._core.subscription.topics

    def unsubscribe(self) -> None:
        """Read nothing more; positions are forgotten. `subscribe` or `assign` may follow."""
        self._core.subscription.unsubscribe()
        self._core.unsubscribe()

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing more of these partitions until `resume`, nor what is buffered already.

        Raises:
            TypeError: one is no TopicPartition.
            IllegalStateError: one is not assigned.
        """
        for state in self._states(partitions):
            self._core.pause(state)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused: a new set."""
        return {state.tp for state in self._core.positions if state.paused}

    def resume(self, *partitions: TopicPartition) -> None:
        """Undo `pause`. The next record is the one after the last that was handed out.

        Raises:
            TypeError: one is no TopicPartition.
            IllegalStateError: one is not assigned.
        """
        for state in self._states(partitions):
            self._core.resume(state)
