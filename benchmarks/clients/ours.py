"""aiokafka_lite at work."""

from __future__ import annotations

from typing import Any

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from benchmarks.work import Work

from . import asyncio_face


async def produce(work: Work) -> dict[str, Any]:
    return await asyncio_face.produce(AIOKafkaProducer, work)


async def send_and_wait(work: Work) -> dict[str, Any]:
    return await asyncio_face.send_and_wait(AIOKafkaProducer, work)


async def senders(work: Work) -> dict[str, Any]:
    return await asyncio_face.senders(AIOKafkaProducer, work)


async def idle(work: Work) -> dict[str, Any]:
    return await asyncio_face.idle(AIOKafkaProducer, work)


async def consume_iter(work: Work) -> dict[str, Any]:
    return await asyncio_face.consume(AIOKafkaConsumer, TopicPartition, work, lists=False)


async def consume_lists(work: Work) -> dict[str, Any]:
    return await asyncio_face.consume(AIOKafkaConsumer, TopicPartition, work, lists=True)
