"""Work functions of aiokafka_lite."""

from __future__ import annotations

from typing import Any

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from benchmarks.work import Meter, Work

from . import asyncio_face, asyncio_reading

CLIENTS = asyncio_reading.Clients(AIOKafkaProducer, AIOKafkaConsumer, TopicPartition)


async def produce(work: Work) -> dict[str, Any]:
    return await asyncio_face.produce(AIOKafkaProducer, work)


async def send_and_wait(work: Work) -> dict[str, Any]:
    return await asyncio_face.send_and_wait(AIOKafkaProducer, work)


async def senders(work: Work) -> dict[str, Any]:
    return await asyncio_face.senders(AIOKafkaProducer, work)


async def idle(work: Work) -> dict[str, Any]:
    return await asyncio_face.idle(AIOKafkaProducer, work)


async def consume_iter(work: Work) -> dict[str, Any]:
    return await asyncio_reading.consume(CLIENTS, work, lists=False)


async def consume_lists(work: Work) -> dict[str, Any]:
    return await asyncio_reading.consume(CLIENTS, work, lists=True)


async def consume_batches(work: Work) -> dict[str, Any]:
    return await _in_bulk(work, columns=False)


async def consume_columns(work: Work) -> dict[str, Any]:
    return await _in_bulk(work, columns=True)


async def _in_bulk(work: Work, *, columns: bool) -> dict[str, Any]:
    """Read the whole topic, and access each record's value and offset, or each batch's length."""
    meter = Meter()
    result: dict[str, Any] = {}
    for count in (min(work.warmup, work.records), work.records):
        meter.start()
        seen = touched = 0
        async with asyncio_reading.reading(CLIENTS, work, "earliest") as consumer:
            async with consumer.batches(columns=columns) as batches:
                async for batch in batches:
                    if not columns:
                        for record in batch.records:
                            touched += len(record.value) + (record.offset & 1)
                    seen += len(batch)
                    if seen >= count:
                        break
            result = meter.stop(seen)
    return result


async def round_trip(work: Work) -> dict[str, Any]:
    return await asyncio_reading.round_trip(CLIENTS, work)


async def steady(work: Work) -> dict[str, Any]:
    return await asyncio_reading.steady(CLIENTS, work)


async def backlog(work: Work) -> dict[str, Any]:
    return await asyncio_reading.backlog(CLIENTS, work)


async def many_idle(work: Work) -> dict[str, Any]:
    return await asyncio_reading.many_idle(CLIENTS, work)


async def many_steady(work: Work) -> dict[str, Any]:
    return await asyncio_reading.many_steady(CLIENTS, work)


async def many_backlog(work: Work) -> dict[str, Any]:
    return await asyncio_reading.many_backlog(CLIENTS, work)
