"""Configurations of topics, brokers, loggers, groups and client metrics."""

from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from tempfile import gettempdir

import pytest

from aiokafka_lite.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from aiokafka_lite.protocol.messages.describe_configs import DescribeConfigsResponse
from aiokafka_lite.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.conformance.administering import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    HARNESS,
    LOGGER,
    TOPIC,
    alter,
    describe,
)
from tests.conformance.conftest import Compare
from tests.conformance.target import Target

SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.mark.parametrize("version", range(1, 5))
async def test_describing_a_topic(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1, **{"retention.ms": 5000, "cleanup.policy": "compact"})
        await target.ask(describe(TOPIC, topic), version)
        await target.ask(describe(TOPIC, topic, synonyms=False), version)
        await target.ask(describe(TOPIC, topic, "retention.ms", "nope"), version)

    await compare(scenario, broker_configs=HARNESS)


async def test_documentation(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        await target.ask(describe(TOPIC, topic, "retention.ms", documentation=True), 4)

    await compare(scenario, broker_configs=HARNESS)


async def test_describing_a_broker(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        asked = ["num.io.threads", "log.retention.ms", "num.partitions", "log.roll.ms", "nope"]
        asked += ["ssl.key.password", "min.insync.replicas", "message.max.bytes", "node.id"]
        asked += ["broker.id", "log.retention.minutes", "group.consumer.assignors"]
        for version in range(1, 5):
            await target.ask(describe(BROKER, "0", *asked), version)
        await target.ask(describe(BROKER, ""), 4)

    await compare(scenario, broker_configs=HARNESS)


HARNESS_SETS = (
    *("broker.rack", "controller.quorum.voters", "inter.broker.listener.name"),
    *("listener.security.protocol.map", "log.dirs", "offsets.topic", "transaction.state.log"),
    "share.coordinator.state.topic",
)
"""Further configurations of its brokers, which have no effect on an embedded one."""


async def test_describing_all_of_a_broker(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        (answer,) = (await target.quietly(describe(BROKER, "0"), 4)).results
        target.note(
            "names and types",
            {
                config.name: (config.config_type, config.read_only, config.is_sensitive)
                for config in answer.configs
            },
        )
        target.note(
            "defaults",
            {
                config.name: config.value
                for config in answer.configs
                if config.config_source == 5 and not config.name.startswith(HARNESS_SETS)
            },
        )

    await compare(scenario, broker_configs=HARNESS)


async def test_describing_missing_resources(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for kind in (TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP):
            for name in ("", "nope", "a b", "7", "-1"):
                if (kind, name) != (BROKER, "") and not (kind in (16, 32) and name):
                    await target.ask(describe(kind, name), 4)
        await target.ask(describe(3, "x"), 4)
        await target.ask(describe(CLIENT_METRICS, target.unique("metrics")), 4)
        await target.ask(describe(GROUP, target.unique("group")), 4)

    await compare(scenario, broker_configs=HARNESS)


TOPIC_VALUES = [
    *[("segment.bytes", value) for value in ("14", "1048575", "1048576", "2147483648")],
    *[("retention.ms", value) for value in ("-2", "-1", "x", " 5 ", "", "1.5", "+7")],
    *[("cleanup.policy", value) for value in ("", "x", "delete,delete", "compact, delete")],
    *[("preallocate", value) for value in ("TRUE", "1")],
    *[("compression.gzip.level", value) for value in ("-2", "-1", "0", "9", "10")],
    *[("compression.lz4.level", value) for value in ("0", "17", "18")],
    *[("compression.zstd.level", value) for value in ("-131073", "22", "23")],
    *[("min.cleanable.dirty.ratio", value) for value in ("-0.1", "0.5d", "1", "1.1", "x")],
    *[("leader.replication.throttled.replicas", v) for v in ("*", "1:2, 3:4", "1:2,*", "x")],
    *[("max.message.bytes", value) for value in ("-1", "0", "99999999999", "1e3")],
    *[("max.compaction.lag.ms", value) for value in ("0", "1")],
    *[("compression.type", value) for value in ("ZSTD", "zstd", "none")],
    *[("message.timestamp.type", value) for value in ("createtime", "LogAppendTime")],
    *[("remote.storage.enable", value) for value in ("true", "false")],
    *[("local.retention.ms", value) for value in ("-3", "-2")],
    *[("max.decompressed.message.bytes", value) for value in ("0", "1")],
    *[("remote.copy.lag.ms", value) for value in ("-2", "-1")],
    *[("min.insync.replicas", value) for value in ("0", "1")],
    *[("flush.messages", "0"), ("flush.ms", "-1"), ("segment.ms", "0"), ("nope", "1")],
    *[("message.format.version", "3.0"), ("index.interval.bytes", "-1")],
    *[("segment.jitter.ms", "-1"), ("segment.index.bytes", "3"), ("file.delete.delay.ms", "-1")],
]


async def test_values_of_a_topic(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        for name, value in TOPIC_VALUES:
            answer = await target.quietly(
                alter(TOPIC, topic, (name, SET, value), validate_only=True), 1
            )
            target.note(f"{name}={value!r}", answer.responses[0].error_code)

    await compare(scenario)


async def test_presentation_of_values(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        values = {
            "retention.ms": " 5 ",
            "preallocate": "TRUE",
            "cleanup.policy": "compact, delete,compact",
            "max.message.bytes": "+5000",
            "min.cleanable.dirty.ratio": "0.50",
            "compression.type": " zstd ",
            "leader.replication.throttled.replicas": "0:1, 1:0",
        }
        topic = await target.topic(1, **values)
        await target.ask(describe(TOPIC, topic, *values), 4)

    await compare(scenario, broker_configs=HARNESS)


async def settle(target: Target, topic: str, *values: tuple[str, str]) -> None:
    """Wait until a topic has these values; metadata reaches the brokers with a delay."""
    wanted = dict(values)

    def has_them(answer: DescribeConfigsResponse) -> bool:
        return {config.name: config.value for config in answer.results[0].configs} == wanted

    await target.until(describe(TOPIC, topic, *wanted), 4, has_them)


async def test_altering_a_topic(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1, **{"retention.ms": 5000})
        changes: list[tuple[list[tuple[str, int, str | None]], str, str]] = [
            ([("retention.ms", APPEND, "5")], "5000", "delete"),
            ([("cleanup.policy", APPEND, "compact")], "5000", "delete,compact"),
            ([("cleanup.policy", APPEND, "compact")], "5000", "delete,compact"),
            (
                [("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", SET, "6000")],
                "6000",
                "compact",
            ),
            ([("nope", DELETE, None)], "6000", "compact"),
            ([("nope", APPEND, "x")], "6000", "compact"),
            ([("retention.ms", SET, None)], "6000", "compact"),
            ([("retention.ms", SET, "5"), ("retention.ms", SET, "6")], "6000", "compact"),
            ([("retention.ms", SET, "7"), ("nope", SET, "6")], "6000", "compact"),
            ([("retention.ms", 9, "5")], "6000", "compact"),
            ([("retention.ms", DELETE, None)], "-1", "compact"),
            ([], "-1", "compact"),
        ]
        for wanted, retention, policy in changes:
            for version in (0, 1):
                await target.ask(alter(TOPIC, topic, *wanted, validate_only=True), version)
            await target.ask(alter(TOPIC, topic, *wanted), 1)
            await settle(target, topic, ("retention.ms", retention), ("cleanup.policy", policy))
        for name in (target.unique("absent"), "", "a b"):
            await target.ask(alter(TOPIC, name, ("retention.ms", SET, "5")), 1)
            await target.ask(alter(TOPIC, name, ("retention.ms", SET, "x")), 1)

    await compare(scenario, broker_configs=HARNESS)


async def test_replacing_all_of_a_topic(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(1, **{"retention.ms": 5000})
        absent = target.unique("absent")
        steps: list[tuple[str, list[tuple[str, str | None]], bool, str, str]] = [
            (topic, [("cleanup.policy", "compact")], True, "5000", "delete"),
            (topic, [("cleanup.policy", "compact")], False, "-1", "compact"),
            (topic, [("cleanup.policy", None)], False, "-1", "compact"),
            (topic, [("retention.ms", "1"), ("retention.ms", "2")], False, "-1", "compact"),
            (topic, [("retention.ms", "x")], False, "-1", "compact"),
            (absent, [("retention.ms", "5")], False, "-1", "compact"),
            (topic, [("retention.ms", "5000")], False, "5000", "delete"),
        ]
        for version in (1, 2):
            for name, values, validate_only, retention, policy in steps:
                wanted = [AlterableConfig(key, value) for key, value in values]
                resource = AlterConfigsResource(TOPIC, name, wanted)
                await target.ask(AlterConfigsRequest([resource], validate_only), version)
                await settle(target, topic, ("retention.ms", retention), ("cleanup.policy", policy))
        # A resource named twice is omitted: Kafka 4.4.0 never answers that.
        await target.ask(AlterConfigsRequest([AlterConfigsResource(LOGGER, "0", [])]), 2)

    await compare(scenario, broker_configs=HARNESS)


BROKER_VALUES = [
    *[("num.partitions", "5"), ("broker.id", "4"), ("nope.x", "5"), ("log.retention.ms", "x")],
    *[("log.retention.ms", "-2"), ("message.max.bytes", "-1"), ("ssl.keystore.location", "x")],
    *[("max.connections", "100"), ("num.io.threads", "100"), ("num.io.threads", "5")],
    *[("background.threads", "1"), ("log.cleaner.threads", "3"), ("sasl.jaas.config", "x")],
    *[("producer.id.expiration.ms", "0"), ("log.cleanup.policy", "x")],
    *[("log.segment.bytes", "14"), ("compression.type", "x"), ("min.insync.replicas", "0")],
]


async def test_values_of_a_broker(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for node in ("0", ""):
            for name, value in BROKER_VALUES:
                asked = alter(BROKER, node, (name, SET, value), validate_only=True)
                answer = await target.quietly(asked, 1)
                target.note(f"{node} {name}={value!r}", answer.responses[0].error_code)
        for node in ("1", "x", "-1"):
            asked = alter(BROKER, node, ("log.retention.ms", SET, "5"), validate_only=True)
            await target.ask(asked, 1)
        for change in [
            *[("num.partitions", DELETE, None), ("log.cleanup.policy", APPEND, "compact")],
            *[("log.retention.ms", APPEND, "5"), ("nope", APPEND, "5"), ("nope", DELETE, None)],
            ("log.retention.ms", 7, "5"),
        ]:
            await target.ask(alter(BROKER, "0", change, validate_only=True), 1)

    await compare(scenario, broker_configs=HARNESS)


async def test_dynamic_broker_configs(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic()
        name = "log.message.timestamp.after.max.ms"
        asked = [
            describe(BROKER, "0", name),
            describe(TOPIC, topic, "message.timestamp.after.max.ms"),
        ]
        try:
            await target.ask(alter(BROKER, "0", (name, SET, "7200000")), 1)
            for request in asked:
                await target.until(request, 4, lambda answer: _told(answer) == (2, "7200000"))
        finally:
            await target.ask(alter(BROKER, "0", (name, DELETE, None)), 1)
        for request in asked:
            await target.until(request, 4, lambda answer: _told(answer) == (5, "3600000"))

    with only_one("kafka-of-conformance-tests"):  # it is the whole broker's
        await compare(scenario, broker_configs=HARNESS)


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Lock a part of a test, because two runs on this machine may share one Kafka."""
    with (Path(gettempdir()) / f"{name}.lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield


def _told(answer: DescribeConfigsResponse) -> tuple[int, str | None]:
    """The source and the value of the configuration."""
    (config,) = answer.results[0].configs
    return config.config_source, config.value


GROUP_VALUES = [
    *[("consumer.session.timeout.ms", value) for value in ("0", "2999", "3000", "60001")],
    *[("consumer.heartbeat.interval.ms", value) for value in ("0", "499", "15001", "x")],
    *[("consumer.assignment.interval.ms", value) for value in ("-1", "15000", "15001")],
    *[("share.isolation.level", "x"), ("share.auto.offset.reset", "earliest"), ("nope", "1")],
    *[("share.auto.offset.reset", value) for value in ("by_duration:PT1H", "by_duration", "x")],
    *[("share.record.lock.duration.ms", "1"), ("share.delivery.count.limit", "1")],
    *[("streams.num.standby.replicas", "3"), ("streams.assignor.name", "x")],
    *[("share.session.timeout.ms", "1"), ("streams.heartbeat.interval.ms", "1")],
    *[("share.renew.acknowledge.enable", "x"), ("errors.deadletterqueue.topic.name", "a b")],
]


async def test_values_of_a_group(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = target.unique("group")
        for name, value in GROUP_VALUES:
            asked = alter(GROUP, group, (name, SET, value), validate_only=True)
            target.note(f"{name}={value!r}", (await target.quietly(asked, 1)).responses)
        await target.ask(alter(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")), 1)
        await target.ask(alter(GROUP, group, ("consumer.session.timeout.ms", SET, "50000")), 1)
        await target.until(
            describe(GROUP, group),
            4,
            lambda answer: any(config.config_source == 8 for config in answer.results[0].configs),
        )
        await target.ask(alter(GROUP, group, ("consumer.session.timeout.ms", DELETE, None)), 1)

    await compare(scenario, broker_configs=HARNESS)


METRICS_VALUES = [
    *[("interval.ms", value) for value in ("99", "100", "3600001", "x")],
    *[("match", value) for value in ("x", "client_id=a", "client_id=(", "nope=a", "")],
    *[("metrics", "a,b"), ("metrics", ""), ("nope", "x")],
]


async def test_values_of_client_metrics(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        name = target.unique("metrics")
        for key, value in METRICS_VALUES:
            asked = alter(CLIENT_METRICS, name, (key, SET, value), validate_only=True)
            target.note(f"{key}={value!r}", (await target.quietly(asked, 1)).responses)
        await target.ask(alter(CLIENT_METRICS, "", ("interval.ms", SET, "100")), 1)
        await target.ask(alter(CLIENT_METRICS, name, ("interval.ms", SET, "100")), 1)
        await target.until(
            describe(CLIENT_METRICS, name),
            4,
            lambda answer: any(config.config_source == 7 for config in answer.results[0].configs),
        )
        listed = await target.until(
            ListConfigResourcesRequest(),
            0,
            lambda answer: any(r.resource_name == name for r in answer.config_resources),
        )
        assert not listed.error_code
        await target.ask(alter(CLIENT_METRICS, name, ("interval.ms", DELETE, None)), 1)

    await compare(scenario)


async def test_loggers(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for change in [
            *[("root", SET, level) for level in ("INFO", "info", "OFF", "FATAL", "x")],
            *[("nope.x", SET, "INFO"), ("root", DELETE, None), ("root", APPEND, "INFO")],
            ("kafka.cluster.Partition", DELETE, None),
        ]:
            await target.ask(alter(LOGGER, "0", change, validate_only=True), 1)
        for node in ("", "5", "x"):
            asked = alter(LOGGER, node, ("root", SET, "INFO"), validate_only=True)
            await target.ask(asked, 1)
        await target.ask(describe(LOGGER, "0", "kafka.cluster.Partition"), 4)
        await target.ask(alter(3, "x", ("a", SET, "5")), 1)

    await compare(scenario)


async def test_listing_resources(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        for kinds in ([BROKER, LOGGER, BROKER], [3], [TOPIC, 5]):
            await target.ask(ListConfigResourcesRequest(kinds), 1)

    await compare(scenario)
