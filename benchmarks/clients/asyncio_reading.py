"""Consumer work functions of all clients with aiokafka's API: aiokafka_lite and aiokafka."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from benchmarks import feeder
from benchmarks.work import Meter, Work, forget_peak, rss_mb, values

PATIENCE = 10.0  # seconds without a record after which a reader gives up
TICK = 0.001  # seconds between the bursts of a paced producer
SETTLE = 1.0  # seconds until a client with 2,000 partitions has found its positions and is idle


class Clients(NamedTuple):
    """The client classes of one package."""

    producer: Callable[..., Any]
    consumer: Callable[..., Any]
    partition: Callable[[str, int], Any]


@asynccontextmanager
async def reading(clients: Clients, work: Work, reset: str) -> AsyncIterator[Any]:
    """Yield a consumer of all partitions; with "latest", it already knows its positions."""
    consumer = clients.consumer(
        bootstrap_servers=work.bootstrap,
        auto_offset_reset=reset,
        enable_auto_commit=False,
        group_id=None,
    )
    await consumer.start()
    try:
        consumer.assign([clients.partition(work.topic, p) for p in range(work.partitions)])
        if reset == "latest":
            await consumer.seek_to_end()
        yield consumer
    finally:
        await consumer.stop()


async def consume(clients: Clients, work: Work, *, lists: bool) -> dict[str, Any]:
    """Read the whole topic from the start, and access the value and offset of every record."""
    meter = Meter()
    result: dict[str, Any] = {}
    for count in (min(work.warmup, work.records), work.records):
        meter.start()
        async with reading(clients, work, "earliest") as consumer:
            await (read_lists if lists else read_one_by_one)(consumer, count)
            result = meter.stop(count)
    return result


async def read_lists(consumer: Any, count: int) -> None:
    seen = touched = 0
    while seen < count:
        batches = await consumer.getmany(timeout_ms=PATIENCE * 1000, max_records=500)
        if not batches:
            raise RuntimeError(f"read {seen} of {count} records, then none within {PATIENCE} s")
        for records in batches.values():
            for record in records:
                touched += len(record.value) + (record.offset & 1)
            seen += len(records)


async def read_one_by_one(consumer: Any, count: int) -> None:
    seen = touched = 0
    async for record in consumer:
        touched += len(record.value) + (record.offset & 1)
        seen += 1
        if seen >= count:
            break


# --- producing and consuming in one process


async def round_trip(clients: Clients, work: Work) -> dict[str, Any]:
    """Measure the time from `send` until the consumer has a record; one at a time, 2 ms apart."""
    meter = Meter()
    pool = values(work.size)
    producer = clients.producer(bootstrap_servers=work.bootstrap, acks="all", linger_ms=0)
    await producer.start()
    result: dict[str, Any] = {}
    try:
        async with reading(clients, work, "latest") as consumer:
            for count in (100, work.records):
                meter.start()
                for i in range(count):
                    began = time.perf_counter()
                    await producer.send(work.topic, pool[i % 1000])
                    await consumer.getone()
                    meter.latencies.append(time.perf_counter() - began)
                    await asyncio.sleep(0.002)
                result = meter.stop(count)
        return result
    finally:
        await producer.stop()


async def steady(clients: Clients, work: Work) -> dict[str, Any]:
    """Measure the time from `send` until the consumer has a record, at 5,000 per second."""
    rate = 5_000
    meter = Meter()
    pool = values(work.size)
    producer = clients.producer(bootstrap_servers=work.bootstrap, acks="all", linger_ms=0)
    await producer.start()

    async def send(count: int) -> None:
        sent = 0
        began = time.perf_counter()
        while sent < count:
            due = min(int((time.perf_counter() - began) * rate) + 1, count)
            for i in range(sent, due):
                value = feeder.stamp(pool[i % 1000])
                await producer.send(work.topic, value)
            sent = due
            await asyncio.sleep(TICK)

    async def receive(consumer: Any, count: int) -> None:
        seen = 0
        async for record in consumer:
            meter.latencies.append(feeder.age(record.value))
            seen += 1
            if seen == count:
                return

    result: dict[str, Any] = {}
    try:
        async with reading(clients, work, "latest") as consumer:
            for count in (rate // 2, work.records):
                meter.start()
                await asyncio.gather(receive(consumer, count), send(count))
                result = meter.stop(count)
        return result
    finally:
        await producer.stop()


# --- memory


async def backlog(clients: Clients, work: Work) -> dict[str, Any]:
    """Read a backlog in lists, and measure how much the memory grows.

    The consumer reads `work.pace` records per second, or at full speed if it is 0. The growth is
    relative to the memory before the consumer is created.
    """
    meter = Meter()
    forget_peak()
    before = rss_mb()
    meter.start()
    async with reading(clients, work, "earliest") as consumer:
        began = time.perf_counter()
        seen = touched = 0
        while seen < work.records:
            batches = await consumer.getmany(timeout_ms=PATIENCE * 1000, max_records=500)
            if not batches:
                raise RuntimeError(f"read only {seen} of {work.records} records")
            for records in batches.values():
                for record in records:
                    touched += len(record.value) + (record.offset & 1)
                seen += len(records)
            if work.pace:
                await asyncio.sleep(began + seen / work.pace - time.perf_counter())
        result = meter.stop(seen)
    return {**result, "growth_mb": rss_mb("VmHWM") - before}


# --- many partitions


async def many_idle(clients: Clients, work: Work) -> dict[str, Any]:
    """Measure a consumer that waits for a record that never arrives."""
    async with reading(clients, work, "latest") as consumer:
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(SETTLE)
        meter = Meter()
        meter.start()
        await asyncio.sleep(5)
        share = meter.share()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    return {"cpu_share": share, "rss_mb": rss_mb("VmHWM")}


async def many_steady(clients: Clients, work: Work) -> dict[str, Any]:
    """Read records that another process writes to one partition at a steady pace."""
    warmup = work.pace  # one second: brokers, too, need time to settle with 2,000 partitions
    async with reading(clients, work, "latest") as consumer:
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(SETTLE)
        process = feeder.start(work, work.records + warmup)
        try:
            await waiting
            meter = Meter()
            seen = 1
            async for record in consumer:
                meter.latencies.append(feeder.age(record.value))
                seen += 1
                if seen == warmup:
                    meter.start()
                elif seen == warmup + work.records:
                    return meter.stop(work.records)
            raise RuntimeError("the iteration ended")
        finally:
            await asyncio.to_thread(_end, process)


async def many_backlog(clients: Clients, work: Work) -> dict[str, Any]:
    """Read the backlog of one partition after the consumer is idle at the end of all partitions."""
    async with reading(clients, work, "latest") as consumer:
        waiting = asyncio.create_task(consumer.getone())
        await asyncio.sleep(SETTLE)
        meter = Meter()
        meter.start()
        consumer.seek(clients.partition(work.topic, 0), 0)
        await waiting
        await read_lists(consumer, work.records - 1)
        return meter.stop(work.records)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(10)
