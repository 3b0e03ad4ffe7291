"""Creating a topic, and waiting until every broker knows who leads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tools.kafka import wire
from tools.kafka.broker import BrokerFailed, await_condition
from tools.kafka.wire import ClusterView

_UNKNOWN_TOPIC = 3


def create_topic_at(
    addresses: Sequence[tuple[str, int]],
    topic: str,
    partitions: int,
    replication_factor: int | None,
    config: Mapping[str, object] | None,
    timeout: float,
) -> None:
    """Create a topic on a KRaft cluster reached at `addresses`; wait for its leaders.

    Raises:
        WireError: When the cluster refuses.
        BrokerFailed: When it has no leaders in time.
    """
    members = wire.ask_metadata(addresses[0], "", version=1).brokers
    replicas = replication_factor or min(3, len(members))
    wire.create_topic(addresses[0], topic, partitions, replicas, settings(config))

    def views() -> list[ClusterView]:
        return [wire.ask_metadata(address, topic, version=1) for address in addresses]

    await_topic(topic, partitions, views, timeout)


def await_topic(
    topic: str, partitions: int, views: Callable[[], Sequence[ClusterView]], timeout: float
) -> None:
    """Wait until every broker knows a leader for each partition.

    Args:
        topic: Its name.
        partitions: How many it has.
        views: Asks every broker what it knows of the topic.
        timeout: Seconds.

    Raises:
        BrokerFailed: When one does not know of it in time.
    """

    def known_everywhere() -> bool:
        for view in views():
            error, leaders = view.topics.get(topic, (_UNKNOWN_TOPIC, {}))
            if error or len(leaders) < partitions or min(leaders.values()) < 0:
                return False
        return True

    if not await_condition(known_everywhere, timeout):
        raise BrokerFailed(f"topic {topic} has not reached every broker in {timeout:.0f} s")


def settings(config: Mapping[str, object] | None) -> dict[str, str]:
    """Configurations as they are written on the wire."""
    return {name: str(value) for name, value in (config or {}).items()}
