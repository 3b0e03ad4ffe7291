"""Simulates a web service whose requests produce while tasks consume in the same event loop.

One task consumes the produced records, and another reads a backlog of large gzip batches. There is
no web framework, because its cost would hide the client's. A request is a task that reads JSON,
awaits the ack of its record, and writes JSON. The measure is how long the loop does not run its
timers, in CPU of its own thread, so that other load on the machine does not count.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Partition

from benchmarks.loop_watch import TICK, Watch
from benchmarks.work import Meter, Work, values

from .asyncio_reading import Clients

BACKLOG = 60_000  # records of 1 KiB, in batches of about 1 MB before compression
BURST = 20  # maximum number of requests started per tick, so that no flood follows a stall


async def ours(work: Work) -> dict[str, Any]:
    from .ours import CLIENTS

    return await _with_kafka(CLIENTS, work)


async def aiokafka_peer(work: Work) -> dict[str, Any]:
    from .aiokafka_peer import CLIENTS

    return await _with_kafka(CLIENTS, work)


async def nothing(work: Work) -> dict[str, Any]:
    """Serve the requests without Kafka."""

    async def store(_event: bytes, _number: int) -> int:
        await asyncio.sleep(0)
        return 0

    return await _serve(store, work)


async def _with_kafka(clients: Clients, work: Work) -> dict[str, Any]:
    old = work.partitions - 1  # the partition of the backlog
    await asyncio.to_thread(_fill, work, old)
    producer = clients.producer(bootstrap_servers=work.bootstrap, acks="all")
    consumers = [
        clients.consumer(
            bootstrap_servers=work.bootstrap, auto_offset_reset=reset, enable_auto_commit=False
        )
        for reset in ("latest", "earliest")
    ]

    async def store(event: bytes, number: int) -> int:
        told = await producer.send_and_wait(work.topic, event, partition=number % old)
        offset: int = told.offset
        return offset

    async def follow(consumer: Any) -> None:
        async for record in consumer:
            json.loads(record.value)

    async def read_backlog(consumer: Any) -> None:
        seen = 0
        while seen < BACKLOG:
            for records in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
                seen += len(records)

    async with producer, consumers[0], consumers[1]:
        consumers[0].assign([clients.partition(work.topic, p) for p in range(old)])
        await consumers[0].seek_to_end()
        tasks = [asyncio.create_task(follow(consumers[0]))]

        def begin() -> None:
            consumers[1].assign([clients.partition(work.topic, old)])
            tasks.append(asyncio.create_task(read_backlog(consumers[1])))

        try:
            return await _serve(store, work, begin)
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    raise outcome


async def _serve(store: Any, work: Work, begin: Any = lambda: None) -> dict[str, Any]:
    meter = Meter()
    bodies = [
        json.dumps({"user": i, "items": list(range(i % 10)), "note": "x" * 40}) for i in range(1000)
    ]
    answers = 0

    async def request(number: int) -> None:
        nonlocal answers
        began = time.perf_counter()
        body = json.loads(bodies[number % 1000])
        body["total"] = sum(body["items"])
        offset = await store(json.dumps(body).encode(), number)
        answers += len(json.dumps({"offset": offset, "user": body["user"]}))
        meter.latencies.append(time.perf_counter() - began)

    watch = Watch()
    result: dict[str, Any] = {}
    for count in (work.pace // 5, work.records):
        if count == work.records:
            begin()
        meter.start()
        watch.reset()
        running: set[asyncio.Task[None]] = set()
        began = time.perf_counter()
        sent = 0
        while sent < count:
            due = min(int((time.perf_counter() - began) * work.pace) + 1, count, sent + BURST)
            for number in range(sent, due):
                task = asyncio.create_task(request(number))
                running.add(task)
                task.add_done_callback(running.discard)
            sent = due
            await asyncio.sleep(TICK)
        await asyncio.gather(*running)
        result = meter.stop(count)
    return {**result, "blocked_ms": watch.blocked * 1e3, "blocked_wall_ms": watch.late * 1e3}


def _fill(work: Work, partition: int) -> None:
    """Write the backlog, once per topic."""
    consumer = Consumer({"bootstrap.servers": work.bootstrap, "group.id": "benchmark"})
    _, end = consumer.get_watermark_offsets(Partition(work.topic, partition), 10)
    consumer.close()
    if end >= BACKLOG:
        return
    producer = Producer(
        {
            "bootstrap.servers": work.bootstrap,
            "compression.type": "gzip",
            "batch.size": 1_000_000,
            "linger.ms": 500,
            "queue.buffering.max.messages": BACKLOG,
        }
    )
    pool = values(1024)
    for i in range(BACKLOG):
        producer.produce(work.topic, pool[i % 1000], partition=partition)
    if producer.flush(60):
        raise RuntimeError("the backlog could not be written")
