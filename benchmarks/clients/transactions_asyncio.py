"""Transactions of all clients with aiokafka's API: aiokafka_lite and aiokafka."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.work import Meter, Work, values

Client = Callable[..., Any]

GROUP = "bench-transactions"


def producer_of(producer_class: Client, work: Work, **options: Any) -> Any:
    return producer_class(
        bootstrap_servers=work.bootstrap,
        acks="all",
        linger_ms=work.linger_ms,
        max_batch_size=work.batch_size,
        **options,
    )


async def in_turn(producer_class: Client, place: Client, work: Work) -> dict[str, Any]:
    """Run one transaction after the other, each with an offset."""
    name = f"bench-{uuid.uuid4().hex}"
    producer = producer_of(producer_class, work, transactional_id=name)
    await producer.start()
    meter, pool, size = Meter(), values(work.size), work.transaction
    source = place(work.topic, 0)
    send, topic = producer.send, work.topic
    result: dict[str, Any] = {}
    try:
        for count in (work.warmup, work.records):
            meter.start()
            for first in range(0, count, size):
                await producer.begin_transaction()
                for i in range(size):
                    await send(topic, pool[i % 1000])
                await producer.send_offsets_to_transaction({source: first + size}, GROUP)
                await producer.commit_transaction()
            result = meter.stop(count)
        return result
    finally:
        await producer.stop()


async def side_by_side(producer_class: Client, work: Work) -> dict[str, Any]:
    """Run `tasks` transactional ids concurrently, each with one transaction after the other."""
    names = [f"bench-{uuid.uuid4().hex}" for _ in range(work.tasks)]
    producers = [producer_of(producer_class, work, transactional_id=name) for name in names]
    await asyncio.gather(*(producer.start() for producer in producers))
    meter, pool = Meter(), values(work.size)
    result: dict[str, Any] = {}
    try:
        for count in (work.tasks * 10, work.records // work.transaction):
            each = count // work.tasks
            meter.start()
            await asyncio.gather(*(_one(one, work, pool, each, meter) for one in producers))
            result = meter.stop(each * work.tasks)  # transactions, not records
        return result
    finally:
        await asyncio.gather(*(producer.stop() for producer in producers))


async def _one(producer: Any, work: Work, pool: Sequence[bytes], count: int, meter: Meter) -> None:
    now = asyncio.get_running_loop().time
    for i in range(count):
        began = now()
        await producer.begin_transaction()
        for j in range(work.transaction):
            await producer.send(work.topic, pool[(i + j) % 1000])
        await producer.commit_transaction()
        meter.latencies.append(now() - began)
