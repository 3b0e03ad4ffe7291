"""Clients that push metrics to the embedded broker."""

import asyncio
import logging
import random
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from math import inf
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, AIOKafkaShareConsumer
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource
from aiokafka_lite.errors import (
    IllegalStateError,
    InvalidRecordError,
    KafkaTimeoutError,
    ThrottlingQuotaExceededError,
    UnsupportedVersionError,
)
from aiokafka_lite.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsResponse,
)
from aiokafka_lite.protocol.messages.push_telemetry import PushTelemetryRequest
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.telemetry.telemetry_instances import PushedMetrics
from tests.unit.metrics_push.otlp_reader import decoded

PATIENCE = 60.0


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 2}, collect_metrics=True) as cluster:
        yield cluster


async def subscribe(cluster: FakeCluster, **settings: str) -> None:
    configs = {"metrics": "*", "interval.ms": "100"}
    configs |= {key.replace("_", "."): value for key, value in settings.items()}
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        await admin.alter_configs([ConfigResource("client_metrics", "all", configs=configs)])


async def until(cluster: FakeCluster, count: int = 1, client: str = "me") -> list[PushedMetrics]:
    async with asyncio.timeout(PATIENCE):
        while len(pushes := cluster.pushed_metrics(client)) < count:
            await asyncio.sleep(0.005)
    return pushes


def producer_of(cluster: FakeCluster, **options: object) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="me",
        **options,  # type: ignore[arg-type]
    )


def values(push: PushedMetrics) -> dict[str, float]:
    """The first point of each metric."""
    return {name: points[0][0] for name, _, points, _ in decoded(push.data)[1]}


def total(pushes: list[PushedMetrics], name: str) -> float:
    return sum(values(push).get(name, 0.0) for push in pushes)


async def test_differences_add_up_and_the_last_push_is_at_stop(cluster: FakeCluster) -> None:
    await subscribe(cluster)
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("orders", b"one")
        await until(cluster)
        await producer.send_and_wait("orders", b"two")
        await until(cluster, 3)
        await producer.send_and_wait("orders", b"three")
        identity = await producer.client_instance_id()
    pushes = cluster.pushed_metrics("me")
    assert [push.terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert {push.client_instance_id for push in pushes} == {identity}
    assert total(pushes, "org.apache.kafka.producer.record.send.total") == 3
    starts = [decoded(push.data)[1] for push in pushes]
    name = "org.apache.kafka.producer.record.send.total"
    times = [next(points[0] for n, _, points, _ in each if n == name) for each in starts]
    assert [later[1] for later in times[1:]] == [earlier[2] for earlier in times[:-1]]


async def test_a_refused_push_is_part_of_the_next_one(cluster: FakeCluster) -> None:
    await subscribe(cluster)
    refused = cluster.control(ApiKey.PUSH_TELEMETRY, error=ThrottlingQuotaExceededError)
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("orders", b"one")
        await until(cluster)
    assert refused.hits == 1
    assert total(cluster.pushed_metrics("me"), "org.apache.kafka.producer.record.send.total") == 1


async def test_brokers_that_do_not_collect_metrics_get_no_request() -> None:
    async with FakeCluster() as cluster, producer_of(cluster) as producer:
        assert producer._push._task is None
        with pytest.raises(UnsupportedVersionError, match="do not collect metrics"):
            await producer.client_instance_id()
        producer.register_metric_for_subscription("com.example.a", lambda: 1.0)
        producer.unregister_metric_from_subscription("com.example.a")


CLIENTS = """
import asyncio, sys
from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer

async def main(servers):
    start = {"auto_offset_reset": "earliest"}
    async with (
        AIOKafkaProducer(bootstrap_servers=servers) as producer,
        AIOKafkaConsumer("orders", bootstrap_servers=servers, **start) as reader,
    ):
        await producer.send_and_wait("orders", b"one")
        await reader.getone()

asyncio.run(main(sys.argv[1]))
modules = ("push_task", "push_schedule", "metric_points", "otlp")
print([name for name in modules if f"aiokafka_lite.metrics_push.{name}" in sys.modules])
"""


@pytest.mark.parametrize("collects", [False, True])
async def test_modules_are_loaded_only_if_brokers_collect_metrics(collects: bool) -> None:
    async with FakeCluster(topics={"orders": 1}, collect_metrics=collects) as cluster:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CLIENTS, cluster.bootstrap_servers), stdout=PIPE
        )
        async with asyncio.timeout(PATIENCE):
            out, _ = await child.communicate()
    assert child.returncode == 0
    found = ["push_task", "push_schedule", "metric_points", "otlp"] if collects else []
    assert out.decode().strip() == str(found)


async def test_it_can_be_disabled(cluster: FakeCluster) -> None:
    await subscribe(cluster)
    async with producer_of(cluster, enable_metrics_push=False) as producer:
        assert producer._push._task is None
        with pytest.raises(IllegalStateError, match="enable_metrics_push=False"):
            await producer.client_instance_id()
    assert cluster.pushed_metrics() == []
    with pytest.raises(TypeError, match="enable_metrics_push"):
        producer_of(cluster, enable_metrics_push="no")


async def test_without_a_subscription_there_is_one_question_and_an_id(cluster: FakeCluster) -> None:
    async with producer_of(cluster) as producer:
        assert (await producer.client_instance_id(PATIENCE)).version == 4
    assert cluster.pushed_metrics() == []


async def test_the_instance_id_of_a_client_that_is_not_running(cluster: FakeCluster) -> None:
    producer = producer_of(cluster)
    with pytest.raises(IllegalStateError, match="not started"):
        await producer.client_instance_id()
    async with producer:
        for timeout, error in ((-1, ValueError), ("1", TypeError), (True, TypeError)):
            with pytest.raises(error, match="timeout"):
                await producer.client_instance_id(timeout)  # type: ignore[arg-type]
    await producer.stop()


async def test_a_broker_that_does_not_answer_delays_nothing_else(cluster: FakeCluster) -> None:
    cluster.control(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, drop=True)
    async with producer_of(cluster) as producer:
        with pytest.raises(KafkaTimeoutError, match=r"within 0\.01 s"):
            await producer.client_instance_id(0.01)
        await producer.send_and_wait("orders", b"one")
        assert await producer.client.ping(PATIENCE) < PATIENCE
        assert producer.health().ready


async def test_a_client_stops_although_the_plugin_hangs(cluster: FakeCluster) -> None:
    await subscribe(cluster)
    producer = producer_of(cluster)
    await producer.start()
    await until(cluster)
    cluster.control(ApiKey.PUSH_TELEMETRY, times=None, drop=True)
    async with asyncio.timeout(PATIENCE):
        await producer.stop()
    assert not cluster.pushed_metrics("me")[-1].terminating


async def test_a_plugin_that_fails_ends_the_pushes(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await subscribe(cluster)
    cluster.control(ApiKey.PUSH_TELEMETRY, error=InvalidRecordError)
    caplog.set_level(logging.INFO, "aiokafka_lite")
    async with producer_of(cluster) as producer:
        task = producer._push._task
        assert task is not None
        async with asyncio.timeout(PATIENCE):
            await task
        await producer.send_and_wait("orders", b"one")
        assert producer.health().ready
    assert [each for each in caplog.records if "metric" in each.message] == []


async def test_metrics_of_the_application(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await subscribe(cluster, metrics="com.example.")
    producer = producer_of(cluster)
    jobs = 0

    def broken() -> float:
        raise ZeroDivisionError

    def count() -> float:
        nonlocal jobs
        jobs += 5
        return jobs

    register = producer.register_metric_for_subscription
    register("com.example.broken", broken)
    register("com.example.queue", lambda: 1, attributes={"b": "2", "a": "1"})
    register("com.example.queue", lambda: 2, attributes={"a": "1", "b": "2"})  # replaces it
    register("com.example.jobs", count, monotonic=True)
    register("com.other", lambda: 3)
    async with producer:
        first, second = (await until(cluster, 2))[:2]
        producer.unregister_metric_from_subscription("com.example.jobs")
        producer.unregister_metric_from_subscription("com.example.unknown")
        seen = len(cluster.pushed_metrics("me"))
        last = (await until(cluster, seen + 2))[-1]
    assert values(first) == values(second) == {"com.example.queue": 2, "com.example.jobs": 5}
    assert values(last) == {"com.example.queue": 2}
    (line,) = [each for each in caplog.records if "com.example.broken" in each.message]
    assert line.kafka_client_id == "me"  # type: ignore[attr-defined]


async def test_metrics_that_cannot_be_registered(cluster: FakeCluster) -> None:
    async with producer_of(cluster) as producer:
        register = producer.register_metric_for_subscription

        async def later() -> float:
            return 1.0

        for name in ("", "a" * 256, "a\n", "\ud800", "org.apache.kafka.producer.mine"):
            with pytest.raises(ValueError, match="name"):
                register(name, lambda: 1)
        with pytest.raises(TypeError, match="`name`"):
            register(None, lambda: 1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="`measure`"):
            register("a", 1.0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="coroutine function"):
            register("a", later)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="`monotonic`"):
            register("a", lambda: 1, monotonic=1)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="`attributes`"):
            register("a", lambda: 1, attributes=[("a", "b")])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="attribute 'a'"):
            register("a", lambda: 1, attributes={"a": 1})  # type: ignore[dict-item]
        with pytest.raises(ValueError, match="attribute 'a'"):
            register("a", lambda: 1, attributes={"a": ""})


async def test_a_push_that_is_too_large_drops_the_metrics_of_the_application() -> None:
    async with FakeCluster(
        collect_metrics=True, broker_configs={"telemetry.max.bytes": 10_000}
    ) as cluster:
        await subscribe(cluster)
        producer = producer_of(cluster)
        for number in range(1000):
            name = f"com.example.{random.randbytes(20).hex()}"
            producer.register_metric_for_subscription(name, lambda value=number: value)
        async with producer:
            (first,) = (await until(cluster))[:1]
        assert not [name for name in values(first) if name.startswith("com.")]
        assert values(first)


@pytest.mark.parametrize("instance", ["me", "other"])
async def test_a_subscription_matches_some_clients(cluster: FakeCluster, instance: str) -> None:
    pattern = "client_id=m.,client_software_name=aiokafka.*,client_source_address=127.0.0.1"
    await subscribe(cluster, match=pattern)
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, client_id=instance
    ) as producer:
        await producer.client_instance_id(PATIENCE)
        if instance == "me":
            await until(cluster)
    assert {push.client_id for push in cluster.pushed_metrics()} == {"me"} & {instance}


async def test_partitions_of_a_consumer(cluster: FakeCluster) -> None:
    await subscribe(cluster, metrics="org.apache.kafka.consumer.fetch.manager.records.lag")
    for _ in range(3):
        cluster.produce("orders", b"one", partition=1)
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="me",
        group_id="g",
        client_rack="a",
        auto_offset_reset="earliest",
    ) as consumer:
        await consumer.getone()
        seen = len(cluster.pushed_metrics("me"))
        push = (await until(cluster, seen + 2))[-1]
        member = consumer.group_metadata().member_id
    resource, metrics = decoded(push.data)
    assert resource == {"client_rack": "a", "group_id": "g", "group_member_id": member}
    lags = {name.rpartition(".")[2]: points for name, _, points, _ in metrics}
    assert {(each[3]["partition"], each[0]) for each in lags["lag"]} == {("0", 0.0), ("1", 2.0)}


async def test_a_producer_names_its_rack_and_transactional_id(cluster: FakeCluster) -> None:
    await subscribe(cluster)
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="me",
        transactional_id="t",
        client_rack="a",
    ):
        push = (await until(cluster))[-1]
    assert decoded(push.data)[0] == {"transactional_id": "t", "client_rack": "a"}


async def test_the_last_push_has_the_partitions(cluster: FakeCluster) -> None:
    await subscribe(cluster)
    cluster.produce("orders", b"one", partition=1)
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        client_id="me",
        auto_offset_reset="earliest",
    ) as consumer:
        await consumer.getone()
        pushing = consumer._core.push._pushing
        assert pushing is not None
        schedule = pushing.schedule
        async with asyncio.timeout(PATIENCE):
            while not cluster.pushed_metrics("me") or schedule.next_wakeup() == inf:
                await asyncio.sleep(0)  # until no push is under way
    last = cluster.pushed_metrics("me")[-1]
    assert last.terminating
    assert values(last)["org.apache.kafka.consumer.coordinator.assigned.partitions"] == 2
    names = {name: points for name, _, points, _ in decoded(last.data)[1]}
    assert len(names["org.apache.kafka.consumer.fetch.manager.records.lag"]) == 2


async def test_share_consumers_and_admin_clients(cluster: FakeCluster) -> None:
    await subscribe(cluster)
    servers = cluster.bootstrap_servers
    async with (
        AIOKafkaShareConsumer("orders", bootstrap_servers=servers, client_id="s", group_id="g"),
        AIOKafkaAdminClient(bootstrap_servers=servers, client_id="a", enable_metrics_push=True),
        AIOKafkaAdminClient(bootstrap_servers=servers, client_id="b"),
    ):
        (share, *_), (admin, *_) = await until(cluster, 1, "s"), await until(cluster, 1, "a")
    assert "org.apache.kafka.consumer.share.coordinator.assigned.partitions" in values(share)
    assert decoded(share.data)[0]["group_id"] == "g"
    assert "org.apache.kafka.admin.client.connection.count" in values(admin)
    assert cluster.pushed_metrics("b") == []
    assert cluster.pushed_metrics("a")[-1].terminating


async def test_a_dropped_producer_ends_its_task(cluster: FakeCluster) -> None:
    producer = producer_of(cluster)
    await producer.start()
    task = producer._push._task
    assert task is not None
    with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaProducer"):
        del producer
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait({task})
    assert task.cancelled()


@pytest.mark.parametrize("topics", [(), ("orders",)], ids=["no topics", "old group"])
async def test_a_share_consumer_that_opens_no_session_at_start_pushes_metrics(
    cluster: FakeCluster, topics: tuple[str, ...]
) -> None:
    earliest = ConfigResource("group", "g", configs={"share.auto.offset.reset": "earliest"})
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        await admin.alter_configs([earliest])
    await subscribe(cluster)
    servers = cluster.bootstrap_servers
    async with AIOKafkaShareConsumer(
        *topics, bootstrap_servers=servers, client_id="s", group_id="g"
    ) as consumer:
        assert await consumer.client_instance_id()
        await until(cluster, client="s")


@pytest.mark.parametrize("kind", ["producer", "consumer", "share consumer", "admin"])
async def test_every_kind_of_client_has_an_id_and_takes_metrics(
    cluster: FakeCluster, kind: str
) -> None:
    await subscribe(cluster, metrics="com.example.")
    servers = cluster.bootstrap_servers
    client: Any = {
        "producer": lambda: producer_of(cluster),
        "consumer": lambda: AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, client_id="me", group_id="g"
        ),
        "share consumer": lambda: AIOKafkaShareConsumer(
            "orders", bootstrap_servers=servers, client_id="me", group_id="g"
        ),
        "admin": lambda: AIOKafkaAdminClient(
            bootstrap_servers=servers, client_id="me", enable_metrics_push=True
        ),
    }[kind]()
    client.register_metric_for_subscription("com.example.a", lambda: 1)
    client.register_metric_for_subscription("com.example.b", lambda: 2)
    client.unregister_metric_from_subscription("com.example.b")
    async with client:
        identity = await client.client_instance_id(PATIENCE)
        (push, *_) = await until(cluster)
    assert push.client_instance_id == identity
    assert values(push) == {"com.example.a": 1}


async def test_an_admin_client_over_another_ones_connections_pushes_nothing(
    cluster: FakeCluster,
) -> None:
    async with producer_of(cluster) as producer:
        admin = AIOKafkaAdminClient.of(producer.client)
        with pytest.raises(IllegalStateError, match="enable_metrics_push=False"):
            await admin.client_instance_id()


@pytest.mark.parametrize("codec", list(Compression))
async def test_the_brokers_favorite_codec_is_used(cluster: FakeCluster, codec: Compression) -> None:
    await subscribe(cluster)
    seen: list[PushTelemetryRequest] = []

    def watch(request: PushTelemetryRequest) -> bool:
        seen.append(request)
        return False

    def prefer(response: GetTelemetrySubscriptionsResponse) -> None:
        response.accepted_compression_types = [99, -1, codec, Compression.GZIP]

    edit = {"times": None, "after_handling": True, "edit": prefer}
    cluster.control(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, **edit)  # type: ignore[arg-type]
    cluster.control(ApiKey.PUSH_TELEMETRY, when=watch)  # type: ignore[arg-type]
    async with producer_of(cluster):
        pushes = await until(cluster)
    assert {request.compression_type for request in seen} == {codec}
    assert "org.apache.kafka.producer.connection.count" in values(pushes[0])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("push_interval_ms", 2**31 - 1),
        ("push_interval_ms", -(2**31)),
        ("push_interval_ms", 0),
        ("telemetry_max_bytes", -1),
        ("telemetry_max_bytes", 0),
        ("subscription_id", -(2**31)),
        ("client_instance_id", ZERO_UUID),
        ("accepted_compression_types", [5, 127, -128] * 1000),
        ("requested_metrics", ["\0", "é" * 10_000, "*" * 300]),
        ("requested_metrics", [""] * 10_001),
        ("error_code", -1),
        ("error_code", 32_767),
        ("throttle_time_ms", -1),
    ],
)
async def test_a_hostile_subscription_does_not_disturb_the_client(
    cluster: FakeCluster, field: str, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    await subscribe(cluster)
    edit = {"edit": lambda response: setattr(response, field, value)}
    fault = cluster.control(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, times=None, after_handling=True, **edit
    )
    async with producer_of(cluster) as producer:
        async with asyncio.timeout(PATIENCE):
            while not fault.hits:
                await asyncio.sleep(0.005)
        await producer.send_and_wait("orders", b"one")
        task = producer._push._task
        assert task is not None
        assert not task.done() or task.exception() is None
        assert producer.health().ready
    assert [each for each in caplog.records if each.levelname != "INFO"] == []
    assert cluster.count(ApiKey.PUSH_TELEMETRY) < 50


async def test_a_connection_that_is_cut_during_a_push_leaves_the_client_alone(
    cluster: FakeCluster,
) -> None:
    await subscribe(cluster)
    fault = cluster.control(ApiKey.PUSH_TELEMETRY, disconnect=True)
    async with producer_of(cluster) as producer:
        async with asyncio.timeout(PATIENCE):
            while not fault.hits:
                await asyncio.sleep(0.005)
        await producer.send_and_wait("orders", b"one")
        pushing = producer._push._pushing
        assert pushing is not None
        schedule = pushing.schedule
        async with asyncio.timeout(PATIENCE):
            while schedule.next_wakeup() == inf:
                await asyncio.sleep(0.005)
        assert schedule.next_wakeup() > asyncio.get_running_loop().time() + 200
        assert not schedule.off
