"""Records exchanged with the Java client and aiokafka: bytes, keys, headers, timestamps and order.

They are compared by a hash of the canonical form of every record. INTEROP_RECORDS is the number of
records per round trip (20,000 by default; `make interop` uses a million), INTEROP_NODES the number
of brokers.
"""

import os
import uuid
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.real.round_trip import CODECS, read_digests, records, send_all
from tools.kafka import OwnCluster, RealKafka
from tools.kafka.java import JavaTools

aiokafka: Any = pytest.importorskip("aiokafka", reason="the interop extra is not installed")

COUNT = int(os.environ.get("INTEROP_RECORDS", "20000"))
NODES = int(os.environ.get("INTEROP_NODES", "1"))
PARTITIONS = 6

pytestmark = [
    pytest.mark.timeout(300 + COUNT / 500),
    pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec or "none"),
]


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> RealKafka | OwnCluster:
    opened: RealKafka = request.getfixturevalue("kafka3" if NODES == 3 else "kafka")
    return opened


@pytest.fixture
def interop_topic(cluster: RealKafka, codec: str | None) -> str:
    name = f"interop-{codec}-{uuid.uuid4().hex[:10]}"
    # Records are dated 2023: without this, retention would drop them while they are read.
    cluster.create_topic(name, PARTITIONS, config={"retention.ms": -1})
    return name


def ours(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, p) for p in range(PARTITIONS)]


def theirs(topic: str) -> list[Any]:
    return [aiokafka.TopicPartition(topic, p) for p in range(PARTITIONS)]


async def test_java_and_aiokafka_read_what_we_write(
    cluster: RealKafka, interop_topic: str, codec: str | None
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, compression_type=codec, linger_ms=5
    ) as producer:
        sent = await send_all(producer, interop_topic, records(COUNT, PARTITIONS, seed=1))
    assert sum(digest.count for digest in sent.values()) == COUNT

    assert JavaTools(cluster.bootstrap_servers).digest(interop_topic) == sent
    async with aiokafka.AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        assert await read_digests(consumer, theirs(interop_topic), COUNT) == sent
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        assert await read_digests(consumer, ours(interop_topic), COUNT) == sent


async def test_we_read_what_java_writes(
    cluster: RealKafka, interop_topic: str, codec: str | None
) -> None:
    java = JavaTools(cluster.bootstrap_servers)
    sent = java.generate(
        interop_topic, PARTITIONS, COUNT, seed=2, compression_type=codec or "none", linger_ms=5
    )
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        assert await read_digests(consumer, ours(interop_topic), COUNT) == sent


async def test_we_read_what_aiokafka_writes(
    cluster: RealKafka, interop_topic: str, codec: str | None
) -> None:
    async with aiokafka.AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, compression_type=codec, linger_ms=5
    ) as producer:
        # aiokafka's acks have the timestamp of the batch's first record: not compared.
        for record in records(COUNT, PARTITIONS, seed=3):
            partition, key, value, headers, stamp = record
            if key is None and value is None:
                key = b""  # aiokafka rejects a record of two nulls
            await producer.send(
                interop_topic, value, key, partition=partition, headers=headers, timestamp_ms=stamp
            )
        await producer.flush()
    async with AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        read = await read_digests(consumer, ours(interop_topic), COUNT)
    assert read == JavaTools(cluster.bootstrap_servers).digest(interop_topic)
