"""Checks of single records: keys in compacted topics, timestamps out of range.

The checks decode the batch, so they run only if a topic's configuration needs them, the header
shows an error, or `FakeCluster(check_records=True)` requests them.

Source: Kafka's `LogValidator.validateRecord`; KIP-467 (errors of single records), KIP-937
(timestamps before and after).
"""

from typing import Final

from aiokafka_lite.errors import (
    CorruptRecordException,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
)
from aiokafka_lite.testing.log.batch_checks import RecordsRefused
from aiokafka_lite.testing.log.conversion import records_of

__all__ = ["check_records"]

NO_TIMESTAMP: Final = -1


def check_records(
    batch: memoryview, record_count: int, earliest: int, latest: int, *, need_keys: bool
) -> int:
    """Reject a batch with a record that its topic does not accept.

    Args:
        batch: Exactly the bytes of a batch with a checked header.
        record_count: The record count in its header.
        earliest: Earliest accepted timestamp, in ms.
        latest: Latest accepted timestamp, in ms.
        need_keys: True for a compacted topic.

    Returns:
        The largest timestamp of its records, regardless of the header.

    Raises:
        InvalidRecordError: The records do not match the header.
        RecordsRefused: The topic does not accept some records.
    """
    try:
        records = records_of(batch, 0)
    except (CorruptRecordException, RecordTooLargeError) as error:
        raise InvalidRecordError(str(error)) from error
    if len(records) != record_count:
        raise InvalidRecordError(
            f"the batch contains {len(records)} records, but its header says {record_count}"
        )
    out_of_range, without_key = [], []
    for index, record in enumerate(records):
        if need_keys and record.key is None:
            without_key.append((index, "Compacted topic cannot accept message without key"))
        elif record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest:
            why = f"Timestamp {record.timestamp} is out of range [{earliest}, {latest}]"
            out_of_range.append((index, why))
    if out_of_range:
        detail = "One or more records have been rejected due to invalid timestamp"
        raise RecordsRefused(InvalidTimestampError(detail), sorted(out_of_range + without_key))
    if without_key:
        detail = f"One or more records have been rejected due to {len(without_key)} record errors"
        raise RecordsRefused(InvalidRecordError(detail), without_key)
    return max((record.timestamp for record in records), default=NO_TIMESTAMP)
