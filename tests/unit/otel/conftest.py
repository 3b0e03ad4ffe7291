"""Fixtures of the tests of spans and metrics: the SDK's in-memory exporters, and a cluster."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from aiokafka_lite.otel.telemetry import telemetry_of
from aiokafka_lite.testing import FakeCluster


class Recorded:
    """The spans and metrics that a test has made so far."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])
        self.telemetry = telemetry_of(self.tracers, self.meters)
        self.providers: dict[str, Any] = {
            "tracer_provider": self.tracers,
            "meter_provider": self.meters,
        }

    def spans(self, prefix: str = "") -> list[ReadableSpan]:
        """The ended spans whose name has this prefix, in the order of their ends."""
        return [
            each for each in self._exporter.get_finished_spans() if each.name.startswith(prefix)
        ]

    def span(self, prefix: str) -> ReadableSpan:
        """The only one."""
        (found,) = self.spans(prefix)
        return found

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 1, "shouts": 1}) as cluster:
        yield cluster
