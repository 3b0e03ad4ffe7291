"""Real Kafka brokers for tests, benchmarks and manual use: any release from 0.8.2 to 4.4.

`with KafkaCluster("4.4.0", nodes=3) as cluster:` starts a cluster from Maven Central's jars on
loopback; `python -m tools.kafka` does so in the foreground. `available` returns why no Kafka is
available on this machine. `open_kafka` uses the first of: the address in `KAFKA_BOOTSTRAP`, Docker,
jars.

The harness uses only the standard library, never the package that it tests.
"""

from tools.kafka.backends import OwnCluster, RealKafka, available, open_cluster, open_kafka
from tools.kafka.broker import BrokerFailed
from tools.kafka.cluster import KafkaCluster
from tools.kafka.jars import KafkaNotAvailable
from tools.kafka.releases import NEWEST, OLD_RELEASES
from tools.kafka.security import Security

__all__ = [
    "NEWEST",
    "OLD_RELEASES",
    "BrokerFailed",
    "KafkaCluster",
    "KafkaNotAvailable",
    "OwnCluster",
    "RealKafka",
    "Security",
    "available",
    "open_cluster",
    "open_kafka",
]
