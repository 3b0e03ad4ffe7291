"""Transactions of confluent-kafka, with a thread per transactional id because its calls block."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.work import Meter, Work, values

from .transactions_asyncio import GROUP

PATIENCE = 60  # seconds


def _producer(work: Work) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": work.bootstrap,
            "acks": "all",
            "transactional.id": f"bench-{uuid.uuid4().hex}",
            "linger.ms": work.linger_ms,
            "batch.size": work.batch_size,
        }
    )
    producer.init_transactions(PATIENCE)
    return producer


def in_turn(work: Work) -> dict[str, Any]:
    """Run one transaction after the other, each with an offset."""
    producer = _producer(work)
    # Only a consumer provides the metadata of a group. This one joins none.
    consumer = Consumer({"bootstrap.servers": work.bootstrap, "group.id": GROUP})
    group = consumer.consumer_group_metadata()
    meter, pool, size = Meter(), values(work.size), work.transaction
    result: dict[str, Any] = {}
    try:
        for count in (work.warmup, work.records):
            meter.start()
            for first in range(0, count, size):
                producer.begin_transaction()
                for i in range(size):
                    producer.produce(work.topic, pool[i % 1000])
                offsets = [TopicPartition(work.topic, 0, first + size)]
                producer.send_offsets_to_transaction(offsets, group, PATIENCE)
                producer.commit_transaction(PATIENCE)
            result = meter.stop(count)
        return result
    finally:
        consumer.close()


def side_by_side(work: Work) -> dict[str, Any]:
    """Run `tasks` transactional ids concurrently, each with one transaction after the other."""
    meter, pool = Meter(), values(work.size)
    lock = threading.Lock()

    def one(producer: Producer, count: int) -> None:
        took = []
        for i in range(count):
            began = time.perf_counter()
            producer.begin_transaction()
            for j in range(work.transaction):
                producer.produce(work.topic, pool[(i + j) % 1000])
            producer.commit_transaction(PATIENCE)
            took.append(time.perf_counter() - began)
        with lock:
            meter.latencies.extend(took)

    result: dict[str, Any] = {}
    with ThreadPoolExecutor(work.tasks) as threads:
        producers = list(threads.map(lambda _: _producer(work), range(work.tasks)))
        for count in (work.tasks * 10, work.records // work.transaction):
            each = count // work.tasks
            meter.start()
            list(threads.map(lambda producer, each=each: one(producer, each), producers))
            result = meter.stop(each * work.tasks)  # transactions, not records
    return result
