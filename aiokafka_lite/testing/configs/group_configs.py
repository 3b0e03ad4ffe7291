"""The configurations of groups (KIP-848) and of client metrics (KIP-714).

Those of streams groups are stored and returned, but such groups are not supported.
Client metrics are never requested, as by a broker without a metrics reporter.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aiokafka_lite.errors import InvalidConfigurationError, InvalidRequestError
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs
from aiokafka_lite.testing.configs.config_store import ConfigResource, ConfigStore
from aiokafka_lite.testing.configs.config_values import ConfigType, Setting, listed

__all__ = [
    "CLIENT_METRICS_SETTINGS",
    "GROUP_SETTINGS",
    "GroupConfigs",
    "check_client_metrics",
    "check_group_configs",
    "group_broker_name",
]

_BOOLEAN, _STRING, _INT, _LIST = (
    *(ConfigType.BOOLEAN, ConfigType.STRING),
    *(ConfigType.INT, ConfigType.LIST),
)
_ISOLATIONS: Final = ("read_committed", "read_uncommitted")

_GROUP_TABLE: Final = (
    Setting("consumer.assignment.interval.ms", _INT, "1000", 0),
    Setting("consumer.heartbeat.interval.ms", _INT, "5000", 1),
    Setting("consumer.session.timeout.ms", _INT, "45000", 1),
    Setting("errors.deadletterqueue.copy.record.enable", _BOOLEAN, "false"),
    Setting("errors.deadletterqueue.topic.name", _STRING, ""),
    Setting("share.assignment.interval.ms", _INT, "1000", 0),
    Setting("share.auto.offset.reset", _STRING, "latest"),
    Setting("share.delivery.count.limit", _INT, "5", 2),
    Setting("share.heartbeat.interval.ms", _INT, "5000", 1),
    Setting("share.isolation.level", _STRING, "read_uncommitted", choices=_ISOLATIONS),
    Setting("share.partition.max.record.locks", _INT, "2000", 100),
    Setting("share.record.lock.duration.ms", _INT, "30000", 1000),
    Setting("share.renew.acknowledge.enable", _BOOLEAN, "true"),
    Setting("share.session.timeout.ms", _INT, "45000", 1),
    Setting("streams.assignment.interval.ms", _INT, "1000", 0),
    Setting("streams.assignor.name", _STRING, "sticky"),
    Setting("streams.heartbeat.interval.ms", _INT, "5000", 1),
    Setting("streams.initial.rebalance.delay.ms", _INT, "3000", 0),
    Setting("streams.num.standby.replicas", _INT, "0", 0),
    Setting("streams.rack.aware.assignment.tags", _LIST, ""),
    Setting("streams.session.timeout.ms", _INT, "45000", 1),
)

GROUP_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {setting.name: setting for setting in _GROUP_TABLE}
)
CLIENT_METRICS_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "interval.ms": Setting("interval.ms", _INT, "300000"),
        "match": Setting("match", _LIST, ""),
        "metrics": Setting("metrics", _LIST, ""),
    }
)

_OTHER_BROKER_NAMES: Final = {"streams.assignor.name": "group.streams.assignors"}
_UNBOUND: Final = {"share.auto.offset.reset", "share.isolation.level"} | {
    *("share.renew.acknowledge.enable", "errors.deadletterqueue.copy.record.enable"),
    "errors.deadletterqueue.topic.name",
}
_SELECTORS: Final = {
    *("client_instance_id", "client_id", "client_software_name"),
    *("client_software_version", "client_source_address", "client_source_port"),
}
_SHORTEST_INTERVAL_MS: Final = 100
_LONGEST_INTERVAL_MS: Final = 3_600_000
_DURATION: Final = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")


def group_broker_name(name: str) -> str | None:
    """Return the broker configuration that provides a group's default, or None."""
    if name in _UNBOUND:
        return None
    return _OTHER_BROKER_NAMES.get(name, f"group.{name}")


class GroupConfigs:
    """The effective configurations of groups: their own, or else the brokers'."""

    def __init__(self, store: ConfigStore, brokers: BrokerConfigs) -> None:
        self._store = store
        self._brokers = brokers

    def __call__(self, group_id: str, name: str) -> str:
        """Return the effective value as Kafka formats it.

        Raises:
            KeyError: The configuration does not exist for groups.
        """
        own = self._store.of(ConfigResource.GROUP, group_id).get(name)
        return self.default(name) if own is None else own

    def integer(self, group_id: str, name: str) -> int:
        """Return the value of an integer configuration."""
        return int(self(group_id, name))

    def default(self, name: str) -> str:
        """Return the default of a group configuration."""
        broker_name = group_broker_name(name)
        if broker_name is None:
            return GROUP_SETTINGS[name].default or ""
        return self._brokers(broker_name)


def check_group_configs(values: Mapping[str, str], brokers: BrokerConfigs) -> None:
    """Check the configurations of a group.

    Raises:
        InvalidConfigurationError: A name is unknown, or the brokers do not allow a value.
    """
    for name, value in values.items():
        if name not in GROUP_SETTINGS:
            raise InvalidConfigurationError(f"Unknown group config name: {name}")
        GROUP_SETTINGS[name].check(value)
        _check_bounds(name, value, brokers)
    offset_reset = values.get("share.auto.offset.reset", "latest")
    if offset_reset not in ("earliest", "latest") and not _DURATION.fullmatch(offset_reset):
        raise InvalidConfigurationError(f"share.auto.offset.reset cannot be {offset_reset!r}")
    if values.get("errors.deadletterqueue.topic.name", "").startswith("__"):
        raise InvalidConfigurationError(
            "errors.deadletterqueue.topic.name: the name of a dead-letter topic must not start"
            " with '__'"
        )
    assignor = values.get("streams.assignor.name", "sticky")
    if assignor not in brokers.members("group.streams.assignors"):
        raise InvalidConfigurationError(
            f"streams.assignor.name {assignor!r} is not a registered task assignor"
        )


def _check_bounds(name: str, value: str, brokers: BrokerConfigs) -> None:
    """Check that a value is between the brokers' `group.*.min.*` and `group.*.max.*`."""
    kind, _, rest = name.partition(".")
    known = brokers.names()
    least, most = (f"group.{kind}.{edge}.{rest}" for edge in ("min", "max"))
    if least in known and int(value) < brokers.integer(least):
        raise InvalidConfigurationError(f"{name} must be at least {brokers(least)}")
    if name == "streams.num.standby.replicas":
        most = "group.streams.max.standby.replicas"
    if most in known and int(value) > brokers.integer(most):
        raise InvalidConfigurationError(f"{name} must be {brokers(most)} or less")


def check_client_metrics(values: Mapping[str, str]) -> None:
    """Check the configurations of a client metrics subscription.

    Raises:
        InvalidRequestError: A name is unknown, or the interval is out of range.
        InvalidConfigurationError: A number or a match pattern is invalid.
    """
    for name, value in values.items():
        if name not in CLIENT_METRICS_SETTINGS:
            raise InvalidRequestError(f"Unknown client metrics configuration: {name}")
        CLIENT_METRICS_SETTINGS[name].check(value)
    interval = int(values.get("interval.ms", _LONGEST_INTERVAL_MS))
    if not _SHORTEST_INTERVAL_MS <= interval <= _LONGEST_INTERVAL_MS:
        raise InvalidRequestError(
            f"Invalid value {interval} for interval.ms, interval must be between"
            f" {_SHORTEST_INTERVAL_MS} and {_LONGEST_INTERVAL_MS} (1 hour)"
        )
    for pattern in listed(values.get("match", "")):
        selector, _, expression = pattern.partition("=")
        if selector.strip() not in _SELECTORS or not _compiles(expression):
            raise InvalidConfigurationError(f"Illegal client matching pattern: {pattern}")


def _compiles(expression: str) -> bool:
    try:
        re.compile(expression)
    except re.error:
        return False
    return bool(expression)
