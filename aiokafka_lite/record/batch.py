"""The builder of v2 record batches: native if compiled.

To native modules, `record/_batch_native.pxd` offers `BatchBuilder.append_record()` (an append
without a Python call), its counters as C fields, and `record_size_upper_bound()`.
"""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from aiokafka_lite.record._batch_python import BatchBuilder, record_size_upper_bound
else:
    _picked = pick("aiokafka_lite.record._batch_native", "aiokafka_lite.record._batch_python")
    BatchBuilder = _picked.BatchBuilder
    record_size_upper_bound = _picked.record_size_upper_bound

__all__ = ["BatchBuilder", "record_size_upper_bound"]
