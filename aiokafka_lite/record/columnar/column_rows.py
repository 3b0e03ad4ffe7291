"""Writes columns into record batches without an object per record; see `column_arguments`."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick
from aiokafka_lite.record.columnar._column_rows_python import UNITS, Field, Stamps

if TYPE_CHECKING:
    from aiokafka_lite.record.columnar._column_rows_python import Rows
else:
    Rows = pick(
        "aiokafka_lite.record.columnar._column_rows_native",
        "aiokafka_lite.record.columnar._column_rows_python",
    ).Rows

__all__ = ["UNITS", "Field", "Rows", "Stamps"]
