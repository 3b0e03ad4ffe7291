"""Message formats v0 and v1: writing, reading and errors."""

import struct
import tracemalloc
import zlib

import pytest

from aiokafka_lite.errors import (
    CorruptRecordException,
    RecordTooLargeError,
    UnsupportedCodecError,
    UnsupportedVersionError,
)
from aiokafka_lite.record._lz4_v0 import with_broken_checksum, with_right_checksum, xxhash32
from aiokafka_lite.record.compression import Compression, compress
from aiokafka_lite.record.legacy import convert, encode_message_set, read_messages
from tests.unit.record.record_batches import T0, batch, peer

RECORDS = [(T0, b"key", b"value"), (T0 - 9, None, b""), (T0 + 9, b"", None), (T0 + 1, None, None)]
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


def read_all(data, **options):
    """Every message of a set."""
    out = []
    view = memoryview(data)
    while view:
        size = 12 + struct.unpack_from(">i", view, 8)[0]
        out += read_messages(view[:size], **options)
        view = view[size:]
    return out


def rewritten(message_set, at, value):
    """One message with changed bytes and a correct CRC."""
    out = bytearray(message_set)
    out[at : at + len(value)] = value
    out[12:16] = struct.pack(">I", zlib.crc32(out[16:]))
    return bytes(out)


def wrapper(inner, magic, codec, offset, *, attributes=0, timestamp=T0 + 77):
    """A compressed message around any bytes."""
    payload = compress(inner, codec)
    if codec is Compression.LZ4 and magic == 0:
        payload = with_broken_checksum(payload)
    head = struct.pack(">bb", magic, codec | attributes)
    if magic:
        head += struct.pack(">q", timestamp)
    body = head + struct.pack(">ii", -1, len(payload)) + payload
    crc = struct.pack(">I", zlib.crc32(body))
    return struct.pack(">qi", offset, 4 + len(body)) + crc + body


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("base", [0, 1000])
def test_round_trip(magic, codec, base):
    messages = read_all(encode_message_set(RECORDS, magic, codec, base_offset=base))
    assert [m.offset for m in messages] == [base, base + 1, base + 2, base + 3]
    assert [(m.key, m.value) for m in messages] == [(k, v) for _, k, v in RECORDS]
    stamps = [t for t, _, _ in RECORDS] if magic else [-1] * 4
    assert [m.timestamp for m in messages] == stamps
    assert {m.timestamp_type for m in messages} == ({0} if magic else {-1})


def test_bytes_of_a_v0_and_a_v1_message():
    body = b"\x00\x00" + b"\x00\x00\x00\x01k" + b"\xff\xff\xff\xff"
    expected = struct.pack(">qiI", 0, 15, zlib.crc32(body)) + body
    assert encode_message_set([(T0, b"k", None)], 0) == expected
    body = b"\x01\x00" + struct.pack(">q", T0) + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00"
    expected = struct.pack(">qiI", 0, 22, zlib.crc32(body)) + body
    assert encode_message_set([(T0, None, b"")], 1) == expected


@pytest.mark.parametrize("magic", [0, 1])
def test_bytes_equal_aiokafka(magic):
    theirs = peer("legacy_records").LegacyRecordBatchBuilder(magic, 0, 10**6)
    for i, (timestamp, key, value) in enumerate(RECORDS):
        theirs.append(i, timestamp if magic else None, key, value)
    assert encode_message_set(RECORDS, magic) == bytes(theirs.build())


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(magic, codec) for magic in (0, 1) for codec in CODECS[1:] if (magic, codec) != (0, 3)],
)
def test_message_sets_are_compatible_with_aiokafka(magic, codec):
    ours = encode_message_set(RECORDS, magic, codec, base_offset=50)
    got = [
        (r.offset, r.key, r.value) for r in peer("memory_records").MemoryRecords(ours).next_batch()
    ]
    assert got == [(50 + i, k, v) for i, (_, k, v) in enumerate(RECORDS)]
    theirs = peer("legacy_records").LegacyRecordBatchBuilder(magic, int(codec), 10**6)
    for i, (timestamp, key, value) in enumerate(RECORDS):
        theirs.append(i, timestamp if magic else None, key, value)
    in_log = bytearray(theirs.build())
    in_log[:8] = struct.pack(">q", 3)  # as a broker does: the offset of the last message
    assert [(m.key, m.value) for m in read_all(in_log)] == [(k, v) for _, k, v in RECORDS]


def test_inner_offsets_with_gaps_are_relative_to_the_wrapper():
    """A compacted v1 set: inner offsets 0, 3 and 7 under a wrapper at 107."""
    inner = b"".join(
        encode_message_set([(T0, None, b"%d" % offset)], 1, base_offset=offset)
        for offset in (0, 3, 7)
    )
    messages = read_all(wrapper(inner, 1, Compression.GZIP, 107))
    assert [(m.offset, m.value) for m in messages] == [(100, b"0"), (103, b"3"), (107, b"7")]
    v0 = encode_message_set([(T0, None, b"a"), (T0, None, b"b")], 0, base_offset=40)
    messages = read_all(wrapper(v0, 0, Compression.GZIP, 41))
    assert [m.offset for m in messages] == [40, 41]


def test_log_append_time_of_the_wrapper_applies_to_all():
    inner = encode_message_set(RECORDS, 1)
    messages = read_all(wrapper(inner, 1, Compression.SNAPPY, 3, attributes=8))
    assert {(m.timestamp, m.timestamp_type) for m in messages} == {(T0 + 77, 1)}
    single = rewritten(encode_message_set([(T0, None, b"v")], 1), 17, b"\x08")
    assert [(m.timestamp, m.timestamp_type) for m in read_all(single)] == [(T0, 1)]


@pytest.mark.parametrize("attributes", [0, 8])
def test_v0_messages_in_a_v1_wrapper_are_read(build, attributes):
    """The log cleaner of Kafka 0.10.0 wrote them (KAFKA-4298)."""
    inner = b"".join(
        encode_message_set([(T0, b"key", b"%d" % offset)], 0, base_offset=offset)
        for offset in (0, 3)
    )
    data = wrapper(inner, 1, Compression.GZIP, 103, attributes=attributes) + encode_message_set(
        [(T0, None, b"next")], 1, base_offset=104
    )
    record_set = build.RecordSet(data, "t", 0, 0)
    assert [(r.offset, r.timestamp, r.timestamp_type, r.value) for r in record_set.read(10)] == [
        (100, -1, -1, b"0"),
        (103, -1, -1, b"3"),
        (104, T0, 0, b"next"),
    ]
    assert record_set.exhausted


def test_v1_messages_in_a_v0_wrapper_have_absolute_offsets(build):
    inner = encode_message_set(RECORDS, 1, base_offset=40)
    record_set = build.RecordSet(wrapper(inner, 0, Compression.GZIP, 43), "t", 0, 41)
    assert [(r.offset, r.timestamp) for r in record_set.read(10)] == [
        (41, T0 - 9),
        (42, T0 + 9),
        (43, T0 + 1),
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS[1:])
def test_produced_wrappers_with_offset_0_are_read(magic, codec):
    """As librdkafka, kafka-python and aiokafka produce them."""
    data = wrapper(encode_message_set(RECORDS, magic), magic, codec, 0)
    assert [(m.offset, m.key, m.value) for m in read_all(data)] == [
        (offset, key, value) for offset, (_, key, value) in enumerate(RECORDS)
    ]


def test_xxhash32_known_values():
    assert xxhash32(b"") == 0x02CC5D05
    assert xxhash32(b"a") == 0x550D7456
    assert xxhash32(b"abc") == 0x32D153FF
    with pytest.raises(ValueError):
        xxhash32(bytes(16))


def test_lz4_v0_writes_the_broken_checksum_and_reads_both():
    frame = compress(b"text" * 100, Compression.LZ4)
    broken = with_broken_checksum(frame)
    assert broken != frame
    assert with_right_checksum(broken) == with_right_checksum(frame) == frame
    data = encode_message_set(RECORDS, 0, Compression.LZ4)
    written = data[data.index(b"\x04\x22\x4d\x18") :]
    assert with_right_checksum(written) != written
    inner = encode_message_set(RECORDS, 0)
    right = compress(inner, Compression.LZ4)
    body = b"\x00\x03" + struct.pack(">ii", -1, len(right)) + right
    message = struct.pack(">qiI", 3, 4 + len(body), zlib.crc32(body)) + body
    assert len(read_all(message)) == 4


@pytest.mark.parametrize(
    "frame",
    [b"", b"\x04\x22\x4d\x18", b"no lz4 frame", b"\x04\x22\x4d\x18\x61\x40\x00", bytes(7)],
)
def test_lz4_v0_invalid_frame_raises(frame):
    with pytest.raises(CorruptRecordException):
        with_right_checksum(frame)


def test_convert_rewrites_a_v2_batch():
    data = batch([(t, k, v, ()) for t, k, v in RECORDS], 0, Compression.GZIP)
    assert convert(data, 1) == encode_message_set(RECORDS, 1, Compression.GZIP)
    assert convert(data, 0, 9) == encode_message_set(RECORDS, 0, Compression.GZIP, 9)
    plain = convert(data, 1, compression=Compression.NONE)
    assert plain == encode_message_set(RECORDS, 1)


@pytest.mark.parametrize("magic", [0, 1])
def test_unsupported_features_of_old_formats_raise(magic):
    with_headers = batch([(T0, None, None, ()), (T0, None, None, [("h", b"")])])
    with pytest.raises(UnsupportedVersionError, match=r"headers need message format v2.*0\.11"):
        convert(with_headers, magic)
    zstd = batch([(T0, None, None, ())], 0, Compression.ZSTD)
    with pytest.raises(UnsupportedCodecError, match="zstd"):
        convert(zstd, magic)
    with pytest.raises(ValueError, match="v2 is not"):
        encode_message_set(RECORDS, 2)
    with pytest.raises(ValueError, match="empty"):
        encode_message_set([], magic, Compression.GZIP)
    assert encode_message_set([], magic) == b""


def nested(magic):
    inner = wrapper(encode_message_set(RECORDS, magic), magic, Compression.GZIP, 3)
    return wrapper(inner, magic, Compression.GZIP, 3)


def single(magic=1):
    return encode_message_set([(T0, b"key", b"value")], magic)


CORRUPT = {
    "wrong crc": single()[:-1] + b"\x00",
    "key beyond the message": rewritten(single(), 26, struct.pack(">i", 1000)),
    "value beyond the message": rewritten(single(), 33, struct.pack(">i", 1000)),
    "value shorter than the message": rewritten(single(), 33, struct.pack(">i", 1)),
    "negative offset": struct.pack(">q", -1) + single()[8:],
    "largest offset": struct.pack(">q", 2**63 - 1) + single()[8:],
    "v1 too small": rewritten(encode_message_set([(T0, None, None)], 0), 16, b"\x01"),
    "no key length": rewritten(single(), 16, b"\x00"),
    "unknown magic": rewritten(single(), 16, b"\x05"),
    "compressed nothing": rewritten(encode_message_set([(T0, None, None)], 1), 17, b"\x01"),
    "compressed noise": rewritten(single(), 17, b"\x01"),
    "lz4 noise in v0": rewritten(single(0), 17, b"\x03"),
    "wraps nothing": wrapper(b"", 1, Compression.GZIP, 0),
    "wraps half a message": wrapper(single()[:20], 1, Compression.GZIP, 0),
    "wraps half a header": wrapper(single() + b"abc", 1, Compression.GZIP, 0),
    "wraps a negative size": wrapper(struct.pack(">qi", 0, -1) + bytes(30), 1, CODECS[1], 0),
    "wraps a compressed message": nested(1),
    "wraps a compressed message in v0": nested(0),
    "wraps a wrong crc": wrapper(single()[:-1] + b"\x00", 1, Compression.GZIP, 0),
    "v0 wrapper beyond its messages": wrapper(single(0), 0, Compression.GZIP, 5),
    "wraps offsets out of order": wrapper(
        encode_message_set([(T0, None, None)], 1, base_offset=5) + single(), 1, CODECS[1], 9
    ),
    "wrapper below its messages": wrapper(
        encode_message_set([(T0, None, None)] * 5, 1), 1, Compression.GZIP, 2
    ),
}


@pytest.mark.parametrize("data", CORRUPT.values(), ids=CORRUPT)
def test_corrupt_message_sets_raise(build, data):
    record_set = build.RecordSet(data, "orders", 3, 0)
    for _ in range(2):
        with pytest.raises(CorruptRecordException, match="topic 'orders', partition 3, offset 0"):
            record_set.read(10)
    assert record_set.next_offset == 0


def test_unknown_codecs_and_bombs_raise(build):
    for codec in (4, 5, 7):
        data = rewritten(single(), 17, bytes([codec]))
        with pytest.raises(UnsupportedCodecError, match=str(codec)):
            build.RecordSet(data, "t", 0, 0).read(1)
    bomb = wrapper(bytes(10_000_000), 1, Compression.GZIP, 0)
    with pytest.raises(RecordTooLargeError):
        build.RecordSet(bomb, "t", 0, 0, decompressed_limit=100_000).read(1)


def test_crc_check_can_be_disabled(build):
    data = single()[:-1] + b"\x00"
    (record,) = build.RecordSet(data, "t", 0, 0, check_crcs=False).read(1)
    assert record.value == b"valu\x00"


@pytest.mark.parametrize("magic", [0, 1])
def test_wrapped_messages_are_decoded_lazily(build, magic):
    count = 20_000
    data = encode_message_set(((T0, None, b"") for _ in range(count)), magic, Compression.GZIP)
    record_set = build.RecordSet(data, "t", 0, 0)
    tracemalloc.start()
    try:
        records = record_set.read(100)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000  # including 0.7 MB of bytes
        while not record_set.exhausted:
            records = record_set.read(100)
            assert len(records) == 100
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
    assert records[-1].offset == count - 1
    assert record_set.next_offset == count


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_before_a_corrupt_wrapped_one_are_returned(build, magic):
    whole = encode_message_set([(T0, None, b"value")] * 3, magic)
    size = len(whole) // 3
    for broken in range(3):
        inner = bytearray(whole)
        inner[(broken + 1) * size - 1] ^= 1
        record_set = build.RecordSet(wrapper(bytes(inner), magic, CODECS[1], 2), "t", 0, 0)
        if broken:
            assert [record.offset for record in record_set.read(10)] == list(range(broken))
        for _ in range(2):
            with pytest.raises(CorruptRecordException, match=f"CRC .* offset {broken}"):
                record_set.read(10)
        assert record_set.next_offset == broken


@pytest.mark.parametrize("offset", [2**62, 10, 1, 0])
def test_wrapped_offset_beyond_the_last_one_keeps_the_position(build, offset):
    inner = b"".join(struct.pack(">q", number) + single()[8:] for number in (0, offset, 1))
    record_set = build.RecordSet(wrapper(inner, 1, CODECS[1], 1), "t", 0, 0)
    assert [record.offset for record in record_set.read(10)] == ([0, 1] if offset == 1 else [0])
    with pytest.raises(CorruptRecordException, match="out of order"):
        record_set.read(10)
    assert record_set.next_offset <= 2
