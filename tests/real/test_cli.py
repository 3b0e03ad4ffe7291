"""`produce` and `consume` against a real Kafka; other clients check their effect."""

import json
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.real.visibility import seen
from tests.unit.cli.commands import Shell
from tools.kafka import RealKafka

confluent: Any = pytest.importorskip("confluent_kafka", reason="the interop extra is not installed")
confluent_admin: Any = pytest.importorskip("confluent_kafka.admin")
kafka_python: Any = pytest.importorskip("kafka", reason="the interop extra is not installed")

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]

ODD: list[Row] = [
    (None, b"no key", []),
    (b"no value", None, []),
    (None, None, []),
    (b"", b"", [("", b"")]),
    (b"\x00\xff\xfe", bytes(range(256)), [("binary", b"\x80")]),
    (b"repeated", b"headers", [("h", b"1"), ("h", b"2"), ("g", None), ("h", b"1")]),
    ("ключ".encode(), '☕ \u2028 \\ " \n'.encode(), [("имя", "é".encode())]),
    (b'{"base64": "AA=="}', b'{"base64": "AA=="}', []),
    (b"large", bytes(range(256)) * 4000, []),
    (b"lines", b"a\nb\r\n\n", []),
]


@pytest.fixture
def shell(kafka: RealKafka, tmp_path: Path) -> Shell:
    return Shell(kafka.bootstrap_servers, tmp_path)


@pytest.fixture
def name(kafka: RealKafka) -> Any:
    """Makes topics with unique names."""

    def make(**config: Any) -> str:
        topic = f"cli-{uuid.uuid4().hex[:10]}"
        kafka.create_topic(topic, 1, config={"max.message.bytes": 4_000_000, **config})
        return topic

    return make


def send_all(kafka: RealKafka, topic: str, rows: list[Row]) -> None:
    """By librdkafka."""
    producer = confluent.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 4_000_000}
    )
    for key, value, headers in rows:
        producer.produce(topic, value, key, headers=headers, timestamp=1_700_000_000_000)
    assert producer.flush(60) == 0


def read_all(kafka: RealKafka, topic: str, count: int) -> list[tuple[Any, ...]]:
    """By kafka-python."""
    consumer = kafka_python.KafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
        max_partition_fetch_bytes=4_000_000,
    )
    found = []
    try:
        for record in consumer:
            found.append((record.key, record.value, list(record.headers), record.timestamp))
            if len(found) == count:
                break
    finally:
        consumer.close()
    return found


def test_json_lines_copy_every_odd_record_with_equal_bytes(
    kafka: RealKafka, shell: Shell, name: Any
) -> None:
    source, copy = name(**{"message.timestamp.type": "LogAppendTime"}), name()
    send_all(kafka, source, ODD)
    lines = shell.ok("consume", source, "-e", "-J")
    assert {json.loads(line)["timestamp_type"] for line in lines.splitlines()} == {"log_append"}
    shell.ok("produce", copy, "-J", "-X", "max.request.size=4000000", stdin=lines)
    original, copied = (read_all(kafka, topic, len(ODD)) for topic in (source, copy))
    assert [row[:3] for row in copied] == ODD
    assert copied == original  # the timestamps, too


def test_sized_format_copies_keys_and_values_with_equal_bytes(
    kafka: RealKafka, shell: Shell, name: Any
) -> None:
    source, copy = name(), name()
    send_all(kafka, source, ODD)
    text = "%d %K{big32}%k%V{big32}%v%H{big16}%h{%K{big32}%k%V{big32}%v}"
    data = shell.ok("consume", source, "-e", "-f", text)
    shell.ok(*("produce", copy, "-f", text, "-X", "max.request.size=4000000"), stdin=data)
    assert read_all(kafka, copy, len(ODD)) == read_all(kafka, source, len(ODD))


def test_partition_added_while_following_is_read(kafka: RealKafka, shell: Shell, name: Any) -> None:
    topic = name()
    send_all(kafka, topic, [(None, b"old", [])])
    options = ("-f", r"%p %v\n", "-X", "metadata.max.age.ms=500")
    reader = shell.start("consume", topic, *options, stdout=subprocess.PIPE)
    assert reader.stdout is not None
    try:
        assert reader.stdout.readline() == b"0 old\n"
        kafka_admin = confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        grown = kafka_admin.create_partitions([confluent_admin.NewPartitions(topic, 2)])
        grown[topic].result(60)

        def partitions() -> int:  # a producer that knows only one fails the record
            return len(kafka_admin.list_topics(topic, timeout=30).topics[topic].partitions)

        seen(partitions, 2)
        producer = confluent.Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce(topic, b"new", partition=1)
        assert producer.flush(60) == 0
        assert reader.stdout.readline() == b"1 new\n"
    finally:
        reader.terminate()
        reader.communicate(timeout=60)


def wait_for_markers(kafka: RealKafka, topic: str) -> None:
    """Wait until no transaction is open: Kafka writes the markers after it has answered EndTxn."""
    admin = confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    partition = confluent.TopicPartition(topic, 0)

    def end(isolation: Any) -> int:
        asked = {partition: confluent_admin.OffsetSpec.latest()}
        listed = admin.list_offsets(asked, isolation_level=isolation)
        offset: int = listed[partition].result(60).offset
        return offset

    deadline = time.monotonic() + 60
    levels = confluent.IsolationLevel
    while end(levels.READ_COMMITTED) != end(levels.READ_UNCOMMITTED):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_transaction_is_visible_as_a_whole(kafka: RealKafka, shell: Shell, name: Any) -> None:
    topic = name()
    shell.fails(1, "produce", topic, "-J", "--transaction", stdin=b'{"value":"lost"}\nnope\n')
    shell.ok("produce", topic, "--transaction", stdin=b"one\ntwo\n")
    wait_for_markers(kafka, topic)
    assert shell.ok("consume", topic, "-e", "--committed") == b"one\ntwo\n"
    # The log ends with a control record, and the aborted record with another.
    assert shell.ok("consume", topic, "--tail", "2", "-e") == b"one\ntwo\n"
    consumer = kafka_python.KafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=60_000,
    )
    try:
        assert [next(consumer).value for _ in range(2)] == [b"one", b"two"]
    finally:
        consumer.close()


def test_tail_walks_back_over_an_aborted_transaction(
    kafka: RealKafka, shell: Shell, name: Any
) -> None:
    topic = name()
    shell.ok("produce", topic, stdin=b"kept 1\nkept 2\n")
    aborted = b"61\n" * 50 + b"zz\n"
    shell.fails(1, "produce", topic, "-f", r"%v{hex}\n", "--transaction", stdin=aborted)
    wait_for_markers(kafka, topic)
    assert shell.ok("consume", topic, "--tail", "2", "-e", "--committed") == b"kept 1\nkept 2\n"


def test_group_commits_are_seen_by_another_client(
    kafka: RealKafka, shell: Shell, name: Any
) -> None:
    topic = name()
    shell.ok("produce", topic, stdin=b"a\nb\nc\n")
    group = f"cli-{uuid.uuid4().hex[:10]}"
    assert shell.ok("consume", topic, "-g", group, "-n", "2") == b"a\nb\n"
    other = confluent.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        [committed] = other.committed([confluent.TopicPartition(topic, 0)], timeout=30)
    finally:
        other.close()
    assert committed.offset == 2


def test_times_select_records(kafka: RealKafka, shell: Shell, name: Any) -> None:
    topic = name(**{"retention.ms": -1})
    stdin = b"".join(b"%d %d\n" % (1_700_000_000_000 + n, n) for n in range(10))
    shell.ok("produce", topic, "-f", r"%d %v\n", stdin=stdin)
    found = shell.ok("consume", topic, "-o", "@1700000000003:1700000000006", "-f", "%v")
    assert found == b"345"
    assert shell.ok("consume", topic, "-o", "@1700000000008", "-e", "-f", "%v") == b"89"
