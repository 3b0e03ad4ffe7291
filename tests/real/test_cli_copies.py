"""Odd records, copied by `consume -J | produce -J` and by `topic copy`, as Java reads them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import TopicFactory
from tests.unit.cli.commands import Shell
from tools.kafka import RealKafka
from tools.kafka.java import JavaTools, Record

NOON = 1_700_000_000_000
SIZES = {"max.message.bytes": 4_000_000, "retention.ms": -1}
LARGE = ("-X", "max.request.size=4000000")

ODD = [
    Record(None, b"no key", (), 0, NOON),
    Record(b"no value", None, (), 1, NOON + 1),
    Record(None, None, (), 2, 0),
    Record(b"", b"", (("", b""),), 0, 1),
    Record(b"\x00\xff\xfe", bytes(range(256)), (("binary", b"\x80"),), 1, NOON),
    Record(b"r", b"v", (("h", b"1"), ("h", b"2"), ("g", None), ("h", b"1")), 2, NOON),
    Record("ключ".encode(), '☕ \u2028 \\ " \n'.encode(), (("имя", "é".encode()),), 0, NOON),
    Record(b'{"base64": "AA=="}', b'{"base64": "AA=="}', (), 1, NOON),
    Record(b"null", b"null", (("null", b"null"),), 2, NOON),
    Record(b"large", bytes(range(256)) * 4096, (), 0, NOON),
    Record(b"large text", "é".encode() * 524_288, (), 1, NOON),
    Record(b"lines", b"a\nb\r\n\n", (), 2, NOON),
    Record(b"surrogate", b"\xed\xa0\x80", (), 0, NOON),  # UTF-8 would encode no such character
    Record(b"late", b"out of order", (), 0, NOON - 5),
]

Copy = Callable[[Shell, str, str], None]


def by_json(shell: Shell, source: str, target: str) -> None:
    """`consume -J | produce -J`."""
    lines = shell.ok("consume", source, "-e", "-J")
    shell.ok("produce", target, "-J", *LARGE, stdin=lines)


def by_topic_copy(shell: Shell, source: str, target: str) -> None:
    """`topic copy`."""
    done = shell.run("topic", "copy", source, target, *LARGE)
    assert done.returncode == 0, done.stderr


def comparable(records: list[Record], *, timestamps: bool = True) -> list[Record]:
    """The records by partition and offset, without the fields that may differ in another topic."""
    found = sorted(records, key=lambda each: (each.partition, each.offset))
    return [
        replace(each, timestamp_type=0, timestamp=each.timestamp if timestamps else 0)
        for each in found
    ]


@pytest.fixture
def shell(kafka: RealKafka, tmp_path: Path) -> Shell:
    return Shell(kafka.bootstrap_servers, tmp_path)


@pytest.mark.parametrize("copy", [by_json, by_topic_copy])
@pytest.mark.parametrize("stamped", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_java_reads_the_same_from_a_copy(
    kafka: RealKafka, shell: Shell, topic: TopicFactory, copy: Copy, stamped: str, codec: str
) -> None:
    java = JavaTools(kafka.bootstrap_servers, kafka.version)
    source = topic(3, **SIZES, **{"message.timestamp.type": stamped})
    target = topic(3, **SIZES)
    java.load(source, ODD, compression_type=codec, max_request_size=4_000_000)
    copy(shell, source, target)
    original = java.dump(source)
    assert len(original) == len(ODD)
    assert {each.timestamp_type for each in original} == {int(stamped == "LogAppendTime")}
    copied = java.dump(target)
    assert comparable(copied) == comparable(original)
    if stamped == "CreateTime":
        written = [replace(each, offset=-1, timestamp_type=0) for each in copied]
        assert sorted(map(repr, written)) == sorted(
            repr(replace(each, offset=-1, timestamp_type=0)) for each in ODD
        )


@pytest.mark.parametrize("copy", [by_json, by_topic_copy])
def test_broker_that_stamps_records_replaces_only_the_timestamps(
    kafka: RealKafka, shell: Shell, topic: TopicFactory, copy: Copy
) -> None:
    java = JavaTools(kafka.bootstrap_servers, kafka.version)
    source = topic(3, **SIZES)
    target = topic(3, **SIZES, **{"message.timestamp.type": "LogAppendTime"})
    java.load(source, ODD, max_request_size=4_000_000)
    copy(shell, source, target)
    copied, original = java.dump(target), java.dump(source)
    assert all((each.timestamp or 0) > NOON + 1 for each in copied)
    assert comparable(copied, timestamps=False) == comparable(original, timestamps=False)
