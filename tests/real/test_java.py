"""Java's reader and writer agree with each other and with the canonical form in Python.

Every test that compares this package with Java relies on them, on all broker releases.
"""

import sys

import pytest

from tests.conftest import TopicFactory
from tools.kafka import NEWEST, OLD_RELEASES, KafkaCluster, RealKafka
from tools.kafka.canonical import PartitionDigest
from tools.kafka.java import JavaFailed, JavaTools, Record, run
from tools.kafka.resident import Resident, ResidentEnded

RECORDS = [
    Record(b"k", b"v", (("h", b"1"), ("h", None), ('quoted " \\ \n é', b"")), 0, 1000),
    Record(None, b"\x00\xff", (), 1, 5),
    Record(b"", b"", (("", b"empty name"),), 2, 7),
    Record(b"k", None, (), 0, 2000),
]


def python_digests(records: list[Record]) -> dict[int, tuple[int, str]]:
    digests: dict[int, PartitionDigest] = {0: PartitionDigest(), 1: PartitionDigest()}
    digests[2] = PartitionDigest()
    for each in records:
        assert each.partition is not None
        assert each.timestamp is not None
        digests[each.partition].add(
            each.offset, each.timestamp, each.timestamp_type, each.key, each.value, each.headers
        )
    return {number: (digest.count, digest.hexdigest()) for number, digest in digests.items()}


def check_there_and_back(
    java: JavaTools, topic: str, *, headers: bool, timestamps: bool, codec: str
) -> None:
    """Written by Java, read by Java: each part of a record, and the digests of many."""
    written = [
        Record(
            each.key, each.value, each.headers if headers else (), each.partition, each.timestamp
        )
        for each in RECORDS
    ]
    assert java.load(topic, written, compression_type=codec) == [0, 0, 0, 1]
    read = java.dump(topic)
    assert [
        (each.partition, each.offset, each.key, each.value, each.headers, each.timestamp)
        for each in read
    ] == [
        (each.partition, offset, each.key, each.value, each.headers, stamp)
        for each, offset in sorted(
            zip(written, [0, 0, 0, 1], strict=True), key=lambda pair: (pair[0].partition, pair[1])
        )
        for stamp in [each.timestamp if timestamps else -1]
    ]
    digests = java.digest(topic)
    assert {n: (each.count, each.sha256) for n, each in digests.items()} == python_digests(read)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_java_reads_what_java_wrote(kafka: RealKafka, topic: TopicFactory, codec: str) -> None:
    java = JavaTools(kafka.bootstrap_servers, kafka.version)
    check_there_and_back(java, topic(3), headers=True, timestamps=True, codec=codec)


def test_digest_equals_the_acknowledged_records(kafka: RealKafka, topic: TopicFactory) -> None:
    java = JavaTools(kafka.bootstrap_servers, kafka.version)
    name = topic(3)
    acknowledged = java.generate(name, 3, 20_000, seed=7, compression_type="zstd")
    assert sum(each.count for each in acknowledged.values()) == 20_000
    assert java.digest(name) == acknowledged
    assert {n: (each.count, each.sha256) for n, each in acknowledged.items()} == python_digests(
        java.dump(name)
    )
    java.load(name, [Record(b"one", b"more", (), 0, 1)])
    assert java.digest(name)[0] != acknowledged[0]
    assert java.digest(name)[1] == acknowledged[1]


def test_java_failure_raises(kafka: RealKafka) -> None:
    with pytest.raises(JavaFailed, match=r"org\.apache\.kafka"):
        run("org.apache.kafka.tools.ProducerPerformance", ["--no-such-option"], kafka.version)


def test_failed_reader_raises_and_the_next_reader_works(
    kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic()
    java = JavaTools(kafka.bootstrap_servers, kafka.version)
    refused = JavaTools(kafka.bootstrap_servers, kafka.version, {"security.protocol": "none"})
    with pytest.raises(JavaFailed, match=r"org\.apache\.kafka\.common\.config\.ConfigException"):
        refused.dump(name)
    assert java.load(name, [Record(value=b"a")]) == [0]
    assert [each.value for each in java.dump(name)] == [b"a"]


def test_resident_jvm_is_replaced_if_it_ends_or_is_slow() -> None:
    script = (
        "import sys; sys.stdin.buffer.read({}); "
        "sys.stdout.buffer.write({!r}); sys.stdout.flush(); {}"
    )
    answer, wait = b"\0\0\0\0\0\0\0\1x", "sys.stdin.read()"
    size = 4 + (4 + 4) + (4 + 1)  # the count, `Dump` and `a`

    def resident(read: int, written: bytes, then: str) -> Resident:
        return Resident([sys.executable, "-S", "-c", script.format(read, written, then)])

    answering = resident(size, answer, wait)
    assert answering.call("Dump", ["a"], 60.0) == (True, "x")
    answering.close()
    ending = resident(size, answer[:8], "0")
    for _ in range(2):
        with pytest.raises(ResidentEnded, match="the JVM ended"):
            ending.call("Dump", ["a"], 60.0)
    with pytest.raises(ResidentEnded, match="did not answer in time"):
        resident(size, b"", wait).call("Dump", ["a"], 0.1)


@pytest.mark.brokers
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", [NEWEST, "3.9.2", *OLD_RELEASES])
def test_java_reads_what_java_wrote_on_every_broker(version: str) -> None:
    with KafkaCluster(version) as cluster:
        number = cluster.release.number
        cluster.create_topic("there-and-back", 3)
        cluster.create_topic("many", 3)
        java = JavaTools(cluster.bootstrap_servers, version)
        check_there_and_back(
            java,
            "there-and-back",
            headers=number >= (0, 11),
            timestamps=number >= (0, 10),
            codec="gzip",
        )
        acknowledged = java.generate("many", 3, 5_000, compression_type="snappy")
        assert java.digest("many") == acknowledged
        assert sum(each.count for each in acknowledged.values()) == 5_000
