"""Columns gathered into the buffers of Arrow arrays: no object a record, no pyarrow here.

The native gatherer copies without the GIL. What it hands out are `bytearray` in Arrow's layout,
which `pyarrow.py_buffer` and everything else that knows the layout take as they are.
"""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick
from aiokafka_lite.record.columnar._arrow_python import (
    ALL_COLUMNS,
    ArrowBuffers,
    HeaderLists,
    Variable,
)

if TYPE_CHECKING:
    from aiokafka_lite.record.columnar._arrow_python import ArrowRows
else:
    ArrowRows = pick(
        "aiokafka_lite.record.columnar._arrow_native", "aiokafka_lite.record.columnar._arrow_python"
    ).ArrowRows

__all__ = ["ALL_COLUMNS", "ArrowBuffers", "ArrowRows", "HeaderLists", "Variable"]
