"""Converts gathered rows to Arrow record batches with exactly the schema that Spark expects.

Spark compares the schema of a task's first batch with its own, and does not check later ones. The
gathered rows already have Arrow's layout, so nothing is copied here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import pyarrow as pa

from aiokafka_lite.record.columnar.arrow import ALL_COLUMNS, ArrowBuffers, HeaderLists, Variable
from aiokafka_lite.record.columnar.arrow_arrays import header_array, variable_array

__all__ = ["arrow_schema", "column_names", "to_record_batch"]

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", _HEADER)),
}
"""The types of pyspark's `to_arrow_schema(schema, "UTC")`."""


def column_names(*, include_headers: bool) -> tuple[str, ...]:
    """Return the columns of Spark's Kafka sources, in their order."""
    return ALL_COLUMNS if include_headers else ALL_COLUMNS[:-1]


def arrow_schema(names: Collection[str]) -> pa.Schema:
    """Return the schema of record batches with these columns, in this order."""
    return pa.schema([pa.field(name, _TYPES[name]) for name in names])


def to_record_batch(rows: ArrowBuffers, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows as a record batch that refers to their memory.

    Args:
        rows: Rows gathered with the columns of the schema.
        schema: A schema from `arrow_schema`.
    """
    return pa.RecordBatch.from_arrays(
        [_array(field.type, rows.rows, rows.columns[field.name]) for field in schema],
        schema=schema,
    )


def _array(kind: pa.DataType, count: int, column: bytearray | Variable | HeaderLists) -> pa.Array:
    if isinstance(column, Variable):
        return variable_array(kind, count, column)
    if isinstance(column, HeaderLists):
        return header_array(kind, count, column)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(column)], null_count=0)
