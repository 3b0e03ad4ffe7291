"""The records that a Spark task reads from a real Kafka; Spark is not needed."""

import asyncio
import random

import pytest

pa = pytest.importorskip("pyarrow")

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # noqa: E402
from aiokafka_lite.spark import runtime  # noqa: E402
from aiokafka_lite.spark.data_loss import DataLossError  # noqa: E402
from aiokafka_lite.spark.partition_offsets import OffsetRange  # noqa: E402
from aiokafka_lite.spark.task_reading import ReadSettings, read_ranges  # noqa: E402


@pytest.fixture(autouse=True)
def closed():
    yield
    runtime.close_idle()


def read(kafka, *ranges, **changes):
    arguments = {"bootstrap_servers": kafka.bootstrap_servers, **changes.pop("arguments", {})}
    made = ReadSettings(arguments, include_headers=True, **changes)
    batches = list(read_ranges([OffsetRange(*each) for each in ranges], made))
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


async def write(kafka, topic, values, transactions=(), **arguments):
    """Write values to partition 0, or in transactions of (values, True to commit)."""
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **arguments) as producer:
        for value in values:
            await producer.send(topic, value, partition=0)
        for each, commit in transactions:
            await producer.begin_transaction()
            for value in each:
                await producer.send(topic, value, partition=0)
            await producer.flush()
            await (producer.commit_transaction if commit else producer.abort_transaction)()


async def consume(kafka, topic, end, **arguments):
    """The consumer's records, for comparison."""
    tp = TopicPartition(topic, 0)
    rows = []
    async with AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest", **arguments
    ) as consumer:
        consumer.assign([tp])
        async with asyncio.timeout(60):
            while await consumer.position(tp) < end:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    rows += [(record.offset, record.value) for record in records]
    return rows


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
def test_same_records_as_the_consumer(kafka, topic, compression):
    name = topic(1)
    values = [random.Random(i).randbytes(i % 3000) if i % 11 else None for i in range(3000)]
    asyncio.run(
        write(kafka, name, values, compression_type=compression, max_batch_size=2**19, linger_ms=50)
    )
    rows = read(kafka, (name, 0, 0, 3000))
    assert [(row["offset"], row["value"]) for row in rows] == list(enumerate(values))
    assert [row["offset"] for row in read(kafka, (name, 0, 1234, 2345))] == list(range(1234, 2345))


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions_as_in_the_consumer(kafka, topic, level):
    name = topic(1)
    transactions = [([b"%d-%d" % (i, j) for j in range(5)], i % 3 != 1) for i in range(9)]
    asyncio.run(write(kafka, name, [], transactions, transactional_id=name))
    end = 9 * 6  # each with its marker
    # The consumer waits for the last marker, which Kafka writes after it has answered.
    wanted = asyncio.run(consume(kafka, name, end, isolation_level=level))
    rows = read(kafka, (name, 0, 0, end), arguments={"isolation_level": level})
    assert [(row["offset"], row["value"]) for row in rows] == wanted
    assert len(wanted) == (30 if level == "read_committed" else 45)
    for start in range(end - 6):
        part = read(kafka, (name, 0, start, start + 6), arguments={"isolation_level": level})
        assert [row["offset"] for row in part] == [o for o, _ in wanted if start <= o < start + 6]


def test_record_larger_than_any_limit(kafka, topic):
    name = topic(1, **{"max.message.bytes": 8_000_000})
    values = [b"small", b"x" * 5_000_000, b"small again"]
    asyncio.run(write(kafka, name, values, max_request_size=6_000_000))
    small = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 1000}
    rows = read(kafka, (name, 0, 0, 3), arguments=small, bytes_per_batch=100)
    assert [row["value"] for row in rows] == values


def test_log_that_ends_too_early_raises(kafka, topic, caplog):
    name = topic(2)
    asyncio.run(write(kafka, name, [b"%d" % i for i in range(10)]))
    with pytest.raises(DataLossError, match=rf"\[10, 12\) of {name}-0"):
        read(kafka, (name, 0, 5, 12))
    rows = read(kafka, (name, 0, 5, 12), (name, 1, 0, 3), fail_on_data_loss=False)
    assert [row["offset"] for row in rows] == [5, 6, 7, 8, 9]
    assert f"[0, 3) of {name}-1" in caplog.text


def test_many_partitions_in_one_task(kafka, topic):
    name = topic(48)

    async def fill():
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for i in range(48 * 40):
                await producer.send(name, b"%d" % i, partition=i % 48)

    asyncio.run(fill())
    ranges = [(name, partition, partition % 20, 40) for partition in range(48)]
    got = sorted((row["partition"], row["offset"], row["value"]) for row in read(kafka, *ranges))
    assert got == [
        (partition, offset, b"%d" % (offset * 48 + partition))
        for _, partition, start, end in ranges
        for offset in range(start, end)
    ]
