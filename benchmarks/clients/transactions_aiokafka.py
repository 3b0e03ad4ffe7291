"""Transactions of aiokafka."""

from __future__ import annotations

from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition

from benchmarks.work import Work

from . import transactions_asyncio


async def in_turn(work: Work) -> dict[str, Any]:
    return await transactions_asyncio.in_turn(AIOKafkaProducer, TopicPartition, work)
