"""Which topics the members of a consumer group read, by name and by expression. No I/O."""

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
    """Of one group.

    Expressions are resolved to topics again when there is a new expression or a new topic, but not
    more often than every ten seconds.

    Args:
        environment: The cluster's time and topics.
        members: The group's, as they change.
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

    @property
    def have_topics_changed(self) -> bool:
        """Whether any topic that was read when `watch` was called came, went or grew since."""
        return any(self._look_at(name) != seen for name, seen in self._watched.items())

    def watch(self) -> None:
        """Watch what is read now."""
        self._watched = {name: self._look_at(name) for name in self.topics()}

    def observe(self) -> bool:
        """Whether there is anything else to share out than at the last call."""
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

    @property
    def were_just_resolved(self) -> bool:
        """Too recently for expressions to be resolved again."""
        now_ms = self._environment.clock.now_ms()
        return bool(self._resolved) and now_ms <= self._resolved_ms + LEAST_INTERVAL_MS

    def need_resolving(self) -> bool:
        """Whether there are new expressions, or new topics, or it was long ago."""
        used = self._regexes()
        return bool(used) and (
            used != self._resolved.keys()
            or not self._topic_ids() <= self._topic_ids_seen
            or self._environment.clock.now_ms() > self._resolved_ms + REFRESH_INTERVAL_MS
        )

    def resolve(self, sees: Callable[[str], bool]) -> bool:
        """Look the expressions up; whether any of them means other topics than before.

        Args:
            sees: Whether the member that is heard now may describe a topic.
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
