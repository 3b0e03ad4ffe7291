"""The pure-Python twin of `arrow_views`: its specification, and the build without a compiler."""

from __future__ import annotations

import struct
from array import array
from typing import Final, NamedTuple

_INLINE: Final = 12  # bytes that fit into a view
_SHORT: Final = struct.Struct("=i12s")
_LONG: Final = struct.Struct("=i4sii")


class Views(NamedTuple):
    """A column of byte strings in Arrow's view layout.

    Attributes:
        nulls: Number of null rows.
        validity: One bit per row, the lowest first, 0 for null; None if no row is null.
        views: 16 bytes per row: the length and the bytes, or, if there are more than 12 bytes, the
            first four bytes and the place in the only data buffer.
    """

    nulls: int
    validity: bytearray | None
    views: bytearray


def byte_views(
    data: bytes | bytearray | memoryview, starts: bytearray, lengths: bytearray
) -> Views:
    """Return views of the fields of some rows.

    Args:
        data: The memory of the fields.
        starts: int32 per row.
        lengths: int32 per row; -1 for null.

    Raises:
        ValueError: A row points outside the data, or there are fewer starts than lengths.
    """
    first, sizes = memoryview(starts).cast("i"), memoryview(lengths).cast("i")
    if len(first) != len(sizes):
        raise ValueError(f"{len(first)} starts, but {len(sizes)} lengths")
    view = memoryview(data)
    out = bytearray()
    for row, size in enumerate(sizes):
        start = first[row]
        if size < 0:
            out += bytes(16)
            continue
        if start < 0 or start > len(view) - size:
            raise ValueError(f"row {row} points outside of the data")
        if size <= _INLINE:
            out += _SHORT.pack(size, bytes(view[start : start + size]))
        else:
            out += _LONG.pack(size, bytes(view[start : start + 4]), 0, start)
    nulls, validity = _validity([size >= 0 for size in sizes])
    return Views(nulls, validity, out)


def known_stamps(timestamps: bytearray) -> tuple[int, bytearray | None]:
    """Return the number of missing timestamps (-1), and the validity bitmap of all.

    Args:
        timestamps: int64 per row.
    """
    return _validity([stamp != -1 for stamp in array("q", timestamps)])


def _validity(present: list[bool]) -> tuple[int, bytearray | None]:
    nulls = present.count(False)
    if not nulls:
        return 0, None
    bits = bytearray((len(present) + 7) // 8)
    for row, is_there in enumerate(present):
        bits[row >> 3] |= is_there << (row & 7)
    return nulls, bits
