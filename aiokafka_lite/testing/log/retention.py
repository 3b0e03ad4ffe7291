"""Finds the batches that retention deletes (`retention.ms`, `retention.bytes`).

Kafka deletes whole segment files; here every batch counts as a segment of its own.
Source: Kafka's `UnifiedLog.deleteOldSegments`.
"""

from typing import Final

from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.log.partition_log import PartitionLog

__all__ = ["NO_LIMIT", "first_retained"]

NO_LIMIT: Final = -1


def first_retained(log: PartitionLog, now_ms: int, retention_ms: int, retention_bytes: int) -> int:
    """Return the new log start offset.

    Args:
        log: The log.
        now_ms: The broker's current time in ms.
        retention_ms: Deletes a batch whose largest timestamp is older; -1 for no limit. A batch
            without a timestamp stays.
        retention_bytes: Deletes batches while at least this much remains; -1 for no limit.
    """
    surplus = log.available_bytes(log.start_offset) - retention_bytes
    first = log.start_offset
    for batch in log.batches():
        header = BatchHeader.read(batch)
        is_surplus = retention_bytes != NO_LIMIT and surplus >= len(batch)
        is_old = (
            retention_ms != NO_LIMIT
            and header.max_timestamp >= 0
            and now_ms - header.max_timestamp > retention_ms
        )
        if not (is_surplus or is_old):
            break
        surplus -= len(batch)
        first = header.last_offset + 1
    return first
