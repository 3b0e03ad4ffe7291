"""`NewTopic`: a topic to create."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiokafka_lite._arguments import INT32, topic_name, whole, wire_string
from aiokafka_lite.errors import IllegalArgumentError

__all__ = ["NewTopic"]

_MOST_REPLICAS = 2**15 - 1


class NewTopic:
    """A topic to create.

    Args:
        name: The topic's name.
        num_partitions: The number of partitions; -1: the broker's `num.partitions`, or those of
            `replica_assignments`.
        replication_factor: Replicas of each partition; -1: the broker's
            `default.replication.factor`, or those of `replica_assignments`.
        replica_assignments: For each partition, the node ids of its replicas, the preferred leader
            first. Only if both numbers are -1; an empty mapping selects the defaults.
        topic_configs: Configurations by Kafka's names; values are converted to text.

    Raises:
        IllegalArgumentError: Neither numbers nor assignments are given, or both; or a number is
            out of range.
        TypeError: An argument has the wrong type.
        InvalidTopicError: No request can carry the name.
    """

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, object] | None = None,
    ) -> None:
        self.name = topic_name(name, "name")
        self.num_partitions = whole("num_partitions", num_partitions, least=-1, most=INT32)
        self.replication_factor = whole(
            "replication_factor", replication_factor, least=-1, most=_MOST_REPLICAS
        )
        assigned = {} if replica_assignments is None else _assignments(replica_assignments)
        if assigned and (num_partitions, replication_factor) != (-1, -1):
            raise IllegalArgumentError(
                f"topic {name!r}: either num_partitions and replication_factor or "
                "replica_assignments must be specified, not both; the numbers are -1 beside "
                "assignments"
            )
        if 0 in (num_partitions, replication_factor):
            raise IllegalArgumentError(
                f"topic {name!r}: num_partitions={num_partitions} and "
                f"replication_factor={replication_factor} must be positive, or -1 for the broker's "
                "default"
            )
        self.replica_assignments = assigned
        self.topic_configs = {} if topic_configs is None else _configs(topic_configs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewTopic) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]  # mutable, as in aiokafka

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"NewTopic({shown})"


def _assignments(given: object) -> dict[int, list[int]]:
    if not isinstance(given, Mapping):
        raise TypeError(f"`replica_assignments` should be a mapping, not {given!r}")
    return {
        whole("partition", partition, most=INT32): [
            whole("replica", node_id, most=INT32) for node_id in node_ids
        ]
        for partition, node_ids in given.items()
    }


def _configs(given: object) -> dict[str, str | None]:
    if not isinstance(given, Mapping):
        raise TypeError(f"`topic_configs` should be a mapping, not {given!r}")
    return {wire_string("config name", name): config_text(each) for name, each in given.items()}


def config_text(value: object) -> str | None:
    """Return a configuration's value as Kafka writes it: True is "true", 1000 is "1000"."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return wire_string("config value", value if isinstance(value, str) else str(value))
