"""Gathers columns into the buffers of Arrow arrays, without an object per record or pyarrow.

The native module copies without the GIL. It returns `bytearray`s in Arrow's layout, which
`pyarrow.py_buffer` and every other user of the layout accept unchanged.
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
