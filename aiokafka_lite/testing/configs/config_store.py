"""The dynamic configurations of brokers, groups and client metrics. No I/O.

A topic stores its own configurations.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from aiokafka_lite.testing.storage.journal import Journal

__all__ = ["ConfigResource", "ConfigSource", "ConfigStore"]

JOURNAL_KIND: Final = "config"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class ConfigResource(IntEnum):
    """A type of resource (`org.apache.kafka.common.config.ConfigResource.Type`)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The source of a value: `config_source` of DescribeConfigs v1+ (KIP-226)."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigStore:
    """The values of each resource, already validated.

    Args:
        journal: Stores them across restarts.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._values: dict[tuple[int, str], dict[str, str]] = {}
        for (kind, name), values in journal.entries(JOURNAL_KIND):
            self._values[int(kind), str(name)] = dict(values)

    def of(self, kind: ConfigResource, name: str) -> Mapping[str, str]:
        """Return the values of a resource."""
        return self._values.get((kind, name), _NOTHING)

    def replace(self, kind: ConfigResource, name: str, values: Mapping[str, str]) -> None:
        """Replace the values of a resource; empty values remove it."""
        if values:
            self._values[kind, name] = dict(values)
        else:
            self._values.pop((kind, name), None)
        if kind is not ConfigResource.BROKER_LOGGER:  # a broker does not store its loggers' levels
            self._journal.note(JOURNAL_KIND, (int(kind), name), values or None)

    def names(self, kind: ConfigResource) -> list[str]:
        """Return the names of all resources of a type that have values."""
        return [name for known, name in self._values if known == kind]
