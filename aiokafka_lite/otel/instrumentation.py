"""`instrument`: adds spans and metrics to one client.

A producer gets an interceptor. Of a consumer, `getmany`, `getone` and `commit` are replaced by
attributes of the object, which refer to it weakly: a dropped consumer is collected at once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any, Final, TypeVar
from weakref import ReferenceType, ref

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, TracerProvider, use_span

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.otel.conventions import (
    CLIENT_ID,
    CLUSTER,
    COUNT,
    DESTINATION,
    ERROR,
    GROUP,
    OPERATION_NAME,
    OPERATION_TYPE,
    PARTITION,
    SYSTEM,
    Attributes,
    error_type,
    links_to,
    mark_failed,
    topics_of,
)
from aiokafka_lite.otel.send_spans import SendSpans
from aiokafka_lite.otel.telemetry import Telemetry, telemetry_of
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["instrument"]

ClientT = TypeVar("ClientT", AIOKafkaProducer, AIOKafkaConsumer)

_MARK: Final = "_telemetry"


def instrument(
    client: ClientT,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> ClientT:
    """Add spans and metrics to a client. A second call does nothing.

    Args:
        client: A producer that was not started yet, or a consumer.
        tracer_provider: None: the global one.
        meter_provider: None: the global one.

    Returns:
        The client.

    Raises:
        TypeError: It is neither.
        IllegalStateError: The producer was started.
    """
    if not isinstance(client, AIOKafkaProducer | AIOKafkaConsumer):
        raise TypeError(f"`client` should be a producer or consumer, not {client!r}")
    if hasattr(client, _MARK):
        return client
    telemetry = telemetry_of(tracer_provider, meter_provider)
    if isinstance(client, AIOKafkaProducer):
        _, client_id, _ = client._identity()
        client._add_interceptor(SendSpans(telemetry, client._cluster, client_id))
    else:
        calls = _ConsumerCalls(client, telemetry)
        for name in ("getmany", "getone", "commit"):
            setattr(client, name, getattr(calls, name))
    setattr(client, _MARK, telemetry)
    return client


class _ConsumerCalls:
    """The replaced methods of one consumer."""

    def __init__(self, consumer: AIOKafkaConsumer, telemetry: Telemetry) -> None:
        self._consumer: ReferenceType[AIOKafkaConsumer] = ref(consumer)
        self._telemetry = telemetry

    @property
    def _this(self) -> AIOKafkaConsumer:
        consumer = self._consumer()
        if consumer is None:
            raise ReferenceError("the consumer was dropped")
        return consumer

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        """`AIOKafkaConsumer.getmany`, with the span "poll TOPIC" if it returns records."""
        began, clock = time.time_ns(), perf_counter()
        this = self._this
        found = await AIOKafkaConsumer.getmany(
            this, *partitions, timeout_ms=timeout_ms, max_records=max_records
        )
        if found:
            records = [record for each in found.values() for record in each]
            self._on_polled(this, records, began, perf_counter() - clock)
        return found

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]:
        """`AIOKafkaConsumer.getone`, with the span "poll TOPIC"."""
        began, clock = time.time_ns(), perf_counter()
        this = self._this
        record = await AIOKafkaConsumer.getone(this, *partitions)
        self._on_polled(this, [record], began, perf_counter() - clock)
        return record

    def _on_polled(
        self,
        consumer: AIOKafkaConsumer,
        records: list[ConsumerRecord[Any, Any]],
        began: int,
        took: float,
    ) -> None:
        telemetry = self._telemetry
        topics = topics_of(record.topic for record in records)
        name = f"poll {topics[DESTINATION]}" if topics else "poll"
        span = telemetry.tracer.start_span(
            name,
            kind=SpanKind.CLIENT,
            attributes={
                **_common(consumer, "poll", "receive"),
                **topics,
                COUNT: len(records),
            },
            links=links_to(records),
            start_time=began,
        )
        span.end()
        telemetry.operations.record(
            took, {SYSTEM: "kafka", OPERATION_NAME: "poll", **topics, **_group(consumer)}
        )
        counts = Counter((record.topic, record.partition) for record in records)
        for (topic, partition), count in counts.items():
            attributes = {
                SYSTEM: "kafka",
                OPERATION_NAME: "poll",
                DESTINATION: topic,
                PARTITION: str(partition),
                **_group(consumer),
            }
            telemetry.consumed.add(count, attributes)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata] | None = None,
    ) -> None:
        """`AIOKafkaConsumer.commit`, in the span "commit TOPIC"."""
        consumer, telemetry = self._this, self._telemetry
        partitions: Iterable[TopicPartition] = (
            offsets if isinstance(offsets, Mapping) else consumer.assignment()
        )
        topics = topics_of(getattr(tp, "topic", "") for tp in partitions)
        name = f"commit {topics[DESTINATION]}" if topics else "commit"
        span = telemetry.tracer.start_span(
            name,
            kind=SpanKind.CLIENT,
            attributes={**_common(consumer, "commit", "settle"), **topics},
        )
        measured: dict[str, Any] = {
            SYSTEM: "kafka",
            OPERATION_NAME: "commit",
            **topics,
            **_group(consumer),
        }
        began = perf_counter()
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                await AIOKafkaConsumer.commit(consumer, offsets)
        except BaseException as error:
            measured[ERROR] = error_type(error)
            mark_failed(span, error)
            raise
        finally:
            span.end()
            telemetry.operations.record(perf_counter() - began, measured)


def _group(consumer: AIOKafkaConsumer) -> dict[str, str]:
    group = consumer._identity()[2]
    return {} if group is None else {GROUP: group}


def _common(consumer: AIOKafkaConsumer, name: str, kind: str) -> Attributes:
    attributes: Attributes = {
        SYSTEM: "kafka",
        OPERATION_NAME: name,
        OPERATION_TYPE: kind,
        CLIENT_ID: consumer._identity()[1],
        **_group(consumer),
    }
    cluster_id = consumer._core.cluster.metadata.cluster_id
    if cluster_id:
        attributes[CLUSTER] = cluster_id
    return attributes
