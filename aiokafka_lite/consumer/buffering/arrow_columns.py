"""Bulk reads as Arrow: the columns of a run as a pyarrow record batch. Needs pyarrow.

Keys and values are binary views: their bytes stay in the memory of the fetch response (or of the
decompressed batch), which lives as long as the array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError('`columns="arrow"` needs pyarrow: pip install pyarrow') from error

from aiokafka_lite.consumer.buffering.bulk_types import ArrowBatch, ColumnBatch
from aiokafka_lite.record.columnar.arrow import ArrowRows, HeaderLists
from aiokafka_lite.record.columnar.arrow_arrays import buffer_or_none, header_array, view_array
from aiokafka_lite.record.columnar.arrow_views import byte_views, known_stamps
from aiokafka_lite.record.columnar.columns import Columns

__all__ = ["SCHEMA", "take_arrow", "to_arrow"]

_HEADERS: Final = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]),
        nullable=False,
    )
)
_MOST_ROWS: Final = 2**20
_MOST_BYTES: Final = 2**30

SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("key", pa.binary_view()),
        pa.field("value", pa.binary_view()),
        pa.field("headers", _HEADERS),
    ]
)
"""The schema of all batches. Timestamps are null in message format 0; absent headers are null."""


def take_arrow(
    take: Callable[[int], ColumnBatch | None], give_back: Callable[[ColumnBatch], None]
) -> Callable[[int], ArrowBatch | None]:
    """Return a function that converts the batches of another function to Arrow.

    Args:
        take: Returns the next columns of at most that many records.
        give_back: Called with columns that cannot be converted, before the error is raised.
    """

    def take_as_arrow(limit: int) -> ArrowBatch | None:
        batch = take(limit)
        if batch is None:
            return None
        try:
            converted = to_arrow(batch.columns)
        except BaseException:
            give_back(batch)
            raise
        return ArrowBatch(
            batch.topic_partition,
            batch.start,
            batch.start_epoch,
            batch.next_offset,
            batch.leader_epoch,
            converted,
        )

    return take_as_arrow


def to_arrow(columns: Columns) -> pa.RecordBatch:
    """Return a record batch with the schema `SCHEMA` that refers to the memory of the columns."""
    count = columns.count
    data = pa.py_buffer(columns.data)
    keys = byte_views(columns.data, columns.key_starts, columns.key_lengths)
    values = byte_views(columns.data, columns.value_starts, columns.value_lengths)
    nulls, validity = known_stamps(columns.timestamps)
    stamps = [buffer_or_none(validity), pa.py_buffer(columns.timestamps)]
    return pa.RecordBatch.from_arrays(
        [
            pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.offsets)]),
            pa.Array.from_buffers(SCHEMA.field(1).type, count, stamps, null_count=nulls),
            view_array(count, keys, data),
            view_array(count, values, data),
            _headers(columns),
        ],
        schema=SCHEMA,
    )


def _headers(columns: Columns) -> pa.Array:
    """Return a copy of the headers; the other columns are not copied."""
    count = columns.count
    if columns.header_counts == bytes(len(columns.header_counts)):
        return pa.nulls(count, _HEADERS)
    rows = ArrowRows(("headers",), _MOST_ROWS, _MOST_BYTES)
    arrays = []
    first = 0
    while first < count:
        first = rows.add(columns, first, count)
        taken = rows.take()
        column = taken.columns["headers"]
        if not isinstance(column, HeaderLists):
            raise TypeError(f"headers are {type(column).__name__}")
        arrays.append(header_array(_HEADERS, taken.rows, column))
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
