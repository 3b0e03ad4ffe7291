"""The endurance run continues after its last piece, and notices what grows."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.faults import endurance
from tests.faults.endurance import LANES, OLD, Piece, draw, main
from tests.faults.endurance_steady import Gauge
from tools.kafka import NEWEST

FLAT = (100_000, 12, 20, 4)


def gauge(*samples: tuple[int, int, int, int]) -> Gauge:
    found = Gauge()
    found.samples = [(5.0 * number, *sample) for number, sample in enumerate(samples)]
    return found


def test_flat_use_is_no_leak() -> None:
    noisy = [(100_000 + 500 * (number % 3), 12 + number % 2, 20, 4) for number in range(30)]
    assert gauge(*noisy).judge(0.0) == []


def test_growth_during_the_warm_up_is_no_leak() -> None:
    growing = [(50_000 + 5_000 * number, 10, 20, 4) for number in range(10)]
    assert gauge(*growing, *[FLAT] * 20).judge(50.0) == []


@pytest.mark.parametrize(
    ("index", "step", "words"),
    [
        (0, 500, "memory grew from 102500 to 112500 KiB"),
        (1, 1, "descriptors grew from 17 to 37"),
        (2, 1, "tasks grew from 25 to 45"),
        (3, 1, "threads grew from 9 to 29"),
    ],
)
def test_growth_after_the_warm_up_is_reported(index: int, step: int, words: str) -> None:
    samples = []
    for number in range(30):
        sample = list(FLAT)
        sample[index] += step * number
        samples.append((sample[0], sample[1], sample[2], sample[3]))
    assert gauge(*samples).judge(0.0) == [words]


def test_too_few_measurements_are_reported() -> None:
    assert gauge(*[FLAT] * 8).judge(20.0) == ["only 4 measurements after the warm-up"]


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
