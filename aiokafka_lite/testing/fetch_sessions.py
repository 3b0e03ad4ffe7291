"""Fetch sessions (KIP-227), which remember a consumer's partitions and return only changes.

A request contains only changes of its partitions. The response contains only partitions with news:
records, an error, a changed high watermark or log start, a diverging epoch, or a preferred replica.
A session separates the partitions that may have news: requests and the partitions' watchers add
them, and a check that finds nothing removes them. So the cost of a fetch depends on the changes,
and idle partitions cost nothing.

Source: Kafka's `FetchSession`, `FetchSessionCacheShard`, `IncrementalFetchContext`. Kafka divides
its cache into eight shards, which only affects which session is evicted; here there is one.

Non-obvious:
- A partition that returned records moves to the end of the session's order, so that no partition
  starves when responses are limited.
- A partition is watched once (the watch ends with the first change) and only after a check found
  it unchanged, so sessions of disconnected clients do not slow down appends.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from aiokafka_lite.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from aiokafka_lite.testing.topics import Partition
from aiokafka_lite.testing.watchers import Watchers

if TYPE_CHECKING:  # do not import it in a broker without fetches
    from aiokafka_lite.protocol.messages.fetch import FetchPartition, PartitionData

__all__ = [
    "FINAL_EPOCH",
    "INITIAL_EPOCH",
    "NO_SESSION",
    "FetchKey",
    "FetchSession",
    "FetchSessionCache",
    "SessionPartition",
    "next_epoch",
]

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
LAST_EPOCH: Final = 2**31 - 1
NOT_SENT: Final = -1  # not a valid offset, so the next check returns the partition
EVICTION_MS: Final = 120_000  # min.incremental.fetch.session.eviction.ms

FetchKey: TypeAlias = tuple[UUID | str, int]
"""A partition by topic id, or by topic name before version 13."""


def next_epoch(epoch: int) -> int:
    """Return the session epoch of the next request; 1 follows 2**31 - 1."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == LAST_EPOCH else epoch + 1


class SessionPartition:
    """One partition of a session: the last requested and the last returned state.

    Attributes:
        key: Its key.
        name: Its topic's name; None while no topic has the id.
        wanted: The last request for it.
        high_watermark: The last returned high watermark.
        log_start_offset: The last returned log start offset.
    """

    __slots__ = (
        "_session",
        "_watched",
        "high_watermark",
        "key",
        "log_start_offset",
        "name",
        "order",
        "wanted",
    )

    def __init__(
        self, session: "FetchSession", key: FetchKey, name: str | None, wanted: "FetchPartition"
    ) -> None:
        self._session = session
        self._watched: Watchers | None = None
        self.key = key
        self.name = name
        self.wanted = wanted
        self.high_watermark = NOT_SENT
        self.log_start_offset = NOT_SENT
        self.order = 0  # position in the session: the smallest is read first

    def is_known(self, high_watermark: int, log_start_offset: int) -> bool:
        """Return True if the client knows the partition's log start and high watermark."""
        return self.high_watermark == high_watermark and self.log_start_offset == log_start_offset

    def is_news(self, data: "PartitionData") -> bool:
        """Return True if the data contains anything new for the client."""
        return bool(
            data.records
            or data.error_code
            or not self.is_known(data.high_watermark, data.log_start_offset)
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.end_offset >= 0
        )

    def on_sent(self, data: "PartitionData") -> None:
        """Record data that is returned to the client."""
        self.high_watermark = NOT_SENT if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset

    def watch(self, partition: Partition) -> None:
        """Notify the session of the next change."""
        watchers = partition.watchers
        if self._watched is not watchers:
            self.unwatch()
            watchers.add(self._on_change)
            self._watched = watchers

    def unwatch(self) -> None:
        if self._watched is not None:
            self._watched.remove(self._on_change)
            self._watched = None

    def _on_change(self) -> None:
        self.unwatch()
        self._session.on_change(self)


class FetchSession:
    """The partitions that one client fetches from one broker.

    A full fetch creates one; the cache keeps it if the client requests it and there is room.

    Args:
        privileged: True for a follower.
        uses_topic_ids: True if its requests identify topics by id.

    Attributes:
        session_id: A random id from the cache; 0 if the session is not in the cache.
        epoch: The epoch of the next request.
        privileged: True for a follower, whose session clients' sessions never evict.
        uses_topic_ids: True if its requests identify topics by id.
        created_ms: Time of creation.
        last_used_ms: Time of the last use.
        watchers: Notified when a partition without news changes.
    """

    __slots__ = (
        "_changed",
        "_next_order",
        "_partitions",
        "_pending",
        "created_ms",
        "epoch",
        "last_used_ms",
        "privileged",
        "session_id",
        "uses_topic_ids",
        "watchers",
    )

    def __init__(self, *, privileged: bool, uses_topic_ids: bool) -> None:
        self.session_id = NO_SESSION
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = 0
        self.last_used_ms = 0
        self.watchers = Watchers()
        self._partitions: dict[FetchKey, SessionPartition] = {}
        self._pending: dict[FetchKey, SessionPartition] = {}  # may have news
        self._changed: dict[FetchKey, SessionPartition] = {}  # while a fetch waits
        self._next_order = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[SessionPartition]:
        """Yield all partitions in reading order."""
        return iter(sorted(self._partitions.values(), key=_order))

    def put(self, key: FetchKey, name: str | None, wanted: "FetchPartition") -> SessionPartition:
        """Add a partition, or change its parameters."""
        known = self._partitions.get(key)
        if known is None:
            known = self._partitions[key] = SessionPartition(self, key, name, wanted)
            self._to_the_end(known)
        else:
            known.wanted = wanted
        self._pending[key] = known
        return known

    def forget(self, key: FetchKey) -> None:
        """Remove a partition; does nothing if it is not in the session."""
        known = self._partitions.pop(key, None)
        if known is not None:
            known.unwatch()
            self._pending.pop(key, None)
            self._changed.pop(key, None)

    def pending(self) -> Sequence[SessionPartition]:
        """Return the partitions that may have news, in reading order."""
        return sorted(self._pending.values(), key=_order)

    def look_at_all(self) -> None:
        """Treat all partitions as having possible news, which their watchers do not report."""
        self._pending = dict(self._partitions)

    def on_change(self, fetched: SessionPartition) -> None:
        """Handle a change in a watched partition."""
        self._pending[fetched.key] = self._changed[fetched.key] = fetched
        self.watchers.notify()

    def take_changed(self) -> Sequence[SessionPartition]:
        """Return the partitions that have changed since the last call."""
        changed, self._changed = self._changed, {}
        return [*changed.values()]

    def on_waiting(self, fetched: SessionPartition, partition: Partition) -> None:
        """Watch for a change after a check that did not find enough."""
        fetched.watch(partition)
        log = partition.log
        at_end = fetched.wanted.fetch_offset >= log.end_offset
        if at_end and fetched.is_known(log.high_watermark, log.start_offset):
            self._pending.pop(fetched.key, None)

    def on_read(
        self, fetched: SessionPartition, data: "PartitionData", partition: Partition | None
    ) -> bool:
        """Record the result of reading a partition (None for an error); return True if it belongs
        in the response."""
        if partition is None or fetched.is_news(data):
            fetched.on_sent(data)
            if data.records:
                self._to_the_end(fetched)
            return True
        self.on_waiting(fetched, partition)  # it may have more records that did not fit
        return False

    def close(self) -> None:
        """Remove all watches."""
        for partition in self._partitions.values():
            partition.unwatch()

    def _to_the_end(self, partition: SessionPartition) -> None:
        partition.order = self._next_order
        self._next_order += 1


class FetchSessionCache:
    """The fetch sessions of one broker, up to a limit.

    Args:
        slots: The limit (`max.incremental.fetch.session.cache.slots`).
        new_id: Returns a random session id.
    """

    __slots__ = ("_new_id", "_sessions", "slots")

    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self.slots = slots
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def maybe_add(self, session: FetchSession, now_ms: int) -> bool:
        """Add a session and assign its id, if there is room or a less valuable one is evicted."""
        if len(self._sessions) >= self.slots and not self._evict(session, now_ms):
            return False
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session.session_id = session_id
        session.created_ms = session.last_used_ms = now_ms
        self._sessions[session_id] = session
        return True

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession:
        """Return the session of an incremental request.

        Raises:
            FetchSessionIdNotFound: It does not exist, or was closed or evicted.
            InvalidFetchSessionEpoch: A request is missing or repeated.
            FetchSessionTopicIdError: The request switches between topic names and ids.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"fetch session {session_id} does not exist")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(
                f"fetch session {session_id} expects epoch {session.epoch}, not {epoch}"
            )
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError(
                f"fetch session {session_id} cannot switch between topic names and topic ids"
            )
        return session

    def on_request(self, session: FetchSession, now_ms: int) -> None:
        """Record an incremental request of a session."""
        session.last_used_ms = now_ms
        session.epoch = next_epoch(session.epoch)

    def close(self, session_id: int) -> None:
        """Remove a session; does nothing if it does not exist."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def clear(self) -> None:
        """Remove all sessions of a killed broker."""
        for session_id in list(self._sessions):
            self.close(session_id)

    def _evict(self, wanted: FetchSession, now_ms: int) -> bool:
        """Evict the least recently used session if it is stale, else a less valuable one.

        An old session may be evicted for one that is at least as valuable (privileged, then
        larger). A young unprivileged session may be evicted only for a privileged one.
        """
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda kept: (kept.last_used_ms, kept.session_id))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self.close(oldest.session_id)
            return True
        evictable = [
            (kept.privileged, len(kept), kept.session_id)
            for kept in self._sessions.values()
            # Age counts up to its last use: a session ages by being used.
            if kept.last_used_ms - kept.created_ms > EVICTION_MS
            or (wanted.privileged and not kept.privileged)
        ]
        if not evictable or (wanted.privileged, len(wanted), 0) < min(evictable):
            return False
        self.close(min(evictable)[2])
        return True


def _order(partition: SessionPartition) -> int:
    return partition.order
