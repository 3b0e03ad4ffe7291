"""Averages and rates of the last half minute to minute."""

import math

import pytest

from aiokafka_lite._stats import Windowed


def test_nothing_came() -> None:
    stat = Windowed()
    assert math.isnan(stat.average(5))
    assert math.isnan(stat.maximum(5))
    assert (stat.rate(5), stat.count_rate(5), stat.count, stat.total) == (0, 0, 0, 0)


def test_values_of_one_window() -> None:
    stat = Windowed()
    for second in range(10):
        stat.record(second, 100 + second)
    assert stat.average(110) == 4.5
    assert stat.maximum(110) == 9
    assert stat.rate(110) == 4.5
    assert stat.count_rate(110) == 1
    assert (stat.count, stat.total) == (10, 45)


def test_the_older_window_is_dropped_when_the_newer_is_over() -> None:
    stat = Windowed()
    stat.record(10, 0)
    stat.record(2, 31)
    assert stat.average(31) == 6
    assert stat.maximum(59) == 10
    assert stat.rate(59) == pytest.approx(12 / 59)
    assert stat.maximum(61) == 2, "the first window is forgotten"
    assert stat.average(61) == 2
    assert math.isnan(stat.maximum(95)), "both are"
    assert stat.rate(95) == 0
    assert (stat.count, stat.total) == (2, 12)
    stat.record(7, 10_000)
    assert stat.maximum(10_001) == 7
    assert stat.rate(10_001) > 0


def test_many_at_once() -> None:
    stat = Windowed()
    stat.record_many(3, 9, 6, 0)
    assert (stat.average(1), stat.maximum(1), stat.count) == (3, 6, 3)
