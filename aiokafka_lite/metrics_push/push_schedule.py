"""When to ask which metrics the brokers want, and when to push them (KIP-714): sans-IO.

    ASK -> (ASKING) -> PUSH -> (PUSHING) -> PUSH ... -> LAST -> OFF

`next_step` returns the request that is due, and its answer or failure is passed to an `on_*`
method. While a request is under way, nothing is due.

Non-obvious:
- An interval begins with the answer to a push: the broker, which measures from the arrival of one
  push to that of the next, would otherwise refuse a push that travels faster than the last one.
- A subscription is asked for again after every refused push, as in Java. UNKNOWN_SUBSCRIPTION_ID
  and UNSUPPORTED_COMPRESSION_TYPE are the reasons to do it at once. A broker that answers
  everything so costs no more than one request in half an interval, because a push waits for its
  interval after each new subscription.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final
from uuid import UUID

from aiokafka_lite.errors import (
    KafkaError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from aiokafka_lite.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsResponse,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.record.compression import Compression

__all__ = ["DEFAULT_INTERVAL", "InvalidSubscriptionError", "PushSchedule", "Step", "Subscription"]

DEFAULT_INTERVAL: Final = 300.0
"""Seconds until the next request if the broker names no valid interval, or did not answer."""

SHORTEST_INTERVAL: Final = 0.1
"""Seconds; the least that Kafka's brokers can be configured with."""

MAX_PREFIXES: Final = 10_000
"""Prefixes of one subscription: each push compares them with each name."""

_REFRESH: Final = frozenset(
    {UnknownSubscriptionIdError.errno, UnsupportedCompressionTypeError.errno}
)
_WAIT: Final = frozenset({TelemetryTooLargeError.errno, ThrottlingQuotaExceededError.errno})


class InvalidSubscriptionError(KafkaError):
    """A broker described a subscription that no client can follow."""


class Step(enum.Enum):
    """What is due."""

    ASK = "ask for the subscription"
    PUSH = "push metrics"
    LAST = "push metrics for the last time"


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the brokers want from this client.

    Attributes:
        client_instance_id: Assigned by the first broker, and kept for life.
        subscription_id: Changes with the subscription.
        codecs: Accepted compressions, the broker's favorite first; unknown ones are left out.
        interval: Seconds from push to push.
        max_bytes: Largest accepted push, after compression.
        delta: Totals are sent as differences since the last push.
        everything: All metrics are wanted.
        prefixes: Otherwise, how the names of the wanted metrics begin. None if it is empty.
    """

    client_instance_id: UUID
    subscription_id: int
    codecs: tuple[Compression, ...]
    interval: float
    max_bytes: int
    delta: bool
    everything: bool
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, response: GetTelemetrySubscriptionsResponse, known: UUID | None) -> Subscription:
        """Read a response without an error code.

        Args:
            response: The response.
            known: The client's instance id, if it has one.

        Raises:
            InvalidSubscriptionError: There is no instance id, or there are absurdly many metrics.
        """
        instance = known or response.client_instance_id
        if instance == ZERO_UUID:
            raise InvalidSubscriptionError("the broker assigned no client instance id")
        metrics = response.requested_metrics
        if len(metrics) > MAX_PREFIXES:
            raise InvalidSubscriptionError(f"the broker requests {len(metrics)} metrics")
        interval = response.push_interval_ms / 1000
        return cls(
            instance,
            response.subscription_id,
            _codecs(response.accepted_compression_types),
            DEFAULT_INTERVAL if interval <= 0 else max(interval, SHORTEST_INTERVAL),
            response.telemetry_max_bytes,
            response.delta_temporality,
            # Apache's brokers send "*" for all metrics; the KIP says an empty string.
            "*" in metrics or "" in metrics,
            tuple(dict.fromkeys(metrics)),
        )

    @property
    def empty(self) -> bool:
        """True if no metric is wanted."""
        return not self.prefixes

    def wants(self, name: str) -> bool:
        """True if the metric with this name is wanted."""
        return self.everything or name.startswith(self.prefixes)


class PushSchedule:
    """Decides about the next request.

    Args:
        now: Current time, as for every method: seconds of any monotonic clock.
        uniform: Returns a random number between its two arguments, for jitter.

    Attributes:
        subscription: The current one; None before the first answer.
        client_instance_id: None before the first answer.
        off: True if there will be no further request.
        unsupported: True if it is off because the brokers do not collect metrics.
        application_too: False if a push was too large, until the subscription changes.
    """

    def __init__(self, now: float, uniform: Callable[[float, float], float]) -> None:
        self.subscription: Subscription | None = None
        self.client_instance_id: UUID | None = None
        self.off = False
        self.unsupported = False
        self.application_too = True
        self._uniform = uniform
        self._step = Step.ASK
        self._due = now
        self._under_way = False
        self._stopping = False

    def next_step(self, now: float) -> Step | None:
        """Return the request that is due, which then counts as in flight; None if nothing is
        due."""
        if self.off or self._under_way or now < self._due:
            return None
        self._under_way = True
        return self._step

    def next_wakeup(self) -> float:
        """Return when `next_step` has something to do; infinite if that takes an event."""
        return inf if self.off or self._under_way else self._due

    def on_subscription(self, response: GetTelemetrySubscriptionsResponse, now: float) -> None:
        """The broker answered which metrics it wants, or with an error code."""
        if response.error_code:
            wait = response.error_code in _WAIT or response.error_code in _REFRESH
            self._ask_after(DEFAULT_INTERVAL if wait else inf, now)
            return
        try:
            subscription = Subscription.of(response, self.client_instance_id)
        except InvalidSubscriptionError:
            self._ask_after(DEFAULT_INTERVAL, now)
            return
        before, self.subscription = self.subscription, subscription
        self.client_instance_id = subscription.client_instance_id
        if before is None or before.subscription_id != subscription.subscription_id:
            self.application_too = True
        if subscription.empty:
            self._ask_after(subscription.interval, now)
            return
        # The jitter spreads the clients that a new subscription reaches at once.
        self._schedule(Step.PUSH, now + subscription.interval * self._uniform(0.5, 1.5))

    def on_pushed(self, error_code: int, now: float) -> None:
        """The broker answered a push."""
        interval = DEFAULT_INTERVAL if self.subscription is None else self.subscription.interval
        if not error_code:
            self._schedule(Step.PUSH, now + interval)
            return
        if error_code == TelemetryTooLargeError.errno:
            self.application_too = False
        if error_code in _REFRESH:
            self._ask_after(0.0, now)
        else:
            self._ask_after(interval if error_code in _WAIT else inf, now)

    def on_too_large(self, now: float) -> None:
        """The push is not sent because it exceeds the broker's limit."""
        self.on_pushed(TelemetryTooLargeError.errno, now)

    def on_unanswered(self, now: float) -> None:
        """A request was not sent, or its answer was lost."""
        self._ask_after(DEFAULT_INTERVAL, now)

    def on_unsupported(self) -> None:
        """The broker does not offer the API: no broker without a plugin for it does."""
        self.off = self.unsupported = True

    def on_stop(self, now: float) -> None:
        """The client stops: the last push is due, if the brokers want metrics. Idempotent."""
        if self._stopping:
            return
        self._stopping = True
        if self._under_way and self._step is Step.PUSH:
            return  # its answer decides
        if self._step is not Step.PUSH:
            self.off = True
        else:
            self._schedule(Step.LAST, now)

    def _ask_after(self, pause: float, now: float) -> None:
        self._schedule(Step.ASK, now + pause)

    def _schedule(self, step: Step, due: float) -> None:
        """End the request in flight, and set the next one."""
        last = self._under_way and self._step is Step.LAST
        self._under_way = False
        if last or due == inf or (self._stopping and step is Step.ASK):
            self.off = True
        elif self._stopping:
            self._step, self._due = Step.LAST, -inf
        else:
            self._step, self._due = step, due


def _codecs(numbers: Sequence[int]) -> tuple[Compression, ...]:
    known = frozenset(Compression)
    return tuple(Compression(number) for number in dict.fromkeys(numbers) if number in known)
