"""The Kafka metric group of each metric: the middle of its name in Prometheus.

Java's clients publish `records-lag` in the group `consumer-fetch-manager-metrics`, for example, and
the JMX exporter names it `kafka_consumer_fetch_manager_records_lag`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["series_name"]

_CONNECTIONS: Final = frozenset(
    {
        "connection-close-total",
        "connection-count",
        "connection-creation-rate",
        "connection-creation-total",
        "incoming-byte-total",
    }
)
_GROUP: Final = frozenset(
    {
        "assigned-partitions",
        "commit-failed-total",
        "commit-latency-avg",
        "commit-latency-max",
        "commit-total",
        "failed-rebalance-total",
        "heartbeat-total",
        "last-commit-seconds-ago",
        "last-heartbeat-seconds-ago",
        "last-rebalance-seconds-ago",
        "partitions-lost-total",
        "rebalance-latency-avg",
        "rebalance-latency-max",
        "rebalance-latency-total",
        "rebalance-total",
    }
)


def series_name(kind: str, metric: str) -> str:
    """Return the name of a metric in Prometheus.

    Args:
        kind: "producer", "consumer" or "share consumer".
        metric: Kafka's name, such as "records-lag-max".
    """
    if kind == "producer":
        prefix = "producer"
    elif metric in _CONNECTIONS or metric == "poll-idle-ratio-avg":
        prefix = "consumer"
    else:
        part = "coordinator" if metric in _GROUP else "fetch_manager"
        prefix = f"consumer_share_{part}" if kind == "share consumer" else f"consumer_{part}"
    return f"kafka_{prefix}_{metric.replace('-', '_')}"
