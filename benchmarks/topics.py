"""Creates topics and fills them with librdkafka, independent of the measured client."""

from __future__ import annotations

import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from .work import values

# A KRaft controller writes at most 10,000 records per request. A new topic takes one record for
# itself and one for each partition.
AT_ONCE = 5_000


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    first = NewTopic(topic, num_partitions=min(partitions, AT_ONCE), replication_factor=1)
    admin.create_topics([first])[topic].result(30)
    for count in range(2 * AT_ONCE, partitions + AT_ONCE, AT_ONCE):
        more = NewPartitions(topic, min(count, partitions))
        admin.create_partitions([more])[topic].result(60)
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
    """Fill the first `partitions` partitions of `topic` with records.

    The `records` values have `size` bytes each and are written in batches of 16 KiB.
    """
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
        # A sticky partitioner would fill the partitions unevenly.
        try:
            producer.produce(topic, pool[i % 1000], partition=i % partitions, on_delivery=tell)
        except BufferError:  # the producer's queue is full
            producer.poll(1)
            producer.produce(topic, pool[i % 1000], partition=i % partitions, on_delivery=tell)
        if i % 1000 == 0:
            producer.poll(0)
    if producer.flush(120) or failures:
        raise RuntimeError(f"the topic could not be filled: {failures[:3]}")
