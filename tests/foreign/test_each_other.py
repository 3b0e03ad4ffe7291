"""Each client, including this package, reads the records of every other on the embedded broker."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.testing import FakeCluster
from tests.foreign import test_aiokafka, test_kafka_python, test_librdkafka
from tests.foreign.work import COUNT, EXPECTED_OFFSETS, PARTITIONS, Read, entries, expected

pytestmark = [
    *test_kafka_python.pytestmark[:2],  # it leaves sockets open
    pytest.mark.timeout(60),
]

collected = test_kafka_python.collected


async def ours_writes(cluster: FakeCluster) -> list[int]:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, compression_type="snappy"
    ) as producer:
        sent = [
            await producer.send(
                "orders",
                entry.value,
                key=entry.key,
                partition=entry.partition,
                headers=entry.headers,
                timestamp_ms=entry.timestamp,
            )
            for entry in entries()
        ]
        return [metadata.offset for metadata in await asyncio.gather(*sent)]


async def ours_reads(cluster: FakeCluster) -> dict[int, list[Read]]:
    logs: dict[int, list[Read]] = {index: [] for index in range(PARTITIONS)}
    async with (
        AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer,
        asyncio.timeout(20),
    ):
        for _ in range(COUNT):
            r = await consumer.getone()
            logs[r.partition].append((r.offset, r.timestamp, r.key, r.value, list(r.headers)))
    return logs


WRITERS: Final[dict[str, Callable[[FakeCluster], list[int]]]] = {
    "aiokafka": lambda cluster: asyncio.run(
        test_aiokafka.produce(cluster, "orders", compression_type="zstd")
    ),
    "librdkafka": lambda cluster: test_librdkafka.produce(
        cluster, "orders", compression_type="lz4"
    ),
    "kafka_python": lambda cluster: test_kafka_python.produce(
        cluster, "orders", compression_type="gzip"
    ),
    "ours": lambda cluster: asyncio.run(ours_writes(cluster)),
}
READERS: Final[dict[str, Callable[[FakeCluster], dict[int, list[Read]]]]] = {
    "aiokafka": lambda cluster: asyncio.run(test_aiokafka.read_all(cluster, "orders")),
    "librdkafka": lambda cluster: test_librdkafka.read_all(cluster, "orders"),
    "kafka_python": lambda cluster: test_kafka_python.read_all(cluster, "orders"),
    "ours": lambda cluster: asyncio.run(ours_reads(cluster)),
}


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("writer", WRITERS)
def test_every_client_reads_the_records_of_every_other(writer: str) -> None:
    with FakeCluster(2, {"orders": PARTITIONS}) as cluster:
        assert WRITERS[writer](cluster) == EXPECTED_OFFSETS
        for name, read in READERS.items():
            if name == "kafka_python" and writer == "ours":
                continue  # it lacks snappy here
            assert read(cluster) == expected(), name
