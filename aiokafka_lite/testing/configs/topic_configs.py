"""The topic configurations of Kafka 4.4: valid values and defaults.

A topic's default is the value of a broker configuration, often with another name. Few of them have
an effect here (in `Partition` and the log). The others are stored and returned, so that clients
can set them as on a real broker.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aiokafka_lite.errors import InvalidConfigurationError
from aiokafka_lite.testing.configs.config_values import ConfigType, Setting

if TYPE_CHECKING:
    from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs

__all__ = ["TOPIC_DEFAULTS", "TOPIC_SETTINGS", "TopicDefaults", "broker_names", "check_configs"]

_NO_LIMIT: Final = str(2**63 - 1)
_SMALLEST_SEGMENT: Final = 1024 * 1024  # KIP-1030
_REPLICAS: Final = {
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
}

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

_CODECS: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
_TIMESTAMPS: Final = ("CreateTime", "LogAppendTime")

_TABLE: Final = (
    Setting("cleanup.policy", _LIST, "delete", choices=("compact", "delete")),
    Setting("compression.gzip.level", _INT, "-1", -1, 9),
    Setting("compression.lz4.level", _INT, "9", 1, 17),
    Setting("compression.type", _STRING, "producer", choices=_CODECS),
    Setting("compression.zstd.level", _INT, "3", -131072, 22),
    Setting("delete.retention.ms", _LONG, "86400000", 0),
    Setting("errors.deadletterqueue.group.enable", _BOOLEAN, "false"),
    Setting("file.delete.delay.ms", _LONG, "60000", 0),
    Setting("flush.messages", _LONG, _NO_LIMIT, 1),
    Setting("flush.ms", _LONG, _NO_LIMIT, 0),
    Setting("follower.replication.throttled.replicas", _LIST, ""),
    Setting("index.interval.bytes", _INT, "4096", 0),
    Setting("leader.replication.throttled.replicas", _LIST, ""),
    Setting("local.retention.bytes", _LONG, "-2", -2),
    Setting("local.retention.ms", _LONG, "-2", -2),
    Setting("max.compaction.lag.ms", _LONG, _NO_LIMIT, 1),
    Setting("max.decompressed.message.bytes", _INT, "2147483639", 1),
    Setting("max.message.bytes", _INT, "1048588", 0),
    Setting("message.timestamp.after.max.ms", _LONG, "3600000", 0),
    Setting("message.timestamp.before.max.ms", _LONG, _NO_LIMIT, 0),
    Setting("message.timestamp.type", _STRING, "CreateTime", choices=_TIMESTAMPS),
    Setting("min.cleanable.dirty.ratio", _DOUBLE, "0.5", 0, 1),
    Setting("min.compaction.lag.ms", _LONG, "0", 0),
    Setting("min.insync.replicas", _INT, "1", 1),
    Setting("preallocate", _BOOLEAN, "false"),
    Setting("remote.copy.lag.bytes", _LONG, "-1", -1),
    Setting("remote.copy.lag.ms", _LONG, "0", -1),
    Setting("remote.log.copy.disable", _BOOLEAN, "false"),
    Setting("remote.log.delete.on.disable", _BOOLEAN, "false"),
    Setting("remote.storage.enable", _BOOLEAN, "false"),
    Setting("retention.bytes", _LONG, "-1"),
    Setting("retention.ms", _LONG, "604800000", -1),
    Setting("segment.bytes", _INT, "1073741824", _SMALLEST_SEGMENT),
    Setting("segment.index.bytes", _INT, "10485760", 4),
    Setting("segment.jitter.ms", _LONG, "0", 0),
    Setting("segment.ms", _LONG, "604800000", 1),
    Setting("unclean.leader.election.enable", _BOOLEAN, "false"),
)

TOPIC_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {setting.name: setting for setting in _TABLE}
)
"""The configurations by name, ordered by name."""

TOPIC_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {setting.name: setting.default or "" for setting in _TABLE}
)
"""Kafka's defaults."""

_BROKER_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "log.cleanup.policy",
        "delete.retention.ms": "log.cleaner.delete.retention.ms",
        "file.delete.delay.ms": "log.segment.delete.delay.ms",
        "flush.messages": "log.flush.interval.messages",
        "flush.ms": "log.flush.interval.ms",
        "index.interval.bytes": "log.index.interval.bytes",
        "local.retention.bytes": "log.local.retention.bytes",
        "local.retention.ms": "log.local.retention.ms",
        "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
        "max.message.bytes": "message.max.bytes",
        "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
        "message.timestamp.type": "log.message.timestamp.type",
        "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
        "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
        "preallocate": "log.preallocate",
        "remote.copy.lag.bytes": "log.remote.copy.lag.bytes",
        "remote.copy.lag.ms": "log.remote.copy.lag.ms",
        "retention.bytes": "log.retention.bytes",
        "retention.ms": "log.retention.ms",
        "segment.bytes": "log.segment.bytes",
        "segment.index.bytes": "log.index.size.max.bytes",
        "segment.jitter.ms": "log.roll.jitter.ms",
        "segment.ms": "log.roll.ms",
    }
)
"""Broker configurations with another name, by topic configuration (`ServerTopicConfigSynonyms`)."""

_OF_ONE_NAME: Final = {
    *("compression.gzip.level", "compression.lz4.level", "compression.type"),
    *("compression.zstd.level", "max.decompressed.message.bytes", "min.insync.replicas"),
    "unclean.leader.election.enable",
}
_IN_MS: Final = {"log.retention.hours": 3_600_000, "log.retention.minutes": 60_000}


def broker_names(name: str) -> tuple[str, ...]:
    """Return the broker configurations that provide a topic's default; the first set one counts."""
    if name == "retention.ms":
        return ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    if name in _OF_ONE_NAME:
        return (name,)
    return (_BROKER_NAMES[name],) if name in _BROKER_NAMES else ()


class TopicDefaults(Mapping[str, str]):
    """The current defaults of topics, from the brokers' configurations.

    Args:
        brokers: The brokers' configurations.
        node_id: The broker, if there is only one; None for cluster-wide values.
    """

    def __init__(self, brokers: "BrokerConfigs", node_id: int | None = None) -> None:
        self._brokers = brokers
        self._node_id = node_id

    def __getitem__(self, name: str) -> str:
        for broker_name in broker_names(name):
            value = self._brokers(broker_name, self._node_id)
            if value:
                return str(int(value) * _IN_MS[broker_name]) if broker_name in _IN_MS else value
        return TOPIC_DEFAULTS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TOPIC_DEFAULTS)

    def __len__(self) -> int:
        return len(TOPIC_DEFAULTS)


def check_configs(
    configs: Mapping[str, str | None], defaults: Mapping[str, str] = TOPIC_DEFAULTS
) -> dict[str, str]:
    """Validate a topic's own configurations and return them as Kafka formats them.

    Args:
        configs: The configurations by name.
        defaults: The defaults of the others.

    Raises:
        InvalidConfigurationError: A name is unknown, or a value is invalid.
    """
    checked = {}
    for name, value in configs.items():
        if value is None:
            raise InvalidConfigurationError(f"Null value not supported for topic configs: {name}")
        if name not in TOPIC_SETTINGS:
            raise InvalidConfigurationError(f"Unknown topic config name: {name}")
        checked[name] = TOPIC_SETTINGS[name].check(value)
        if name in _REPLICAS:
            _check_replicas(name, value)
        if name == "compression.gzip.level" and checked[name] == "0":
            raise InvalidConfigurationError(f"Invalid value 0 for configuration {name}")
    _check_together({**dict(defaults), **checked} if checked else {})
    return checked


def _check_replicas(name: str, value: str) -> None:
    """Check a list of `partition:broker`, or `*` for all."""
    if value.strip() in ("", "*"):
        return
    for member in value.split(","):
        partition, colon, broker = member.strip().partition(":")
        if not (colon and partition.isdecimal() and broker.isdecimal()):
            raise InvalidConfigurationError(
                f"Invalid value {value} for configuration {name}: {member!r} is not"
                " partition:broker; '*' must be the only member"
            )


def _check_together(values: Mapping[str, str]) -> None:
    """Check combinations of values."""
    if not values:
        return
    if int(values["min.compaction.lag.ms"]) > int(values["max.compaction.lag.ms"]):
        raise InvalidConfigurationError(
            "conflict topic config setting min.compaction.lag.ms"
            f" ({values['min.compaction.lag.ms']}) > max.compaction.lag.ms"
            f" ({values['max.compaction.lag.ms']})"
        )
    if values["remote.storage.enable"].lower() == "true":
        raise InvalidConfigurationError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured"
            " with remote log storage."
        )
