"""The partitions that the application holds, and the listener call in progress. Sans-IO."""

from __future__ import annotations

from typing import TypeVar

from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.group.membership import Assign, Lost, Revoke
from aiokafka_lite.structs import TopicPartition

_CallbackT = TypeVar("_CallbackT", Revoke, Lost, Assign)


class Holdings:
    """The partitions that an application holds; each change is a step that calls its listener.

    Attributes:
        partitions: What it holds, according to its listener calls.
        forfeit: True if other members may own them: they must be reported as lost.
        busy: True while the listener runs: the next change waits until it has completed.
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
        """The membership ended: the held partitions are no longer this member's."""
        self.forfeit = bool(self.partitions)

    def revoke(self, partitions: frozenset[TopicPartition]) -> Revoke:
        """Begin to revoke partitions."""
        step = self._callback = Revoke(partitions)
        return step

    def lose(self) -> Lost:
        """Begin to take away all lost partitions."""
        step = self._callback = Lost(self.partitions)
        return step

    def assign(self, partitions: frozenset[TopicPartition]) -> Assign:
        """Begin to assign partitions, in addition to those it holds."""
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
            raise IllegalStateError(f"no {kind.__name__} is in progress, but {step!r}")
        self._callback = None
        return step
