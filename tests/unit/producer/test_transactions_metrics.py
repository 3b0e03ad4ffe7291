"""The metrics of a transactional producer."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

NAMES = {
    f"txn-{what}-time-ns-total" for what in ("abort", "begin", "commit", "init", "send-offsets")
}


async def test_times_that_the_application_waited(
    make_producer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, ticks = asyncio.get_running_loop(), itertools.count()
    clock = loop.time
    # A begin, and the abort of nothing, may take no time at all by a coarse clock.
    monkeypatch.setattr(loop, "time", lambda: clock() + next(ticks) * 1e-8)
    async with FakeCluster(topics={"orders": 1}) as cluster:
        plain = make_producer(cluster)
        await plain.start()
        assert NAMES.isdisjoint(plain.metrics())
        producer = make_producer(cluster, transactional_id="payments")

        def moved(before: dict[str, float]) -> set[str]:
            return {name for name in NAMES if producer.metrics()[name] > before[name]}

        before = producer.metrics()
        assert {before[name] for name in NAMES} == {0.0}
        await producer.start()
        assert moved(before) == {"txn-init-time-ns-total"}
        before = producer.metrics()
        await producer.begin_transaction()
        assert moved(before) == {"txn-begin-time-ns-total"}
        before = producer.metrics()
        await producer.send("orders", b"x")
        await producer.send_offsets_to_transaction({TopicPartition("orders", 0): 1}, "readers")
        assert moved(before) == {"txn-send-offsets-time-ns-total"}
        before = producer.metrics()
        cluster.control(ApiKey.END_TXN, delay=0.05)
        await producer.commit_transaction()
        assert moved(before) == {"txn-commit-time-ns-total"}
        name = "txn-commit-time-ns-total"
        assert producer.metrics()[name] - before[name] >= 0.05e9
        await producer.begin_transaction()
        before = producer.metrics()
        await producer.abort_transaction()
        assert moved(before) == {"txn-abort-time-ns-total"}
