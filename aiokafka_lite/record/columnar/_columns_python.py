"""The Python twin of the column reader: its specification, and the build without a compiler."""

from array import array
from collections.abc import Sequence
from typing import Final

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.record._batch_python import encoded_headers
from aiokafka_lite.record._record_set_python import read_varint
from aiokafka_lite.record.record_set import RecordSet

_INT32: Final = "i"
_INT64: Final = "q"

Headers = tuple[tuple[str, bytes | None], ...]


class Columns:
    """Consecutive records of one partition, one column per field.

    Row `i`'s value is `data[value_starts[i] : value_starts[i] + value_lengths[i]]`, or None if the
    length is -1; its key likewise.

    Attributes:
        topic: Name of the topic.
        partition: Number of the partition.
        count: Number of rows.
        data: The memory that the starts index: the record set's own, or a decompressed batch.
        offsets: int64 per row.
        timestamps: int64 per row, ms since the epoch; -1 none.
        timestamp_types: int8 per row: 0 CreateTime, 1 LogAppendTime, -1 none.
        key_starts: int32 per row.
        key_lengths: int32 per row; -1 null.
        value_starts: int32 per row.
        value_lengths: int32 per row; -1 null.
        header_starts: int32 per row: where its headers begin, encoded as in a record, after their
            count.
        header_counts: int32 per row: number of headers.
    """

    __slots__ = (
        "_headers",
        "count",
        "data",
        "header_counts",
        "header_starts",
        "key_lengths",
        "key_starts",
        "offsets",
        "partition",
        "timestamp_types",
        "timestamps",
        "topic",
        "value_lengths",
        "value_starts",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        count: int,
        data: bytes | bytearray | memoryview,
        offsets: bytearray,
        timestamps: bytearray,
        timestamp_types: bytearray,
        key_starts: bytearray,
        key_lengths: bytearray,
        value_starts: bytearray,
        value_lengths: bytearray,
        header_starts: bytearray,
        header_counts: bytearray,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.count = count
        self.data = data
        self.offsets = offsets
        self.timestamps = timestamps
        self.timestamp_types = timestamp_types
        self.key_starts = key_starts
        self.key_lengths = key_lengths
        self.value_starts = value_starts
        self.value_lengths = value_lengths
        self.header_starts = header_starts
        self.header_counts = header_counts
        self._headers: dict[int, Headers] | None = None

    @property
    def headers(self) -> dict[int, Headers]:
        """Headers by row, for the rows that have any; decoded on first access."""
        if self._headers is None:
            starts = memoryview(self.header_starts).cast(_INT32)
            counts = memoryview(self.header_counts).cast(_INT32)
            data = memoryview(self.data)
            self._headers = {
                row: _read_headers(data, starts[row], count)
                for row, count in enumerate(counts)
                if count
            }
        return self._headers


def _read_headers(data: memoryview, at: int, count: int) -> Headers:
    """Decode headers, whose bounds were checked when their record was read."""
    out = []
    for _ in range(count):
        length, at = read_varint(data, at)
        name = str(data[at : at + length], errors="replace")  # as in ConsumerRecord.headers
        at += length
        length, at = read_varint(data, at)
        out.append((name, bytes(data[at : at + length]) if length >= 0 else None))
        at += max(length, 0)
    return tuple(out)


def read_columns(record_set: RecordSet, max_records: int) -> Columns | None:
    """Return the next records of the set as columns; None when it is exhausted.

    Returns fewer than `max_records` rows if the next batch is in other memory (compressed), so
    call it until None. Calls may be mixed with `record_set.read()`.

    Args:
        record_set: The set; its position moves as with `read()`.
        max_records: Maximum rows, at least 1.

    Raises:
        CorruptRecordException: And the other errors of `RecordSet.read()`, as there: records
            before the corrupt batch are returned first.
    """
    return columns_of(record_set.read(max_records))


def columns_of(records: Sequence[ConsumerRecord[bytes, bytes]]) -> Columns | None:
    """Return records of one partition as columns, with keys and values copied; None if empty."""
    if not records:
        return None
    data = bytearray()
    starts: tuple[array[int], array[int]] = (array(_INT32), array(_INT32))
    lengths: tuple[array[int], array[int]] = (array(_INT32), array(_INT32))
    header_starts, header_counts = array(_INT32), array(_INT32)
    for record in records:
        for column, field in enumerate((record.key, record.value)):
            starts[column].append(len(data))
            lengths[column].append(-1 if field is None else len(field))
            data += field or b""
        header_starts.append(len(data))
        header_counts.append(len(record.headers))
        if record.headers:
            encoded = encoded_headers(record.headers)
            data += encoded[read_varint(encoded, 0)[1] :]
    return Columns(
        records[0].topic,
        records[0].partition,
        len(records),
        data,
        bytearray(array(_INT64, (record.offset for record in records))),
        bytearray(array(_INT64, (record.timestamp for record in records))),
        bytearray(record.timestamp_type & 0xFF for record in records),
        bytearray(starts[0]),
        bytearray(lengths[0]),
        bytearray(starts[1]),
        bytearray(lengths[1]),
        bytearray(header_starts),
        bytearray(header_counts),
    )
