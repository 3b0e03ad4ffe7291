"""Transactions of aiokafka_lite, and the same work without transactions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from aiokafka_lite import AIOKafkaProducer, OffsetAndMetadata, TopicPartition
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.group.offsets.messages import TopicIds, commit_request
from aiokafka_lite.protocol.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lite.protocol.messages.offset_commit import OffsetCommitRequest
from benchmarks.work import Meter, Work, values

from . import transactions_asyncio


async def in_turn(work: Work) -> dict[str, Any]:
    return await transactions_asyncio.in_turn(AIOKafkaProducer, TopicPartition, work)


async def side_by_side(work: Work) -> dict[str, Any]:
    return await transactions_asyncio.side_by_side(AIOKafkaProducer, work)


async def without(work: Work) -> dict[str, Any]:
    """Send the same records with an idempotent producer, and two requests after each flush.

    One request commits the same offset by itself, and the other is small.
    """
    return await _without(work, 0.0)


async def without_in_the_same_time(work: Work) -> dict[str, Any]:
    """Run the same work as `without`, but each round lasts as long as a transaction.

    A transaction waits for the brokers, and a process that has slept finds its caches cold.
    """
    size = work.transaction
    some = await in_turn(replace(work, warmup=50 * size, records=100 * size))
    return await _without(work, some["wall"] / 100)


async def _without(work: Work, lasting: float) -> dict[str, Any]:
    """Run rounds of at least `lasting` seconds; each sleeps after its requests if time remains."""
    producer = transactions_asyncio.producer_of(AIOKafkaProducer, work)
    await producer.start()
    meter, pool, size = Meter(), values(work.size), work.transaction
    send, topic = producer.send, work.topic
    group, now = transactions_asyncio.GROUP, asyncio.get_running_loop().time
    request = FindCoordinatorRequest(coordinator_keys=[group])
    try:
        broker = producer._cluster.broker(next(iter(producer._cluster.metadata.brokers)))
        connection = await broker.connection(Purpose.GENERAL)
        version = connection.version_of(FindCoordinatorRequest)
        commits = connection.version_of(OffsetCommitRequest)
        source = TopicPartition(topic, 0)
        for count in (work.warmup, work.records):
            meter.start()
            for first in range(0, count, size):
                until = now() + lasting
                for i in range(size):
                    await send(topic, pool[i % 1000])
                await producer.flush()
                offsets = {source: OffsetAndMetadata(first + size, "")}
                ids = TopicIds.of(producer._cluster.metadata, [topic])
                commit = commit_request(group, offsets, None, ids, commits)
                await connection.request(commit, commits)
                await connection.request(request, version)
                if lasting:
                    await asyncio.sleep(max(until - now(), 0.0))
            result = meter.stop(count)
        return result
    finally:
        await producer.stop()
