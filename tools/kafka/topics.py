"""Creates a topic, and waits until every broker reports its leaders."""

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
    """Create a topic on the KRaft cluster at `addresses`; wait for its leaders.

    Raises:
        WireError: The cluster rejects the topic.
        BrokerFailed: The topic has no leaders in time.
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
    """Wait until every broker reports a leader for each partition.

    Args:
        topic: The name.
        partitions: Number of partitions.
        views: Requests every broker's view of the topic.
        timeout: Seconds.

    Raises:
        BrokerFailed: A broker did not report the topic in time.
    """

    def known_everywhere() -> bool:
        try:
            found = views()
        except OSError:
            return False  # a broker has paused
        for view in found:
            error, leaders = view.topics.get(topic, (_UNKNOWN_TOPIC, {}))
            if error or len(leaders) < partitions or min(leaders.values()) < 0:
                return False
        return True

    if not await_condition(known_everywhere, timeout):
        raise BrokerFailed(f"topic {topic} did not reach every broker within {timeout:.0f} s")


def settings(config: Mapping[str, object] | None) -> dict[str, str]:
    """Configs as strings, as on the wire."""
    return {name: str(value) for name, value in (config or {}).items()}
