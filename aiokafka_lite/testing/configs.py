"""The topic configurations of Kafka 4.4 and their defaults; unknown ones are refused.

Few of them have an effect here (``Partition`` and the log read those); the others are kept and
told back, so that a client's settings go through as they do on a real broker.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aiokafka_lite.errors import InvalidConfigurationError

__all__ = ["TOPIC_DEFAULTS", "check_configs"]

_NO_LIMIT: Final = str(2**63 - 1)

TOPIC_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "compression.gzip.level": "-1",
        "compression.lz4.level": "9",
        "compression.type": "producer",
        "compression.zstd.level": "3",
        "delete.retention.ms": "86400000",
        "file.delete.delay.ms": "60000",
        "flush.messages": _NO_LIMIT,
        "flush.ms": _NO_LIMIT,
        "follower.replication.throttled.replicas": "",
        "index.interval.bytes": "4096",
        "leader.replication.throttled.replicas": "",
        "local.retention.bytes": "-2",
        "local.retention.ms": "-2",
        "max.compaction.lag.ms": _NO_LIMIT,
        "max.message.bytes": "1048588",
        "message.timestamp.after.max.ms": "3600000",
        "message.timestamp.before.max.ms": _NO_LIMIT,
        "message.timestamp.type": "CreateTime",
        "min.cleanable.dirty.ratio": "0.5",
        "min.compaction.lag.ms": "0",
        "min.insync.replicas": "1",
        "preallocate": "false",
        "remote.log.copy.disable": "false",
        "remote.log.delete.on.disable": "false",
        "remote.storage.enable": "false",
        "retention.bytes": "-1",
        "retention.ms": "604800000",
        "segment.bytes": "1073741824",
        "segment.index.bytes": "10485760",
        "segment.jitter.ms": "0",
        "segment.ms": "604800000",
        "unclean.leader.election.enable": "false",
    }
)

_CHOICES: Final = {
    "cleanup.policy": {"delete", "compact", "compact,delete", "delete,compact"},
    "compression.type": {"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"},
    "message.timestamp.type": {"CreateTime", "LogAppendTime"},
}
_NUMBERS: Final = {  # name -> smallest value
    "max.message.bytes": 0,
    "message.timestamp.after.max.ms": 0,
    "message.timestamp.before.max.ms": 0,
    "min.insync.replicas": 1,
}


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """A topic's own configurations, as they are.

    Raises:
        InvalidConfigurationError: a name that Kafka does not know, or a value it does not take.
    """
    checked = {}
    for name, value in configs.items():
        if name not in TOPIC_DEFAULTS:
            raise InvalidConfigurationError(f"Unknown topic config name: {name}")
        if value is None:
            raise InvalidConfigurationError(f"Null value not supported for topic configs: {name}")
        if name in _CHOICES and value not in _CHOICES[name]:
            choices = ", ".join(sorted(_CHOICES[name]))
            raise InvalidConfigurationError(
                f"Invalid value {value} for configuration {name}: it must be one of {choices}"
            )
        if name in _NUMBERS and not (value.isdecimal() and int(value) >= _NUMBERS[name]):
            raise InvalidConfigurationError(
                f"Invalid value {value} for configuration {name}: it must be a number of at least"
                f" {_NUMBERS[name]}"
            )
        checked[name] = value
    return checked
