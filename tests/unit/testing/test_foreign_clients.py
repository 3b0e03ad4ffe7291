"""Clients that know nothing of us: aiokafka and confluent-kafka (librdkafka) do their usual work.

Without groups yet: produce with each codec, consume by assignment, look up offsets.
"""

import asyncio
from typing import Any

import pytest

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

aiokafka = pytest.importorskip("aiokafka")
confluent_kafka = pytest.importorskip("confluent_kafka")

on_one_loop = pytest.mark.asyncio(loop_factories=["asyncio"])

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
PARTITIONS = 3
COUNT = 300


def records() -> list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]]:
    """(partition, key, value, headers), every kind of null and empty among them."""
    pairs = [(None, b""), (b"", None), (b"key", b"value " * 20), (b"", b"x")]
    headers: list[list[tuple[str, bytes]]] = [[], [("a", b"1"), ("a", b"2"), ("b", b"")]]
    return [
        (index % PARTITIONS, *pairs[index // PARTITIONS % 4], headers[index % 2])
        for index in range(COUNT)
    ]


async def produce_by_aiokafka(servers: str, topic: str, codec: str | None) -> list[int]:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=servers,
        compression_type=codec,
        enable_idempotence=True,
    )
    async with producer:
        sent = [
            await producer.send(
                topic, value, key=key, partition=partition, headers=headers, timestamp_ms=1000 + i
            )
            for i, (partition, key, value, headers) in enumerate(records())
        ]
        return [metadata.offset for metadata in await asyncio.gather(*sent)]


async def consume_by_aiokafka(servers: str, topic: str) -> dict[int, list[Any]]:
    tps = [aiokafka.TopicPartition(topic, index) for index in range(PARTITIONS)]
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", fetch_max_wait_ms=20
    )
    found: dict[int, list[Any]] = {index: [] for index in range(PARTITIONS)}
    async with consumer:
        consumer.assign(tps)
        async with asyncio.timeout(20):
            while sum(map(len, found.values())) < COUNT:
                for tp, got in (await consumer.getmany(timeout_ms=200)).items():
                    found[tp.partition] += [
                        (r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in got
                    ]
        ends = await consumer.end_offsets(tps)
        assert list(ends.values()) == [COUNT // PARTITIONS] * PARTITIONS
        times = await consumer.offsets_for_times({tps[1]: 1031, tps[2]: 1000 + COUNT})
        assert (times[tps[1]].offset, times[tps[2]]) == (10, None)
    return found


def produce_by_librdkafka(servers: str, topic: str, codec: str | None) -> list[int]:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": codec or "none",
            "enable.idempotence": True,
            "linger.ms": 5,
        }
    )
    offsets: list[int] = [-1] * COUNT

    def delivered(index: int) -> Any:
        def note(error: object, message: Any) -> None:
            assert error is None, error
            offsets[index] = message.offset()

        return note

    for i, (partition, key, value, headers) in enumerate(records()):
        producer.produce(
            topic,
            value,
            key,
            partition,
            headers=headers,
            timestamp=1000 + i,
            on_delivery=delivered(i),
        )
    assert producer.flush(20) == 0
    return offsets


def consume_by_librdkafka(servers: str, topic: str) -> dict[int, list[Any]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }
    )
    found: dict[int, list[Any]] = {index: [] for index in range(PARTITIONS)}
    try:
        consumer.assign(
            [
                confluent_kafka.TopicPartition(topic, index, confluent_kafka.OFFSET_BEGINNING)
                for index in range(PARTITIONS)
            ]
        )
        while sum(map(len, found.values())) < COUNT:
            messages = consumer.consume(COUNT, timeout=20)
            assert messages, "nothing came in 20 s"
            for m in messages:
                assert m.error() is None, m.error()
                found[m.partition()].append(
                    (m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers() or [])
                )
        tp = confluent_kafka.TopicPartition(topic, 0)
        assert consumer.get_watermark_offsets(tp, timeout=20) == (0, COUNT // PARTITIONS)
    finally:
        consumer.close()
    return found


def expected() -> dict[int, list[Any]]:
    by_partition: dict[int, list[Any]] = {index: [] for index in range(PARTITIONS)}
    for i, (partition, key, value, headers) in enumerate(records()):
        log = by_partition[partition]
        log.append((len(log), 1000 + i, key, value, headers))
    return by_partition


EXPECTED_OFFSETS = [index // PARTITIONS for index in range(COUNT)]


@on_one_loop
@pytest.mark.parametrize("codec", CODECS)
async def test_aiokafka(codec: str | None) -> None:
    async with FakeCluster(brokers=2, topics={"orders": PARTITIONS}) as cluster:
        servers = cluster.bootstrap_servers
        assert await produce_by_aiokafka(servers, "orders", codec) == EXPECTED_OFFSETS
        assert await consume_by_aiokafka(servers, "orders") == expected()


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka(codec: str | None) -> None:
    with FakeCluster(brokers=2, topics={"orders": PARTITIONS}) as cluster:
        servers = cluster.bootstrap_servers
        assert produce_by_librdkafka(servers, "orders", codec) == EXPECTED_OFFSETS
        assert consume_by_librdkafka(servers, "orders") == expected()
        assert cluster.count(ApiKey.INIT_PRODUCER_ID) == 1


@on_one_loop
async def test_each_reads_what_the_other_wrote() -> None:
    async with FakeCluster(topics={"theirs": PARTITIONS, "ours": PARTITIONS}) as cluster:
        servers = cluster.bootstrap_servers
        await asyncio.to_thread(produce_by_librdkafka, servers, "theirs", "lz4")
        assert await consume_by_aiokafka(servers, "theirs") == expected()
        await produce_by_aiokafka(servers, "ours", "zstd")
        assert await asyncio.to_thread(consume_by_librdkafka, servers, "ours") == expected()


@on_one_loop
async def test_aiokafka_survives_faults_without_repetition() -> None:
    async with FakeCluster(brokers=2, topics={"orders": PARTITIONS}) as cluster:
        cluster.control(ApiKey.PRODUCE, error=6)
        cluster.control(ApiKey.PRODUCE, disconnect=True, after_handling=True)
        cluster.move_leader("orders", 0, 1)
        servers = cluster.bootstrap_servers
        assert await produce_by_aiokafka(servers, "orders", None) == EXPECTED_OFFSETS
        assert await consume_by_aiokafka(servers, "orders") == expected()


def test_librdkafka_survives_a_killed_broker() -> None:
    with FakeCluster(brokers=2, topics={"orders": PARTITIONS}) as cluster:
        cluster.kill(0)
        assert produce_by_librdkafka(cluster.address(1), "orders", None) == EXPECTED_OFFSETS
        cluster.restart(0)
        cluster.kill(1)
        assert consume_by_librdkafka(cluster.address(0), "orders") == expected()
