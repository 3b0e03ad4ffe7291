"""Checks the journals of the members of one group.

The load writes each record's offset as its value, so a record is identified by its position, and a
range of records by two numbers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.consumer_journal import Event, Place, Spread

__all__ = ["GroupLedger", "Interruption", "Tally", "process_of"]

FOREVER = 1 << 62  # nanoseconds


def process_of(member: str) -> str:
    """The process that a member, or a life of it, belongs to."""
    return member.split(".")[0]


@dataclass(frozen=True)
class Interruption:
    """A process was stopped from running, in nanoseconds of the monotonic clock.

    Attributes:
        end: `FOREVER` where it was killed.
    """

    process: str
    begin: int
    end: int = FOREVER


@dataclass
class Tally:
    """Counts of events.

    Attributes:
        records: Number of records to read.
        given: Number of records returned in total.
        generations: Number of generations, which is the number of rebalances.
        lives: Number of member starts.
        overlaps: The number of partitions taken over from a member that had not released it
            because it was killed, stopped, or removed from the group without its knowledge.
        longest_stop: Seconds.
    """

    records: int = 0
    given: int = 0
    generations: int = 0
    lives: int = 0
    overlaps: int = 0
    longest_stop: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)


@dataclass
class _Stint:
    """One member's ownership of one partition.

    Attributes:
        least: The earliest offset at which it may begin: the one that the group had acknowledged
        before.
        expected: The offset that comes next; -1 before the first.
    """

    begin: int
    least: int
    expected: int = -1


class GroupLedger:
    """Receives the events of one group in the order of their times.

    Args:
        interruptions: Of its processes.
        static: True if a member's next life takes its partitions over in the same generation.
        strict: True if no record of partitions that are not held may be delivered, and partitions
            that another member already owns must be reported as lost (aiokafka promises neither).
            This excludes a member that ends or unsubscribes itself.
    """

    def __init__(
        self,
        interruptions: Sequence[Interruption] = (),
        *,
        static: Iterable[str] = (),
        strict: bool = True,
    ) -> None:
        self.tally = Tally()
        self.wrong: list[str] = []
        self._interruptions: dict[str, list[Interruption]] = defaultdict(list)
        for each in interruptions:
            self._interruptions[each.process].append(each)
        self._static = frozenset(static)
        self._strict = strict
        self._seen: dict[Place, int] = defaultdict(int)  # everything before it was handed out
        self._committed: dict[Place, int] = defaultdict(int)
        self._stints: dict[tuple[str, Place], _Stint] = {}
        self._holders: dict[Place, set[str]] = defaultdict(set)
        self._claims: dict[tuple[int, Place], str] = {}
        self._generations: set[int] = set()
        self._taken: dict[tuple[str, Place], Event] = {}
        self._parting: set[str] = set()  # members that give everything back by themselves

    def judge(self, events: Iterable[Event], ends: Mapping[Place, int]) -> list[str]:
        """All problems, in words; empty if there are none.

        Args:
            events: In the order of their times.
            ends: Partition to the number of its records.
        """
        for event in events:
            self.tally.events[event.verb] += 1
            if event.text:
                self.tally.words[f"{event.verb} {event.text}"] += 1
            getattr(self, f"_on_{event.verb}", self._nothing)(event)
        for place, end in sorted(ends.items()):
            if self._seen[place] < end:
                self.wrong.append(f"lost: {place} was read up to {self._seen[place]} of {end}")
            elif self._seen[place] > end:
                self.wrong.append(f"invented: {place} was read to {self._seen[place]} of {end}")
        self.tally.records = sum(ends.values())
        self.tally.generations = len(self._generations)
        return self.wrong

    def _nothing(self, event: Event) -> None:
        """Count the event only."""

    def _on_starting(self, event: Event) -> None:
        self.tally.lives += 1

    def _on_mistake(self, event: Event) -> None:
        self.wrong.append(f"a mistake: {event}")

    def _on_stopping(self, event: Event) -> None:
        self._parting.add(event.member)

    def _on_act(self, event: Event) -> None:
        if event.text == "resubscribe":
            self._parting.add(event.member)

    def _on_assigned(self, event: Event) -> None:
        self._parting.discard(event.member)
        for place in event.spread:
            for holder in self._holders[place] - {event.member}:
                self._taken.setdefault((holder, place), event)
            if event.member in self._holders[place]:
                self._blame("assigned twice", event, place)
            self._holders[place].add(event.member)
            stint = _Stint(event.time, self._committed[place])
            self._stints[event.member, place] = stint

    def _on_holds(self, event: Event) -> None:
        """Check that in one generation each partition has one owner."""
        self._generations.add(event.number)
        name, _, life = event.member.partition("/")
        claimant = name if name in self._static else f"{name}/{life}"
        for place in event.spread:
            first = self._claims.setdefault((event.number, place), claimant)
            if first != claimant:
                self._blame(f"owned twice in one generation, by {first}, too", event, place)

    def _on_revoking(self, event: Event) -> None:
        self._release(event, event.spread, orderly=True)

    def _on_lost(self, event: Event) -> None:
        self._release(event, event.spread, orderly=False)

    def _on_stopped(self, event: Event) -> None:
        self.tally.longest_stop = max(self.tally.longest_stop, event.number / 1000)
        held = {place: (0, 0) for place, who in self._holders.items() if event.member in who}
        self._release(event, held, orderly=False)

    def _release(self, event: Event, places: Spread, *, orderly: bool) -> None:
        for place in places:
            self._holders[place].discard(event.member)
            stint = self._stints.pop((event.member, place), None)
            taken = self._taken.pop((event.member, place), None)
            if stint is None or taken is None:
                continue
            excused = event.member in self._parting or self._interrupted(event, stint)
            if orderly and self._strict and not excused:
                self._blame(f"let go in order, yet owned already: {taken}", event, place)
            else:
                self.tally.overlaps += 1

    def _interrupted(self, event: Event, stint: _Stint) -> bool:
        """True if its process was stopped during a part of the ownership."""
        return any(
            each.begin < event.time and each.end > stint.begin
            for each in self._interruptions[process_of(event.member)]
        )

    def _on_given(self, event: Event) -> None:
        for place, (first, last) in event.spread.items():
            self.tally.given += last - first + 1
            if first > self._seen[place]:
                gap = f"{self._seen[place]} to {first - 1}"
                self._blame(f"skipped {gap}, which nobody has seen", event, place)
            self._seen[place] = max(self._seen[place], last + 1)
            stint = self._stints.get((event.member, place))
            if stint is None:
                if self._strict:
                    self._blame("handed out though not held", event, place)
                continue
            if stint.expected < 0 and first < stint.least:
                self._blame(f"begun before {stint.least}, which was committed", event, place)
            if stint.expected >= 0 and first != stint.expected:
                self._blame(f"out of order, after {stint.expected - 1}", event, place)
            stint.expected = last + 1

    def _on_committed(self, event: Event) -> None:
        for place, (offset, _) in event.spread.items():
            self._committed[place] = max(self._committed[place], offset)

    def _blame(self, what: str, event: Event, place: Place) -> None:
        self.wrong.append(f"{what}: {place}, {event}")
