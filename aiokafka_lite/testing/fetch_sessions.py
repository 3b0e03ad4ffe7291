"""Fetch sessions (KIP-227): what a consumer fetches is remembered, and only news are answered.

A request names what changed of what it wants, and the response holds the partitions that have
something to tell: records, an error, a moved high watermark or log start, a diverging epoch, a
preferred replica. A session keeps those partitions apart that may have news: the request and the
partition's own watchers put them there, and a look that found nothing takes them off. So a fetch
costs what changed, and idle partitions cost nothing.

Source: Kafka's `FetchSession`, `FetchSessionCacheShard`, `IncrementalFetchContext`. Kafka
divides its cache into eight, which only shows in which session is evicted; here it is one.

Non-obvious:
- A partition that gives records goes to the end of the session's order, so that no partition
  starves where a response is limited.
- A partition is watched once (the watch ends when it strikes) and only after a look found it
  unchanged, so the sessions of clients that are gone cost an append nothing.
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

if TYPE_CHECKING:  # a broker that nobody fetches from need not know how
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
UNTOLD: Final = -1  # an offset that no partition has, so that the next look tells it
EVICTION_MS: Final = 120_000  # min.incremental.fetch.session.eviction.ms

FetchKey: TypeAlias = tuple[UUID | str, int]
"""A partition by its topic's id, or by its name before version 13."""


def next_epoch(epoch: int) -> int:
    """The session epoch of the next request; after 2**31 - 1 comes 1."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == LAST_EPOCH else epoch + 1


class SessionPartition:
    """One partition of a session: what was last asked of it, and what was last told.

    Attributes:
        key: Which one.
        name: Its topic's name; None while no topic has the id.
        wanted: What was last asked.
        high_watermark: As last told.
        log_start_offset: As last told.
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
        self.high_watermark = UNTOLD
        self.log_start_offset = UNTOLD
        self.order = 0  # the session's: the smallest is read first

    def is_told(self, high_watermark: int, log_start_offset: int) -> bool:
        """Whether the client knows where the partition's log begins and ends."""
        return self.high_watermark == high_watermark and self.log_start_offset == log_start_offset

    def is_news(self, data: "PartitionData") -> bool:
        """Whether the client must be told this, as far as it is not the same again."""
        return bool(
            data.records
            or data.error_code
            or not self.is_told(data.high_watermark, data.log_start_offset)
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.end_offset >= 0
        )

    def on_told(self, data: "PartitionData") -> None:
        """This goes to the client."""
        self.high_watermark = UNTOLD if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset

    def watch(self, partition: Partition) -> None:
        """Let the session know when something changes."""
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
    """What one client fetches from one broker.

    A full fetch makes one for itself, which the cache keeps if it is wanted and there is room.

    Args:
        privileged: It is a follower's.
        uses_topic_ids: Its requests name topics by id.

    Attributes:
        session_id: Chosen at random by the cache; 0 while the session is not kept there.
        epoch: That the next request must have.
        privileged: A follower's, which other clients' sessions never push out.
        uses_topic_ids: Whether its requests name topics by id.
        created_ms: When it began.
        last_used_ms: When it was last used.
        watchers: Told when one of its partitions changed that had nothing to tell before.
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
        self._pending: dict[FetchKey, SessionPartition] = {}  # those that may have news
        self._changed: dict[FetchKey, SessionPartition] = {}  # while a fetch waits
        self._next_order = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[SessionPartition]:
        """All partitions, the first to be read first."""
        return iter(sorted(self._partitions.values(), key=_order))

    def put(self, key: FetchKey, name: str | None, wanted: "FetchPartition") -> SessionPartition:
        """Fetch a partition from now on, or fetch it in another way."""
        known = self._partitions.get(key)
        if known is None:
            known = self._partitions[key] = SessionPartition(self, key, name, wanted)
            self._to_the_end(known)
        else:
            known.wanted = wanted
        self._pending[key] = known
        return known

    def forget(self, key: FetchKey) -> None:
        """Fetch a partition no more; nothing if it was not fetched."""
        known = self._partitions.pop(key, None)
        if known is not None:
            known.unwatch()
            self._pending.pop(key, None)
            self._changed.pop(key, None)

    def pending(self) -> Sequence[SessionPartition]:
        """Those that may have news, the first to be read first."""
        return sorted(self._pending.values(), key=_order)

    def look_at_all(self) -> None:
        """Any partition may have news that none of them tells of."""
        self._pending = dict(self._partitions)

    def on_change(self, fetched: SessionPartition) -> None:
        """Something changed in a partition that is watched."""
        self._pending[fetched.key] = self._changed[fetched.key] = fetched
        self.watchers.notify()

    def take_changed(self) -> Sequence[SessionPartition]:
        """Those that changed since the last call."""
        changed, self._changed = self._changed, {}
        return [*changed.values()]

    def on_waiting(self, fetched: SessionPartition, partition: Partition) -> None:
        """A look did not find enough to answer: wait for a change."""
        fetched.watch(partition)
        log = partition.log
        at_end = fetched.wanted.fetch_offset >= log.end_offset
        if at_end and fetched.is_told(log.high_watermark, log.start_offset):
            self._pending.pop(fetched.key, None)

    def on_read(
        self, fetched: SessionPartition, data: "PartitionData", partition: Partition | None
    ) -> bool:
        """What reading a partition gave (None: a refusal); whether it belongs into the answer."""
        if partition is None or fetched.is_news(data):
            fetched.on_told(data)
            if data.records:
                self._to_the_end(fetched)
            return True
        self.on_waiting(fetched, partition)  # it may still hold what did not fit
        return False

    def close(self) -> None:
        """Watch nothing any more."""
        for partition in self._partitions.values():
            partition.unwatch()

    def _to_the_end(self, partition: SessionPartition) -> None:
        partition.order = self._next_order
        self._next_order += 1


class FetchSessionCache:
    """The fetch sessions of one broker, as many as there is room for.

    Args:
        slots: How many (`max.incremental.fetch.session.cache.slots`).
        new_id: Gives random session ids.
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
        """Keep a new session and give it an id, if there is room or a less valuable one goes."""
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
        """The session that an incremental request goes on with.

        Raises:
            FetchSessionIdNotFound: It was closed or evicted, or never was.
            InvalidFetchSessionEpoch: A request is missing, or comes twice.
            FetchSessionTopicIdError: It names topics in the other way.
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
        """An incremental request was taken into the session."""
        session.last_used_ms = now_ms
        session.epoch = next_epoch(session.epoch)

    def close(self, session_id: int) -> None:
        """End a session; nothing if there is none."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def clear(self) -> None:
        """The broker died."""
        for session_id in list(self._sessions):
            self.close(session_id)

    def _evict(self, wanted: FetchSession, now_ms: int) -> bool:
        """Make room: by the session unused for longest if that is long, else by a lesser one.

        A session may go for another that is at least as valuable (privileged, then larger) if it
        is an old one, and an unprivileged one also while young if the other is privileged.
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
            # As of its last use: a session grows old by being used.
            if kept.last_used_ms - kept.created_ms > EVICTION_MS
            or (wanted.privileged and not kept.privileged)
        ]
        if not evictable or (wanted.privileged, len(wanted), 0) < min(evictable):
            return False
        self.close(min(evictable)[2])
        return True


def _order(partition: SessionPartition) -> int:
    return partition.order
