"""The configurations of the brokers: what they were started with, and what was changed since.

A value is looked for, as Kafka does (KIP-226), among those set for one broker, those set for the
whole cluster, those that the brokers were started with, and the defaults. Few have an effect
here; `docs/embedded-broker.md` tells which. The others are kept and told back.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from aiokafka_lite.errors import InvalidConfigurationError
from aiokafka_lite.testing.configs.broker_table import BROKER_TABLE, LONG_DEFAULTS
from aiokafka_lite.testing.configs.config_store import ConfigResource, ConfigSource, ConfigStore
from aiokafka_lite.testing.configs.config_types import ConfigType, Setting, listed

__all__ = ["ANY_BROKER", "BrokerConfigs", "broker_settings"]

ANY_BROKER: Final = ""
"""The resource name of what is set for the whole cluster; a broker's is its node id."""

_HERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "group.initial.rebalance.delay.ms": "0",  # tests do not wait for members who may come
        "controller.listener.names": "CONTROLLER",
        "process.roles": "broker,controller",
    }
)
"""What the brokers here are started with unless the caller says otherwise."""


@cache
def broker_settings() -> Mapping[str, Setting]:
    """Every configuration of a broker, by its name."""
    return MappingProxyType({setting.name: setting for setting in _read_table()})


def _read_table() -> Iterator[Setting]:
    lines = [*BROKER_TABLE.splitlines(), *(" ".join(row) for row in LONG_DEFAULTS.items())]
    for line in sorted(lines):
        name, _, rest = line.partition(" ")
        type_name, _, default = rest.partition(" ")
        yield Setting(
            name,
            ConfigType[type_name.rstrip("*").upper()],
            {"": None, '""': ""}.get(default, default),
            dynamic=type_name.endswith("*"),
        )


class BrokerConfigs:
    """The values in force; called with a name, the value's text.

    Args:
        static: What the brokers are started with, by Kafka's names.
        store: What was changed since.

    Raises:
        ValueError: An unknown name, or a value that cannot be.
    """

    def __init__(self, static: Mapping[str, object] | None, store: ConfigStore) -> None:
        self._store = store
        self._static = dict(_HERE)
        settings = broker_settings()
        for name, value in (static or {}).items():
            if name not in settings:
                raise ValueError(f"broker_configs: Kafka has no broker configuration {name!r}")
            try:
                self._static[name] = settings[name].check(_text(value))
            except InvalidConfigurationError as error:
                raise ValueError(f"broker_configs: {error}") from error

    def __call__(self, name: str, node_id: int | None = None) -> str:
        """The value in force, as Kafka writes it; "" for null.

        Args:
            name: Kafka's.
            node_id: A broker that may have its own; None for what is set for all of them.

        Raises:
            KeyError: There is no such configuration.
        """
        for _, value in self.synonyms(name, node_id):
            return value
        if name not in broker_settings():
            raise KeyError(name)
        return ""

    def integer(self, name: str, node_id: int | None = None) -> int:
        """A whole number."""
        return int(self(name, node_id))

    def boolean(self, name: str, node_id: int | None = None) -> bool:
        """True or false."""
        return self(name, node_id).lower() == "true"

    def members(self, name: str, node_id: int | None = None) -> list[str]:
        """The members of a list."""
        return listed(self(name, node_id))

    def synonyms(self, name: str, node_id: int | None = None) -> list[tuple[ConfigSource, str]]:
        """Every value that is set, that in force first."""
        found: list[tuple[ConfigSource, str | None]] = [
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self._changed(ANY_BROKER, name)),
            (ConfigSource.STATIC_BROKER_CONFIG, self._static.get(name)),
        ]
        if node_id is not None:
            own = self._changed(str(node_id), name)
            found.insert(0, (ConfigSource.DYNAMIC_BROKER_CONFIG, own))
        if name in broker_settings():
            found.append((ConfigSource.DEFAULT_CONFIG, broker_settings()[name].default))
        return [(source, value) for source, value in found if value is not None]

    def start_with(self, values: Mapping[str, str]) -> None:
        """What the cluster itself knows of its brokers, unless the caller said otherwise."""
        self._static = {**values, **self._static}

    def set_for_all(self, name: str) -> None:
        """Turn a value in force into one that was set for the whole cluster, if none was."""
        values = self._store.of(ConfigResource.BROKER, ANY_BROKER)
        if name not in values:
            new = {**values, name: self(name)}
            self._store.replace(ConfigResource.BROKER, ANY_BROKER, new)

    def names(self) -> list[str]:
        """Every configuration that a broker has."""
        return list(broker_settings())

    def _changed(self, resource: str, name: str) -> str | None:
        return self._store.of(ConfigResource.BROKER, resource).get(name)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
