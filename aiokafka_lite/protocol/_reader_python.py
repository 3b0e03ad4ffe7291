"""The pure-Python twin of `_reader_native`: its specification, and its fallback.

`primitives` selects one of the two. The layouts of the primitive types are here because both need
them.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NoReturn, TypeAlias
from uuid import UUID

from aiokafka_lite.errors import KafkaProtocolError

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Types that can be decoded, and that a `records` field may hold."""

ZERO_UUID: Final = UUID(int=0)
"""Kafka's "no topic id"."""

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
UINT16: Final = Struct(">H")
UINT32: Final = Struct(">I")
FLOAT64: Final = Struct(">d")
BOOL: Final = Struct(">?")

MAX_STRING_BYTES: Final = 0x7FFF
"""Kafka limits a string to 32,767 UTF-8 bytes, also in compact form."""


@lru_cache(maxsize=512)
def numbers_layout(code: str, count: int) -> Struct:
    """Return the layout of `count` numbers of one type."""
    return Struct(f">{count}{code}")


@lru_cache(maxsize=4096)
def uuid_of(raw: bytes) -> UUID:
    """Return the UUID of 16 bytes, cached: every response repeats the same topic ids, and a UUID
    is slow to create."""
    return UUID(bytes=raw) if any(raw) else ZERO_UUID


def unsigned_varint_at(view: memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned varint at a position, and where it ends.

    Raises:
        IndexError: It is truncated, or has more than five bytes.
    """
    value = 0
    for shift in range(0, 35, 7):
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise IndexError


class Reader:
    """A cursor over received bytes.

    Args:
        data: The bytes; `records` fields become memoryviews of them, all others are copied.
        offset: Position at which to begin.

    Every method raises KafkaProtocolError if the bytes do not hold the requested value.
    """

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: Buffer, offset: int = 0) -> None:
        self.data = data
        self.pos = offset
        self.end = len(data)

    @property
    def remaining(self) -> int:
        """Number of bytes not yet read."""
        return self.end - self.pos

    def _fail(self, problem: str) -> NoReturn:
        raise KafkaProtocolError(f"{problem} (at byte {self.pos} of {self.end})")

    def expect_end(self) -> None:
        """Raise if bytes are left after a whole message."""
        if self.pos != self.end:
            self._fail(f"{self.end - self.pos} bytes left over after the message")

    # Fixed sizes

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Read a run of fixed-size fields at once."""
        try:
            values = layout.unpack_from(self.data, self.pos)
        except StructError:
            self._fail(f"{layout.size} bytes wanted, {self.end - self.pos} left")
        self.pos += layout.size
        return values

    def int8(self) -> int:
        value: int = self.unpack(INT8)[0]
        return value

    def int16(self) -> int:
        value: int = self.unpack(INT16)[0]
        return value

    def int32(self) -> int:
        value: int = self.unpack(INT32)[0]
        return value

    def int64(self) -> int:
        value: int = self.unpack(INT64)[0]
        return value

    def uint16(self) -> int:
        value: int = self.unpack(UINT16)[0]
        return value

    def float64(self) -> float:
        value: float = self.unpack(FLOAT64)[0]
        return value

    def boolean(self) -> bool:
        value: bool = self.unpack(BOOL)[0]
        return value

    def uuid(self) -> UUID:
        return uuid_of(self._take(16))

    # Lengths

    def unsigned_varint(self) -> int:
        """Read an unsigned varint of at most 32 bits."""
        data = self.data
        pos = self.pos
        try:
            byte = data[pos]
            value = byte & 0x7F
            shift = 0
            while byte > 0x7F:
                pos += 1
                shift += 7
                byte = data[pos]
                value |= (byte & 0x7F) << shift
                if value > 0xFFFFFFFF or shift > 28:
                    self._fail("a varint is longer than 32 bits")
        except IndexError:
            self._fail("a varint is cut off")
        self.pos = pos + 1
        return value

    def _length(self, flexible: bool, narrow: bool) -> int:
        """Read a length or count: -1 for null, never another negative number."""
        if flexible:
            return self.unsigned_varint() - 1
        length = self.int16() if narrow else self.int32()
        if length < -1:
            self._fail(f"a negative length: {length}")
        return length

    def nullable_array_length(self, flexible: bool) -> int:
        """Read the number of elements that follow; -1 for a null array.

        No array element is empty (the generator ensures it), so a count above the number of bytes
        left is invalid.
        """
        pos = self.pos
        if flexible and pos < self.end and (byte := self.data[pos]) < 0x80:
            self.pos = pos + 1
            count = byte - 1
        else:
            count = self._length(flexible, narrow=False)
        if count > self.end - self.pos:
            self._fail(f"an array of {count} elements, but {self.end - self.pos} bytes left")
        return count

    def array_length(self, flexible: bool) -> int:
        """Read the number of elements that follow."""
        count = self.nullable_array_length(flexible)
        if count < 0:
            self._fail("null where an array must be")
        return count

    # Bytes and text

    def _take(self, length: int) -> bytes:
        pos = self.pos
        end = pos + length
        if not pos <= end <= self.end:
            self._fail(f"{length} bytes wanted, {self.end - pos} left")
        self.pos = end
        return bytes(self.data[pos:end])

    def raw(self, length: int) -> bytes:
        """Read the next `length` bytes unchanged."""
        return self._take(length)

    def nullable_string(self, flexible: bool) -> str | None:
        pos = self.pos
        if flexible and pos < self.end and (byte := self.data[pos]) < 0x80:
            self.pos = pos = pos + 1
            length = byte - 1
        else:
            length = self._length(flexible, narrow=True)
            pos = self.pos
        if length < 0:
            return None
        end = pos + length
        if end > self.end:
            self._fail(f"a string of {length} bytes, but {self.end - pos} left")
        if length > MAX_STRING_BYTES:
            self._fail(f"a string of {length} bytes, longer than Kafka allows")
        try:
            text = str(self.data[pos:end], "utf-8")
        except UnicodeDecodeError as error:
            self._fail(f"a string is not UTF-8: {error.reason}")
        self.pos = end
        return text

    def string(self, flexible: bool) -> str:
        text = self.nullable_string(flexible)
        if text is None:
            self._fail("null where a string must be")
        return text

    def nullable_bytes(self, flexible: bool) -> bytes | None:
        length = self._length(flexible, narrow=False)
        return None if length < 0 else self._take(length)

    def bytes_(self, flexible: bool) -> bytes:
        value = self.nullable_bytes(flexible)
        if value is None:
            self._fail("null where bytes must be")
        return value

    def nullable_records(self, flexible: bool) -> memoryview | None:
        """Return a view of the data, without a copy."""
        length = self._length(flexible, narrow=False)
        if length < 0:
            return None
        pos = self.pos
        end = pos + length
        if end > self.end:
            self._fail(f"{length} bytes of records, but {self.end - pos} left")
        self.pos = end
        return memoryview(self.data)[pos:end]

    def records(self, flexible: bool) -> memoryview:
        value = self.nullable_records(flexible)
        if value is None:
            self._fail("null where records must be")
        return value

    # Arrays of numbers

    def _numbers(self, code: str, size: int, count: int) -> list[int]:
        if count <= 0:
            return []
        pos = self.pos
        end = pos + count * size
        if end > self.end:
            self._fail(f"an array of {count} numbers, but {self.end - pos} bytes left")
        self.pos = end
        return list(numbers_layout(code, count).unpack_from(self.data, pos))

    def int8s(self, count: int) -> list[int]:
        return self._numbers("b", 1, count)

    def int16s(self, count: int) -> list[int]:
        return self._numbers("h", 2, count)

    def int32s(self, count: int) -> list[int]:
        return self._numbers("i", 4, count)

    def int64s(self, count: int) -> list[int]:
        return self._numbers("q", 8, count)

    # Structs that may be null, and tagged fields

    def present(self) -> bool:
        """True if a nullable struct follows (a byte: negative is null)."""
        return self.int8() >= 0

    def tag(self) -> tuple[int, int]:
        """Read the head of a tagged field: its tag and where it ends."""
        tag = self.unsigned_varint()
        size = self.unsigned_varint()
        end = self.pos + size
        if end > self.end:
            self._fail(f"tagged field {tag} of {size} bytes, but {self.end - self.pos} left")
        return tag, end

    def expect_tag_end(self, tag: int, end: int) -> None:
        """Raise for a known tagged field whose size and contents disagree."""
        if self.pos != end:
            self._fail(f"tagged field {tag} ends at byte {end}, its contents at {self.pos}")

    def tagged_fields(self) -> dict[int, bytes]:
        """Read all tagged fields of a struct that defines none itself."""
        pos = self.pos
        if pos < self.end and self.data[pos] == 0:
            self.pos = pos + 1
            return {}
        fields: dict[int, bytes] = {}
        for _ in range(self.unsigned_varint()):
            tag, end = self.tag()
            fields[tag] = self._take(end - self.pos)
        return fields
