"""A lazy reader of one partition's records in a fetch response: native if compiled."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick

if TYPE_CHECKING:
    from aiokafka_lite.record._record_set_python import RecordSet
else:
    RecordSet = pick(
        "aiokafka_lite.record._record_set_native", "aiokafka_lite.record._record_set_python"
    ).RecordSet

__all__ = ["RecordSet"]
