"""Checks the journals of the members of one share group.

A record has a holder from its delivery until the holder releases it. Each delivery of a record that
still has a holder needs a cause: the holder's process was killed or stopped, the holder left, or
the leader of the partition was lost or moved. A refused acceptance also needs a cause. A confirmed
acceptance is always final.
"""

import heapq
import itertools
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.faults.consumer_ledger import FOREVER
from tests.faults.share_journal import Deed, Entry, read_entries

__all__ = ["Causes", "Deed", "Holder", "ShareLedger", "ShareTally", "stalls"]

STALLED = 2_000_000_000  # nanoseconds without a sign of life that count as standing still
_ACCEPTING, _CONFIRMED, _REFUSED, _FREE, _ACCEPTED = 1, 2, 4, 8, 16


class Holder(NamedTuple):
    """A life of a member: the index of its process's journal, and its number there."""

    process: int
    life: int


@dataclass
class Causes:
    """The intervals that explain why a lock ended early, in nanoseconds: (begin, end).

    Attributes:
        lock: The duration of a lock in nanoseconds.
        killed: When a journal's process was killed, by index.
        stopped: When it stood still, by index.
        places: When the leader of a partition was lost or moved.
        cluster: The times at which any broker had a fault.
    """

    lock: int
    killed: Mapping[int, int] = field(default_factory=dict)
    stopped: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    places: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    cluster: Sequence[tuple[int, int]] = ()
    left: dict[Holder, int] = field(default_factory=dict)

    def between(
        self, holder: Holder, place: int, since: int, until: int, *, accepted: bool = False
    ) -> str | None:
        """Why a lock taken at about `since` ended before `until`; None without a cause.

        Args:
            accepted: True if the holder had accepted the record before it left: it must send that.
        """
        left = self.left.get(holder, FOREVER)
        if left <= until:
            if not accepted:
                return "left"
            if _overlap(self.cluster, left - self.lock, left + self.lock):
                return "left in trouble"
        if self.killed.get(holder.process, FOREVER) <= until:
            return "killed"
        if _overlap(self.places.get(place, ()), since, until):
            return "leader"
        if until - since < self.lock:
            return None
        if _overlap(self.stopped.get(holder.process, ()), since, until):
            return "stopped"
        if _overlap(self.cluster, since, until):
            return "cluster"
        return None


def _overlap(intervals: Iterable[tuple[int, int]], since: int, until: int) -> bool:
    return any(begin < until and end > since for begin, end in intervals)


@dataclass
class ShareTally:
    """Counts of events, in records.

    Attributes:
        again: Deliveries of records that had a holder, by cause.
        refusals: Likewise for refused acceptances.
        repeated: Records whose acceptance was marked more than once, by the cause of the delivery.
    """

    records: int = 0
    deeds: Counter[Deed] = field(default_factory=Counter)
    counts: Counter[int] = field(default_factory=Counter)
    again: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)


class _Place:
    """The state of each record of one partition."""

    def __init__(self, end: int) -> None:
        self.holders = array("i", [-1]) * end
        self.times = array("q", [0]) * end
        self.flags = bytearray(end)
        self.unresolved = bytearray(end)  # acceptances that no broker refused, as far as known


class ShareLedger:
    """Receives the entries of all journals in the order of their times.

    Args:
        ends: Place to the number of its records.
        causes: Of early ends of locks.
        limit: The group's limit of deliveries.
    """

    def __init__(self, ends: Mapping[int, int], causes: Causes, limit: int) -> None:
        self.tally = ShareTally(records=sum(ends.values()))
        self.wrong: list[str] = []
        self._wrongs: Counter[str] = Counter()
        self._ends = ends
        self._causes = causes
        self._limit = limit
        self._places = {place: _Place(end) for place, end in ends.items()}
        self._holders: list[Holder] = []
        self._numbers: dict[Holder, int] = {}

    def judge(self, journals: Sequence[Path], dead: Mapping[tuple[int, int], int]) -> list[str]:
        """All problems, in words; empty if there are none.

        Args:
            journals: One a process, in the order of the indexes of `causes`.
            dead: Dead letters: place and offset to the delivery count.
        """
        streams = [_tagged(index, path) for index, path in enumerate(journals)]
        return self.judge_entries(heapq.merge(*streams, key=lambda each: each[1].time), dead)

    def judge_entries(
        self, entries: Iterable[tuple[int, Entry]], dead: Mapping[tuple[int, int], int]
    ) -> list[str]:
        """The same of entries with the indexes of their journals, in the order of times."""
        reactions = {
            Deed.GIVEN: self._on_given,
            Deed.ACCEPTING: self._on_accepting,
            Deed.RELEASING: self._on_releasing,
            Deed.CONFIRMED: self._on_confirmed,
            Deed.REFUSED: self._on_refused,
        }
        deeds: dict[Deed, int] = defaultdict(int)
        for process, entry in entries:
            deed = entry.deed
            deeds[deed] += entry.last - entry.first + 1
            if deed is Deed.LEAVING:
                self._causes.left.setdefault(Holder(process, entry.life), entry.time)
            elif (react := reactions.get(deed)) is not None:
                if not 0 <= entry.first <= entry.last < self._ends.get(entry.place, 0):
                    self._blame("invented", f"{entry}")
                    continue
                react(Holder(process, entry.life), entry)
        self.tally.deeds.update(deeds)
        self._check_ends(dead)
        return self.wrong

    def _number(self, holder: Holder) -> int:
        number = self._numbers.get(holder)
        if number is None:
            number = self._numbers[holder] = len(self._holders)
            self._holders.append(holder)
        return number

    def _on_given(self, holder: Holder, entry: Entry) -> None:
        place = self._places[entry.place]
        number = self._number(holder)
        holders, times, flags = place.holders, place.times, place.flags
        self.tally.counts[entry.count] += entry.last - entry.first + 1
        if not 1 <= entry.count <= self._limit:
            self._blame("an impossible delivery count", f"{holder} {entry}")
        for offset in range(entry.first, entry.last + 1):
            if holders[offset] >= 0:
                self._again(holder, entry, offset, place)
            holders[offset] = number
            times[offset] = entry.time
            flags[offset] &= ~(_FREE | _ACCEPTED)

    def _again(self, holder: Holder, entry: Entry, offset: int, place: _Place) -> None:
        """A record that was delivered before."""
        flags, before = place.flags[offset], place.times[offset]
        previous = self._holders[place.holders[offset]]
        cause = "released" if flags & _FREE else None
        if flags & _CONFIRMED:
            # Only a member that has not detected yet that its own lock is gone may still get it.
            cause = self._causes.between(
                holder, entry.place, entry.time - 2 * self._causes.lock, entry.time
            )
            cause = cause and f"late: {cause}"
        elif cause is None:
            cause = self._causes.between(
                previous, entry.place, before, entry.time, accepted=bool(flags & _ACCEPTED)
            )
        if cause is None:
            # The new holder may have waited for it since a time when the other had no lock.
            since = entry.time - 2 * self._causes.lock
            late = self._causes.between(holder, entry.place, since, entry.time)
            cause = late and f"late: {late}"
        if cause is None:
            kind = "again after its confirmation" if flags & _CONFIRMED else "again without a cause"
            held = (entry.time - before) / 1e9
            self._blame(
                kind, f"{holder} {entry} offset {offset}, held by {previous} for {held:.3f} s"
            )
            cause = "none"
        self.tally.again[cause] += 1
        if flags & _ACCEPTING:
            self.tally.repeated[cause] += 1

    def _on_accepting(self, holder: Holder, entry: Entry) -> None:
        place = self._places[entry.place]
        number = -1 if holder in self._causes.left else self._number(holder)
        for offset in range(entry.first, entry.last + 1):
            accepted = _ACCEPTED if place.holders[offset] == number else 0
            place.flags[offset] = (place.flags[offset] | _ACCEPTING | accepted) & ~_REFUSED
            place.unresolved[offset] = min(place.unresolved[offset] + 1, 255)

    def _on_releasing(self, holder: Holder, entry: Entry) -> None:
        place = self._places[entry.place]
        number = self._number(holder)
        for offset in range(entry.first, entry.last + 1):
            if place.holders[offset] == number:
                place.flags[offset] |= _FREE

    def _on_confirmed(self, holder: Holder, entry: Entry) -> None:
        flags = self._places[entry.place].flags
        for offset in range(entry.first, entry.last + 1):
            if flags[offset] & _CONFIRMED:
                self._blame("confirmed twice", f"{holder} {entry} offset {offset}")
            flags[offset] |= _CONFIRMED

    def _on_refused(self, holder: Holder, entry: Entry) -> None:
        place = self._places[entry.place]
        number = self._number(holder)
        for offset in range(entry.first, entry.last + 1):
            place.unresolved[offset] = max(place.unresolved[offset] - 1, 0)
            since = entry.time - 3 * self._causes.lock
            if place.holders[offset] == number:
                since = min(since, place.times[offset])
                if not place.flags[offset] & _CONFIRMED:
                    place.flags[offset] |= _REFUSED
            cause = self._causes.between(holder, entry.place, since, entry.time)
            if cause is None:
                self._blame("refused without a cause", f"{holder} {entry} offset {offset}")
            self.tally.refusals[cause or "none"] += 1

    def _check_ends(self, dead: Mapping[tuple[int, int], int]) -> None:
        for (number, offset), count in sorted(dead.items()):
            if count < self._limit:
                self._blame("dead below the limit", f"{number} {offset} after {count} deliveries")
        for number, place in sorted(self._places.items()):
            for offset, flags in enumerate(place.flags):
                if (number, offset) in dead:
                    continue
                if not flags & _ACCEPTING:
                    self._blame("never accepted", f"{number} {offset}, flags {flags}")
                elif flags & _REFUSED and not flags & _CONFIRMED and not place.unresolved[offset]:
                    self._blame("accepted by no broker", f"{number} {offset}, flags {flags}")

    def _blame(self, kind: str, what: str) -> None:
        self._wrongs[kind] += 1
        if self._wrongs[kind] <= 20:
            self.wrong.append(f"{kind}: {what}")
        elif self._wrongs[kind] == 21:
            self.wrong.append(f"{kind}: more of these follow")


def _tagged(index: int, path: Path) -> Iterator[tuple[int, Entry]]:
    return ((index, entry) for entry in read_entries(path))


def stalls(entries: Iterable[Entry]) -> list[tuple[int, int]]:
    """The times when a process showed no sign of life for a long time."""
    times = [entry.time for entry in entries if entry.deed is Deed.ALIVE]
    return [(begin, end) for begin, end in itertools.pairwise(times) if end - begin > STALLED]
