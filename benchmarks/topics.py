"""Topics for the benchmark, made and filled by a neutral hand: librdkafka."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from .work import values


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    future = admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])
    future[topic].result(30)
    deadline = time.monotonic() + 30
    while True:
        known = admin.list_topics(topic, timeout=10).topics.get(topic)
        if known and known.error is None and len(known.partitions) == partitions:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"topic {topic} did not appear within 30 s of its creation")
        time.sleep(0.05)


def delete_topics(bootstrap: str, topics: list[str]) -> None:
    if topics:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.delete_topics(topics).values():
            future.result(60)


def load_topic(
    bootstrap: str,
    topic: str,
    *,
    records: int,
    size: int,
    compression: str | None,
    partitions: int,
) -> None:
    """Fill the first ``partitions`` of ``topic`` with ``records`` values of ``size`` bytes in
    batches of 16 KiB."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.size": 16384,
            "linger.ms": 5,
            "compression.type": compression or "none",
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 500_000,
        }
    )

    def tell(error: object, _message: object) -> None:
        if error:
            failures.append(error)

    pool = values(size)
    for i in range(records):
        # partitions by hand: a sticky partitioner would fill them unevenly
        try:
            producer.produce(topic, pool[i % 1000], partition=i % partitions, on_delivery=tell)
        except BufferError:  # a backlog larger than its queue
            producer.poll(1)
            producer.produce(topic, pool[i % 1000], partition=i % partitions, on_delivery=tell)
        if i % 1000 == 0:
            producer.poll(0)
    if producer.flush(120) or failures:
        raise RuntimeError(f"the topic could not be filled: {failures[:3]}")
