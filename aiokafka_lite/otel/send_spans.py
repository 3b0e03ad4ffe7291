"""Spans and metrics of sent records: an interceptor, the last one of its producer."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from opentelemetry.trace import Span, SpanKind

from aiokafka_lite.abc import ProducerInterceptor
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.otel.conventions import (
    CLIENT_ID,
    DESTINATION,
    ERROR,
    KEY,
    OFFSET,
    OPERATION_NAME,
    OPERATION_TYPE,
    PARTITION,
    SYSTEM,
    TOMBSTONE,
    Attributes,
    Header,
    error_type,
    has_context,
    inject,
    link_to,
    mark_failed,
    server_attributes,
    text_of,
)
from aiokafka_lite.otel.telemetry import Telemetry
from aiokafka_lite.structs import ProducerRecord, RecordMetadata

__all__ = ["SendSpans"]

_MOST_TOPICS = 1000
"""Topics whose names and attributes are cached."""


class _Sending(ProducerRecord):
    """A record with its span."""

    span: Span
    began: float


class _Topic:
    """The values that are the same for all records to one topic."""

    __slots__ = ("attributes", "name")

    def __init__(self, topic: str, client_id: str) -> None:
        self.name = f"send {topic}"
        self.attributes: Attributes = {
            SYSTEM: "kafka",
            OPERATION_NAME: "send",
            OPERATION_TYPE: "send",
            DESTINATION: topic,
            CLIENT_ID: client_id,
        }


class SendSpans(ProducerInterceptor):
    """Makes the span "send TOPIC" of each record, and puts its context into the headers.

    A record that already has a context, because the application created it in its own span, keeps
    it: the span then has the kind CLIENT and a link to that context.

    Args:
        telemetry: The tracer and the instruments.
        cluster: The producer's cluster, for the address of the leader.
        client_id: The producer's id.
    """

    def __init__(self, telemetry: Telemetry, cluster: Cluster, client_id: str) -> None:
        self._telemetry = telemetry
        self._cluster = cluster
        self._client_id = client_id
        self._topics: dict[str, _Topic] = {}

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Begin the span."""
        topic = self._topics.get(record.topic)
        if topic is None:
            if len(self._topics) >= _MOST_TOPICS:
                self._topics.clear()
            topic = self._topics[record.topic] = _Topic(record.topic, self._client_id)
        headers: list[Header] = list(record.headers or ())
        tracer = self._telemetry.tracer
        if headers and has_context(headers):
            link = link_to(headers)
            links = () if link is None else (link,)
            span = tracer.start_span(
                topic.name, kind=SpanKind.CLIENT, attributes=topic.attributes, links=links
            )
        else:
            span = tracer.start_span(
                topic.name, kind=SpanKind.PRODUCER, attributes=topic.attributes
            )
            inject(headers, span)
        if span.is_recording():
            # A key is any object before it is serialized; if its text fails, the span remains.
            with self._telemetry.shielded("converting a key to text"):
                if record.key is not None:
                    span.set_attribute(KEY, text_of(record.key))
            if record.value is None:
                span.set_attribute(TOMBSTONE, True)
        sending = _Sending(
            record.topic,
            record.value,
            record.key,
            record.partition,
            record.timestamp_ms,
            headers or record.headers,
        )
        sending.span = span
        sending.began = perf_counter()
        return sending

    def on_completion(
        self,
        record: ProducerRecord,
        metadata: RecordMetadata | None,
        error: BaseException | None,
    ) -> None:
        """End the span."""
        if not isinstance(record, _Sending):
            return  # on_send() failed, which was logged
        self._end(record, metadata, error)

    def _on_cancelled(self, record: ProducerRecord) -> None:
        """End the span, which would never be exported: its record has no outcome here."""
        if isinstance(record, _Sending):
            self._end(record, None, asyncio.CancelledError())

    def _end(
        self, record: _Sending, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        span, telemetry = record.span, self._telemetry
        attributes: dict[str, Any] = {
            SYSTEM: "kafka",
            OPERATION_NAME: "send",
            DESTINATION: record.topic,
        }
        if error is not None:
            attributes[ERROR] = error_type(error)
            mark_failed(span, error)
        if metadata is not None:
            attributes[PARTITION] = str(metadata.partition)
            if span.is_recording():
                span.set_attribute(PARTITION, str(metadata.partition))
                if metadata.offset >= 0:
                    span.set_attribute(OFFSET, metadata.offset)
                span.set_attributes(
                    server_attributes(self._cluster.metadata, record.topic, metadata.partition)
                )
        span.end()
        telemetry.operations.record(perf_counter() - record.began, attributes)
        telemetry.sent.add(1, attributes)
