"""Which topics the members of a consumer group read, by name and by expression. No I/O."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from uuid import UUID

from aiokafka_lite.testing.groups.consumer_member import ConsumerMember
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.regexes import compile_regex

__all__ = ["ConsumerSubscriptions"]

LEAST_INTERVAL_MS: Final = 10_000  # between two resolutions
REFRESH_INTERVAL_MS: Final = 600_000  # group.consumer.regex.refresh.interval.ms


class ConsumerSubscriptions:
    """Of one group.

    Expressions are resolved to topics again when there is a new expression or a new topic, but not
    more often than every ten seconds.

    Args:
        environment: the cluster's time and topics.
        members: the group's, as they change.
    """

    def __init__(self, environment: Environment, members: Mapping[str, ConsumerMember]) -> None:
        self._environment = environment
        self._members = members
        self._known: frozenset[tuple[str, UUID, int]] = frozenset()
        self._resolved: dict[str, frozenset[str]] = {}
        self._resolved_ms = 0
        self._topic_ids_seen: frozenset[UUID] = frozenset()

    def topics(self) -> frozenset[str]:
        """All that anybody reads, there or not."""
        return frozenset[str]().union(*(self.topics_of(one) for one in self._members.values()))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What one member reads."""
        return member.subscribed_topics | self._resolved.get(member.subscribed_regex, frozenset())

    def topic_ids_of(self, member: ConsumerMember) -> frozenset[UUID]:
        """Of what one member reads, what there is."""
        topics = self._environment.topics
        return frozenset(topics[name].topic_id for name in self.topics_of(member) & topics.keys())

    def partition_counts(self) -> dict[UUID, int]:
        """Of all that anybody reads and that there is, in the order of the names."""
        return {topic_id: count for _, topic_id, count in sorted(self._now())}

    def observe(self) -> bool:
        """Look at the topics; whether they changed since the last time: new, gone, grown."""
        now = self._now()
        changed = now != self._known
        self._known = now
        return changed

    # Regular expressions

    def is_resolved(self, regex: str) -> bool:
        """Whether the topics of an expression are known."""
        return regex in self._resolved

    def forget_unused(self) -> None:
        """Forget the expressions that nobody is subscribed to any more."""
        used = self._regexes()
        self._resolved = {one: names for one, names in self._resolved.items() if one in used}

    def resolve_if_due(self, sees: Callable[[str], bool]) -> bool:
        """Look the expressions up among the topics that may be seen; whether that changed anything.

        Args:
            sees: whether the member that is heard now may describe a topic.
        """
        topic_ids = frozenset(topic.topic_id for topic in self._environment.topics.values())
        if not self._is_due(topic_ids):
            return False
        visible = [name for name in self._environment.topics if sees(name)]
        before = self._resolved
        self._resolved = {regex: _matching(regex, visible) for regex in self._regexes()}
        self._resolved_ms = self._environment.clock.now_ms()
        self._topic_ids_seen = topic_ids
        return any(
            before.get(regex, frozenset()) != names for regex, names in self._resolved.items()
        )

    def _is_due(self, topic_ids: frozenset[UUID]) -> bool:
        now_ms = self._environment.clock.now_ms()
        used = self._regexes()
        if not used or (self._resolved and now_ms <= self._resolved_ms + LEAST_INTERVAL_MS):
            return False
        return (
            used != self._resolved.keys()
            or not topic_ids <= self._topic_ids_seen
            or now_ms > self._resolved_ms + REFRESH_INTERVAL_MS
        )

    def _regexes(self) -> set[str]:
        return {one.subscribed_regex for one in self._members.values() if one.subscribed_regex}

    def _now(self) -> frozenset[tuple[str, UUID, int]]:
        topics = self._environment.topics
        return frozenset(
            (name, topics[name].topic_id, len(topics[name].partitions))
            for name in self.topics() & topics.keys()
        )


def _matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    pattern = compile_regex(regex)
    return frozenset(name for name in names if pattern.fullmatch(name))
