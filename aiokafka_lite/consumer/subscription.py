"""What the application asked to read: topics, a pattern, or partitions of its choice. Sans-IO.

Without a group a subscription means all partitions of its topics, those that are added later
too. The three kinds exclude one another until `unsubscribe`, as in Java.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from aiokafka_lite._arguments import as_partitions, topic_names
from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.structs import TopicPartition


class Subscription:
    """The subscription of one consumer.

    Attributes:
        topics: Names subscribed to; those that match, of a pattern; those of the partitions, of
            an assignment.
        pattern: The pattern subscribed to, or None.
        listener: Told of rebalances, or None.
        manual: Whether the application assigns partitions itself.

    Args:
        exclude_internal: Whether a pattern leaves out internal topics.
    """

    def __init__(self, *, exclude_internal: bool) -> None:
        self._exclude_internal = exclude_internal
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.listener: ConsumerRebalanceListener | None = None
        self.manual = False

    @property
    def automatic(self) -> bool:
        """Whether the partitions follow the metadata."""
        return not self.manual and (self.pattern is not None or bool(self.topics))

    def subscribe(
        self,
        topics: Collection[str],
        pattern: str | None,
        listener: ConsumerRebalanceListener | None,
    ) -> None:
        """Subscribe to names or to a pattern.

        Raises:
            TypeError: neither or both of topics and pattern; `topics` is a str, or no list, tuple
                or set of str; the listener is none.
            ValueError: the pattern is no regular expression.
            IllegalStateError: another kind of subscription is there.
        """
        if not (topics or pattern):
            raise TypeError("You should provide either `topics` or `pattern`")
        if topics and pattern:
            raise TypeError("You can't provide both `topics` and `pattern`")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError("listener should be an instance of ConsumerRebalanceListener")
        compiled = None
        names: frozenset[str] = frozenset()
        if pattern:
            if not isinstance(pattern, str):
                raise TypeError("Pattern should be a str")
            try:
                compiled = re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error
        else:
            names = topic_names(topics)
        if self.manual or (self.automatic and (self.pattern is None) != (compiled is None)):
            raise _exclusive()
        self.topics = names
        self.pattern = compiled
        self.listener = listener

    def assign(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Take partitions of the application's choice; none takes all away.

        Raises:
            TypeError: something among them is no (topic, partition).
            ValueError: a number that no partition has.
            InvalidTopicError: a topic's name that no request can carry.
            IllegalStateError: topics or a pattern are subscribed to.
        """
        wanted = as_partitions(partitions)
        if self.automatic:
            raise _exclusive()
        self.manual = True
        self.topics = frozenset(tp.topic for tp in wanted)
        return wanted

    def unsubscribe(self) -> None:
        """Want nothing; any kind of subscription may follow."""
        self.topics = frozenset()
        self.pattern = None
        self.listener = None
        self.manual = False

    def on_metadata(
        self, metadata: Metadata, assigned: Collection[TopicPartition] = ()
    ) -> list[TopicPartition] | None:
        """The partitions to read now, or None if they do not follow the metadata.

        A topic that the metadata does not know for the moment, or that is refused, keeps what it
        has: its positions would be lost, and records skipped or repeated when it is back.

        Args:
            assigned: The partitions read so far.
        """
        if not self.automatic:
            return None
        if self.pattern is not None:
            self.topics = frozenset(
                topic.name
                for topic in metadata.topics.values()
                if self.pattern.match(topic.name)
                and not (topic.is_internal and self._exclude_internal)
            )
        wanted: list[TopicPartition] = []
        for name in sorted(self.topics):
            topic = metadata.topics.get(name)
            told = set() if topic is None else {TopicPartition(name, p) for p in topic.partitions}
            if topic is None or topic.error is not None:
                told.update(tp for tp in assigned if tp.topic == name)
            wanted += sorted(told)
        return wanted


def _exclusive() -> IllegalStateError:
    return IllegalStateError(
        "Subscription to topics, partitions and pattern are mutually exclusive"
    )
