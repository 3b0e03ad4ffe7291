"""The target assignment of a consumer-protocol member, and what it owns (KIP-848). Sans-IO.

The coordinator sends a whole target by topic ids whenever it changes. The member applies it in
changes, one at a time, and acknowledges what it owns after each.

Non-obvious:
- A change omits ids that the metadata does not contain yet, and is acknowledged without them; they
  wait for `on_metadata`.
- Each target has its own number. A target that equals the owned partitions, after a different one,
  must still be acknowledged: the coordinator cannot detect that the one in between was never
  applied.
- A recreated topic has another id: its partitions are revoked and assigned again under the same
  names, because positions in the old topic are not valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from aiokafka_lite.group.membership import TopicLayout
from aiokafka_lite.structs import TopicPartition

__all__ = ["AssignmentBook", "Change", "LocalAssignment", "TopicIdPartition"]

TopicIdPartition: TypeAlias = tuple[UUID, int]


@dataclass(frozen=True, slots=True)
class LocalAssignment:
    """An assignment, and the target of this membership that it is or stems from.

    Attributes:
        number: Counts the targets from 0; -1: there is none yet.
        partitions: By topic id.
    """

    number: int = -1
    partitions: frozenset[TopicIdPartition] = frozenset()


_NONE: Final = LocalAssignment()


@dataclass(frozen=True, slots=True)
class Change:
    """A step from what is owned towards the target.

    Attributes:
        goal: The assignment after the change: the part of the target whose names are known.
        names: The partitions of `goal`.
        revoked: Partitions to revoke first.
        added: New partitions.
    """

    goal: LocalAssignment
    names: Mapping[TopicIdPartition, TopicPartition]
    revoked: frozenset[TopicPartition]
    added: frozenset[TopicPartition]

    @property
    def all(self) -> frozenset[TopicPartition]:
        """All partitions after the change."""
        return frozenset(self.names.values())

    @property
    def is_nothing_new(self) -> bool:
        """True if only the number of the target changes."""
        return not self.revoked and not self.added


class AssignmentBook:
    """The target of one member and what it owns."""

    def __init__(self) -> None:
        self.target = _NONE
        self.current = _NONE
        self._topic_names: dict[UUID, str] = {}
        self._names: Mapping[TopicIdPartition, TopicPartition] = {}

    @property
    def reconciled(self) -> bool:
        """True if what is owned is the target."""
        return self.current == self.target

    @property
    def unresolved(self) -> frozenset[UUID]:
        """Topic ids of the target whose names are not known."""
        return frozenset(
            topic_id for topic_id, _ in self.target.partitions if topic_id not in self._topic_names
        )

    @property
    def topic_ids(self) -> frozenset[UUID]:
        """Topic ids of the target and of the owned partitions."""
        return frozenset(
            topic_id for topic_id, _ in self.target.partitions | self.current.partitions
        )

    @property
    def topics(self) -> frozenset[str]:
        """The known names of `topic_ids`."""
        names = self._topic_names
        return frozenset(names[one] for one in self.topic_ids if one in names) | frozenset(
            tp.topic for tp in self._names.values()
        )

    def on_target(self, partitions: Iterable[TopicIdPartition]) -> None:
        """The coordinator sent a new target."""
        wanted = frozenset(partitions)
        if self.target is _NONE or wanted != self.target.partitions:
            self.target = LocalAssignment(self.target.number + 1, wanted)

    def on_metadata(self, topics: Mapping[str, TopicLayout]) -> None:
        """Store the names of topic ids; names of topics not in `topics` are kept."""
        news: dict[UUID, str] = {}
        for name, layout in topics.items():
            if layout.topic_id is not None:
                news[layout.topic_id] = name
        taken = set(news.values())
        wanted = self.topic_ids
        known = self._topic_names
        self._topic_names = {
            topic_id: name
            for topic_id, name in known.items()
            if topic_id in wanted and name not in taken  # or another topic has its name now
        } | news

    def next_change(self) -> Change | None:
        """The next step towards the target; None: there is none, or it waits for metadata."""
        names = {
            (topic_id, partition): TopicPartition(self._topic_names[topic_id], partition)
            for topic_id, partition in self.target.partitions
            if topic_id in self._topic_names
        }
        goal = LocalAssignment(self.target.number, frozenset(names))
        if goal == self.current:
            return None
        return Change(
            goal,
            names,
            revoked=frozenset(tp for key, tp in self._names.items() if key not in names),
            added=frozenset(tp for key, tp in names.items() if key not in self._names),
        )

    def apply(self, change: Change) -> None:
        """The change is completed: the member owns its goal."""
        self.current = change.goal
        self._names = change.names

    def clear(self) -> None:
        """Reset: the member owns nothing and has no target."""
        self.target = self.current = _NONE
        self._names = {}
