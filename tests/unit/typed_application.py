"""An application for `mypy --strict`, which `make lint` checks; it is never run."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, assert_type

from aiokafka_lite import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
    ConsumerRebalanceListener,
    ConsumerRecord,
    OffsetAndMetadata,
    TopicPartition,
    exactly_once,
)
from aiokafka_lite.abc import AbstractTokenProvider, ProducerInterceptor
from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    AlterConfigOp,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    RecordsToDelete,
)
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.structs import ProducerRecord, RecordMetadata
from aiokafka_lite.testing import FakeCluster


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        print(sorted(assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await asyncio.sleep(0)


class Tokens(AbstractTokenProvider):
    async def token(self) -> str:
        return "token"


class Stamping(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=[*(record.headers or ()), ("from", b"kitchen")])


async def produce(producer: AIOKafkaProducer) -> int:
    ack: asyncio.Future[RecordMetadata] = await producer.send("orders", {"tea": 1}, key=b"4")
    done = await ack
    stored: RecordMetadata = await producer.send_and_wait("orders", {"tea": 1})
    acks = await producer.send_many("orders", [{"tea": 2}, {"tea": 3}])
    await asyncio.wait(acks, timeout=1)
    await asyncio.wait_for(asyncio.gather(*acks), 1)
    ack.add_done_callback(lambda future: print(future.result().offset))
    async with producer.transaction():
        await producer.send_offsets_to_transaction({TopicPartition("orders", 0): 1}, "kitchen")
    batch = producer.create_batch()
    batch.append(key=None, value=b"tea", timestamp=None)
    first = await (await producer.send_batch(batch, "orders", partition=0))
    later: int = producer.send_threadsafe("orders", {"tea": 4}).result().offset
    return done.offset + stored.offset + first.offset + later


async def consume(consumer: AIOKafkaConsumer) -> Sequence[ConsumerRecord[str, dict[str, int]]]:
    consumer.subscribe(["orders"], listener=Listener())
    kept: list[ConsumerRecord[str, dict[str, int]]] = []
    async for record in consumer:
        kept.append(record)
    for partition, records in (await consumer.getmany(timeout_ms=10)).items():
        await consumer.commit({partition: OffsetAndMetadata(records[-1].offset + 1, "")})
        position: int = await consumer.position(partition)
        committed: int | None = await consumer.committed(partition)
        print(position, committed, dict(records[0].headers))
    async with consumer.batches(max_records=10) as batches:
        async for batch in batches:
            kept += batch.records
            await consumer.commit(batch.offsets)
    return kept


async def administer(admin: AIOKafkaAdminClient) -> list[int]:
    created = await admin.create_topics([NewTopic("orders", 6, 3), NewTopic("audit")])
    for name, code, message in created.topic_errors:
        print(name.upper(), code + 1, message)
    counts: list[int | None] = [
        topic.num_partitions for topic in created.raise_for_errors().values()
    ]
    names: list[str] = await admin.list_topics()
    ids = {name: topic.topic_id for name, topic in (await admin.list_topics(typed=True)).items()}
    described = await admin.describe_topics(names, typed=True)
    leaders = [each.leader for each in described.value("orders").partitions.values()]
    await admin.create_partitions({"orders": NewPartitions(8)})
    tp = TopicPartition("orders", 0)
    deleted: dict[TopicPartition, int] = await admin.delete_records({tp: RecordsToDelete(4)})
    offsets = await admin.list_offsets({tp: OffsetSpec.LATEST, TopicPartition("orders", 1): 1000})
    for partition, found in offsets.items():
        print(partition.topic, found if isinstance(found, KafkaError) else found.offset)
    topic = ConfigResource("topic", "orders")
    await admin.incremental_alter_configs({topic: {"retention.ms": 1000}})
    await admin.incremental_alter_configs({topic: [AlterConfigOp.delete("retention.ms")]})
    retention = (await admin.describe_configs([topic], typed=True)).value(topic)["retention.ms"]
    print(
        counts, ids, leaders, deleted, retention.value, (await admin.describe_cluster())["brokers"]
    )
    return [each.lag for each in (await admin.lag("kitchen")).valid().values()]


async def main() -> None:
    with FakeCluster(topics={"orders": 6}) as cluster:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            value_serializer=lambda value: json.dumps(value).encode(),
            interceptors=[Stamping()],
            sasl_oauth_token_provider=Tokens(),
        )
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=[cluster.bootstrap_servers], value_deserializer=json.loads
        )
        async with producer, consumer:
            try:
                print(await produce(producer), await consume(consumer))
            except KafkaError as error:
                print(error.retriable)
            async with exactly_once(consumer, producer) as parts:
                async for part in parts:
                    print([record.value for record in part])


def order(data: bytes) -> dict[str, int]:
    return dict(json.loads(data))


def text(data: bytes | None) -> str:
    return (data or b"").decode()


def dump(value: dict[str, int]) -> bytes:
    return json.dumps(value).encode()


Orders = ConsumerRecord[str, dict[str, int]]


async def infer_types_of_records() -> None:
    """Deserializers determine the types of records; without them, all types are allowed."""
    consumer = AIOKafkaConsumer("orders", key_deserializer=text, value_deserializer=order)
    assert_type(consumer, AIOKafkaConsumer[str, dict[str, int]])
    assert_type(await consumer.getone(), Orders)
    assert_type(await consumer.getmany(), dict[TopicPartition, list[Orders]])
    async for record in consumer:
        assert_type(record.value, dict[str, int] | None)
    async for batch in consumer.batches():
        assert_type(batch.records, list[Orders])
    assert_type(AIOKafkaConsumer("orders"), AIOKafkaConsumer[Any, Any])
    without_arguments: AIOKafkaConsumer = consumer
    declared: AIOKafkaConsumer[bytes, bytes] = AIOKafkaConsumer("orders")
    print(without_arguments, declared)
    queue = AIOKafkaShareConsumer("orders", group_id="kitchen", value_deserializer=order)
    async for job in queue:
        assert_type(job.value, dict[str, int] | None)
    for job in await queue.getmany():
        assert_type(job.value, dict[str, int] | None)


async def check_types_of_sent_values() -> None:
    """Serializers determine what may be sent."""
    producer = AIOKafkaProducer(value_serializer=dump)
    await producer.send("orders", {"tea": 1}, key=b"4")
    await producer.send("orders", None, key=b"4")
    await producer.send("orders", "tea")  # type: ignore[arg-type]
    await producer.send_many("orders", ["tea"])  # type: ignore[list-item]
    await AIOKafkaProducer().send("orders", b"tea")
    declared: AIOKafkaProducer[str, bytes] = AIOKafkaProducer()
    await declared.send("orders", b"tea", key=4)  # type: ignore[arg-type]


def misspell_an_option() -> None:
    """mypy rejects an argument that does not exist; the ignore would be an error otherwise."""
    AIOKafkaProducer(lingerms=5)  # type: ignore[arg-type]
    AIOKafkaConsumer("orders", groupid="kitchen")  # type: ignore[arg-type]
