"""The text of metrics equals that of `prometheus_client`, byte for byte."""

import asyncio
from collections.abc import Iterable

import pytest

pytest.importorskip("prometheus_client", reason="the extra `prometheus` is not installed")

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, Info
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.prometheus import KafkaCollector, generate_latest
from aiokafka_lite.prometheus.families import Family, LabelSet
from aiokafka_lite.testing import FakeCluster


class Fixed(Collector):
    """Collects the same metrics each time."""

    def __init__(self, *metrics: Metric) -> None:
        self.metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self.metrics


@given(
    name=st.sampled_from(["kafka_consumer_records_lag", "kafka_producer_record_send_total"]),
    rows=st.lists(st.tuples(st.text(), st.text(), st.floats()), max_size=5),
)
def test_text_equals_that_of_prometheus_client(
    name: str, rows: list[tuple[str, str, float]]
) -> None:
    def family() -> Family:
        made = Family(name)
        for client_id, topic, value in rows:
            labels = LabelSet(("topic", "client_id"), (topic, client_id))
            made.add(labels, value)
        return made

    try:
        expected = prometheus_client.generate_latest(Fixed(family()))
    except UnicodeEncodeError:  # a lone surrogate, which cannot be encoded
        with pytest.raises(UnicodeEncodeError):
            generate_latest(Fixed(family()))
    else:
        assert generate_latest(Fixed(family())) == expected


@pytest.mark.parametrize("value", [0.0, -0.0, 5.0, 999999.0, 1e6, 123456789.0, 1e-7, -1e9, 1e22])
def test_values_are_written_as_prometheus_client_does(value: float) -> None:
    def fixed() -> Fixed:
        family = Family("lag")
        family.add(LabelSet(("a",), ("b",)), value)
        return Fixed(family)

    assert generate_latest(fixed()) == prometheus_client.generate_latest(fixed())


def test_other_metrics_of_the_registry_keep_their_place() -> None:
    registry = CollectorRegistry(target_info={"service": "shop"})
    Counter("orders", "Orders", ["kind"], registry=registry).labels("big").inc()
    family = Family("lag")
    family.extend([(LabelSet(("topic",), ('a\n\\"b',)), 3.0)])
    registry.register(Fixed(family))
    Histogram("latency", "Latency", registry=registry).observe(0.2)
    Info("build", "Build", registry=registry).info({"version": "1"})
    found = generate_latest(registry)
    assert found == prometheus_client.generate_latest(registry)
    assert b'lag{topic="a\\n\\\\\\"b"} 3.0\n' in found


def test_samples_that_another_collector_changed_are_written_as_changed() -> None:
    family = Family("lag")
    labels = LabelSet(("topic",), ("orders",))
    family.add(labels, 3.0)
    for sample in family.samples:
        sample.labels["site"] = "north"
    assert b'lag{site="north",topic="orders"} 3.0\n' in generate_latest(Fixed(family))
    assert labels.by_name == {"topic": "orders"}
    family.samples = []
    assert b"orders" not in generate_latest(Fixed(family))


def test_a_restricted_registry_is_written_too() -> None:
    registry = CollectorRegistry(support_collectors_without_names=True)
    one, two = Family("one"), Family("two")
    for family in (one, two):
        family.add(LabelSet(("topic",), ("orders",)), 3.0)
    registry.register(Fixed(one, two))
    found = generate_latest(registry.restricted_registry(["two"]))
    assert b"two{" in found
    assert b"one{" not in found


async def test_labels_follow_the_assignment() -> None:
    """Labels are cached between scrapes, except those of revoked partitions."""
    async with FakeCluster(topics={"orders": 600, "other": 2}) as cluster:
        registry = CollectorRegistry()
        collector = KafkaCollector(registry, timeout=60)
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, client_id="c"
        ) as consumer:
            collector.add(consumer)
            for topic, count in (("orders", 600), ("orders", 600), ("other", 2)):
                consumer.subscribe([topic])
                async with asyncio.timeout(60):
                    while True:
                        await consumer.getmany(timeout_ms=10)
                        text = await asyncio.to_thread(generate_latest, registry)
                        lags = [
                            line
                            for line in text.splitlines()
                            if line.startswith(b"kafka_consumer_fetch_manager_records_lag{")
                        ]
                        if len(lags) == count and all(topic.encode() in each for each in lags):
                            break
                assert len(set(lags)) == count
            (source,) = collector._sources
            assert {tp.topic for tp in source.partitions} == {"other"}
