"""When a token is renewed, compared with Java's rules."""

import math

import pytest

from aiokafka_lite.oauth.refresh_window import refresh_at


@pytest.mark.parametrize(
    ("life", "random", "expected"),
    [
        (10_000, 0.0, 8_000),  # the factor
        (10_000, 1.0, 8_500),  # with all of the jitter
        (1_000, 1.0, 700),  # not within 300 s of the end
        (400, 0.0, 100),  # likewise
        (361, 0.0, 61),
        (360, 0.0, 60),
        (359, 0.0, 287.2),  # too short for the margins: only the factor
        (5, 1.0, 4.25),
    ],
)
def test_time_of_renewal(life: float, random: float, expected: float) -> None:
    assert refresh_at(50_000, 50_000 + life, 50_000, random) == pytest.approx(50_000 + expected)


def test_no_renewal_within_a_minute_of_receiving_a_token_that_was_issued_earlier() -> None:
    assert refresh_at(0, 10_000, 9_000, 0.0) == 9_060


def test_token_without_a_known_end_is_not_renewed() -> None:
    assert math.isinf(refresh_at(0, math.inf, 0, 0.5))


@pytest.mark.parametrize("connected", [0, 10, 100, 1_000, 3_000])
@pytest.mark.parametrize("life", [5, 359, 3_600])
def test_renewal_precedes_the_reauthentication_of_any_connection(
    life: float, connected: float
) -> None:
    """A client re-authenticates after at least 85 % of the token's remaining lifetime."""
    if connected < life:
        assert refresh_at(0, life, 0, 1.0) <= connected + 0.85 * (life - connected) + 1e-9
