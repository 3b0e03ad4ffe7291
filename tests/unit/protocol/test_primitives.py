"""Primitive types: round trips, and errors for invalid bytes."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol import primitives
from aiokafka_lite.protocol.primitives import INT16, INT32, ZERO_UUID, Reader


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_unsigned_varint(value: int, raw: str) -> None:
    out = bytearray()
    primitives.write_unsigned_varint(out, value)
    assert out.hex() == raw
    reader = Reader(out)
    assert reader.unsigned_varint() == value
    reader.expect_end()


@pytest.mark.parametrize("raw", ["", "80", "ffffff", "ffffffff1f", "808080808001", "ffffffffff"])
def test_truncated_or_too_long_varint_raises(raw: str) -> None:
    reader = Reader(bytes.fromhex(raw))
    with pytest.raises(KafkaProtocolError, match="varint"):
        reader.unsigned_varint()
    assert reader.pos == 0


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300), st.booleans())
def test_strings(text: str, flexible: bool) -> None:
    out = bytearray()
    primitives.write_string(out, text, flexible)
    primitives.write_nullable_string(out, None, flexible)
    for kind in (bytes, bytearray, memoryview):
        reader = Reader(kind(out))
        assert reader.string(flexible) == text
        assert reader.nullable_string(flexible) is None
        reader.expect_end()


@pytest.mark.parametrize("flexible", [False, True])
def test_writing_a_too_long_string_raises(flexible: bool) -> None:
    out = bytearray()
    primitives.write_string(out, "x" * 32767, flexible)
    assert Reader(out).string(flexible) == "x" * 32767
    with pytest.raises(ValueError, match="32768"):
        primitives.write_string(bytearray(), "x" * 32768, flexible)


@given(st.binary(max_size=300), st.booleans())
def test_bytes_and_records(value: bytes, flexible: bool) -> None:
    out = bytearray()
    primitives.write_bytes(out, memoryview(value), flexible)
    primitives.write_nullable_bytes(out, bytearray(value), flexible)
    primitives.write_nullable_bytes(out, None, flexible)
    data = bytes(out)
    reader = Reader(data)
    assert reader.bytes_(flexible) == value
    view = reader.nullable_records(flexible)
    assert view is not None
    assert view == value
    assert view.obj is data, "records are a slice of what was received"
    assert reader.nullable_bytes(flexible) is None
    reader.expect_end()


@pytest.mark.parametrize(
    ("kind", "bits"), [("int8s", 8), ("int16s", 16), ("int32s", 32), ("int64s", 64)]
)
def test_arrays_of_numbers(kind: str, bits: int) -> None:
    values = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    out = bytearray()
    getattr(primitives, f"write_{kind}")(out, values)
    reader = Reader(out)
    assert getattr(reader, kind)(len(values)) == values
    reader.expect_end()
    assert getattr(reader, kind)(0) == []
    with pytest.raises(KafkaProtocolError, match="1 numbers, but 0 bytes left"):
        getattr(reader, kind)(1)


def test_uuids() -> None:
    some = UUID("01234567-89ab-cdef-0123-456789abcdef")
    reader = Reader(some.bytes + bytes(16))
    assert reader.uuid() == some
    assert reader.uuid() is ZERO_UUID


@pytest.mark.parametrize(
    ("read", "raw", "problem"),
    [
        (lambda r: r.int64(), "00000000000000", "8 bytes wanted, 7 left"),
        (lambda r: r.unpack(INT32), "000000", "4 bytes wanted, 3 left"),
        (lambda r: r.uuid(), "00" * 15, "16 bytes wanted, 15 left"),
        (lambda r: r.string(False), "0004616263", "a string of 4 bytes, but 3 left"),
        (lambda r: r.string(True), "05616263", "a string of 4 bytes, but 3 left"),
        (lambda r: r.string(False), "ffff", "null where a string"),
        (lambda r: r.string(True), "00", "null where a string"),
        (lambda r: r.nullable_string(False), "fffe", "a negative length: -2"),
        (lambda r: r.nullable_string(True), "", "varint"),
        (lambda r: r.nullable_string(False), "0002c328", "not UTF-8"),
        (lambda r: r.bytes_(False), "7fffffff", "2147483647 bytes wanted, 0 left"),
        (lambda r: r.bytes_(False), "ffffffff", "null where bytes"),
        (lambda r: r.records(True), "00", "null where records"),
        (lambda r: r.records(True), "0aff", "9 bytes of records, but 1 left"),
        (lambda r: r.array_length(False), "7fffffff", "an array of 2147483647 elements"),
        (lambda r: r.array_length(False), "80000000", "a negative length"),
        (lambda r: r.array_length(True), "ffffffff0f", "an array of 4294967294 elements"),
        (lambda r: r.array_length(True), "00", "null where an array"),
        (lambda r: r.tagged_fields(), "01057f00", "tagged field 5 of 127 bytes, but 1 left"),
        (lambda r: r.tagged_fields(), "ffffffff0f", "varint"),
        (lambda r: r.expect_end(), "00", "1 bytes left over"),
    ],
)
def test_invalid_bytes_raise(read: Callable[[Reader], Any], raw: str, problem: str) -> None:
    with pytest.raises(KafkaProtocolError, match=problem):
        read(Reader(bytes.fromhex(raw)))


def test_reading_a_too_long_compact_string_raises() -> None:
    out = bytearray()
    primitives.write_bytes(out, b"x" * 40000, flexible=True)
    with pytest.raises(KafkaProtocolError, match="longer than Kafka allows"):
        Reader(out).string(True)


def test_tagged_fields_are_written_in_ascending_order() -> None:
    out = bytearray()
    known = {3: bytearray(b"c"), 0: bytearray(b"a")}
    primitives.write_tagged_fields(out, {200: b"", 1: b"bb"}, known)
    assert out.hex() == "04" + "000161" + "01026262" + "030163" + "c80100"
    assert Reader(out).tagged_fields() == {0: b"a", 1: b"bb", 3: b"c", 200: b""}


def test_unknown_tag_that_the_schema_defines_raises() -> None:
    with pytest.raises(ValueError, match="use tags of known fields"):
        primitives.write_tagged_fields(bytearray(), {0: b""}, {0: bytearray()})


def test_reader_can_start_at_any_position() -> None:
    reader = Reader(b"\xff\xff" + INT16.pack(7), 2)
    assert reader.remaining == 2
    assert reader.int16() == 7
    assert reader.remaining == 0
