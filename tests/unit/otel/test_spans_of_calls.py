"""Spans of batches, auto-commits, transactions and share consumers."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer, TopicPartition
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource
from aiokafka_lite.errors import GroupAuthorizationFailedError, IllegalOperation
from aiokafka_lite.otel import instrument, process, traced
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.testing import FakeCluster

from .conftest import Recorded

pytestmark = pytest.mark.unhurried

PATIENCE = 60.0


def producer_of(cluster: FakeCluster, recorded: Recorded, **options: Any) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, client_id="p", **options
    )
    return instrument(producer, **recorded.providers)


def consumer_of(cluster: FakeCluster, recorded: Recorded, **options: Any) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="c",
        group_id="g",
        **{"auto_offset_reset": "earliest", **options},
    )
    return instrument(consumer, **recorded.providers)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def until(found: Any, least: int = 1) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(found()) < least:
            await asyncio.sleep(0.005)


async def sent(cluster: FakeCluster, recorded: Recorded, count: int = 3) -> list[int]:
    async with producer_of(cluster, recorded) as producer:
        for number in range(count):
            await producer.send_and_wait("orders", b"%d" % number)
    return [span.context.span_id for span in recorded.spans("send")]


@pytest.mark.parametrize("columns", [False, True])
async def test_batches(cluster: FakeCluster, recorded: Recorded, columns: bool) -> None:
    ids = await sent(cluster, recorded)
    async with (
        consumer_of(cluster, recorded) as consumer,
        consumer.batches(max_records=2, columns=columns) as batches,
    ):
        async for batch in batches:
            if batch.next_offset == 3:
                break
    polls = recorded.spans("poll orders")
    assert [attributes(span)["messaging.batch.message_count"] for span in polls] == [2, 1]
    links = [[link.context.span_id for link in span.links] for span in polls]
    assert links == ([[], []] if columns else [ids[:2], ids[2:]])
    for span in polls:
        assert span.kind is SpanKind.CLIENT
        assert attributes(span)["messaging.operation.type"] == "receive"
        assert attributes(span)["messaging.consumer.group.name"] == "g"
    consumed = recorded.points("messaging.client.consumed.messages")
    assert [
        (point.value, point.attributes["messaging.destination.partition.id"]) for point in consumed
    ] == [(3, "0")]


async def test_a_batch_that_fails_is_given_back(cluster: FakeCluster, recorded: Recorded) -> None:
    await sent(cluster, recorded)
    async with consumer_of(cluster, recorded) as consumer:
        with pytest.raises(LookupError):  # noqa: PT012 (the block is what is tested)
            async with consumer.batches() as batches:
                async for _ in batches:
                    raise LookupError
        assert await consumer.position(TopicPartition("orders", 0)) == 0


@pytest.mark.parametrize("fails", [False, True])
async def test_auto_commit(cluster: FakeCluster, recorded: Recorded, fails: bool) -> None:
    await sent(cluster, recorded)
    if fails:
        cluster.control(ApiKey.OFFSET_COMMIT, times=None, error=GroupAuthorizationFailedError)
    async with consumer_of(cluster, recorded, auto_commit_interval_ms=10) as consumer:
        await consumer.getmany(timeout_ms=60_000)
        reading = asyncio.ensure_future(consumer.getone())
        await until(lambda: recorded.spans("commit orders"))
        reading.cancel()
        await asyncio.wait({reading})
    span = recorded.spans("commit orders")[0]
    assert span.kind is SpanKind.CLIENT
    assert span.parent is None
    assert attributes(span)["messaging.operation.type"] == "settle"
    assert attributes(span)["messaging.consumer.group.name"] == "g"
    assert attributes(span).get("error.type") == (
        "GroupAuthorizationFailedError" if fails else None
    )
    assert span.status.status_code is (StatusCode.ERROR if fails else StatusCode.UNSET)


async def test_a_commit_of_the_application_is_one_span(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    await sent(cluster, recorded)
    async with consumer_of(cluster, recorded, enable_auto_commit=False) as consumer:
        record = await consumer.getone()
        with process(record, telemetry=recorded.telemetry) as processing:
            await consumer.commit()
    commit = recorded.span("commit")
    assert commit.parent is not None
    assert commit.parent.span_id == processing.get_span_context().span_id
    points = recorded.points("messaging.client.operation.duration")
    (count,) = [
        point.count for point in points if point.attributes["messaging.operation.name"] == "commit"
    ]
    assert count == 1


async def test_auto_commits_are_traced_after_a_start_that_failed(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    await sent(cluster, recorded)
    fault = cluster.control(
        ApiKey.FIND_COORDINATOR, times=None, error=GroupAuthorizationFailedError
    )
    consumer = consumer_of(cluster, recorded, auto_commit_interval_ms=10)
    with pytest.raises(GroupAuthorizationFailedError):
        await consumer.start()
    fault.remove()
    async with consumer:
        await consumer.getone()
    assert recorded.spans("commit orders")


async def test_transactions(cluster: FakeCluster, recorded: Recorded) -> None:
    producer = producer_of(cluster, recorded, transactional_id="t")
    async with producer:
        async with producer.transaction():
            await producer.send("orders", b"one")
            await producer.send_offsets_to_transaction({TopicPartition("shouts", 0): 1}, "readers")
        with pytest.raises(LookupError):
            async with producer.transaction():
                raise LookupError
        with pytest.raises(IllegalOperation):
            await producer.commit_transaction()
        await producer.begin_transaction()
        with pytest.raises(ValueError, match="offsets"):
            await producer.send_offsets_to_transaction(None, "g")  # type: ignore[arg-type]
        await producer.abort_transaction()
    committed, failed = recorded.spans("commit_transaction")
    assert committed.kind is SpanKind.CLIENT
    assert attributes(committed) | {"messaging.kafka.cluster.id": ""} == {
        "messaging.system": "kafka",
        "messaging.operation.name": "commit_transaction",
        "messaging.client.id": "p",
        "messaging.kafka.cluster.id": "",
    }
    assert attributes(failed)["error.type"] == "IllegalOperation"
    assert failed.status.status_code is StatusCode.ERROR
    assert len(recorded.spans("abort_transaction")) == 2
    offsets = recorded.span("commit shouts")
    assert attributes(offsets)["messaging.operation.type"] == "settle"
    assert attributes(offsets)["messaging.consumer.group.name"] == "readers"
    (bad,) = [span for span in recorded.spans("commit") if span.name == "commit"]
    assert attributes(bad)["error.type"]


async def sharing(
    cluster: FakeCluster, recorded: Recorded
) -> AIOKafkaShareConsumer[bytes | None, bytes | None]:
    """An instrumented share consumer that begins at the first record."""
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        configs = {"share.auto.offset.reset": "earliest"}
        await admin.alter_configs([ConfigResource("group", "g", configs=configs)])
    return instrument(
        AIOKafkaShareConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, client_id="c", group_id="g"
        ),
        **recorded.providers,
    )


async def test_run_makes_a_span_for_each_call_of_the_handler(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    """The span is current within the handler, and also ends if the handler raises."""
    identities = await sent(cluster, recorded, 3)
    handled: list[tuple[int, int]] = []

    async def handle(record: Any) -> None:
        await asyncio.sleep(0)
        current = trace.get_current_span().get_span_context().span_id
        handled.append((record.offset, current))
        if record.offset == 1:
            raise LookupError("no such order")

    consumer = await sharing(cluster, recorded)
    async with consumer, asyncio.timeout(PATIENCE):
        running = asyncio.create_task(consumer.run(handle, concurrency=2))
        await until(lambda: handled, 3)
        await consumer.stop()
        await running
    spans = recorded.spans("process orders")
    found = {attributes(span)["messaging.kafka.offset"]: span for span in spans}
    assert len(spans) == len(found) == len(handled) == 3
    for offset, current in handled:
        span = found[offset]
        assert span.context is not None
        assert span.context.span_id == current
        assert span.kind is SpanKind.CONSUMER
        assert span.parent is None
        assert [link.context.span_id for link in span.links] == [identities[offset]]
        assert attributes(span)["messaging.client.id"] == "c"
        assert attributes(span)["messaging.consumer.group.name"] == "g"
        assert attributes(span).get("error.type") == ("LookupError" if offset == 1 else None)
    polls = recorded.spans("poll orders")
    assert sum(int(str(attributes(each)["messaging.batch.message_count"])) for each in polls) == 3
    measured = recorded.points("messaging.process.duration")
    assert sum(point.count for point in measured) == 3


async def test_the_span_of_a_cancelled_handler_ends(
    cluster: FakeCluster, recorded: Recorded
) -> None:
    await sent(cluster, recorded, 1)
    began = asyncio.Event()

    async def handle(record: object) -> None:
        began.set()
        await asyncio.Event().wait()

    consumer = await sharing(cluster, recorded)
    async with consumer, asyncio.timeout(PATIENCE):
        running = asyncio.create_task(consumer.run(handle))
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    span = recorded.span("process orders")
    assert attributes(span)["error.type"] == "asyncio.exceptions.CancelledError"


async def test_arguments_of_run_are_checked(cluster: FakeCluster, recorded: Recorded) -> None:
    consumer = await sharing(cluster, recorded)
    async with consumer:
        with pytest.raises(TypeError, match="`handler` should be a coroutine function"):
            await consumer.run(None)  # type: ignore[arg-type]  # on purpose
        with pytest.raises(ValueError, match="concurrency"):
            await consumer.run(print, concurrency=0)  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("way", ["getone", "getmany", "async for", "traced"])
async def test_share_consumer(cluster: FakeCluster, recorded: Recorded, way: str) -> None:
    (identity,) = await sent(cluster, recorded, 1)
    consumer = await sharing(cluster, recorded)
    async with consumer, asyncio.timeout(PATIENCE):
        if way == "getone":
            record = await consumer.getone()
        elif way == "getmany":
            (record,) = await consumer.getmany(timeout_ms=60_000)
        elif way == "async for":
            async for record in consumer:  # noqa: B007 (used below)
                break
        else:
            async with traced(consumer) as records:
                async for record in records:  # noqa: B007
                    break
        with process(record, consumer=consumer):
            consumer.acknowledge(record)
        await consumer.flush()
    poll, ack = recorded.span("poll orders"), recorded.span("ack")
    assert [link.context.span_id for link in poll.links] == [identity]
    assert attributes(poll)["messaging.consumer.group.name"] == "g"
    assert attributes(poll)["messaging.client.id"] == "c"
    assert attributes(ack)["messaging.operation.type"] == "settle"
    processed = recorded.spans("process orders")
    assert len(processed) == (2 if way == "traced" else 1)
    assert [link.context.span_id for link in processed[-1].links] == [identity]
    consumed = recorded.points("messaging.client.consumed.messages")
    assert [point.value for point in consumed] == [1]
