"""The share sessions of one broker (KIP-932). No I/O, no clock.

A session belongs to one member of one group, and to the connection that opened it. Source: Kafka's
`SharePartitionManager.newContext`, `acknowledgeSessionUpdate` and `ShareSessionCache`.

As in Kafka, a connection stores only the session that it opened last: if it closes, its other
sessions stay. It drops that session, too, if any session that it opened was closed before.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from uuid import UUID

from aiokafka_lite.errors import (
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)

__all__ = [
    *("FINAL_EPOCH", "INITIAL_EPOCH", "Disconnection", "PartitionKey", "SessionKey"),
    *("ShareSession", "ShareSessionCache"),
]

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
        seen_topics: The ids of topics that existed when a request named them.
    """

    __slots__ = ("connection_id", "epoch", "key", "partitions", "seen_topics")

    def __init__(self, key: SessionKey, connection_id: int) -> None:
        self.key = key
        self.connection_id = connection_id
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[PartitionKey, bool] = {}
        self.seen_topics: set[UUID] = set()

    def update(self, added: Iterable[PartitionKey], forgotten: Iterable[PartitionKey]) -> None:
        """Add and remove partitions."""
        for one in added:
            self.partitions.setdefault(one, True)
        for one in forgotten:
            self.partitions.pop(one, None)

    def next_epoch(self) -> None:
        """Count a request."""
        self.epoch = _after(self.epoch)

    def is_at(self, epoch: int) -> bool:
        """Return True if the session has counted no request since the one with this epoch."""
        return self.epoch == _after(epoch)


def _after(epoch: int) -> int:
    return 1 if epoch == LARGEST_EPOCH else epoch + 1


class Disconnection(NamedTuple):
    """What a closed connection ends.

    Attributes:
        session: The session to release; None if the connection stores none.
        empty_group: The group that no longer has a session at the broker, if any.
    """

    session: ShareSession | None
    empty_group: str | None


class _Opened:
    """The session that a connection opened last.

    Attributes:
        key: Its group and member.
        is_stale: True if a session that the connection opened was closed since.
    """

    __slots__ = ("is_stale", "key")

    def __init__(self, key: SessionKey) -> None:
        self.key = key
        self.is_stale = False


class ShareSessionCache:
    """The share sessions of a broker.

    Args:
        most: Returns the maximum number of sessions (`group.share.max.share.sessions`).
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._opened: dict[int, _Opened] = {}  # by connection

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, key: SessionKey, connection_id: int, partitions: Iterable[PartitionKey]
    ) -> ShareSession:
        """Open a session; it replaces an earlier one of the same member.

        Raises:
            ShareSessionLimitReachedError: The broker has as many sessions as it may.
        """
        self.close(key)
        if len(self._sessions) >= self._most():
            raise ShareSessionLimitReachedError("the broker's share session cache is full")
        session = self._sessions[key] = ShareSession(key, connection_id)
        session.partitions = dict.fromkeys(partitions, False)
        self._opened[connection_id] = _Opened(key)
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
        session = self._sessions.pop(key, None)
        opened = None if session is None else self._opened.get(session.connection_id)
        if opened is not None:
            opened.is_stale = True

    def on_disconnect(self, connection_id: int) -> Disconnection:
        """Remove and return the session that a closed connection stores."""
        opened = self._opened.pop(connection_id, None)
        if opened is None:
            return Disconnection(None, None)
        session = None if opened.is_stale else self._sessions.pop(opened.key, None)
        group_id = opened.key.group_id
        is_empty = not any(key.group_id == group_id for key in self._sessions)
        return Disconnection(session, group_id if is_empty else None)

    def clear(self) -> None:
        """Remove all sessions, when the broker is killed."""
        self._sessions.clear()
        self._opened.clear()
