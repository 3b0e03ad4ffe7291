"""Serializers that receive their record's context, and asynchronous ones.

`Registry` has the conventions of confluent-kafka's schema registry: called with data and a context,
synchronously or not, ids in the first bytes or in a header.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer
from aiokafka_lite.abc import ProducerInterceptor, RecordDeserializer, RecordSerializer
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource
from aiokafka_lite.schemas import (
    MessageField,
    SerializationContext,
    deserialized,
    deserializer,
    send_with,
    serializer,
)
from aiokafka_lite.structs import ProducerRecord, TopicPartition, UndeserializedRecord
from aiokafka_lite.testing import FakeCluster

PATIENCE = 60.0
Headers = list[tuple[str, bytes | None]]


class Registry:
    """A small registry: one schema id per subject, assigned on first use."""

    def __init__(self) -> None:
        self.subjects: dict[str, int] = {}
        self.lookups = 0

    def serialize(self, data: Any, context: SerializationContext) -> bytes:
        schema = self.subjects.setdefault(
            f"{context.topic}-{context.field.value}", 1 + self.lookups
        )
        self.lookups += 1
        return b"\0" + schema.to_bytes(4, "big") + json.dumps(data).encode()

    def in_header(self, data: Any, context: SerializationContext) -> bytes:
        body = self.serialize(data, context)
        context.headers.append((f"__{context.field.value}_schema_id", body[1:5]))
        return body[5:]

    def deserialize(self, data: bytes, context: SerializationContext) -> Any:
        if data[:1] != b"\0":
            raise ValueError(f"no schema id in {data!r}")
        known = {schema: subject for subject, schema in self.subjects.items()}
        assert known[int.from_bytes(data[1:5], "big")] == f"{context.topic}-{context.field.value}"
        return json.loads(data[5:])

    def eventually(self, convert: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """As confluent's asynchronous serializers: a plain call that returns a coroutine."""

        async def later(data: Any, context: SerializationContext) -> Any:
            await asyncio.sleep(0)
            return convert(data, context)

        return lambda data, context: later(data, context)


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        yield cluster


@pytest.fixture
def registry() -> Registry:
    return Registry()


def producer_of(cluster: FakeCluster, **options: Any) -> AIOKafkaProducer[Any, Any]:
    return AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **options)


def consumer_of(cluster: FakeCluster, **options: Any) -> AIOKafkaConsumer[Any, Any]:
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        **{"auto_offset_reset": "earliest", **options},
    )


async def test_synchronous_serializers_fit_the_clients(
    cluster: FakeCluster, registry: Registry
) -> None:
    options = {
        "key_serializer": serializer(registry.serialize, field="key"),
        "value_serializer": serializer(registry.serialize),
    }
    async with producer_of(cluster, **options) as producer:
        await producer.send_and_wait("orders", {"a": 1}, key="k")
        await producer.send_and_wait("orders", None, key="k")
        await producer.send_many("orders", ["x"])
        producer.send_nowait("orders", "y")
        await asyncio.wrap_future(producer.send_threadsafe("orders", "z"))
        with pytest.raises(TypeError, match="needs the topic of its record"):
            producer.create_batch().append(timestamp=None, key=None, value="x")
    assert registry.subjects.keys() == {"orders-key", "orders-value"}
    async with consumer_of(
        cluster,
        key_deserializer=deserializer(registry.deserialize, field="key"),
        value_deserializer=deserializer(registry.deserialize),
    ) as consumer:
        read = [await consumer.getone() for _ in range(5)]
    assert [(record.key, record.value) for record in read[:2]] == [("k", {"a": 1}), ("k", None)]
    assert sorted(record.value for record in read[2:]) == ["x", "y", "z"]


async def test_a_serializer_adds_headers(cluster: FakeCluster, registry: Registry) -> None:
    given: tuple[tuple[str, bytes | None], ...] = (("trace", b"1"),)
    options = {"value_serializer": serializer(registry.in_header)}
    async with producer_of(cluster, **options) as producer, consumer_of(cluster) as consumer:
        await producer.send_and_wait("orders", 1, headers=given)
        await producer.send_and_wait("orders", 2)
        first, second = [await consumer.getone() for _ in range(2)]
    assert given == (("trace", b"1"),)
    identity = ("__value_schema_id", b"\0\0\0\x01")
    assert (first.value, first.headers) == (b"1", (("trace", b"1"), identity))
    assert second.headers == (identity,)


class TestProducerSerializers:
    async def test_an_error_is_raised_by_send(self, cluster: FakeCluster) -> None:
        def fail(data: object, context: SerializationContext) -> bytes:
            raise LookupError(context.topic)

        async with producer_of(cluster, value_serializer=serializer(fail)) as producer:
            with pytest.raises(LookupError, match="orders"):
                await producer.send("orders", 1)
            with pytest.raises(TypeError, match="topic"):
                await producer.send(7, 1)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="headers"):
                await producer.send("orders", 1, headers=iter(()))  # type: ignore[arg-type]

    async def test_serializers_get_what_interceptors_return(
        self, cluster: FakeCluster, registry: Registry
    ) -> None:
        class Doubling(ProducerInterceptor):
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return record._replace(value=2 * record.value)

        async with (
            producer_of(
                cluster, value_serializer=serializer(registry.serialize), interceptors=[Doubling()]
            ) as producer,
            consumer_of(cluster) as consumer,
        ):
            await producer.send_and_wait("orders", 21)
            assert (await consumer.getone()).value.endswith(b"42")

    async def test_a_record_that_waits_is_serialized_once(
        self, cluster: FakeCluster, registry: Registry
    ) -> None:
        options = {"value_serializer": serializer(registry.serialize)}
        async with producer_of(cluster, **options) as producer:
            await producer.send_and_wait("created-by-the-first-record", "a")
        assert registry.lookups == 1

    async def test_plain_serializers_stay_plain(
        self, cluster: FakeCluster, registry: Registry
    ) -> None:
        options = {
            "key_serializer": serializer(registry.serialize, field="key"),
            "value_serializer": str.encode,
        }
        async with producer_of(cluster, **options) as producer, consumer_of(cluster) as consumer:
            await producer.send_and_wait("orders", "plain", key=1)
            record = await consumer.getone()
        assert (record.key, record.value) == (b"\0\0\0\0\x011", b"plain")


def test_asynchronous_serializers_do_not_fit_the_clients(registry: Registry) -> None:
    async def later(data: Any, context: Any) -> bytes:
        return b""

    class Later:
        async def __call__(self, data: Any, context: Any) -> bytes:
            return b""

    for convert in (later, Later()):
        with pytest.raises(TypeError, match=r"asynchronous: use send_with\(\)"):
            serializer(convert)
        with pytest.raises(TypeError, match=r"asynchronous: use deserialized\(\)"):
            deserializer(convert)
    for wrong in (None, "x", 1):
        with pytest.raises(TypeError, match="callable"):
            serializer(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="headers"):
        serializer(registry.serialize, field="headers")
    hidden = serializer(registry.eventually(registry.serialize))
    with pytest.raises(TypeError, match=r"asynchronous: use send_with\(\)"):
        hidden.serialize("orders", [], 1)
    hidden_too = deserializer(registry.eventually(registry.deserialize))
    with pytest.raises(TypeError, match=r"asynchronous: use deserialized\(\)"):
        hidden_too.deserialize("orders", (), b"1")
    assert hidden.serialize("orders", [], None) is None
    assert hidden_too.deserialize("orders", (), None) is None


async def test_own_classes(cluster: FakeCluster) -> None:
    class Tagging(RecordSerializer):
        def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
            headers.append(("topic", topic.encode()))
            return None if data is None else data.encode()

    class Untagging(RecordDeserializer):
        def deserialize(self, topic: str, headers: Any, data: bytes | None) -> Any:
            return topic, dict(headers), data

    async with (
        producer_of(cluster, value_serializer=Tagging()) as producer,
        consumer_of(cluster, value_deserializer=Untagging()) as consumer,
    ):
        await producer.send_and_wait("orders", "x")
        assert (await consumer.getone()).value == ("orders", {"topic": b"orders"}, b"x")
    with pytest.raises(TypeError, match="needs the topic"):
        Untagging()(b"")


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_records_sent_and_read_with_serializers(
    cluster: FakeCluster, registry: Registry, asynchronous: bool
) -> None:
    ser, de = registry.serialize, registry.deserialize
    if asynchronous:
        ser, de = registry.eventually(ser), registry.eventually(de)  # type: ignore[assignment]
    async with producer_of(cluster) as producer, consumer_of(cluster) as consumer:
        for number in range(3):
            ack = await send_with(
                producer, "orders", number, f"k{number}", value_serializer=ser, key_serializer=ser
            )
            assert (await ack).offset == number
        await (await send_with(producer, "orders", None, b"k", value_serializer=ser))
        read: list[Any] = []
        async for record in deserialized(consumer, value=de):
            read.append((record.offset, record.value))
            if len(read) == 4:
                break
    assert read == [(0, 0), (1, 1), (2, 2), (3, None)]


async def test_headers_of_send_with(cluster: FakeCluster, registry: Registry) -> None:
    given: Headers = [("trace", b"1")]
    async with producer_of(cluster) as producer, consumer_of(cluster) as consumer:
        ser = registry.eventually(registry.in_header)
        await (await send_with(producer, "orders", 1, value_serializer=ser, headers=given))
        record = await consumer.getone()
    assert given == [("trace", b"1")]
    assert record.headers == (("trace", b"1"), ("__value_schema_id", b"\0\0\0\x01"))


async def test_a_record_that_cannot_be_deserialized(
    cluster: FakeCluster, registry: Registry
) -> None:
    cluster.produce("orders", b"bad", b"k")
    async with producer_of(cluster) as producer, consumer_of(cluster, group_id="g") as consumer:
        await (await send_with(producer, "orders", "good", value_serializer=registry.serialize))
        records = deserialized(consumer, value=registry.eventually(registry.deserialize))
        for _ in range(2):  # like a failure of the consumer's own deserializer
            with pytest.raises(ValueError, match="no schema id") as raised:
                await anext(records)
            bad = UndeserializedRecord.of(raised.value)
            assert (bad.offset, bad.part, bad.key, bad.value) == (0, "value", b"k", b"bad")
            assert any("seek() past it" in note for note in raised.value.__notes__)
        await consumer.commit()
        assert await consumer.committed(TopicPartition("orders", 0)) in (None, 0)
        consumer.seek(bad.topic_partition, bad.offset + 1)
        assert (await anext(records)).value == "good"


async def test_a_cancelled_step_loses_no_record(cluster: FakeCluster, registry: Registry) -> None:
    release = asyncio.Event()

    async def slow(data: bytes, context: SerializationContext) -> bytes:
        await release.wait()
        return data

    for value in (b"a", b"b"):
        cluster.produce("orders", value)
    async with consumer_of(cluster, group_id="g") as consumer:
        records = deserialized(consumer, value=slow)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(records), 1)
        assert await consumer.position(TopicPartition("orders", 0)) == 0
        release.set()
        assert [(await anext(records)).value for _ in range(2)] == [b"a", b"b"]


class Slow:
    """A deserializer whose registry does not answer yet."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answered = asyncio.Event()

    async def __call__(self, data: bytes, context: SerializationContext) -> bytes:
        self.asked.set()
        await self.answered.wait()
        return data


async def test_stop_does_not_commit_a_record_that_is_being_deserialized(
    cluster: FakeCluster,
) -> None:
    for value in (b"a", b"b"):
        cluster.produce("orders", value)
    slow = Slow()
    async with asyncio.timeout(PATIENCE), consumer_of(cluster, group_id="g") as consumer:
        step = asyncio.create_task(anext(deserialized(consumer, value=slow)))
        await slow.asked.wait()
        await consumer.stop()
        assert cluster.committed("g").get(TopicPartition("orders", 0), 0) == 0
        step.cancel()


async def test_other_reads_do_not_commit_a_record_that_is_being_deserialized(
    cluster: FakeCluster,
) -> None:
    """A waiting read shows that the records before it were processed, but not this one."""
    cluster.produce("orders", b"a")
    slow = Slow()
    orders = TopicPartition("orders", 0)
    async with (
        asyncio.timeout(PATIENCE),
        consumer_of(cluster, group_id="g", auto_commit_interval_ms=10) as consumer,
    ):
        records = deserialized(consumer, value=slow)
        step = asyncio.create_task(anext(records))
        await slow.asked.wait()
        other = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.2)
        assert cluster.committed("g").get(orders, 0) == 0
        slow.answered.set()
        assert (await step).value == b"a"
        while cluster.committed("g").get(orders) != 1:
            await asyncio.sleep(0.01)
        other.cancel()


async def test_tasks_that_share_a_consumer_each_return_to_their_record(
    cluster: FakeCluster,
) -> None:
    """A return to one record must not keep the consumer from returning to an earlier one."""
    for value in (b"a", b"b", b"c"):
        cluster.produce("orders", value)
    orders = TopicPartition("orders", 0)
    slow = Slow()

    async def fail(data: bytes, context: SerializationContext) -> bytes:
        raise ValueError(data)

    async with asyncio.timeout(PATIENCE), consumer_of(cluster, group_id="g") as consumer:
        first = asyncio.create_task(anext(deserialized(consumer, value=slow)))
        await slow.asked.wait()
        with pytest.raises(ValueError, match="b"):
            await anext(deserialized(consumer, value=fail))
        assert await consumer.position(orders) == 1
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert await consumer.position(orders) == 0


async def test_a_record_in_hand_stays_uncommitted_after_an_earlier_one_is_done(
    cluster: FakeCluster,
) -> None:
    for value in (b"a", b"b", b"c"):
        cluster.produce("orders", value)
    early, late = Slow(), Slow()
    async with asyncio.timeout(PATIENCE), consumer_of(cluster, group_id="g") as consumer:
        first = asyncio.create_task(anext(deserialized(consumer, value=early)))
        await early.asked.wait()
        second = asyncio.create_task(anext(deserialized(consumer, value=late)))
        await late.asked.wait()
        early.answered.set()
        assert (await first).value == b"a"
        await consumer.stop()
        assert cluster.committed("g") == {TopicPartition("orders", 0): 1}
        second.cancel()


async def test_a_record_in_hand_does_not_let_an_earlier_one_be_committed(
    cluster: FakeCluster,
) -> None:
    for value in (b"a", b"b"):
        cluster.produce("orders", value)
    orders = TopicPartition("orders", 0)
    early, late = Slow(), Slow()
    async with asyncio.timeout(PATIENCE), consumer_of(cluster, group_id="g") as consumer:
        first = asyncio.create_task(anext(deserialized(consumer, value=early)))
        await early.asked.wait()
        second = asyncio.create_task(anext(deserialized(consumer, value=late)))
        await late.asked.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert await consumer.position(orders) == 0
        await consumer.stop()
        assert cluster.committed("g").get(orders, 0) == 0
        second.cancel()


async def test_a_record_in_hand_stays_uncommitted_after_a_batch_before_it_is_done(
    cluster: FakeCluster,
) -> None:
    for value in (b"a", b"b"):
        cluster.produce("orders", value)
    slow = Slow()
    async with asyncio.timeout(PATIENCE), consumer_of(cluster, group_id="g") as consumer:
        async with consumer.batches(max_records=1) as batches:
            await anext(batches)
            step = asyncio.create_task(anext(deserialized(consumer, value=slow)))
            await slow.asked.wait()
        await consumer.stop()
        assert cluster.committed("g") == {TopicPartition("orders", 0): 1}
        step.cancel()


async def test_a_return_to_a_record_leaves_a_batch_before_it_in_progress(
    cluster: FakeCluster,
) -> None:
    for value in (b"a", b"b"):
        cluster.produce("orders", value)

    async def fail(data: bytes, context: SerializationContext) -> bytes:
        raise ValueError(data)

    orders = TopicPartition("orders", 0)
    async with asyncio.timeout(PATIENCE), consumer_of(cluster, group_id="g") as consumer:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (what leaving the block does)
            async with consumer.batches(max_records=1) as batches:
                await anext(batches)
                with pytest.raises(ValueError, match="b"):
                    await anext(deserialized(consumer, value=fail))
                assert await consumer.position(orders) == 1
                raise ZeroDivisionError
        assert await consumer.position(orders) == 0


async def test_a_return_to_a_record_does_not_let_a_batch_before_it_be_committed(
    cluster: FakeCluster,
) -> None:
    for value in (b"a", b"b"):
        cluster.produce("orders", value)

    async def fail(data: bytes, context: SerializationContext) -> bytes:
        raise ValueError(data)

    async with (
        asyncio.timeout(PATIENCE),
        consumer_of(cluster, group_id="g") as consumer,
        consumer.batches(max_records=1) as batches,
    ):
        await anext(batches)
        with pytest.raises(ValueError, match="b"):
            await anext(deserialized(consumer, value=fail))
        await consumer.stop()
        assert cluster.committed("g").get(TopicPartition("orders", 0), 0) == 0


async def test_a_failed_record_of_a_deleted_topic_skips_none_of_the_recreated_one(
    cluster: FakeCluster,
) -> None:
    for number in range(4):
        cluster.produce("orders", b"old %d" % number)

    async with consumer_of(cluster, metadata_max_age_ms=50) as consumer:

        async def fail_at_last(data: bytes, context: SerializationContext) -> bytes:
            if data == b"old 3":
                state = consumer._core.positions.state(TopicPartition("orders", 0))
                cluster.delete_topic("orders")
                cluster.create_topic("orders", 1)
                for number in range(6):
                    cluster.produce("orders", b"new %d" % number)
                while not state.remade:
                    await asyncio.sleep(0.01)
                raise ValueError(data)
            return data

        records = deserialized(consumer, value=fail_at_last)
        async with asyncio.timeout(PATIENCE):
            assert [(await anext(records)).offset for _ in range(3)] == [0, 1, 2]
            with pytest.raises(ValueError, match="old 3"):
                await anext(records)
            assert (await anext(records)).value == b"new 0"


async def test_a_failed_record_does_not_undo_a_seek(cluster: FakeCluster) -> None:
    for number in range(4):
        cluster.produce("orders", b"%d" % number)

    async with consumer_of(cluster) as consumer:

        async def fail(data: bytes, context: SerializationContext) -> bytes:
            if data == b"1":
                consumer.seek(TopicPartition("orders", 0), 3)
                raise ValueError(data)
            return data

        records = deserialized(consumer, value=fail)
        assert (await anext(records)).value == b"0"
        with pytest.raises(ValueError, match="1"):
            await anext(records)
        assert (await anext(records)).value == b"3"


async def test_a_cancelled_step_of_another_source_loses_no_record(cluster: FakeCluster) -> None:
    release = asyncio.Event()

    async def slow(data: bytes, context: SerializationContext) -> bytes:
        await release.wait()
        return data

    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        configs = {"share.auto.offset.reset": "earliest"}
        await admin.alter_configs([ConfigResource("group", "g", configs=configs)])
    for value in (b"a", b"b"):
        cluster.produce("orders", value)
    async with AIOKafkaShareConsumer(
        "orders", bootstrap_servers=cluster.bootstrap_servers, group_id="g"
    ) as consumer:
        records = deserialized(consumer, value=slow)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(records), 1)
        release.set()
        found = []
        async with asyncio.timeout(PATIENCE):
            for _ in range(2):
                record = await anext(records)
                consumer.acknowledge(record)
                found.append(record.value)
    assert found == [b"a", b"b"]


async def test_share_consumers_have_record_deserializers(
    cluster: FakeCluster, registry: Registry
) -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        configs = {"share.auto.offset.reset": "earliest"}
        await admin.alter_configs([ConfigResource("group", "g", configs=configs)])
    async with producer_of(cluster, value_serializer=serializer(registry.serialize)) as producer:
        await producer.send_and_wait("orders", {"a": 1})
    async with AIOKafkaShareConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        value_deserializer=deserializer(registry.deserialize),
    ) as consumer:
        record = await consumer.getone()
        assert record.value == {"a": 1}
        consumer.acknowledge(record)


ORDER = json.dumps({"title": "order", "type": "object"})


async def test_serializers_of_confluent_kafka(cluster: FakeCluster) -> None:
    """Its own classes with its in-memory registry, if they are installed."""
    module = pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)
    schemas = pytest.importorskip(
        "confluent_kafka.schema_registry.json_schema", exc_type=ImportError
    )
    registry = module.SchemaRegistryClient.new_client({"url": "mock://"})
    options = {"value_serializer": serializer(schemas.JSONSerializer(ORDER, registry))}
    de = deserializer(schemas.JSONDeserializer(ORDER, schema_registry_client=registry))
    async with (
        producer_of(cluster, **options) as producer,
        consumer_of(cluster, value_deserializer=de) as consumer,
    ):
        await producer.send_and_wait("orders", {"a": 1})
        record = await consumer.getone()
    assert record.value == {"a": 1}
    assert registry.get_subjects() == ["orders-value"]


async def test_asynchronous_serializers_of_confluent_kafka(cluster: FakeCluster) -> None:
    module = pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)
    schemas = pytest.importorskip(
        "confluent_kafka.schema_registry.json_schema", exc_type=ImportError
    )
    registry = module.AsyncSchemaRegistryClient.new_client({"url": "mock://"})
    serialize = await schemas.AsyncJSONSerializer(ORDER, registry)
    deserialize = await schemas.AsyncJSONDeserializer(ORDER, schema_registry_client=registry)
    async with producer_of(cluster) as producer, consumer_of(cluster) as consumer:
        ack = await send_with(producer, "orders", {"a": 1}, value_serializer=serialize)
        await ack
        async for record in deserialized(consumer, value=deserialize):
            assert record.value == {"a": 1}
            break


def test_fields_compare_equal_to_their_names() -> None:
    assert (MessageField.KEY, MessageField.VALUE) == ("key", "value")
    assert "orders-" + MessageField.VALUE == "orders-value"
