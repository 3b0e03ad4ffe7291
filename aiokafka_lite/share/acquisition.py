"""What one response acquired of one partition: a byte of state for each offset. Sans-IO.

A `ShareRecord` refers to its `Acquisition`, so marking a record is one write and one light object.

Non-obvious:
- An acquired offset without a record (a control record, or one that was compacted away) is a gap:
  it is acknowledged as such, without an outcome.
- A renewal leaves the record undecided. A terminal mark replaces a renewal that was not sent.
- `deadline` is the earliest time at which the locks may expire; at `latest`, they have certainly
  expired. The broker sets the locks between receiving the request and answering it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from aiokafka_lite.errors import IllegalStateError, InvalidRecordStateError
from aiokafka_lite.share.acknowledgement import Outcome, OutcomeOwner
from aiokafka_lite.share.records.offset_states import (
    ABSENT,
    ACCEPT,
    DONE,
    GAP,
    HELD,
    LOST,
    REJECT,
    RELEASE,
    RENEW,
    RENEWING,
)
from aiokafka_lite.share.records.record_marks import Acknowledgement, Marks
from aiokafka_lite.share.share_session import PartitionId
from aiokafka_lite.structs import TopicPartition

__all__ = ["Acquisition", "AcquisitionOwner", "Run"]

_RENEWALS: Final = re.compile(rb"\x04+")


def _translation(change: Callable[[int], int]) -> bytes:
    return bytes(change(state) for state in range(256))


_RENEWAL_TAKEN: Final = _translation(lambda state: RENEWING if state == RENEW else state)
_HELD_AGAIN: Final = _translation(lambda state: HELD if state == RENEWING else state)
_RENEWALS_LOST: Final = _translation(lambda state: LOST if state == RENEWING else state)
_GONE: Final = _translation(lambda state: LOST if state <= RENEWING else state)
_ENDED: Final = bytes((DONE, LOST, ABSENT))
_GAPS_HELD: Final = _translation(lambda state: HELD if state == GAP else state)
_WORDS: Final = {ACCEPT: "accepted", RELEASE: "released", REJECT: "rejected"}


class AcquisitionOwner(OutcomeOwner, Protocol):
    """The connection to the leader that acquired the records."""

    def on_marked(self, acquisition: Acquisition) -> None:
        """Called for the first terminal mark or renewal since marks were last taken: send it
        soon."""


class Run:
    """Consecutive offsets of one acquisition that are acknowledged together. It never changes.

    Attributes:
        outcome: Of the marks; None if all are gaps.
        types: The type of each offset, as on the wire.
    """

    __slots__ = ("acquisition", "first", "last", "outcome", "types")

    def __init__(
        self, acquisition: Acquisition, outcome: Outcome | None, first: int, last: int, types: bytes
    ) -> None:
        self.acquisition = acquisition
        self.outcome = outcome
        self.first = first
        self.last = last
        self.types = types

    @property
    def marks(self) -> int:
        """The number of records, without the gaps."""
        return len(self.types) - self.types.count(GAP)

    def split(self, size: int) -> tuple[Run, Run]:
        """Cut off the first `size` offsets."""
        at = self.first + size
        left = Run(self.acquisition, self.outcome, self.first, at - 1, self.types[:size])
        return left, Run(self.acquisition, self.outcome, at, self.last, self.types[size:])

    def __len__(self) -> int:
        return self.last + 1 - self.first


class Acquisition(Marks):
    """What one response acquired of one partition.

    Args:
        owner: Sends the acknowledgements.
        topic_partition: The partition.
        partition_id: The same by the id of its topic.
        first: The first acquired offset.
        last: The last acquired offset; not every offset between need be acquired.
        deadline: Earliest loop time at which the locks may expire.
        latest: Loop time at which the locks have expired, unless they are renewed.
        duration: Seconds that the broker locks records.

    Attributes:
        lost: The error of further marks once all locks are gone.
        refusal: Why the application may not acknowledge (the implicit mode), or None.
    """

    __slots__ = (
        "_open",
        "_owner",
        "_renewal",
        "latest",
        "lost",
        "partition_id",
        "topic_partition",
    )

    outcome: Outcome | None

    def __init__(
        self,
        owner: AcquisitionOwner,
        topic_partition: TopicPartition,
        partition_id: PartitionId,
        first: int,
        last: int,
        deadline: float,
        latest: float,
        duration: float = 30.0,
    ) -> None:
        super().__init__(first, bytearray([ABSENT]) * (last + 1 - first), deadline, duration)
        self._owner = owner
        self._renewal: Outcome | None = None  # of the renewals to be taken
        self.topic_partition = topic_partition
        self.partition_id = partition_id
        self._open = 0  # offsets that wait for a decision or a result
        self.latest = latest
        self.lost: InvalidRecordStateError | None = None

    # acquiring

    def acquire(self, first: int, last: int) -> None:
        """The broker acquired these offsets; each is a gap until `hold`."""
        start, stop = first - self.base, last + 1 - self.base
        self.states[start:stop] = bytes(stop - start)
        self._open += stop - start

    def hold_gaps(self, first: int, last: int) -> int:
        """Turn the gaps of a range into records, which exist after all; returns their number."""
        start, stop = max(first - self.base, 0), min(last + 1 - self.base, len(self.states))
        if start >= stop:
            return 0
        count = self.states.count(GAP, start, stop)
        self.states[start:stop] = self.states[start:stop].translate(_GAPS_HELD)
        return count

    @property
    def has_gaps(self) -> bool:
        """True if there are gaps to acknowledge."""
        return GAP in self.states

    # marking

    def _mark_slowly(self, offset: int, kind: int) -> Acknowledgement:
        index = offset - self.base
        if self.states[index] != HELD or self.refusal is not None:
            refused = self._refused(offset, self.states[index])
            if refused is not None:
                return refused
        self.states[index] = kind
        outcome = self.outcome
        if outcome is None:
            outcome = self._open_outcome()
        outcome.pending += 1
        return Acknowledgement(outcome, offset)

    def renew(self, offset: int) -> Acknowledgement:
        """Restart the time of a record's lock.

        Raises:
            IllegalStateError: The record was acknowledged before, or the mode is implicit.
        """
        index = offset - self.base
        state = self.states[index]
        if state != HELD or self.refusal is not None:
            # A renewal in flight may be older than the application's call.
            if state == RENEW and self._renewal is not None and self.refusal is None:
                return Acknowledgement(self._renewal, offset)
            refused = self._refused(offset, state)
            if refused is not None:
                return refused
        self.states[index] = RENEW
        if self._renewal is None:
            self._renewal = Outcome(self._owner, self.topic_partition)
            self._owner.on_marked(self)
        self._renewal.pending += 1
        return Acknowledgement(self._renewal, offset)

    def mark_undecided(self, first: int, last: int, kind: int) -> int:
        """Mark all undecided records of a range, without acknowledgement objects.

        Returns:
            The number of marked records.
        """
        count = 0
        for index in range(max(first - self.base, 0), min(last + 1 - self.base, len(self.states))):
            state = self.states[index]
            if HELD <= state <= RENEWING or state == RENEW:
                if state == RENEW:
                    self._withdraw_renewal(self.base + index)
                self.states[index] = kind
                count += 1
        if count:
            outcome = self.outcome or self._open_outcome()
            outcome.pending += count
        return count

    def _open_outcome(self) -> Outcome:
        outcome = self.outcome = Outcome(self._owner, self.topic_partition)
        self._owner.on_marked(self)
        return outcome

    def _refused(self, offset: int, state: int) -> Acknowledgement | None:
        """Return the error for a mark, or None if the record may be marked nevertheless."""
        if self.refusal is not None:
            raise IllegalStateError(self.refusal)
        topic, partition = self.topic_partition
        if state == RENEW:
            self._withdraw_renewal(offset)
            return None
        if state == RENEWING:
            return None
        if state == LOST:
            outcome = Outcome(self._owner, self.topic_partition)
            outcome.pending = 1
            outcome.fail(offset, offset, self.lost or expired(self.topic_partition), 1)
            return Acknowledgement(outcome, offset)
        word = _WORDS.get(state & 0x0F) if state < DONE else None
        how = f"already {word}" if word else "already acknowledged"
        raise IllegalStateError(f"offset {offset} of {topic}-{partition} was {how}")

    def _withdraw_renewal(self, offset: int) -> None:
        """A terminal mark replaces a renewal that was not sent."""
        renewal = self._renewal
        if renewal is not None:
            if renewal.pending == 1:
                self._renewal = None
            renewal.renewed(offset, offset, self.deadline_of(offset), 1)

    # sending

    def take(self) -> list[Run]:
        """Take the terminal marks and gaps to send."""
        outcome, self.outcome = self.outcome, None
        return [
            Run(self, outcome, first, first + len(types) - 1, types)
            for first, types in self.take_marked()
        ]

    def take_renewals(self) -> list[Run]:
        """Take the renewals to send."""
        outcome, self._renewal = self._renewal, None
        base = self.base
        runs = [
            Run(self, outcome, base + found.start(), base + found.end() - 1, found.group())
            for found in _RENEWALS.finditer(self.states)
        ]
        self.states = self.states.translate(_RENEWAL_TAKEN)
        return runs

    @property
    def renewals_waiting(self) -> bool:
        """True if there are renewals to send."""
        return self._renewal is not None

    @property
    def terminal_waiting(self) -> bool:
        """True if there are terminal marks or gaps to send."""
        return self.outcome is not None or GAP in self.states

    # results

    def on_acknowledged(self, run: Run) -> None:
        """The broker has the terminal acknowledgements of a run."""
        self._open -= self.end(run.first, run.last, DONE)
        if run.outcome is not None:
            run.outcome.settle(run.marks)

    def on_failed(self, run: Run, error: BaseException) -> None:
        """The terminal acknowledgements of a run failed for good."""
        self._open -= self.end(run.first, run.last, LOST)
        if run.outcome is not None:
            run.outcome.fail(run.first, run.last, error, run.marks)

    def on_renewed(self, run: Run, deadline: float, latest: float) -> None:
        """The broker restarted the time of these locks."""
        start, stop = run.first - self.base, run.last + 1 - self.base
        self.states[start:stop] = self.states[start:stop].translate(_HELD_AGAIN)
        self.renewed.update(dict.fromkeys(range(run.first, run.last + 1), deadline))
        self.latest = max(self.latest, latest)
        if run.outcome is not None:
            run.outcome.renewed(run.first, run.last, deadline, len(run))

    def on_renewal_failed(self, run: Run, error: BaseException, *, gone: bool) -> None:
        """These renewals failed.

        Args:
            gone: True if the locks are gone, too.
        """
        start, stop = run.first - self.base, run.last + 1 - self.base
        became = _RENEWALS_LOST if gone else _HELD_AGAIN
        self._change(start, stop, self.states[start:stop].translate(became))
        if run.outcome is not None:
            run.outcome.fail(run.first, run.last, error, len(run))

    def lose(self, first: int, last: int, error: InvalidRecordStateError) -> int:
        """The locks of a range are gone. Marks that were not taken fail; those that were taken are
        settled by their request.

        Returns:
            The number of undecided records.
        """
        start, stop = max(first - self.base, 0), min(last + 1 - self.base, len(self.states))
        if start >= stop:
            return 0
        undecided = 0
        for index in range(start, stop):
            state = self.states[index]
            outcome = None
            if ACCEPT <= state <= REJECT:
                outcome = self.outcome
            elif state == RENEW:
                outcome = self._renewal
            if RENEW <= state <= RENEWING:
                undecided += 1
            if outcome is not None:
                offset = self.base + index
                outcome.fail(offset, offset, error, 1)
        self._change(start, stop, self.states[start:stop].translate(_GONE))
        if self.outcome is not None and self.outcome.done:
            self.outcome = None
        if self._renewal is not None and self._renewal.done:
            self._renewal = None
        if start == 0 and stop == len(self.states):
            self.lost = error
        return undecided

    @property
    def last(self) -> int:
        """The last offset."""
        return self.base + len(self.states) - 1

    @property
    def open(self) -> bool:
        """True while an offset waits for a decision or a result."""
        return self._open > 0

    def _change(self, start: int, stop: int, states: bytes | bytearray) -> None:
        """Replace the states of some offsets; this may settle some of them."""
        before = self.states[start:stop]
        self._open -= len(before.translate(None, _ENDED)) - len(states.translate(None, _ENDED))
        self.states[start:stop] = states

    def covers(self, offset: int) -> bool:
        """True if the offset was acquired here, and its lock is not known to be gone."""
        index = offset - self.base
        return 0 <= index < len(self.states) and self.states[index] < DONE


def expired(topic_partition: TopicPartition) -> InvalidRecordStateError:
    """The error of an acknowledgement after its lock has expired."""
    topic, partition = topic_partition
    return InvalidRecordStateError(
        f"{topic}-{partition}: the record's lock has expired; acknowledge earlier, renew() the "
        "lock, or raise the group's share.record.lock.duration.ms"
    )
