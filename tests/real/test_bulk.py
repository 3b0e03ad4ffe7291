"""Batches, columns, interceptors and metrics against a real Kafka, in a group."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.abc import ConsumerInterceptor
from aiokafka_lite.structs import ConsumerRecord, OffsetAndMetadata, TopicPartition
from tools.kafka import RealKafka

TopicFactory = Callable[..., str]
RECORDS = 20_000


class Spy(ConsumerInterceptor):
    """Counts records and keeps the committed offsets."""

    def __init__(self) -> None:
        self.seen = 0
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        self.seen += len(records)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed.update(offsets)


async def fill(kafka: RealKafka, topic: str, compression: str | None) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, compression_type=compression, linger_ms=5
    )
    async with producer:
        for i in range(RECORDS):
            await producer.send(topic, b"%d" % i, partition=i % 3)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_batches_are_committed_as_they_are_processed(
    kafka: RealKafka, topic: TopicFactory, protocol: str
) -> None:
    name = topic(3)
    await fill(kafka, name, "lz4")
    spy = Spy()

    def member() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            name,
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=f"{name}-group",
            group_protocol=protocol,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            interceptors=[spy],
        )

    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    async with member() as consumer:
        with pytest.raises(ValueError, match="of the application"):  # noqa: PT012 (the block's end)
            async with consumer.batches(max_records=500) as batches:
                async for batch in batches:
                    if sum(map(len, seen.values())) >= RECORDS // 2:
                        raise ValueError("of the application")
                    seen[batch.topic_partition.partition] += [int(r.value) for r in batch]
                    await consumer.commit(batch.offsets)
        told = consumer.metrics()
        assert told["rebalance-total"] >= 1
        assert told["commit-total"] >= 20
        assert 0 < told["commit-latency-avg"] < 5000
        assert 0 < told["fetch-latency-avg"] < 5000
        assert told["records-lag-max"] > 0
    committed = {tp.partition: at.offset for tp, at in spy.committed.items()}
    assert committed == {p: len(values) for p, values in seen.items() if values}
    assert all(at.leader_epoch is not None for at in spy.committed.values())

    async with member() as consumer, consumer.batches() as batches:
        async for batch in batches:
            seen[batch.topic_partition.partition] += [int(r.value) for r in batch]
            if sum(map(len, seen.values())) == RECORDS:
                break
        assert consumer.metrics()["records-lag-max"] == 0
    assert seen == {p: list(range(p, RECORDS, 3)) for p in range(3)}
    assert spy.seen >= RECORDS


@pytest.mark.parametrize("compression", [None, "zstd"])
async def test_columns_equal_records(
    kafka: RealKafka, topic: TopicFactory, compression: str | None
) -> None:
    name = topic(3)
    await fill(kafka, name, compression)
    rows = bytes_of_values = 0
    consumer = AIOKafkaConsumer(
        name, bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
    )
    async with consumer, consumer.batches(columns=True) as batches:
        async for batch in batches:
            offsets = memoryview(batch.columns.offsets).cast("q")
            assert list(offsets) == list(range(batch.start, batch.next_offset))
            rows += len(batch)
            bytes_of_values += sum(memoryview(batch.columns.value_lengths).cast("i"))
            if rows == RECORDS:
                break
        metrics = consumer.metrics()
    assert bytes_of_values == sum(len(b"%d" % i) for i in range(RECORDS))
    assert metrics["records-consumed-total"] == RECORDS
    assert metrics["fetch-size-avg"] is not None
