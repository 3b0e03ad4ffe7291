"""Work functions of confluent-kafka's consumer: `asyncio_reading` with threads."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import OFFSET_END, Consumer, Message, Producer, TopicPartition

from benchmarks import feeder
from benchmarks.work import Meter, Work, forget_peak, rss_mb, values

PATIENCE = 10.0  # seconds without a record after which a reader gives up
SETTLE = 1.0  # seconds until a client with 2,000 partitions is idle


def consumer_of(work: Work, offset: int) -> Consumer:
    """Return a consumer of all partitions that starts at `offset`."""
    consumer = Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(work.topic, p, offset) for p in range(work.partitions)])
    return consumer


def value_of(message: Message | None) -> bytes:
    if message is None:
        raise RuntimeError(f"no record arrived within {PATIENCE} s")
    if message.error():
        raise RuntimeError(str(message.error()))
    value: bytes = message.value()
    return value


def read_lists(consumer: Consumer, count: int, pace: int = 0) -> None:
    began = time.perf_counter()
    seen = touched = 0
    while seen < count:
        messages = consumer.consume(500, PATIENCE)
        if not messages:
            raise RuntimeError(f"read {seen} of {count} records, then none within {PATIENCE} s")
        for message in messages:
            touched += len(value_of(message)) + (message.offset() & 1)
        seen += len(messages)
        if pace:
            time.sleep(max(began + seen / pace - time.perf_counter(), 0))


def read_one_by_one(consumer: Consumer, count: int) -> None:
    touched = 0
    for _ in range(count):
        message = consumer.poll(PATIENCE)
        touched += len(value_of(message)) + (message.offset() & 1)


def consume(work: Work, *, lists: bool) -> dict[str, Any]:
    meter = Meter()
    result: dict[str, Any] = {}
    for count in (min(work.warmup, work.records), work.records):
        meter.start()
        consumer = consumer_of(work, 0)
        (read_lists if lists else read_one_by_one)(consumer, count)
        result = meter.stop(count)
        consumer.close()
    return result


def round_trip(work: Work) -> dict[str, Any]:
    meter = Meter()
    pool = values(work.size)
    producer = _producer(work)
    consumer = consumer_of(work, OFFSET_END)
    consumer.poll(SETTLE)
    result: dict[str, Any] = {}
    for count in (100, work.records):
        meter.start()
        for i in range(count):
            began = time.perf_counter()
            producer.produce(work.topic, pool[i % 1000])
            producer.poll(0)
            value_of(consumer.poll(PATIENCE))
            meter.latencies.append(time.perf_counter() - began)
            time.sleep(0.002)
        result = meter.stop(count)
    consumer.close()
    return result


def steady(work: Work) -> dict[str, Any]:
    rate = 5_000
    meter = Meter()
    pool = values(work.size)
    producer = _producer(work)
    consumer = consumer_of(work, OFFSET_END)
    consumer.poll(SETTLE)
    errors: list[BaseException] = []

    def receive(count: int) -> None:
        try:
            for _ in range(count):
                meter.latencies.append(feeder.age(value_of(consumer.poll(PATIENCE))))
        except RuntimeError as error:
            errors.append(error)

    result: dict[str, Any] = {}
    for count in (rate // 2, work.records):
        meter.start()
        thread = threading.Thread(target=receive, args=(count,))
        thread.start()
        sent = 0
        began = time.perf_counter()
        while sent < count:
            due = min(int((time.perf_counter() - began) * rate) + 1, count)
            for i in range(sent, due):
                producer.produce(work.topic, feeder.stamp(pool[i % 1000]))
            sent = due
            producer.poll(0)
            time.sleep(0.001)
        thread.join()
        result = meter.stop(count)
        if errors:
            raise errors[0]
    consumer.close()
    return result


def backlog(work: Work) -> dict[str, Any]:
    meter = Meter()
    forget_peak()
    before = rss_mb()
    meter.start()
    consumer = consumer_of(work, 0)
    read_lists(consumer, work.records, work.pace)
    result = meter.stop(work.records)
    consumer.close()
    return {**result, "growth_mb": rss_mb("VmHWM") - before}


def many_idle(work: Work) -> dict[str, Any]:
    consumer = consumer_of(work, OFFSET_END)
    consumer.poll(SETTLE)
    meter = Meter()
    meter.start()
    consumer.poll(5)
    share = meter.share()
    consumer.close()
    return {"cpu_share": share, "rss_mb": rss_mb("VmHWM")}


def many_steady(work: Work) -> dict[str, Any]:
    warmup = work.pace  # one second: brokers, too, need time to settle with 2,000 partitions
    consumer = consumer_of(work, OFFSET_END)
    consumer.poll(2 * SETTLE)
    process = feeder.start(work, work.records + warmup)
    try:
        read_one_by_one(consumer, warmup)
        meter = Meter()
        meter.start()
        for _ in range(work.records):
            meter.latencies.append(feeder.age(value_of(consumer.poll(PATIENCE))))
        result = meter.stop(work.records)
        consumer.close()
        return result
    finally:
        process.terminate()
        process.wait(10)


def many_backlog(work: Work) -> dict[str, Any]:
    consumer = consumer_of(work, OFFSET_END)
    consumer.poll(2 * SETTLE)
    meter = Meter()
    meter.start()
    consumer.seek(TopicPartition(work.topic, 0, 0))
    read_lists(consumer, work.records)
    result = meter.stop(work.records)
    consumer.close()
    return result


def _producer(work: Work) -> Producer:
    return Producer({"bootstrap.servers": work.bootstrap, "acks": "all", "linger.ms": 0})
