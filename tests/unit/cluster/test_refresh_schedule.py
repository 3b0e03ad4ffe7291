"""The refresh arithmetic: max(0 if needed else time to expiry, time to the end of the backoff)."""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.refresh.refresh_schedule import RefreshSchedule

EXACT = Backoff(1.0, 8.0, jitter=0.0)
TRACKED = frozenset({"a", "b", "c"})


def schedule(max_age: float = 100.0) -> RefreshSchedule:
    return RefreshSchedule(max_age, EXACT)


def answered(at: float, **unsettled) -> RefreshSchedule:
    made = schedule()
    made.take_names(TRACKED)
    made.on_answer(at, set(unsettled))
    return made


def test_first_refresh_is_due_at_once_and_requests_everything():
    made = schedule()
    assert made.time_to_next(0.0) == 0.0
    assert made.take_names(TRACKED) is None
    assert made.number == 1


def test_no_refresh_is_due_while_one_is_in_progress():
    made = schedule()
    made.take_names(TRACKED)
    made.request_all()
    assert made.time_to_next(1000.0) == math.inf


@pytest.mark.parametrize(
    ("now", "needed", "due_in"),
    [
        pytest.param(50.0, False, 100.0, id="fresh: the age"),
        pytest.param(149.0, False, 1.0, id="nearly expired"),
        pytest.param(151.0, False, 0.0, id="expired"),
        pytest.param(50.0, True, 1.0, id="needed: after the backoff"),
        pytest.param(50.75, True, 0.25, id="needed: what is left of it"),
        pytest.param(60.0, True, 0.0, id="needed: at once"),
    ],
)
def test_time_to_next(now, needed, due_in):
    made = answered(at=50.0)
    if needed:
        made.request_all()
    assert made.time_to_next(now) == pytest.approx(due_in)


def test_short_max_age_waits_for_the_backoff():
    made = RefreshSchedule(0.0, EXACT)
    made.take_names(TRACKED)
    made.on_answer(50.0, set())
    assert made.time_to_next(50.0) == 1.0


def test_new_topic_is_requested_at_once_and_alone():
    made = answered(at=50.0)
    number = made.request_new(["b"])
    assert made.time_to_next(50.0) == 0.0
    assert made.take_names(TRACKED) == {"b"}
    assert made.number > number


def test_new_topic_waits_while_refreshes_fail():
    made = schedule()
    made.take_names(TRACKED)
    made.on_failure(50.0)
    made.request_new(["b"])
    assert made.time_to_next(50.0) == 1.0
    assert made.take_names(TRACKED) is None, "what failed is still needed"


def test_partial_refresh_does_not_reset_the_age():
    made = answered(at=50.0)
    made.request_new(["b"])
    made.take_names(TRACKED)
    made.on_answer(100.0, set())
    assert made.time_to_next(149.0) == pytest.approx(1.0)


def test_failures_grow_the_backoff_and_a_response_resets_it():
    made = schedule()
    pauses = []
    for _ in range(5):
        made.take_names(TRACKED)
        made.on_failure(0.0)
        pauses.append(made.time_to_next(0.0))
    assert pauses == [1.0, 2.0, 4.0, 8.0, 8.0]
    made.take_names(TRACKED)
    made.on_answer(0.0, set())
    made.request_all()
    assert made.time_to_next(0.0) == 1.0


def test_unsettled_topics_are_requested_again_with_backoff():
    made = answered(at=0.0, b=True)
    pauses = [made.time_to_next(0.0)]
    for _ in range(3):
        assert made.take_names(TRACKED) == {"b"}
        made.on_answer(0.0, {"b"})
        pauses.append(made.time_to_next(0.0))
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    made.request_new(["c"])
    assert made.time_to_next(0.0) == 0.0, "a new topic is not held up by them"


def test_untracked_topic_is_no_longer_requested():
    made = answered(at=0.0, b=True)
    assert made.take_names(frozenset({"a"})) == frozenset()


def test_request_during_a_refresh_waits_for_the_next_one():
    made = schedule()
    made.take_names(frozenset({"a"}))
    assert made.request_all() == 1
    assert made.request_new(["b"]) == 1
    made.on_answer(0.0, set())
    assert made.needed
    made.take_names(TRACKED)
    assert made.number == 2


def test_request_for_topics_in_flight_gets_that_response():
    made = schedule()
    made.take_names(TRACKED)
    assert made.request_new(["a", "b"]) == 0
    made.on_answer(0.0, set())
    assert not made.needed


class ScheduleModel(RuleBasedStateMachine):
    """Every caller gets a response newer than its request, and the pauses are kept."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.schedule = schedule(max_age=20.0)
        self.answered_number = 0  # number of the last response
        self.waiting: list[tuple[int, int, frozenset[str]]] = []  # (number, left so far, names)
        self.left = 0
        self.ended_at = -math.inf
        self.unsettled: set[str] = set()
        self.asks: frozenset[str] = frozenset()

    @rule(names=st.frozensets(st.sampled_from(sorted(TRACKED)), min_size=1))
    def somebody_adds(self, names):
        number = self.schedule.request_new(names)
        covered = self.schedule.under_way and names <= self.asks
        assert number == (self.left - 1 if covered else self.left)
        self.waiting.append((number, self.left, names))

    @rule()
    def somebody_asks_for_all(self):
        assert self.schedule.request_all() == self.left
        self.waiting.append((self.left, self.left, TRACKED))

    @rule(seconds=st.integers(0, 30))
    def time_passes(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.schedule.time_to_next(self.now) <= 0)
    @rule()
    def leaves(self):
        assert not self.schedule.under_way
        names = self.schedule.take_names(TRACKED)
        self.asks = TRACKED if names is None else names
        self.left += 1
        assert self.schedule.number == self.left

    @precondition(lambda self: self.schedule.under_way)
    @rule(unsettled=st.sets(st.sampled_from(sorted(TRACKED))))
    def is_answered(self, unsettled):
        self.unsettled = unsettled & self.asks
        self.schedule.on_answer(self.now, self.unsettled)
        self.answered_number, self.ended_at = self.left, self.now
        satisfied = [w for w in self.waiting if self.answered_number > w[0]]
        for _, _, names in satisfied:
            assert names <= self.asks
        self.waiting = [w for w in self.waiting if w not in satisfied]

    @precondition(lambda self: self.schedule.under_way)
    @rule()
    def fails(self):
        self.schedule.on_failure(self.now)
        self.ended_at = self.now

    @invariant()
    def who_waits_will_be_served(self):
        due_in = self.schedule.time_to_next(self.now)
        if self.schedule.under_way:
            assert due_in == math.inf
            return
        if self.waiting or self.unsettled:
            assert self.schedule.needed
            assert due_in <= EXACT.maximum
        assert due_in <= 20.0 + EXACT.maximum


ScheduleModel.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestScheduleModel = ScheduleModel.TestCase
