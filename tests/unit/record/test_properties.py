"""Compares the native build with its twin in both directions, and both with aiokafka (Hypothesis).

Written bytes are equal. Reading any data, however damaged, gives the same records, error class and
position.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from aiokafka_lite.errors import KafkaError
from aiokafka_lite.record.compression import Compression, check_level, compress
from aiokafka_lite.record.header import rebase
from aiokafka_lite.record.legacy import convert, encode_message_set
from tests.unit.record.conftest import load, load_native
from tests.unit.record.record_batches import batch, control, patched, peer, rows, with_records

BYTES = st.none() | st.binary(max_size=40) | st.integers(0, 9000).map(bytes)
TIMESTAMPS = st.integers(-1, 2**63 - 1) | st.integers(1_700_000_000_000, 1_700_000_010_000)
NAMES = st.text(st.characters(codec="utf-8"), max_size=10)
HEADERS = st.lists(st.tuples(NAMES, BYTES), max_size=4) | st.just(())
RECORD = st.tuples(TIMESTAMPS, BYTES, BYTES, HEADERS)
RECORDS = st.lists(RECORD, min_size=1, max_size=12)
CODECS = st.sampled_from(list(Compression))

quick = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def builds():
    return load_native(), load("python")


def outcome(record_set, step):
    """All observable results of reading to the end."""
    seen = []
    try:
        while records := record_set.read(step):
            for r in records:
                of_record = (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
                sizes = (r.serialized_key_size, r.serialized_value_size)
                seen.append((*of_record, *sizes, r.checksum, r.leader_epoch))
            seen.append([record_set.next_offset, record_set.leader_epoch])
        end = (record_set.exhausted, record_set.only_partial)
    except KafkaError as error:
        end = (type(error), str(error).split(": ")[-1])
        with pytest.raises(type(error)):
            record_set.read(step)
    seen.append([record_set.next_offset, record_set.leader_epoch])
    return seen, end, record_set.next_offset


def same(builds, data, offset, step, **options):
    native, twin = (
        outcome(build.RecordSet(data, "t", 1, offset, **options), step) for build in builds
    )
    assert native == twin
    return native


@given(
    st.lists(RECORD, max_size=12),
    CODECS,
    st.integers(62, 2000),
    st.booleans(),
    st.tuples(st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1)),
)
@example(
    [(2**63 - 1, None, None, ()), (-1, None, None, ())], Compression.NONE, 500, False, (0,) * 3
)
@example(
    [(-1, None, None, ()), (2**63 - 1, None, None, ())], Compression.NONE, 500, False, (0,) * 3
)
@quick
def test_both_builds_write_the_same_bytes(builds, records, codec, limit, transactional, ids):
    made = [build.BatchBuilder(limit) for build in builds]
    for record in records:
        before = made[0].size
        assert len({builder.append(*record) for builder in made}) == 1
        assert len({(b.size, b.count, b.first_timestamp, b.max_timestamp) for b in made}) == 1
        bounds = {build.record_size_upper_bound(*record[1:]) for build in builds}
        assert len(bounds) == 1
        assert bounds.pop() >= made[0].size - before
    if records:
        names = ("producer_id", "producer_epoch", "base_sequence")
        sealing = {**dict(zip(names, ids, strict=True)), "transactional": transactional}
        one, two = (bytes(builder.seal(codec, **sealing)) for builder in made)
        assert one == two


@given(RECORDS, CODECS, st.integers(0, 2**62), st.integers(1, 20))
@quick
def test_written_batches_are_read_back(builds, records, codec, base, step):
    data = batch(records, base, codec)
    seen, end, position = same(builds, data, base, step)
    got = [row for row in seen if isinstance(row, tuple)]
    assert [row[0] for row in got] == list(range(base, base + len(records)))
    assert [(row[1], row[3], row[4], row[5]) for row in got] == [
        (t, k, v, tuple(h)) for t, k, v, h in records
    ]
    assert end == (True, False)
    assert position == base + len(records)


SEGMENTS = st.lists(
    st.tuples(RECORDS, CODECS, st.sampled_from([0, 1, 2, 2, 2, "control"]), st.booleans()),
    min_size=1,
    max_size=4,
)


def log_of(segments):
    """Batches of every format in sequence, each v2 batch with its own leader epoch."""
    data, offset = bytearray(), 0
    for epoch, (records, codec, kind, transactional) in enumerate(segments):
        if kind == "control":
            marker = control(offset, 1, commit=transactional)
            rebase(marker, 0, offset, epoch)
            data += marker
            offset += 1
            continue
        if kind == 2:
            sealed = batch(records, offset, codec, producer_id=1, transactional=transactional)
            rebase(sealed, 0, offset, epoch)
            data += sealed
        else:
            old = [(timestamp, key, value) for timestamp, key, value, _ in records]
            data += encode_message_set(old, kind, min(codec, Compression.LZ4), base_offset=offset)
        offset += len(records)
    return data


@given(
    SEGMENTS,
    st.integers(0, 40),
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=3),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3),
    st.booleans(),
    st.integers(0, 10**6),
)
@settings(quick, max_examples=200)
def test_both_builds_read_damaged_logs_alike(
    builds, segments, offset, step, aborted, damage, check, cut
):
    data = log_of(segments)
    for at, byte in damage:
        data[at % len(data)] = byte
    if cut < 500_000:
        del data[cut % len(data) :]
    same(
        builds,
        data,
        offset,
        step,
        aborted=aborted,
        check_crcs=check,
        decompressed_limit=100_000,
    )


@given(st.binary(max_size=60), st.integers(0, 5), st.integers(0, 20), st.sampled_from([0, 0, 1, 4]))
@settings(quick, max_examples=200)
def test_both_builds_read_any_payload_alike(builds, payload, count, last, codec):
    raw = compress(payload, Compression(codec))
    data = with_records(raw, count, attributes=codec, last_offset_delta=last)
    same(builds, data, 0, 100)


@given(RECORDS, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4))
@settings(quick, max_examples=200)
def test_both_builds_read_damaged_records_under_a_right_crc_alike(builds, records, damage):
    data = batch(records)
    payload = bytearray(data[61:])
    for at, byte in damage:
        payload[at % len(payload)] = byte
    same(builds, with_records(bytes(payload), len(records)), 0, 100)


@given(SEGMENTS, st.integers(0, 40), st.integers(1, 30))
@quick
def test_columns_of_both_builds_hold_the_same_rows(builds, segments, offset, step):
    data = log_of(segments)
    read = []
    for build in builds:
        record_set = build.RecordSet(data, "t", 1, offset)
        got = []
        while columns := build.read_columns(record_set, step):
            got += rows(columns)
        read.append((got, record_set.next_offset, record_set.leader_epoch))
    assert read[0] == read[1]


@given(st.lists(st.tuples(TIMESTAMPS.filter(lambda t: t > 0), BYTES, BYTES, HEADERS), min_size=1))
@quick
def test_bytes_equal_aiokafka_which_reads_them(builds, records):
    theirs = peer("default_records").DefaultRecordBatchBuilder(2, 0, 1, 5, 6, 7, 10**6)
    for i, record in enumerate(records):
        theirs.append(i, *record[:3], list(record[3]))
    expected = bytes(theirs.build())
    for build in builds:
        ours = build.BatchBuilder(10**6)
        for record in records:
            ours.append(*record)
        sealing = {"producer_id": 5, "producer_epoch": 6, "base_sequence": 7}
        assert bytes(ours.seal(transactional=True, **sealing)) == expected
    for codec in Compression:
        data = bytearray(ours.seal(codec))
        rebase(data, 0, 100, 1)
        got = peer("memory_records").MemoryRecords(bytes(data)).next_batch()
        assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in got] == [
            (t, k, v, list(h)) for t, k, v, h in records
        ]


@given(RECORDS, st.sampled_from([0, 1, 2, 3, 4]))
@quick
def test_batches_of_aiokafka_are_read(builds, records, codec):
    theirs = peer("default_records").DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 10**6)
    records = [
        (max(timestamp, 1), key, value, headers) for timestamp, key, value, headers in records
    ]
    for i, record in enumerate(records):
        theirs.append(i, *record[:3], list(record[3]))
    seen, end, _ = same(builds, bytes(theirs.build()), 0, 1000)
    assert [(row[1], row[3], row[4], list(row[5])) for row in seen if isinstance(row, tuple)] == [
        (t, k, v, list(h)) for t, k, v, h in records
    ]
    assert end == (True, False)


@given(RECORDS, st.sampled_from([0, 1]), st.sampled_from([0, 1, 2, 3]))
@quick
def test_converted_batches_hold_the_same_records(builds, records, magic, codec):
    bare = [(timestamp, key, value, ()) for timestamp, key, value, _ in records]
    data = convert(batch(bare, 0, Compression(codec)), magic)
    seen, _, _ = same(builds, data, 0, 1000)
    assert [row[3:5] for row in seen if isinstance(row, tuple)] == [r[1:3] for r in bare]


@given(st.binary(max_size=300))
@quick
def test_both_builds_agree_on_murmur2(builds, key):
    assert builds[0].murmur2(key) == builds[1].murmur2(key)


@given(st.integers(-(2**40), 2**40), CODECS)
@quick
def test_compression_level_is_accepted_or_raises(level, codec):
    try:
        check_level(codec, level)
    except ValueError:
        with pytest.raises(ValueError):
            compress(b"x", codec, level)
    else:
        compress(b"x", codec, level)


@given(RECORDS, st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
@quick
def test_both_builds_read_any_header_alike(builds, records, wide, narrow):
    data = batch(records)
    for name in ("base_offset", "base_timestamp", "max_timestamp", "producer_id"):
        same(builds, patched(data, **{name: wide}), 0, 5)
    for name in ("batch_length", "leader_epoch", "last_offset_delta", "record_count"):
        same(builds, patched(data, **{name: narrow}) + bytes(9), 0, 5)
    same(builds, patched(data, attributes=narrow >> 16), 0, 5, aborted=[(-1, 0)])
