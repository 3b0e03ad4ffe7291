"""The metrics of a producer agree with what happened."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiokafka_lite.testing import FakeCluster

Make = Callable[..., Any]

PRODUCE = 0


async def test_before_and_after_a_few_records(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, linger_ms=1, compression_type="gzip")
        before = producer.metrics()
        assert before["record-send-total"] == before["request-total"] == 0
        assert before["batch-size-avg"] is None
        assert before["buffer-available-bytes"] == before["buffer-total-bytes"] == 32 << 20
        await producer.start()
        await asyncio.gather(*[await producer.send("orders", bytes(1000)) for _ in range(10)])
        after = producer.metrics()
        assert after["record-send-total"] == after["records-per-request-avg"] == 10
        assert after["request-total"] == 1
        assert after["batch-size-avg"] == after["batch-size-max"] == after["outgoing-byte-total"]
        assert 0 < after["compression-rate-avg"] < 0.1
        assert 0 < after["request-latency-avg"] <= after["request-latency-max"] < 5000
        assert 1 <= after["record-queue-time-avg"] < 5000
        assert 0 <= after["metadata-age"] < 60
        assert after["record-retry-total"] == after["record-error-total"] == 0
        assert after["buffer-available-bytes"] == after["buffer-total-bytes"]
        assert set(after) == set(before)


async def test_metrics_are_valid_json_at_any_time(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        for options in ({}, {"transactional_id": "t"}):
            producer = make_producer(cluster, **options)
            json.dumps(producer.metrics(), allow_nan=False)
            await producer.start()
            json.dumps(producer.metrics(), allow_nan=False)
        assert producer.metrics()["request-latency-avg"] is None
        assert producer.metrics()["request-rate"] == 0


async def test_metrics_count_retries_splits_and_errors(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        cluster.create_topic("small", configs={"max.message.bytes": "1000"})
        producer = make_producer(cluster, linger_ms=1)
        await producer.start()
        cluster.control(PRODUCE, error=7)
        await producer.send_and_wait("orders", b"sent twice")
        values = [bytes(100)] * 20 + [bytes(2000)]
        await asyncio.wait(await producer.send_many("small", values))
        told = producer.metrics()
        assert told["record-error-total"] == 1
        assert told["record-retry-total"] >= 1
        assert told["batch-split-total"] >= 2


async def test_metrics_show_waiting_sends_and_used_memory(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, max_batch_size=1000, buffer_memory=2000)
        await producer.start()
        hold = cluster.control(PRODUCE, delay=0.1, times=None)
        sending = asyncio.ensure_future(producer.send_many("orders", [bytes(900)] * 3))
        await hold.struck()
        told = producer.metrics()
        assert told["requests-in-flight"] == 1
        assert told["waiting-threads"] == 1
        assert told["buffer-exhausted-total"] == 1
        assert told["buffer-available-bytes"] == 0
        await asyncio.gather(*await sending)
        assert producer.metrics()["requests-in-flight"] == 0


async def test_metrics_show_throttling(make_producer: Make) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        producer = make_producer(cluster)
        await producer.start()

        def throttle(response: Any) -> None:
            response.throttle_time_ms = 20

        cluster.control(PRODUCE, edit=throttle)
        await producer.send_and_wait("orders", b"v")
        assert producer.metrics()["produce-throttle-time-max"] == 20
