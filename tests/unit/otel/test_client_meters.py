"""`meter`: a client's metrics as observable instruments."""

import asyncio
import gc
import logging
import time
import weakref
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer
from aiokafka_lite.otel import client_meters, meter
from aiokafka_lite.testing import FakeCluster

from .conftest import Recorded


async def points(recorded: Recorded, name: str) -> list[Any]:
    """The metrics that a reader collects in its own thread."""
    return await asyncio.to_thread(recorded.points, name)


@pytest.fixture(autouse=True)
def each_collection_reads_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_meters, "FRESH_FOR", 0.0)


async def test_metrics_of_a_producer(cluster: FakeCluster, recorded: Recorded) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, client_id="p"
    ) as producer:
        assert meter(producer, meter_provider=recorded.meters) is producer
        meter(producer, meter_provider=recorded.meters)
        await producer.send_and_wait("orders", b"one")
        (total,) = await points(recorded, "kafka.producer.record_send_total")
        assert (total.value, dict(total.attributes)) == (1, {"messaging.client.id": "p"})
        await producer.send_and_wait("orders", b"two")
        (total,) = await points(recorded, "kafka.producer.record_send_total")
        assert total.value == 2
        (size,) = await points(recorded, "kafka.producer.batch_size_max")
        assert size.value == producer.metrics()["batch-size-max"]
        (latency,) = await points(recorded, "kafka.producer.node.request_latency_max")
        assert latency.attributes["kafka.node.id"] == 0
        assert await points(recorded, "kafka.producer.compression_rate") == []
    assert await points(recorded, "kafka.producer.record_send_total") == []  # stopped


async def test_partitions_of_a_consumer(cluster: FakeCluster, recorded: Recorded) -> None:
    for _ in range(3):
        cluster.produce("orders", b"x")
    async with AIOKafkaConsumer(
        *("orders", "shouts"),
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="c",
        group_id="g",
        auto_offset_reset="earliest",
    ) as consumer:
        meter(consumer, meter_provider=recorded.meters)
        await consumer.getone()
        found = await points(recorded, "kafka.consumer.records_lag")
        lags = {point.attributes["messaging.destination.name"]: point.value for point in found}
        assert lags == {"orders": 2, "shouts": 0}
        for point in found:
            assert point.attributes["messaging.client.id"] == "c"
            assert point.attributes["messaging.consumer.group.name"] == "g"
            assert point.attributes["messaging.destination.partition.id"] == "0"


async def test_several_clients_share_instruments(
    cluster: FakeCluster, recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    servers = cluster.bootstrap_servers
    async with (
        AIOKafkaProducer(bootstrap_servers=servers, client_id="a") as first,
        AIOKafkaProducer(bootstrap_servers=servers, client_id="b") as second,
        AIOKafkaShareConsumer(bootstrap_servers=servers, group_id="g") as third,
    ):
        for client in (first, second, third):
            meter(client, meter_provider=recorded.meters)
        found = await points(recorded, "kafka.producer.record_send_total")
        assert {point.attributes["messaging.client.id"] for point in found} == {"a", "b"}
        assert len(await points(recorded, "kafka.share_consumer.records_buffered")) == 1
    assert caplog.records == []  # of the SDK, about instruments that exist already


async def test_a_metered_client_is_collected(cluster: FakeCluster, recorded: Recorded) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    meter(producer, meter_provider=recorded.meters)
    await producer.start()
    await producer.stop()
    watched = weakref.ref(producer)
    del producer
    gc.collect()
    assert watched() is None
    assert await points(recorded, "kafka.producer.record_send_total") == []


async def test_a_blocked_loop_is_left_out_and_logged_once(
    cluster: FakeCluster,
    recorded: Recorded,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(client_meters, "LOOP_TIMEOUT", 0.01)
    caplog.set_level(logging.WARNING, "aiokafka_lite.otel")
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, client_id="p"
    ) as producer:
        meter(producer, meter_provider=recorded.meters)
        collecting = asyncio.get_running_loop().run_in_executor(
            None, recorded.points, "kafka.producer.record_send_total"
        )
        time.sleep(0.5)  # noqa: ASYNC251 (blocks the loop on purpose)
        await collecting
    assert len([each for each in caplog.records if "not exported" in each.message]) == 1


async def test_only_clients_with_metrics(recorded: Recorded) -> None:
    with pytest.raises(TypeError, match="producer or consumer"):
        meter(object(), meter_provider=recorded.meters)  # type: ignore[type-var]
