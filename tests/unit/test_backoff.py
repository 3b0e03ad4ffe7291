"""The backoff arithmetic of KIP-580."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import KafkaConfigurationError


def middle() -> float:
    return 0.5  # no jitter


def test_delay_doubles_up_to_the_maximum() -> None:
    backoff = Backoff(0.1, 1.0)
    assert [backoff.delay(n, middle) for n in range(7)] == pytest.approx(
        [0, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    )


def test_jitter_spreads_both_ways() -> None:
    backoff = Backoff(1.0, 10.0, jitter=0.2)
    assert backoff.delay(1, lambda: 0.0) == pytest.approx(0.8)
    assert backoff.delay(1, lambda: 0.999999) == pytest.approx(1.2, abs=1e-3)
    assert backoff.delay(9, lambda: 0.999999) == 10.0


def test_a_maximum_below_the_base_lowers_the_base() -> None:
    assert Backoff(5.0, 1.0).delay(1, middle) == 1.0


def test_no_failure_no_delay() -> None:
    assert Backoff(1.0, 2.0).delay(0) == 0.0
    assert Backoff(0.0, 2.0).delay(5) == 0.0


@given(
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.floats(1, 100),
    st.floats(0, 1, exclude_max=True),
    st.integers(-1, 10**6),
)
def test_delay_is_always_finite_and_within_bounds(
    base: float, maximum: float, multiplier: float, jitter: float, failures: int
) -> None:
    delay = Backoff(base, maximum, multiplier, jitter).delay(failures)
    assert 0 <= delay <= maximum


@pytest.mark.parametrize(
    "arguments",
    [(-1, 1), (1, -1), (math.nan, 1), (1, math.inf), (1, 1, 0.5), (1, 1, 2, 1), (1, 1, 2, -0.1)],
)
def test_invalid_arguments_raise(arguments: tuple[float, ...]) -> None:
    with pytest.raises(KafkaConfigurationError):
        Backoff(*arguments)
