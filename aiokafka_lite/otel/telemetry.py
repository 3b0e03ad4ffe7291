"""The tracer and the instruments that all spans and metrics of this package use."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from functools import lru_cache
from time import monotonic
from types import TracebackType
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import Counter, Histogram, MeterProvider
from opentelemetry.trace import Tracer, TracerProvider

from aiokafka_lite._version import __version__
from aiokafka_lite.cluster.outage import RepeatedFailures
from aiokafka_lite.otel.conventions import SCHEMA_URL

__all__ = ["Telemetry", "telemetry_of"]

log: Final = logging.getLogger(__name__)

_NAME: Final = "aiokafka_lite"
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Bucket boundaries in seconds, as the conventions require."""


class Telemetry:
    """A tracer and four instruments.

    Args:
        tracer_provider: None: the global one.
        meter_provider: None: the global one.

    Attributes:
        tracer: Makes the spans.
        operations: `messaging.client.operation.duration`.
        sent: `messaging.client.sent.messages`.
        consumed: `messaging.client.consumed.messages`.
        processing: `messaging.process.duration`.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self.tracer: Tracer = trace.get_tracer(_NAME, __version__, tracer_provider, SCHEMA_URL)
        meter = metrics.get_meter(_NAME, __version__, meter_provider, SCHEMA_URL)
        self.operations: Histogram = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of a send, a receive or a commit",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self.sent: Counter = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Records that a producer sent"
        )
        self.consumed: Counter = meter.create_counter(
            "messaging.client.consumed.messages",
            "{message}",
            "Records delivered to the caller",
        )
        self.processing: Histogram = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of the processing of a record",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._failures = RepeatedFailures()

    def shielded(self, what: str) -> AbstractContextManager[None, bool]:
        """Log an exception of a sampler, a span processor or a propagator, which the SDK passes on.

        Otherwise it would lose the records that a read has taken, or make a commit that succeeded
        look like one that failed. The first of its kind is logged, then a count once a minute.

        Args:
            what: What was attempted, for the log.
        """
        return _Shield(self._failures, what)


class _Shield:
    """The context manager of `Telemetry.shielded`."""

    __slots__ = ("_failures", "_what")

    def __init__(self, failures: RepeatedFailures, what: str) -> None:
        self._failures = failures
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        times = self._failures.on_failure(self._failures, self._what, error, monotonic())
        if times is not None:
            text = "OpenTelemetry: %s failed; the client continues%s"
            log.error(text, self._what, times, exc_info=error)
        return True


@lru_cache(maxsize=64)
def telemetry_of(
    tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> Telemetry:
    """Return the one of these providers: a second instrument of the same name would count twice.

    The global providers (None) may be set later.
    """
    return Telemetry(tracer_provider, meter_provider)
