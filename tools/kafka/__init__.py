"""Real Kafka brokers for tests, benchmarks and hands: any release from 0.8.2 to 4.4, from jars.

`with KafkaCluster("4.4.0", nodes=3) as cluster:` starts one from Maven Central's jars on
loopback; `python -m tools.kafka` does it in the foreground. `available` tells why no
Kafka can be had on this machine, `open_kafka` takes the first of: the address in
`KAFKA_BOOTSTRAP`, Docker, jars.

The harness stands on the standard library alone, never on the package that it judges.
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
