"""The ledger of a share group's chaos reports each kind of error, and nothing if there is none."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.faults.share_journal import Deed, Entry, ShareJournal, read_entries
from tests.faults.share_ledger import Causes, Holder, ShareLedger, stalls

LOCK = 100
A, B = 0, 1  # processes

Told = tuple[int, int, Deed, int, int]
"""Time, process, deed, first and last offset."""


def given(time: int, who: int, first: int = 0, last: int = 0) -> Told:
    return time, who, Deed.GIVEN, first, last


def accepted(time: int, who: int, first: int = 0, last: int = 0) -> list[Told]:
    return [(time, who, Deed.ACCEPTING, first, last), (time + 1, who, Deed.CONFIRMED, first, last)]


def accepting(time: int, who: int) -> Told:
    return time, who, Deed.ACCEPTING, 0, 0


def refused(time: int, who: int) -> Told:
    return time, who, Deed.REFUSED, 0, 0


def judged(
    told: Sequence[Told],
    causes: Causes | None = None,
    end: int = 1,
    dead: Mapping[tuple[int, int], int] | None = None,
    count: int = 1,
) -> list[str]:
    """The errors in these events, in a partition with this many records."""
    entries = [
        (who, Entry(time, first, last, 1, 0, count, deed)) for time, who, deed, first, last in told
    ]
    ledger = ShareLedger({0: end}, causes or Causes(LOCK), limit=5)
    return ledger.judge_entries(entries, dead or {})


AGAIN = [given(10, A), given(150, B), *accepted(160, B)]
"""A delivery while another member holds the record, after a lock's time."""
SOON = [given(10, A), given(50, B), *accepted(60, B)]

WELL: dict[str, tuple[list[Told], Causes]] = {
    "accepted at once": ([given(10, A), *accepted(20, A)], Causes(LOCK)),
    "no answer": ([given(10, A), accepting(20, A), (30, A, Deed.UNKNOWN, 0, 0)], Causes(LOCK)),
    "refused, and no answer to another": (
        [given(10, A), accepting(20, A), given(50, B), accepting(60, B), refused(70, B)],
        Causes(LOCK, places={0: [(30, 40)]}),
    ),
    "released": ([given(10, A), (20, A, Deed.RELEASING, 0, 0), *AGAIN[1:]], Causes(LOCK)),
    "killed": (SOON, Causes(LOCK, killed={A: 30})),
    "stopped": (AGAIN, Causes(LOCK, stopped={A: [(20, 140)]})),
    "leader": (SOON, Causes(LOCK, places={0: [(30, 40)]})),
    "cluster": (AGAIN, Causes(LOCK, cluster=[(30, 40)])),
    "left": (SOON, Causes(LOCK, left={Holder(A, 1): 30})),
    "left, then accepted": (
        [given(10, A), (20, A, Deed.LEAVING, 0, 0), accepting(25, A), *SOON[1:]],
        Causes(LOCK),
    ),
    "left in trouble": (
        [given(10, A), accepting(15, A), (20, A, Deed.LEAVING, 0, 0), *SOON[1:]],
        Causes(LOCK, cluster=[(25, 30)]),
    ),
    "read late": (
        [given(10, A), *accepted(20, A), given(100, B)],
        Causes(LOCK, places={0: [(30, 40)]}),
    ),
    "refused": (
        [given(10, A), accepting(20, A), refused(30, A), given(40, B), *accepted(50, B)],
        Causes(LOCK, places={0: [(15, 25)]}),
    ),
}

WRONG: dict[str, tuple[list[Told], Causes]] = {
    "never accepted": ([given(10, A)], Causes(LOCK)),
    "again without a cause": (AGAIN, Causes(LOCK)),
    # A stopped process keeps its connection, so its locks last.
    "again without a cause, stopped": (SOON, Causes(LOCK, stopped={A: [(20, 40)]})),
    "again without a cause, killed later": (SOON, Causes(LOCK, killed={A: 70})),
    "again without a cause, other killed": (SOON, Causes(LOCK, killed={2: 30})),
    "again without a cause, other leader": (SOON, Causes(LOCK, places={1: [(30, 40)]})),
    "again without a cause, leader before": (
        [given(1010, A), given(1050, B), *accepted(1060, B)],
        Causes(LOCK, places={0: [(30, 40)]}),
    ),
    "again without a cause, accepted and left": (
        [given(10, A), accepting(15, A), (20, A, Deed.LEAVING, 0, 0), *SOON[1:]],
        Causes(LOCK),
    ),
    "again after its confirmation": (
        [given(10, A), *accepted(20, A), given(150, B)],
        Causes(LOCK, killed={A: 30}),
    ),
    "confirmed twice": (
        [given(10, A), *accepted(20, A), given(50, B), *accepted(60, B)],
        Causes(LOCK, places={0: [(30, 40)]}),
    ),
    "refused without a cause": (
        [given(10, A), accepting(20, A), refused(30, A), *accepted(40, A)],
        Causes(LOCK),
    ),
    "accepted by no broker": (
        [given(10, A), accepting(20, A), refused(30, A)],
        Causes(LOCK, places={0: [(15, 25)]}),
    ),
    "invented": ([given(10, A), *accepted(20, A), given(30, A, 1, 1)], Causes(LOCK)),
}


@pytest.mark.parametrize("name", WELL)
def test_nothing_is_wrong(name: str) -> None:
    told, causes = WELL[name]
    assert judged(told, causes) == []


@pytest.mark.parametrize("name", WRONG)
def test_each_kind_of_wrong_is_found(name: str) -> None:
    told, causes = WRONG[name]
    wrong = judged(told, causes)
    assert [each.split(":")[0] for each in wrong] == [name.split(",")[0]]


def test_dead_letters_must_have_reached_the_limit() -> None:
    told = [given(10, A, 0, 1), *accepted(20, A, 1, 1)]
    assert judged(told, end=2, dead={(0, 0): 5}) == []
    assert judged(told, end=2, dead={(0, 0): 4}) == ["dead below the limit: 0 0 after 4 deliveries"]


def test_delivery_counts_stay_within_the_limit() -> None:
    (wrong,) = judged([given(10, A), *accepted(20, A)], count=6)
    assert wrong.startswith("an impossible delivery count")


def test_many_wrongs_of_a_kind_are_cut_short() -> None:
    wrong = judged([given(10, A, 0, 99)], end=100)
    assert len(wrong) == 21
    assert "more" in wrong[-1]


def test_journal_of_a_killed_process_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    code = """
import os, signal, sys
from pathlib import Path
from tests.faults.share_journal import Deed, ShareJournal
journal = ShareJournal(Path(sys.argv[1]))
for number in range(1000):
    journal.tell(Deed.GIVEN, 7, 1003, number, number + 1, 300)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], timeout=60, check=False)
    assert done.returncode == -9
    entries = list(read_entries(path))
    assert len(entries) == 1000
    assert entries[999][1:] == (999, 1000, 7, 1003, 255, Deed.GIVEN)
    assert [each.time for each in entries] == sorted(each.time for each in entries)


def test_empty_journal_has_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.touch()
    assert list(read_entries(path)) == []
    ShareJournal(path)
    assert list(read_entries(path)) == []


def test_silence_of_a_process_is_a_stall() -> None:
    second = 1_000_000_000
    times = [0, second, 4 * second, 5 * second]
    entries = [Entry(time, 0, 0, 0, 0, 0, Deed.ALIVE) for time in times]
    assert stalls(entries) == [(second, 4 * second)]
