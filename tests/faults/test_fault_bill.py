"""The comparison of faults: what it measures, and one of its faults on real brokers."""

import json
from pathlib import Path

import pytest

from tests.faults.bill_client import CLIENTS, Flow
from tests.faults.fault_bill import FAULTS, SECOND, Line, group_of, interruption, java_hash, main
from tests.faults.fault_bill import table as table_of

SMOOTHLY = [(p, at * SECOND // 10) for at in range(100) for p in range(3)]


def test_the_interruption_is_the_longest_silence_of_any_partition() -> None:
    assert interruption(SMOOTHLY, 1 * SECOND, 9 * SECOND) == pytest.approx(0.1)
    silent = [(p, at) for p, at in SMOOTHLY if p != 1 or not 3 * SECOND < at < 5 * SECOND]
    assert interruption(silent, 1 * SECOND, 9 * SECOND) == pytest.approx(2.0)


def test_silence_before_the_fault_does_not_count() -> None:
    silent = [(p, at) for p, at in SMOOTHLY if not SECOND < at < 5 * SECOND]
    assert interruption(silent, 4 * SECOND, 9 * SECOND) == pytest.approx(1.0)


def test_a_partition_that_stays_silent_is_interrupted_until_the_end() -> None:
    silent = [(p, at) for p, at in SMOOTHLY if p != 2 or at < 3 * SECOND]
    assert interruption(silent, 1 * SECOND, 9 * SECOND) == pytest.approx(6.1)


def test_a_record_flows_once_it_is_acknowledged_and_consumed(tmp_path: Path) -> None:
    flow = Flow("ours", tmp_path / "journal")
    (first, value), (second, other) = flow.send(), flow.send()
    flow.acknowledged(first, 0)
    flow.consumed(other, 1)
    flow.consumed(other, 1)  # again, after a rebalance
    flow.consumed(b"theirs 0", 0)
    assert (tmp_path / "journal").read_text() == ""
    flow.acknowledged(second, 1)
    flow.consumed(value, 0)
    lines = (tmp_path / "journal").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["1", "0"]


def test_all_groups_have_the_same_coordinator() -> None:
    assert java_hash("aiokafka") == 767839681  # as Java computes it
    assert {java_hash(group_of(client)) % 4 for client in CLIENTS} == {0}


def test_the_table_has_the_medians_with_the_shortest_in_bold() -> None:
    fault = next(iter(FAULTS))
    lines = [
        Line(fault, 0, number, dict(zip(CLIENTS, seconds, strict=True)))
        for number, seconds in enumerate([(1.0, 2.0, 3.0), (1.5, 5.0, 0.5), (9.0, 2.5, 4.0)])
    ]
    assert table_of(lines).splitlines()[2:] == [f"| {fault} | **1.50** | 2.50 | 3.00 | 3 |"]


@pytest.mark.real
@pytest.mark.long
def test_a_bill_of_one_fault_continues_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--repeats", "1", "--only", "leaders move", "--output", str(tmp_path)]
    assert main(arguments) == 0
    (line,) = map(json.loads, (tmp_path / "bill.jsonl").read_text().splitlines())
    assert line["seconds"].keys() == set(CLIENTS)
    assert "| leaders move |" in capsys.readouterr().out
