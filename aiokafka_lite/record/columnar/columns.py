"""Record sets as columns of numbers and byte ranges, for Arrow and Spark: no object per record.

The native reader fills the columns without the GIL. The arrays are `bytearray`s of native-endian
numbers, which `memoryview.cast`, `array`, numpy and pyarrow accept unchanged.
"""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick
from aiokafka_lite.record.columnar._columns_python import columns_of

if TYPE_CHECKING:
    from aiokafka_lite.record.columnar._columns_python import Columns, read_columns
else:
    _picked = pick(
        "aiokafka_lite.record.columnar._columns_native",
        "aiokafka_lite.record.columnar._columns_python",
    )
    Columns = _picked.Columns
    read_columns = _picked.read_columns

__all__ = ["Columns", "columns_of", "read_columns"]
