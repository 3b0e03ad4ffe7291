"""Failures in OpenTelemetry do not affect the records and calls of the client."""

from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.otel import instrument, process, traced
from aiokafka_lite.otel.telemetry import telemetry_of
from aiokafka_lite.testing import FakeCluster

from .conftest import Recorded

pytestmark = pytest.mark.unhurried


class Failing(SpanProcessor):
    """Raises when a span begins or ends, as exporters with a bug do."""

    def __init__(self, when: str) -> None:
        self.when = when

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.when == "start":
            raise LookupError("no exporter")

    def on_end(self, span: ReadableSpan) -> None:
        if self.when == "end":
            raise LookupError("no exporter")


class Mute:
    """A deserialized key without a text."""

    def __str__(self) -> str:
        raise LookupError("no text")


def failing(when: str) -> TracerProvider:
    tracers = TracerProvider()
    tracers.add_span_processor(Failing(when))
    return tracers


def consumer_of(cluster: FakeCluster, **options: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        **options,
    )


@pytest.mark.parametrize("when", ["start", "end"])
async def test_reads_lose_no_records(
    cluster: FakeCluster, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(4):
        cluster.produce("orders", b"%d" % number)
    async with instrument(consumer_of(cluster), tracer_provider=failing(when)) as consumer:
        values = [(await consumer.getone()).value]
        for records in (await consumer.getmany(timeout_ms=60_000, max_records=1)).values():
            values += [record.value for record in records]
        async with consumer.batches(max_records=1) as batches:
            values += [record.value for record in (await anext(batches)).records]
        async with traced(consumer) as iteration:
            values.append((await anext(iteration)).value)
        await consumer.commit()
        (tp,) = consumer.assignment()
        assert await consumer.committed(tp) == 4
    assert values == [b"0", b"1", b"2", b"3"]
    told = [line.getMessage() for line in caplog.records if "OpenTelemetry" in line.getMessage()]
    assert told.count("OpenTelemetry: the span of a poll failed; the client continues") == 1


@pytest.mark.parametrize("when", ["start", "end"])
async def test_transactions_end(cluster: FakeCluster, when: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="counter"
    )
    async with instrument(producer, tracer_provider=failing(when)):
        async with producer.transaction():
            await producer.send_and_wait("orders", b"one")
        await producer.begin_transaction()
        await producer.abort_transaction()


@pytest.mark.parametrize("when", ["start", "end"])
async def test_processing_goes_on(cluster: FakeCluster, when: str) -> None:
    cluster.produce("orders", b"one")
    async with consumer_of(cluster) as consumer:
        record = await consumer.getone()
    telemetry = telemetry_of(failing(when))
    done = False
    with process(record, telemetry=telemetry):
        done = True
    assert done
    with pytest.raises(ZeroDivisionError), process(record, telemetry=telemetry):
        raise ZeroDivisionError


async def test_a_key_without_text(cluster: FakeCluster, recorded: Recorded) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, key_serializer=lambda key: b"k"
    )
    async with instrument(producer, **recorded.providers):
        await producer.send_and_wait("orders", b"one", key=Mute())
    recorded.span("send orders")
    consumer = consumer_of(cluster, key_deserializer=lambda key: Mute())
    async with consumer, traced(consumer, telemetry=recorded.telemetry) as records:
        assert (await anext(records)).value == b"one"


async def test_a_count_that_fails_loses_no_record(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def add(self, amount: int, attributes: Any = None) -> None:
            raise LookupError("no meter")

    for number in range(2):
        cluster.produce("orders", b"%d" % number)
    telemetry = telemetry_of(failing("never"))
    monkeypatch.setattr(telemetry, "consumed", Broken())
    async with (
        consumer_of(cluster) as consumer,
        traced(consumer, telemetry=telemetry) as records,
    ):
        assert [(await anext(records)).value for _ in range(2)] == [b"0", b"1"]


async def test_cancelled_acks_log_a_failure_once(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    async with instrument(producer, tracer_provider=failing("end")):
        for _ in range(5):
            ack = await producer.send("orders", b"one")
            ack.cancel()
    told = [line for line in caplog.records if "_on_cancelled() of" in line.getMessage()]
    assert len(told) == 1


async def test_methods_of_a_subclass_are_called(cluster: FakeCluster, recorded: Recorded) -> None:
    called: list[str] = []

    class Own(AIOKafkaConsumer):
        async def getone(self, *partitions: Any) -> Any:
            called.append("getone")
            return await super().getone(*partitions)

        async def getmany(self, *partitions: Any, **options: Any) -> Any:
            called.append("getmany")
            return await super().getmany(*partitions, **options)

        async def commit(self, offsets: Any = None) -> None:
            called.append("commit")
            await super().commit(offsets)

    for number in range(2):
        cluster.produce("orders", b"%d" % number)
    consumer = Own(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
    )
    async with instrument(consumer, **recorded.providers):
        await consumer.getone()
        await consumer.getmany(timeout_ms=60_000)
        await consumer.commit()
    assert called == ["getone", "getmany", "commit"]
    assert len(recorded.spans("poll orders")) == 2
    recorded.span("commit orders")
