"""The consumer's subscription: topics, a pattern, or manually assigned partitions. Sans-IO.

Without a group, a subscription means all partitions of its topics, including those added later. In
a group, the members share their subscriptions, and the group assigns the partitions. The kinds of
subscriptions exclude one another until `unsubscribe`, as in Java.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from aiokafka_lite._arguments import as_partitions, topic_names
from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.cluster.metadata import Metadata, Topic
from aiokafka_lite.consumer.membership.missing_partitions import Presence
from aiokafka_lite.errors import IllegalStateError, KafkaConfigurationError
from aiokafka_lite.structs import TopicPartition

PART: Final = 128
"""Number of partitions that `Subscription.first_partitions` yields at once."""


class SubscriptionPattern(NamedTuple):
    """A regular expression that the broker resolves (RE2). Not in aiokafka (KIP-848).

    It selects a topic if it matches the whole name, and finds new topics without requests for the
    metadata of all topics. Requires `group_protocol="consumer"`.
    """

    pattern: str


class Kind(Enum):
    """The kind of a subscription."""

    NONE = "nothing"
    TOPICS = "topics"
    PATTERN = "a client-side pattern"
    BROKER_PATTERN = "a broker-side pattern"
    PARTITIONS = "partitions"


class Subscription:
    """The subscription of one consumer.

    Attributes:
        kind: The kind of the subscription.
        topics: The subscribed names; for a client-side pattern, the matching names; for an
            assignment or a broker-side pattern, the topics of the partitions.
        pattern: The client-side pattern, or None.
        broker_pattern: The broker-side pattern, or None.
        listener: The rebalance listener, or None.

    Args:
        exclude_internal: True if a client-side pattern excludes internal topics.
        grouped: True with a group.
        modern: True if the broker assigns.
    """

    def __init__(
        self, *, exclude_internal: bool, grouped: bool = False, modern: bool = False
    ) -> None:
        self._exclude_internal = exclude_internal
        self._grouped = grouped
        self._modern = modern
        self.kind = Kind.NONE
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.broker_pattern: str | None = None
        self.listener: ConsumerRebalanceListener | None = None
        self._presence = Presence()
        self._seen: dict[str, Topic] = {}
        """The subscribed topics at the last `on_metadata`; empty if any of them was uncertain."""
        self._returned = 0  # number of partitions of `_seen`
        self._changes = 0  # number of calls that changed the subscription

    @property
    def manual(self) -> bool:
        """True if the application assigns partitions itself."""
        return self.kind is Kind.PARTITIONS

    @property
    def shared(self) -> bool:
        """True if the group assigns the partitions."""
        return self._grouped and self.kind not in (Kind.NONE, Kind.PARTITIONS)

    @property
    def automatic(self) -> bool:
        """True if the partitions follow the metadata."""
        return not self._grouped and self.kind in (Kind.TOPICS, Kind.PATTERN)

    def matches(self, topic: str) -> bool:
        """True if the client-side pattern matches a topic, which the metadata may lack."""
        return self.pattern is not None and self.pattern.match(topic) is not None

    def wants(self, topic: str) -> bool:
        """True if a topic is subscribed to. Always True for a broker-side pattern, which only the
        broker can match."""
        return topic in self.topics or self.kind is Kind.BROKER_PATTERN or self.matches(topic)

    def subscribe(
        self,
        topics: Collection[str],
        pattern: str | SubscriptionPattern | None,
        listener: ConsumerRebalanceListener | None,
    ) -> None:
        """Subscribe to names or to a pattern.

        Raises:
            TypeError: Neither or both of `topics` and `pattern` are given; `topics` is a str, or
                not a list, tuple or set of str; the listener is not a ConsumerRebalanceListener.
            ValueError: The pattern is not a regular expression; or it is a `SubscriptionPattern`
                without a group whose broker assigns.
            IllegalStateError: The consumer has another kind of subscription.
        """
        if not (topics or pattern):
            raise TypeError("You should provide either `topics` or `pattern`")
        if topics and pattern:
            raise TypeError("You can't provide both `topics` and `pattern`")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError("listener should be an instance of ConsumerRebalanceListener")
        compiled: re.Pattern[str] | None = None
        for_broker: str | None = None
        names: frozenset[str] = frozenset()
        if isinstance(pattern, SubscriptionPattern):
            kind = Kind.BROKER_PATTERN
            for_broker = self._pattern_for_broker(pattern.pattern)
        elif pattern:
            kind = Kind.PATTERN
            compiled = _compiled(pattern)
        else:
            kind = Kind.TOPICS
            names = topic_names(topics)
        if self.kind not in (Kind.NONE, kind):
            raise _exclusive()
        self._changes += 1
        self.kind = kind
        self.topics = names
        self.pattern = compiled
        self.broker_pattern = for_broker
        self.listener = listener

    def _pattern_for_broker(self, pattern: object) -> str:
        if not isinstance(pattern, str):
            raise TypeError("Pattern should be a str")
        if not pattern:
            raise KafkaConfigurationError("A SubscriptionPattern should not be empty")
        if not self._modern:
            raise KafkaConfigurationError(
                "A SubscriptionPattern is resolved by the broker: it requires a `group_id` and "
                "`group_protocol='consumer'`"
            )
        return pattern

    def assign(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions manually; an empty iterable removes all.

        Raises:
            TypeError: An element is not a (topic, partition).
            ValueError: A partition number is out of range.
            InvalidTopicError: A request cannot carry a topic name.
            IllegalStateError: The consumer is subscribed to topics or a pattern.
        """
        wanted = as_partitions(partitions)
        if self.kind not in (Kind.NONE, Kind.PARTITIONS):
            raise _exclusive()
        self._changes += 1
        self.kind = Kind.PARTITIONS
        self.topics = frozenset(tp.topic for tp in wanted)
        return wanted

    def unsubscribe(self) -> None:
        """Clear the subscription; any kind may follow."""
        self._changes += 1
        self.kind = Kind.NONE
        self.topics = frozenset()
        self.pattern = None
        self.broker_pattern = None
        self.listener = None

    def take_over(self, other: Subscription) -> None:
        """Copy the subscription of a core whose start failed."""
        self.kind = other.kind
        named = other.kind is Kind.TOPICS or other.kind is Kind.PARTITIONS
        self.topics = other.topics if named else frozenset()
        self.pattern = other.pattern
        self.broker_pattern = other.broker_pattern
        self.listener = other.listener

    def on_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Record the assigned topics: for a broker-side pattern, no others are known."""
        if self.kind is Kind.BROKER_PATTERN:
            self.topics = frozenset(tp.topic for tp in partitions)

    def on_metadata(
        self, metadata: Metadata, assigned: Collection[TopicPartition] = (), now: float = 0.0
    ) -> list[TopicPartition] | None:
        """Return the partitions to read now, or None if they do not change.

        They do not if they are independent of the metadata, or if no subscribed topic changed.

        Partitions that are temporarily missing from the metadata, or not authorized, are kept (see
        `missing_partitions`).

        Args:
            assigned: The partitions read so far.
            now: Monotonic seconds.
        """
        if self.pattern is not None:
            before = self.topics
            self.topics = self._matching(metadata, self.pattern)
            if self._grouped:
                # Otherwise the group would rebalance whenever a broker omits a topic briefly. The
                # group handles the partitions: here the first one represents the topic.
                mine = [TopicPartition(topic, 0) for topic in before]
                self.topics |= {tp.topic for tp in self._presence.kept(metadata, mine, now)}
        if not self.automatic or self._is_unchanged(metadata, assigned):
            return None
        self._presence.know(self._seen.values())
        mine = [tp for tp in assigned if tp.topic in self.topics or self.matches(tp.topic)]
        wanted = self._presence.kept(metadata, mine, now)
        self.topics |= {tp.topic for tp in wanted}
        certain = not wanted
        seen: dict[str, Topic] = {}
        for name in self.topics:
            topic = metadata.topics.get(name)
            if topic is not None and topic.error is None:
                seen[name] = topic
                wanted.update(TopicPartition(name, p) for p in topic.partitions)
        self._seen = seen if certain and len(seen) == len(self.topics) else {}
        self._returned = len(wanted)
        return sorted(wanted)

    def _matching(self, metadata: Metadata, pattern: re.Pattern[str]) -> frozenset[str]:
        return frozenset(
            topic.name
            for topic in metadata.topics.values()
            if pattern.match(topic.name) and not (topic.is_internal and self._exclude_internal)
        )

    def first_partitions(self, metadata: Metadata) -> Iterator[list[TopicPartition]]:
        """Yield the partitions to read first, in order and in parts.

        The caller can yield to the event loop between the parts. Ends early if the subscription
        changes meanwhile. `on_metadata` then finds the partitions unchanged, or returns all.
        """
        if not self.automatic:
            return
        if self.pattern is not None:
            self.topics = self._matching(metadata, self.pattern)
        changes = self._changes
        seen: dict[str, Topic] = {}
        returned = 0
        for name in sorted(self.topics):
            topic = metadata.topics.get(name)
            if topic is None or topic.error is not None:
                continue
            seen[name] = topic
            numbers = sorted(topic.partitions)
            returned += len(numbers)
            for begin in range(0, len(numbers), PART):
                if self._changes != changes:
                    return
                yield [TopicPartition(name, number) for number in numbers[begin : begin + PART]]
        if self._changes == changes and len(seen) == len(self.topics):
            self._seen, self._returned = seen, returned

    def _is_unchanged(self, metadata: Metadata, assigned: Collection[TopicPartition]) -> bool:
        """True if the topics are as last seen and the assigned partitions are all of theirs."""
        if (
            len(assigned) != self._returned
            or not self.topics
            or self._seen.keys() != self.topics
            or not all(_is_same(metadata.topics.get(name), self._seen[name]) for name in self._seen)
        ):
            return False
        self._seen = {name: metadata.topics[name] for name in self._seen}
        return True


def _is_same(topic: Topic | None, seen: Topic) -> bool:
    """True if a topic has the same id and partitions as when last seen; leaders may differ."""
    return topic is seen or (
        topic is not None
        and topic.error is None
        and topic.topic_id == seen.topic_id
        and topic.partitions.keys() == seen.partitions.keys()
    )


def _compiled(pattern: object) -> re.Pattern[str]:
    if not isinstance(pattern, str):
        raise TypeError("Pattern should be a str")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error


def _exclusive() -> IllegalStateError:
    return IllegalStateError(
        "Subscription to topics, partitions and pattern are mutually exclusive"
    )
