"""The share sessions of one broker (KIP-932). No I/O, no clock.

A session belongs to one member of one group, and to the connection that opened it. Source: Kafka's
`SharePartitionManager.newContext`, `acknowledgeSessionUpdate` and `ShareSessionCache`.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from uuid import UUID

from aiokafka_lite.errors import (
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)

__all__ = ["FINAL_EPOCH", "INITIAL_EPOCH", "SessionKey", "ShareSession", "ShareSessionCache"]

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
LARGEST_EPOCH: Final = 2**31 - 1

PartitionKey = tuple[UUID, int]
"""Topic id and partition number."""


class SessionKey(NamedTuple):
    """The member that a session belongs to."""

    group_id: str
    member_id: str


class ShareSession:
    """A share session.

    Attributes:
        key: Its group and member.
        connection_id: The connection that opened it.
        epoch: The epoch of the next request.
        partitions: The partitions that each fetch reads; True for one that the next response must
            contain.
    """

    __slots__ = ("connection_id", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection_id: int) -> None:
        self.key = key
        self.connection_id = connection_id
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[PartitionKey, bool] = {}

    def update(self, added: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        """Add and remove partitions."""
        for one in added:
            self.partitions.setdefault(one, True)
        for one in forgotten:
            self.partitions.pop(one, None)

    def next_epoch(self) -> None:
        """Count a request."""
        self.epoch = 1 if self.epoch == LARGEST_EPOCH else self.epoch + 1


class ShareSessionCache:
    """The share sessions of a broker.

    Args:
        most: Returns the maximum number of sessions (`group.share.max.share.sessions`).
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._sessions: dict[SessionKey, ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, key: SessionKey, connection_id: int, partitions: Iterable[PartitionKey]
    ) -> ShareSession:
        """Open a session; it replaces an earlier one of the same member.

        Raises:
            ShareSessionLimitReachedError: The broker has as many sessions as it may.
        """
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._most():
            raise ShareSessionLimitReachedError("the broker's share session cache is full")
        session = self._sessions[key] = ShareSession(key, connection_id)
        session.partitions = dict.fromkeys(partitions, False)
        return session

    def resume(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session that a request continues, and count the request.

        Raises:
            ShareSessionNotFoundError: There is none.
            InvalidShareSessionEpochError: The request is not the session's next one.
        """
        session = self.get(key)
        if session.epoch != epoch:
            raise InvalidShareSessionEpochError(
                f"the share session expects epoch {session.epoch}, not {epoch}"
            )
        session.next_epoch()
        return session

    def get(self, key: SessionKey) -> ShareSession:
        """Return the session of a member.

        Raises:
            ShareSessionNotFoundError: There is none.
        """
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFoundError(f"member {key.member_id} has no share session")
        return session

    def close(self, key: SessionKey) -> None:
        """Remove the session of a member, if there is one."""
        self._sessions.pop(key, None)

    def take_of_connection(self, connection_id: int) -> list[ShareSession]:
        """Remove and return the sessions that a closed connection had opened."""
        found = [one for one in self._sessions.values() if one.connection_id == connection_id]
        for session in found:
            del self._sessions[session.key]
        return found

    def clear(self) -> None:
        """Remove all sessions, when the broker is killed."""
        self._sessions.clear()
