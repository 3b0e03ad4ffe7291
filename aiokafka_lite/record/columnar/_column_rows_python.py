"""The pure-Python twin of `Rows`: its specification, and the build without a compiler."""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.record._batch_python import BatchBuilder, record_size_upper_bound
from aiokafka_lite.record.murmur2 import murmur2

_INT32: Final = "i"
_MOST_PARTITIONS: Final = 10_000_000
_MOST_FIELD: Final = 2**31 - 1
_MAX_INT64: Final = 2**63 - 1

UNITS: Final = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}
"""Units of a column of timestamps: the multiplier and the divisor to get milliseconds."""


class Field(NamedTuple):
    """A column of byte strings: row `i` is `data[offsets[start + i] : offsets[start + i + 1]]`.

    Attributes:
        name: The name of the argument, for errors.
        data: The bytes of all values, one after the other, contiguous.
        offsets: int32 or int64, ascending; one more than there are rows.
        start: Index of the first row in `offsets` and `validity`.
        validity: One bit per row, the lowest first, 0 for null; None: no row is null.
    """

    name: str
    data: memoryview
    offsets: memoryview
    start: int = 0
    validity: memoryview | None = None


class Stamps(NamedTuple):
    """A column of timestamps.

    Attributes:
        numbers: int64 since the epoch.
        unit: "s", "ms", "us" or "ns".
        start: Index of the first row in `numbers` and `validity`.
        validity: As for `Field`.
    """

    numbers: memoryview
    unit: str = "ms"
    start: int = 0
    validity: memoryview | None = None


class Rows:
    """Columns whose rows can be written into record batches as records.

    The buffers are checked here, and again while they are read, because the application may change
    them meanwhile. The object keeps them alive.

    Args:
        count: Number of rows.
        values: The values; None: all are null.
        keys: The keys; None: all are null.
        stamps: The timestamps; None: `timestamp` for all.
        timestamp: Milliseconds since the epoch, also for null timestamps.

    Attributes:
        count: Number of rows.
        largest: Upper bound of the bytes of the largest record.

    Raises:
        IllegalArgumentError: The offsets of a row are not ascending or are outside the data, its
            key or value is too large (2 GiB), its timestamp is negative or out of range, or a
            buffer is too short.
    """

    __slots__ = ("_keys", "_stamps", "_timestamp", "_values", "count", "largest")

    def __init__(
        self,
        count: int,
        values: Field | None,
        keys: Field | None,
        stamps: Stamps | None,
        timestamp: int,
    ) -> None:
        for field in (values, keys):
            if field is not None:
                check_length(field.name, count + 1, field.offsets, field.start)
                check_bits(field.name, count, field.validity, field.start)
        if stamps is not None:
            check_length("timestamps", count, stamps.numbers, stamps.start)
            check_bits("timestamps", count, stamps.validity, stamps.start)
        self.count = count
        self._values = values
        self._keys = keys
        self._stamps = stamps
        self._timestamp = timestamp
        self.largest = 0
        columns = (values, keys, stamps)
        for row in range(min(count, 1) if columns == (None, None, None) else count):
            self.largest = max(self.largest, self._bound(row))
            self._timestamp_of(row)

    def _span(self, field: Field | None, row: int) -> memoryview | None:
        """Return the bytes of a field, or None if it is null."""
        if field is None or not is_valid(field.validity, field.start + row):
            return None
        first, last = field.offsets[field.start + row], field.offsets[field.start + row + 1]
        if not 0 <= first <= last <= len(field.data):
            raise IllegalArgumentError(
                f"`{field.name}`: the offsets of row {row} are {first} and {last}: they should be "
                f"ascending, within 0 and {len(field.data)}, the length of the data"
            )
        if last - first > _MOST_FIELD:
            raise IllegalArgumentError(f"`{field.name}`: row {row} takes {last - first} bytes")
        return field.data[first:last]

    def _bound(self, row: int) -> int:
        key = self._span(self._keys, row)
        return record_size_upper_bound(key, self._span(self._values, row))

    def _timestamp_of(self, row: int) -> int:
        stamps = self._stamps
        if stamps is None or not is_valid(stamps.validity, stamps.start + row):
            return self._timestamp
        multiplier, divisor = UNITS[stamps.unit]
        number: int = stamps.numbers[stamps.start + row]
        if not 0 <= number <= _MAX_INT64 // multiplier:
            raise IllegalArgumentError(
                f"`timestamps`: row {row} is {number} {stamps.unit}: it should be between 0 and "
                f"{_MAX_INT64 // multiplier}"
            )
        return number * multiplier // divisor

    def bound(self, order: bytearray | None, place: int) -> int:
        """Return an upper bound of the bytes of the record at a place of `order`.

        Raises:
            IndexError: There is no such place or row.
        """
        return self._bound(self._row(order, place))

    def _row(self, order: bytearray | None, place: int) -> int:
        row = place if order is None else memoryview(order).cast(_INT32)[place]
        if not 0 <= row < self.count or place < 0:
            raise IndexError(f"out of range: row {row} of {self.count}")
        return row

    def slice_end(self, first: int, rows: int, size: int) -> int:
        """Return the end of a slice of at most `rows` rows and about `size` bytes.

        The slice has at least one row, unless no row is left.
        """
        row, taken = first, 0
        while row < self.count and row - first < rows and taken < size:
            taken += self._bound(row)
            row += 1
        return row

    def group(
        self, first: int, last: int, partitions: int
    ) -> tuple[bytearray, list[tuple[int, int, int]]]:
        """Group the rows [`first`, `last`) by partition, in order: murmur2 of the key, as in Java.

        Args:
            partitions: Number of partitions of the topic, 1 to 10,000,000.

        Returns:
            The row numbers as int32, grouped; and the partition (-1: the rows without a key), the
            beginning and the end of each group.
        """
        if not 0 <= first <= last <= self.count or not 1 <= partitions <= _MOST_PARTITIONS:
            raise IndexError(f"out of range: rows [{first}, {last}) of {self.count}")
        groups: dict[int, array[int]] = {}
        for row in range(first, last):
            key = self._span(self._keys, row)
            number = -1 if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions
            groups.setdefault(number, array(_INT32)).append(row)
        order = array(_INT32)
        spans = []
        for number in sorted(groups):
            spans.append((number, len(order), len(order) + len(groups[number])))
            order += groups[number]
        return bytearray(order), spans

    def fill(self, builder: BatchBuilder, order: bytearray | None, first: int, last: int) -> int:
        """Append the records at the places [`first`, `last`) of `order`, as many as fit.

        Args:
            builder: A batch with a buffer. Not even a first record may exceed its limit.
            order: int32 row numbers; None: the places are the rows.

        Returns:
            The first place whose record was not appended; `last` if all were.

        Raises:
            IllegalArgumentError: The application has changed a buffer, which is now invalid.
                Earlier records are appended.
            IndexError: There are no such places or rows.
        """
        count = self.count if order is None else len(order) // 4
        if not 0 <= first <= last <= count:
            raise IndexError(f"out of range: places [{first}, {last}) of {count}")
        for place in range(first, last):
            row = self._row(order, place)
            if builder.size + self._bound(row) > builder.limit and not builder.count:
                return place
            key, value = self._span(self._keys, row), self._span(self._values, row)
            if builder.append(self._timestamp_of(row), key, value) < 0:
                return place
        return last


def is_valid(validity: memoryview | None, row: int) -> bool:
    return validity is None or bool(validity[row >> 3] >> (row & 7) & 1)


def check_length(name: str, needed: int, numbers: memoryview, start: int) -> None:
    if start < 0 or needed < 0 or len(numbers) - start < needed:
        raise IllegalArgumentError(
            f"`{name}`: {needed} numbers are needed, but its buffer has {len(numbers)}, from "
            f"{start} on"
        )


def check_bits(name: str, count: int, validity: memoryview | None, start: int) -> None:
    if validity is not None and len(validity) * 8 - start < count:
        raise IllegalArgumentError(
            f"`{name}`: {count} bits of validity are needed, but its buffer has "
            f"{len(validity) * 8}, from {start} on"
        )
