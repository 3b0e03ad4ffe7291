"""The share session with one leader: one request in flight, over one connection.

A fetch acquires records and carries terminal acknowledgements; a ShareAcknowledge carries either
those or renewals. Both carry the session's epoch, so a second request must not overtake the first.

One task for each leader. Non-obvious:

- A link outlives the assignment of its partitions, because their records may still be acknowledged.
  After the last of their results, it closes the session and ends.
- A session belongs to the connection that opened it. When the connection is lost, the broker
  releases the records that this member had acquired, so every lock then counts as lost.
- A fetch is sent only while a read wants records, and only for as many as `LinkOwner.claim` grants:
  a record that is acquired and not processed loses a delivery attempt.
- A link that claims nothing because it is another link's turn sets no timer: the end of each fetch,
  successful or not, wakes all links, and so does a link that acknowledges instead of fetching.
- Acknowledgements wait behind a long poll. So a fetch waits only briefly at the broker while
  records are held, and not at all while a task awaits an acknowledgement.
- A response runs the task within the callback that received it, then the handlers, then the task
  again, which sends the next fetch: a steady `run` takes one pass of the event loop for a fetch.
- A partition that a fetch names only for its acknowledgements would become part of the session. So
  acknowledgements of partitions that are not fetched are sent in a ShareAcknowledge.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import Final

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.errors import InvalidRecordStateError, KafkaError
from aiokafka_lite.reading.waiter import Waiter
from aiokafka_lite.share.acknowledgement import Failures
from aiokafka_lite.share.acquired_records import Decoding
from aiokafka_lite.share.acquisition import Acquisition
from aiokafka_lite.share.leaders.bell import Bell
from aiokafka_lite.share.leaders.link_connection import LinkConnection
from aiokafka_lite.share.leaders.link_exchanges import LinkExchanges
from aiokafka_lite.share.leaders.link_owner import LinkOptions, LinkOwner
from aiokafka_lite.share.leaders.link_pace import Pace
from aiokafka_lite.share.leaders.link_results import LinkResults
from aiokafka_lite.share.pending_acknowledgements import PendingAcknowledgements
from aiokafka_lite.share.share_session import PartitionId, ShareSession
from aiokafka_lite.structs import TopicPartition

__all__ = ["LeaderLink"]

log: Final = logging.getLogger(__name__)

CLOSE_WITHIN: Final = 5.0
"""Seconds for closing the session of a leader that no longer has a partition of this consumer."""


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
        on_idle: Called when the session is closed because the link has no partition and no lock.
            The task then ends: a partition that is assigned again needs a new link.

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
        on_idle: Callable[[LeaderLink], None],
    ) -> None:
        self.node_id = node_id
        self.loop = loop
        self.session = ShareSession()
        self.pending = PendingAcknowledgements()
        self.claimed = 0
        self.fetched_at = 0.0
        self._on_idle = on_idle
        self._owner = owner
        self._options = options
        self._pace = Pace(backoff)
        self._results = LinkResults(
            node_id, self.session, self.pending, self._pace, owner, options, loop.time
        )
        self._exchanges = LinkExchanges(
            node_id,
            self,
            LinkConnection(node_id, cluster, options.request_timeout, self._on_disconnected),
            self.session,
            self.pending,
            self._pace,
            self._results,
            owner,
            options,
            decoding,
        )
        self._bell = Bell(loop)
        self._answering = False  # `on_answer` runs, and rings the bell at its end
        self._settled = asyncio.Event()  # set, and replaced, after each exchange
        self._flushing = 0  # calls of `flush` that wait
        self._lingering: asyncio.Handle | None = None  # watches for the time when marks are due
        self._alarm: asyncio.TimerHandle | None = None  # wakes the task
        self._alarm_at = inf  # loop time when it does
        self._closing = False

    # calls of the consumer

    def set_wanted(self, wanted: Mapping[PartitionId, TopicPartition]) -> None:
        """Fetch from these partitions from now on."""
        self._results.set_names(wanted, {*self.session.partitions, *self.pending.partitions})
        keys = frozenset(wanted)
        if keys != self.session.wanted:
            self.session.wanted = keys
            self.wake()

    def wake(self) -> None:
        """Something changed: check for the next request."""
        if not self._answering:
            self._bell.ring()

    @property
    def able(self) -> bool:
        """True if it could fetch now."""
        return (
            bool(self.session.wanted)
            and not self.claimed
            and not self._exchanges.in_flight  # a ShareAcknowledge may take long
            and not self._closing
            and self.loop.time() >= self._pace.resume_at
        )

    def fetches_any(self, partitions: Collection[TopicPartition]) -> bool:
        """True if it fetches from any of these partitions."""
        return self._any_of(partitions, self.session.wanted)

    def lacks_any(self, partitions: Collection[TopicPartition]) -> bool:
        """True if it fetches from any of these partitions that its session does not contain yet."""
        return self._any_of(partitions, self.session.wanted - self.session.partitions)

    def _any_of(self, partitions: Collection[TopicPartition], keys: Iterable[PartitionId]) -> bool:
        return bool(partitions) and any(self._results.name_of(key) in partitions for key in keys)

    @property
    def _idle(self) -> bool:
        """True if it has no partition, no lock, and nothing to send. A renewal may outlast its
        lock: it fails only when the link takes it for the next request."""
        return not (self.session.wanted or self.pending.holds or self.pending.waiting)

    async def flush(self) -> None:
        """Send every mark, and wait until all have a result."""
        self._flushing += 1
        self._pace.due = self.loop.time()
        self.wake()
        try:
            while (self.pending.waiting or self._exchanges.in_flight) and not self._closing:
                await self._settled.wait()
        finally:
            self._flushing -= 1

    # marks of the application

    def on_marked(self, acquisition: Acquisition) -> None:
        """An acquisition has a new mark."""
        self.pending.on_marked(acquisition)
        new = self._pace.on_marked(self.loop.time())
        if new and self._lingering is None and not self._answering:
            self._lingering = self.loop.call_soon(self._linger)

    def _linger(self) -> None:
        """Wake the task once the marks are due, unless it is running, or sets its own timer."""
        self._lingering = None
        if self._pace.due != inf and not self._bell.rung:
            self._lingering = self.loop.call_at(self._pace.due, self._on_lingered)

    def _on_lingered(self) -> None:
        """Wake the task if the marks are due; a request may have sent them meanwhile."""
        self._lingering = None
        due = self._pace.due
        if due <= self.loop.time():
            self.wake()
        elif due != inf:
            self._lingering = self.loop.call_at(due, self._on_lingered)

    def on_taken(self) -> None:
        """A request took marks."""
        if self._lingering is not None and self._pace.due == inf:
            self._lingering.cancel()
            self._lingering = None

    def on_awaited(self) -> None:
        """A task awaits an acknowledgement."""
        self._pace.due = self.loop.time()
        self.wake()

    def on_unseen_failure(self, topic_partition: TopicPartition, failures: Failures) -> None:
        """Acknowledgements that the application does not await have failed."""
        self._owner.on_unseen_failure(topic_partition, failures)

    # the task

    async def run(self) -> None:
        """Exchange requests until `stop`, or until the leader has no partition of this consumer."""
        pace = self._pace
        while not self._closing:
            self._bell.clear()
            now = self.loop.time()
            self._expire(now)
            if now >= pace.resume_at and await self._exchange(now):
                if self._answering:  # the handlers run first: they may add room and marks
                    self._bell.clear()
                    await self._bell.wait()
                else:
                    self._owner.begin()
                continue
            if self._idle:
                if not self.session.open:
                    self._cancel_timers()
                    self._exchanges.leave()
                    self._on_idle(self)
                    self._settled.set()  # without an exchange, marks may have failed meanwhile
                    return
                timeout = min(CLOSE_WITHIN, self._options.request_timeout)
                await self._exchanges.acknowledge({}, renews=False, timeout=timeout, closes=True)
                continue
            until = min(
                pace.resume_at if now < pace.resume_at else pace.due,
                self.pending.next_expiry() + 0.001,
            )
            if until < self._alarm_at:
                self._wake_at(until)
            await self._bell.wait()

    def on_answer(self, answer: Waiter) -> None:
        """The response to a fetch has arrived: let the task process it, then run the handlers,
        then let the task send the next fetch."""
        if asyncio.current_task(self.loop) is not None:
            answer.wake()
            return
        self._answering = True
        try:
            answer.wake_now()
            self._owner.begin()
        finally:
            self._answering = False
            self._bell.ring_now()

    def _wake_at(self, when: float) -> None:
        """Wake the task at this time, or earlier. A later time does not change the timer, so
        that an exchange need not set one; it may then wake the task unnecessarily."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = self.loop.call_at(when, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm, self._alarm_at = None, inf
        self.wake()

    async def _exchange(self, now: float) -> bool:
        """Send the next request and process its response; False if there is none to send."""
        pending, session, exchanges = self.pending, self.session, self._exchanges
        try:
            if not pending.waiting:
                self._pace.due = inf
            renews, ends = pending.renewals_waiting, pending.terminal_waiting
            urgent = self._flushing > 0 or now >= self._pace.due
            if session.open and renews and urgent:
                await self._renew(now)
                return True
            if session.open and ends and urgent and pending.waits_for_other_than(session.wanted):
                await self._acknowledge(now)
                return True
            quota, briefly = self._owner.claim(self)
            if quota or ((renews or ends) and not session.open):
                await exchanges.fetch(quota, briefly, self._flushing > 0)
                return True
            if ends and urgent:
                await self._acknowledge(now)
                return True
            return False
        finally:
            if self._flushing:
                settled, self._settled = self._settled, asyncio.Event()
                settled.set()

    async def _acknowledge(self, now: float) -> None:
        parts = self.pending.take(now)
        if parts:
            self._owner.on_turn_passed()
            await self._exchanges.acknowledge(parts, renews=False)

    async def _renew(self, now: float) -> None:
        parts = self.pending.take_renewals(now)
        if parts:
            self._owner.on_turn_passed()
            await self._exchanges.acknowledge(parts, renews=True)

    def _expire(self, now: float) -> None:
        if now <= self.pending.next_expiry():
            return
        for tp, count in self.pending.expire(now).items():
            self._owner.on_lost(tp, count, "the lock expired")

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

    def _cancel_timers(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm, self._alarm_at = None, inf

    # the end

    def stop(self) -> None:
        """Send no more fetches; the task ends with its exchange in progress."""
        self._closing = True
        self.wake()

    async def close(self, deadline: float) -> None:
        """Send the last marks, and close the session, which releases undecided records. The task
        must have ended."""
        try:
            async with asyncio.timeout_at(deadline):
                # Not with the closing request: if it is refused, its marks cannot be sent again in
                # halves.
                while self.pending.terminal_waiting:
                    await asyncio.sleep(self._pace.resume_at - self.loop.time())
                    if self.session.open:
                        await self._acknowledge(self.loop.time())
                    else:  # a refused request ended it: open another, and acquire nothing
                        await self._exchanges.fetch(0, briefly=True, flushing=True)
                if self.session.open:
                    await self._exchanges.acknowledge(
                        {},
                        renews=False,
                        timeout=max(deadline - self.loop.time(), 0.001),
                        closes=True,
                    )
        except TimeoutError:
            log.warning(
                "%s: closing the share session with broker %d timed out",
                self._options.log_name,
                self.node_id,
                extra=log_extra(self._options.log_name, broker=self.node_id),
            )
        finally:
            self.abort()

    def abort(self) -> None:
        """End at once: marks without a result fail."""
        self._closing = True
        self._cancel_timers()
        self._exchanges.abort()
        self.pending.lose(
            InvalidRecordStateError(
                "the consumer was stopped before it sent the acknowledgement; the group delivers "
                "the record again"
            )
        )
        self.session.reset()
        self.wake()
        self._settled.set()
