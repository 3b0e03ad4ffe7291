"""The encoding of Kafka's primitive types: ints, strings, array lengths, uuids.

`Reader` checks all received bytes: invalid bytes raise KafkaProtocolError, and a count is compared
with the bytes left before memory of that size is allocated. The `write_*` functions append to a
bytearray. The generated code packs fixed-size fields itself, with the layouts below.

Since KIP-482 a version of a message is either flexible (compact strings and arrays, whose length
plus one is an unsigned varint, and tagged fields) or not (lengths of fixed size). The parameter
`flexible` selects one.

Source: https://kafka.apache.org/protocol, "Protocol Primitive Types"; KIP-482.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiokafka_lite._build import pick
from aiokafka_lite.protocol._reader_python import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    MAX_STRING_BYTES,
    UINT16,
    UINT32,
    ZERO_UUID,
    Buffer,
    numbers_layout,
)

if TYPE_CHECKING:
    from aiokafka_lite.protocol._reader_python import Reader
else:
    Reader = pick(
        "aiokafka_lite.protocol._reader_native", "aiokafka_lite.protocol._reader_python"
    ).Reader

__all__ = [
    "BOOL",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "MAX_STRING_BYTES",
    "UINT16",
    "UINT32",
    "ZERO_UUID",
    "Buffer",
    "Reader",
    "write_array_length",
    "write_bytes",
    "write_int8s",
    "write_int16s",
    "write_int32s",
    "write_int64s",
    "write_nullable_bytes",
    "write_nullable_string",
    "write_string",
    "write_tagged_fields",
    "write_unsigned_varint",
]


def write_unsigned_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def write_array_length(out: bytearray, count: int, flexible: bool) -> None:
    """Write a count of elements; -1 for a null array."""
    if flexible:
        write_unsigned_varint(out, count + 1)
    else:
        out += INT32.pack(count)


def write_string(out: bytearray, text: str, flexible: bool) -> None:
    raw = text.encode()
    if len(raw) > MAX_STRING_BYTES:
        raise ValueError(f"a string of {len(raw)} bytes; Kafka allows {MAX_STRING_BYTES}")
    if flexible:
        write_unsigned_varint(out, len(raw) + 1)
    else:
        out += INT16.pack(len(raw))
    out += raw


def write_nullable_string(out: bytearray, text: str | None, flexible: bool) -> None:
    if text is not None:
        write_string(out, text, flexible)
    elif flexible:
        out.append(0)
    else:
        out += INT16.pack(-1)


def write_bytes(out: bytearray, value: Buffer, flexible: bool) -> None:
    """Bytes or records."""
    write_array_length(out, len(value), flexible)
    out += value


def write_nullable_bytes(out: bytearray, value: Buffer | None, flexible: bool) -> None:
    """Bytes or records."""
    if value is None:
        write_array_length(out, -1, flexible)
    else:
        write_bytes(out, value, flexible)


def _write_numbers(out: bytearray, values: Sequence[int], code: str) -> None:
    out += numbers_layout(code, len(values)).pack(*values)


def write_int8s(out: bytearray, values: Sequence[int]) -> None:
    _write_numbers(out, values, "b")


def write_int16s(out: bytearray, values: Sequence[int]) -> None:
    _write_numbers(out, values, "h")


def write_int32s(out: bytearray, values: Sequence[int]) -> None:
    _write_numbers(out, values, "i")


def write_int64s(out: bytearray, values: Sequence[int]) -> None:
    _write_numbers(out, values, "q")


def write_tagged_fields(
    out: bytearray, unknown: dict[int, bytes], known: dict[int, bytearray] | None = None
) -> None:
    """Write a struct's tagged fields in ascending order of tag, including unknown ones."""
    if not unknown and not known:
        out.append(0)
        return
    if known and not unknown.keys().isdisjoint(known):
        raise ValueError(
            f"unknown tagged fields {sorted(unknown)} use tags of known fields {sorted(known)}"
        )
    fields: dict[int, bytes | bytearray] = {**(known or {}), **unknown}
    write_unsigned_varint(out, len(fields))
    for tag in sorted(fields):
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(fields[tag]))
        out += fields[tag]
