"""The ledger of the chaos in a group reports each kind of error, and nothing if there is none."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.consumer_journal import Event, Journal, Spread, Verb, follow
from tests.faults.consumer_ledger import GroupLedger, Interruption

P0, P1 = ("orders", 0), ("orders", 1)
A, B = "p0.m0/1", "p1.m0/1"

Told = tuple[str, Verb, Spread] | tuple[str, Verb, Spread, int]


def at(*places: tuple[str, int]) -> Spread:
    return dict.fromkeys(places, (0, 0))


def judged(told: Sequence[Told], end: int = 10, **options: Any) -> list[str]:
    """The errors in these consecutive events, if one partition has an end."""
    events = [
        Event(time, each[0], each[1], each[2], each[3] if len(each) > 3 else 0, "")
        for time, each in enumerate(told)
    ]
    return GroupLedger(**options).judge(events, {P0: end})


def given(member: str, first: int, last: int) -> Told:
    return member, Verb.GIVEN, {P0: (first, last)}


def committed(member: str, offset: int) -> Told:
    return member, Verb.COMMITTED, {P0: (offset, offset)}


def owned(member: str, generation: int = 1, *places: tuple[str, int]) -> list[Told]:
    spread = at(*(places or (P0,)))
    return [(member, Verb.ASSIGNED, spread), (member, Verb.HOLDS, spread, generation)]


def revoked(member: str) -> Told:
    return member, Verb.REVOKING, at(P0)


WELL: dict[str, list[Told]] = {
    "one member": [*owned(A), given(A, 0, 3), given(A, 4, 9), committed(A, 10)],
    "handed over": [
        *(*owned(A), given(A, 0, 5), committed(A, 4), revoked(A)),
        *(*owned(B, 2), given(B, 4, 9)),
    ],
    "killed": [
        *(*owned(A), given(A, 0, 5), committed(A, 4)),
        *(*owned(B, 2), given(B, 4, 9)),
    ],
    "lost late": [
        *(*owned(A), given(A, 0, 5), *owned(B, 2), given(B, 0, 9)),
        (A, Verb.LOST, at(P0)),
    ],
    "stopped before it knew": [
        *(*owned(A), given(A, 0, 9), *owned(B, 2), (A, Verb.STOPPING, {}), revoked(A)),
    ],
    "its commit was told late": [
        *(*owned(A), given(A, 0, 5), revoked(A), *owned(B, 2), committed(A, 4)),
        given(B, 0, 9),
    ],
    "kept in the next generation": [
        *(*owned(A), given(A, 0, 5), (A, Verb.HOLDS, at(P0, P1), 2), given(A, 6, 9)),
    ],
}

WRONG: dict[str, list[Told]] = {
    "lost": [*owned(A), given(A, 0, 8)],
    "invented": [*owned(A), given(A, 0, 10)],
    "skipped": [*owned(A), given(A, 0, 3), revoked(A), *owned(B, 2), given(B, 5, 9)],
    "begun before": [
        *(*owned(A), given(A, 0, 9), committed(A, 7), revoked(A)),
        *(*owned(B, 2), given(B, 6, 9)),
    ],
    "out of order": [*owned(A), given(A, 0, 9), given(A, 9, 9)],
    "handed out though not held": [*owned(A), given(A, 0, 8), revoked(A), given(A, 9, 9)],
    "owned twice in one generation": [*owned(A), given(A, 0, 9), *owned(B)],
    "assigned twice": [*owned(A), given(A, 0, 9), *owned(A, 2)],
    "let go in order": [*owned(A), given(A, 0, 9), *owned(B, 2), revoked(A)],
    "a mistake": [*owned(A), given(A, 0, 9), (A, Verb.MISTAKE, {})],
}


@pytest.mark.parametrize("told", WELL.values(), ids=WELL.keys())
def test_correct_histories_have_no_problems(told: list[Told]) -> None:
    assert judged(told) == []


@pytest.mark.parametrize(("words", "told"), WRONG.items(), ids=WRONG.keys())
def test_wrong_histories_are_reported(words: str, told: list[Told]) -> None:
    (wrong,) = judged(told)
    assert wrong.startswith(words)


def test_static_member_may_return_to_its_generation() -> None:
    told = [*owned("p3.m0/1"), given("p3.m0/1", 0, 5), *owned("p3.m0/2"), given("p3.m0/2", 0, 9)]
    assert judged(told, static={"p3.m0"}) == []
    assert len(judged(told)) == 1


def test_stopped_process_may_release_partitions_late() -> None:
    told = WRONG["let go in order"]
    assert judged(told, interruptions=[Interruption("p0", 3, 5)]) == []
    assert len(judged(told, interruptions=[Interruption("p1", 3, 5)])) == 1
    assert len(judged(told, interruptions=[Interruption("p0", 6, 7)])) == 1


def test_journal_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    reading = follow(path)
    assert next(reading) == []
    journal = Journal(path)
    journal.tell(A, Verb.GIVEN, {P0: (0, 5), P1: (7, 7)})
    journal.tell(A, Verb.ASSIGNED, [P1], 3, "two\nlines\tand a tab")
    first, second = next(reading)
    assert (first.member, first.verb, first.spread) == (A, Verb.GIVEN, {P0: (0, 5), P1: (7, 7)})
    assert (second.spread, second.number) == ({P1: (0, 0)}, 3)
    assert second.text == "two lines\tand a tab"
    with path.open("a") as file:
        file.write("1\tp0.m0/1\tstar")
        file.flush()
        assert next(reading) == []
        file.write("ted\t\t0\t\n")
    assert [event.verb for event in next(reading)] == [Verb.STARTED]
    journal.close()
