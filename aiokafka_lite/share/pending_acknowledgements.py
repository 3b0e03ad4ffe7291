"""The acknowledgements that one leader is to receive: batching, bisection, expiry. Sans-IO.

A broker applies the terminal acknowledgements of a partition in one request all together or not at
all: one lost lock fails those of every other record, too. So a rejected part is sent again in
halves until only the records whose locks are lost fail.

Non-obvious:
- While halves wait, no new marks of their partition are sent: a request carries one part of a
  partition.
- Renewals are taken apart, because a request carries either them or terminal acknowledgements.
- After `latest`, the broker has certainly ended a lock. Such acknowledgements fail here and are
  not sent: they would only fail the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from math import inf
from typing import Final

from aiokafka_lite.errors import InvalidRecordStateError, KafkaError
from aiokafka_lite.share.acquisition import Acquisition, Run, expired
from aiokafka_lite.share.share_session import PartitionId
from aiokafka_lite.structs import TopicPartition

__all__ = ["ATTEMPTS", "Part", "PendingAcknowledgements"]

ATTEMPTS: Final = 64
"""Requests that one rejected part may cost. One lost lock among 500 takes 18."""


class Part:
    """The runs of one partition in one request, ascending and disjoint.

    Attributes:
        attempts: Requests left to search for the lost locks; shared by both halves of a part.
    """

    __slots__ = ("attempts", "runs")

    def __init__(self, runs: list[Run], attempts: list[int] | None = None) -> None:
        self.runs = runs
        self.attempts = [ATTEMPTS] if attempts is None else attempts

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)

    def halves(self) -> tuple[Part, Part]:
        """Split into two parts with about equal numbers of offsets."""
        size = len(self) // 2
        left: list[Run] = []
        right: list[Run] = []
        for run in self.runs:
            if size >= len(run):
                left.append(run)
            elif size > 0:
                one, other = run.split(size)
                left.append(one)
                right.append(other)
            else:
                right.append(run)
            size -= len(run)
        return Part(left, self.attempts), Part(right, self.attempts)


class PendingAcknowledgements:
    """What one leader acquired for this consumer, and the marks that it does not have yet."""

    def __init__(self) -> None:
        self._acquisitions: dict[PartitionId, list[Acquisition]] = {}
        self._marked: dict[Acquisition, None] = {}  # in order
        self._again: dict[PartitionId, deque[Part]] = {}  # to be sent before new marks
        self._renew_again: dict[PartitionId, deque[Part]] = {}  # likewise

    # inputs

    def on_acquired(self, acquisition: Acquisition, ranges: Iterable[tuple[int, int]]) -> None:
        """A response acquired records.

        Args:
            ranges: The acquired (first, last) offsets. Earlier locks of the same offsets have
                ended.
        """
        mine = self._acquisitions.setdefault(acquisition.partition_id, [])
        for first, last in ranges:
            for earlier in mine:
                if earlier.base <= last and first <= earlier.last:
                    earlier.lose(first, last, expired(acquisition.topic_partition))
        mine.append(acquisition)
        if acquisition.has_gaps:
            self._marked[acquisition] = None

    def on_marked(self, acquisition: Acquisition) -> None:
        """An acquisition has marks to be sent."""
        self._marked[acquisition] = None

    # what it has

    @property
    def waiting(self) -> bool:
        """True if something is to be sent."""
        return bool(self._marked or self._again or self._renew_again)

    @property
    def renewals_waiting(self) -> bool:
        """True if renewals are to be sent."""
        return bool(self._renew_again) or any(
            acquisition.renewals_waiting for acquisition in self._marked
        )

    @property
    def terminal_waiting(self) -> bool:
        """True if terminal marks or gaps are to be sent."""
        return bool(self._again) or any(each.terminal_waiting for each in self._marked)

    def waits_for_other_than(self, wanted: Container[PartitionId]) -> bool:
        """True if terminal marks of other partitions are to be sent."""
        return any(key not in wanted for key in self._again) or any(
            each.partition_id not in wanted and each.terminal_waiting for each in self._marked
        )

    @property
    def awaited(self) -> bool:
        """True if a task awaits an acknowledgement that is to be sent."""
        return any(acquisition.awaited for acquisition in self._marked) or any(
            run.outcome is not None and run.outcome.awaited
            for queues in (self._again, self._renew_again)
            for parts in queues.values()
            for part in parts
            for run in part.runs
        )

    @property
    def holds(self) -> bool:
        """True if a record waits for its decision or for the result of one."""
        return any(each.open for some in self._acquisitions.values() for each in some)

    def find(self, topic_partition: TopicPartition, offset: int) -> Acquisition | None:
        """Return the acquisition that an offset is locked by, or None."""
        for acquisitions in self._acquisitions.values():
            if acquisitions[0].topic_partition == topic_partition:
                for acquisition in reversed(acquisitions):
                    if acquisition.covers(offset):
                        return acquisition
        return None

    # sending

    def take(
        self, now: float, only: Container[PartitionId] | None = None
    ) -> dict[PartitionId, Part]:
        """Take the terminal acknowledgements for one request; expired ones fail here.

        Args:
            now: In loop time.
            only: Partitions that the request may name; None: any.
        """
        parts: dict[PartitionId, Part] = {}
        for key in [key for key in self._again if only is None or key in only]:
            queue = self._again[key]
            while queue and key not in parts:
                part = self._alive(queue.popleft(), now)
                if part.runs:
                    parts[key] = part
            if not queue:
                del self._again[key]
        held_back = {*self._again, *parts}
        for acquisition in list(self._marked):
            key = acquisition.partition_id
            if key in held_back or (only is not None and key not in only):
                continue
            if not acquisition.renewals_waiting:
                del self._marked[acquisition]
            runs = self._alive(Part(acquisition.take()), now).runs
            if runs:
                parts.setdefault(key, Part([])).runs.extend(runs)
        for part in parts.values():
            _order(part)
        return parts

    def take_renewals(self, now: float) -> dict[PartitionId, Part]:
        """Take the renewals for one request; expired ones fail here."""
        parts: dict[PartitionId, Part] = {}
        for key in list(self._renew_again):
            queue = self._renew_again[key]
            while queue and key not in parts:
                part = self._renewable(queue.popleft(), now)
                if part.runs:
                    parts[key] = part
            if not queue:
                del self._renew_again[key]
        held_back = {*self._renew_again, *parts}
        for acquisition in list(self._marked):
            if not acquisition.renewals_waiting or acquisition.partition_id in held_back:
                continue
            if not acquisition.terminal_waiting:
                del self._marked[acquisition]
            runs = self._renewable(Part(acquisition.take_renewals()), now).runs
            if runs:
                parts.setdefault(acquisition.partition_id, Part([])).runs.extend(runs)
        for part in parts.values():
            part.runs.sort(key=lambda run: run.first)
        return parts

    def _renewable(self, part: Part, now: float) -> Part:
        """Fail the renewals of a part whose locks have certainly ended; return the others."""
        alive = []
        for run in part.runs:
            if now > run.acquisition.latest:
                error = expired(run.acquisition.topic_partition)
                run.acquisition.on_renewal_failed(run, error, gone=True)
            else:
                alive.append(run)
        return Part(alive, part.attempts)

    def _alive(self, part: Part, now: float) -> Part:
        """Fail the runs of a part whose locks have certainly ended, and return the others."""
        alive = []
        for run in part.runs:
            if now > run.acquisition.latest:
                run.acquisition.on_failed(run, expired(run.acquisition.topic_partition))
            else:
                alive.append(run)
        return Part(alive, part.attempts)

    # results

    def on_acknowledged(self, part: Part) -> None:
        """The broker has the terminal acknowledgements of a part."""
        for run in part.runs:
            run.acquisition.on_acknowledged(run)

    def on_rejected(self, key: PartitionId, part: Part, error: KafkaError) -> None:
        """The broker rejected the terminal acknowledgements of a part, and applied none of them.

        With INVALID_RECORD_STATE, the part is sent again in halves.
        """
        if isinstance(error, InvalidRecordStateError) and _may_split(part):
            self._again.setdefault(key, deque()).extendleft(reversed(part.halves()))
        else:
            self.on_failed(part, error)

    def on_failed(self, part: Part, error: BaseException) -> None:
        """The terminal acknowledgements of a part failed for good."""
        for run in part.runs:
            run.acquisition.on_failed(run, error)

    def put_back(self, key: PartitionId, part: Part) -> None:
        """The broker applied nothing of a part: send it again."""
        self._again.setdefault(key, deque()).appendleft(part)

    def on_renewed(self, part: Part, deadline: float, latest: float) -> None:
        """The broker renewed the locks of a part, until then at least and at most."""
        for run in part.runs:
            run.acquisition.on_renewed(run, deadline, latest)

    def on_renewal_rejected(self, key: PartitionId, part: Part, error: KafkaError) -> None:
        """The broker rejected the renewals of a part, and may have applied some of them.

        With INVALID_RECORD_STATE, the part is sent again in halves.
        """
        if not isinstance(error, InvalidRecordStateError):
            self.on_renewal_failed(part, error, gone=False)
        elif _may_split(part):
            self._renew_again.setdefault(key, deque()).extendleft(reversed(part.halves()))
        else:
            # A group may refuse renewals (share.renew.acknowledge.enable): the lock may exist.
            self.on_renewal_failed(part, error, gone=False)

    def on_renewal_failed(self, part: Part, error: BaseException, *, gone: bool) -> None:
        """The renewals of a part failed.

        Args:
            gone: True if the locks are gone, too.
        """
        for run in part.runs:
            run.acquisition.on_renewal_failed(run, error, gone=gone)

    def put_renewals_back(self, key: PartitionId, part: Part) -> None:
        """The broker applied nothing of a part of renewals: send it again."""
        self._renew_again.setdefault(key, deque()).appendleft(part)

    # the end of locks

    def lose(self, error: InvalidRecordStateError, partition: PartitionId | None = None) -> int:
        """The locks are gone: all of them, or those of one partition.

        Returns:
            The number of records that were undecided.
        """
        undecided = 0
        for key in list(self._acquisitions) if partition is None else [partition]:
            for part in self._again.pop(key, ()):
                self.on_failed(part, error)
            for part in self._renew_again.pop(key, ()):
                self.on_renewal_failed(part, error, gone=True)
            for acquisition in self._acquisitions.pop(key, ()):
                undecided += acquisition.lose(acquisition.base, acquisition.last, error)
                self._marked.pop(acquisition, None)
        return undecided

    def expire(self, now: float) -> dict[TopicPartition, int]:
        """Give up the locks that have certainly ended, and forget what is settled.

        Returns:
            Undecided records by partition.
        """
        undecided: dict[TopicPartition, int] = {}
        for key, acquisitions in list(self._acquisitions.items()):
            kept = []
            tp = acquisitions[0].topic_partition
            for acquisition in acquisitions:
                if now > acquisition.latest:
                    lost = acquisition.lose(acquisition.base, acquisition.last, expired(tp))
                    if lost:
                        undecided[tp] = undecided.get(tp, 0) + lost
                if acquisition.open:
                    kept.append(acquisition)
                else:
                    self._marked.pop(acquisition, None)
            if kept:
                self._acquisitions[key] = kept
            else:
                del self._acquisitions[key]
        return undecided

    def next_expiry(self) -> float:
        """Loop time when the next lock has certainly ended; infinite without any."""
        return min(
            (each.latest for some in self._acquisitions.values() for each in some), default=inf
        )


def _may_split(part: Part) -> bool:
    """Use two attempts of a part to send its halves; False if it has too few."""
    if len(part) == 1 or part.attempts[0] < 2:
        return False
    part.attempts[0] -= 2
    return True


def _order(part: Part) -> None:
    """Sort the runs; of two with a common offset, only the newer lock can exist."""
    ages = {id(run): age for age, run in enumerate(part.runs)}
    ordered: list[Run] = []
    for run in sorted(part.runs, key=lambda run: run.first):
        if ordered and run.first <= ordered[-1].last:
            older = min(run, ordered[-1], key=lambda each: ages[id(each)])
            older.acquisition.on_failed(older, expired(older.acquisition.topic_partition))
            if older is run:
                continue
            ordered[-1] = run
        else:
            ordered.append(run)
    part.runs = ordered
