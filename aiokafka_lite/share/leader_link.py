"""The share session with one leader: one request in flight, over one connection.

A fetch acquires records and carries terminal acknowledgements; a ShareAcknowledge carries either
those or renewals. Both number the session's epoch, so a second request must not overtake the first.

One task for each leader. Non-obvious:

- A session belongs to the connection that opened it. When the connection is lost, the broker
  releases what this member had acquired, so every lock counts as lost then.
- A fetch is sent only while a read wants records, and only for as many as `LinkOwner.claim` grants:
  a record that is acquired and not processed loses a delivery attempt.
- Acknowledgements wait behind a long poll. So a fetch waits briefly while records are held, and not
  at all while a task awaits an acknowledgement.
- A partition that a fetch names only for its acknowledgements would become part of the session. So
  those of partitions that are not fetched travel in a ShareAcknowledge.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    InvalidRecordStateError,
    InvalidShareSessionEpochError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    NotLeaderForPartitionError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from aiokafka_lite.protocol.messages.share_fetch import (
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from aiokafka_lite.share.acknowledgement import Failures
from aiokafka_lite.share.acquired_records import Decoding, Item
from aiokafka_lite.share.acquisition import Acquisition
from aiokafka_lite.share.pending_acknowledgements import Part, PendingAcknowledgements
from aiokafka_lite.share.share_requests import (
    RENEWALS_FROM,
    Limits,
    acknowledge_request,
    acquired_ranges,
    fetch_request,
    leader_hints,
)
from aiokafka_lite.share.share_session import CLOSING_EPOCH, PartitionId, ShareSession
from aiokafka_lite.structs import TopicPartition

if TYPE_CHECKING:
    from aiokafka_lite.cluster.metadata import LeaderHint

__all__ = ["LeaderLink", "LinkOptions", "LinkOwner"]

log: Final = logging.getLogger(__name__)

LINGER: Final = 0.005
"""Seconds that marks may wait for a fetch to carry them."""

BUSY_WAIT: Final = 0.1
"""Maximum seconds of a long poll while records are held or other leaders wait for their turn."""

DEFAULT_LOCK: Final = 30.0
LONGEST_LOCK: Final = 86_400.0

_MOVED: Final = (
    NotLeaderForPartitionError,
    FencedLeaderEpochError,
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
    InconsistentTopicIdError,
)
_SESSION_GONE: Final = (
    ShareSessionNotFoundError,
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
)

Parts = dict[PartitionId, Part]


class LinkOptions(Protocol):
    """What a link needs of the consumer's options; durations are in seconds."""

    @property
    def group_id(self) -> str: ...
    @property
    def log_name(self) -> str: ...
    @property
    def request_timeout(self) -> float: ...
    @property
    def fetch_max_wait(self) -> float: ...
    @property
    def fetch_min_bytes(self) -> int: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def max_poll_records(self) -> int: ...
    @property
    def record_limit(self) -> bool: ...


class LinkOwner(Protocol):
    """The consumer that a link works for."""

    @property
    def member_id(self) -> str:
        """The id of the member in its group."""

    def claim(self, link: LeaderLink) -> tuple[int, bool]:
        """Return how many records the link may acquire now, and True if it should not wait long
        for them, because other leaders wait for their turn."""

    def on_items(self, items: Sequence[Item], tp: TopicPartition) -> None:
        """Records were acquired."""

    def on_fetched(self, link: LeaderLink, records: int, size: int, latency: float) -> None:
        """A fetch was answered."""

    def on_lock_timeout(self, seconds: float) -> None:
        """A broker reported for how long it locks records."""

    def on_hints(self, hints: Sequence[LeaderHint]) -> None:
        """A broker reported new leaders."""

    def on_stale_metadata(self) -> None:
        """A broker's error means that the metadata is out of date."""

    def on_failure(self, error: KafkaError) -> None:
        """A read must raise this error."""

    def on_acknowledged(self, count: int, failed: bool) -> None:
        """Acknowledgements have a result."""

    def on_unseen_failure(self, tp: TopicPartition, failures: Failures) -> None:
        """Acknowledgements failed that the application does not await."""

    def on_lost(self, tp: TopicPartition | None, count: int, why: str) -> None:
        """Locks of records ended that the application had not acknowledged."""


class LeaderLink:
    """The share session with one leader.

    Args:
        node_id: The leader.
        cluster: The cluster.
        owner: The consumer.
        options: The consumer's.
        decoding: How to decode records.
        backoff: Pauses after failures.
        loop: The event loop.

    Attributes:
        claimed: Records that the fetch in flight may acquire.
        fetched_at: Loop time of the last fetch.
    """

    def __init__(
        self,
        node_id: int,
        cluster: Cluster,
        owner: LinkOwner,
        options: LinkOptions,
        decoding: Decoding,
        backoff: Backoff,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.node_id = node_id
        self.loop = loop
        self.session = ShareSession()
        self.pending = PendingAcknowledgements()
        self.claimed = 0
        self.fetched_at = 0.0
        self._cluster = cluster
        self._owner = owner
        self._options = options
        self._decoding = decoding
        self._backoff = backoff
        self._names: dict[PartitionId, TopicPartition] = {}
        self._connection: Connection | None = None
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()  # set, and replaced, after each exchange
        self._due = inf  # loop time when marks must be sent
        self._resume_at = 0.0  # loop time when the backoff ends
        self._failures = 0  # in a row
        self._flushing = 0  # calls of `flush` that wait
        self._lock = DEFAULT_LOCK
        self._in_flight: Parts = {}
        self._closing = False

    # what the consumer does

    def set_wanted(self, wanted: Mapping[PartitionId, TopicPartition]) -> None:
        """Fetch from these partitions from now on."""
        self._names.update(wanted)
        keys = frozenset(wanted)
        if keys != self.session.wanted:
            self.session.wanted = keys
            self.wake()

    def wake(self) -> None:
        """Something changed: look for the next request."""
        self._wake.set()

    @property
    def able(self) -> bool:
        """True if it could fetch now."""
        return (
            bool(self.session.wanted)
            and not self.claimed
            and not self._closing
            and self.loop.time() >= self._resume_at
        )

    @property
    def idle(self) -> bool:
        """True if it has no partition, no lock, and no request in flight."""
        return not (self.session.wanted or self.pending.holds or self._in_flight or self.claimed)

    async def flush(self) -> None:
        """Send every mark, and wait until all have a result."""
        self._flushing += 1
        self._due = self.loop.time()
        self.wake()
        try:
            while (self.pending.waiting or self._in_flight) and not self._closing:
                await self._settled.wait()
        finally:
            self._flushing -= 1

    # what the application marks

    def on_marked(self, acquisition: Acquisition) -> None:
        """An acquisition has a mark."""
        self.pending.on_marked(acquisition)
        if self._due == inf:
            self._due = self.loop.time() + LINGER
            self.wake()

    def on_awaited(self) -> None:
        """A task awaits an acknowledgement."""
        self._due = self.loop.time()
        self.wake()

    def on_unseen_failure(self, topic_partition: TopicPartition, failures: Failures) -> None:
        """Acknowledgements failed that the application does not await."""
        self._owner.on_unseen_failure(topic_partition, failures)

    # the task

    async def run(self) -> None:
        """Exchange requests until `close`."""
        while not self._closing:
            self._wake.clear()
            now = self.loop.time()
            self._expire(now)
            if now >= self._resume_at and await self._exchange(now):
                continue
            until = min(
                self._resume_at if now < self._resume_at else self._due,
                self.pending.next_expiry() + 0.001,
            )
            try:
                async with asyncio.timeout_at(None if until == inf else until):
                    await self._wake.wait()
            except TimeoutError:
                pass  # something is due

    async def _exchange(self, now: float) -> bool:
        """Send the next request and process its response; False if there is none to send."""
        pending, session = self.pending, self.session
        try:
            if not pending.waiting:
                self._due = inf
            renews, ends = pending.renewals_waiting, pending.terminal_waiting
            urgent = self._flushing > 0 or now >= self._due
            if session.open and renews and urgent:
                await self._renew(now)
                return True
            if session.open and ends and urgent and pending.waits_for_other_than(session.wanted):
                await self._acknowledge(now)
                return True
            quota, briefly = self._owner.claim(self)
            if quota or ((renews or ends) and not session.open):
                await self._fetch(quota, briefly)
                return True
            if ends and urgent:
                await self._acknowledge(now)
                return True
            return False
        finally:
            settled, self._settled = self._settled, asyncio.Event()
            settled.set()

    async def _connect(self) -> Connection:
        broker = self._cluster.broker(self.node_id)
        async with asyncio.timeout(self._options.request_timeout):
            connection = await broker.connection(Purpose.SHARE)
        if connection is not self._connection:
            self._on_connection(connection)
        return connection

    def _on_connection(self, connection: Connection) -> None:
        """A new connection is open: the session of the old one is gone."""
        self._on_disconnected(None)
        self._connection = connection
        notify_broker = connection.on_close

        def on_close(error: KafkaError | None) -> None:
            if notify_broker is not None:
                notify_broker(error)
            if self._connection is connection:
                self._connection = None
                self._on_disconnected(error)

        connection.on_close = on_close

    def _on_disconnected(self, error: KafkaError | None) -> None:
        """The session is gone, and the broker releases its records."""
        self.session.reset()
        if not self.pending.holds:
            return
        lost = InvalidRecordStateError(
            f"the connection to broker {self.node_id} was lost, so it released the records that "
            "were acquired over it; the group delivers them again"
        )
        lost.__cause__ = error
        count = self.pending.lose(lost)
        if count and not self._closing:
            self._owner.on_lost(None, count, f"the connection to broker {self.node_id} was lost")
        self.wake()

    # fetching

    async def _fetch(self, quota: int, briefly: bool) -> None:
        self.claimed = quota
        parts: Parts = {}
        session, pending = self.session, self.pending
        try:
            connection = await self._connect()
            version = self._version(connection, ShareFetchRequest)
            sent_at = self.fetched_at = self.loop.time()
            reopens = not session.open
            step = session.next_fetch()
            if not reopens:
                parts = pending.take(sent_at, session.wanted)
            options = self._options
            wait = options.fetch_max_wait
            if briefly or pending.holds:
                wait = min(wait, BUSY_WAIT)
            if (
                not quota
                or self._flushing
                or pending.renewals_waiting
                or (reopens and pending.waiting)
                or _awaited(parts)
            ):
                wait = 0.0
            limits = Limits(
                wait,
                options.fetch_min_bytes,
                options.fetch_max_bytes,
                quota,
                max(quota, 1) if options.record_limit else options.max_poll_records,
                options.record_limit,
            )
            request = fetch_request(options.group_id, self._owner.member_id, step, limits, parts)
            self._on_taken(parts)
            response = await connection.send(
                request, version, timeout=options.request_timeout + wait
            )
        except (KafkaError, TimeoutError) as error:
            self._on_exchange_failed(parts, error)
        except asyncio.CancelledError:
            self._fail(parts, self._unanswered(), renews=False)
            raise
        else:
            self._on_fetch_response(response, parts, sent_at)
        finally:
            self.claimed = 0
            self._in_flight = {}

    def _on_fetch_response(
        self, response: ShareFetchResponse, parts: Parts, sent_at: float
    ) -> None:
        if response.error_code:
            self._on_refused(response.error_code, response.error_message, parts)
            return
        self.session.on_success()
        now = self.loop.time()
        lock = self._on_lock_timeout(response.acquisition_lock_timeout_ms)
        records = size = 0
        troubled = False
        try:
            for topic in response.responses:
                for partition in topic.partitions:
                    key = PartitionId(topic.topic_id, partition.partition_index)
                    part = parts.pop(key, None)
                    if part is not None:
                        self._on_result(
                            key,
                            part,
                            partition.acknowledge_error_code,
                            partition.acknowledge_error_message,
                        )
                    if partition.error_code:
                        troubled = True
                        self._on_partition_error(key, partition.error_code, partition.error_message)
                    elif partition.acquired_records:
                        size += len(partition.records)
                        records += self._acquire(key, partition, sent_at + lock, now + lock)
        except KafkaProtocolError as error:
            self._on_exchange_failed(parts, error)
            if self._connection is not None:
                self._connection.close(error)
            return
        self._on_omitted(parts)
        self._take_hints(response)
        if troubled and not records:
            self._pause()
        elif not troubled:
            self._failures = 0
        self._owner.on_fetched(self, records, size, now - sent_at)

    def _acquire(
        self, key: PartitionId, partition: PartitionData, deadline: float, latest: float
    ) -> int:
        tp = self._names.get(key)
        if tp is None:
            raise KafkaProtocolError(
                f"The broker returned records of topic {key.topic_id} partition {key.partition}, "
                "which was never fetched"
            )
        ranges = acquired_ranges(partition.acquired_records)

        def acquire(first: int, last: int) -> Acquisition:
            return Acquisition(self, tp, key, first, last, deadline, latest)

        acquisitions, items = self._decoding.decode(partition.records, tp, ranges, acquire)
        for acquisition in acquisitions:
            inside = [
                (each.first, each.last)
                for each in ranges
                if acquisition.base <= each.first <= acquisition.last
            ]
            self.pending.on_acquired(acquisition, inside)
            if acquisition.has_gaps and self._due == inf:
                self._due = self.loop.time() + LINGER
        self._owner.on_items(items, tp)
        return len(items)

    # acknowledging

    async def _acknowledge(self, now: float) -> None:
        parts = self.pending.take(now)
        if parts:
            await self._send_acknowledgements(parts, renews=False)

    async def _renew(self, now: float) -> None:
        parts = self.pending.take_renewals(now)
        if parts:
            await self._send_acknowledgements(parts, renews=True)

    async def _send_acknowledgements(
        self, parts: Parts, *, renews: bool, timeout: float | None = None, closes: bool = False
    ) -> None:
        self._on_taken(parts)
        try:
            connection = self._connection
            if connection is None or connection.closed:
                raise KafkaConnectionError(f"the connection to broker {self.node_id} was lost")
            oldest = RENEWALS_FROM if renews else 0
            version = self._version(connection, ShareAcknowledgeRequest, oldest)
            request = acknowledge_request(
                self._options.group_id,
                self._owner.member_id,
                CLOSING_EPOCH if closes else self.session.epoch,
                parts,
                renews=renews,
            )
            sent_at = self.loop.time()
            if timeout is None:
                timeout = self._options.request_timeout
            response = await connection.send(request, version, timeout=timeout)
        except UnsupportedVersionError as error:
            for part in parts.values():
                self.pending.on_renewal_failed(part, error, gone=False)
        except KafkaError as error:
            self._on_exchange_failed(parts, error, renews=renews)
        except asyncio.CancelledError:
            self._fail(parts, self._unanswered(), renews=renews)
            raise
        else:
            self._on_acknowledge_response(response, parts, sent_at, renews=renews)
        finally:
            self._in_flight = {}

    def _on_acknowledge_response(
        self, response: ShareAcknowledgeResponse, parts: Parts, sent_at: float, *, renews: bool
    ) -> None:
        if response.error_code:
            self._on_refused(response.error_code, response.error_message, parts, renews=renews)
            return
        self.session.on_success()
        self._failures = 0
        lock = self._on_lock_timeout(response.acquisition_lock_timeout_ms)
        for topic in response.responses:
            for partition in topic.partitions:
                key = PartitionId(topic.topic_id, partition.partition_index)
                part = parts.pop(key, None)
                if part is None:
                    continue
                code, message = partition.error_code, partition.error_message
                if not renews:
                    self._on_result(key, part, code, message)
                elif code == 0:
                    self.pending.on_renewed(part, sent_at + lock, self.loop.time() + lock)
                else:
                    self._on_renewal_error(key, part, self._error(code, message, key))
        self._on_omitted(parts, renews=renews)
        self._take_hints(response)

    def _on_renewal_error(self, key: PartitionId, part: Part, error: KafkaError) -> None:
        if isinstance(error, _MOVED):
            self.pending.on_renewal_failed(part, error, gone=True)
            self._on_moved(key, error)
        elif error.retriable:
            self.pending.put_renewals_back(key, part)
            self._pause()
        else:
            self.pending.on_renewal_rejected(key, part, error)

    # results

    def _on_taken(self, parts: Parts) -> None:
        self._in_flight = parts
        self._due = self.loop.time() + LINGER if self.pending.waiting else inf

    def _on_result(self, key: PartitionId, part: Part, code: int, message: str | None) -> None:
        """The result of the terminal acknowledgements of a partition."""
        count = len(part)
        if code == 0:
            self.pending.on_acknowledged(part)
            self._owner.on_acknowledged(count, failed=False)
            return
        error = self._error(code, message, key)
        if isinstance(error, _MOVED):
            self.pending.on_failed(part, error)
            self._owner.on_acknowledged(count, failed=True)
            self._on_moved(key, error)
        elif error.retriable and not isinstance(error, InvalidRecordStateError):
            self.pending.put_back(key, part)
            self._pause()
        else:
            self.pending.on_rejected(key, part, error)
            self._owner.on_acknowledged(count, failed=True)
        if self.pending.waiting:
            self._due = min(self._due, self.loop.time())

    def _on_omitted(self, parts: Parts, *, renews: bool = False) -> None:
        """The response lacks the results of some partitions: their locks count as lost."""
        for key, part in parts.items():
            error = self._error(
                InvalidRecordStateError.errno, "the broker's response omits the partition", key
            )
            if renews:
                self.pending.on_renewal_failed(part, error, gone=True)
            else:
                self.pending.on_failed(part, error)
            self._owner.on_acknowledged(len(part), failed=True)

    def _on_moved(self, key: PartitionId, error: KafkaError) -> None:
        """The leader no longer leads a partition; the new one does not know its locks."""
        lost = InvalidRecordStateError(
            f"{self._name(key)}: its leader changed, which ended the locks of its records; the "
            "group delivers them again"
        )
        lost.__cause__ = error
        count = self.pending.lose(lost, key)
        if count:
            self._owner.on_lost(self._names.get(key), count, "the leader changed")
        self._owner.on_stale_metadata()

    def _on_partition_error(self, key: PartitionId, code: int, message: str | None) -> None:
        """A partition cannot be fetched."""
        error = self._error(code, message, key)
        if isinstance(error, _MOVED):
            self._on_moved(key, error)
        elif error.retriable:
            log.debug("%s: %s", self._options.log_name, error)
            if error.invalid_metadata:
                self._owner.on_stale_metadata()
        elif key in self.session.wanted:
            self._owner.on_failure(error)

    def _on_refused(
        self, code: int, message: str | None, parts: Parts, *, renews: bool = False
    ) -> None:
        """The broker refused the whole request, and applied nothing of it."""
        error = for_code(code)(message or f"broker {self.node_id} refused a request")
        self.session.reset()
        if isinstance(error, _SESSION_GONE) or error.retriable:
            log.debug("%s: broker %d: %r", self._options.log_name, self.node_id, error)
            for key, part in parts.items():
                if renews:
                    self.pending.put_renewals_back(key, part)
                else:
                    self.pending.put_back(key, part)
            if self._failures or isinstance(error, ShareSessionLimitReachedError):
                self._pause()
            else:
                self._failures = 1  # the next one waits
            self._due = self.loop.time()
            return
        self._fail(parts, error, renews=renews)
        self._pause()
        self._owner.on_failure(error)

    def _on_exchange_failed(
        self, parts: Parts, error: KafkaError | TimeoutError, *, renews: bool = False
    ) -> None:
        """A request got no response; the broker may have applied it."""
        if isinstance(error, TimeoutError):
            error = KafkaConnectionError(f"broker {self.node_id}: not connected in time")
        self.session.reset()
        self._fail(parts, error, renews=renews)
        if isinstance(error, UnsupportedVersionError) or not error.retriable:
            self._owner.on_failure(error)
        else:
            log.debug("%s: broker %d: %r", self._options.log_name, self.node_id, error)
            self._owner.on_stale_metadata()
        self._pause()

    def _unanswered(self) -> KafkaConnectionError:
        return KafkaConnectionError(
            f"the consumer was stopped before broker {self.node_id} answered"
        )

    def _fail(self, parts: Parts, error: KafkaError, *, renews: bool) -> None:
        for part in parts.values():
            if renews:
                self.pending.on_renewal_failed(part, error, gone=True)
            else:
                self.pending.on_failed(part, error)
                self._owner.on_acknowledged(len(part), failed=True)

    def _pause(self) -> None:
        self._failures += 1
        self._resume_at = self.loop.time() + self._backoff.delay(self._failures)

    def _expire(self, now: float) -> None:
        if now <= self.pending.next_expiry():
            return
        for tp, count in self.pending.expire(now).items():
            self._owner.on_lost(tp, count, "the lock expired")

    def _on_lock_timeout(self, milliseconds: int) -> float:
        """Seconds for which the broker locks records."""
        if 0 < milliseconds <= 1000 * LONGEST_LOCK:
            self._lock = milliseconds / 1000
            self._owner.on_lock_timeout(self._lock)
        return self._lock

    def _take_hints(self, response: ShareFetchResponse | ShareAcknowledgeResponse) -> None:
        names = {key.topic_id: tp.topic for key, tp in self._names.items()}
        hints = leader_hints(response, names)
        if hints:
            self._owner.on_hints(hints)

    def _version(
        self,
        connection: Connection,
        request: type[ShareFetchRequest | ShareAcknowledgeRequest],
        oldest: int = 0,
    ) -> int:
        try:
            return connection.version_of(request, oldest=oldest)
        except UnsupportedVersionError as error:
            what, since = ("renew() (KIP-1222)", "4.2") if oldest else ("Share groups", "4.1")
            raise UnsupportedVersionError(
                f"{what}: required is Kafka {since} or newer, which broker {self.node_id} is not"
            ) from error

    def _error(self, code: int, message: str | None, key: PartitionId) -> KafkaError:
        text = f": {message}" if message else ""
        return for_code(code)(f"{self._name(key)}{text}")

    def _name(self, key: PartitionId) -> str:
        tp = self._names.get(key)
        return f"{key.topic_id}-{key.partition}" if tp is None else f"{tp.topic}-{tp.partition}"

    # the end

    def stop(self) -> None:
        """Send no more fetches; the task ends with its exchange in progress."""
        self._closing = True
        self.wake()

    async def close(self, deadline: float) -> None:
        """Send the last marks, and close the session, which releases what is undecided. The task
        must have ended."""
        try:
            async with asyncio.timeout_at(deadline):
                while self.session.open and self.pending.waits_in_halves:
                    await self._acknowledge(self.loop.time())
                if self.session.open:
                    parts = self.pending.take(self.loop.time())
                    await self._send_acknowledgements(
                        parts,
                        renews=False,
                        timeout=max(deadline - self.loop.time(), 0.001),
                        closes=True,
                    )
        except TimeoutError:
            log.warning(
                "%s: closing the share session with broker %d timed out",
                self._options.log_name,
                self.node_id,
            )
        finally:
            self.abort()

    def abort(self) -> None:
        """End at once: marks without a result fail."""
        self._closing = True
        lost = InvalidRecordStateError("the consumer was stopped before the record's result")
        self._fail(self._in_flight, lost, renews=False)
        self._in_flight = {}
        self.pending.lose(lost)
        self.session.reset()
        self.wake()
        self._settled.set()


def _awaited(parts: Parts) -> bool:
    return any(
        run.outcome is not None and run.outcome.awaited
        for part in parts.values()
        for run in part.runs
    )
