"""The comparison itself: differences are found and reported, and listed ones are allowed."""

import ast
from pathlib import Path
from uuid import UUID

import pytest

from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.conformance import comparing
from tests.conformance.comparing import AllowedDifferences, report
from tests.conformance.differences import DIFFERENCES
from tests.conformance.facts import Facts
from tests.conformance.requests import GOOD, changed
from tests.conformance.target import Target


def noted(*answers: object) -> Target:
    target = Target("either", "127.0.0.1:1", "x")
    for answer in answers:
        target.note("answer", answer)
    return target


def offsets(*partitions: tuple[int, int, int]) -> ListOffsetsResponse:
    answers = [
        ListOffsetsPartitionResponse(index, error, offset=offset)
        for index, error, offset in partitions
    ]
    return ListOffsetsResponse(0, [ListOffsetsTopicResponse("t", answers)])


def told(kafka: Target, embedded: Target) -> str | None:
    return report("scenario", kafka, embedded, AllowedDifferences("scenario"))


def test_order_does_not_matter() -> None:
    assert (
        told(noted(offsets((0, 0, 5), (1, 3, -1))), noted(offsets((1, 3, -1), (0, 0, 5)))) is None
    )


def test_difference_names_its_step_path_and_both_values() -> None:
    text = told(noted(1, offsets((0, 0, 5))), noted(1, offsets((0, 6, 5))))
    assert text is not None
    assert "step 2 of 2: answer/topics/t/partitions/0/error_code" in text
    assert "Kafka     0 (NoError)" in text
    assert "embedded  6 (NotLeaderForPartitionError)" in text


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ([1], [1, 1]),
        ([{"a": 1}], [{}]),
        ([(1, 2)], [(2, 1)]),
        ([[1]], [[1, 1]]),
        ([True], [1]),
        ([""], [None]),
        ([{"member_id": ("x", "y")}], [{"member_id": ("x", "x")}]),
        ([{"member_id": ""}], [{"member_id": "x"}]),
        ([{"producer_id": -1}], [{"producer_id": 0}]),
        ([{"leader_id": -1}], [{"leader_id": 0}]),
        ([{"records": GOOD}], [{"records": changed(max_timestamp=1)}]),
        ([{"records": GOOD}], [{"records": GOOD[:-1]}]),
        ([UUID(int=0)], [UUID(int=1)]),
    ],
)
def test_differences_are_found(expected: list[object], found: list[object]) -> None:
    assert told(noted(*expected), noted(*found)) is not None


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({"member_id": ("x", "y", "x")}, {"member_id": ("b", "a", "b")}),
        ({"producer_id": 0}, {"producer_id": 4000}),
        ({"leader_id": 1}, {"leader_id": 0}),
        ([UUID(int=1)], [UUID(int=2)]),
    ],
)
def test_random_values_are_ignored(expected: object, found: object) -> None:
    assert told(noted(expected), noted(found)) is None


def test_listed_differences_are_allowed_and_unused_ones_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = [("scenario", "answer/*/error_code", "?"), ("scenario", "answer/no", "?")]
    monkeypatch.setattr(comparing, "DIFFERENCES", entries)
    allowed = AllowedDifferences("scenario")
    kafka, embedded = noted(offsets((0, 0, 5))), noted(offsets((0, 6, 5)))
    assert report("scenario", kafka, embedded, allowed) is None
    assert allowed.unused == ["answer/no"]


def test_exception_of_a_scenario_is_reported() -> None:
    error = ValueError("broken")
    text = report("s", noted(1), noted(1), AllowedDifferences("s"), (None, error))
    assert text is not None
    assert "ValueError: broken" in text


def test_ids_keep_their_numbers_through_a_transcript() -> None:
    facts = Facts()
    assert [facts.of({"producer_id": each}) for each in (7, 9, 7)] == [
        {"producer_id": f"producer #{number}"} for number in (1, 2, 1)
    ]


def test_every_listed_difference_belongs_to_a_scenario() -> None:
    tests = {
        node.name
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.AsyncFunctionDef)
    }
    assert {name.partition("[")[0] for name, _, _ in DIFFERENCES} <= tests
    assert all(why for _, _, why in DIFFERENCES)
