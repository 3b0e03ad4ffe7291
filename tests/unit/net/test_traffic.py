"""Counting the traffic with one broker."""

import json

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.net.traffic import Traffic, connection_metrics
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.makers import until


def test_latencies_cover_the_last_minute_and_totals_all_time() -> None:
    traffic = Traffic()
    traffic.on_request(100, 0.0)
    traffic.on_response(10, 0.5, 0.5)
    traffic.on_request(100, 1.0)
    traffic.on_response(30, 0.1, 1.1)
    recent = traffic.metrics(10.0)
    assert recent["request-latency-avg"] == pytest.approx(300)
    assert recent["request-latency-max"] == pytest.approx(500)
    assert recent["incoming-byte-rate"] == pytest.approx(4)
    later = traffic.metrics(1000.0)
    assert later["request-latency-avg"] is later["request-latency-max"] is None
    assert later["incoming-byte-rate"] == 0
    assert (later["request-total"], later["response-total"]) == (2, 2)
    assert (later["outgoing-byte-total"], later["incoming-byte-total"]) == (200, 40)
    json.dumps(later, allow_nan=False)


def test_a_connection_brings_what_it_counted_before() -> None:
    traffic, opening = Traffic(), Traffic()
    opening.on_request(7, 0.0)
    opening.on_response(9, 0.1, 0.1)
    traffic.on_connected(opening, 1.0)
    told = connection_metrics([traffic, Traffic()], 2.0)
    assert told["connection-creation-total"] == told["connection-count"] == 1
    assert told["incoming-byte-total"] == 9
    assert told["connection-creation-rate"] == 1
    traffic.closed += 1
    assert connection_metrics([traffic], 2.0)["connection-count"] == 0


async def test_metrics_equal_what_the_brokers_saw() -> None:
    async with FakeCluster(2, topics={"orders": 2}) as cluster:
        cluster.move_leader("orders", 1, 1)
        servers = cluster.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            for partition in (0, 1, 0):
                await producer.send_and_wait("orders", b"x" * 1000, partition=partition)
            nodes = producer.node_metrics()
            assert sorted(nodes) == [0, 1]
            told = producer.metrics()
            assert sum(each["request-total"] or 0 for each in nodes.values()) == len(
                cluster.requests
            )
            for each in nodes.values():
                assert each["request-total"] == each["response-total"]
                average, longest = each["request-latency-avg"], each["request-latency-max"]
                assert average is not None
                assert longest is not None
                assert 0 <= average <= longest  # uvloop's clock counts whole milliseconds
                assert (each["outgoing-byte-total"] or 0) > 1000
                assert (each["incoming-byte-total"] or 0) > 0
            created = sum(each["connection-creation-total"] or 0 for each in nodes.values())
            assert told["connection-creation-total"] == told["connection-count"] == created
            assert cluster.count(ApiKey.API_VERSIONS) == created

            cluster.kill(1)
            await until(lambda: (producer.node_metrics()[1]["connection-lost-total"] or 0) >= 1)
            await producer.send("orders", b"x", partition=1)
            await until(lambda: (producer.node_metrics()[1]["connection-failed-total"] or 0) >= 1)
            assert (producer.metrics()["connection-close-total"] or 0) >= 1
            await cluster.restart(1)
        assert producer.metrics()["connection-count"] == 0
