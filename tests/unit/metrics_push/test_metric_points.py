"""Differences between pushes."""

from math import inf, nan

import pytest

from aiokafka_lite.metrics_push.metric_points import Deltas
from aiokafka_lite.metrics_push.otlp import Encoder, Point
from tests.unit.metrics_push.otlp_reader import decoded


def pushed(deltas: Deltas, at: int, *points: Point) -> list[Point]:
    """The points of a push that the broker accepts."""
    deltas.begin(at)
    found = list(deltas.since_last(points))
    deltas.on_accepted()
    return found


def total(value: float, name: str = "t", start: int | None = None) -> Point:
    return Point(name, value, (), True, start)


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_total_that_is_not_finite_loses_nothing(value: float) -> None:
    deltas = Deltas()
    assert pushed(deltas, 1, total(1.0)) == [total(1.0)]
    assert pushed(deltas, 2, total(value)) == []
    assert pushed(deltas, 3, total(5.0)) == [total(4.0, start=1)]
    assert pushed(deltas, 4, total(9.0)) == [total(4.0, start=3)]


def test_a_difference_begins_where_its_total_was_pushed_last() -> None:
    """The subscription changes, so that it requests a total later, or not for a while."""
    deltas = Deltas()
    pushed(deltas, 1, total(1.0, "a"))
    assert pushed(deltas, 2, total(8.0, "b")) == [total(8.0, "b")]  # since the client's start
    assert pushed(deltas, 3, total(3.0, "a"), total(9.0, "b")) == [
        total(2.0, "a", 1),
        total(1.0, "b", 2),
    ]


def test_a_refused_push_is_part_of_the_next_one() -> None:
    deltas = Deltas()
    pushed(deltas, 1, total(1.0))
    deltas.begin(2)
    assert list(deltas.since_last([total(4.0)])) == [total(3.0, start=1)]
    assert pushed(deltas, 3, total(6.0)) == [total(5.0, start=1)]


def test_the_start_of_each_difference_is_encoded() -> None:
    encoder = Encoder(start_ns=5, now_ns=9, delta=True)
    encoder.add(total(1.0))
    encoder.add(total(2.0, start=7))
    ((_, _, points, _),) = decoded(encoder.finish({}))[1]
    assert [point[:3] for point in points] == [(1.0, 5, 9), (2.0, 7, 9)]
