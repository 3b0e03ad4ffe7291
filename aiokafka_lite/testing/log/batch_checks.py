"""The checks that a broker makes on a client's record batch, without decoding its records.

The checks, their order and their errors are those of Kafka's `ProduceRequest.validateRecords`,
`UnifiedLog` and `LogValidator`. They read only the 61 header bytes and compute the checksum; the
records stay as received, compressed or not.
"""

from struct import Struct
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    CorruptRecordException,
    InvalidRecordError,
    MessageSizeTooLargeError,
    UnknownError,
    UnsupportedCompressionTypeError,
)
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LENGTH_AT,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC_AT,
    BatchHeader,
    crc_matches,
    write_crc,
)

__all__ = [
    "RecordsRefused",
    "check_batch",
    "check_size",
    "last_sequence",
    "only_batch",
    "size_at",
    "stamp_append_time",
]

SMALLEST_LENGTH: Final = 14
"""A v0 message without key and value: Java's `LegacyRecord.RECORD_OVERHEAD_V0`."""
SMALLEST_RECORD: Final = 7
"""Bytes of a v2 record without key, value and headers: all its fields are one byte long."""
MOST_COMPRESSED: Final = 1_000_000
"""Records in a compressed batch, which is not decompressed to count them. A share group may need
memory for each."""
ZSTD_SINCE_PRODUCE: Final = 7  # KIP-110
MAX_TIMESTAMP_AT: Final = 35

_LENGTH: Final = Struct(">i")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")


class RecordsRefused(Exception):
    """The broker rejects a batch because it rejects some of its records.

    Attributes:
        error: The error of the partition.
        record_errors: (index in the batch, reason) of each rejected record.
    """

    def __init__(self, error: BrokerResponseError, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(str(error))
        self.error = error
        self.record_errors = record_errors


def last_sequence(header: BatchHeader) -> int:
    """Return the sequence of a batch's last record; sequences wrap from 2**31 - 1 to 0."""
    return (header.base_sequence + header.last_offset_delta) & 0x7FFFFFFF


def size_at(records: memoryview, position: int) -> int:
    """Return the size in bytes of the batch or message at `position`, or 0 if it is incomplete.

    Raises:
        CorruptRecordException: The length is too small for any record, or the magic is unknown.
    """
    remaining = len(records) - position
    if remaining < LENGTH_END:
        return 0
    (length,) = _LENGTH.unpack_from(records, position + LENGTH_AT)
    if length < SMALLEST_LENGTH:
        raise CorruptRecordException(f"record length {length} is less than the minimum record size")
    if remaining < length + LENGTH_END:
        return 0
    magic = records[position + MAGIC_AT]
    if magic > 2:
        raise CorruptRecordException(f"magic {magic} is not one of 0, 1, 2")
    return int(length) + LENGTH_END


def only_batch(records: Buffer | None, version: int) -> tuple[memoryview, BatchHeader]:
    """Return the single batch, and its header, of a partition in a Produce request v3+.

    Args:
        records: The partition's `records` field.
        version: Version of the Produce request, which decides whether zstd is allowed.

    Raises:
        InvalidRecordError: There is no batch, more than one, or an older message format.
        CorruptRecordException: The length or magic of the batch is invalid.
        UnsupportedCompressionTypeError: zstd before Produce v7.
    """
    view = memoryview(b"" if records is None else records)
    size = size_at(view, 0)
    if not size:
        raise InvalidRecordError(
            f"Produce requests with version {version} must have at least one record batch"
            " per partition"
        )
    if view[MAGIC_AT] != 2:
        raise InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain record batches"
            " with magic version 2"
        )
    if size < HEADER_SIZE:
        raise CorruptRecordException(f"record batch of {size} bytes is shorter than its header")
    if len(view) > size and size_at(view, size):
        raise InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain exactly one"
            " record batch per partition"
        )
    header = BatchHeader.read(view)
    if header.codec == Compression.ZSTD and version < ZSTD_SINCE_PRODUCE:
        raise UnsupportedCompressionTypeError(
            f"Produce requests with version {version} are not allowed to use ZStandard compression"
        )
    return view[:size], header


def check_batch(batch: memoryview, header: BatchHeader, max_message_bytes: int) -> None:
    """Check a client's batch before it is appended; `batch` is exactly its bytes.

    Raises:
        CorruptRecordException: The checksum does not match.
        MessageSizeTooLargeError: The batch is larger than the topic's `max.message.bytes`.
        InvalidRecordError: The header contradicts itself, or only a broker may write it.
        UnknownError: The codec is unknown; Kafka has no more specific error for it.
    """
    if header.base_offset != 0:
        raise InvalidRecordError(
            f"the base offset of an appended batch should be 0, but it is {header.base_offset}"
        )
    check_size(header, max_message_bytes)
    if not crc_matches(batch, 0, header.size):
        raise CorruptRecordException(f"record is corrupt (stored crc = {header.crc})")
    if header.codec > Compression.ZSTD:
        raise UnknownError(f"Unknown compression type id: {header.codec}")
    if header.record_count <= 0:
        raise InvalidRecordError(f"invalid reported count of records: {header.record_count}")
    if header.last_offset_delta != header.record_count - 1:
        raise InvalidRecordError(
            f"inconsistent offset range [0, {header.last_offset_delta}] and count of records"
            f" {header.record_count}"
        )
    payload = header.size - HEADER_SIZE
    most = payload // SMALLEST_RECORD if header.codec == Compression.NONE else MOST_COMPRESSED
    if header.record_count > most:
        raise InvalidRecordError(
            f"a batch with {payload} bytes of records cannot contain {header.record_count} records"
        )
    if header.control:
        raise InvalidRecordError("clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecordError(
            f"invalid sequence number {header.base_sequence} in a batch of producer"
            f" {header.producer_id}"
        )


def check_size(header: BatchHeader, max_message_bytes: int) -> None:
    """Check the size of a batch.

    Raises:
        MessageSizeTooLargeError: The batch is larger than the topic's `max.message.bytes`.
    """
    if header.size > max_message_bytes:
        raise MessageSizeTooLargeError(
            f"the record batch has {header.size} bytes, more than the configured maximum of"
            f" {max_message_bytes}"
        )


def stamp_append_time(batch: memoryview, timestamp_ms: int) -> None:
    """Set the timestamp of every record in a writable v2 batch (`LogAppendTime`)."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, timestamp_ms)
    write_crc(batch, 0, len(batch))
