"""The reads of one share consumer, and how many records may be acquired for them.

Non-obvious:

- Records are acquired only while a read waits, and never more than the waiting reads can take.
  Buffered records, and those that fetches in flight may still acquire, count toward that limit.
- `take_next` does not call the membership, because that would double its cost. A timer counts the
  records that it returned as polls.
"""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop
from collections.abc import Sequence
from typing import Any, Final, Protocol

from aiokafka_lite.errors import KafkaError
from aiokafka_lite.share.acquired_records import Item
from aiokafka_lite.share.leaders.leader_links import LeaderLinks
from aiokafka_lite.share.leaders.link_owner import Claimant
from aiokafka_lite.share.leaders.opening import Opening
from aiokafka_lite.share.reads.share_buffer import Feeder, ShareBuffer
from aiokafka_lite.share.records.offset_states import ACCEPT
from aiokafka_lite.share.share_group import ShareGroup
from aiokafka_lite.share.share_interceptors import intercepted, intercepted_at_delivery
from aiokafka_lite.share.share_metrics import ShareMetrics
from aiokafka_lite.share.share_options import ShareOptions
from aiokafka_lite.share.share_record import ShareRecord

__all__ = ["ShareReads"]

LOOKS: Final = 8
"""Number of checks per max.poll.interval for records that `take_next` returned."""

Record = ShareRecord[Any, Any]


class ReadsOwner(Protocol):
    """The consumer.

    Attributes:
        starting: True once it was started.
        stopping: True once it stops.
        crash: The error of a task that crashed; every read raises it.
    """

    starting: bool
    stopping: bool
    crash: KafkaError | None

    def check_running(self) -> None:
        """Raise unless reads may continue."""


class ShareReads:
    """Takes records out of the buffer, or waits for them.

    Args:
        owner: The consumer.
        options: The consumer's.
        buffer: Holds the acquired records, and the waiting reads.
        group: The membership, which each read keeps alive.
        leaders: Acquire records.
        opening: The partitions that a start waits for.
        metrics: Counts the delivered records.
        loop: The consumer's event loop.

    Attributes:
        failure: The next read raises it.
    """

    def __init__(
        self,
        owner: ReadsOwner,
        options: ShareOptions,
        buffer: ShareBuffer,
        group: ShareGroup,
        leaders: LeaderLinks,
        opening: Opening,
        metrics: ShareMetrics,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.failure: BaseException | None = None
        self._owner = owner
        self._options = options
        self._buffer = buffer
        self._group = group
        self._leaders = leaders
        self._opening = opening
        self._metrics = metrics
        self._loop = loop
        self._wish = 0  # records that a read which did not wait could take
        self._wished_at = 0.0  # loop time of that read; a later fetch acquires them
        at_delivery = options.interceptors is not None and options.interceptors.at_delivery
        self._plain = not (at_delivery or options.implicit)  # deliveries have no side effects
        self._taken = 0  # records delivered by `take_next`
        self._counted = 0  # of them, at the last `count_taken`
        self._looked = 0  # of them, at the last check
        self._delivered: list[Record] = []  # to be accepted by the next read (implicit mode)
        self._look_every = options.membership.max_poll_interval / LOOKS
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Count the records that `take_next` returns as polls from now on."""
        self._timer = self._loop.call_later(self._look_every, self._look)

    def end(self) -> None:
        """Stop counting. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._owner.stopping:
            return
        if self._taken != self._looked:
            self._looked = self._taken
            self._group.poll(waiting=self._buffer.awaited)
        self.start()

    async def next_records(self, limit: int | None, deadline: float | None) -> list[Record]:
        """Return records: those that are buffered, or the first to arrive.

        Args:
            limit: Maximum records; `max_poll_records` by default.
            deadline: In loop time; None for no limit; in the past: do not wait.

        Returns:
            [] if none arrived by the deadline.

        Raises:
            ConsumerStoppedError: The consumer is stopped.
            KafkaError: The membership or a fetch failed.
        """
        most = self._options.max_poll_records if limit is None else limit
        self._begin_read()
        while True:
            taken = self._buffer.take_many(most)
            if records := self._seen_by_interceptors(taken):
                self._on_delivered(records)
                return records
            if not taken and not await self._wait(most, deadline):
                return []

    def take_next(self) -> Record | None:
        """Return the next record if one is buffered and nothing else needs attention.

        None if `next_record` has to raise, to wait, or to process the record first.
        """
        owner = self._owner
        if (
            self._plain
            and owner.crash is None
            and owner.starting
            and not owner.stopping  # also set in a forked child
            and _get_running_loop() is self._loop
            and (record := self._buffer.take_locked()) is not None
        ):
            self._taken += 1
            return record
        return None

    async def feed(self, feeder: Feeder) -> None:
        """Give records to a `run` as they arrive.

        Raises:
            ConsumerStoppedError: The consumer is stopped.
            KafkaError: The membership or a fetch failed.

        Cancellation: safe; no record is lost.
        """
        self._begin_read()
        while True:
            room = feeder.room()
            taken = self._buffer.take_many(room) if room else []
            if records := self._seen_by_interceptors(taken):
                self._on_delivered(records)
                feeder.add(records)
                feeder.begin()
                del records
            if not taken:
                await self._wait(feeder, None)

    def on_room(self) -> None:
        """A feeder may have room for more records."""
        if len(self._buffer):
            self._buffer.wake()
        else:
            self._leaders.wake()

    async def next_record(self) -> Record:
        """Return the next record, waiting for it if necessary; raises as `next_records` does."""
        self._begin_read()
        while True:
            record = self._buffer.take()
            if record is not None:
                if not self._seen_by_interceptors([record]):
                    continue  # left out
                self._on_delivered([record])
                return record
            await self._wait(self._options.max_poll_records, None)

    def _begin_read(self) -> None:
        self._owner.check_running()
        if self._delivered:
            self.accept_delivered()
        self._group.poll(waiting=self._buffer.awaited)

    async def _wait(self, limit: int | Feeder, deadline: float | None) -> bool:
        self._owner.check_running()
        self.count_taken()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            self._group.retry()
            raise failure
        if isinstance(limit, int) and deadline is not None and deadline <= self._loop.time():
            self._wish, self._wished_at = limit, self._loop.time()
            self._group.poll(waiting=False)
            self._leaders.wake()
            await asyncio.sleep(0)
            return False
        self._group.poll(waiting=True)
        try:
            arrived = await self._buffer.wait(limit, deadline, self._leaders.wake)
        finally:
            self._group.poll(waiting=self._buffer.awaited)
        self._owner.check_running()
        return arrived

    def _seen_by_interceptors(self, records: list[Record]) -> list[Record]:
        """Pass records that are about to be delivered through the interceptors; return those
        that remain."""
        interceptors = self._options.interceptors
        if interceptors is None or not interceptors.at_delivery or not records:
            return records
        return intercepted_at_delivery(interceptors, records, self._options.log_name)

    def _on_delivered(self, records: Sequence[Record]) -> None:
        self._metrics.on_records(len(records), self._loop.time())
        if self._options.implicit:
            self._delivered.extend(records)

    def count_taken(self) -> None:
        """Count the records that `take_next` delivered."""
        taken, self._counted = self._taken - self._counted, self._taken
        if taken:
            self._metrics.on_records(taken, self._loop.time())

    def accept_delivered(self) -> None:
        """Accept the delivered records (implicit mode)."""
        delivered, self._delivered = self._delivered, []
        for record in delivered:
            record._marks.mark_undecided(record.offset, record.offset, ACCEPT)

    # --- acquiring, and acquired records

    def claim(self, link: Claimant) -> tuple[int, bool]:
        """Grant a link a part of the records that the waiting reads can take."""
        if self._owner.stopping:
            return 0, False
        limits = self._buffer.limits
        if not limits and link.lacks_any(self._opening.missing):
            return 1, True
        if len(self._buffer):
            return 0, False
        if self._wish:
            limits.append(self._wish)
        if not limits or not link.able:
            return 0, False
        most = self._options.max_poll_records
        if not self._options.record_limit:
            self._wish = 0
            return most, False
        return self._leaders.claim(link, min(sum(limits), max(most, *limits)))

    def on_items(self, items: Sequence[Item]) -> None:
        """Records were acquired; `begin` of the buffer follows."""
        self._wish = 0
        interceptors = self._options.interceptors
        if interceptors is not None and not interceptors.at_delivery:
            items = intercepted(interceptors, items, self._options.log_name)
        if not items:
            return
        if self._plain and not self._owner.stopping and self._buffer.feed(items):
            self._metrics.on_records(len(items), self._loop.time())
        else:
            self._buffer.add(items)

    def on_fetch_ended(self, link: Claimant) -> None:
        """A fetch has ended, with or without records."""
        if link.fetched_at >= self._wished_at:
            self._wish = 0
