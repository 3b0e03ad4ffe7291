"""Reads Arrow arrays through the Arrow PyCapsule interface, without pyarrow.

`__arrow_c_array__` returns two capsules with the structs `ArrowSchema` and `ArrowArray` of Arrow's
C data interface. The array's buffers become memoryviews; the capsules keep the memory alive, and
release it when they are deallocated.

The interface does not pass sizes: the data of a column of bytes ends at its last offset. If the
object has a method `validate()`, as in pyarrow, it is called first.

Source: Arrow's C data interface and its PyCapsule interface.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, NamedTuple

from aiokafka_lite.errors import IllegalArgumentError

__all__ = ["ArrowColumn", "has_arrow", "import_columns"]

_OFFSETS: Final = {"z": 4, "u": 4, "Z": 8, "U": 8}
_TIMESTAMPS: Final = {"l": "ms", "tss:": "s", "tsm:": "ms", "tsu:": "us", "tsn:": "ns"}
_MOST: Final = 2**62  # limit of rows and offsets, so that sums and products fit into 64 bits


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.POINTER(_Schema)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.POINTER(_Array)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class ArrowColumn(NamedTuple):
    """The buffers of one Arrow array.

    Attributes:
        rows: Number of rows.
        start: Index of the first row in the buffers.
        unit: The unit of timestamps; None for bytes.
        validity: One bit per row; None: no row is null.
        numbers: int32 or int64: the offsets of bytes, or the timestamps; None: all rows are null.
        data: The bytes.
    """

    rows: int
    start: int
    unit: str | None
    validity: memoryview | None
    numbers: memoryview | None
    data: memoryview


def has_arrow(value: object) -> bool:
    """True if an object has `__arrow_c_array__`."""
    return hasattr(value, "__arrow_c_array__")


def import_columns(value: Any, name: str) -> tuple[dict[str | None, ArrowColumn], object]:
    """Return the columns of an Arrow array or record batch, and the owner of their memory.

    Args:
        value: An object with `__arrow_c_array__`.
        name: The name of the argument, for errors.

    Returns:
        The columns of a record batch by name, or the only column of an array, with the key None.

    Raises:
        TypeError: A column is not of bytes or text, nor ("timestamp") of timestamps or int64.
        IllegalArgumentError: The array is not valid.
    """
    validate = getattr(value, "validate", None)
    if callable(validate):
        try:
            validate()
        except ValueError as error:  # pyarrow's ArrowInvalid is a ValueError
            raise IllegalArgumentError(f"`{name}` is not a valid Arrow array: {error}") from error
    capsules = value.__arrow_c_array__()
    if not isinstance(capsules, tuple) or len(capsules) != 2:
        raise TypeError(f"`{name}`: __arrow_c_array__ should return two capsules, not {capsules!r}")
    try:
        schema = _Schema.from_address(_pointer_of(capsules[0], b"arrow_schema"))
        array = _Array.from_address(_pointer_of(capsules[1], b"arrow_array"))
    except ValueError as error:
        raise TypeError(f"`{name}`: __arrow_c_array__ returned wrong capsules: {error}") from error
    if not schema.release or not array.release:
        raise IllegalArgumentError(f"`{name}` is an Arrow array that was released")
    if schema.format != b"+s":
        return {None: _column(schema, array, name, None)}, capsules
    if (
        array.n_children != schema.n_children
        or array.n_buffers != 1
        or min(array.offset, array.length) < 0
    ):
        raise IllegalArgumentError(f"`{name}` is not a valid Arrow record batch")
    if array.null_count > 0 or (array.null_count < 0 and array.buffers[0]):
        raise IllegalArgumentError(f"`{name}`: rows of a record batch should not be null")
    columns: dict[str | None, ArrowColumn] = {}
    for index in range(schema.n_children):
        child = schema.children[index].contents
        column = (child.name or b"").decode(errors="replace")
        if column in columns:
            raise IllegalArgumentError(f"`{name}` has two columns {column!r}")
        if column not in ("key", "value", "timestamp"):
            raise IllegalArgumentError(
                f"`{name}` has a column {column!r}: the columns should be value, key and "
                f"timestamp; select them first"
            )
        inner = _column(child, array.children[index].contents, f"{name}.{column}", array)
        columns[column] = inner
    return columns, capsules


def _column(schema: _Schema, array: _Array, name: str, parent: _Array | None) -> ArrowColumn:
    kind = (schema.format or b"").decode(errors="replace")
    stamps = next((unit for start, unit in _TIMESTAMPS.items() if _is(kind, start)), None)
    width = 8 if stamps is not None else _OFFSETS.get(kind)
    count, start = array.length, array.offset
    if min(count, start) < 0:
        raise IllegalArgumentError(f"`{name}` is not a valid Arrow array")
    if parent is not None:
        # The children of a sliced struct are not sliced.
        start += parent.offset
        if array.length < parent.offset + parent.length:
            raise IllegalArgumentError(f"`{name}` has fewer rows than its record batch")
        count = parent.length
    if not (0 <= count < _MOST and 0 <= start < _MOST):
        raise IllegalArgumentError(f"`{name}` is not a valid Arrow array")
    if kind == "n" and not schema.dictionary:
        return ArrowColumn(count, 0, None, None, None, memoryview(b""))
    if width is None or schema.dictionary:
        raise TypeError(
            f"`{name}` should be an Arrow array of binary, large_binary, string or large_string, "
            f"or a timestamp in a timestamp column, not of format {kind!r}: cast it first"
        )
    if array.n_buffers != (2 if stamps is not None else 3):
        raise IllegalArgumentError(
            f"`{name}` is not a valid Arrow array: it has {array.n_buffers} buffers"
        )
    if not count:  # its buffers may be empty: there may not even be a first offset
        return ArrowColumn(0, 0, stamps, None, None, memoryview(b""))
    rows = start + count
    validity = None
    if array.null_count and array.buffers[0]:
        validity = _view(array.buffers[0], (rows + 7) // 8)
    size = rows if stamps is not None else rows + 1
    if not array.buffers[1]:
        raise IllegalArgumentError(f"`{name}` is not a valid Arrow array: it has no buffer")
    numbers = _view(array.buffers[1], size * width).cast("i" if width == 4 else "q")
    if stamps is not None:
        return ArrowColumn(count, start, stamps, validity, numbers, memoryview(b""))
    end = numbers[-1]
    if not 0 <= end < _MOST or (end and not array.buffers[2]):
        raise IllegalArgumentError(f"`{name}` is not a valid Arrow array: its last offset is {end}")
    data = _view(array.buffers[2], end)
    return ArrowColumn(count, start, None, validity, numbers, data)


def _is(kind: str, start: str) -> bool:
    return kind == start or (start.endswith(":") and kind.startswith(start))


def _view(address: int | None, size: int) -> memoryview:
    if not address or not size:
        return memoryview(b"")
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")
