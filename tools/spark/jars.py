"""Spark's own Kafka connector, as jars of Maven Central, for comparison.

Resolving Spark's own poms fails where the registry is a mirror without the repositories that they
name, so each jar is requested alone. pyspark contains everything else that the connector needs,
compression codecs included.
"""

from __future__ import annotations

from pathlib import Path

from tools.kafka.jars import resolve_artifact
from tools.kafka.releases import Artifact

CONNECTOR = "4.2.0"
"""The connector's release: the newest one available."""

_PARTS = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR),
    # Only 4.0.0 is available. It manages delegation tokens, which no test uses.
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.2"),
    Artifact("org.apache.commons", "commons-pool2", "2.13.1"),
)


def connector() -> list[Path]:
    """The jars that make `format("kafka")` work; fetched once, then kept in the cache.

    Raises:
        KafkaNotAvailable: Maven is missing or cannot resolve them.
    """
    return [resolve_artifact(part.group, part.name, part.version) for part in _PARTS]
