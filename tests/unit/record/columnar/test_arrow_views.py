"""Views of byte strings in both builds: Arrow reads the fields without copying the data."""

import array
import struct
from importlib import import_module

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from aiokafka_lite import _build

BUILDS = ["native", "python"] if _build.NATIVE else ["python"]


@pytest.fixture(params=BUILDS)
def made(request):
    return import_module(f"aiokafka_lite.record.columnar._arrow_views_{request.param}")


def columns(fields):
    """The data, starts and lengths of these fields, which other bytes separate."""
    data, starts, lengths = bytearray(b"--"), array.array("i"), array.array("i")
    for each in fields:
        starts.append(len(data))
        lengths.append(-1 if each is None else len(each))
        data += (each or b"") + b"-"
    return bytes(data), bytearray(starts), bytearray(lengths)


def read(data, found, count):
    """The fields, as Arrow's format describes them."""
    fields = []
    for row in range(count):
        if found.validity is not None and not found.validity[row >> 3] >> (row & 7) & 1:
            fields.append(None)
            continue
        view = found.views[16 * row : 16 * row + 16]
        (length,) = struct.unpack_from("=i", view)
        if length <= 12:
            assert bytes(view[4 + length :]) == bytes(12 - length)
            fields.append(bytes(view[4 : 4 + length]))
        else:
            prefix, buffer, start = struct.unpack_from("=4sii", view, 4)
            assert (prefix, buffer) == (data[start : start + 4], 0)
            fields.append(data[start : start + length])
    assert found.nulls == fields.count(None)
    assert len(found.views) == 16 * count
    return fields


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.none() | st.binary(max_size=30), max_size=30))
def test_views_contain_the_fields(made, fields) -> None:
    data, starts, lengths = columns(fields)
    found = made.byte_views(data, starts, lengths)
    assert read(data, found, len(fields)) == fields
    pa = pytest.importorskip("pyarrow")
    validity = None if found.validity is None else pa.py_buffer(found.validity)
    buffers = [validity, pa.py_buffer(found.views), pa.py_buffer(data)]
    arrow = pa.Array.from_buffers(pa.binary_view(), len(fields), buffers)
    arrow.validate(full=True)
    assert arrow.to_pylist() == fields


@pytest.mark.parametrize(
    ("start", "length"), [(0, 4), (3, 1), (-1, 1), (2**31 - 1, 2**31 - 1), (4, 0)]
)
def test_a_row_outside_the_data_is_refused(made, start, length) -> None:
    starts, lengths = (bytearray(array.array("i", [0, number])) for number in (start, length))
    with pytest.raises(ValueError, match="row 1"):
        made.byte_views(b"abc", starts, bytearray(lengths))


def test_fewer_starts_than_lengths_are_refused(made) -> None:
    with pytest.raises(ValueError, match="1 starts, but 2 lengths"):
        made.byte_views(b"abc", bytearray(4), bytearray(8))


def test_wrong_types_are_refused(made) -> None:
    for arguments in (
        (None, bytearray(4), bytearray(4)),
        (b"", None, bytearray(4)),
        (b"", bytearray(4), None),
    ):
        with pytest.raises(TypeError):
            made.byte_views(*arguments)
    with pytest.raises(TypeError):
        made.known_stamps(None)


def test_missing_timestamps_are_null(made) -> None:
    stamps = [-1 if row % 3 == 0 else row for row in range(20)]
    nulls, validity = made.known_stamps(bytearray(array.array("q", stamps)))
    assert nulls == stamps.count(-1)
    found = [bool(validity[row >> 3] >> (row & 7) & 1) for row in range(20)]
    assert found == [stamp != -1 for stamp in stamps]
    assert made.known_stamps(bytearray(array.array("q", [1, 2]))) == (0, None)
    assert made.known_stamps(bytearray()) == (0, None)
