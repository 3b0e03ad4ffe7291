"""OpenTelemetry traces and metrics of producers and consumers. Needs `aiokafka_lite[otel]`.

    producer = instrument(AIOKafkaProducer(...))
    consumer = instrument(AIOKafkaConsumer(...))

    async with traced(consumer) as records:
        async for record in records:  # each pass of the loop is the span "process TOPIC"
            ...

Names and attributes follow OpenTelemetry's semantic conventions for messaging, 1.44.0, which are in
development. docs/observability.md lists the spans and metrics.
"""

from aiokafka_lite.otel.client_meters import meter
from aiokafka_lite.otel.instrumentation import instrument
from aiokafka_lite.otel.process_spans import Traced, process, traced

__all__ = ["Traced", "instrument", "meter", "process", "traced"]
