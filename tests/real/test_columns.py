"""`send_columns` with a real Kafka: partitions and bytes are compared with the Java client's."""

import array
from collections.abc import Callable, Sequence

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.structs import TopicPartition
from tests.real.round_trip import records
from tools.kafka import RealKafka
from tools.kafka.java import JavaTools, Record

TopicFactory = Callable[..., str]
ROWS = 5000
PARTITIONS = 5


def column(items: Sequence[bytes | None]) -> tuple[bytes, "array.array[int]", bytes]:
    offsets = array.array("q", [0])
    bits = bytearray((len(items) + 7) // 8)
    for row, item in enumerate(items):
        offsets.append(offsets[-1] + len(item or b""))
        bits[row >> 3] |= (item is not None) << (row & 7)
    return b"".join(item or b"" for item in items), offsets, bytes(bits)


@pytest.mark.java
@pytest.mark.parametrize(("codec", "transactional"), [(None, False), ("lz4", True)])
async def test_java_puts_the_same_records_into_the_same_partitions(
    kafka: RealKafka, topic: TopicFactory, codec: str | None, transactional: bool
) -> None:
    drawn = [
        (b"" if key is None else key, value, stamp)
        for _, key, value, _, stamp in records(ROWS, PARTITIONS, seed=21, headers=False)
    ]
    by_java = topic(PARTITIONS, **{"retention.ms": -1})
    by_columns = topic(PARTITIONS, **{"retention.ms": -1})
    java = JavaTools(kafka.bootstrap_servers)
    java.load(by_java, [Record(key, value, (), None, stamp) for key, value, stamp in drawn])
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers,
        compression_type=codec,
        transactional_id=by_columns if transactional else None,
    )
    keys, values, stamps = zip(*drawn, strict=True)
    columns = {
        "values": column(values),
        "keys": column(keys),
        "timestamps": array.array("q", stamps),
    }
    async with producer:
        if transactional:
            async with producer.transaction():
                ack = await producer.send_columns(by_columns, **columns)
        else:
            ack = await producer.send_columns(by_columns, **columns)
        done = await ack
    assert done.base_offsets == dict.fromkeys(range(PARTITIONS), 0)
    assert sum(done.counts.values()) == ROWS
    # Uncommitted reads: the markers of a committed transaction may not be written yet.
    assert java.digest(by_columns) == java.digest(by_java)


async def test_row_offsets_are_correct_while_another_producer_sends(
    kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(1)
    rows = [b"row %d" % row for row in range(ROWS)]
    async with (
        AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, max_batch_size=1000) as one,
        AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as other,
    ):
        ack = await one.send_columns(name, column(rows))
        for _ in range(20):
            await other.send_and_wait(name, b"other")
        done = await ack
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
    )
    found = {}
    async with consumer:
        consumer.assign([TopicPartition(name, 0)])
        while len(found) < ROWS + 20:
            record = await consumer.getone()
            found[record.offset] = record.value
    read = [found[run.base_offset + row] for run in done.runs for row in range(run.rows)]
    assert read == rows
