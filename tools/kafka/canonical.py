"""The canonical encoding of a record, so that Python and Java can compare millions by hash.

A record is, all integers big-endian: offset (int64), timestamp (int64, ms), timestamp type
(int8: 0 create, 1 log append, -1 none), key (int32 length, -1 for null, then bytes), value (the
same), number of headers (int32), and for each its name in UTF-8 (int32 length, bytes) and value
(int32 length, -1 for null, bytes). A partition's digest is the sha256 over its records in offset
order. java/Canonical.java is the same in Java.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

_HEAD = struct.Struct(">qqb")
_INT32 = struct.Struct(">i")
_NULL = _INT32.pack(-1)
_NO_HEADERS = _INT32.pack(0)


def _bytes(data: bytes | None) -> bytes:
    return _NULL if data is None else _INT32.pack(len(data)) + data


def canonical(
    offset: int,
    timestamp: int,
    timestamp_type: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
) -> bytes:
    """One record's canonical bytes."""
    start = _HEAD.pack(offset, timestamp, timestamp_type) + _bytes(key) + _bytes(value)
    named = list(headers)
    if not named:
        return start + _NO_HEADERS
    parts = [_bytes(name.encode()) + _bytes(data) for name, data in named]
    return start + _INT32.pack(len(named)) + b"".join(parts)


class PartitionDigest:
    """Hashes the records of one partition, given in offset order."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(
        self,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """Add the next record."""
        self.count += 1
        self._hash.update(canonical(offset, timestamp, timestamp_type, key, value, headers))

    def hexdigest(self) -> str:
        """The sha256 so far."""
        return self._hash.hexdigest()
