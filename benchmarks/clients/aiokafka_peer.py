"""Work functions of aiokafka: the same code as in `ours`, with other imports."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from benchmarks.work import Work

from . import asyncio_face, asyncio_reading

CLIENTS = asyncio_reading.Clients(AIOKafkaProducer, AIOKafkaConsumer, TopicPartition)


async def produce(work: Work) -> dict[str, Any]:
    return await asyncio_face.produce(AIOKafkaProducer, work)


async def send_and_wait(work: Work) -> dict[str, Any]:
    return await asyncio_face.send_and_wait(AIOKafkaProducer, work)


async def idle(work: Work) -> dict[str, Any]:
    return await asyncio_face.idle(AIOKafkaProducer, work)


async def consume_iter(work: Work) -> dict[str, Any]:
    return await asyncio_reading.consume(CLIENTS, work, lists=False)


async def consume_lists(work: Work) -> dict[str, Any]:
    return await asyncio_reading.consume(CLIENTS, work, lists=True)


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
