"""Rows written into batches, in both builds, make the same bytes as single records."""

import array

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.record.columnar.column_rows import Field, Stamps
from aiokafka_lite.record.murmur2 import murmur2

NOW = 1_700_000_000_000
SOME = st.none() | st.binary(max_size=40)
COLUMN = st.tuples(SOME, SOME, st.none() | st.integers(0, 2**63 - 1))


def field(name, items, kind="i", start=0):
    """A column of these items, preceded by `start` rows of other data."""
    items = [b"before"] * start + items
    offsets = array.array(kind, [0])
    bits = bytearray((len(items) + 7) // 8)
    data = bytearray()
    for row, item in enumerate(items):
        data += b"" if item is None else item
        offsets.append(len(data))
        if item is not None:
            bits[row >> 3] |= 1 << (row & 7)
    validity = None if None not in items else memoryview(bits)
    return Field(name, memoryview(data), memoryview(offsets), start, validity)


def stamps(items, unit="ms"):
    bits = bytearray((len(items) + 7) // 8)
    for row, item in enumerate(items):
        if item is not None:
            bits[row >> 3] |= 1 << (row & 7)
    numbers = array.array("q", [0 if item is None else item for item in items])
    return Stamps(memoryview(numbers), unit, 0, memoryview(bits))


def values(build, items, **changes):
    return build.Rows(len(items), field("values", items, **changes), None, None, NOW)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=st.lists(COLUMN, min_size=1, max_size=20),
    kind=st.sampled_from("iq"),
    start=st.integers(0, 9),
    room=st.integers(0, 300),
)
def test_rows_make_the_same_batches_as_single_records(build, rows, kind, start, room) -> None:
    columns = build.Rows(
        len(rows),
        field("values", [value for _, value, _ in rows], kind, start),
        field("keys", [key for key, _, _ in rows], kind, start),
        stamps([stamp for _, _, stamp in rows]),
        NOW,
    )
    limit = 61 + columns.largest + room
    place = 0
    while place < len(rows):
        filled, single = (build.BatchBuilder(limit, bytearray(limit)) for _ in range(2))
        end = columns.fill(filled, None, place, len(rows))
        for key, value, stamp in rows[place:end]:
            assert single.append(NOW if stamp is None else stamp, key, value) >= 0
        if end < len(rows):
            key, value, stamp = rows[end]
            assert single.append(NOW if stamp is None else stamp, key, value) == -1
        assert bytes(filled.seal()) == bytes(single.seal())
        assert end > place
        place = end


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(keys=st.lists(SOME, max_size=50), partitions=st.integers(1, 12), data=st.data())
def test_rows_are_grouped_by_the_hash_of_their_key_in_order(build, keys, partitions, data) -> None:
    first = data.draw(st.integers(0, len(keys)))
    rows = build.Rows(len(keys), None, field("keys", keys), None, NOW)
    order, spans = rows.group(first, len(keys), partitions)
    numbers = memoryview(order).cast("i").tolist()
    found = {number: numbers[begin:end] for number, begin, end in spans}
    expected: dict[int, list[int]] = {}
    for row in range(first, len(keys)):
        key = keys[row]
        number = -1 if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions
        expected.setdefault(number, []).append(row)
    assert found == expected
    assert [number for number, _, _ in spans] == sorted(expected)
    assert sorted(numbers) == list(range(first, len(keys)))


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ([0, 2, 1], "row 1 are 2 and 1"),
        ([0, 2, 7], "row 1 are 2 and 7"),
        ([-1, 2, 6], "row 0 are -1 and 2"),
        ([0, 2**31 - 1, 3], "row 0 are 0 and 2147483647"),
    ],
)
@pytest.mark.parametrize("kind", "iq")
def test_offsets_outside_the_data_are_refused(build, offsets, why, kind) -> None:
    numbers = memoryview(array.array(kind, offsets))
    for name in ("values", "keys"):
        bad = Field(name, memoryview(b"abcdef"), numbers)
        columns = (bad, None) if name == "values" else (None, bad)
        with pytest.raises(IllegalArgumentError, match=f"`{name}`.*{why}"):
            build.Rows(2, *columns, None, NOW)


@pytest.mark.parametrize(
    ("unit", "number", "result"),
    [
        ("s", 7, 7000),
        ("ms", 7, 7),
        ("us", 7999, 7),
        ("ns", 7_999_999, 7),
        ("ms", -1, None),
        ("s", 2**63 // 1000 + 1, None),
        ("s", (2**63 - 1) // 1000, (2**63 - 1) // 1000 * 1000),
        ("ns", 2**63 - 1, (2**63 - 1) // 1_000_000),
    ],
)
def test_timestamps_of_all_units_are_milliseconds(build, unit, number, result) -> None:
    arguments = (2, field("values", [b"", b""]), None, stamps([0, number], unit), NOW)
    if result is None:
        with pytest.raises(IllegalArgumentError, match=f"row 1 is {number} {unit}"):
            build.Rows(*arguments)
        return
    builder = build.BatchBuilder(1000, bytearray(1000))
    assert build.Rows(*arguments).fill(builder, None, 0, 2) == 2
    assert builder.max_timestamp == result


def test_too_short_buffers_are_refused(build) -> None:
    data, three = memoryview(b"abc"), memoryview(array.array("i", [0, 1, 2]))
    with pytest.raises(IllegalArgumentError, match="`values`: 4 numbers are needed"):
        build.Rows(3, Field("values", data, three), None, None, NOW)
    with pytest.raises(IllegalArgumentError, match="3, from 1 on"):
        build.Rows(2, Field("values", data, three, 1), None, None, NOW)
    with pytest.raises(IllegalArgumentError):
        build.Rows(2, Field("values", data, three, -1), None, None, NOW)
    bits = Field("values", data, memoryview(array.array("i", [0] * 10)), 0, memoryview(b"\xff"))
    with pytest.raises(IllegalArgumentError, match="9 bits of validity"):
        build.Rows(9, bits, None, None, NOW)
    few = Stamps(memoryview(array.array("q", [1])))
    with pytest.raises(IllegalArgumentError, match="`timestamps`: 2 numbers"):
        build.Rows(2, field("values", [b"", b""]), None, few, NOW)


def test_buffer_that_changes_after_the_check_raises(build) -> None:
    offsets = array.array("i", [0, 1, 2, 3])
    rows = build.Rows(3, Field("values", memoryview(b"abc"), memoryview(offsets)), None, None, NOW)
    offsets[2] = 2**31 - 1
    builder = build.BatchBuilder(1000, bytearray(1000))
    with pytest.raises(IllegalArgumentError, match="row 1"):
        rows.fill(builder, None, 0, 3)
    assert builder.count == 1
    with pytest.raises(IllegalArgumentError, match="row 1"):
        rows.slice_end(0, 10, 1000)
    keyed = build.Rows(1, None, field("keys", [b"k"]), None, NOW)
    assert keyed.group(0, 1, 1)[1] == [(0, 0, 1)]


def test_the_memory_of_the_columns_cannot_be_resized(native) -> None:
    data, offsets = bytearray(b"abc"), array.array("i", [0, 3])
    rows = native.Rows(1, Field("values", memoryview(data), memoryview(offsets)), None, None, NOW)
    with pytest.raises(BufferError):
        data.clear()
    with pytest.raises(BufferError):
        offsets.append(1)
    assert rows.count == 1


def test_places_outside_the_rows_are_refused(build) -> None:
    rows = values(build, [b"a", b"b"])
    builder = build.BatchBuilder(1000, bytearray(1000))
    for first, last in ((-1, 1), (0, 3), (2, 1)):
        with pytest.raises(IndexError):
            rows.fill(builder, None, first, last)
    for bad in (2, -1):
        order = bytearray(array.array("i", [bad]))
        with pytest.raises(IndexError):
            rows.fill(builder, order, 0, 1)
        with pytest.raises(IndexError):
            rows.bound(order, 0)
    with pytest.raises(IndexError):
        rows.group(0, 3, 1)
    with pytest.raises(IndexError):
        rows.group(0, 2, 0)
    assert builder.count == 0


def test_wrong_types_are_refused(native) -> None:
    for wrong in (5, b"x", (memoryview(b""), memoryview(b""))):
        with pytest.raises(TypeError):
            native.Rows(0, wrong, None, None, NOW)
        with pytest.raises(TypeError):
            native.Rows(0, None, None, wrong, NOW)
    rows = values(native, [b"a"])
    with pytest.raises(TypeError):
        rows.fill(None, None, 0, 1)
    with pytest.raises(TypeError):
        rows.fill(native.BatchBuilder(1000, bytearray(1000)), b"0000", 0, 1)
    short = Field("values", memoryview(b""), memoryview(array.array("h", [0, 0])))
    with pytest.raises(IllegalArgumentError):
        native.Rows(1, short, None, None, NOW)


def test_a_sealed_or_full_batch_takes_no_rows(build) -> None:
    rows = values(build, [b"a" * 50] * 3)
    builder = build.BatchBuilder(150, bytearray(150))
    assert rows.fill(builder, None, 0, 3) == 1
    builder.seal()
    assert rows.fill(builder, None, 1, 3) == 1
    tiny = build.BatchBuilder(70, bytearray(70))
    assert rows.fill(tiny, None, 0, 3) == 0
    assert tiny.count == 0


def test_slice_ends_at_the_maximum_rows_or_bytes(build) -> None:
    rows = values(build, [b"x" * 100] * 10)
    assert rows.slice_end(0, 4, 10**9) == 4
    assert rows.slice_end(8, 4, 10**9) == 10
    assert rows.slice_end(0, 100, 1) == 1
    assert rows.slice_end(0, 100, 150) == 2
    assert rows.slice_end(10, 100, 150) == 10
