"""Wraps buffers in Arrow's layout as pyarrow arrays, without a copy. Needs pyarrow.

Other modules import this one only when they need it.
"""

from __future__ import annotations

import pyarrow as pa

from aiokafka_lite.record.columnar.arrow import HeaderLists, Variable
from aiokafka_lite.record.columnar.arrow_views import Views

__all__ = ["buffer_or_none", "header_array", "variable_array", "view_array"]


def variable_array(kind: pa.DataType, count: int, column: Variable) -> pa.Array:
    """Return an array of byte strings or text."""
    return pa.Array.from_buffers(
        kind,
        count,
        [buffer_or_none(column.validity), pa.py_buffer(column.offsets), pa.py_buffer(column.data)],
        null_count=column.nulls,
    )


def header_array(kind: pa.DataType, count: int, column: HeaderLists) -> pa.Array:
    """Return an array of lists of (key, value)."""
    header: pa.StructType = kind.value_type
    entries = pa.Array.from_buffers(
        header,
        column.entries,
        [None],
        null_count=0,
        children=[
            variable_array(header.field("key").type, column.entries, column.keys),
            variable_array(header.field("value").type, column.entries, column.values),
        ],
    )
    return pa.Array.from_buffers(
        kind,
        count,
        [buffer_or_none(column.validity), pa.py_buffer(column.offsets)],
        null_count=column.nulls,
        children=[entries],
    )


def view_array(count: int, column: Views, data: pa.Buffer) -> pa.Array:
    """Return an array of views of byte strings in `data`."""
    return pa.Array.from_buffers(
        pa.binary_view(),
        count,
        [buffer_or_none(column.validity), pa.py_buffer(column.views), data],
        null_count=column.nulls,
    )


def buffer_or_none(data: bytearray | None) -> pa.Buffer | None:
    """Return a pyarrow buffer; None for None."""
    return None if data is None else pa.py_buffer(data)
