"""Converts the arguments of `send_columns`, Arrow arrays or pairs of buffers, to `Rows`.

Everything is checked before a record is sent. The memory is not copied: the buffers are read until
all records are in their batches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aiokafka_lite import _arguments
from aiokafka_lite.errors import IllegalArgumentError
from aiokafka_lite.record.columnar.arrow_import import ArrowColumn, has_arrow, import_columns
from aiokafka_lite.record.columnar.column_rows import Field, Rows, Stamps

__all__ = ["ColumnsToSend", "columns_to_send"]

_NUMBERS: Final = {"i": 4, "l": 8, "q": 8}
MOST_ROWS: Final = 2**31 - 1
"""The most rows of one call."""

_EMPTY: Final = memoryview(b"")


class ColumnsToSend(NamedTuple):
    """Rows, and the owners of their memory.

    Attributes:
        rows: The rows.
        keyed: True if there is a column of keys.
        owners: Objects that keep the memory alive.
    """

    rows: Rows
    keyed: bool
    owners: object


def columns_to_send(values: object, keys: object, timestamps: object) -> ColumnsToSend:
    """Check the columns of `send_columns`.

    Raises:
        TypeError: An argument is neither an Arrow array nor a pair of buffers, or its numbers are
            not int32 or int64.
        IllegalArgumentError: The columns have different lengths, offsets are not ascending or are
            outside the data, or a timestamp is negative.
    """
    owners: list[object] = []
    if has_arrow(values):
        columns, owner = import_columns(values, "values")
        owners.append(owner)
        if None in columns:
            count, value = _field_of(columns[None], "values")
        else:
            if keys is not None or timestamps is not None:
                given = "keys" if keys is not None else "timestamps"
                raise IllegalArgumentError(
                    f"`{given}` is given, but `values` is a record batch: add a column to it"
                )
            return _of_batch(columns, owners)
    else:
        count, value = _field(values, "values")
    key = None
    if keys is not None:
        if has_arrow(keys):
            columns, owner = import_columns(keys, "keys")
            owners.append(owner)
            if None not in columns:
                raise TypeError("`keys` should be an array, not a record batch")
            found, key = _field_of(columns[None], "keys")
        else:
            found, key = _field(keys, "keys")
        if found != count:
            raise IllegalArgumentError(f"`keys` has {found} rows, `values` has {count}")
    stamps: Stamps | None = None
    now = _now()
    if timestamps is None:
        pass
    elif isinstance(timestamps, int):
        now = _arguments.timestamp_ms(timestamps)
    else:
        found, stamps = _stamps(timestamps, owners)
        if found != count:
            raise IllegalArgumentError(f"`timestamps` has {found} rows, `values` has {count}")
    return ColumnsToSend(_rows(count, value, key, stamps, now), key is not None, owners)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _of_batch(columns: Mapping[str | None, ArrowColumn], owners: object) -> ColumnsToSend:
    if "value" not in columns:
        raise IllegalArgumentError("`values` is a record batch without a column value")
    count, value = _field_of(columns["value"], "values.value")
    key = stamps = None
    if "key" in columns:
        key = _field_of(columns["key"], "values.key")[1]
    if "timestamp" in columns:
        stamps = _stamps_of(columns["timestamp"], "values.timestamp")
    return ColumnsToSend(_rows(count, value, key, stamps, _now()), "key" in columns, owners)


def _rows(
    count: int, values: Field | None, keys: Field | None, stamps: Stamps | None, timestamp: int
) -> Rows:
    if count > MOST_ROWS:  # a column of nulls takes no memory
        raise IllegalArgumentError(
            f"`values` has {count} rows: send at most {MOST_ROWS} rows at once"
        )
    return Rows(count, values, keys, stamps, timestamp)


def _field_of(column: ArrowColumn, name: str) -> tuple[int, Field | None]:
    """Return the number of rows and the field of an Arrow column; no field if all are null."""
    if column.unit is not None:
        raise TypeError(f"`{name}` should be an Arrow array of bytes or text, not of numbers")
    if column.numbers is None:
        return column.rows, None
    field = Field(name, column.data, column.numbers, column.start, column.validity)
    return column.rows, field


def _stamps_of(column: ArrowColumn, name: str) -> Stamps | None:
    if column.numbers is None:
        return None
    if column.unit is None:
        raise TypeError(f"`{name}` should be an Arrow array of timestamps or int64")
    return Stamps(column.numbers, column.unit, column.start, column.validity)


def _field(value: object, name: str) -> tuple[int, Field]:
    if not isinstance(value, tuple | list) or len(value) not in (2, 3):
        raise TypeError(
            f"`{name}` should be an Arrow array (an object with __arrow_c_array__), or a tuple "
            f"(data, offsets) or (data, offsets, validity) of buffers, not {_shown(value)}"
        )
    data = _bytes(value[0], f"`{name}`: the data")
    offsets = _numbers(value[1], f"`{name}`: the offsets")
    validity = None
    if len(value) == 3 and value[2] is not None:
        validity = _bytes(value[2], f"`{name}`: the validity")
    if not len(offsets):
        raise IllegalArgumentError(f"`{name}`: there should be one more offset than rows, not none")
    return len(offsets) - 1, Field(name, data, offsets, 0, validity)


def _stamps(value: object, owners: list[object]) -> tuple[int, Stamps | None]:
    if has_arrow(value):
        columns, owner = import_columns(value, "timestamps")
        owners.append(owner)
        if None not in columns:
            raise TypeError("`timestamps` should be an array, not a record batch")
        return columns[None].rows, _stamps_of(columns[None], "timestamps")
    numbers = _numbers(value, "`timestamps`")
    if numbers.itemsize != 8:
        raise TypeError("`timestamps` should be int64, in milliseconds")
    return len(numbers), Stamps(numbers)


def _view(value: Any, what: str) -> memoryview:
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"{what} should be a buffer, not {_shown(value)}") from None
    if not view.c_contiguous:
        raise IllegalArgumentError(f"{what} should be contiguous")
    return view


def _bytes(value: object, what: str) -> memoryview:
    view = _view(value, what)
    return view.cast("B") if view.nbytes else _EMPTY


def _numbers(value: object, what: str) -> memoryview:
    view = _view(value, what)
    kind = view.format.removeprefix("@")
    if kind not in _NUMBERS or view.itemsize not in (4, 8) or view.ndim != 1:
        raise TypeError(
            f"{what} should be int32 or int64 in 1 dimension, not {view.format!r} in {view.ndim}"
        )
    if not view.nbytes:
        return _EMPTY.cast("i" if view.itemsize == 4 else "q")
    return view.cast("B").cast("i" if view.itemsize == 4 else "q")


def _shown(value: object) -> str:
    return type(value).__name__
