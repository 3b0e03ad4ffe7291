"""One exchange of a leader link with its broker: a ShareFetch or a ShareAcknowledge request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from aiokafka_lite.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.net.throttle import LONGEST_THROTTLE
from aiokafka_lite.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.reading.waiter import Waiter
from aiokafka_lite.share.acquired_records import Decoding
from aiokafka_lite.share.acquisition import Acquisition, AcquisitionOwner
from aiokafka_lite.share.leaders.bell import Answer
from aiokafka_lite.share.leaders.link_connection import LinkConnection, version_of
from aiokafka_lite.share.leaders.link_owner import Claimant, LinkOptions, LinkOwner
from aiokafka_lite.share.leaders.link_pace import Pace
from aiokafka_lite.share.leaders.link_results import LinkResults, Parts
from aiokafka_lite.share.leaders.share_fetch_codec import ShareFetchFlight
from aiokafka_lite.share.pending_acknowledgements import PendingAcknowledgements
from aiokafka_lite.share.share_requests import (
    MOST_OF_RESPONSE,
    AcquiredRange,
    Limits,
    acknowledge_request,
    acquired_ranges,
    leader_hints,
)
from aiokafka_lite.share.share_session import CLOSING_EPOCH, PartitionId, ShareSession

__all__ = ["LinkExchanges"]

log: Final = logging.getLogger(__name__)

BUSY_WAIT: Final = 0.1
"""Maximum seconds of a long poll while records are held or other leaders wait for their turn."""


LOCK_SHARE: Final = 0.25
"""The fraction of a lock's duration that a long poll may take. The duration counts from the
request on, so a record that arrives at the end of a longer poll would seem to have lost its
lock."""


class _Link(Claimant, AcquisitionOwner, Protocol):
    """The link, as its owner and its acquisitions use it."""

    def on_answer(self, answer: Waiter) -> None:
        """The response to a fetch has arrived: wake the task."""

    def on_taken(self) -> None:
        """A request took marks."""


class LinkExchanges:
    """Sends requests of one link, one at a time, and applies their responses.

    Args:
        node_id: The leader.
        link: The link.
        connection: The link's.
        session: The link's.
        pending: The link's.
        pace: The link's.
        results: The link's.
        owner: The consumer.
        options: The consumer's.
        decoding: How to decode records.

    Attributes:
        in_flight: The acknowledgements in the request in flight.
    """

    def __init__(
        self,
        node_id: int,
        link: _Link,
        connection: LinkConnection,
        session: ShareSession,
        pending: PendingAcknowledgements,
        pace: Pace,
        results: LinkResults,
        owner: LinkOwner,
        options: LinkOptions,
        decoding: Decoding,
    ) -> None:
        self.in_flight: Parts = {}
        self._node_id = node_id
        self._link = link
        self._connection = connection
        self._session = session
        self._pending = pending
        self._pace = pace
        self._results = results
        self._owner = owner
        self._options = options
        self._decoding = decoding
        self._time = link.loop.time

    # fetching

    async def fetch(self, quota: int, briefly: bool, flushing: bool) -> None:
        """Send a ShareFetch, which also carries terminal acknowledgements.

        Args:
            quota: Maximum records to acquire; 0 to open a session only.
            briefly: True if the broker should not wait long for records.
            flushing: True if it should not wait at all.
        """
        link, session, pending, options = self._link, self._session, self._pending, self._options
        link.claimed = quota
        parts: Parts = {}
        try:
            connection = self._connection.ready() or await self._connection.open()
            version = version_of(connection, ShareFetchRequest, self._node_id)
            sent_at = link.fetched_at = self._time()
            reopens = not session.open
            step = session.next_fetch()
            if not reopens:
                parts = pending.take(sent_at, session.wanted)
            wait = min(options.fetch_max_wait, self._results.lock * LOCK_SHARE)
            if briefly or pending.holds:
                wait = min(wait, BUSY_WAIT)
            if (
                not quota
                or flushing
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
            flight = ShareFetchFlight(options.group_id, self._owner.member_id, step, limits, parts)
            self._on_taken(parts)
            answer = Answer(link.loop, link.on_answer)
            connection.send_for(answer, flight, version, timeout=options.request_timeout + wait)
            self._connection.expect_answer()
            response: ShareFetchResponse = await answer
        except KafkaError as error:
            self._results.on_unanswered(parts, error)
        except asyncio.CancelledError:
            self._results.fail(parts, self._stopped(), renews=False)
            raise
        else:
            await self._on_fetch_response(response, connection, parts, sent_at)
        finally:
            link.claimed = 0
            self.in_flight = {}
            self._owner.on_fetch_ended(link)

    async def _on_fetch_response(
        self, response: ShareFetchResponse, connection: Connection, parts: Parts, sent_at: float
    ) -> None:
        results = self._results
        if response.throttle_time_ms > 0:
            throttle = response.throttle_time_ms / 1000
            connection.on_throttled(min(throttle, LONGEST_THROTTLE))
            self._pace.on_throttled(response.throttle_time_ms, self._time())
        if response.error_code:
            results.on_refused(response.error_code, response.error_message, parts)
            return
        self._session.on_success()
        results.on_lock_timeout(response.acquisition_lock_timeout_ms)
        now = self._time()
        records = size = 0
        budget = MOST_OF_RESPONSE  # offsets that the other partitions may have
        troubled = refused = False
        try:
            for topic in response.responses:
                for partition in topic.partitions:
                    key = PartitionId(topic.topic_id, partition.partition_index)
                    part = parts.pop(key, None)
                    if partition.acknowledge_error_code:
                        refused = True
                    if part is not None:
                        results.on_result(
                            key,
                            part,
                            partition.acknowledge_error_code,
                            partition.acknowledge_error_message,
                        )
                    if partition.error_code:
                        troubled = True
                        results.on_partition_error(
                            key, partition.error_code, partition.error_message
                        )
                    elif partition.acquired_records and not connection.closed:
                        # While a thread decoded another partition, the connection may have been
                        # lost: then the broker has released these records, too.
                        size += len(partition.records)
                        ranges = acquired_ranges(partition.acquired_records, budget)
                        budget -= sum(last + 1 - first for first, last, _ in ranges)
                        records += await self._acquire(key, partition.records, ranges, sent_at, now)
        except KafkaProtocolError as error:
            results.on_unanswered(parts, error)
            connection.close(error)
            return
        results.on_omitted(parts)
        if troubled or refused:  # otherwise the reported leaders are not valid
            self._take_hints(response)
        if self._owner.opening.missing:
            self._open(response)
        if not troubled:
            self._pace.on_success()
        elif not records:
            self._pace.pause(now)
        self._owner.on_fetched(size, now - sent_at)

    def _open(self, response: ShareFetchResponse) -> None:
        """Report the partitions that are initialized; request the others with a new session."""
        opening = self._owner.opening
        served = [
            self._results.name_of(PartitionId(topic.topic_id, partition.partition_index))
            for topic in response.responses
            for partition in topic.partitions
            if not partition.error_code
        ]
        opening.on_served([tp for tp in served if tp is not None])
        if not self._pending.holds and self._link.fetches_any(opening.missing):
            self._session.reset()

    async def _acquire(
        self,
        key: PartitionId,
        data: Buffer,
        ranges: Sequence[AcquiredRange],
        sent_at: float,
        now: float,
    ) -> int:
        tp = self._results.name_of(key)
        if tp is None:
            raise KafkaProtocolError(
                f"The broker returned records of topic {key.topic_id} partition {key.partition}, "
                "which was never fetched"
            )
        lock = self._results.lock

        def acquire(first: int, last: int) -> Acquisition:
            return Acquisition(self._link, tp, key, first, last, sent_at + lock, now + lock, lock)

        acquisitions = self._decoding.acquire(ranges, acquire)
        for acquisition in acquisitions:
            last = acquisition.last
            inside = [
                (each.first, each.last) for each in ranges if acquisition.base <= each.first <= last
            ]
            self._pending.on_acquired(acquisition, inside)
        loop = self._link.loop
        items = await self._decoding.decode(loop, data, tp, ranges, acquisitions)
        for acquisition in acquisitions:
            if acquisition.has_gaps:
                self._link.on_marked(acquisition)
        self._owner.on_items(items, tp)
        return len(items)

    # acknowledging

    async def acknowledge(
        self, parts: Parts, *, renews: bool, timeout: float | None = None, closes: bool = False
    ) -> None:
        """Send a ShareAcknowledge in the open session.

        Args:
            parts: What to acknowledge: terminal types, or renewals.
            renews: True for renewals.
            timeout: Seconds; the request timeout by default.
            closes: True to close the session.
        """
        self._on_taken(parts)
        try:
            connection = self._connection.current
            version = version_of(connection, ShareAcknowledgeRequest, self._node_id, renews=renews)
            request = acknowledge_request(
                self._options.group_id,
                self._owner.member_id,
                CLOSING_EPOCH if closes else self._session.epoch,
                parts,
                renews=renews,
            )
            sent_at = self._time()
            if timeout is None:
                timeout = self._options.request_timeout
            answer = connection.send(request, version, timeout=timeout)
            self._connection.expect_answer()
            response = await answer
        except KafkaError as error:
            if renews and isinstance(error, UnsupportedVersionError):
                for part in parts.values():  # the locks last
                    self._pending.on_renewal_failed(part, error, gone=False)
            elif closes:
                self._on_close_failed(parts, error)
            else:
                self._results.on_unanswered(parts, error, renews=renews)
        except asyncio.CancelledError:
            self._results.fail(parts, self._stopped(), renews=renews)
            raise
        else:
            self._on_acknowledge_response(response, parts, sent_at, renews=renews, closes=closes)
        finally:
            self.in_flight = {}

    def _on_acknowledge_response(
        self,
        response: ShareAcknowledgeResponse,
        parts: Parts,
        sent_at: float,
        *,
        renews: bool,
        closes: bool,
    ) -> None:
        results = self._results
        self._pace.on_throttled(response.throttle_time_ms, self._time())
        code, message = response.error_code, response.error_message
        if code and closes:
            text = message or f"broker {self._node_id} refused to close the session"
            self._on_close_failed(parts, for_code(code)(text))
            return
        if code:
            results.on_refused(code, message, parts, renews=renews)
            return
        if closes:
            self._session.reset()
        else:
            self._session.on_success()
        self._pace.on_success()
        results.on_lock_timeout(response.acquisition_lock_timeout_ms)
        for topic in response.responses:
            for partition in topic.partitions:
                key = PartitionId(topic.topic_id, partition.partition_index)
                part = parts.pop(key, None)
                if part is None:
                    continue
                code, message = partition.error_code, partition.error_message
                if renews:
                    results.on_renewal_result(key, part, code, message, sent_at)
                else:
                    results.on_result(key, part, code, message)
        results.on_omitted(parts, renews=renews)
        self._take_hints(response)

    def _on_close_failed(self, parts: Parts, error: KafkaError) -> None:
        """A session could not be closed: the broker ends it with the connection."""
        log.debug("%s: broker %d: %r", self._options.log_name, self._node_id, error)
        self._session.reset()
        self._results.fail(parts, error, renews=False)

    # both

    def _on_taken(self, parts: Parts) -> None:
        self.in_flight = parts
        self._pace.on_taken(self._pending.waiting, self._time())
        self._link.on_taken()

    def leave(self) -> None:
        """The link ends, but its connection stays."""
        self._connection.leave()

    def abort(self) -> None:
        """The consumer ends: it is uncertain whether the broker has applied the request in
        flight."""
        parts, self.in_flight = self.in_flight, {}
        self._results.fail(parts, self._stopped(), renews=False)
        parts.clear()  # the request's task has nothing left to fail

    def _take_hints(self, response: ShareFetchResponse | ShareAcknowledgeResponse) -> None:
        hints = leader_hints(response, self._results.topics)
        if hints:
            self._owner.on_hints(hints)

    def _stopped(self) -> KafkaConnectionError:
        return KafkaConnectionError(
            f"the consumer was stopped before broker {self._node_id} answered"
        )


def _awaited(parts: Parts) -> bool:
    for part in parts.values():
        for run in part.runs:
            if run.outcome is not None and run.outcome.awaited:
                return True
    return False
