"""Rows gathered for Arrow in both builds: the layout decodes to the records."""

import struct

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from aiokafka_lite.record._batch_python import _varint
from aiokafka_lite.record.columnar.arrow import ALL_COLUMNS
from tests.unit.record.columnar.test_columns import mixed_set
from tests.unit.record.conftest import load, load_native
from tests.unit.record.record_batches import T0, batch, patched, simple, with_records

BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=9), BYTES), max_size=3)
RECORDS = st.lists(
    st.tuples(st.integers(-1, 10**15), BYTES, BYTES, HEADERS), min_size=1, max_size=20
)


def bits(count, nulls, validity):
    """The rows that are not null, by the bitmap; bits past the last row are zero."""
    if validity is None:
        assert nulls == 0
        return [True] * count
    assert len(validity) == (count + 7) // 8
    there = [bool(validity[i >> 3] >> (i & 7) & 1) for i in range(8 * len(validity))]
    assert not any(there[count:])
    assert there[:count].count(False) == nulls > 0
    return there[:count]


def numbers(kind, column):
    return list(memoryview(column).cast(kind))


def variable(count, column):
    offsets = numbers("i", column.offsets)
    assert len(offsets) == count + 1
    assert offsets[0] == 0
    assert offsets == sorted(offsets)
    assert offsets[-1] == len(column.data)
    there = bits(count, column.nulls, column.validity)
    assert all(there[i] or offsets[i] == offsets[i + 1] for i in range(count))
    return [
        bytes(column.data[offsets[i] : offsets[i + 1]]) if there[i] else None for i in range(count)
    ]


def rows_of(taken):
    """The rows as tuples of the requested columns."""
    n = taken.rows
    columns = []
    for name, column in taken.columns.items():
        if name in ("key", "value", "topic"):
            columns.append(variable(n, column))
        elif name == "headers":
            places = numbers("i", column.offsets)
            assert len(places) == n + 1
            assert places[-1] == column.entries
            pairs = list(
                zip(
                    variable(column.entries, column.keys),
                    variable(column.entries, column.values),
                    strict=True,
                )
            )
            there = bits(n, column.nulls, column.validity)
            columns.append([tuple(pairs[places[i] : places[i + 1]]) or None for i in range(n)])
            assert [each is not None for each in columns[-1]] == there
        else:
            columns.append(numbers("q" if name in ("offset", "timestamp") else "i", column))
    assert all(len(each) == n for each in columns)
    return list(zip(*columns, strict=True))


def expected(records, base_offset=0, topic=b"tea", partition=3):
    return [
        (
            key,
            value,
            topic,
            partition,
            base_offset + i,
            timestamp * 1000,
            0,
            tuple((name.encode(), each) for name, each in headers) or None,
        )
        for i, (timestamp, key, value, headers) in enumerate(records)
    ]


def columns_of(build, data, topic="tea", partition=3):
    """All columns of a record set."""
    record_set = build.RecordSet(data, topic, partition, 0)
    out = []
    while (columns := build.read_columns(record_set, 10**6)) is not None:
        out.append(columns)
    return out


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(RECORDS, min_size=1, max_size=3), st.integers(1, 50), st.integers(1, 300))
def test_round_trip_through_arrow(build, batches, max_rows, max_bytes):
    rows = build.ArrowRows(ALL_COLUMNS, max_rows, max_bytes)
    wanted, got = [], []
    for number, records in enumerate(batches):
        base = 100 * number
        wanted += expected(records, base)
        for columns in columns_of(build, batch(records, base)):
            at = 0
            while (at := rows.add(columns, at, columns.count)) < columns.count:
                assert rows.full
                taken = rows.take()
                assert 1 <= taken.rows <= max_rows
                got += rows_of(taken)
            assert not rows.full
            assert rows.count == 1 or rows.size <= max_bytes
    got += rows_of(rows.take())
    assert got == wanted
    assert rows.count == rows.size == 0


@settings(max_examples=60, deadline=None)
@given(RECORDS, st.integers(1, 50), st.integers(1, 300), st.sets(st.sampled_from(ALL_COLUMNS)))
def test_both_builds_write_the_same_bytes(records, max_rows, max_bytes, names):
    made = []
    for build in (load_native(), load("python")):
        rows = build.ArrowRows(names, max_rows, max_bytes)
        out = []
        for columns in columns_of(build, batch(records)):
            at = 0
            while (at := rows.add(columns, at, columns.count)) < columns.count:
                out.append((rows.count, rows.size, rows.take()))
        out.append((rows.count, rows.size, rows.take()))
        assert all(set(taken.columns) == names for _, _, taken in out)
        made.append(out)
    assert made[0] == made[1]


def test_batch_holds_rows_of_several_partitions(build):
    records = [(T0, b"k", b"v", ())] * 3
    rows = build.ArrowRows(ALL_COLUMNS, 100, 10**6)
    for topic, partition in (("tea", 0), ("coffee", 7), ("", 1)):
        for columns in columns_of(build, batch(records), topic, partition):
            assert rows.add(columns, 1, 3) == 3
    assert rows.count == 6
    wanted = []
    for topic, partition in ((b"tea", 0), (b"coffee", 7), (b"", 1)):
        wanted += expected(records, 0, topic, partition)[1:]
    assert rows_of(rows.take()) == wanted


def test_any_record_set_gives_the_rows_of_its_records(build):
    """Also compressed sets, old formats, and sets with control batches."""
    data = mixed_set()
    wanted = [
        (
            r.key,
            r.value,
            b"tea",
            3,
            r.offset,
            r.timestamp * 1000,
            r.timestamp_type,
            tuple((name.encode(), value) for name, value in r.headers) or None,
        )
        for r in build.RecordSet(data, "tea", 3, 0).read(1000)
    ]
    rows = build.ArrowRows(ALL_COLUMNS, 1000, 10**6)
    for columns in columns_of(build, data):
        assert rows.add(columns, 0, columns.count) == columns.count
    assert rows_of(rows.take()) == wanted


def test_empty_batch(build):
    assert rows_of(build.ArrowRows(ALL_COLUMNS, 5, 5).take()) == []


def test_oversize_record_gets_its_own_batch(build):
    records = [(T0, None, b"v" * size, ()) for size in (10, 1000, 10)]
    (columns,) = columns_of(build, batch(records))
    rows = build.ArrowRows(ALL_COLUMNS, 100, 50)
    sizes = []
    at = 0
    while at < 3:
        at = rows.add(columns, at, 3)
        sizes.append(len(rows.take().columns["value"].data))
    assert sizes == [10, 1000, 10]


def test_invalid_utf8_in_header_keys_is_replaced_as_in_java(build):
    def record(delta, key, value):
        headers = _varint(1) + _varint(len(key)) + key + _varint(len(value)) + value
        body = b"\0" + _varint(0) + _varint(delta) + _varint(-1) + _varint(-1) + headers
        return _varint(len(body)) + body

    payload = record(0, b"\xff\xfe", b"x") + record(1, b"\xc3\xa4", b"y") + record(2, b"\xc3", b"")
    rows = build.ArrowRows(["headers"], 10, 1000)
    for columns in columns_of(build, with_records(payload, 3)):
        rows.add(columns, 0, columns.count)
    assert [headers for (headers,) in rows_of(rows.take())] == [
        (("��".encode(), b"x"),),
        (("ä".encode(), b"y"),),
        (("�".encode(), b""),),
    ]


def test_log_append_time_and_timestamp_type(build):
    (columns,) = columns_of(build, patched(batch(simple(2)), attributes=8, max_timestamp=T0 + 9))
    rows = build.ArrowRows(["timestamp", "timestampType"], 10, 1000)
    rows.add(columns, 0, 2)
    assert rows_of(rows.take()) == [((T0 + 9) * 1000, 1)] * 2


def test_missing_timestamp_is_minus_one_as_in_spark(build):
    (columns,) = columns_of(build, batch([(-1, None, None, ())]))
    rows = build.ArrowRows(["timestamp"], 10, 1000)
    rows.add(columns, 0, 1)
    assert rows_of(rows.take()) == [(-1000,)]


@pytest.mark.parametrize("timestamp", [2**63 // 1000 + 1, 2**63 - 1])
def test_timestamp_overflow_names_the_record(build, timestamp):
    (columns,) = columns_of(build, batch([(T0, None, None, ()), (timestamp, None, None, ())]))
    rows = build.ArrowRows(ALL_COLUMNS, 10, 1000)
    with pytest.raises(OverflowError, match=f"{timestamp}.*'tea', partition 3, offset 1"):
        rows.add(columns, 0, 2)
    assert rows.count == 0
    assert rows.add(columns, 0, 1) == 1
    without = build.ArrowRows(["offset"], 10, 1000)
    assert without.add(columns, 0, 2) == 2


@pytest.mark.parametrize("field", ["key", "value"])
@pytest.mark.parametrize("start", [-1, 10**6])
def test_row_outside_of_its_data_is_rejected(build, field, start):
    (columns,) = columns_of(build, batch(simple(3)))
    struct.pack_into("=i", getattr(columns, f"{field}_starts"), 4, start)
    rows = build.ArrowRows([field], 10, 1000)
    with pytest.raises(ValueError, match="row 1 points outside"):
        rows.add(columns, 0, 3)
    assert rows.add(columns, 2, 3) == 3  # the other rows are valid


@pytest.mark.parametrize("rows", [(-1, 2), (2, 1), (0, 4)])
def test_rows_out_of_range_raise(build, rows):
    (columns,) = columns_of(build, batch(simple(3)))
    with pytest.raises(IndexError, match="out of range"):
        build.ArrowRows(ALL_COLUMNS, 10, 1000).add(columns, *rows)


def test_columns_shorter_than_they_claim(native):
    (columns,) = columns_of(native, batch(simple(3)))
    columns.key_starts = columns.key_starts[:8]
    with pytest.raises(ValueError, match="shorter"):
        native.ArrowRows(ALL_COLUMNS, 10, 1000).add(columns, 0, 3)


@pytest.mark.parametrize(
    ("names", "max_rows", "max_bytes", "match"),
    [
        (["key", "colour"], 1, 1, "unknown columns: colour"),
        (["key"], 0, 1, "rows of a batch"),
        (["key"], 2**22 + 1, 1, "rows of a batch"),
        (["key"], 1, 0, "bytes of a batch"),
        (["key"], 1, 2**30 + 1, "bytes of a batch"),
    ],
)
def test_arguments_out_of_range(build, names, max_rows, max_bytes, match):
    with pytest.raises(ValueError, match=match):
        build.ArrowRows(names, max_rows, max_bytes)


def test_many_rows_grow_the_buffers(build):
    records = [(T0, b"%d" % i if i % 3 else None, b"x" * (i % 17), ()) for i in range(5000)]
    rows = build.ArrowRows(ALL_COLUMNS, 2**20, 2**20)
    for columns in columns_of(build, batch(records)):
        for first in range(0, columns.count, 7):
            rows.add(columns, first, min(first + 7, columns.count))
    assert rows_of(rows.take()) == expected(records)
