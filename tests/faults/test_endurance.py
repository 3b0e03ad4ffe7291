"""The endurance run continues after its last piece, and detects growth."""

import asyncio
import json
import socket
import sys
from pathlib import Path

import pytest

from tests.faults import endurance
from tests.faults.endurance import LANES, OLD, Piece, draw, main, repeated_lines
from tests.faults.endurance_steady import Gauge, Sample, left_over, measure
from tools.kafka import NEWEST

FLAT = Sample(100_000, 12, 6, 20, 4, 80_000)


def gauge(*samples: Sample) -> Gauge:
    found = Gauge()
    found.samples = [(5.0 * number, sample) for number, sample in enumerate(samples)]
    return found


def test_flat_use_is_no_leak() -> None:
    noisy = [
        FLAT._replace(memory=100_000 + 500 * (number % 3), descriptors=12 + number % 2)
        for number in range(30)
    ]
    assert gauge(*noisy).judge(0.0) == []


def test_growth_during_the_warm_up_is_no_leak() -> None:
    growing = [FLAT._replace(memory=50_000 + 5_000 * number) for number in range(10)]
    assert gauge(*growing, *[FLAT] * 20).judge(50.0) == []


@pytest.mark.parametrize(
    ("what", "step", "words"),
    [
        ("memory", 500, "memory grew from 102500 to 112500 KiB"),
        ("descriptors", 1, "descriptors grew from 17 to 37"),
        ("sockets", 1, "sockets grew from 11 to 31"),
        ("tasks", 1, "tasks grew from 25 to 45"),
        ("threads", 1, "threads grew from 9 to 29"),
        ("objects", 500, "objects grew from 82500 to 92500"),
    ],
)
def test_growth_after_the_warm_up_is_reported(what: str, step: int, words: str) -> None:
    samples = [FLAT._replace(**{what: getattr(FLAT, what) + step * number}) for number in range(30)]
    assert gauge(*samples).judge(0.0) == [words]


def test_too_few_measurements_are_reported() -> None:
    assert gauge(*[FLAT] * 8).judge(20.0) == ["only 4 measurements after the warm-up"]


def test_what_stopped_clients_leave_is_reported() -> None:
    after = FLAT._replace(sockets=8, tasks=21, memory=200_000)
    assert left_over(FLAT, FLAT) == []
    assert left_over(FLAT, after) == [
        "2 sockets are left of stopped clients",
        "1 tasks are left of stopped clients",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_open_sockets_and_tasks_are_measured() -> None:
    before = measure()
    task = asyncio.create_task(asyncio.sleep(60))
    with socket.socket():
        during = measure()
    assert left_over(before, during) == [
        "1 descriptors are left of stopped clients",
        "1 sockets are left of stopped clients",
        "1 tasks are left of stopped clients",
    ]
    task.cancel()
    await asyncio.wait([task])
    assert left_over(before, measure()) == []


def test_messages_of_all_processes_but_brokers_are_counted(tmp_path: Path) -> None:
    lines = "2026-11-27 16:00:01,000 WARNING x broker 1 is away\n" * 200
    (tmp_path / "group").mkdir()
    for name in ("group/worker.log", "broker-0.log"):
        (tmp_path / name).write_text(lines)
    assert repeated_lines(tmp_path) == [
        "group/worker.log: logged 200 times in a minute: WARNING x broker # is away"
    ]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """The pieces that were played; the second fails, and the third is interrupted once."""
    played: list[Piece] = []

    async def play_piece(piece: Piece, folder: Path, lanes: list[str]) -> None:
        assert await asyncio.to_thread(lambda: sorted(each.name for each in folder.iterdir())) == (
            sorted(lanes)
        )
        (folder / lanes[0] / "ledger").touch()
        played.append(piece)
        if len(played) == 3:
            raise KeyboardInterrupt
        piece.lanes = dict.fromkeys(lanes, "passed")
        if piece.number == 1:
            piece.lanes["steady"] = "exit status 1: WRONG: a record"
        piece.faults = {"kill": 2}

    monkeypatch.setattr(endurance, "play_piece", play_piece)
    return played


def test_a_run_continues_after_its_last_piece(
    tmp_path: Path, played: list[Piece], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--hours", "1", "--minutes", "15", "--seed", "7", "--output", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        main(arguments)
    assert len((tmp_path / "pieces.jsonl").read_text().splitlines()) == 2
    assert main(arguments) == 1  # the second piece has failed
    assert [piece.number for piece in played] == [0, 1, 2, 2, 3]
    assert [piece.version for piece in played] == [*[NEWEST] * 4, OLD]
    assert [piece.seed for piece in played] == [draw(7, n, 15).seed for n in (0, 1, 2, 2, 3)]
    ended = [json.loads(line) for line in (tmp_path / "pieces.jsonl").read_text().splitlines()]
    assert [piece["lanes"]["steady"] for piece in ended] == [
        *("passed", "exit status 1: WRONG: a record", "passed", "passed")
    ]
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "4 pieces, 60 minutes of trouble, faults {'kill': 8}",
        "3 passed, 1 failed",
    ]


def test_pieces_limits_one_run(tmp_path: Path, played: list[Piece]) -> None:
    arguments = ["--hours", "1", "--minutes", "15", "--pieces", "1", "--output", str(tmp_path)]
    assert main(arguments) == 0
    assert main(arguments) == 1
    assert [piece.number for piece in played] == [0, 1]


def test_a_piece_without_all_lanes_has_not_passed() -> None:
    piece = draw(1, 0, 5)
    piece.lanes = dict.fromkeys(LANES[:-1], "passed")
    assert not piece.passed
    piece.lanes[LANES[-1]] = "passed"
    assert piece.passed
    piece.wrong = ["consumer_worker: memory grew"]
    assert not piece.passed
