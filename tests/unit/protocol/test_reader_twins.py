"""The native Reader and its twin return the same values, positions and errors for any bytes."""

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol._reader_python import Reader as Twin

native = pytest.importorskip(
    "aiokafka_lite.protocol._reader_native", reason="needs the native build"
)

PLAIN = (
    "int8", "int16", "int32", "int64", "uint16", "float64", "boolean", "uuid", "unsigned_varint",
    "present", "tag", "tagged_fields", "expect_end",
)  # fmt: skip
FLEXIBLE = (
    "nullable_array_length", "array_length", "nullable_string", "string", "nullable_bytes",
    "bytes_", "nullable_records", "records",
)  # fmt: skip
COUNTED = ("int8s", "int16s", "int32s", "int64s", "raw")
LAYOUTS = (struct.Struct(">iqi"), struct.Struct(">h?"))

counts = st.one_of(st.integers(-2, 12), st.sampled_from([2**31 - 1, 2**62]))
calls = st.one_of(
    st.tuples(st.sampled_from(PLAIN)),
    st.tuples(st.sampled_from(FLEXIBLE), st.booleans()),
    st.tuples(st.sampled_from(COUNTED), counts),
    st.tuples(st.just("unpack"), st.sampled_from(LAYOUTS)),
    st.tuples(st.just("expect_tag_end"), st.integers(0, 9), st.integers(0, 9)),
)
# Mostly small numbers, so that lengths fit and strings are text.
data = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([0, 1, 2, 3, 5, 97, 98, 127, 128, 255]), max_size=60).map(bytes),
)


def outcome(reader: Any, call: tuple[Any, ...]) -> tuple[object, ...]:
    name, *arguments = call
    try:
        value = getattr(reader, name)(*arguments)
    except KafkaProtocolError as error:
        return "error", str(error), reader.pos
    if isinstance(value, memoryview):
        value = "view", bytes(value), value.obj is reader.data
    return repr(value), reader.pos, reader.remaining, reader.end


@settings(max_examples=600, deadline=None)
@given(data, st.sampled_from([bytes, bytearray, memoryview]), st.lists(calls, max_size=12))
@example(b"\x80", bytes, [("string", True)])
@example(b"\xff\xff\xff\xff\x1f", bytes, [("unsigned_varint",)])
@example(b"\x05ab", bytes, [("string", True), ("int8",)])
@example(b"\x03\xc3\x28", bytes, [("string", True), ("int8",)])
@example(b"\xff\xfe", bytes, [("string", False)])
@example(b"\x01\x05\x7f\x00", bytes, [("tagged_fields",)])
@example(b"\x81\x80\x02" + b"x" * 32768, bytes, [("string", True)])
def test_native_reader_equals_its_twin(raw: bytes, kind: Any, asked: list[Any]) -> None:
    twin, reader = Twin(kind(raw)), native.Reader(kind(raw))
    for call in asked:
        assert outcome(reader, call) == outcome(twin, call), call


@given(st.binary(max_size=20), st.integers(0, 20))
def test_both_start_at_an_offset(raw: bytes, offset: int) -> None:
    offset = min(offset, len(raw))
    twin, reader = Twin(raw, offset), native.Reader(raw, offset)
    assert reader.remaining == twin.remaining
    assert outcome(reader, ("raw", reader.remaining)) == outcome(twin, ("raw", twin.remaining))


def test_position_is_set_within_the_data_only() -> None:
    reader = native.Reader(b"abc")
    reader.pos = 2
    assert reader.raw(1) == b"c"
    for outside in (-1, 4, 2**62):
        with pytest.raises(ValueError, match="outside the 3 bytes"):
            reader.pos = outside
    with pytest.raises(ValueError, match="outside the 3 bytes"):
        native.Reader(b"abc", 4)
    assert reader.pos == 3
