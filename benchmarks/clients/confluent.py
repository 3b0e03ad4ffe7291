"""confluent-kafka (librdkafka) at work, through its cheapest honest faces.

Produce: a callback a record, the queue raised so that it is never full. send_and_wait is left to
the clients that have it natively; librdkafka's idle latency is its synchronous one at linger 0.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.work import Meter, Work, values


def _producer(work: Work, linger_ms: int) -> Producer:
    return Producer(
        {
            "bootstrap.servers": work.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": linger_ms,
            "batch.size": work.batch_size,
            "compression.type": work.compression or "none",
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
    )


def produce(work: Work) -> dict[str, Any]:
    producer = _producer(work, work.linger_ms)
    pool = values(work.size)
    meter = Meter()
    failures: list[object] = []
    acked = 0

    def on_delivery(error: object, _message: object) -> None:
        nonlocal acked
        acked += 1
        if error is not None:
            failures.append(error)

    result: dict[str, Any] = {}
    for count in (work.warmup, work.records):
        acked = 0
        meter.start()
        for i in range(count):
            producer.produce(work.topic, pool[i % 1000], on_delivery=on_delivery)
            if i % 1000 == 0:
                producer.poll(0)
        producer.flush()
        result = meter.stop(count)
        if failures or acked != count:
            raise RuntimeError(f"{count - acked} records unacknowledged, errors {failures[:3]}")
    return result


def idle(work: Work) -> dict[str, Any]:
    producer = _producer(work, 0)
    pool = values(work.size)
    meter = Meter()
    result: dict[str, Any] = {}
    for count in (200, work.records):
        meter.start()
        for i in range(count):
            done: list[object] = []
            began = time.perf_counter()
            producer.produce(
                work.topic, pool[i % 1000], on_delivery=lambda e, m, done=done: done.append(e)
            )
            while not done:
                producer.poll(1)
            meter.latencies.append(time.perf_counter() - began)
            time.sleep(0.002)
        result = meter.stop(count)
    return result


def _consume(work: Work, *, lists: bool, partitions: int = 6) -> dict[str, Any]:
    meter = Meter()
    result: dict[str, Any] = {}
    for count in (min(work.warmup, work.records), work.records):
        meter.start()
        consumer = Consumer(
            {
                "bootstrap.servers": work.bootstrap,
                "group.id": "benchmark",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )
        consumer.assign([TopicPartition(work.topic, p, 0) for p in range(partitions)])
        seen = touched = 0
        while seen < count:
            if lists:
                messages = consumer.consume(500, 10)
            else:
                message = consumer.poll(10)
                messages = [] if message is None else [message]
            if not messages:
                raise RuntimeError(f"only {seen} of {count} records came within 10 s")
            for message in messages:
                if message.error():
                    raise RuntimeError(str(message.error()))
                touched += len(message.value()) + (message.offset() & 1)
            seen += len(messages)
        result = meter.stop(seen)
        consumer.close()
    return result


def consume_iter(work: Work) -> dict[str, Any]:
    return _consume(work, lists=False)


def consume_lists(work: Work) -> dict[str, Any]:
    return _consume(work, lists=True)
