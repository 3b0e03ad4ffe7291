"""Arguments and results of the configuration calls."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from aiokafka_lite._arguments import wire_string
from aiokafka_lite.admin.config_resource import ConfigResource
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.new_topic import config_text
from aiokafka_lite.errors import IllegalArgumentError

__all__ = [
    "AlterConfigOp",
    "AlterConfigsResponse",
    "AlterConfigsResult",
    "AlteredResource",
    "Config",
    "ConfigChange",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribedResource",
]


class ConfigSource(enum.IntEnum):
    """Where the value of a configuration comes from; the values are Kafka's."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN  # from a newer release, or not set


class ConfigType(enum.IntEnum):
    """The type of a configuration's value; the values are Kafka's."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @classmethod
    def _missing_(cls, value: object) -> ConfigType:
        return cls.UNKNOWN


class ConfigSynonym(NamedTuple):
    """A configuration that would apply if those before it were not set."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """A configuration of a resource. The first six fields are those of aiokafka's tuple."""

    name: str
    value: str | None
    """None if it is sensitive, or not set."""
    read_only: bool
    source: ConfigSource
    """UNKNOWN or DEFAULT_CONFIG from brokers before 1.1."""
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    """In the order in which they apply; only with `include_synonyms`."""
    type: ConfigType = ConfigType.UNKNOWN
    """UNKNOWN from brokers before 2.6."""
    documentation: str | None = None
    """Only with `include_documentation`."""

    @property
    def is_default(self) -> bool:
        """True if the configuration is not set: the value is Kafka's default."""
        return self.source is ConfigSource.DEFAULT_CONFIG


Config: TypeAlias = Mapping[str, ConfigEntry]
"""The configurations of a resource, by name."""


_ENTRY: Final = (
    "config_names",
    "config_value",
    "read_only",
    "config_source",
    "is_sensitive",
    "config_synonyms",
)
_SYNONYM: Final = ("config_name", "config_value", "config_source")
"""The names that aiokafka's `to_object()` has for the items of its tuples."""


class DescribedResource(NamedTuple):
    """aiokafka's entry of `DescribeConfigsResponse.resources`."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    config_entries: list[tuple[Any, ...]]
    """(name, value, read only, source, sensitive, synonyms) of each configuration."""


class DescribeConfigsResponse(NamedTuple):
    """aiokafka's response for one broker, or for all other resources."""

    throttle_time_ms: int
    resources: list[DescribedResource]

    def to_object(self) -> dict[str, Any]:
        """Return the response as nested dicts and lists, as in aiokafka."""
        return {
            "throttle_time_ms": self.throttle_time_ms,
            "resources": [_as_object(each) for each in self.resources],
        }


def _as_object(resource: DescribedResource) -> dict[str, Any]:
    entries = [dict(zip(_ENTRY, each, strict=True)) for each in resource.config_entries]
    for entry in entries:
        entry["config_synonyms"] = [
            dict(zip(_SYNONYM, each, strict=True)) for each in entry["config_synonyms"]
        ]
    return {**resource._asdict(), "config_entries": entries}


class AlteredResource(NamedTuple):
    """aiokafka's entry of `AlterConfigsResponse.resources`."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


class AlterConfigsResponse(NamedTuple):
    """aiokafka's response for one broker, or for all other resources."""

    throttle_time_ms: int
    resources: list[AlteredResource]

    def to_object(self) -> dict[str, Any]:
        """Return the response as nested dicts and lists, as in aiokafka."""
        return {
            "throttle_time_ms": self.throttle_time_ms,
            "resources": [each._asdict() for each in self.resources],
        }


class DescribeConfigsResult(list[DescribeConfigsResponse]):
    """The result of aiokafka's `describe_configs`: the named brokers first, then all other
    resources.

    Attributes:
        results: The same by resource, typed.
    """

    results: Results[ConfigResource, Config]

    def raise_for_errors(self) -> dict[ConfigResource, Config]:
        """Return the configurations by resource; raises the error of the first that failed."""
        return self.results.raise_for_errors()


class AlterConfigsResult(list[AlterConfigsResponse]):
    """The result of aiokafka's `alter_configs`: first the resources other than named brokers, even
    if there are none, then the brokers.

    Attributes:
        results: The same by resource, typed.
    """

    results: Results[ConfigResource, None]

    def raise_for_errors(self) -> dict[ConfigResource, None]:
        """Raise the error of the first resource that failed, if one did."""
        return self.results.raise_for_errors()


class _Operation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class AlterConfigOp:
    """A change of one configuration (KIP-339): made by `set`, `delete`, `append` or `subtract`."""

    name: str
    operation: _Operation
    value: str | None = None

    @classmethod
    def set(cls, name: str, value: object) -> AlterConfigOp:
        """Set a value. True is written as "true", 1000 as "1000"."""
        return cls._checked(name, _Operation.SET, value)

    @classmethod
    def delete(cls, name: str) -> AlterConfigOp:
        """Remove the resource's own value, so that the default applies."""
        return cls(wire_string("config name", name), _Operation.DELETE)

    @classmethod
    def append(cls, name: str, value: object) -> AlterConfigOp:
        """Add elements, separated by commas, to a configuration that is a list."""
        return cls._checked(name, _Operation.APPEND, value)

    @classmethod
    def subtract(cls, name: str, value: object) -> AlterConfigOp:
        """Remove elements, separated by commas, from a configuration that is a list."""
        return cls._checked(name, _Operation.SUBTRACT, value)

    @classmethod
    def _checked(cls, name: str, operation: _Operation, value: object) -> AlterConfigOp:
        text = config_text(value)
        if text is None:
            raise IllegalArgumentError(
                f"config {name!r} needs a value to {operation.name.lower()}; "
                "AlterConfigOp.delete(name) removes it"
            )
        return cls(wire_string("config name", name), operation, text)


ConfigChange: TypeAlias = "Mapping[str, object] | Iterable[AlterConfigOp]"
"""Changes of a resource: values to set by name (None: remove it), or single operations."""
