"""What the application holds, and the one listener that may be at work upon it. Sans-IO."""

from __future__ import annotations

from typing import TypeVar

from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.group.membership import Assign, Lost, Revoke
from aiokafka_lite.structs import TopicPartition

_CallbackT = TypeVar("_CallbackT", Revoke, Lost, Assign)


class Holdings:
    """The partitions an application holds; each change is a step that its listener is told.

    Attributes:
        partitions: What it holds, as far as it has been told.
        forfeit: They belong to someone else, perhaps: they are to be told as lost.
        busy: The listener is at work: no other change is told before it is through.
    """

    __slots__ = ("_callback", "forfeit", "partitions")

    def __init__(self) -> None:
        self.partitions: frozenset[TopicPartition] = frozenset()
        self.forfeit = False
        self._callback: Revoke | Lost | Assign | None = None

    @property
    def busy(self) -> bool:
        return self._callback is not None

    def on_membership_over(self) -> None:
        """Whatever is held is no longer this member's."""
        self.forfeit = bool(self.partitions)

    def revoke(self, partitions: frozenset[TopicPartition]) -> Revoke:
        """Begin to take partitions away."""
        step = self._callback = Revoke(partitions)
        return step

    def lose(self) -> Lost:
        """Begin to take everything away that is lost."""
        step = self._callback = Lost(self.partitions)
        return step

    def assign(self, partitions: frozenset[TopicPartition]) -> Assign:
        """Begin to give partitions, besides those that it has."""
        step = self._callback = Assign(partitions - self.partitions, partitions)
        self.partitions = partitions
        return step

    def on_revoked(self) -> None:
        """The listener of a `Revoke` has completed."""
        self.partitions -= self._take(Revoke).partitions
        self.forfeit = self.forfeit and bool(self.partitions)

    def on_lost(self) -> None:
        """The listener of a `Lost` has completed."""
        self.partitions -= self._take(Lost).partitions
        self.forfeit = False

    def on_assigned(self) -> None:
        """The listener of an `Assign` has completed."""
        self._take(Assign)

    def _take(self, kind: type[_CallbackT]) -> _CallbackT:
        step = self._callback
        if not isinstance(step, kind):
            raise IllegalStateError(f"no {kind.__name__} is under way, but {step!r}")
        self._callback = None
        return step
