"""RecordSet in both builds with corrupt data: the error, the records before it, the position."""

import struct

import pytest

from aiokafka_lite.errors import (
    CorruptRecordException,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from aiokafka_lite.record.compression import Compression, compress
from aiokafka_lite.record.legacy import encode_message_set
from tests.unit.record.record_batches import T0, batch, control, patched, simple, with_records

GOOD = bytes([12, 0, 0, 0, 1, 1, 0])  # a record of two nulls at delta 0
LONG = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # the longest varint
TOO_LONG = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"


def second(*, offset: int) -> bytes:
    return bytes([12, 0, 0, 2 * offset, 1, 1, 0])


BAD_PAYLOADS = {
    "no record where one is claimed": (b"", 1),
    "fewer records than claimed": (GOOD, 2),
    "more bytes than records": (GOOD + b"\x00", 1),
    "more records than claimed": (GOOD + second(offset=1), 1),
    "a count beyond all memory": (GOOD, 2**31 - 1),
    "record length zero": (b"\x00" * 7, 1),
    "record length negative": (b"\x01" + GOOD[1:], 1),
    "record length beyond the batch": (b"\x7e" + GOOD[1:], 1),
    "record length too small": (b"\x0a" + GOOD[1:], 1),
    "record length too large": (b"\x0e" + GOOD[1:] + b"\x00\x00", 1),
    "record length the longest varint": (LONG + GOOD, 1),
    "record length overflows": (TOO_LONG + GOOD, 1),
    "record length never ends": (b"\xff" * 30, 1),
    "record length is cut off": (b"\xff\xff", 1),
    "timestamp overflows": (bytes([32, 0]) + TOO_LONG + bytes([0, 1, 1, 0]) + bytes(3), 1),
    "offset negative": (bytes([12, 0, 0, 1, 1, 1, 0]), 1),
    "offset beyond the batch's last": (bytes([14, 0, 0, 0xD2, 0x0F, 1, 1, 0]), 1),
    "offset repeated": (GOOD + GOOD, 2),
    "offset going back": (second(offset=5) + second(offset=4), 2),
    "key beyond the record": (bytes([12, 0, 0, 0, 126, 1, 0]), 1),
    "key into the next record": (bytes([12, 0, 0, 0, 8, 1, 0]) + second(offset=1), 2),
    "key of 2 GiB": (bytes([20, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 1, 0]), 1),
    "value beyond the record": (bytes([12, 0, 0, 0, 1, 126, 0]), 1),
    "value of 2^62 bytes": (bytes([30, 0, 0, 0, 1]) + b"\xfe" + b"\xff" * 8 + b"\x00\x00", 1),
    "header count negative": (bytes([12, 0, 0, 0, 1, 1, 1]), 1),
    "header count beyond the record": (bytes([12, 0, 0, 0, 1, 1, 2]), 1),
    "header count beyond all memory": (bytes([30, 0, 0, 0, 1, 1]) + b"\xfe" + b"\xff" * 8, 1),
    "header without a name": (bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1),
    "header name beyond the record": (bytes([16, 0, 0, 0, 1, 1, 2, 20, 1]), 1),
    "header value beyond the record": (bytes([18, 0, 0, 0, 1, 1, 2, 2, 97, 20]), 1),
    "bytes after the headers": (bytes([18, 0, 0, 0, 1, 1, 2, 0, 1, 0]), 1),
    "bytes after no headers": (bytes([14, 0, 0, 0, 1, 1, 0, 0]), 1),
}


def expect_error(record_set, kind, before, position):
    """`before` records are returned, then the error is raised repeatedly; the position stays."""
    if before:
        assert [r.offset for r in record_set.read(10**6)] == before
    for _ in range(3):
        with pytest.raises(kind) as caught:
            record_set.read(10**6)
        assert record_set.next_offset == position
        for part in ("orders", "partition 3", f"offset {position}"):
            assert part in str(caught.value)
    assert not record_set.exhausted


@pytest.mark.parametrize(("payload", "count"), BAD_PAYLOADS.values(), ids=BAD_PAYLOADS)
@pytest.mark.parametrize("codec", [0, 1])
def test_corrupt_records_raise(build, payload, count, codec):
    raw = compress(payload, Compression(codec)) if codec else payload
    bad = with_records(raw, count, base_offset=5, attributes=codec)
    good_records = count and payload.startswith(GOOD)
    position = 6 if good_records else 5
    if payload.startswith(second(offset=5)):
        position = 11
    record_set = build.RecordSet(batch(simple(5)) + bad, "orders", 3, 0)
    before = list(range(5)) + ([position - 1] if position > 5 else [])
    expect_error(record_set, CorruptRecordException, before, position)


@pytest.mark.parametrize(("payload", "count"), BAD_PAYLOADS.values(), ids=BAD_PAYLOADS)
def test_corrupt_records_raise_as_columns(build, payload, count):
    bad = with_records(payload, count, base_offset=5)
    record_set = build.RecordSet(batch(simple(5)) + bad, "orders", 3, 0)
    rows = build.read_columns(record_set, 10**6).count
    assert rows >= 5
    position = record_set.next_offset
    for _ in range(2):
        with pytest.raises(CorruptRecordException, match=f"offset {position}"):
            build.read_columns(record_set, 10)
    assert record_set.next_offset == position


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"base_offset": -1}, CorruptRecordException),
        ({"base_offset": 2**63 - 1}, CorruptRecordException),
        ({"last_offset_delta": -1}, CorruptRecordException),
        ({"record_count": -1}, CorruptRecordException),
        ({"attributes": 5}, UnsupportedCodecError),
        ({"attributes": 7}, UnsupportedCodecError),
        ({"attributes": 1}, CorruptRecordException),
        ({"attributes": 2}, CorruptRecordException),
        ({"attributes": 3}, CorruptRecordException),
        ({"attributes": 4}, CorruptRecordException),
        ({"magic": 3}, CorruptRecordException),
        ({"magic": -1}, CorruptRecordException),
        ({"magic": 1}, CorruptRecordException),
        ({"batch_length": 48}, CorruptRecordException),
        ({"batch_length": 13}, CorruptRecordException),
        ({"batch_length": 0}, CorruptRecordException),
        ({"batch_length": -1}, CorruptRecordException),
        ({"batch_length": -(2**31)}, CorruptRecordException),
        ({"batch_length": 60}, CorruptRecordException),
    ],
    ids=str,
)
def test_corrupt_batch_headers_raise(build, fields, kind):
    bad = patched(batch(simple(5), 5), **fields)
    record_set = build.RecordSet(batch(simple(5)) + bad, "orders", 3, 0)
    expect_error(record_set, kind, list(range(5)), 5)


def test_wrong_crc_hides_only_its_batch(build):
    bad = batch(simple(5), 5)
    bad[-1] ^= 1
    data = batch(simple(5)) + bad + batch(simple(5), 10)
    record_set = build.RecordSet(data, "orders", 3, 0)
    assert [r.offset for r in record_set.read(3)] == [0, 1, 2]
    expect_error(record_set, CorruptRecordException, [3, 4], 5)
    beyond = build.RecordSet(data[len(data) // 3 * 2 :], "orders", 3, 10)
    assert len(beyond.read(10)) == 5


def test_wrong_crc_below_the_wanted_offset_raises(build):
    """Its offsets, which may be corrupt, do not prove that it is below."""
    bad = batch(simple(5), 0)
    bad[-1] ^= 1
    expect_error(build.RecordSet(bad, "orders", 3, 100), CorruptRecordException, [], 100)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_decompression_bomb_stops_at_the_limit(build, codec):
    bomb = compress(bytes(50_000_000), codec, 1)
    data = batch(simple(2)) + with_records(bomb, 1, attributes=codec, base_offset=2)
    record_set = build.RecordSet(data, "orders", 3, 0, decompressed_limit=1_000_000)
    expect_error(record_set, RecordTooLargeError, [0, 1], 2)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_malformed_control_batch_raises(build, size):
    marker = batch([(T0, bytes(size), None, ())], 0, producer_id=1, transactional=True)
    data = patched(marker, attributes=0x30)
    record_set = build.RecordSet(data, "orders", 3, 0, aborted=[(1, 0)])
    expect_error(record_set, CorruptRecordException, [], 0)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes([20, 0, 0, 1, 8]) + bytes(4) + b"\x01\x00",
        bytes([22, 0, 0, 0, 8]) + bytes(4) + b"\x01\x02\x01",
    ],
    ids=["no record", "a negative offset", "a header without a name"],
)
def test_corrupt_control_record_raises(build, payload):
    data = with_records(payload, 1, attributes=0x30, producer_id=1)
    record_set = build.RecordSet(data, "orders", 3, 0, aborted=[(1, 0)])
    expect_error(record_set, CorruptRecordException, [], 0)


def test_invalid_partial_tail_is_ignored(build):
    data = batch(simple(1)) + struct.pack(">qi", 1, 2**31 - 1) + b"\x00" * 40
    record_set = build.RecordSet(data, "orders", 3, 0)
    assert len(record_set.read(10)) == 1
    assert record_set.exhausted


def test_corrupt_legacy_message_raises(build):
    data = bytearray(encode_message_set([(T0, None, b"abc")] * 2, 1, base_offset=0))
    data[-1] ^= 1
    expect_error(build.RecordSet(data, "orders", 3, 0), CorruptRecordException, [0], 1)


@pytest.mark.parametrize("data", [None, "text", 5, [1]])
def test_non_buffers_raise(build, data):
    with pytest.raises(TypeError):
        build.RecordSet(data, "t", 0, 0)


@pytest.mark.parametrize("codec", [c for c in Compression if c])
def test_a_raised_limit_reads_on_at_the_batch_that_exceeded_the_old_one(build, codec):
    data = (
        batch(simple(2), 0, codec)
        + batch(simple(3, size=100_000), 2, codec)
        + batch(simple(2), 5, codec)
    )
    record_set = build.RecordSet(data, "orders", 3, 0, decompressed_limit=10_000)
    assert not record_set.raise_limit(1_000_000)  # no batch has exceeded it yet
    assert [r.offset for r in record_set.read(100)] == [0, 1]
    assert not record_set.raise_limit(10_000)
    for _ in range(2):
        with pytest.raises(RecordTooLargeError):
            record_set.read(100)
    assert (record_set.next_offset, record_set.exhausted) == (2, False)
    assert record_set.raise_limit(1_000_000)
    assert [r.offset for r in record_set.read(4)] == [2, 3, 4, 5]
    assert [r.offset for r in record_set.read(100)] == [6]
    assert record_set.exhausted
    assert not record_set.raise_limit(2_000_000)


def test_a_raised_limit_keeps_aborted_records_hidden(build):
    aborted = batch(
        simple(3, size=100_000),
        0,
        Compression.GZIP,
        producer_id=9,
        producer_epoch=0,
        transactional=True,
    )
    data = (
        aborted + control(3, 9, commit=False) + batch(simple(2, size=100_000), 4, Compression.GZIP)
    )
    record_set = build.RecordSet(data, "t", 0, 0, aborted=[(9, 0)], decompressed_limit=10_000)
    with pytest.raises(RecordTooLargeError):
        record_set.read(10)
    assert record_set.raise_limit(1_000_000)
    assert [r.offset for r in record_set.read(10)] == [4, 5]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_raised_limit_reads_wrapped_messages(build, magic):
    messages = [(T0, b"k", b"v" * 50_000)] * 3
    data = encode_message_set(messages, magic, compression=Compression.GZIP)
    record_set = build.RecordSet(data, "t", 0, 0, decompressed_limit=10_000)
    with pytest.raises(RecordTooLargeError):
        record_set.read(10)
    assert record_set.raise_limit(1_000_000)
    assert len(record_set.read(10)) == 3


def test_a_raised_limit_clears_no_other_error(build):
    data = batch(simple(2))
    data[-1] ^= 1
    record_set = build.RecordSet(data, "t", 0, 0, decompressed_limit=10_000)
    with pytest.raises(CorruptRecordException):
        record_set.read(10)
    assert not record_set.raise_limit(1_000_000)
    with pytest.raises(CorruptRecordException):
        record_set.read(10)
