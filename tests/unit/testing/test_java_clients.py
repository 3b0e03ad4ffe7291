"""Java and Scala clients from 4.4 down to 0.8.2 write to and read from the embedded broker.

Each poses as a release, so that the clients speak the versions and message formats of that time;
every record, null keys and values, headers and timestamps among them, comes back as it was sent.
"""

import pytest

from aiokafka_lite.testing import FakeCluster
from tools.kafka import KafkaNotAvailable
from tools.kafka.java import JavaTools

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

COUNT = 1000
PARTITIONS = 3


@pytest.mark.parametrize(
    ("poses_as", "release", "settings"),
    [
        (None, "4.4.0", {"compression_type": "zstd"}),
        ("2.8", "2.8.2", {"compression_type": "lz4"}),
        ("0.11", "0.11.0.3", {"compression_type": "none"}),
        ("0.10.2", "0.10.2.2", {"compression_type": "gzip"}),
        ("0.8.2", "0.8.2.2", {"compression_codec": "snappy"}),
    ],
)
def test_what_java_writes_it_reads_again(
    poses_as: str | None, release: str, settings: dict[str, str]
) -> None:
    brokers = 1 if release.startswith("0.8") else 2
    with FakeCluster(
        brokers, {"orders": PARTITIONS}, version=poses_as, check_records=True
    ) as cluster:
        java = JavaTools(cluster.bootstrap_servers, release)
        try:
            written = java.generate("orders", PARTITIONS, COUNT, **settings)
        except KafkaNotAvailable as error:
            pytest.skip(f"no real Kafka: {error}")
        assert sum(digest.count for digest in written.values()) == COUNT
        assert java.digest("orders") == written
