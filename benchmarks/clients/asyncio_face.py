"""Producer work functions of all clients with aiokafka's API: aiokafka_lite and aiokafka.

A drop-in replacement must run with the same code, so `ours` and `aiokafka_peer` differ only in
their imports. `asyncio_reading` contains the consumer's work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from benchmarks.work import Meter, Work, values

Client = Callable[..., Any]


def _producer(producer_class: Client, work: Work, linger_ms: int) -> Any:
    return producer_class(
        bootstrap_servers=work.bootstrap,
        acks="all",
        linger_ms=linger_ms,
        max_batch_size=work.batch_size,
        compression_type=work.compression,
    )


async def produce(producer_class: Client, work: Work) -> dict[str, Any]:
    """Await `send` for every record, flush, then check every ack."""
    producer = _producer(producer_class, work, work.linger_ms)
    await producer.start()
    meter = Meter()
    pool = values(work.size)
    try:
        for count in (work.warmup, work.records):
            meter.start()
            acks = []
            send = producer.send
            topic = work.topic
            if work.hot:
                for i in range(count):
                    acks.append(await send(topic, pool[i % 1000], partition=i % work.hot))
            else:
                for i in range(count):
                    acks.append(await send(topic, pool[i % 1000]))
            await producer.flush()
            for ack in acks:
                await ack
            result = meter.stop(count)
            del acks
        return result
    finally:
        await producer.stop()


async def send_and_wait(producer_class: Client, work: Work) -> dict[str, Any]:
    """Run `tasks` coroutines that each await a record's ack before the next send; linger 0."""
    producer = _producer(producer_class, work, 0)
    await producer.start()
    meter = Meter()
    pool = values(work.size)
    latencies = meter.latencies

    async def one(number: int, count: int) -> None:
        for i in range(count):
            began = time.perf_counter()
            await producer.send_and_wait(work.topic, pool[(number + i) % 1000])
            latencies.append(time.perf_counter() - began)

    try:
        for count in (max(work.warmup, 2 * work.tasks), work.records):
            meter.start()
            await asyncio.gather(*(one(n, count // work.tasks) for n in range(work.tasks)))
            result = meter.stop(count // work.tasks * work.tasks)
        return result
    finally:
        await producer.stop()


async def senders(producer_class: Client, work: Work) -> dict[str, Any]:
    """Run `tasks` coroutines that send in turn; the latency is that of `send` itself."""
    producer = _producer(producer_class, work, work.linger_ms)
    await producer.start()
    meter = Meter()
    pool = values(work.size)
    latencies = meter.latencies

    async def one(number: int, count: int) -> None:
        for i in range(count):
            began = time.perf_counter()
            await producer.send(work.topic, pool[(number + i) % 1000])
            latencies.append(time.perf_counter() - began)
            await asyncio.sleep(0)

    try:
        for count in (max(work.warmup, 2 * work.tasks), work.records):
            meter.start()
            await asyncio.gather(*(one(n, count // work.tasks) for n in range(work.tasks)))
            await producer.flush()
            result = meter.stop(count // work.tasks * work.tasks)
        return result
    finally:
        await producer.stop()


async def idle(producer_class: Client, work: Work) -> dict[str, Any]:
    """Send one record at a time, 2 ms apart: the latency of an idle service."""
    producer = _producer(producer_class, work, 0)
    await producer.start()
    meter = Meter()
    pool = values(work.size)
    try:
        for count in (200, work.records):
            meter.start()
            for i in range(count):
                began = time.perf_counter()
                await producer.send_and_wait(work.topic, pool[i % 1000])
                meter.latencies.append(time.perf_counter() - began)
                await asyncio.sleep(0.002)
            result = meter.stop(count)
        return result
    finally:
        await producer.stop()
