"""Requests to many brokers are spread over time."""

import pytest

from aiokafka_lite.cluster.pace import AT_ONCE, STEP, Pace


def test_few_requests_do_not_wait() -> None:
    pace = Pace()
    assert [pace.next_delay(100.0) for _ in range(AT_ONCE)] == pytest.approx([0.0] * AT_ONCE)


def test_further_requests_wait_for_one_step_each() -> None:
    pace = Pace()
    delays = [pace.next_delay(100.0) for _ in range(AT_ONCE + 3)]
    assert delays[AT_ONCE:] == pytest.approx([STEP, 2 * STEP, 3 * STEP])


def test_a_pause_allows_as_many_at_once_again() -> None:
    pace = Pace()
    for _ in range(3 * AT_ONCE):
        pace.next_delay(100.0)
    later = 100.0 + 5 * AT_ONCE * STEP
    delays = [pace.next_delay(later) for _ in range(AT_ONCE + 1)]
    assert delays[:-1] == pytest.approx([0.0] * AT_ONCE, abs=1e-9)
    assert delays[-1] == pytest.approx(STEP)


def test_the_rate_is_bounded() -> None:
    pace, now, passed = Pace(), 50.0, 0
    while now < 51.0:
        now += pace.next_delay(now)
        passed += 1
    assert passed <= 1 / STEP + AT_ONCE + 2
