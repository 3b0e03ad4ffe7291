"""The metrics of a consumer agree with what happened."""

import asyncio
import json
import time

import pytest

from aiokafka_lite.consumer import metrics_reader
from aiokafka_lite.consumer.consumer_metrics import ConsumerMetrics, Lags
from aiokafka_lite.consumer.fetching import fetcher
from aiokafka_lite.consumer.offsets import end_offsets
from aiokafka_lite.errors import TopicAuthorizationFailedError
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

from .conftest import MakeConsumer
from .makers import append, numbered, until

TP0, TP1, TP2 = (TopicPartition("orders", p) for p in range(3))


async def test_before_and_after_a_few_records(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(10))
    append(cluster, numbered(7), 1)
    consumer = make("orders")
    before = consumer.metrics()
    assert before["records-consumed-total"] == before["fetch-total"] == 0
    assert before["assigned-partitions"] == 0
    assert before["fetch-size-avg"] is None
    assert before["records-lag-max"] is None
    assert before["buffer-available-bytes"] == before["buffer-total-bytes"] == 12 << 20
    assert consumer.partition_metrics() == {}
    await consumer.start()
    lists: list[int] = []
    while sum(lists) < 17:
        lists += [len(each) for each in (await consumer.getmany(timeout_ms=1000)).values()]
    after = consumer.metrics()
    assert set(after) == set(before)
    assert after["assigned-partitions"] == 3
    assert after["records-consumed-total"] == 17
    assert after["fetch-total"] >= 1
    assert 0 < after["fetch-size-avg"] <= after["fetch-size-max"] <= after["bytes-consumed-total"]
    assert 0 < after["fetch-latency-avg"] <= after["fetch-latency-max"] < 5000
    assert after["records-lag-max"] == 0
    assert after["fetch-throttle-time-max"] == 0


async def test_metrics_are_valid_json_at_any_time(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(3))
    consumer = make("orders", group_id="g")
    json.dumps(consumer.metrics(), allow_nan=False)
    async with consumer:
        json.dumps(consumer.metrics(), allow_nan=False)
        await consumer.getone()
        json.dumps(consumer.metrics(), allow_nan=False)
        json.dumps(list(consumer.partition_metrics().values()), allow_nan=False)


async def test_lag_and_lead_follow_returned_records(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10))
    async with make("orders") as consumer:
        for _ in range(4):
            await consumer.getone()
        told = consumer.metrics()
        # The other six are decoded, and not delivered.
        assert told["records-consumed-total"] == 4
        assert told["records-lag-max"] == 6
        assert consumer.partition_metrics()[TP0] == {"records-lag": 6, "records-lead": 4}
        consumer.seek(TP0, 9)
        assert consumer.metrics()["records-consumed-total"] == 4
        assert consumer.partition_metrics()[TP0] == {"records-lag": 1, "records-lead": 9}
        await consumer.getone()
        assert consumer.metrics()["records-consumed-total"] == 5


async def test_a_partition_that_was_not_requested_has_no_metrics(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    consumer = make()
    consumer.assign([TP2])
    (told,) = consumer.partition_metrics().values()
    assert told == {"records-lag": None, "records-lead": None}


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
async def test_metrics_omit_the_lag_of_a_dead_broker(
    cluster: FakeCluster, make: MakeConsumer, group_protocol: str
) -> None:
    append(cluster, numbered(10))
    async with make("orders", group_id="g", group_protocol=group_protocol) as consumer:
        for _ in range(4):
            await consumer.getone()
        await until(lambda: consumer.metrics()["records-lag-max"] == 6)
        cluster.kill(0)
        await until(lambda: consumer.metrics()["records-lag-max"] is None)
        assert consumer.metrics()["records-lead-min"] is None
        told = consumer.partition_metrics()
        assert all(each is None for one in told.values() for each in one.values())
        assert consumer.metrics()["assigned-partitions"] == len(consumer.assignment())
        append(cluster, numbered(5), 1)
        await cluster.restart(0)
        await until(lambda: consumer.metrics()["records-lag-max"] == 6)
        assert consumer.metrics()["assigned-partitions"] == len(consumer.assignment()) == 3


async def test_an_old_lag_expires(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "ENDS_KNOWN_FOR", 0.3)
    append(cluster, numbered(6))
    async with make(fetch_max_wait_ms=20) as consumer:
        consumer.assign([TP0, TP1])
        for _ in range(6):
            await consumer.getone()
        told = consumer.partition_metrics
        await until(lambda: told()[TP0]["records-lag"] == 0)
        cluster.pause(0)
        append(cluster, numbered(10, 6))
        await until(lambda: told()[TP0]["records-lag"] is None)
        assert consumer.metrics()["records-lag-max"] is None
        cluster.resume(0)


@pytest.mark.parametrize("why", ["stuck reader", "paused"])
async def test_the_lag_of_a_partition_that_is_not_fetched_is_looked_up(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(end_offsets, "REFRESH_AFTER", 0.1)
    for _ in range(3):
        append(cluster, numbered(2))
    async with make(fetch_max_wait_ms=20, max_partition_fetch_bytes=100) as consumer:
        consumer.assign([TP0, TP1])
        for _ in range(2 if why == "stuck reader" else 6):
            await consumer.getone()
        if why == "paused":
            consumer.pause(TP0)
        lag = 4 if why == "stuck reader" else 0
        told = consumer.partition_metrics
        await until(lambda: told()[TP0]["records-lag"] == lag)
        append(cluster, numbered(10, 6))
        await until(lambda: told()[TP0]["records-lag"] == lag + 10)
        assert consumer.metrics()["records-lag-max"] == lag + 10
        consumer.resume(TP0)
        for _ in range(lag + 10):
            await consumer.getone(TP0)
        assert told()[TP0]["records-lag"] == 0


async def test_the_lag_is_looked_up_after_the_clock_was_set_back(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_offsets, "REFRESH_AFTER", 0.1)
    append(cluster, numbered(2))
    async with make(fetch_max_wait_ms=20) as consumer:
        consumer.assign([TP0])
        for _ in range(2):
            await consumer.getone()
        consumer.pause(TP0)
        told, before = consumer.partition_metrics, cluster.count(ApiKey.LIST_OFFSETS)
        await until(lambda: told() and cluster.count(ApiKey.LIST_OFFSETS) > before)
        right = time.time
        monkeypatch.setattr(time, "time", lambda: right() - 3600)
        monkeypatch.setattr(metrics_reader, "time", time.time)
        append(cluster, numbered(10, 2))
        await until(lambda: told()[TP0]["records-lag"] == 10)


async def test_no_end_is_looked_up_unless_metrics_are_read(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_offsets, "REFRESH_AFTER", 0.05)
    append(cluster, numbered(2))
    async with make() as consumer:
        consumer.assign([TP0])
        await consumer.getone()
        consumer.pause(TP0)
        before = cluster.count(ApiKey.LIST_OFFSETS)
        await asyncio.sleep(0.3)
        assert cluster.count(ApiKey.LIST_OFFSETS) == before
        await until(lambda: consumer.metrics() and cluster.count(ApiKey.LIST_OFFSETS) > before)


async def test_a_failed_lookup_of_end_offsets_is_tolerated(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_offsets, "REFRESH_AFTER", 0.05)
    monkeypatch.setattr(end_offsets, "GIVE_UP_AFTER", 0.1)
    append(cluster, numbered(2))
    async with make() as consumer:
        consumer.assign([TP0])
        await consumer.getone()
        consumer.pause(TP0)
        fault = cluster.control(
            ApiKey.LIST_OFFSETS, times=None, error=TopicAuthorizationFailedError
        )
        await until(lambda: consumer.metrics() and fault.hits > 2)
        fault.remove()
        append(cluster, numbered(3, 2))
        await until(lambda: consumer.partition_metrics()[TP0]["records-lag"] == 4)
        consumer.resume(TP0)
        await consumer.getone()


async def test_columns_are_counted(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(10))
    async with make("orders") as consumer, consumer.batches(columns=True) as batches:
        await anext(batches)
        assert consumer.metrics()["records-consumed-total"] == 10


def test_metrics_show_throttling() -> None:
    metrics = ConsumerMetrics()
    metrics.on_fetch(1000, 0.002, 0.03, 5.0)
    metrics.on_fetch(0, 0.5, 0.0, 5.1)
    told = metrics.snapshot(
        Lags(),
        5.2,
        buffered=0,
        budget=1,
        group=None,
        loop_time=0.0,
    )
    assert told["fetch-throttle-time-max"] == 30
    assert told["fetch-throttle-time-avg"] == 15
    assert told["fetch-latency-max"] == 500
    assert told["fetch-size-avg"] == 500


async def test_metrics_show_rebalances_and_commits(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    async with make("orders", group_id="g", heartbeat_interval_ms=20) as consumer:
        assert "rebalance-total" not in make("orders").metrics()
        told = consumer.metrics()
        assert told["rebalance-total"] == 1
        assert 0 < told["rebalance-latency-avg"] == told["rebalance-latency-max"] < 10000
        assert 0 <= told["last-rebalance-seconds-ago"] < 10
        assert told["commit-total"] == 0
        assert told["last-commit-seconds-ago"] == -1
        assert told["commit-latency-avg"] is None
        await consumer.getone()
        await consumer.commit()
        told = consumer.metrics()
        assert told["commit-total"] == 1
        assert 0 < told["commit-latency-avg"] < 5000
        await until(lambda: consumer.metrics()["heartbeat-total"] >= 1)
        assert 0 <= consumer.metrics()["last-heartbeat-seconds-ago"] < 10


async def test_idle_ratio_is_the_time_in_which_reads_wait(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    async with make("orders") as consumer:
        await consumer.getmany(timeout_ms=10)
        waiters = consumer._core._waiters
        loop = asyncio.get_running_loop()
        began = loop.time()
        reading = asyncio.ensure_future(consumer.getone())
        await until(lambda: bool(waiters))
        # As if the read had waited for 20 seconds.
        waiters._idle_since -= 20
        waiters._idle._began -= 40
        assert consumer.metrics()["poll-idle-ratio-avg"] == pytest.approx(0.5, abs=0.1)
        append(cluster, numbered(1))
        await reading
        assert waiters.idle_ratio(began + 1000) == 0.0


@pytest.mark.parametrize("between", ["records arrive", "records are dropped"])
async def test_records_consumed_do_not_go_backwards_in_slices(
    cluster: FakeCluster, make: MakeConsumer, between: str
) -> None:
    for partition in range(2):
        append(cluster, numbered(500), partition)
    async with make() as consumer:
        consumer.assign([TP0, TP1])
        if between == "records are dropped":
            await consumer.getone(TP0)
        before = consumer.metrics()["records-consumed-total"]
        reading = consumer._observe(1)
        next(reading)  # the first partition was read
        if between == "records are dropped":
            consumer.seek(TP0, 0)
        else:
            await consumer.getone(TP0)
        with pytest.raises(StopIteration) as end:
            next(reading)
        assert end.value.value[0]["records-consumed-total"] == 1
        assert before <= 1 == consumer.metrics()["records-consumed-total"]
