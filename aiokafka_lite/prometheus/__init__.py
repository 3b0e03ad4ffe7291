"""Metrics of producers and consumers for Prometheus. Needs `aiokafka_lite[prometheus]`.

    collector = KafkaCollector()
    collector.add(consumer)
    prometheus_client.start_http_server(8000)

The names are those of the JMX exporter for Java's clients: docs/observability.md lists them.
"""

from aiokafka_lite.prometheus.collector import KafkaCollector
from aiokafka_lite.prometheus.families import generate_latest

__all__ = ["KafkaCollector", "generate_latest"]
