"""The acknowledgements to send to one leader: batching, bisection, expiry. Sans-IO.

A broker applies a request's terminal acknowledgements of a partition all together or not at all:
one lost lock fails those of every other record, too. So a rejected part is sent again in halves,
until only the acknowledgements of records whose locks are lost fail.

Non-obvious:
- While halves wait, no new marks of their partition are sent: a request carries one part of a
  partition.
- Renewals are taken separately, because a request carries either renewals or terminal
  acknowledgements.
- After `latest`, a lock has certainly expired. Its acknowledgements fail here and are not sent:
  they would only make the others fail.
- An acquisition is dropped with its last result, so that the cost of a query does not grow with the
  number of past acquisitions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable
from typing import Final

from aiokafka_lite.errors import InvalidRecordStateError, KafkaError
from aiokafka_lite.share.acquisition import Acquisition, Run, expired
from aiokafka_lite.share.lock_expiries import LockExpiries
from aiokafka_lite.share.share_session import PartitionId
from aiokafka_lite.structs import TopicPartition

__all__ = ["ATTEMPTS", "Part", "PendingAcknowledgements"]

ATTEMPTS: Final = 64
"""Maximum number of requests for one rejected part. One lost lock among 500 takes 18."""


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
    """The records that one leader acquired for this consumer, and the marks that it does not
    have yet."""

    def __init__(self) -> None:
        # All are in order of the acquisition or of the marks; a partition without any is absent.
        self._open: dict[PartitionId, dict[Acquisition, None]] = {}
        self._marked: dict[PartitionId, dict[Acquisition, None]] = {}  # with terminal marks or gaps
        self._renewing: dict[PartitionId, dict[Acquisition, None]] = {}  # with renewals to send
        self._again: dict[PartitionId, deque[Part]] = {}  # to send before new marks
        self._renew_again: dict[PartitionId, deque[Part]] = {}  # likewise
        self._newest: dict[PartitionId, int] = {}  # the largest offset, while there are any
        self._expiries = LockExpiries()

    # inputs

    def on_acquired(self, acquisition: Acquisition, ranges: Iterable[tuple[int, int]]) -> None:
        """A response acquired records.

        Args:
            ranges: The acquired (first, last) offsets. Earlier locks of the same offsets no longer
                exist.
        """
        key = acquisition.partition_id
        newest = self._newest.get(key, -1)
        for first, last in ranges:
            if first <= newest:
                self._lose_earlier(key, first, last)
        self._newest[key] = max(newest, acquisition.last)
        self._open.setdefault(key, {})[acquisition] = None
        self._expiries.add(acquisition)

    def _lose_earlier(self, key: PartitionId, first: int, last: int) -> None:
        earlier = self._open.get(key, {})
        for each in [each for each in earlier if each.base <= last and first <= each.last]:
            each.lose(first, last, expired(each.topic_partition))
            self._forget_if_closed(each)

    def on_marked(self, acquisition: Acquisition) -> None:
        """An acquisition has marks or gaps to send."""
        key = acquisition.partition_id
        if acquisition.terminal_waiting:
            self._marked.setdefault(key, {})[acquisition] = None
        if acquisition.renewals_waiting:
            self._renewing.setdefault(key, {})[acquisition] = None

    # queries

    @property
    def waiting(self) -> bool:
        """True if there is anything to send."""
        return self.terminal_waiting or self.renewals_waiting

    @property
    def renewals_waiting(self) -> bool:
        """True if there are renewals to send."""
        renewing = self._renewing
        while renewing and not self._renew_again:
            key, acquisitions = next(iter(renewing.items()))
            first = next(iter(acquisitions))
            if first.renewals_waiting:
                return True
            del acquisitions[first]  # terminal marks have replaced its renewals
            if not acquisitions:
                del renewing[key]
        return bool(self._renew_again)

    @property
    def terminal_waiting(self) -> bool:
        """True if there are terminal marks or gaps to send."""
        return bool(self._again or self._marked)

    def waits_for_other_than(self, wanted: Container[PartitionId]) -> bool:
        """True if there are terminal marks of other partitions to send."""
        return any(key not in wanted for kinds in (self._again, self._marked) for key in kinds)

    @property
    def holds(self) -> bool:
        """True if a record waits for a decision or for its result."""
        return bool(self._open)

    @property
    def partitions(self) -> Collection[PartitionId]:
        """The partitions with such records."""
        return self._open.keys()

    def find(self, topic_partition: TopicPartition, offset: int) -> Acquisition | None:
        """Return the newest acquisition that locks an offset, or None."""
        found: Acquisition | None = None
        for acquisitions in self._open.values():  # of a recreated topic there may be several
            for acquisition in reversed(acquisitions):
                if acquisition.topic_partition != topic_partition:
                    break
                if acquisition.covers(offset):
                    if found is None or acquisition.deadline > found.deadline:
                        found = acquisition
                    break
        return found

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
        if not (self._again or self._marked):
            return parts
        for key in [key for key in self._again if only is None or key in only]:
            queue = self._again[key]
            while queue and key not in parts:
                part = self._alive(queue.popleft(), now)
                if part.runs:
                    parts[key] = part
            if not queue:
                del self._again[key]
        held_back = {*self._again, *parts}
        for key in [key for key in self._marked if only is None or key in only]:
            if key in held_back:
                continue
            runs: list[Run] = []
            for acquisition in self._marked.pop(key):
                runs += self._alive(Part(acquisition.take()), now).runs
            if runs:
                parts[key] = Part(runs)
        for part in parts.values():
            self._order(part)
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
        for key in [key for key in self._renewing if key not in held_back]:
            for acquisition in self._renewing.pop(key):
                runs = self._renewable(Part(acquisition.take_renewals()), now).runs
                if runs:
                    parts.setdefault(key, Part([])).runs.extend(runs)
        for part in parts.values():
            part.runs.sort(key=lambda run: run.first)
        return parts

    def _renewable(self, part: Part, now: float) -> Part:
        """Fail the renewals of a part whose locks have certainly expired; return the others."""
        alive = []
        for run in part.runs:
            if now > run.acquisition.latest:
                error = expired(run.acquisition.topic_partition)
                self._on_renewal_failed(run, error, gone=True)
            else:
                alive.append(run)
        return Part(alive, part.attempts)

    def _alive(self, part: Part, now: float) -> Part:
        """Fail the runs of a part whose locks have certainly expired, and return the others."""
        alive = []
        for run in part.runs:
            if now > run.acquisition.latest:
                self._on_failed(run, expired(run.acquisition.topic_partition))
            else:
                alive.append(run)
        return Part(alive, part.attempts)

    # results

    def on_acknowledged(self, part: Part) -> None:
        """The broker has the terminal acknowledgements of a part."""
        for run in part.runs:
            run.acquisition.on_acknowledged(run)
            self._forget_if_closed(run.acquisition)

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
            self._on_failed(run, error)

    def put_back(self, key: PartitionId, part: Part) -> None:
        """The broker applied none of a part: send it again."""
        self._again.setdefault(key, deque()).appendleft(part)

    def on_renewed(self, part: Part, deadline: float, latest: float) -> None:
        """The broker renewed the locks of a part, at least and at most until these times."""
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
            self._on_renewal_failed(run, error, gone=gone)

    def put_renewals_back(self, key: PartitionId, part: Part) -> None:
        """The broker applied none of a part of renewals: send it again."""
        self._renew_again.setdefault(key, deque()).appendleft(part)

    def _on_failed(self, run: Run, error: BaseException) -> None:
        run.acquisition.on_failed(run, error)
        self._forget_if_closed(run.acquisition)

    def _on_renewal_failed(self, run: Run, error: BaseException, *, gone: bool) -> None:
        run.acquisition.on_renewal_failed(run, error, gone=gone)
        self._forget_if_closed(run.acquisition)

    def _order(self, part: Part) -> None:
        """Sort the runs; of two with a common offset, only the newer lock can exist."""
        if len(part.runs) == 1:
            return
        ages = {id(run): age for age, run in enumerate(part.runs)}
        ordered: list[Run] = []
        for run in sorted(part.runs, key=lambda run: run.first):
            if ordered and run.first <= ordered[-1].last:
                older = min(run, ordered[-1], key=lambda each: ages[id(each)])
                self._on_failed(older, expired(older.acquisition.topic_partition))
                if older is run:
                    continue
                ordered[-1] = run
            else:
                ordered.append(run)
        part.runs = ordered

    # the end of locks

    def lose(self, error: InvalidRecordStateError, partition: PartitionId | None = None) -> int:
        """The locks are gone: all of them, or those of one partition.

        Returns:
            The number of records that were undecided.
        """
        undecided = 0
        everywhere = {*self._open, *self._marked, *self._renewing}
        for key in everywhere if partition is None else [partition]:
            for part in self._again.pop(key, ()):
                self.on_failed(part, error)
            for part in self._renew_again.pop(key, ()):
                self.on_renewal_failed(part, error, gone=True)
            for acquisition in self._open.pop(key, ()):
                undecided += acquisition.lose(acquisition.base, acquisition.last, error)
                self._expiries.discard(acquisition)
            for kinds in (self._marked, self._renewing, self._newest):
                kinds.pop(key, None)
        return undecided

    def expire(self, now: float) -> dict[TopicPartition, int]:
        """Fail the acknowledgements of locks that have certainly expired.

        Returns:
            Undecided records by partition.
        """
        undecided: dict[TopicPartition, int] = {}
        for acquisition in self._expiries.take(now):
            tp = acquisition.topic_partition
            lost = acquisition.lose(acquisition.base, acquisition.last, expired(tp))
            if lost:
                undecided[tp] = undecided.get(tp, 0) + lost
            self._forget_if_closed(acquisition)
        return undecided

    def next_expiry(self) -> float:
        """Loop time at which the next lock has certainly expired; infinite without any."""
        return self._expiries.next()

    def _forget_if_closed(self, acquisition: Acquisition) -> None:
        """Drop an acquisition if no offset of it waits for a decision or a result."""
        if acquisition.open:
            return
        key = acquisition.partition_id
        for kinds in (self._open, self._marked, self._renewing):
            of_partition = kinds.get(key) if kinds else None
            if of_partition is not None and acquisition in of_partition:
                del of_partition[acquisition]
                if not of_partition:
                    del kinds[key]
        if key not in self._open:
            self._newest.pop(key, None)
        self._expiries.discard(acquisition)


def _may_split(part: Part) -> bool:
    """Use two attempts of a part to send its halves; False if it has too few."""
    if len(part) == 1 or part.attempts[0] < 2:
        return False
    part.attempts[0] -= 2
    return True
