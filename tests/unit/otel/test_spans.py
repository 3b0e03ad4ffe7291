"""Spans, links, attributes and metrics, as the SDK's in-memory exporters see them."""

import asyncio
import gc
import subprocess
import sys
import weakref
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.otel import instrument, process, traced
from aiokafka_lite.otel.auto_instrumentation import KafkaInstrumentor
from aiokafka_lite.otel.conventions import extract, has_context
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.testing import FakeCluster

from .conftest import Recorded

ROOT = Path(__file__).parents[3]


def producer_of(cluster: FakeCluster, recorded: Recorded, **options: Any) -> AIOKafkaProducer:
    servers = cluster.bootstrap_servers
    producer = AIOKafkaProducer(bootstrap_servers=servers, client_id="p", **options)
    return instrument(producer, **recorded.providers)


def consumer_of(cluster: FakeCluster, recorded: Recorded, **options: Any) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="c",
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )
    return instrument(consumer, **recorded.providers)


def host_and_port(cluster: FakeCluster) -> dict[str, Any]:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return {"server.address": host, "server.port": int(port)}


async def test_send(cluster: FakeCluster, recorded: Recorded) -> None:
    async with producer_of(cluster, recorded) as producer:
        await producer.send_and_wait("orders", None, key=b"table 4")
    span = recorded.span("send orders")
    assert span.kind is SpanKind.PRODUCER
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "p",
        "messaging.kafka.message.key": "table 4",
        "messaging.kafka.message.tombstone": True,
        "messaging.kafka.offset": 0,
        "messaging.kafka.cluster.id": cluster.cluster_id,
        **host_and_port(cluster),
    }
    assert span.status.status_code is StatusCode.UNSET
    (record,) = cluster.records("orders")
    context = trace.get_current_span(extract(record.headers)).get_span_context()
    assert span.context is not None
    assert (context.trace_id, context.span_id) == (span.context.trace_id, span.context.span_id)
    attributes = {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
    }
    (sent,) = recorded.points("messaging.client.sent.messages")
    assert (sent.value, dict(sent.attributes)) == (1, attributes)
    (took,) = recorded.points("messaging.client.operation.duration")
    assert (took.count, dict(took.attributes)) == (1, attributes)
    assert took.explicit_bounds[0] == 0.005


async def test_send_is_a_child_of_the_current_span(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    async with producer_of(cluster, recorded) as producer:
        tracer = recorded.tracers.get_tracer("application")
        with tracer.start_as_current_span("request") as request:
            await producer.send_and_wait("orders", b"one", headers=[("mine", b"1")])
    parent = recorded.span("send orders").parent
    assert parent is not None
    assert parent.span_id == request.get_span_context().span_id
    (record,) = cluster.records("orders")
    assert record.headers[0] == ("mine", b"1")
    assert [name for name, _ in record.headers] == ["mine", "traceparent"]


async def test_context_in_the_headers_stays(cluster: FakeCluster, recorded: Recorded) -> None:
    there = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    async with producer_of(cluster, recorded) as producer:
        await producer.send_and_wait("orders", b"one", headers=[there])
    (record,) = cluster.records("orders")
    assert list(record.headers) == [there]
    span = recorded.span("send orders")
    assert span.kind is SpanKind.CLIENT
    (link,) = span.links
    assert link.context.span_id == 0xB7AD6B7169203331


async def test_failed_sends(cluster: FakeCluster, recorded: Recorded) -> None:
    async with producer_of(cluster, recorded) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send("orders", b"x" * 2_000_000)
        await producer.partitions_for("orders")
        cluster.control(ApiKey.PRODUCE, error=TopicAuthorizationFailedError)
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("orders", b"denied")
        with pytest.raises(KafkaTimeoutError):
            producer.send_nowait("unseen", b"y")
    kinds = [
        "MessageSizeTooLargeError",
        "TopicAuthorizationFailedError",
        "KafkaTimeoutError",
    ]
    spans = recorded.spans("send")
    assert [dict(span.attributes or {})["error.type"] for span in spans] == kinds
    assert {span.status.status_code for span in spans} == {StatusCode.ERROR}
    points = recorded.points("messaging.client.sent.messages")
    assert sorted(point.attributes["error.type"] for point in points) == sorted(kinds)


async def test_the_span_of_a_cancelled_ack_ends(cluster: FakeCluster, recorded: Recorded) -> None:
    """The record is stored, but no response reports its offset."""
    async with producer_of(cluster, recorded) as producer:
        await producer.send_and_wait("orders", b"one")  # the metadata are known
        cluster.pause(0)
        ack = await producer.send("orders", b"two")
        ack.cancel()
        await asyncio.sleep(0)
        _, span = recorded.spans("send orders")
        cluster.resume(0)
        await producer.flush()
    assert len(cluster.records("orders")) == 2
    assert dict(span.attributes or {})["error.type"] == "asyncio.exceptions.CancelledError"
    assert span.status.status_code is StatusCode.UNSET
    assert len(recorded.spans("send orders")) == 2  # it did not end again
    points = recorded.points("messaging.client.sent.messages")
    assert {point.attributes.get("error.type"): point.value for point in points} == {
        None: 1,
        "asyncio.exceptions.CancelledError": 1,
    }


async def test_batch_of_sends(cluster: FakeCluster, recorded: Recorded) -> None:
    async with producer_of(cluster, recorded) as producer:
        await asyncio.gather(*await producer.send_many("orders", [b"a", b"b", b"c"]))
    offsets = [dict(span.attributes or {})["messaging.kafka.offset"] for span in recorded.spans()]
    assert sorted(offsets) == [0, 1, 2]
    assert len({record.headers for record in cluster.records("orders")}) == 3


async def three_records(cluster: FakeCluster, recorded: Recorded) -> list[int]:
    """Send three records; return the ids of their spans."""
    async with producer_of(cluster, recorded) as producer:
        for value in (b"a", b"b", b"c"):
            await producer.send_and_wait("orders", value, key=b"k")
    return [span.context.span_id for span in recorded.spans("send") if span.context is not None]


async def test_getmany_is_one_span_with_links(cluster: FakeCluster, recorded: Recorded) -> None:
    ids = await three_records(cluster, recorded)
    async with consumer_of(cluster, recorded) as consumer:
        assert await consumer.getmany(TopicPartition("shouts", 0), timeout_ms=1) == {}
        found = await consumer.getmany(timeout_ms=10_000)
        with process(found[TopicPartition("orders", 0)], consumer=consumer):
            pass
    span = recorded.span("poll orders")
    assert span.kind is SpanKind.CLIENT
    assert [link.context.span_id for link in span.links] == ids
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "poll",
        "messaging.operation.type": "receive",
        "messaging.destination.name": "orders",
        "messaging.batch.message_count": 3,
        "messaging.client.id": "c",
        "messaging.consumer.group.name": "g",
        "messaging.kafka.cluster.id": cluster.cluster_id,
    }
    assert (span.start_time or 0) < (span.end_time or 0)
    processing = recorded.span("process orders")
    assert [link.context.span_id for link in processing.links] == ids
    assert dict(processing.attributes or {})["messaging.batch.message_count"] == 3
    (consumed,) = recorded.points("messaging.client.consumed.messages")
    assert consumed.value == 3


async def test_process_has_a_link_or_a_parent(cluster: FakeCluster, recorded: Recorded) -> None:
    ids = await three_records(cluster, recorded)
    async with consumer_of(cluster, recorded) as consumer:
        first, second = await consumer.getone(), await consumer.getone()
        with process(first, consumer=consumer) as span:
            assert trace.get_current_span() is span
        assert trace.get_current_span() is trace.INVALID_SPAN
        with process(second, parent=True, consumer=consumer):
            pass
    linked, child = recorded.spans("process orders")
    assert linked.kind is SpanKind.CONSUMER
    assert linked.parent is None
    assert [link.context.span_id for link in linked.links] == ids[:1]
    assert dict(linked.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "c",
        "messaging.consumer.group.name": "g",
        "messaging.kafka.message.key": "k",
        "messaging.kafka.offset": 0,
        "messaging.kafka.cluster.id": cluster.cluster_id,
        **host_and_port(cluster),
    }
    assert child.parent is not None
    assert child.parent.span_id == ids[1]
    assert child.links == ()
    (took,) = recorded.points("messaging.process.duration")
    assert took.count == 2
    polls = recorded.spans("poll orders")
    assert [dict(poll.attributes or {})["messaging.batch.message_count"] for poll in polls] == [
        1,
        1,
    ]


async def test_failed_processing(cluster: FakeCluster, recorded: Recorded) -> None:
    await three_records(cluster, recorded)
    async with consumer_of(cluster, recorded) as consumer:
        record = await consumer.getone()
    with pytest.raises(LookupError), process(record, telemetry=recorded.telemetry):
        raise LookupError("no such table")
    span = recorded.span("process")
    assert span.status.status_code is StatusCode.ERROR
    assert dict(span.attributes or {})["error.type"] == "LookupError"
    assert [event.name for event in span.events] == ["exception"]
    (took,) = recorded.points("messaging.process.duration")
    assert took.attributes["error.type"] == "LookupError"


@pytest.mark.parametrize("end", ["break", "error", "cancelled", "stop"])
async def test_traced_spans_end_however_the_loop_ends(
    cluster: FakeCluster, recorded: Recorded, end: str
) -> None:
    ids = await three_records(cluster, recorded)
    consumer = consumer_of(cluster, recorded)
    await consumer.start()
    seen: list[bytes] = []
    second = asyncio.Event()

    async def work() -> None:
        async with traced(consumer) as records:
            async for record in records:
                assert trace.get_current_span().is_recording()
                assert len(recorded.spans("process")) == len(seen)  # the earlier ones have ended
                seen.append(record.value)
                if len(seen) < 2:
                    continue
                if end == "break":
                    break
                if end == "error":
                    raise LookupError
                if end == "cancelled":
                    second.set()
                    await asyncio.Event().wait()
                await consumer.stop()
            assert trace.get_current_span().is_recording() == (end == "break")
        assert trace.get_current_span() is trace.INVALID_SPAN

    working = asyncio.ensure_future(work())
    if end == "cancelled":
        await second.wait()
        working.cancel()
    (outcome,) = await asyncio.gather(working, return_exceptions=True)
    expected = {"error": LookupError, "cancelled": asyncio.CancelledError}.get(end, type(None))
    assert type(outcome) is expected
    spans = recorded.spans("process orders")
    assert [span.links[0].context.span_id for span in spans] == ids[: len(seen)]
    failed = dict(spans[-1].attributes or {}).get("error.type")
    names = {"error": "LookupError", "cancelled": "asyncio.exceptions.CancelledError"}
    assert failed == names.get(end)
    bad = StatusCode.ERROR if end == "error" else StatusCode.UNSET
    assert spans[-1].status.status_code is bad
    consumed = recorded.points("messaging.client.consumed.messages")
    assert sum(point.value for point in consumed) == len(seen)
    await consumer.stop()


async def test_commit(cluster: FakeCluster, recorded: Recorded) -> None:
    await three_records(cluster, recorded)
    async with consumer_of(cluster, recorded) as consumer:
        await consumer.getone()
        await consumer.commit()
        with pytest.raises(IllegalStateError):
            await consumer.commit({TopicPartition("shouts", 0): 1})
    good, bad = recorded.spans("commit")
    assert (good.name, bad.name) == ("commit orders", "commit shouts")
    assert good.kind is SpanKind.CLIENT
    assert dict(good.attributes or {})["messaging.operation.type"] == "settle"
    assert good.status.status_code is StatusCode.UNSET
    assert dict(bad.attributes or {})["error.type"] == "IllegalStateError"
    assert bad.status.status_code is StatusCode.ERROR
    assert cluster.committed("g") == {("orders", 0): 1}
    points = recorded.points("messaging.client.operation.duration")
    commits = [p for p in points if p.attributes["messaging.operation.name"] == "commit"]
    assert len(commits) == 2


async def test_context_flows_through_a_chain(cluster: FakeCluster, recorded: Recorded) -> None:
    """producer -> consumer -> producer -> consumer, with parents: one trace."""
    async with producer_of(cluster, recorded) as producer:
        await producer.send_and_wait("orders", b"tea")
        async with (
            consumer_of(cluster, recorded) as consumer,
            traced(consumer, parent=True) as records,
        ):
            async for record in records:
                await producer.send_and_wait("shouts", record.value.upper())
                break
    (shout,) = cluster.records("shouts")
    spans = [recorded.span(name) for name in ("send orders", "process orders", "send shouts")]
    contexts = [span.context for span in spans if span.context is not None]
    assert len({context.trace_id for context in contexts}) == 1
    for child, parent in zip(spans[1:], contexts[:2], strict=True):
        assert child.parent is not None
        assert child.parent.span_id == parent.span_id
    last = trace.get_current_span(extract(shout.headers)).get_span_context()
    assert last.span_id == contexts[2].span_id


OTHER_PROCESS = """
import asyncio, sys
from opentelemetry.sdk.trace import TracerProvider
from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.otel import instrument, traced

async def main():
    servers = sys.argv[1]
    tracers = TracerProvider()
    consumer = instrument(AIOKafkaConsumer("orders", bootstrap_servers=servers,
        auto_offset_reset="earliest"), tracer_provider=tracers)
    producer = instrument(AIOKafkaProducer(bootstrap_servers=servers), tracer_provider=tracers)
    async with producer, consumer, traced(consumer, parent=True) as records:
        async for record in records:
            await producer.send_and_wait("shouts", record.value.upper())
            break

asyncio.run(main())
"""


async def test_context_flows_across_processes(cluster: FakeCluster, recorded: Recorded) -> None:
    async with producer_of(cluster, recorded) as producer:
        await producer.send_and_wait("orders", b"tea")
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-c", OTHER_PROCESS, cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (shout,) = cluster.records("shouts")
    context = trace.get_current_span(extract(shout.headers)).get_span_context()
    sent = recorded.span("send orders").context
    assert sent is not None
    assert shout.value == b"TEA"
    assert context.trace_id == sent.trace_id
    assert context.span_id != sent.span_id


def test_hostile_headers_have_no_context() -> None:
    for value in (b"\xff\xfe", b"", b"00-0-0-0", b"x" * 100_000, None):
        headers = [("traceparent", value), ("tracestate", b"\xff=\xff")]
        assert has_context(headers)
        context = trace.get_current_span(extract(headers)).get_span_context()
        assert not context.is_valid


def test_process_refuses_what_it_cannot_trace(recorded: Recorded) -> None:
    with pytest.raises(ValueError, match="empty"):
        process([])


async def test_process_refuses_a_parent_for_several_records(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    await three_records(cluster, recorded)
    with pytest.raises(ValueError, match="single record"):
        process(cluster.records("orders"), parent=True)


async def test_instrument_refuses_a_started_producer(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        with pytest.raises(IllegalStateError, match=r"before start\(\)"):
            instrument(producer, **recorded.providers)
    with pytest.raises(TypeError, match="producer or consumer"):
        instrument(object())  # type: ignore[type-var]  # on purpose


async def test_a_second_call_of_instrument_does_nothing(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    async with instrument(producer_of(cluster, recorded), **recorded.providers) as producer:
        await producer.send_and_wait("orders", b"one")
    recorded.span("send orders")


async def test_an_instrumented_consumer_is_collected_at_once(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    consumer = consumer_of(cluster, recorded)
    await consumer.stop()
    gc.collect()
    gc.disable()
    try:
        seen = weakref.ref(consumer)
        del consumer
        assert seen() is None
    finally:
        gc.enable()


async def test_auto_instrumentation(
    cluster: FakeCluster, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `opentelemetry-instrument` does with the entry point."""
    text = (ROOT / "pyproject.toml").read_text()
    (value,) = (
        line.partition(" = ")[2].strip('"')
        for line in text.partition("[project.entry-points.opentelemetry_instrumentor]\n")[
            2
        ].splitlines()[:1]
    )
    loaded = EntryPoint("aiokafka_lite", value, "opentelemetry_instrumentor").load()
    assert loaded is KafkaInstrumentor
    original = AIOKafkaProducer.__init__
    instrumentor = loaded()
    instrumentor.instrument(**recorded.providers, skip_dep_check=True)
    instrumentor.instrument()
    try:
        servers = cluster.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("orders", b"one")
        with pytest.raises(TypeError, match="linger_ms"):
            AIOKafkaProducer(bootstrap_servers=servers, lingerms=1)
    finally:
        instrumentor.uninstrument()
    assert AIOKafkaProducer.__init__ is original
    recorded.span("send orders")
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait("orders", b"two")
    recorded.span("send orders")  # still one


async def test_clients_of_the_same_providers_count_each_message_once(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    for _ in range(3):
        async with producer_of(cluster, recorded) as producer:
            await producer.send_and_wait("orders", b"one")
    assert [point.value for point in recorded.points("messaging.client.sent.messages")] == [3]


async def test_iteration_has_a_span_for_each_record(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    ids = await three_records(cluster, recorded)
    async with consumer_of(cluster, recorded) as consumer:
        async for record in consumer:
            if record.offset == 2:
                break
    spans = recorded.spans("poll orders")
    assert [span.links[0].context.span_id for span in spans] == ids


async def test_traced_counts_the_records_of_a_consumer_without_instrumentation(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    await three_records(cluster, recorded)
    servers = cluster.bootstrap_servers
    plain = AIOKafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest")
    async with plain, traced(plain, telemetry=recorded.telemetry) as records:
        async for record in records:
            if record.offset == 2:
                break
    assert len(recorded.spans("process orders")) == 3
    assert recorded.spans("poll") == []
    (consumed,) = recorded.points("messaging.client.consumed.messages")
    assert consumed.value == 3
