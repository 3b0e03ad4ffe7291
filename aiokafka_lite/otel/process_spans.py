"""Spans around the processing of records.

Non-obvious: an async generator with a span around its `yield` leaves the span current after a
`break`, because it is closed later and elsewhere. So `Traced` is a class: its `__anext__` ends the
span of the last record, and `async with` that of the very last one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextvars import Token
from time import perf_counter
from types import TracebackType
from typing import Any, Self, TypeAlias

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaShareConsumer
from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.otel.conventions import (
    CLIENT_ID,
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
    extract,
    links_to,
    mark_failed,
    record_attributes,
    server_attributes,
    topics_of,
)
from aiokafka_lite.otel.telemetry import Telemetry, telemetry_of

__all__ = ["Processing", "Traced", "process", "traced"]

Record: TypeAlias = ConsumerRecord[Any, Any]
Consumer: TypeAlias = AIOKafkaConsumer[Any, Any] | AIOKafkaShareConsumer[Any, Any]


class Processing:
    """The span "process TOPIC" as a context manager; `with` returns the span."""

    def __init__(
        self,
        records: list[Record],
        telemetry: Telemetry,
        *,
        parent: bool,
        consumer: Consumer | None = None,
    ) -> None:
        self._records = records
        self._telemetry = telemetry
        self._parent = parent
        self._consumer = consumer
        self._span: Span = trace.INVALID_SPAN
        self._token: Token[Context] | None = None
        self._began = 0.0

    def __enter__(self) -> Span:
        # What fails here must not fail the processing: the records are taken.
        with self._telemetry.shielded("starting a span"):
            self._begin()
        self._began = perf_counter()
        return self._span

    def _begin(self) -> None:
        records = self._records
        common = topics_of(record.topic for record in records)
        attributes: Attributes = {
            SYSTEM: "kafka",
            OPERATION_NAME: "process",
            OPERATION_TYPE: "process",
            **common,
        }
        if len(records) == 1:
            attributes.update(record_attributes(records[0]))
        else:
            attributes[COUNT] = len(records)
        if self._consumer is not None:
            _, attributes[CLIENT_ID], group = self._consumer._identity()
            if group is not None:
                attributes[GROUP] = group
            if len(records) == 1:
                metadata = self._consumer._core.cluster.metadata
                first = records[0]
                attributes.update(server_attributes(metadata, first.topic, first.partition))
        context = extract(records[0].headers) if self._parent and len(records) == 1 else None
        topic = common.get(DESTINATION)
        self._span = self._telemetry.tracer.start_span(
            "process" if topic is None else f"process {topic}",
            context or None,
            SpanKind.CONSUMER,
            attributes,
            links=() if context else links_to(records),
        )
        self._token = otel_context.attach(trace.set_span_in_context(self._span, context or None))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._telemetry.shielded("measuring the processing of a record"):
            self._measure(error)
        if self._token is not None:
            otel_context.detach(self._token)
            self._token = None
        with self._telemetry.shielded("ending a span"):
            self._span.end()

    def _measure(self, error: BaseException | None) -> None:
        attributes: dict[str, Any] = {SYSTEM: "kafka", OPERATION_NAME: "process"}
        attributes.update(topics_of(record.topic for record in self._records))
        if len(self._records) == 1:
            attributes[PARTITION] = str(self._records[0].partition)
        if error is not None:
            attributes[ERROR] = error_type(error)
            if isinstance(error, Exception):
                self._span.record_exception(error)
            mark_failed(self._span, error)
        self._telemetry.processing.record(perf_counter() - self._began, attributes)


def process(
    records: Record | Iterable[Record],
    *,
    parent: bool = False,
    consumer: Consumer | None = None,
    telemetry: Telemetry | None = None,
) -> Processing:
    """Return a context manager: the span "process TOPIC" around the processing of records.

        with process(record):
            ...

    Args:
        records: One record, or the records of a batch, at least one.
        parent: Make the context in which the record was created the parent of the span, so that
            both belong to one trace. By default the span has a link to it, because one
            transaction of work may process many records. Only for a single record.
        consumer: The consumer that delivered them, for further attributes.
        telemetry: The tracer and the instruments; by default those of the global providers.

    Raises:
        ValueError: There is no record, or `parent` is set for several.
    """
    found = [records] if isinstance(records, ConsumerRecord) else list(records)
    if not found:
        raise ValueError("`records` should not be empty")
    if parent and len(found) > 1:
        raise ValueError("`parent` is possible for a single record only: several have links")
    used = telemetry or _telemetry_of(consumer)
    return Processing(found, used, parent=parent, consumer=consumer)


class Traced:
    """Iterates over the records of a consumer; each pass of the loop is a span. See `traced`."""

    def __init__(self, consumer: Consumer, *, parent: bool, telemetry: Telemetry) -> None:
        self._consumer = consumer
        self._records: AsyncIterator[Record] | None = None
        self._parent = parent
        self._telemetry = telemetry
        self._current: Processing | None = None

    async def __aenter__(self) -> Self:
        self._records = aiter(self._consumer)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.__exit__(kind, error, traceback)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        current, self._current = self._current, None
        if current is not None:
            current.__exit__(None, None, None)
        if self._records is None:
            raise RuntimeError("iterate within `async with traced(consumer) as records`")
        record = await anext(self._records)
        if not hasattr(self._consumer, "_telemetry"):  # otherwise its reads count
            with self._telemetry.shielded("measuring a poll"):
                self._count(record)
        current = Processing(
            [record], self._telemetry, parent=self._parent, consumer=self._consumer
        )
        current.__enter__()
        self._current = current
        return record

    def _count(self, record: Record) -> None:
        group = self._consumer._identity()[2]
        attributes = {
            SYSTEM: "kafka",
            OPERATION_NAME: "poll",
            DESTINATION: record.topic,
            PARTITION: str(record.partition),
            **({} if group is None else {GROUP: group}),
        }
        self._telemetry.consumed.add(1, attributes)


def traced(
    consumer: Consumer, *, parent: bool = False, telemetry: Telemetry | None = None
) -> Traced:
    """Iterate over the records of a consumer with a span "process TOPIC" around each pass.

        async with traced(consumer) as records:
            async for record in records:
                ...

    The span ends with the next iteration, or with the block, also after `break`, an exception or a
    cancellation. It is the current span within the loop.

    Args:
        consumer: A started consumer.
        parent: See `process`.
        telemetry: The tracer and the instruments; by default those of `instrument`, or else of
            the global providers.
    """
    return Traced(consumer, parent=parent, telemetry=telemetry or _telemetry_of(consumer))


def _telemetry_of(consumer: Consumer | None) -> Telemetry:
    found = getattr(consumer, "_telemetry", None)
    return found if isinstance(found, Telemetry) else telemetry_of()
