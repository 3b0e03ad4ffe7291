"""Work functions of confluent-kafka (librdkafka), with its cheapest comparable APIs.

`produce` uses one callback per record, and a queue so large that it is never full. `send_and_wait`
uses the package's own AIOProducer. `idle` uses the synchronous producer with linger 0.
`confluent_reading` contains the consumer's work.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from confluent_kafka import Producer

from benchmarks.work import Meter, Work, values

from . import confluent_reading as reading


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
            raise RuntimeError(f"{count - acked} records not acknowledged, errors {failures[:3]}")
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


async def send_and_wait(work: Work) -> dict[str, Any]:
    """Use AIOProducer, with a task that polls because delivery reports arrive only in polls."""
    from confluent_kafka.aio import AIOProducer

    producer = AIOProducer(
        {
            "bootstrap.servers": work.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
        }
    )
    meter = Meter()
    pool = values(work.size)
    latencies = meter.latencies

    async def one(number: int, count: int) -> None:
        for i in range(count):
            began = time.perf_counter()
            await (await producer.produce(work.topic, value=pool[(number + i) % 1000]))
            latencies.append(time.perf_counter() - began)

    async def poll() -> None:
        while True:
            await producer.poll(0.01)

    poller = asyncio.create_task(poll())
    result: dict[str, Any] = {}
    try:
        for count in (max(work.warmup, 2 * work.tasks), work.records):
            meter.start()
            await asyncio.gather(*(one(n, count // work.tasks) for n in range(work.tasks)))
            result = meter.stop(count // work.tasks * work.tasks)
        return result
    finally:
        poller.cancel()
        await asyncio.gather(poller, return_exceptions=True)
        await producer.close()


def consume_iter(work: Work) -> dict[str, Any]:
    return reading.consume(work, lists=False)


def consume_lists(work: Work) -> dict[str, Any]:
    return reading.consume(work, lists=True)


round_trip = reading.round_trip
steady = reading.steady
backlog = reading.backlog
many_idle = reading.many_idle
many_steady = reading.many_steady
many_backlog = reading.many_backlog
