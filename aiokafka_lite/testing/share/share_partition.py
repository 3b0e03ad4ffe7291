"""One partition as one share group sees it, in the broker that leads it. No I/O.

Source: Kafka's `SharePartition`. A lock timer makes records available again; it is the earliest of
all locks.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from aiokafka_lite.errors import (
    FencedStateEpochError,
    NotLeaderForPartitionError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.clock import Clock, Timer
from aiokafka_lite.testing.share.acknowledging import (
    AcknowledgedRange,
    Acknowledgement,
    Change,
    release_all,
)
from aiokafka_lite.testing.share.acquiring import Acquired, AcquireLimits, Acquisition
from aiokafka_lite.testing.share.dead_letters import DeadLetters, Undeliverable
from aiokafka_lite.testing.share.in_flight_records import Delivery, InFlightRecords, RecordState
from aiokafka_lite.testing.share.kept_states import UNKNOWN_OFFSET, KeptState, KeptStates, StateKey
from aiokafka_lite.testing.share.share_settings import ShareSettings
from aiokafka_lite.testing.topics import Partition
from aiokafka_lite.testing.watchers import Watchers

__all__ = ["AcquireRequest", "SharePartition"]

RECORD_LIMIT: Final = 1  # share_acquire_mode (KIP-1206)


class AcquireRequest(NamedTuple):
    """What one ShareFetch asks of all its partitions.

    Attributes:
        member_id: The member.
        mode: `share_acquire_mode`: 0 batch_optimized, 1 record_limit.
        batch_size: The records of a new range, beyond which another one begins.
    """

    member_id: str
    mode: int
    batch_size: int


class SharePartition:
    """A share partition.

    Args:
        key: Its group, topic id and number.
        partition: The partition.
        kept: The stored state.
        states: The cluster's stored states.
        settings: The group's settings.
        clock: The cluster's clock.
        dead_letters: Writes the group's dead letters.

    Attributes:
        partition: The partition.
        records: The records in flight.
        watchers: Notified when records become available, or locks become free.
    """

    def __init__(
        self,
        key: StateKey,
        partition: Partition,
        kept: KeptState,
        states: KeptStates,
        settings: ShareSettings,
        clock: Clock,
        dead_letters: DeadLetters,
    ) -> None:
        self.partition = partition
        self.watchers = Watchers()
        self._key = key
        self._is_fenced = False
        self._states = states
        self._settings = settings
        self._clock = clock
        self._dead_letters = dead_letters
        self._leader_epoch = partition.leader_epoch
        self._state_epoch = kept.state_epoch
        self._timer: Timer | None = None
        self._timer_ms = 0
        start = kept.start_offset
        self.records = InFlightRecords(self._first_offset() if start == UNKNOWN_OFFSET else start)
        kept.leader_epoch = self._leader_epoch
        self.records.restore(kept.batches())
        limit = settings.delivery_limit
        self._archive(
            [Change(s, s.delivery.count < limit) for b in self.records for s in b.spans()]
        )

    def _first_offset(self) -> int:
        """Return where a group without a stored offset begins."""
        log, reset = self.partition.log, self._settings.offset_reset
        if reset == "earliest":
            return log.start_offset
        if reset == "latest" or isinstance(reset, str):
            return log.high_watermark
        found = log.find_timestamp(self._clock.now_ms() - round(reset * 1000))
        return log.high_watermark if found is None else found.offset

    @property
    def is_current(self) -> bool:
        """True until the partition has another leader, a change cannot be stored, or `close`.

        As in Kafka, a leader learns only from its next change that an administrator has set or
        deleted the offset.
        """
        return self.partition.leader_epoch == self._leader_epoch and not self._is_fenced

    # Fetches

    @property
    def next_offset(self) -> int:
        """The offset from which the log is read next."""
        return self.records.next_offset()

    @property
    def may_acquire(self) -> bool:
        """True unless the limit of locks is reached and no record is available again."""
        records = self.records
        if records.next_offset() != records.end_offset + 1:
            return True
        return records.count < self._settings.max_locks

    @property
    def is_out_of_range(self) -> bool:
        """True if the log does not contain the next offset."""
        log = self.partition.log
        return not log.start_offset <= self.next_offset <= log.end_offset

    def on_out_of_range(self) -> None:
        """Follow the log's start after a read outside the log."""
        self.records.on_log_start(self.partition.log.start_offset)

    def acquire(
        self,
        request: AcquireRequest,
        max_records: int,
        fetch_offset: int,
        headers: Sequence[BatchHeader],
    ) -> list[Acquired]:
        """Acquire records for a member; return their ranges.

        Args:
            request: The request.
            max_records: How many records it may still acquire.
            fetch_offset: The offset from which the batches were read.
            headers: The headers of the batches.
        """
        deadline_ms = self._clock.now_ms() + self._settings.lock_duration_ms
        limits = AcquireLimits(
            max_records,
            request.batch_size,
            request.mode == RECORD_LIMIT,
            self._settings.max_locks,
            self._settings.delivery_limit,
        )
        acquisition = Acquisition(self.records, request.member_id, deadline_ms, limits, headers)
        acquisition.run(fetch_offset)
        if acquisition.ranges:
            self._watch(deadline_ms)
        return acquisition.ranges

    def archive_aborted(self, ranges: Sequence[Acquired], first: int, last: int) -> list[Acquired]:
        """Archive acquired records of an aborted batch, which members never receive.

        Returns:
            The acquired ranges without them.
        """
        records = self.records
        left: list[Acquired] = []
        for one in ranges:
            begin, end = max(one.first, first), min(one.last, last)
            if begin > end:
                left.append(one)
                continue
            floor = records.floor(begin)
            if floor is not None:
                batches = records.between(floor.first, end)
                records.archive(batches, begin, end, RecordState.ACQUIRED)
            if one.first < begin:
                left.append(one._replace(last=begin - 1))
            if end < one.last:
                left.append(one._replace(first=end + 1))
        records.move_start()
        return left

    # Acknowledgements

    def acknowledge(self, member_id: str, ranges: Sequence[AcknowledgedRange]) -> None:
        """Apply the acknowledgements of a request, or none of them.

        Raises:
            InvalidRecordStateError, InvalidRequestError: An acknowledgement is invalid.
            NotLeaderForPartitionError: An administrator has set the group's offset since.
            UnknownTopicOrPartitionError: An administrator has deleted it.
        """
        settings = self._settings
        until_ms = self._clock.now_ms() + settings.lock_duration_ms
        acknowledgement = Acknowledgement(
            self.records,
            member_id,
            delivery_limit=settings.delivery_limit,
            with_dead_letters=settings.dead_letter_topic is not None,
            renewed_until_ms=until_ms if settings.may_renew else None,
        )
        acknowledgement.run(ranges)
        try:
            self._store(acknowledgement.changes)
        except FencedStateEpochError as error:
            acknowledgement.roll_back()
            raise NotLeaderForPartitionError(str(error)) from error
        except UnknownTopicOrPartitionError:
            acknowledgement.roll_back()
            raise
        except OSError:  # the disk of the data folder is full; the state has changed nevertheless
            self._after(acknowledgement.changes)
            raise
        self._after(acknowledgement.changes)

    def release(self, member_id: str) -> None:
        """Release all records that a member holds, when its session ends."""
        self._release_if(lambda delivery: delivery.member_id == member_id)

    def _release_if(self, is_meant: Callable[[Delivery], bool]) -> None:
        if not self.is_current:
            return
        settings = self._settings
        changes = release_all(
            self.records,
            is_meant,
            settings.delivery_limit,
            with_dead_letters=settings.dead_letter_topic is not None,
        )
        try:
            self._store(changes)
        except (FencedStateEpochError, UnknownTopicOrPartitionError):
            return  # the next request replaces this share partition
        except OSError:  # the disk of the data folder is full; they are released nevertheless
            self._after(changes)
            raise
        self._after(changes)

    def _store(self, changes: Sequence[Change]) -> None:
        """Store changed states.

        Raises:
            FencedStateEpochError: An administrator has set the group's offset since.
            UnknownTopicOrPartitionError: An administrator has deleted it.
        """
        if not changes:
            return
        kept = self._states.get(self._key)
        if kept is None:
            self._is_fenced = True
            raise UnknownTopicOrPartitionError(f"{self.partition} has no state in the group")
        try:
            kept.write(
                self._state_epoch,
                self._leader_epoch,
                self.records.start_offset,
                self.records.completed,
                [(change.span.first, change.span.last, change.span.delivery) for change in changes],
            )
        except FencedStateEpochError:
            self._is_fenced = True
            raise
        self._states.note(self._key)

    def _after(self, changes: Sequence[Change]) -> None:
        """Move the start offset, write dead letters, and wake fetches that wait."""
        if not changes:
            return
        if any(change.span.delivery.state is RecordState.AVAILABLE for change in changes):
            self.records.may_have_available = True
        self.records.move_start()
        try:
            self._archive(changes)
        finally:  # the disk of the data folder may be full
            self.watchers.notify()

    def _archive(self, changes: Sequence[Change]) -> None:
        """Write dead letters for records in ARCHIVING, and archive them even if that fails."""
        archived = [one for one in changes if one.span.delivery.state is RecordState.ARCHIVING]
        topic, copies = self._settings.dead_letter_topic, self._settings.copies_dead_letters
        for span, rejected in archived:
            if topic is not None:
                records = Undeliverable(
                    self._key[0],
                    self.partition,
                    span.first,
                    span.last,
                    span.delivery.count,
                    rejected,
                )
                self._dead_letters.write(topic, records, copies=copies)
            span.delivery.leave(RecordState.ARCHIVED)
        if archived:
            try:
                self._store(archived)
            finally:
                self.records.move_start()

    # Locks

    def close(self) -> None:
        """Cancel the lock timer; this broker no longer leads the partition, or forgot it."""
        self._is_fenced = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.watchers.notify()

    def _watch(self, deadline_ms: int) -> None:
        """Make sure that a timer runs at a deadline, or earlier."""
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay = max(0, deadline_ms - self._clock.now_ms()) / 1000
        self._timer = self._clock.call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = max(self._clock.now_ms(), self._timer_ms)  # the system clock may be set back
        try:
            self._release_if(lambda delivery: (delivery.deadline_ms or 0) <= now_ms)
        finally:
            if self.is_current:  # or the locks ended with this share partition
                self._watch_first()

    def _watch_first(self) -> None:
        deadlines = [
            span.delivery.deadline_ms
            for batch in self.records
            for span in batch.spans()
            if span.delivery.deadline_ms is not None
        ]
        if deadlines:
            self._watch(min(deadlines))
