"""The groups of a cluster, whichever broker coordinates them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    GroupCoordinatorNotAvailableError,
    GroupIdNotFound,
    IllegalGenerationError,
)
from aiokafka_lite.testing.clock import Timer
from aiokafka_lite.testing.coordinator_table import Coordinators, CoordinatorType
from aiokafka_lite.testing.groups.base_group import Group
from aiokafka_lite.testing.groups.committed_offsets import GroupOffsets
from aiokafka_lite.testing.groups.environment import Environment

if TYPE_CHECKING:
    from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup

__all__ = ["Groups"]

NO_BROKER: Final = -1
NO_PRODUCER: Final = -1


class Groups:
    """All groups by id. Owns the offset expiry timer, which runs while there are groups.

    Args:
        environment: The environment of the groups.
        coordinators: Maps each group to its coordinator.
    """

    def __init__(self, environment: Environment, coordinators: Coordinators) -> None:
        self.environment = environment
        self._coordinators = coordinators
        self._groups: dict[str, Group] = {}
        self._offsets: dict[str, GroupOffsets] = {}
        self._node_ids: dict[str, int] = {}  # node ids of the coordinators
        self._expiry: Timer | None = None
        coordinators.watchers.add(self._on_coordinators_moved)
        self._restore()

    def get(self, group_id: str) -> Group | None:
        """Return the group with an id."""
        if self._node_ids.get(group_id) == NO_BROKER:  # the request proves that there is one again
            self._node_ids[group_id] = self._node_of(group_id)
        return self._groups.get(group_id)

    def all(self) -> Iterable[Group]:
        """Return all current groups."""
        return list(self._groups.values())

    def offsets_of(self, group_id: str) -> GroupOffsets:
        """Return the offsets of a group id, whatever kind the group is or becomes."""
        if group_id not in self._offsets:
            self._offsets[group_id] = GroupOffsets(group_id, self.environment.journal)
        return self._offsets[group_id]

    def classic(self, group_id: str) -> "ClassicGroup":
        """Return a classic group; create it if it does not exist or is empty and of another kind.

        Raises:
            GroupIdNotFound: The group is of another kind and has members.
        """
        from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup

        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        if group is not None and not group.is_empty:
            raise GroupIdNotFound(f"Group {group_id} is not a classic group.")
        made = ClassicGroup(group_id, self.offsets_of(group_id), self.environment)
        self.put(made)
        return made

    def for_commit(
        self,
        group_id: str,
        generation_or_epoch: int,
        unknown: type[BrokerResponseError] = IllegalGenerationError,
    ) -> Group:
        """Return the group of a commit.

        A client outside the group may commit with generation -1: this creates an empty classic
        group that only stores offsets.

        Raises:
            BrokerResponseError: `unknown`, if the member's group does not exist.
        """
        group = self.get(group_id)
        if group is None and generation_or_epoch >= 0:
            raise unknown(f"group {group_id!r} does not exist")
        return self.classic(group_id) if group is None else group

    def put(self, group: Group) -> None:
        """Store a group under its id, replacing an earlier one; offsets stay."""
        replaced = self._groups.get(group.group_id)
        if replaced is not None and replaced is not group:
            replaced.close()
        self._groups[group.group_id] = group
        self._node_ids[group.group_id] = self._node_of(group.group_id)
        if self._expiry is None:
            self._schedule_expiry()

    def delete(self, group_id: str) -> None:
        """Delete a group and its offsets; does nothing if it does not exist."""
        group = self._groups.get(group_id)
        if group is not None:
            group.offsets.clear()
            self.environment.journal.note("group", (group_id,), None)
            del self._groups[group_id]
            group.close()
            self._offsets.pop(group_id, None)
            self._node_ids.pop(group_id, None)

    # Offsets

    def expire_offsets(self) -> None:
        """Delete expired offsets, and empty groups without offsets."""
        now_ms = self.environment.clock.now_ms()
        retention_ms = self.environment.config("offsets.retention.minutes") * 60_000
        for group in self.all():
            if group.expire_offsets(now_ms, retention_ms) and group.is_empty:
                self.delete(group.group_id)

    def on_topic_deleted(self, topic: str) -> None:
        """Delete the committed offsets of a deleted topic."""
        for offsets in self._offsets.values():
            offsets.delete_topic(topic)

    def _schedule_expiry(self) -> None:
        interval = self.environment.config("offsets.retention.check.interval.ms") / 1000
        self._expiry = self.environment.clock.call_later(interval, self._on_expiry)

    def _on_expiry(self) -> None:
        self._expiry = None
        try:
            self.expire_offsets()
        finally:  # the journal's disk may be full
            if self._groups:
                self._schedule_expiry()

    # Coordinators

    def _on_coordinators_moved(self) -> None:
        for group_id, node_id in list(self._node_ids.items()):
            moved_to = self._node_of(group_id)
            self._node_ids[group_id] = moved_to
            if moved_to == node_id:
                continue
            if moved_to == NO_BROKER:
                self._groups[group_id].on_coordinator_lost()
            else:
                self._groups[group_id].on_coordinator_moved()

    def _node_of(self, group_id: str) -> int:
        try:
            return self._coordinators.node_of(CoordinatorType.GROUP, group_id).node_id
        except GroupCoordinatorNotAvailableError:
            return NO_BROKER

    # The journal

    def _restore(self) -> None:
        journal = self.environment.journal
        for (group_id, topic, partition, *producer), value in journal.entries("offset"):
            producer_id = int(producer[0]) if producer else NO_PRODUCER
            offsets = self.offsets_of(str(group_id))
            offsets.restore(str(topic), int(partition), producer_id, value)
        for (group_id, *_), value in journal.entries("group"):
            if value["kind"] == "classic":
                self.classic(str(group_id)).recall(value)
        for group_id in list(self._offsets):
            if group_id not in self._groups:
                self.classic(group_id)
