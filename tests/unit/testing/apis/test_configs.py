"""Configurations: described values, valid changes, and their immediate effects."""

from typing import Any

import pytest

from aiokafka_lite.errors import InvalidConfigurationError
from aiokafka_lite.protocol.messages import alter_configs, incremental_alter_configs
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from aiokafka_lite.protocol.messages.list_config_resources import ListConfigResourcesRequest
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs, broker_settings
from aiokafka_lite.testing.configs.config_store import ConfigResource, ConfigStore
from aiokafka_lite.testing.configs.group_configs import GROUP_SETTINGS, group_broker_name
from aiokafka_lite.testing.configs.topic_configs import TOPIC_DEFAULTS, broker_names, check_configs
from aiokafka_lite.testing.storage.journal import Journal
from tests.unit.testing.raw import SocketlessBroker
from tests.unit.testing.remembering import Remembering

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def described(broker: SocketlessBroker, kind: int, name: str, version: int = 4) -> dict[str, Any]:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)], version >= 1)
    (result,) = broker.ask(request, version).results
    assert result.error_code == 0
    return {config.name: config for config in result.configs}


def alter(
    broker: SocketlessBroker,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    node: int = 0,
) -> int:
    wanted = [incremental_alter_configs.AlterableConfig(*change) for change in changes]
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, wanted)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
    (result,) = broker.ask(request, version, node).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return int(result.error_code)


@pytest.fixture
def orders(broker: SocketlessBroker) -> SocketlessBroker:
    broker.state.create_topic("orders", 1, configs={"retention.ms": "5000"})
    return broker


@pytest.mark.parametrize("version", range(5))
def test_describing_a_topic(orders: SocketlessBroker, version: int) -> None:
    configs = described(orders, TOPIC, "orders", version)
    assert configs.keys() == TOPIC_DEFAULTS.keys()
    own, default = configs["retention.ms"], configs["cleanup.policy"]
    assert (own.value, default.value) == ("5000", "delete")
    if version == 0:
        assert (own.is_default, default.is_default) == (False, True)
    else:
        assert (own.config_source, default.config_source) == (1, 5)
        assert [s.name for s in own.synonyms] == ["retention.ms", "log.retention.hours"]
    if version >= 3:
        assert (own.config_type, default.config_type) == (5, 7)


def test_every_default_has_its_source() -> None:
    store = ConfigStore(Journal())
    brokers = BrokerConfigs({}, store)
    for name in TOPIC_DEFAULTS:
        assert all(known in broker_settings() for known in broker_names(name))
    for name in GROUP_SETTINGS:
        known = group_broker_name(name)
        assert known is None or brokers(known) == GROUP_SETTINGS[name].default


def test_a_topic_is_changed_at_once(orders: SocketlessBroker) -> None:
    topic = orders.state.topics["orders"]
    assert alter(orders, TOPIC, "orders", ("max.message.bytes", SET, "2000")) == 0
    assert topic.max_message_bytes == 2000
    assert alter(orders, TOPIC, "orders", ("cleanup.policy", APPEND, "compact")) == 0
    assert (topic.config("cleanup.policy"), topic.is_compacted) == ("delete,compact", True)
    assert alter(orders, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "compact")) == 0
    assert not topic.is_compacted
    assert alter(orders, TOPIC, "orders", ("retention.ms", DELETE, None)) == 0
    assert topic.config("retention.ms") == "604800000"
    both = [("retention.ms", SET, "1"), ("nope", SET, "1")]
    assert alter(orders, TOPIC, "orders", *both) == 40
    assert topic.config("retention.ms") == "604800000"


def test_all_of_a_topic_is_replaced(orders: SocketlessBroker) -> None:
    wanted = alter_configs.AlterableConfig("max.message.bytes", "3000")
    resource = alter_configs.AlterConfigsResource(TOPIC, "orders", [wanted])
    for validate_only, expected in [
        (True, {"retention.ms": "5000"}),
        (False, {"max.message.bytes": "3000"}),
    ]:
        request = alter_configs.AlterConfigsRequest([resource], validate_only)
        (result,) = orders.ask(request, 2).responses
        assert result.error_code == 0
        assert orders.state.topics["orders"].configs == expected
    twice = alter_configs.AlterConfigsRequest([resource, resource])
    assert [result.error_code for result in orders.ask(twice, 2).responses] == [42, 42]


def test_a_broker_is_changed_while_it_runs() -> None:
    broker = SocketlessBroker(2)
    broker.state.create_topic("orders", 1)
    topic = broker.state.topics["orders"]
    assert alter(broker, BROKER, "", ("message.max.bytes", SET, "2000")) == 0
    assert topic.max_message_bytes == 2000
    assert alter(broker, BROKER, "1", ("message.max.bytes", SET, "3000"), node=1) == 0
    assert broker.state.broker_config.integer("message.max.bytes", 1) == 3000
    assert topic.max_message_bytes == 2000
    assert alter(broker, BROKER, "1", ("message.max.bytes", SET, "3000"), node=0) == 42
    assert alter(broker, BROKER, "", ("message.max.bytes", DELETE, None)) == 0
    assert topic.max_message_bytes == 1048588


def test_min_insync_replicas_with_elr(broker: SocketlessBroker) -> None:
    name = "min.insync.replicas"
    assert described(broker, BROKER, "")[name].value == "1"
    assert alter(broker, BROKER, "", (name, DELETE, None)) == 40
    assert alter(broker, BROKER, "0", (name, SET, "1")) == 40
    older = SocketlessBroker(version="3.9")
    assert alter(older, BROKER, "", (name, SET, "2")) == 0
    assert alter(older, BROKER, "", (name, DELETE, None)) == 0


def test_a_group_has_configs_of_its_own(broker: SocketlessBroker) -> None:
    name = "consumer.session.timeout.ms"
    configs = broker.state.group_config
    assert configs.integer("g", name) == 45000
    assert alter(broker, GROUP, "g", (name, SET, "50000")) == 0
    assert (configs.integer("g", name), configs.integer("h", name)) == (50000, 45000)
    assert described(broker, GROUP, "g")[name].config_source == 8
    assert alter(broker, GROUP, "g", (name, SET, "1000")) == 40


def test_levels_of_loggers(broker: SocketlessBroker) -> None:
    assert alter(broker, LOGGER, "0", ("root", SET, "DEBUG")) == 0
    assert described(broker, LOGGER, "0")["root"].value == "DEBUG"
    assert alter(broker, LOGGER, "0", ("root", SET, "LOUD")) == 40


def test_what_was_set_is_listed(orders: SocketlessBroker) -> None:
    alter(orders, METRICS, "m", ("interval.ms", SET, "100"))
    alter(orders, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))

    def listed(version: int, *kinds: int) -> list[tuple[int, str]]:
        answer = orders.ask(ListConfigResourcesRequest(list(kinds)), version)
        return [(found.resource_type, found.resource_name) for found in answer.config_resources]

    assert listed(0) == [(METRICS, "m")]
    assert listed(1, GROUP, TOPIC) == [(GROUP, "g"), (TOPIC, "orders")]
    assert listed(1) == [(2, "orders"), (4, "0"), (8, "0"), (16, "m"), (32, "g")]
    alter(orders, METRICS, "m", ("interval.ms", DELETE, None))
    assert listed(0) == []


def test_configs_survive_a_restart() -> None:
    journal = Remembering()
    store = ConfigStore(journal)
    store.replace(ConfigResource.BROKER, "", {"log.retention.ms": "7"})
    store.replace(ConfigResource.GROUP, "g", {"consumer.session.timeout.ms": "50000"})
    store.replace(ConfigResource.GROUP, "h", {"consumer.session.timeout.ms": "50000"})
    store.replace(ConfigResource.GROUP, "h", {})
    store.replace(ConfigResource.BROKER_LOGGER, "0", {"root": "DEBUG"})
    again = ConfigStore(journal)
    assert BrokerConfigs({}, again)("log.retention.ms") == "7"
    assert again.names(ConfigResource.GROUP) == ["g"]
    assert not again.names(ConfigResource.BROKER_LOGGER)


def test_broker_configs_that_brokers_start_with() -> None:
    configs = {"log.retention.minutes": 1, "auto.create.topics.enable": False}
    broker = SocketlessBroker(broker_configs=configs, auto_create_topics=True)
    assert broker.state.topic_defaults["retention.ms"] == "60000"
    assert not broker.state.broker_config.boolean("auto.create.topics.enable")
    with pytest.raises(KeyError):
        broker.state.broker_config("nope")


@pytest.mark.parametrize(
    "configs",
    [
        {"retention.ms": None},
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
        {"remote.storage.enable": "TRUE"},
        {"leader.replication.throttled.replicas": "0:1,2"},
    ],
)
def test_invalid_topic_configs_are_refused(configs: dict[str, str | None]) -> None:
    with pytest.raises(InvalidConfigurationError):
        check_configs(configs)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("retention.ms", " 5 ", "5"),
        ("retention.ms", "+7", "7"),
        ("retention.ms", "-2", None),
        ("retention.ms", "9223372036854775808", None),
        ("retention.ms", "1.5", None),
        ("retention.ms", "", None),
        ("max.message.bytes", "2147483648", None),
        ("segment.bytes", "1048575", None),
        ("preallocate", "TRUE", "true"),
        ("preallocate", "1", None),
        ("min.cleanable.dirty.ratio", "0.5d", "0.5"),
        ("min.cleanable.dirty.ratio", "1.1", None),
        ("min.cleanable.dirty.ratio", "x", None),
        ("cleanup.policy", "", ""),
        ("cleanup.policy", "compact, delete,compact", "compact,delete"),
        ("cleanup.policy", "x", None),
        ("compression.type", "ZSTD", None),
        ("compression.gzip.level", "0", None),
        ("compression.gzip.level", "-1", "-1"),
        ("leader.replication.throttled.replicas", "1:2, 3:4", "1:2,3:4"),
        ("leader.replication.throttled.replicas", "*", "*"),
    ],
)
def test_values_of_a_topic(name: str, value: str, told: str | None) -> None:
    if told is None:
        with pytest.raises(InvalidConfigurationError):
            check_configs({name: value})
    else:
        assert check_configs({name: value}) == {name: told}


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("num.partitions", "5", 42),
        ("log.retention.ms", "-2", 0),
        ("log.retention.ms", "x", 42),
        ("ssl.keystore.location", "x", 42),
        ("num.io.threads", "17", 42),
        ("num.io.threads", "16", 0),
        ("listeners", "PLAINTEXT://:1", 42),
        ("sasl.jaas.config", "x", 42),
        ("unknown.to.kafka", "x", 0),
    ],
)
def test_values_of_all_brokers(broker: SocketlessBroker, name: str, value: str, error: int) -> None:
    assert alter(broker, BROKER, "", (name, SET, value)) == error
