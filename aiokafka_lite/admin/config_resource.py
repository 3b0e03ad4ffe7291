"""`ConfigResource`: a resource that has configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from aiokafka_lite._arguments import is_int, wire_string
from aiokafka_lite.errors import IllegalArgumentError

__all__ = ["ConfigResource", "ConfigResourceType"]


class ConfigResourceType(IntEnum):
    """A kind of resource that has configurations; the values are Kafka's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource:
    """A resource, and which of its configurations a call is about.

    Args:
        resource_type: The type or its name, such as "topic".
        name: The topic's name, the broker's node id as an int or text ("" for the default of all
            brokers), the group id, or the name of a client metrics subscription.
        configs: To describe: the names to return, or a mapping of which only the keys count; None
            or empty: all. To alter: values by name.

    Raises:
        IllegalArgumentError: The type is unknown. A KeyError in aiokafka.
        TypeError: An argument has the wrong type.
    """

    def __init__(
        self,
        resource_type: ConfigResourceType | str | int,
        name: str | int,
        configs: Mapping[str, Any] | Iterable[str] | None = None,
    ) -> None:
        self.resource_type = _type(resource_type)
        self.name = wire_string("name", str(name) if is_int(name) else name)
        if configs is not None and (isinstance(configs, str) or not isinstance(configs, Iterable)):
            raise TypeError(
                f"`configs` should be a mapping or a collection of names, not {configs!r}"
            )
        self.configs = configs

    def __eq__(self, other: object) -> bool:
        """Compares the resources, not `configs`, so that results can be looked up by resource."""
        if not isinstance(other, ConfigResource):
            return NotImplemented
        return (self.resource_type, self.name) == (other.resource_type, other.name)

    def __hash__(self) -> int:
        return hash((self.resource_type, self.name))

    def __repr__(self) -> str:
        configs = "" if self.configs is None else f", {self.configs!r}"
        return f"ConfigResource({self.resource_type.name}, {self.name!r}{configs})"


def _type(given: object) -> ConfigResourceType:
    try:
        if isinstance(given, str):
            return ConfigResourceType[given.upper()]
        if isinstance(given, int) and not isinstance(given, bool):
            return ConfigResourceType(given)
    except (KeyError, ValueError):
        known = ", ".join(each.name for each in ConfigResourceType)
        raise IllegalArgumentError(
            f"`resource_type` should be one of {known}, not {given!r}"
        ) from None
    raise TypeError(f"`resource_type` should be a ConfigResourceType or its name, not {given!r}")
