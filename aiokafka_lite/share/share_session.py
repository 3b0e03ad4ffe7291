"""A share session with one leader (KIP-932): its epoch and its partitions. Sans-IO.

A fetch with epoch 0 opens a session; each later request, fetch or acknowledgement, carries the next
epoch; -1 closes it. The leader fetches from the partitions that the session has, so a fetch names
only those to add or to remove.

Source: KIP-932, "Share sessions"; ShareSessionHandler of Kafka's Java client.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple, Self
from uuid import UUID

__all__ = ["CLOSING_EPOCH", "PartitionId", "SessionFetch", "ShareSession"]

OPENING_EPOCH: Final = 0
CLOSING_EPOCH: Final = -1
LAST_EPOCH: Final = 2**31 - 1


class PartitionId(tuple[int, int]):
    """A partition by the id of its topic.

    It stores the id as a number, because hashing a UUID is a Python call.
    """

    __slots__ = ()

    def __new__(cls, topic_id: UUID, partition: int) -> Self:
        return super().__new__(cls, (topic_id.int, partition))

    def __getnewargs__(self) -> tuple[UUID, int]:
        return self.topic_id, self.partition

    @property
    def topic_id(self) -> UUID:
        return UUID(int=self[0])

    @property
    def partition(self) -> int:
        return self[1]

    def __repr__(self) -> str:
        return f"PartitionId({self.topic_id!r}, {self.partition})"


class SessionFetch(NamedTuple):
    """The part of a ShareFetch request that concerns the session."""

    epoch: int
    added: frozenset[PartitionId]
    forgotten: frozenset[PartitionId]


class ShareSession:
    """The session with one leader.

    Attributes:
        wanted: The partitions to fetch from.
    """

    __slots__ = ("_epoch", "_has", "_sent", "wanted")

    def __init__(self) -> None:
        self.wanted: frozenset[PartitionId] = frozenset()
        self._epoch = OPENING_EPOCH  # of the next request
        self._has: frozenset[PartitionId] = frozenset()
        self._sent: frozenset[PartitionId] | None = None  # of the fetch in flight

    @property
    def open(self) -> bool:
        """True if the leader has this session, as far as this client can tell."""
        return self._epoch != OPENING_EPOCH

    @property
    def epoch(self) -> int:
        """The epoch of the next request."""
        return self._epoch

    @property
    def partitions(self) -> frozenset[PartitionId]:
        """The partitions that a response may contain."""
        return self._has if self._sent is None else self._has | self._sent

    def next_fetch(self, wanted: Collection[PartitionId] | None = None) -> SessionFetch:
        """Return the session's part of the next fetch.

        Args:
            wanted: Partitions to fetch from; `self.wanted` by default.
        """
        target = self.wanted if wanted is None else frozenset(wanted)
        self._sent = target
        return SessionFetch(self._epoch, target - self._has, self._has - target)

    def on_success(self) -> None:
        """The leader accepted the request in flight, a fetch or an acknowledgement."""
        if self._sent is not None:
            self._has, self._sent = self._sent, None
        self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """The session is gone, or in an unknown state: the next fetch opens a new one."""
        self._epoch = OPENING_EPOCH
        self._has = frozenset()
        self._sent = None
