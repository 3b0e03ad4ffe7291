"""The column reader in both builds returns the rows of `RecordSet.read()`."""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from aiokafka_lite.errors import CorruptRecordException
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.legacy import encode_message_set
from tests.unit.record.record_batches import T0, batch, control, patched, rows, simple

HEADERS = (("h", None), ("h", b"x"))


def mixed_set():
    records = [
        (T0, None, b"", ()),
        (T0 - 5, b"", None, HEADERS),
        (T0 + 5, b"key", b"v" * 200, ()),
    ]
    old = [(T0 + i, None, b"old") for i in range(3)]
    return b"".join(
        [
            batch(records, 0),
            batch(records, 3),
            control(6, 1, commit=True),
            batch(records, 7, Compression.LZ4),
            batch(records, 10, Compression.ZSTD),
            encode_message_set(old, 0, base_offset=13),
            encode_message_set(old, 1, Compression.GZIP, base_offset=16),
            patched(batch(records, 19), attributes=8, max_timestamp=T0 + 9),
            batch(records, 22)[:70],
        ]
    )


@pytest.mark.parametrize("step", [1, 2, 5, 1000])
@pytest.mark.parametrize("offset", [0, 1, 5, 8, 11, 17, 21, 22])
def test_same_rows_as_records(build, step, offset):
    data = mixed_set()
    expected = [
        (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
        for r in build.RecordSet(data, "t", 5, offset).read(1000)
    ]
    record_set = build.RecordSet(data, "t", 5, offset)
    got = []
    while columns := build.read_columns(record_set, step):
        assert (columns.topic, columns.partition) == ("t", 5)
        assert 0 < columns.count <= step
        got += rows(columns)
        assert record_set.next_offset > got[-1][0]
    assert got == expected
    assert record_set.exhausted
    assert record_set.next_offset == 22


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 400), st.binary(min_size=1, max_size=3), st.integers(1, 9))
def test_damaged_records_fail_as_in_the_row_reader(build, at, damage, step):
    """Including headers, whose columns are only byte ranges but must be valid, too."""
    data = batch([(T0 + i, b"k", b"v" * i, HEADERS * (i % 3)) for i in range(12)])
    place = 61 + at % (len(data) - 61 - len(damage))
    data[place : place + len(damage)] = damage
    data = patched(data)

    def outcome(read):
        record_set, seen = build.RecordSet(data, "t", 5, 0), []
        try:
            while taken := read(record_set):
                seen += taken
        except CorruptRecordException as error:
            return seen, str(error), record_set.next_offset
        return seen, None, record_set.next_offset

    def by_columns(record_set):
        columns = build.read_columns(record_set, step)
        return columns and rows(columns)

    def by_records(record_set):
        return [
            (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
            for r in record_set.read(step)
        ]

    assert outcome(by_columns) == outcome(by_records)


def test_uncompressed_batches_share_one_set_of_columns(native):
    data = batch(simple(100)) + batch(simple(100), 100)
    columns = native.read_columns(native.RecordSet(data, "t", 0, 0), 1000)
    assert columns.count == 200
    assert columns.data.obj is data
    with pytest.raises(BufferError):
        data.clear()


def test_columns_and_records_can_be_read_in_turns(build):
    record_set = build.RecordSet(batch(simple(10)), "t", 0, 0)
    assert build.read_columns(record_set, 3).count == 3
    assert [r.offset for r in record_set.read(3)] == [3, 4, 5]
    assert [row[0] for row in rows(build.read_columns(record_set, 30))] == [6, 7, 8, 9]
    assert build.read_columns(record_set, 30) is None


def test_no_wanted_record_returns_none(build):
    record_set = build.RecordSet(batch(simple(10)), "t", 0, 0)
    assert build.read_columns(record_set, 0) is None
    assert record_set.next_offset == 0
    assert not record_set.exhausted


def test_many_batches_without_a_wanted_row(build):
    """Each batch claims offsets beyond its only record. No broker writes that, but it must not
    crash a client."""
    idle = [
        patched(batch(simple(1), 0, Compression.LZ4), last_offset_delta=10 + i)
        for i in range(20_000)
    ]
    data = b"".join(idle) + batch(simple(2), 50_000)
    record_set = build.RecordSet(data, "t", 0, 5)
    assert [row[0] for row in rows(build.read_columns(record_set, 10))] == [50_000, 50_001]
    assert record_set.exhausted
