"""The Kafka metric group of each metric: a part of its name in Prometheus and in OTLP.

Java's clients publish `records-lag` in the group `consumer-fetch-manager-metrics`, for example. The
JMX exporter names it `kafka_consumer_fetch_manager_records_lag`, and KIP-714
`org.apache.kafka.consumer.fetch.manager.records.lag`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLIENT_PREFIX", "metric_group", "otlp_name", "series_name"]

CLIENT_PREFIX: Final = "org.apache.kafka."
"""The names of all metrics of Kafka's clients begin with it (KIP-714)."""

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


def metric_group(kind: str, metric: str) -> str:
    """Return the Kafka group of a metric, without its end "-metrics".

    Args:
        kind: "producer", "consumer", "share consumer" or "admin".
        metric: Kafka's name, such as "records-lag-max".
    """
    if kind == "producer":
        return "producer"
    if kind == "admin":
        return "admin-client"
    if metric in _CONNECTIONS or metric == "poll-idle-ratio-avg":
        return "consumer"
    part = "coordinator" if metric in _GROUP else "fetch-manager"
    return f"consumer-share-{part}" if kind == "share consumer" else f"consumer-{part}"


def series_name(kind: str, metric: str) -> str:
    """Return the name of a metric in Prometheus; see `metric_group`."""
    return f"kafka_{metric_group(kind, metric)}_{metric}".replace("-", "_")


def otlp_name(group: str, metric: str) -> str:
    """Return the name of a metric in OTLP (KIP-714).

    Args:
        group: From `metric_group`.
        metric: Kafka's name.
    """
    return f"{CLIENT_PREFIX}{group}.{metric}".replace("-", ".")
