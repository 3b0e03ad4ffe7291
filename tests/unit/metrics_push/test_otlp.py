"""The OTLP encoder, read back by `otlp_reader`.

Kafka's classes decode the same bytes in tests/real/test_metrics_push.py.
"""

from collections import Counter
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.metrics_push.otlp import Encoder, Point
from tests.unit.metrics_push.otlp_reader import decoded

GAUGE, SUM = 5, 7


def test_gauges_and_sums() -> None:
    encoder = Encoder(start_ns=5, now_ns=2**63, delta=True)
    encoder.add(Point("a.b", 1.5))
    encoder.add(Point("a.total", 3.0, (("node_id", "node-1"),), monotonic=True))
    encoder.add(Point("a.total", 4.0, (("node_id", "node-2"),), monotonic=True))
    resource, (gauge, total) = decoded(encoder.finish({"group_id": "g", "client_rack": "é"}))
    assert resource == {"group_id": "g", "client_rack": "é"}
    assert gauge[:3] == ("a.b", GAUGE, [(1.5, None, 2**63, {})])
    assert total[:3] == (
        "a.total",
        SUM,
        [(3.0, 5, 2**63, {"node_id": "node-1"}), (4.0, 5, 2**63, {"node_id": "node-2"})],
    )
    assert (total[3][2], total[3][3]) == ([1], [1])  # delta, monotonic


def test_cumulative_sums() -> None:
    encoder = Encoder(start_ns=1, now_ns=2, delta=False)
    encoder.add(Point("t", 1.0, monotonic=True))
    assert decoded(encoder.finish({}))[1][0][3][2] == [2]


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_values_that_are_not_finite_are_omitted(value: float) -> None:
    encoder = Encoder(start_ns=1, now_ns=2, delta=False)
    encoder.add(Point("t", value))
    assert encoder.count == 0
    assert decoded(encoder.finish({})) == ({}, [])


def test_one_name_with_and_without_a_direction_is_two_metrics() -> None:
    encoder = Encoder(start_ns=1, now_ns=2, delta=False)
    encoder.add(Point("t", 1.0))
    encoder.add(Point("t", 2.0, (("a", "b"),), monotonic=True))
    assert [metric[:2] for metric in decoded(encoder.finish({}))[1]] == [("t", GAUGE), ("t", SUM)]


text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)


@given(
    st.lists(
        st.builds(
            Point,
            text,
            st.floats(allow_nan=False, allow_infinity=False),
            st.dictionaries(text, text, max_size=3).map(lambda d: tuple(sorted(d.items()))),
            st.booleans(),
            st.none() | st.integers(0, 2**64 - 1),
        ),
        max_size=20,
    )
)
def test_every_point_comes_back(points: list[Point]) -> None:
    encoder = Encoder(start_ns=1, now_ns=2, delta=True)
    for point in points:
        encoder.add(point)
    _, metrics = decoded(encoder.finish({}))
    found = [
        (name, value, tuple(sorted(extra.items())), kind == SUM, start)
        for name, kind, values, _ in metrics
        for value, start, _, extra in values
    ]
    wanted = [
        (*point[:4], (1 if point.start_ns is None else point.start_ns) if point.monotonic else None)
        for point in points
    ]
    assert Counter(found) == Counter(wanted)
