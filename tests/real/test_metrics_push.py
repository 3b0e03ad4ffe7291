"""Metrics that clients push to the brokers (KIP-714), as Kafka's own classes decode them.

The brokers have a plugin, `tools/kafka/java/Telemetry.java`, which writes each push to a file.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite import (
    AIOKafkaClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
)
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource, ConfigResourceType
from aiokafka_lite.metrics_push.otlp import Encoder
from aiokafka_lite.metrics_push.push_schedule import SHORTEST_INTERVAL
from aiokafka_lite.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from aiokafka_lite.protocol.messages.push_telemetry import PushTelemetryRequest
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.record.compression import Compression, compress
from aiokafka_lite.testing import FakeCluster
from tools.kafka import KafkaCluster, KafkaNotAvailable
from tools.kafka.java import compiled, run

pytestmark = pytest.mark.real

PATIENCE = 60.0  # seconds
P = "org.apache.kafka.producer."
C = "org.apache.kafka.consumer."

REQUIRED_OF_PRODUCERS = {
    *(f"{P}connection.creation.rate", f"{P}connection.creation.total"),
    *(f"{P}node.request.latency.avg", f"{P}node.request.latency.max"),
    *(f"{P}produce.throttle.time.avg", f"{P}produce.throttle.time.max"),
    *(f"{P}record.queue.time.avg", f"{P}record.queue.time.max"),
}
REQUIRED_OF_CONSUMERS = {
    *(f"{C}connection.creation.rate", f"{C}connection.creation.total"),
    *(f"{C}node.request.latency.avg", f"{C}node.request.latency.max"),
    f"{C}poll.idle.ratio.avg",
    *(f"{C}coordinator.commit.latency.avg", f"{C}coordinator.commit.latency.max"),
    f"{C}coordinator.assigned.partitions",
    *(f"{C}coordinator.rebalance.latency.{end}" for end in ("avg", "max", "total")),
    *(f"{C}fetch.manager.fetch.latency.avg", f"{C}fetch.manager.fetch.latency.max"),
}
"""The required metrics of KIP-714."""


class Collecting:
    """A broker with the plugin.

    Attributes:
        servers: Its address.
        file: Where the plugin writes.
    """

    def __init__(self, servers: str, file: Path) -> None:
        self.servers = servers
        self.file = file

    def pushes(self, client_id: str) -> list[dict[str, Any]]:
        """The pushes of a client."""
        if not self.file.exists():
            return []
        text = self.file.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()
        return [each for each in map(json.loads, lines) if each["client_id"] == client_id]

    async def until(
        self, client_id: str, enough: Callable[[list[dict[str, Any]]], object]
    ) -> list[dict[str, Any]]:
        deadline = time.monotonic() + PATIENCE
        while not enough(pushes := self.pushes(client_id)):
            assert time.monotonic() < deadline, pushes
            await asyncio.sleep(0.02)
        return pushes

    async def subscribe(self, name: str, **settings: str) -> None:
        """Replace a subscription (by default every 100 ms) for clients whose id has this prefix."""
        settings = {"interval_ms": "100", "match": f"client_id={name}.*", **settings}
        async with AIOKafkaAdminClient(bootstrap_servers=self.servers) as admin:
            resource = ConfigResource(
                ConfigResourceType.CLIENT_METRICS,
                name,
                configs={key.replace("_", "."): value for key, value in settings.items()},
            )
            await admin.alter_configs([resource])
        if settings["metrics"]:
            await self._until_known(name, settings["metrics"])

    async def _until_known(self, client_id: str, metrics: str) -> None:
        """Wait until the broker has the subscription: a client asks only once in five minutes."""
        deadline = time.monotonic() + PATIENCE
        async with AIOKafkaClient(bootstrap_servers=self.servers, client_id=client_id) as client:
            node = client.get_random_node()
            assert node is not None
            wanted: set[str] = set()
            while wanted != set(metrics.split(",")):
                assert time.monotonic() < deadline, wanted
                answer = await client.send(node, GetTelemetrySubscriptionsRequest())
                wanted = set(answer.requested_metrics)
                await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    file = tmp_path_factory.mktemp("telemetry") / "pushes.jsonl"
    config = {"metric.reporters": "Telemetry", "telemetry.file": file}
    with ExitStack() as stack:
        try:
            cluster = KafkaCluster(config=config, plugins=[compiled("Telemetry")])
            stack.enter_context(cluster)
        except KafkaNotAvailable as error:
            pytest.skip(f"no real Kafka: {error}")
        cluster.create_topic("orders", 2)
        yield Collecting(cluster.bootstrap_servers, file)


@pytest.fixture
async def collecting(broker: Collecting, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A separate client id, to which a subscription to all metrics applies."""
    name = request.node.name
    await broker.subscribe(name, metrics="*")
    yield name
    await broker.subscribe(name, metrics="", interval_ms="3600000")


def names(push: dict[str, Any]) -> set[str]:
    return {metric["name"] for metric in push["metrics"]}


def value(push: dict[str, Any], name: str) -> float:
    """The value of a metric with one point."""
    (metric,) = (metric for metric in push["metrics"] if metric["name"] == name)
    (point,) = metric["points"]
    return float(point["value"])


def total(pushes: list[dict[str, Any]], name: str) -> float:
    """The sum of a counter's deltas."""
    return sum(value(push, name) for push in pushes if name in names(push))


async def test_a_producer_pushes_what_kip_714_requires(broker: Collecting, collecting: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.servers, client_id=collecting)
    before = time.time_ns()
    async with producer:
        identity = await producer.client_instance_id(PATIENCE)
        for number in range(100):
            await producer.send_and_wait("orders", b"%d" % number)
        await broker.until(collecting, lambda pushes: total(pushes, f"{P}record.send.total") == 100)
        own = producer.metrics()
    ended = producer.metrics()
    pushes = await broker.until(collecting, lambda pushes: pushes[-1]["terminating"])
    assert not any(push["terminating"] for push in pushes[:-1])
    assert {push["instance"] for push in pushes} == {_as_java(identity.bytes)}
    last = pushes[-1]
    assert names(last) >= REQUIRED_OF_PRODUCERS
    # The differences add up to the totals, and nothing is counted twice.
    assert total(pushes, f"{P}record.send.total") == 100
    assert total(pushes, f"{P}connection.creation.total") == own["connection-creation-total"]
    for metric in ("record-queue-time-max", "request-latency-max", "batch-size-max"):
        before_stop, after_stop = own[metric], ended[metric]
        assert before_stop is not None
        assert after_stop is not None
        # A push is a request, too: on a busy machine it may take the longest.
        found = value(last, P + metric.replace("-", "."))
        assert before_stop - 1e-6 <= found <= after_stop + 1e-6
    for metric in last["metrics"]:
        is_total = metric["name"].endswith(".total")
        assert metric["kind"] == ("SUM" if is_total else "GAUGE")
        if is_total:
            assert metric["temporality"] == 1
            assert metric["monotonic"]
        for point in metric["points"]:
            assert before < point["time"] < time.time_ns()
            if is_total:
                assert point["start"] == pushes[-2]["metrics"][0]["points"][0]["time"]
    (latency,) = (m for m in last["metrics"] if m["name"] == f"{P}node.request.latency.max")
    assert [point["attributes"] for point in latency["points"]] == [{"node_id": "node-0"}]


async def test_a_consumer_pushes_what_kip_714_requires(broker: Collecting, collecting: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.servers) as producer:
        for number in range(10):
            await producer.send_and_wait("orders", b"%d" % number, partition=number % 2)
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=broker.servers,
        client_id=collecting,
        group_id=collecting,
        group_instance_id="first",
        client_rack="rack-a",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            await consumer.getmany(timeout_ms=1000)
        await consumer.commit()
        count = len(broker.pushes(collecting))
        pushes = await broker.until(collecting, lambda pushes: len(pushes) >= count + 2)
        member = consumer.group_metadata().member_id
        own = consumer.metrics()
    last = pushes[-1]
    assert names(last) >= REQUIRED_OF_CONSUMERS
    assert last["resource"] == {
        "client_rack": "rack-a",
        "group_id": collecting,
        "group_instance_id": "first",
        "group_member_id": member,
    }
    assert value(last, f"{C}coordinator.assigned.partitions") == 2
    assert value(last, f"{C}coordinator.commit.latency.max") == own["commit-latency-max"]
    lags = [m for m in last["metrics"] if m["name"] == f"{C}fetch.manager.records.lag"]
    points = [point for metric in lags for point in metric["points"]]
    found = sorted((point["attributes"]["partition"], point["value"]) for point in points)
    assert found == [("0", 0.0), ("1", 0.0)]
    assert {point["attributes"]["topic"] for point in points} == {"orders"}
    final = await broker.until(collecting, lambda pushes: pushes[-1]["terminating"])
    assert value(final[-1], f"{C}coordinator.assigned.partitions") == 2  # from before it left


async def test_share_consumers_and_admin_clients_push(broker: Collecting, collecting: str) -> None:
    ids = {"share": f"{collecting}-share", "admin": f"{collecting}-admin"}
    async with (
        AIOKafkaShareConsumer(
            "orders", bootstrap_servers=broker.servers, client_id=ids["share"], group_id="sharing"
        ),
        AIOKafkaAdminClient(
            bootstrap_servers=broker.servers, client_id=ids["admin"], enable_metrics_push=True
        ),
    ):
        (share, *_), (admin, *_) = [await broker.until(each, bool) for each in ids.values()]
    assert f"{C}share.coordinator.assigned.partitions" in names(share)
    assert share["resource"]["group_id"] == "sharing"
    assert "org.apache.kafka.admin.client.connection.creation.total" in names(admin)
    assert admin["resource"] == {}


async def test_a_client_pushes_only_what_is_wanted(broker: Collecting, collecting: str) -> None:
    wanted = f"{P}record.send,com.example.pending"
    await broker.subscribe(collecting, metrics=wanted)
    producer = AIOKafkaProducer(bootstrap_servers=broker.servers, client_id=collecting)
    producer.register_metric_for_subscription(
        "com.example.pending", lambda: 7, attributes={"queue": "a"}
    )
    producer.register_metric_for_subscription("com.example.other", lambda: 8)
    async with producer:
        pushes = await broker.until(collecting, bool)
        assert names(pushes[0]) == {
            *(f"{P}record.send.rate", f"{P}record.send.total", "com.example.pending"),
        }
        (metric,) = (m for m in pushes[0]["metrics"] if m["name"] == "com.example.pending")
        assert metric["points"][0]["value"] == 7
        assert metric["points"][0]["attributes"] == {"queue": "a"}
        # The subscription changes: the broker answers UNKNOWN_SUBSCRIPTION_ID to the next push.
        await broker.subscribe(collecting, metrics="com.example.other")
        await broker.until(collecting, lambda ps: names(ps[-1]) == {"com.example.other"})


@pytest.mark.long
async def test_a_failing_plugin_does_not_disturb_the_client(broker: Collecting) -> None:
    await broker.subscribe("refused", metrics="*")
    async with AIOKafkaProducer(bootstrap_servers=broker.servers, client_id="refused") as producer:
        await producer.client_instance_id(PATIENCE)
        pushing = producer._push._pushing
        assert pushing is not None
        push = pushing.schedule
        deadline = time.monotonic() + PATIENCE
        while not push.off:  # after INVALID_RECORD
            assert time.monotonic() < deadline
            await asyncio.sleep(SHORTEST_INTERVAL)
        await producer.send_and_wait("orders", b"still")
        assert producer.health().ready
    assert broker.pushes("refused") == []


@pytest.mark.long
async def test_names_and_attributes_are_those_of_javas_producer(
    broker: Collecting, collecting: str
) -> None:
    """Java's producer pushes to the same plugin, under the same names where both have a metric."""
    arguments = ["--topic", "orders", "--num-records", "2000", "--record-size", "10"]
    arguments += ["--throughput", "1000", "--producer-props"]
    arguments += [f"bootstrap.servers={broker.servers}", f"client.id={collecting}-java"]
    await asyncio.to_thread(run, "org.apache.kafka.tools.ProducerPerformance", arguments)
    async with AIOKafkaProducer(
        bootstrap_servers=broker.servers, client_id=f"{collecting}-ours"
    ) as producer:
        await producer.send_and_wait("orders", b"one")
    java, ours = (
        {
            metric["name"]: metric
            for push in broker.pushes(f"{collecting}-{each}")
            for metric in push["metrics"]
        }
        for each in ("java", "ours")
    )
    assert java.keys() >= REQUIRED_OF_PRODUCERS
    common = java.keys() & ours.keys()
    assert common >= REQUIRED_OF_PRODUCERS
    for name in common:
        assert java[name]["kind"] == ours[name]["kind"], name
        attributes = [
            {frozenset(p["attributes"]) for p in each[name]["points"]} for each in (java, ours)
        ]
        assert attributes[0] == attributes[1], name


def _as_java(identity: bytes) -> str:
    """A UUID as Kafka writes it."""
    return base64.urlsafe_b64encode(identity).rstrip(b"=").decode()


async def outcomes(servers: str, unique: str) -> list[tuple[str, object]]:
    """A broker's responses to a client that breaks every rule."""
    told: list[tuple[str, object]] = []
    settings = {"metrics": "org.b,org.a", "interval.ms": "3600000", "match": f"client_id={unique}"}
    async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
        resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, unique, configs=settings)
        await admin.alter_configs([resource])
    async with AIOKafkaClient(bootstrap_servers=servers, client_id=unique) as client:
        node = client.get_random_node()
        assert node is not None

        async def ask(what: str, identity: UUID = ZERO_UUID) -> Any:
            answer = await client.send(node, GetTelemetrySubscriptionsRequest(identity))
            told.append((what, answer.error_code))
            return answer

        async def push(what: str, answer: Any, **changes: Any) -> None:
            request = PushTelemetryRequest(answer.client_instance_id, answer.subscription_id)
            for name, value in changes.items():
                setattr(request, name, value)
            told.append((what, (await client.send(node, request)).error_code))

        deadline = time.monotonic() + PATIENCE
        while not (answer := await ask("waits")).requested_metrics:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        del told[:]
        told.append(
            (
                "subscription",
                (
                    answer.push_interval_ms,
                    answer.telemetry_max_bytes,
                    answer.delta_temporality,
                    answer.accepted_compression_types,
                    sorted(answer.requested_metrics),
                ),
            )
        )
        assert answer.client_instance_id != ZERO_UUID
        again = await ask("asks early", answer.client_instance_id)
        assert again.client_instance_id in (ZERO_UUID, answer.client_instance_id)
        await push("another subscription", answer, subscription_id=answer.subscription_id ^ 1)
        await ask("asks after that", answer.client_instance_id)
        await push("the right one, early", answer)

        answer = await ask("a second client")
        await push("an unknown codec", answer, compression_type=9)
        await ask("asks after that", answer.client_instance_id)

        answer = await ask("a third client")
        await push("too large", answer, metrics=bytes(answer.telemetry_max_bytes + 1))

        answer = await ask("a fourth client")
        data = Encoder(start_ns=1, now_ns=2, delta=True).finish({})
        await push("gzip", answer, metrics=compress(data, Compression.GZIP), compression_type=1)
        await push("once more", answer, metrics=data)
        await push("the last one", answer, metrics=data, terminating=True)
        await push("after the last one", answer, metrics=data)
        await push("after the last one", answer, metrics=data, terminating=True)
        await ask("asks after the last one", answer.client_instance_id)

        answer = await ask("a fifth client")
        await push("not what the codec says", answer, metrics=b"plain", compression_type=1)

        await push("no instance id", answer, client_instance_id=ZERO_UUID)
        await push("an id of its own", answer, client_instance_id=UUID(int=2**80 + 7))
    return told


async def test_the_embedded_broker_answers_as_kafka_does(broker: Collecting) -> None:
    expected = await outcomes(broker.servers, "unruly")
    async with FakeCluster(collect_metrics=True) as cluster:
        assert await outcomes(cluster.bootstrap_servers, "unruly") == expected
    assert len(expected) > 20
