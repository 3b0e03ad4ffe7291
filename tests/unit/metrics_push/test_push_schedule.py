"""When metrics are pushed: the state machine, and the effects of hostile brokers."""

from math import inf
from uuid import UUID

import pytest

from aiokafka_lite.metrics_push.push_schedule import (
    DEFAULT_INTERVAL,
    MAX_PREFIXES,
    SHORTEST_INTERVAL,
    InvalidSubscriptionError,
    PushSchedule,
    Step,
    Subscription,
)
from aiokafka_lite.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsResponse as Answer,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.record.compression import Compression

ID, OTHER = UUID(int=7), UUID(int=8)
TOO_LARGE, THROTTLED, UNKNOWN, CODEC, INVALID_RECORD = 118, 89, 117, 76, 87


def answer(
    *,
    instance: UUID = ID,
    subscription: int = 1,
    codecs: tuple[int, ...] = (4, 3, 1, 2),
    interval_ms: int = 10_000,
    max_bytes: int = 1000,
    metrics: tuple[str, ...] = ("*",),
    error: int = 0,
) -> Answer:
    return Answer(
        0, error, instance, subscription, list(codecs), interval_ms, max_bytes, True, list(metrics)
    )


def schedule(jitter: float = 1.0) -> PushSchedule:
    return PushSchedule(0.0, lambda low, high: jitter)


def subscribed(now: float = 0.0) -> PushSchedule:
    made = schedule()
    assert made.next_step(now) is Step.ASK
    made.on_subscription(answer(), now)
    return made


def test_the_first_push_follows_the_subscription_after_a_jittered_interval() -> None:
    made = schedule(0.5)
    assert made.next_step(0.0) is Step.ASK
    assert made.next_step(0.0) is None  # in flight
    assert made.next_wakeup() == inf
    made.on_subscription(answer(), 1.0)
    assert made.client_instance_id == ID
    assert made.next_wakeup() == 6.0
    assert made.next_step(5.9) is None
    assert made.next_step(6.0) is Step.PUSH
    made.on_pushed(0, 7.0)
    assert made.next_wakeup() == 17.0  # an interval after the answer


def test_without_wanted_metrics_it_asks_again_after_the_interval() -> None:
    made = schedule()
    made.next_step(0.0)
    made.on_subscription(answer(metrics=()), 0.0)
    assert made.next_wakeup() == 10.0
    assert made.next_step(10.0) is Step.ASK


@pytest.mark.parametrize(
    ("code", "pause"),
    [(UNKNOWN, 0.0), (CODEC, 0.0), (THROTTLED, 10.0), (TOO_LARGE, 10.0)],
)
def test_a_refused_push_leads_to_a_new_subscription(code: int, pause: float) -> None:
    made = subscribed()
    assert made.next_step(10.0) is Step.PUSH
    made.on_pushed(code, 11.0)
    assert made.next_wakeup() == 11.0 + pause
    assert made.next_step(11.0 + pause) is Step.ASK


@pytest.mark.parametrize("code", [INVALID_RECORD, 42, 35, -1, 32767])
def test_any_other_refusal_ends_it(code: int) -> None:
    made = subscribed()
    made.next_step(10.0)
    made.on_pushed(code, 11.0)
    assert made.off
    assert made.next_wakeup() == inf
    assert made.next_step(1e9) is None
    assert not made.unsupported


@pytest.mark.parametrize("code", [UNKNOWN, CODEC, THROTTLED, TOO_LARGE])
def test_a_refused_question_is_repeated_after_five_minutes(code: int) -> None:
    made = schedule()
    made.next_step(0.0)
    made.on_subscription(answer(error=code), 0.0)
    assert made.next_wakeup() == DEFAULT_INTERVAL


def test_another_refusal_of_the_question_ends_it() -> None:
    made = schedule()
    made.next_step(0.0)
    made.on_subscription(answer(error=42), 0.0)
    assert made.off


def test_a_lost_answer_pauses_for_five_minutes() -> None:
    made = subscribed()
    made.next_step(10.0)
    made.on_unanswered(12.0)
    assert made.next_wakeup() == 12.0 + DEFAULT_INTERVAL
    assert made.next_step(12.0 + DEFAULT_INTERVAL) is Step.ASK


def test_the_application_is_left_out_after_a_push_that_was_too_large() -> None:
    made = subscribed()
    made.next_step(10.0)
    made.on_too_large(10.0)
    assert not made.application_too
    assert made.next_step(20.0) is Step.ASK
    made.on_subscription(answer(), 20.0)
    assert not made.application_too  # the same subscription
    assert made.next_step(30.0) is Step.PUSH
    made.on_pushed(UNKNOWN, 30.0)
    made.next_step(30.0)
    made.on_subscription(answer(subscription=2), 30.0)
    assert made.application_too


def test_the_instance_id_is_kept() -> None:
    made = subscribed()
    made.next_step(10.0)
    made.on_pushed(UNKNOWN, 10.0)
    made.next_step(10.0)
    made.on_subscription(answer(instance=OTHER, subscription=2), 10.0)
    assert made.client_instance_id == ID
    assert made.subscription is not None
    assert made.subscription.client_instance_id == ID
    assert made.subscription.subscription_id == 2


def test_a_broker_without_the_api_is_asked_once() -> None:
    made = schedule()
    made.next_step(0.0)
    made.on_unsupported()
    assert (made.off, made.unsupported) == (True, True)


class TestStop:
    def test_the_last_push_is_due_at_once(self) -> None:
        made = subscribed()
        made.on_stop(3.0)
        made.on_stop(3.0)
        assert made.next_wakeup() <= 3.0
        assert made.next_step(3.0) is Step.LAST
        made.on_stop(3.0)
        made.on_pushed(0, 4.0)
        assert made.off

    def test_it_follows_a_push_under_way(self) -> None:
        made = subscribed()
        made.next_step(10.0)
        made.on_stop(10.0)
        assert made.next_step(10.0) is None
        made.on_pushed(0, 11.0)
        assert made.next_step(11.0) is Step.LAST
        made.on_pushed(THROTTLED, 12.0)
        assert made.off

    @pytest.mark.parametrize("code", [UNKNOWN, THROTTLED, INVALID_RECORD])
    def test_a_refused_push_under_way_is_the_last(self, code: int) -> None:
        made = subscribed()
        made.next_step(10.0)
        made.on_stop(10.0)
        made.on_pushed(code, 11.0)
        assert made.off

    def test_without_an_answer_there_is_no_second_attempt(self) -> None:
        made = subscribed()
        made.on_stop(3.0)
        made.next_step(3.0)
        made.on_unanswered(4.0)
        assert made.off

    @pytest.mark.parametrize("under_way", [True, False])
    def test_without_a_subscription_nothing_is_pushed(self, under_way: bool) -> None:
        made = schedule()
        if under_way:
            made.next_step(0.0)
        made.on_stop(0.0)
        assert made.off


class TestHostileSubscriptions:
    @pytest.mark.parametrize("interval_ms", [0, -1, -(2**31)])
    def test_an_impossible_interval_is_five_minutes(self, interval_ms: int) -> None:
        assert Subscription.of(answer(interval_ms=interval_ms), None).interval == DEFAULT_INTERVAL

    def test_a_tiny_interval_is_raised(self) -> None:
        assert Subscription.of(answer(interval_ms=1), None).interval == SHORTEST_INTERVAL

    def test_a_huge_interval_is_a_valid_timer(self) -> None:
        assert Subscription.of(answer(interval_ms=2**31 - 1), None).interval == (2**31 - 1) / 1000

    def test_a_broker_that_refuses_everything_costs_one_request_in_half_an_interval(self) -> None:
        made, now, requests = schedule(0.5), 0.0, 0
        while now < 60.0:
            step = made.next_step(now)
            if step is Step.ASK:
                made.on_subscription(answer(interval_ms=1, subscription=requests), now)
            elif step is Step.PUSH:
                made.on_pushed(UNKNOWN, now)
            else:
                now = max(made.next_wakeup(), now + 1e-3)
                continue
            requests += 1
        assert requests <= 2 * 60.0 / (SHORTEST_INTERVAL / 2) + 2

    def test_unknown_codecs_are_left_out(self) -> None:
        codecs = Subscription.of(answer(codecs=(99, -1, 2, 2, 0)), None).codecs
        assert codecs == (Compression.SNAPPY, Compression.NONE)
        assert Subscription.of(answer(codecs=()), None).codecs == ()

    def test_an_instance_id_is_required(self) -> None:
        with pytest.raises(InvalidSubscriptionError, match="no client instance id"):
            Subscription.of(answer(instance=ZERO_UUID), None)
        assert Subscription.of(answer(instance=ZERO_UUID), ID).client_instance_id == ID
        made = schedule()
        made.next_step(0.0)
        made.on_subscription(answer(instance=ZERO_UUID), 0.0)
        assert made.next_wakeup() == DEFAULT_INTERVAL

    def test_the_number_of_metrics_is_bounded(self) -> None:
        many = tuple(f"m{number}" for number in range(MAX_PREFIXES + 1))
        with pytest.raises(InvalidSubscriptionError, match=r"requests 10001 metrics"):
            Subscription.of(answer(metrics=many), None)

    @pytest.mark.parametrize("everything", ["*", ""])
    def test_all_metrics(self, everything: str) -> None:
        made = Subscription.of(answer(metrics=("org.a", everything)), None)
        assert made.wants("x")
        assert not made.empty

    def test_prefixes(self) -> None:
        made = Subscription.of(answer(metrics=("org.a", "org.b.")), None)
        assert [made.wants(name) for name in ("org.apple", "org.b", "org.b.c")] == [
            *(True, False, True)
        ]
