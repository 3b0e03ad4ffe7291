"""Record sets as columns of numbers and byte ranges, for Arrow and Spark: no object per record.

The native reader fills the columns without the GIL. The arrays are `bytearray`s of native-endian
numbers, which `memoryview.cast`, `array`, numpy and pyarrow accept unchanged.
"""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiokafka_lite._consumer_record import ConsumerRecord
    from aiokafka_lite.record.columnar._columns_python import Columns, read_columns
else:
    _picked = pick(
        "aiokafka_lite.record.columnar._columns_native",
        "aiokafka_lite.record.columnar._columns_python",
    )
    Columns = _picked.Columns
    read_columns = _picked.read_columns

__all__ = ["Columns", "columns_of", "read_columns"]


def columns_of(records: "Sequence[ConsumerRecord[bytes, bytes]]") -> "Columns | None":
    """Return records of one partition as columns, with keys and values copied; None if empty."""
    # Rarely needed; the twin imports the twins of the whole record layer.
    from aiokafka_lite.record.columnar import _columns_python

    return _columns_python.columns_of(records)
