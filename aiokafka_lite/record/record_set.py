"""What one fetch response holds for one partition, read lazily; native where that was compiled."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from aiokafka_lite.record._record_set_python import RecordSet
else:
    RecordSet = pick(
        "aiokafka_lite.record._record_set_native", "aiokafka_lite.record._record_set_python"
    ).RecordSet

__all__ = ["RecordSet"]
