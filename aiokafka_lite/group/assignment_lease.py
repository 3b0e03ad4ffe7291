"""The lease of a consumer on its partitions: which offsets it may still commit.

The coordinator fences offsets by member id and generation (KIP-447). That is not enough: a member
that rejoins can get the same generation under the same member id, because nothing has changed for
the coordinator. Meanwhile, the client has dropped its positions and reads again from the committed
offsets, so offsets from before the rejoin must never be committed after it. Only the client can
distinguish the two; it does so with a lease.

A lease is granted by a read. It is broken for a partition as soon as the consumer gives the
partition up, for any reason, or reads again from the group's committed offsets. A broken lease is
never restored: the next read is granted a new one.

Non-obvious:

- A lease without references is dropped. So the only live leases are the one of the last read and
  those that the application holds in a `ConsumerGroupMetadata`.
- Offsets that a broker accepted just before the lease was broken are as invalid as those sent after
  that: the request may have overtaken the read of the committed offsets, or the reverse. A
  transaction checks the lease again when the response arrives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Self
from weakref import WeakSet

from aiokafka_lite.errors import CommitFailedError
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.structs import TopicPartition

__all__ = ["AssignmentLease", "ConsumerGroupMetadata", "LeaseBook"]


class AssignmentLease:
    """The partitions that were unassigned, or read again, since one read.

    Attributes:
        given_up: Partitions that the consumer gave up. They may have been assigned to it again.
        reread: Partitions whose position was fetched from the committed offsets again.
    """

    __slots__ = ("__weakref__", "given_up", "reread")

    def __init__(self) -> None:
        self.given_up: set[TopicPartition] = set()
        self.reread: set[TopicPartition] = set()

    @property
    def whole(self) -> bool:
        """True if the lease holds for every partition."""
        return not (self.given_up or self.reread)

    def broken_for(self, partitions: Iterable[TopicPartition]) -> CommitFailedError | None:
        """Why offsets of these partitions must not be committed, or None if they may be.

        Returns:
            An error that names the partitions; the caller raises it.
        """
        if self.whole:
            return None
        wanted = list(partitions)
        for broken, what in (
            (self.given_up, "the group took {} from this consumer"),
            (self.reread, "the position of {} was fetched again from the committed offsets"),
        ):
            if gone := [tp for tp in wanted if tp in broken]:
                named = ", ".join(f"{tp.topic}-{tp.partition}" for tp in gone[:5])
                more = f" and {len(gone) - 5} more" if len(gone) > 5 else ""
                return CommitFailedError(
                    f"{what.format(named + more)} after these offsets were read, so their records "
                    "are read again: abort the transaction, if there is one, and keep reading"
                )
        return None


class ConsumerGroupMetadata(GroupMetadata):
    """The identity of a group member at its last read, with the lease of that read.

    It equals the plain `GroupMetadata` and unpacks like it. A copy keeps the lease; pickling drops
    it, because another process cannot observe the consumer.

    Attributes:
        lease: The lease that commits under this identity are checked against, or None.
    """

    lease: AssignmentLease | None = None

    @classmethod
    def leased(cls, member: GroupMetadata, lease: AssignmentLease) -> Self:
        """The identity of `member`, bound to a lease."""
        metadata = cls(*member)
        metadata.lease = lease
        return metadata

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[GroupMetadata], tuple[Any, ...]]:
        return GroupMetadata, tuple(self)


class LeaseBook:
    """All leases of one consumer that are still referenced.

    Attributes:
        ever_given_up: Partitions that the consumer gave up, at any time. They may have been
            assigned to it again.
    """

    def __init__(self) -> None:
        self.ever_given_up: set[TopicPartition] = set()
        self._leases: WeakSet[AssignmentLease] = WeakSet()
        self._current = self._grant()

    def renew(self) -> AssignmentLease:
        """The lease of a new read: the last one, unless it was broken meanwhile."""
        if not self._current.whole:
            self._current = self._grant()
        return self._current

    @property
    def current(self) -> AssignmentLease:
        """The lease of the last read."""
        return self._current

    def on_given_up(self, partitions: Collection[TopicPartition]) -> None:
        """The consumer gives partitions up."""
        self.ever_given_up.update(partitions)
        for lease in self._leases:
            lease.given_up.update(partitions)

    def on_reread(self, partitions: Collection[TopicPartition]) -> None:
        """Positions are fetched again from the committed offsets."""
        for lease in self._leases:
            lease.reread.update(partitions)

    def _grant(self) -> AssignmentLease:
        lease = AssignmentLease()
        self._leases.add(lease)
        return lease
