"""The metrics that Prometheus collects from clients."""

import asyncio
import gc
import json
import re
import time
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the extra `prometheus` is not installed")

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer
from aiokafka_lite.metrics_push.metric_groups import series_name
from aiokafka_lite.prometheus import KafkaCollector
from aiokafka_lite.testing import FakeCluster
from tests.unit.guides import Guide

ROOT = Path(__file__).parents[3]

Labels = frozenset[tuple[str, str]]


def parsed(text: bytes) -> dict[str, dict[Labels, float]]:
    """The samples by name and labels; each series appears once."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = frozenset(sample.labels.items())
            assert labels not in series, sample
            series[labels] = sample.value
    return found


async def scrape(registry: CollectorRegistry) -> dict[str, dict[Labels, float]]:
    """A scrape in a thread, as a server does it."""
    return parsed(await asyncio.to_thread(generate_latest, registry))


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(2, topics={"orders": 3}) as cluster:
        for number in range(5):
            cluster.produce("orders", b"%d" % number, partition=0)
        yield cluster


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def collector(registry: CollectorRegistry) -> KafkaCollector:
    return KafkaCollector(registry, timeout=60)


async def working(cluster: FakeCluster) -> AsyncIterator[list[Any]]:
    """A client of each kind that has done some work; the producer had a transaction."""
    servers = cluster.bootstrap_servers
    async with (
        AIOKafkaProducer(bootstrap_servers=servers, transactional_id="t", client_id="p") as sender,
        AIOKafkaConsumer(
            "orders",
            bootstrap_servers=servers,
            group_id="g",
            client_id="c",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
        ) as consumer,
        AIOKafkaShareConsumer(
            "orders", bootstrap_servers=servers, group_id="s", client_id="w"
        ) as sharer,
    ):
        async with sender.transaction():
            await sender.send_and_wait("orders", b"last", partition=0)
        await consumer.getone()
        await consumer.commit()
        await sharer.getmany(timeout_ms=10)
        async with asyncio.timeout(60):
            while not consumer.metrics()["heartbeat-total"]:
                await asyncio.sleep(0.01)
        yield [sender, consumer, sharer]


clients = pytest.fixture(working)


async def test_values_are_those_of_the_client(
    clients: list[Any], registry: CollectorRegistry, collector: KafkaCollector
) -> None:
    for client in clients:
        collector.add(client)
    found = await scrape(registry)
    consumer = clients[1]
    me = {("client_id", "c"), ("group", "g")}
    name = "kafka_consumer_fetch_manager_records_lag"
    place = {("topic", "orders"), ("partition", "0")}
    assert found[name][frozenset(me | place)] == 6  # of 7 with the marker, one was read
    assert found["kafka_consumer_fetch_manager_records_consumed_total"][frozenset(me)] == 1
    assert found["kafka_consumer_coordinator_commit_total"][frozenset(me)] == 1
    assert found["aiokafka_lite_ready"][frozenset(me)] == 1
    assert found["aiokafka_lite_alive"][frozenset(me)] == 1
    sent = found["kafka_producer_record_send_total"]
    assert sent[frozenset({("client_id", "p"), ("group", "")})] == 1
    nodes = found["kafka_consumer_node_request_total"]
    node = frozenset(me | {("node_id", "node-0")})
    assert 0 < nodes[node] <= consumer.node_metrics()[0]["request-total"]


async def test_every_measured_metric_is_exported(
    clients: list[Any], registry: CollectorRegistry, collector: KafkaCollector
) -> None:
    kinds = ["producer", "consumer", "share consumer"]
    for client in clients:
        collector.add(client)
    found = await scrape(registry)
    for kind, client in zip(kinds, clients, strict=True):
        for metric, value in client.metrics().items():
            if value is not None:
                assert series_name(kind, metric) in found, metric


async def test_types(
    clients: list[Any], registry: CollectorRegistry, collector: KafkaCollector
) -> None:
    for client in clients:
        collector.add(client)
    text = (await asyncio.to_thread(generate_latest, registry)).decode()
    assert "# TYPE kafka_producer_record_send_total counter" in text
    assert "# TYPE kafka_producer_buffer_total_bytes gauge" in text
    assert "# TYPE kafka_consumer_fetch_manager_records_lag gauge" in text
    assert "_created" not in text


async def test_values_that_were_not_measured_are_left_out(
    cluster: FakeCluster, registry: CollectorRegistry, collector: KafkaCollector
) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, client_id="p")
    collector.add(producer)
    found = await scrape(registry)
    assert producer.metrics()["request-latency-avg"] is None
    assert "kafka_producer_request_latency_avg" not in found
    assert list(found["aiokafka_lite_ready"].values()) == [0]
    await producer.stop()


async def test_clients_with_the_same_id_get_numbers(
    cluster: FakeCluster, registry: CollectorRegistry, collector: KafkaCollector
) -> None:
    servers = cluster.bootstrap_servers
    made = [AIOKafkaConsumer(bootstrap_servers=servers, client_id="c") for _ in range(3)]
    for consumer in made:
        collector.add(consumer)
    named = AIOKafkaConsumer(bootstrap_servers=servers, client_id="c")
    collector.add(named, client_id="mine")
    found = await scrape(registry)
    ids = {dict(labels)["client_id"] for labels in found["aiokafka_lite_ready"]}
    assert ids == {"c", "c-2", "c-3", "mine"}
    for consumer in (*made, named):
        await consumer.stop()


async def test_stopped_and_dropped_clients_disappear(
    cluster: FakeCluster, registry: CollectorRegistry, collector: KafkaCollector
) -> None:
    servers = cluster.bootstrap_servers
    stopped = AIOKafkaProducer(bootstrap_servers=servers, client_id="stopped")
    dropped = AIOKafkaProducer(bootstrap_servers=servers, client_id="dropped")
    removed = AIOKafkaProducer(bootstrap_servers=servers, client_id="removed")
    for client in (stopped, dropped, removed):
        collector.add(client)
    assert len((await scrape(registry))["aiokafka_lite_ready"]) == 3
    await stopped.stop()
    collector.remove(removed)
    await removed.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del dropped, client
        gc.collect()
    assert await scrape(registry) == {}


def test_a_client_whose_loop_is_blocked_does_not_block_the_scrape(
    registry: CollectorRegistry,
) -> None:
    """The scrape comes from the main thread, and the loop sleeps in it."""
    collector = KafkaCollector(registry, timeout=0.1)

    async def main() -> None:
        async with FakeCluster() as cluster:
            producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, client_id="p")
            async with producer:
                collector.add(producer)
                scraping = asyncio.ensure_future(scrape(registry))
                await asyncio.sleep(0)
                time.sleep(0.5)  # noqa: ASYNC251 (the loop is to be blocked)
                me = frozenset({("client_id", "p"), ("group", "")})
                assert await scraping == {"aiokafka_lite_scraped": {me: 0.0}}
                # Later it responds again; the abandoned snapshot had no effect.
                async with asyncio.timeout(60):
                    while (await scrape(registry))["aiokafka_lite_scraped"] != {me: 1.0}:
                        pass

    asyncio.run(main())


async def test_scrape_in_the_loop_of_the_client(
    clients: list[Any], registry: CollectorRegistry, collector: KafkaCollector
) -> None:
    for client in clients:
        collector.add(client)
    found = parsed(generate_latest(registry))
    assert set(found["aiokafka_lite_scraped"].values()) == {1.0}


async def test_scrapes_during_rebalances_and_seeks(
    clients: list[Any], registry: CollectorRegistry, collector: KafkaCollector
) -> None:
    """Positions, assignments and brokers change while other threads scrape."""
    consumer = clients[1]
    collector.add(consumer)

    async def scrapes() -> int:
        count = 0
        for _ in range(20):
            found = await scrape(registry)
            assert list(found["aiokafka_lite_scraped"].values()) == [1.0]
            count += 1
        return count

    several = asyncio.gather(*(scrapes() for _ in range(3)))
    while not several.done():
        consumer.unsubscribe()
        consumer.subscribe(["orders"])
        await consumer.getmany(timeout_ms=5)
    assert await several == [20, 20, 20]


def test_bad_arguments() -> None:
    for timeout in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            KafkaCollector(CollectorRegistry(), timeout=timeout)
    with pytest.raises(TypeError, match="producer or consumer"):
        KafkaCollector(CollectorRegistry()).add(object())  # type: ignore[arg-type]  # on purpose


async def test_a_client_is_added_once(cluster: FakeCluster, collector: KafkaCollector) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    collector.add(producer)
    with pytest.raises(ValueError, match="added before"):
        collector.add(producer)
    await producer.stop()


async def test_every_metric_of_the_dashboard_exists(
    clients: list[Any], registry: CollectorRegistry, collector: KafkaCollector
) -> None:
    for client in clients:
        collector.add(client)
    plain = AIOKafkaProducer(bootstrap_servers="localhost:1", client_id="plain")
    collector.add(plain)
    found = await scrape(registry)
    await plain.stop()
    board = json.loads((ROOT / "examples/grafana_dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    names = {name for query in queries for name in re.findall(r"\b(?:kafka|aiokafka)_\w+", query)}
    assert len(names) > 25
    assert names <= found.keys()
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in board["panels"]]
    assert len(set(places)) == len(places)
    assert len({each["id"] for each in board["panels"]}) == len(places)


def test_prefixes_are_those_of_the_guide() -> None:
    rows = Guide("observability.md").table("| prefix | metrics |")
    documented = {row[0].strip("`") for row in rows}
    told = {
        series_name("producer", "record-send-total").removesuffix("record_send_total"),
        series_name("consumer", "connection-count").removesuffix("connection_count"),
        series_name("consumer", "records-lag").removesuffix("records_lag"),
        series_name("consumer", "commit-total").removesuffix("commit_total"),
        series_name("share consumer", "records-buffered").removesuffix("records_buffered"),
        series_name("share consumer", "heartbeat-total").removesuffix("heartbeat_total"),
    }
    assert told | {"kafka_producer_node_", "kafka_consumer_node_", "aiokafka_lite_"} == documented


def test_registers_with_the_global_registry_by_default() -> None:
    collector = KafkaCollector()
    REGISTRY.unregister(collector)
    with pytest.raises(KeyError):
        REGISTRY.unregister(collector)


async def test_failed_scrapes_are_logged_once_until_one_succeeds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> dict[str, float | None]:
        raise LookupError

    async with (
        FakeCluster() as cluster,
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, client_id="p") as producer,
    ):
        registry = CollectorRegistry()
        KafkaCollector(registry).add(producer)
        for expected in (1, 2):
            with monkeypatch.context() as patched:
                patched.setattr(producer, "metrics", fail)
                for _ in range(3):
                    assert b'aiokafka_lite_scraped{client_id="p",group=""} 0.0' in (
                        generate_latest(registry)
                    )
            lines = [each for each in caplog.records if "not scraped" in each.message]
            assert len(lines) == expected
            assert lines[-1].exc_info is not None
            assert b'aiokafka_lite_scraped{client_id="p",group=""} 1.0' in (
                generate_latest(registry)
            )
