"""Brings the application's partitions to the member's target, one listener at a time (KIP-848).
Sans-IO.

A change revokes first, then assigns; after that, the member owns the partitions and acknowledges
them. If the membership ends meanwhile, the change is abandoned, and the application loses its
partitions as soon as the running listener has returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.group.consumer.target_assignment import (
    AssignmentBook,
    Change,
    LocalAssignment,
    TopicIdPartition,
)
from aiokafka_lite.group.membership import Assign, Lost, Revoke, TopicLayout
from aiokafka_lite.structs import TopicPartition

__all__ = ["Reconciliation"]

_Callback = TypeVar("_Callback", Revoke, Lost, Assign)


class Reconciliation:
    """The partitions one application holds, and their changes towards the target."""

    def __init__(self) -> None:
        self._book = AssignmentBook()
        self._change: Change | None = None  # started, and not yet owned
        self._callback: Revoke | Lost | Assign | None = None  # its listener runs
        self._given: frozenset[TopicIdPartition] = frozenset()  # by a change not yet owned
        self.held: frozenset[TopicPartition] = frozenset()
        """The partitions that the application holds, including those whose listener still runs."""

    @property
    def running(self) -> bool:
        """True if a listener runs."""
        return self._callback is not None

    @property
    def empty(self) -> bool:
        """True if the application holds nothing, and no listener runs."""
        return self._callback is None and not self.held

    @property
    def reconciled(self) -> bool:
        """True if the member owns its target."""
        return self._book.reconciled

    @property
    def owned(self) -> LocalAssignment:
        """The partitions that the member owns, with those already assigned in the current change.

        Another member may own an unreported partition at once, so in doubt, this reports too many.
        """
        current = self._book.current
        if self._given <= current.partitions:
            return current
        return LocalAssignment(current.number, current.partitions | self._given)

    @property
    def topics(self) -> frozenset[str]:
        """Topics of the owned partitions and of the target whose names are known."""
        return self._book.topics

    @property
    def topic_ids(self) -> frozenset[UUID]:
        """Topic ids of the owned partitions and of the target."""
        return self._book.topic_ids

    @property
    def unresolved(self) -> frozenset[UUID]:
        """Topic ids of the target whose names are not known."""
        return self._book.unresolved

    # the target

    def on_target(self, partitions: Iterable[TopicIdPartition]) -> bool:
        """The coordinator sent a target; True if it is a new one."""
        number = self._book.target.number
        self._book.on_target(partitions)
        return self._book.target.number != number

    def on_metadata(self, topics: Mapping[str, TopicLayout]) -> None:
        """The names of topic ids."""
        self._book.on_metadata(topics)

    def maybe_begin(self) -> bool:
        """Begin the next change, unless one is in progress or it waits for metadata.

        Returns:
            True if the change is already complete: nothing is new, and it only needs to be
            acknowledged.
        """
        if self._callback is not None or self._change is not None:
            return False
        change = self._book.next_change()
        if change is None:
            return False
        if change.is_nothing_new:
            if self._book.current.number >= 0:
                self._book.apply(change)
                return True
            # The application waits for its first assignment, which must not be one without any
            # names.
            if self._book.unresolved:
                return False
        self._change = change
        return False

    def abandon(self) -> None:
        """Abandon the change in progress."""
        self._change = None

    def end(self) -> None:
        """The membership ended: nothing is owned, though the application may still hold it."""
        self._change = None
        self._given = frozenset()
        self._book.clear()

    # listeners

    def next_of_change(self) -> Revoke | Assign | None:
        """The listener that the change needs next."""
        change = self._change
        if change is None or self._callback is not None:
            return None
        if change.revoked:
            self._callback = revoke = Revoke(change.revoked)
            return revoke
        self.held = change.all
        self._given = change.goal.partitions
        self._callback = assign = Assign(change.added, change.all)
        return assign

    def release(self, *, lost: bool) -> Revoke | Lost | None:
        """The listener that takes everything from the application; None if it holds nothing.

        Args:
            lost: Other members may own it already.
        """
        if not self.held or self._callback is not None:
            return None
        self._callback = release = Lost(self.held) if lost else Revoke(self.held)
        return release

    def on_revoked(self) -> None:
        """The listener of a `Revoke` has completed."""
        self.held -= self._take(Revoke).partitions
        if self._change is not None:
            self._change = replace(self._change, revoked=frozenset())

    def on_lost(self) -> None:
        """The listener of a `Lost` has completed."""
        self.held -= self._take(Lost).partitions

    def on_assigned(self) -> bool:
        """The listener of an `Assign` has completed; True if that completes its change."""
        self._take(Assign)
        change, self._change = self._change, None
        if change is None:
            return False  # the membership or the subscription ended meanwhile
        self._book.apply(change)
        self._given = frozenset()
        return True

    def _take(self, kind: type[_Callback]) -> _Callback:
        callback = self._callback
        if not isinstance(callback, kind):
            raise IllegalStateError(f"no {kind.__name__} listener is running")
        self._callback = None
        return callback
