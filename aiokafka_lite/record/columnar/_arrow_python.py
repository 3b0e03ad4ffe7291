"""The pure-Python twin of `ArrowRows`: its specification, and the build without a compiler."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from aiokafka_lite.record.columnar._columns_python import Columns

ALL_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
"""The columns of Spark's Kafka sources, in their order."""

MOST_ROWS: Final = 2**22
"""Maximum rows, so that 32-bit offsets suffice for a column of topics of 249 bytes each."""

MOST_BYTES: Final = 2**30
"""Maximum bytes of a batch, unless a single record is larger: far below the 32-bit limit."""

_INT32: Final = "i"
_INT64: Final = "q"
_INT32_MAX: Final = 2**31 - 1
_TIMESTAMP_MAX: Final = (2**63 - 1) // 1000
_NAME_GROWTH: Final = 3  # bytes of U+FFFD, which may replace each byte of invalid UTF-8


class Variable(NamedTuple):
    """A column of byte strings in Arrow's layout.

    Attributes:
        nulls: Number of null rows.
        validity: One bit per row, the lowest first, 0 for null; None without nulls.
        offsets: One int32 per row, its start in `data`, and one more, the end of the last row.
        data: All values, concatenated.
    """

    nulls: int
    validity: bytearray | None
    offsets: bytearray
    data: bytearray


class HeaderLists(NamedTuple):
    """A column of lists of (key, value) in Arrow's layout.

    Attributes:
        nulls: Number of rows without headers, which are null as in Spark's connector.
        validity: As for `Variable`.
        offsets: One int32 per row and one more: the rows' positions in `keys` and `values`.
        entries: Number of headers of all rows.
        keys: UTF-8, with invalid bytes replaced as in Java; never null.
        values: The values; may be null.
    """

    nulls: int
    validity: bytearray | None
    offsets: bytearray
    entries: int
    keys: Variable
    values: Variable


class ArrowBuffers(NamedTuple):
    """The buffers of one Arrow record batch.

    Attributes:
        rows: Number of rows.
        columns: The requested columns by name: int32 per row ("partition", "timestampType"),
            int64 ("offset", and "timestamp" in microseconds), `Variable` ("key", "value",
            "topic") or `HeaderLists`.
    """

    rows: int
    columns: dict[str, bytearray | Variable | HeaderLists]


class ArrowRows:
    """Gathers rows of any partitions into successive Arrow record batches.

    Args:
        names: The wanted columns, from `ALL_COLUMNS`; all others are ignored.
        max_rows: Maximum rows of a batch.
        max_bytes: Maximum bytes of keys, values and headers in a batch. A larger record gets a
            batch of its own.

    Attributes:
        count: Number of rows gathered.
        size: Bytes of their keys, values and headers (of the wanted columns).
        full: True if the last call left rows over: `take` the batch first.

    Raises:
        ValueError: A column is unknown, or a limit is out of range.
    """

    __slots__ = (
        "_headers",
        "_keys",
        "_kinds",
        "_max_bytes",
        "_max_rows",
        "_names",
        "_offsets",
        "_partitions",
        "_timestamps",
        "_topics",
        "_values",
        "count",
        "full",
        "size",
    )

    def __init__(self, names: Collection[str], max_rows: int, max_bytes: int) -> None:
        self._names = check_arguments(names, max_rows, max_bytes)
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._start()

    def _start(self) -> None:
        self.count = 0
        self.size = 0
        self.full = False
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._topics: list[bytes] = []
        self._partitions = array(_INT32)
        self._offsets = array(_INT64)
        self._timestamps = array(_INT64)
        self._kinds = array(_INT32)
        self._headers: list[tuple[tuple[bytes, bytes | None], ...] | None] = []

    def add(self, columns: Columns, first: int, last: int) -> int:
        """Gather rows [`first`, `last`) of `columns`, as many as fit.

        Args:
            columns: The columns, which are not referenced afterwards.

        Returns:
            The first row that was not gathered; `last` if all were. At least one row is gathered,
            unless there are rows already.

        Raises:
            IndexError: The rows do not exist.
            ValueError: A row points outside the data.
            OverflowError: A timestamp in microseconds exceeds 64 bits, or one record's headers are
                too large for Arrow. The call gathered nothing.
        """
        if not 0 <= first <= last <= columns.count:
            raise IndexError(f"out of range: rows [{first}, {last}) in {columns.count}")
        data = memoryview(columns.data)
        size = len(data)
        keys = _Spans(columns.key_starts, columns.key_lengths)
        values = _Spans(columns.value_starts, columns.value_lengths)
        headers = columns.headers if "headers" in self._names else {}
        timestamps = memoryview(columns.timestamps).cast(_INT64)
        row = first
        taken = 0
        encoded: list[tuple[tuple[bytes, bytes | None], ...] | None] = []
        self.full = False
        while row < last:
            more = 0
            for name, spans in (("key", keys), ("value", values)):
                if name in self._names:
                    spans.check(row, size)
                    more += max(spans.lengths[row], 0)
            names = values_of = 0
            for name, value in headers.get(row, ()):
                names += len(name.encode()) * (1 if name.isascii() else _NAME_GROWTH)
                values_of += len(value or b"")
            more += names + values_of
            if self.count + row - first:
                room = self._max_bytes - self.size - taken
                if self.count + row - first == self._max_rows or more > room:
                    self.full = True
                    break
            elif names > _INT32_MAX:
                raise OverflowError(_place(columns, row, "the headers are too large"))
            if "timestamp" in self._names and abs(timestamps[row]) > _TIMESTAMP_MAX:
                raise OverflowError(
                    _place(
                        columns,
                        row,
                        f"the timestamp {timestamps[row]} does not fit in microseconds",
                    )
                )
            encoded.append(
                tuple((name.encode(), value) for name, value in headers[row])
                if row in headers
                else None
            )
            taken += more
            row += 1
        self._keys += (keys.of(data, i) for i in range(first, row) if "key" in self._names)
        self._values += (values.of(data, i) for i in range(first, row) if "value" in self._names)
        self._headers += encoded
        self._topics += [columns.topic.encode()] * (row - first)
        self._partitions.extend([columns.partition] * (row - first))
        self._offsets.extend(memoryview(columns.offsets).cast(_INT64)[first:row])
        if "timestamp" in self._names:
            self._timestamps.extend(each * 1000 for each in timestamps[first:row])
        self._kinds.extend(memoryview(columns.timestamp_types).cast("b")[first:row])
        self.count += row - first
        self.size += taken
        return row

    def take(self) -> ArrowBuffers:
        """Return the rows gathered so far, and begin a new batch."""
        columns: dict[str, bytearray | Variable | HeaderLists] = {
            "key": _variable(self._keys),
            "value": _variable(self._values),
            "topic": _variable(self._topics),
            "partition": bytearray(self._partitions),
            "offset": bytearray(self._offsets),
            "timestamp": bytearray(self._timestamps),
            "timestampType": bytearray(self._kinds),
            "headers": _header_lists(self._headers),
        }
        taken = ArrowBuffers(
            self.count, {name: columns[name] for name in ALL_COLUMNS if name in self._names}
        )
        self._start()
        return taken


def check_arguments(names: Collection[str], max_rows: int, max_bytes: int) -> frozenset[str]:
    """Check the arguments and return the wanted columns.

    Raises:
        ValueError: A column is unknown, or a limit is out of range.
    """
    unknown = sorted(set(names).difference(ALL_COLUMNS))
    if unknown:
        raise ValueError(f"unknown columns: {', '.join(unknown)}")
    if not 1 <= max_rows <= MOST_ROWS:
        raise ValueError(f"the rows of a batch should be 1 to {MOST_ROWS}, not {max_rows}")
    if not 1 <= max_bytes <= MOST_BYTES:
        raise ValueError(f"the bytes of a batch should be 1 to {MOST_BYTES}, not {max_bytes}")
    return frozenset(names)


class _Spans:
    """The position of one nullable field in each row."""

    def __init__(self, starts: bytearray, lengths: bytearray) -> None:
        self.starts = memoryview(starts).cast(_INT32)
        self.lengths = memoryview(lengths).cast(_INT32)

    def check(self, row: int, size: int) -> None:
        start, length = self.starts[row], self.lengths[row]
        if length >= 0 and not 0 <= start <= size - length:
            raise ValueError(f"row {row} points outside of the data")

    def of(self, data: memoryview, row: int) -> bytes | None:
        start, length = self.starts[row], self.lengths[row]
        return None if length < 0 else bytes(data[start : start + length])


def _place(columns: Columns, row: int, what: str) -> str:
    offset = memoryview(columns.offsets).cast(_INT64)[row]
    return f"{what}: topic {columns.topic!r}, partition {columns.partition}, offset {offset}"


def _validity(present: list[bool]) -> tuple[int, bytearray | None]:
    """Return the number of nulls and the validity bitmap."""
    nulls = present.count(False)
    if not nulls:
        return 0, None
    bits = bytearray((len(present) + 7) // 8)
    for row, is_there in enumerate(present):
        if is_there:
            bits[row >> 3] |= 1 << (row & 7)
    return nulls, bits


def _variable(fields: Sequence[bytes | None]) -> Variable:
    offsets = array(_INT32, [0])
    data = bytearray()
    for each in fields:
        data += each or b""
        offsets.append(len(data))
    nulls, validity = _validity([each is not None for each in fields])
    return Variable(nulls, validity, bytearray(offsets), data)


def _header_lists(rows: list[tuple[tuple[bytes, bytes | None], ...] | None]) -> HeaderLists:
    offsets = array(_INT32, [0])
    keys: list[bytes] = []
    values: list[bytes | None] = []
    for headers in rows:
        for key, value in headers or ():
            keys.append(key)
            values.append(value)
        offsets.append(len(keys))
    nulls, validity = _validity([headers is not None for headers in rows])
    return HeaderLists(
        nulls, validity, bytearray(offsets), len(keys), _variable(keys), _variable(values)
    )
