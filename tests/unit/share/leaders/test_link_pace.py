"""The times at which acknowledgements are due."""

from math import inf

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.share.leaders.link_pace import LINGER, Pace


def test_quick_fetches_do_not_put_off_marks_that_they_cannot_carry() -> None:
    """They are renewals, or belong to partitions that are no longer fetched."""
    pace = Pace(Backoff(0.1, 1.0))
    assert pace.on_marked(100.0)
    for number in range(10):
        pace.on_taken(waiting=True, now=100.0 + number * LINGER / 2)
    assert pace.due == 100.0 + LINGER


def test_marks_that_a_request_leaves_behind_are_due_soon() -> None:
    pace = Pace(Backoff(0.1, 1.0))
    pace.on_taken(waiting=True, now=100.0)
    assert pace.due == 100.0 + LINGER
    pace.on_taken(waiting=False, now=100.0)
    assert pace.due == inf
