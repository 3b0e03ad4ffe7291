"""The topics that a consumer group's members read, by name and by regex. No I/O."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias
from uuid import UUID

from aiokafka_lite.testing.groups.consumer_member import ConsumerMember
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.regexes import compile_regex

__all__ = ["ConsumerSubscriptions"]

LEAST_INTERVAL_MS: Final = 10_000  # between two resolutions
REFRESH_INTERVAL_MS: Final = 600_000  # group.consumer.regex.refresh.interval.ms

_Look: TypeAlias = tuple[str, UUID, int]  # name, id and partitions of a topic


class ConsumerSubscriptions:
    """The subscriptions of one group.

    Regular expressions are resolved again when there is a new expression or a new topic, but at
    most every ten seconds.

    Args:
        environment: The cluster's time and topics.
        members: A live view of the group's members.
    """

    def __init__(self, environment: Environment, members: Mapping[str, ConsumerMember]) -> None:
        self._environment = environment
        self._members = members
        self._known: frozenset[_Look] = frozenset()
        self._watched: dict[str, _Look | None] = {}
        self._resolved: dict[str, frozenset[str]] = {}
        self._resolved_ms = 0
        self._topic_ids_seen: frozenset[UUID] = frozenset()

    def topics(self) -> frozenset[str]:
        """Return all subscribed topics, existing or not."""
        return frozenset[str]().union(*(self.topics_of(one) for one in self._members.values()))

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics of one member."""
        return member.subscribed_topics | self._resolved.get(member.subscribed_regex, frozenset())

    def topic_ids_of(self, member: ConsumerMember) -> frozenset[UUID]:
        """Return the existing topics of one member."""
        topics = self._environment.topics
        return frozenset(topics[name].topic_id for name in self.topics_of(member) & topics.keys())

    def partition_counts(self) -> dict[UUID, int]:
        """The existing subscribed topics, ordered by name."""
        return {topic_id: count for _, topic_id, count in sorted(self._now())}

    @property
    def have_topics_changed(self) -> bool:
        """Return True if a topic subscribed at the last `watch` was created, deleted or grew."""
        return any(self._look_at(name) != seen for name, seen in self._watched.items())

    def watch(self) -> None:
        """Watch the currently subscribed topics."""
        self._watched = {name: self._look_at(name) for name in self.topics()}

    def observe(self) -> bool:
        """Return True if the topics to assign have changed since the last call."""
        now = self._now()
        changed = now != self._known
        self._known = now
        return changed

    # Regular expressions

    def is_resolved(self, regex: str) -> bool:
        """Return True if an expression is resolved."""
        return regex in self._resolved

    def forget_unused(self) -> None:
        """Forget expressions without subscribers."""
        used = self._regexes()
        self._resolved = {one: names for one, names in self._resolved.items() if one in used}

    @property
    def were_just_resolved(self) -> bool:
        """True if the last resolution is too recent for another."""
        now_ms = self._environment.clock.now_ms()
        return bool(self._resolved) and now_ms <= self._resolved_ms + LEAST_INTERVAL_MS

    def need_resolving(self) -> bool:
        """Return True if there are new expressions or topics, or the last resolution is old."""
        used = self._regexes()
        return bool(used) and (
            used != self._resolved.keys()
            or not self._topic_ids() <= self._topic_ids_seen
            or self._environment.clock.now_ms() > self._resolved_ms + REFRESH_INTERVAL_MS
        )

    def resolve(self, sees: Callable[[str], bool]) -> bool:
        """Resolve the expressions; return True if any of them matches other topics than before.

        Args:
            sees: Returns True if the member being handled may describe a topic.
        """
        visible = [name for name in self._environment.topics if sees(name)]
        before = self._resolved
        self._resolved = {regex: _matching(regex, visible) for regex in self._regexes()}
        self._resolved_ms = self._environment.clock.now_ms()
        self._topic_ids_seen = self._topic_ids()
        return any(
            before.get(regex, frozenset()) != names for regex, names in self._resolved.items()
        )

    def _topic_ids(self) -> frozenset[UUID]:
        return frozenset(topic.topic_id for topic in self._environment.topics.values())

    def _regexes(self) -> set[str]:
        return {one.subscribed_regex for one in self._members.values() if one.subscribed_regex}

    def _now(self) -> frozenset[_Look]:
        return frozenset(look for name in self.topics() if (look := self._look_at(name)))

    def _look_at(self, name: str) -> _Look | None:
        topic = self._environment.topics.get(name)
        return None if topic is None else (name, topic.topic_id, len(topic.partitions))


def _matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    pattern = compile_regex(regex)
    return frozenset(name for name in names if pattern.matches(name))
