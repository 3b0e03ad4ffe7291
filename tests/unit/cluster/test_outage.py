"""Log lines of outages: the first failure, a reminder every minute, and the end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiokafka_lite.cluster import outage
from aiokafka_lite.cluster.outage import REMIND_EVERY, Outage, Repeated
from aiokafka_lite.errors import KafkaConnectionError


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= level]


def test_outage_logs_its_start_then_each_minute_then_its_end() -> None:
    away = Outage("cannot reach broker 1", "connected to broker 1")
    assert away.on_success(0.0) is None
    logged = [line for second in range(100, 231) if (line := away.on_failure(second, "refused"))]
    assert logged == [
        "cannot reach broker 1: refused",
        "cannot reach broker 1 for 60 s (61 attempts): refused",
        "cannot reach broker 1 for 120 s (121 attempts): refused",
    ]
    assert away.on_success(231.5) == (
        "connected to broker 1 again after 131.5 s (131 failed attempts)"
    )
    assert away.on_success(232.0) is None


def test_next_outage_is_logged_at_once() -> None:
    away = Outage("down", "up")
    assert away.on_failure(0.0, "x") == "down: x"
    assert away.on_success(1.0) == "up again after 1.0 s (1 failed attempt)"
    assert away.on_failure(2.0, "y") == "down: y"


def test_frequent_events_are_counted() -> None:
    events = Repeated()
    assert [events.on_event(now) for now in (0.0, 1.0, 2.0)] == [1, None, None]
    assert events.on_event(REMIND_EVERY) == 3
    assert events.on_event(REMIND_EVERY + 1) is None
    assert events.on_event(3 * REMIND_EVERY) == 2


async def test_unreachable_cluster_does_not_flood_the_log(
    tiny_kafka, cluster_of, soon, until, caplog
):
    caplog.set_level(logging.INFO)
    kafka = await tiny_kafka()
    cluster = cluster_of(kafka)
    await cluster.start()
    assert lines(caplog) == []
    await kafka.stop()
    attempts = 0
    while attempts < 30:
        cluster.request_update()
        before = cluster._refresh.schedule.number
        await until(lambda before=before: cluster._refresh.schedule.number > before)
        attempts += 1
    logged = lines(caplog)
    assert len(logged) == 2, logged
    assert all(line.startswith("aiokafka_lite: ") for line in logged)
    assert any(line.startswith("aiokafka_lite: no broker answers: ") for line in logged)
    assert any(line.startswith("aiokafka_lite: cannot reach broker 1: ") for line in logged)
    assert all("Connection refused" in line for line in logged)
    caplog.clear()
    await kafka.start()
    await cluster.refresh(soon())
    logged = lines(caplog)
    assert len(logged) == 2, logged
    assert any("a broker answers again after" in line for line in logged)
    assert any("connected to broker 1 at 127.0.0.1" in line for line in logged)


async def test_repeated_connection_losses_do_not_flood_the_log(
    tiny_kafka, cluster_of, soon, until, caplog
):
    caplog.set_level(logging.INFO)
    kafka = await tiny_kafka()
    cluster = cluster_of(kafka)
    await cluster.start()
    for _ in range(5):
        await cluster.refresh(soon())
        await kafka.brokers[1].drop_connections()
        await until(lambda: cluster.broker(1).connected() is None)
    logged = [line for line in lines(caplog, logging.INFO) if "lost" in line]
    assert len(logged) == 1
    assert logged[0].startswith("aiokafka_lite: connection to broker 1 at 127.0.0.1")


async def test_failed_start_raises_and_logs_nothing(cluster_of, dead_address, caplog):
    cluster = cluster_of([dead_address])
    with pytest.raises(KafkaConnectionError, match="Connection refused"):
        await cluster.start()
    assert lines(caplog) == []


async def test_waiting_start_logs_the_reason(cluster_of, dead_address, soon, caplog):
    cluster = cluster_of([dead_address])
    with pytest.raises(KafkaConnectionError):
        await cluster.start(soon(0.3))
    assert len(lines(caplog)) == 1
    assert f"127.0.0.1:{dead_address[1]}: Connection refused" in lines(caplog)[0]


async def test_unreachable_broker_is_logged(tiny_kafka, cluster_of, until, caplog, monkeypatch):
    monkeypatch.setattr(outage, "REMIND_EVERY", 0.0)
    kafka = await tiny_kafka(2)
    cluster = cluster_of(kafka)
    await cluster.start()
    await kafka.brokers[2].stop()
    await until(lambda: cluster.broker(2).connected() is None)
    for _ in range(3):
        with pytest.raises(KafkaConnectionError):
            await cluster.broker(2).connection()
    logged = [line for line in lines(caplog) if "cannot reach broker 2" in line]
    assert len(logged) == 3
    assert "(3 attempts)" in logged[-1]
    await kafka.brokers[2].start()
    async with asyncio.timeout(5):
        await cluster.broker(2).connection()
    assert "connected to broker 2" in lines(caplog)[-1]
