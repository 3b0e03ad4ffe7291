"""The round trip on every broker from 0.8.2 to 3.9, in the message format of the broker.

`make test-brokers` runs these; OLD_BROKER_RECORDS is the number of records per codec (20,000).
"""

import os
from collections.abc import Iterator

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import UnsupportedVersionError
from tests.real.round_trip import CODECS, read_digests, records, send_all
from tools.kafka import KafkaCluster, KafkaNotAvailable
from tools.kafka.java import JavaTools
from tools.kafka.releases import OLD_RELEASES

COUNT = int(os.environ.get("OLD_BROKER_RECORDS", "20000"))
PARTITIONS = 3

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(600 + COUNT / 500)]


@pytest.fixture(scope="module", params=["3.9.2", *OLD_RELEASES])
def old(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    try:
        cluster = KafkaCluster(request.param)
        with cluster:
            yield cluster
    except KafkaNotAvailable as error:
        pytest.skip(f"no real Kafka: {error}")


def has_timestamps(cluster: KafkaCluster) -> bool:
    """Message format 1 (KIP-32) came with 0.10."""
    return cluster.release.number >= (0, 10)


def has_headers(cluster: KafkaCluster) -> bool:
    """Message format 2 (KIP-98) came with 0.11."""
    return cluster.release.number >= (0, 11)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec or "none")
async def test_round_trip(old: KafkaCluster, codec: str | None) -> None:
    topic = f"round-trip-{codec}"
    settings = {"retention.ms": 9_000_000_000_000_000} if has_timestamps(old) else {}
    old.create_topic(topic, PARTITIONS, config=settings)
    everything = records(
        COUNT, PARTITIONS, 7, headers=has_headers(old), timestamps=has_timestamps(old)
    )
    if codec == "zstd" and old.release.number < (2, 1):
        async with AIOKafkaProducer(
            bootstrap_servers=old.bootstrap_servers, compression_type=codec
        ) as producer:
            with pytest.raises(UnsupportedVersionError, match=r"zstd.*2\.1"):
                await producer.send_and_wait(topic, b"x")
        return
    async with AIOKafkaProducer(
        bootstrap_servers=old.bootstrap_servers, compression_type=codec, linger_ms=5
    ) as producer:
        sent = await send_all(producer, topic, everything)
    assert sum(digest.count for digest in sent.values()) == COUNT
    async with AIOKafkaConsumer(
        bootstrap_servers=old.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        read = await read_digests(consumer, partitions, COUNT, timestamps=has_timestamps(old))
        ends = await consumer.end_offsets(partitions)
    assert read == sent
    assert {tp.partition: end for tp, end in ends.items()} == {
        partition: digest.count for partition, digest in sent.items()
    }
    assert JavaTools(old.bootstrap_servers, old.version).digest(topic) == sent


@pytest.mark.parametrize("codec", CODECS[:-1], ids=lambda codec: codec or "none")
async def test_we_read_what_java_writes(old: KafkaCluster, codec: str | None) -> None:
    topic = f"from-java-{codec}"
    settings = {"retention.ms": 9_000_000_000_000_000} if has_timestamps(old) else {}
    old.create_topic(topic, PARTITIONS, config=settings)
    java = JavaTools(old.bootstrap_servers, old.version)
    sent = java.generate(topic, PARTITIONS, COUNT, seed=3, compression_type=codec or "none")
    async with AIOKafkaConsumer(
        bootstrap_servers=old.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        read = await read_digests(consumer, partitions, COUNT, timestamps=has_timestamps(old))
    assert read == sent


async def test_headers_raise_on_brokers_without_them(old: KafkaCluster) -> None:
    if has_headers(old):
        pytest.skip("this broker stores headers")
    old.create_topic("headers", 1)
    async with AIOKafkaProducer(bootstrap_servers=old.bootstrap_servers) as producer:
        with pytest.raises(UnsupportedVersionError, match=r"headers.*0\.11"):
            await producer.send_and_wait("headers", b"x", headers=[("a", b"b")])
        done = await producer.send_and_wait("headers", b"without any")
    assert done.offset == 0
