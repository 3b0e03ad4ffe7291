"""`instrument`: adds spans and metrics to one client.

A producer gets an interceptor. Other methods are replaced by attributes of the object, which refer
to it weakly: a dropped client is collected at once. They call the methods of the client's own
class, which may override those of this package.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast
from weakref import ReferenceType, ref

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer
from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.consumer.buffering.bulk_types import ColumnBatch, RecordBatch
from aiokafka_lite.consumer.core import ConsumerCore
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.otel.client_spans import ClientSpans
from aiokafka_lite.otel.process_spans import Processing
from aiokafka_lite.otel.send_spans import SendSpans
from aiokafka_lite.otel.telemetry import telemetry_of
from aiokafka_lite.share.share_record import ShareRecord, ShareRecords
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition

__all__ = ["instrument"]

ClientT = TypeVar(
    "ClientT",
    AIOKafkaProducer[Any, Any],
    AIOKafkaConsumer[Any, Any],
    AIOKafkaShareConsumer[Any, Any],
)
BatchT = TypeVar("BatchT", RecordBatch[Any, Any], ColumnBatch)
_C = TypeVar("_C")

Record = ConsumerRecord[Any, Any]
Offsets = Mapping[TopicPartition, int | tuple[int, str] | OffsetAndMetadata]

_MARK: Final = "_telemetry"


def instrument(
    client: ClientT,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> ClientT:
    """Add spans and metrics to a client. A second call does nothing.

    Args:
        client: A producer that was not started yet, a consumer or a share consumer.
        tracer_provider: None: the global one.
        meter_provider: None: the global one.

    Returns:
        The client.

    Raises:
        TypeError: The object is not a client of one of these kinds.
        IllegalStateError: The producer was started.
    """
    if not isinstance(client, AIOKafkaProducer | AIOKafkaConsumer | AIOKafkaShareConsumer):
        raise TypeError(f"`client` should be a producer or consumer, not {client!r}")
    if hasattr(client, _MARK):
        return client
    telemetry = telemetry_of(tracer_provider, meter_provider)
    _, client_id, group = client._identity()
    spans = ClientSpans(telemetry, client_id, group)
    if isinstance(client, AIOKafkaProducer):
        client._add_interceptor(SendSpans(telemetry, client._cluster, client_id))
        _replace(client, _ProducerCalls(client, spans))
    elif isinstance(client, AIOKafkaConsumer):
        calls = _ConsumerCalls(client, spans)
        _replace(client, calls)
        calls.observe(client._core)
    else:
        _replace(client, _ShareCalls(client, spans))
    setattr(client, _MARK, telemetry)
    return client


class _Calls(Generic[_C]):
    """The replaced methods of one client.

    Attributes:
        REPLACED: Their names.
    """

    REPLACED: tuple[str, ...] = ()

    def __init__(self, client: _C, spans: ClientSpans) -> None:
        self._client: ReferenceType[_C] = ref(client)
        self._spans = spans

    @property
    def _this(self) -> _C:
        client = self._client()
        if client is None:
            raise ReferenceError("the client was dropped")
        return client


def _replace(client: object, calls: _Calls[Any]) -> None:
    for name in calls.REPLACED:
        setattr(client, name, getattr(calls, name))


class _ProducerCalls(_Calls[AIOKafkaProducer[Any, Any]]):
    """Transactions."""

    REPLACED = ("commit_transaction", "abort_transaction", "send_offsets_to_transaction")

    async def commit_transaction(self) -> None:
        """`AIOKafkaProducer.commit_transaction`, in the span "commit_transaction"."""
        this = self._this
        with self._spans.operation(this._cluster, "commit_transaction"):
            await type(this).commit_transaction(this)

    async def abort_transaction(self) -> None:
        """`AIOKafkaProducer.abort_transaction`, in the span "abort_transaction"."""
        this = self._this
        with self._spans.operation(this._cluster, "abort_transaction"):
            await type(this).abort_transaction(this)

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group_id: str | GroupMetadata
    ) -> None:
        """`AIOKafkaProducer.send_offsets_to_transaction`, in the span "commit TOPIC"."""
        this = self._this
        given: object = offsets  # not checked yet
        topics = _topics(given) if isinstance(given, Mapping) else []
        group: object = group_id.group_id if isinstance(group_id, GroupMetadata) else group_id
        named = {"group": group} if isinstance(group, str) else {}
        with self._spans.operation(this._cluster, "commit", topics, kind="settle", **named):
            await type(this).send_offsets_to_transaction(this, offsets, group_id)


class _ConsumerCalls(_Calls[AIOKafkaConsumer[Any, Any]]):
    """Reads and commits."""

    REPLACED = ("getmany", "getone", "commit", "batches", "_core_after")

    def observe(self, core: ConsumerCore) -> None:
        """Make spans of all commits of a core, auto-commits included."""
        if core.group is not None:
            cluster, spans = core.cluster, self._spans
            core.group.commits.run_in(lambda offsets: spans.auto_commit(cluster, _topics(offsets)))

    def _core_after(self, failed: ConsumerCore) -> ConsumerCore:
        core = AIOKafkaConsumer._core_after(self._this, failed)
        self.observe(core)
        return core

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[Record]]:
        """`AIOKafkaConsumer.getmany`, with the span "poll TOPIC" if it returns records."""
        began, clock = time.time_ns(), perf_counter()
        this = self._this
        found = await type(this).getmany(
            this, *partitions, timeout_ms=timeout_ms, max_records=max_records
        )
        if found:
            records = [record for each in found.values() for record in each]
            self._spans.on_polled(this._core.cluster, records, began, perf_counter() - clock)
        return found

    async def getone(self, *partitions: TopicPartition) -> Record:
        """`AIOKafkaConsumer.getone`, with the span "poll TOPIC"."""
        began, clock = time.time_ns(), perf_counter()
        this = self._this
        record = await type(this).getone(this, *partitions)
        self._spans.on_polled(this._core.cluster, [record], began, perf_counter() - clock)
        return record

    def batches(self, *, max_records: int | None = None, columns: bool = False) -> Any:
        """`AIOKafkaConsumer.batches`, with a span "poll TOPIC" for each batch."""
        this = self._this
        batches: Any = type(this).batches(
            this,
            max_records=max_records,
            columns=columns,  # type: ignore[call-overload]  # either
        )
        return _Batches(batches, self._spans, this._core)

    async def commit(self, offsets: Offsets | None = None) -> None:
        """`AIOKafkaConsumer.commit`, in the span "commit TOPIC"."""
        this = self._this
        partitions: Iterable[TopicPartition] = (
            offsets if isinstance(offsets, Mapping) else this.assignment()
        )
        with self._spans.commit(this._core.cluster, _topics(partitions)):
            await type(this).commit(this, offsets)


class _ShareCalls(_Calls[AIOKafkaShareConsumer[Any, Any]]):
    """Reads of share consumers, the handlers of `run`, and the wait for acknowledgements."""

    REPLACED = ("getmany", "getone", "run", "flush")

    async def getmany(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> ShareRecords[Any, Any]:
        """`AIOKafkaShareConsumer.getmany`, with the span "poll TOPIC" if it returns records."""
        began, clock = time.time_ns(), perf_counter()
        this = self._this
        found = await type(this).getmany(this, timeout_ms=timeout_ms, max_records=max_records)
        if found:
            self._spans.on_polled(this._core.cluster, found, began, perf_counter() - clock)
        return found

    async def getone(self) -> ShareRecord[Any, Any]:
        """`AIOKafkaShareConsumer.getone`, with the span "poll TOPIC"."""
        began, clock = time.time_ns(), perf_counter()
        this = self._this
        record = await type(this).getone(this)
        self._spans.on_polled(this._core.cluster, [record], began, perf_counter() - clock)
        return record

    async def run(
        self, handler: Callable[[ShareRecord[Any, Any]], Awaitable[object]], **options: Any
    ) -> None:
        """`AIOKafkaShareConsumer.run`, with a span "process TOPIC" around each call of the handler.

        Its reads have the spans of `getmany`.
        """
        this, telemetry = self._this, self._spans.telemetry

        async def handle(record: ShareRecord[Any, Any]) -> None:
            with Processing([record], telemetry, parent=False, consumer=this):
                await handler(record)

        given: object = handler  # not checked yet
        await type(this).run(this, handle if callable(given) else handler, **options)

    async def flush(self) -> None:
        """`AIOKafkaShareConsumer.flush`, in the span "ack"."""
        this = self._this
        with self._spans.operation(this._core.cluster, "ack", kind="settle"):
            await type(this).flush(this)


class _Batches(Generic[BatchT]):
    """The result of `batches`, with a span for each batch."""

    def __init__(self, batches: Any, spans: ClientSpans, core: ConsumerCore) -> None:
        self._batches = batches
        self._iterator: AsyncIterator[BatchT] = aiter(batches)
        self._spans = spans
        self._core = core

    async def __aenter__(self) -> Self:
        await self._batches.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._batches.__aexit__(kind, error, traceback)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BatchT:
        began, clock = time.time_ns(), perf_counter()
        batch = await anext(self._iterator)
        took, cluster = perf_counter() - clock, self._core.cluster
        if isinstance(batch, RecordBatch):
            self._spans.on_polled(cluster, batch.records, began, took)
        else:
            counts = Counter({tuple(batch.topic_partition): len(batch)})
            self._spans.on_polled_columns(
                cluster, cast("Counter[tuple[str, int]]", counts), began, took
            )
        return batch


def _topics(partitions: Iterable[TopicPartition]) -> list[str]:
    return [getattr(tp, "topic", "") for tp in partitions]
