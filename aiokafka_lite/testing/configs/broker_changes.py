"""Checks changes of a running broker's configurations (KIP-226). No I/O."""

from collections.abc import Mapping
from typing import Final

from aiokafka_lite.errors import InvalidConfigurationError, InvalidRequestError
from aiokafka_lite.testing.configs.broker_configs import BrokerConfigs, broker_settings
from aiokafka_lite.testing.configs.topic_configs import TOPIC_SETTINGS, broker_names
from aiokafka_lite.testing.features import Features

__all__ = ["check_broker_configs", "check_min_insync_replicas"]

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

_ONE_BROKER_ONLY: Final = ("sasl.", "listener", "principal.builder.class")
_LISTENERS: Final = {"listeners", "listener.security.protocol.map"}
_THREADS: Final = {
    *("background.threads", "num.io.threads", "num.network.threads", "log.cleaner.threads"),
    *("num.recovery.threads.per.data.dir", "num.replica.fetchers"),
}
_LEAST: Final = {
    "message.max.bytes": 0,
    "log.retention.ms": None,  # at least -1 for a topic, but any value for a broker
    "producer.id.expiration.ms": 1,
    "max.connections": 0,
    "max.connections.per.ip": 0,
    "group.consumer.assignment.interval.ms": 0,
    "log.cleaner.threads": 0,
    **dict.fromkeys(_THREADS, 1),
}
_TOPIC_NAMES: Final = {
    broker_name: topic_name
    for topic_name in TOPIC_SETTINGS
    for broker_name in broker_names(topic_name)
}


def check_broker_configs(
    values: Mapping[str, str], brokers: BrokerConfigs, node_id: int | None
) -> None:
    """Check values to set while a broker runs; unknown names may have any value.

    Args:
        values: All values to set, by name.
        brokers: The current configurations.
        node_id: The broker; None for all brokers.

    Raises:
        InvalidRequestError: Kafka's error for any invalid change.
    """
    settings = broker_settings()
    fixed = [name for name in values if name in settings and not settings[name].dynamic]
    if fixed:
        raise InvalidRequestError(f"Cannot update these configs dynamically: {fixed}")
    secret = [name for name in values if name.startswith("ssl.")]
    if secret:
        raise InvalidRequestError(
            "These security configs can be dynamically updated only per-listener using the"
            f" listener prefix: {secret}"
        )
    for name, value in values.items():
        if name in settings:
            _check_value(name, value)
            _check_threads(name, value, brokers, node_id)
    own = [name for name in values if name.startswith(_ONE_BROKER_ONLY)]
    if node_id is None and own:
        raise InvalidRequestError(
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" {own}"
        )
    moved = _LISTENERS.intersection(values)
    if moved:
        raise InvalidRequestError(f"Cannot change {sorted(moved)}: listeners are static here")


def check_min_insync_replicas(
    values: Mapping[str, str], features: Features, node_id: int | None
) -> None:
    """Check that `min.insync.replicas` is set only cluster-wide, as KIP-966 (ELR) requires.

    Raises:
        InvalidConfigurationError: It would be set for one broker, or removed for the cluster.
    """
    if not features.level("eligible.leader.replicas.version"):
        return
    if node_id is not None and MIN_INSYNC_REPLICAS in values:
        raise InvalidConfigurationError(
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        )
    if node_id is None and MIN_INSYNC_REPLICAS not in values:
        raise InvalidConfigurationError(
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
        )


def _check_value(name: str, value: str) -> None:
    setting = broker_settings()[name]
    topic_name = _TOPIC_NAMES.get(name)
    if name in _LEAST:
        setting = setting._replace(least=_LEAST[name])
    elif topic_name is not None:
        same = TOPIC_SETTINGS[topic_name]
        setting = setting._replace(least=same.least, most=same.most, choices=same.choices)
    try:
        setting.check(value)
    except InvalidConfigurationError as error:
        raise InvalidRequestError(str(error)) from error


def _check_threads(name: str, value: str, brokers: BrokerConfigs, node_id: int | None) -> None:
    """Check that a thread pool at most halves or doubles."""
    if name not in _THREADS:
        return
    current = brokers.integer(name, node_id)
    if not current / 2 <= int(value) <= current * 2:
        raise InvalidRequestError(
            f"Dynamic thread count update validation failed for {name}={value}, value should be"
            f" between half and double the current value {current}"
        )
