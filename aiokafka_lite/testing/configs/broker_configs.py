"""The configurations of the brokers: the static ones and later changes.

As in Kafka (KIP-226), a value is looked up among those set for one broker, those set for the
cluster, the static ones, and the defaults. Few have an effect here, which
`docs/embedded-broker.md` lists. The others are stored and returned.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from aiokafka_lite.errors import InvalidConfigurationError
from aiokafka_lite.testing.configs.broker_table import BROKER_TABLE, LONG_DEFAULTS
from aiokafka_lite.testing.configs.config_store import ConfigResource, ConfigSource, ConfigStore
from aiokafka_lite.testing.configs.config_values import ConfigType, Setting, listed

__all__ = ["ANY_BROKER", "BrokerConfigs", "broker_settings"]

ANY_BROKER: Final = ""
"""The resource name of cluster-wide values; that of a broker is its node id."""

_HERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "group.initial.rebalance.delay.ms": "0",  # tests do not wait for further members
        "controller.listener.names": "CONTROLLER",
        "process.roles": "broker,controller",
    }
)
"""Static configurations of the embedded brokers that differ from Kafka's defaults."""


@cache
def broker_settings() -> Mapping[str, Setting]:
    """Return every configuration of a broker, by name."""
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
    """The effective values; call it with a name for the value's text.

    Args:
        static: The static configurations, by Kafka's names.
        store: Contains the changes.

    Raises:
        ValueError: A name is unknown, or a value is invalid.
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
        """Return the effective value as Kafka formats it; "" for null.

        Args:
            name: Kafka's name.
            node_id: A broker, which may have its own value; None for the cluster-wide value.

        Raises:
            KeyError: The configuration does not exist.
        """
        for _, value in self.synonyms(name, node_id):
            return value
        if name not in broker_settings():
            raise KeyError(name)
        return ""

    def integer(self, name: str, node_id: int | None = None) -> int:
        """Return the value of an integer configuration."""
        return int(self(name, node_id))

    def boolean(self, name: str, node_id: int | None = None) -> bool:
        """Return the value of a boolean configuration."""
        return self(name, node_id).lower() == "true"

    def members(self, name: str, node_id: int | None = None) -> list[str]:
        """Return the members of a list configuration."""
        return listed(self(name, node_id))

    def synonyms(self, name: str, node_id: int | None = None) -> list[tuple[ConfigSource, str]]:
        """Return every set value, the effective one first."""
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
        """Add static values from the cluster itself; those of the caller take precedence."""
        self._static = {**values, **self._static}

    def set_for_all(self, name: str) -> None:
        """Set the effective value cluster-wide, if no cluster-wide value is set."""
        values = self._store.of(ConfigResource.BROKER, ANY_BROKER)
        if name not in values:
            new = {**values, name: self(name)}
            self._store.replace(ConfigResource.BROKER, ANY_BROKER, new)

    def names(self) -> list[str]:
        """Return the names of all configurations of a broker."""
        return list(broker_settings())

    def _changed(self, resource: str, name: str) -> str | None:
        return self._store.of(ConfigResource.BROKER, resource).get(name)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
