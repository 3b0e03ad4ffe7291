"""The tracer and the instruments that all spans and metrics of this package use."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import Counter, Histogram, MeterProvider
from opentelemetry.trace import Tracer, TracerProvider

from aiokafka_lite._version import __version__
from aiokafka_lite.otel.conventions import SCHEMA_URL

__all__ = ["Telemetry", "telemetry_of"]

_NAME: Final = "aiokafka_lite"
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Seconds, as the conventions ask for."""


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


@lru_cache(maxsize=64)
def telemetry_of(
    tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> Telemetry:
    """Return the one of these providers: a second instrument of the same name would count twice.

    The global providers (None) may be set later.
    """
    return Telemetry(tracer_provider, meter_provider)
