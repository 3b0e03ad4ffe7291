"""The 61-byte header of a v2 record batch (KIP-98), read and rewritten in place.

    offset  size  field
         0     8  base offset
         8     4  batch length: everything after this field
        12     4  partition leader epoch
        16     1  magic (2)
        17     4  CRC-32C of everything after this field
        21     2  attributes: 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 horizon
        23     4  last offset delta
        27     8  base timestamp (ms)
        35     8  max timestamp (ms)
        43     8  producer id
        51     2  producer epoch
        53     4  base sequence
        57     4  record count

The first 17 bytes have the same shape in formats v0 and v1, so that the magic of an entry is found
before its format is known. Source: org.apache.kafka.common.record.DefaultRecordBatch.
"""

import struct
from typing import Final, NamedTuple, Self

from aiokafka_lite.record.crc32c import crc32c

HEADER_SIZE: Final = 61
LENGTH_AT: Final = 8
LENGTH_END: Final = 12  # base offset and length: what a batch length does not count
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21  # where the CRC's coverage begins

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LEADING: Final = struct.Struct(">qi")
_CRC: Final = struct.Struct(">I")


class BatchHeader(NamedTuple):
    """The fields of a v2 batch header, in wire order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def read(cls, data: bytes | bytearray | memoryview, at: int = 0) -> Self:
        """Read the header that begins at byte `at`; the only check is that 61 bytes exist.

        Raises:
            struct.error: Fewer than 61 bytes are left.
        """
        return cls._make(_HEADER.unpack_from(data, at))

    def write(self, buffer: bytearray | memoryview, at: int = 0) -> None:
        """Write the header at byte `at`, with the value of `crc` as its CRC."""
        _HEADER.pack_into(buffer, at, *self)

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes."""
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime."""
        return 1 if self.attributes & LOG_APPEND_TIME else 0

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)


def write_crc(buffer: bytearray | memoryview, at: int, size: int) -> None:
    """Compute the CRC of the batch of `size` bytes at `at` and write it into its header."""
    with memoryview(buffer) as view, view[at + ATTRIBUTES_AT : at + size] as covered:
        _CRC.pack_into(buffer, at + CRC_AT, crc32c(covered))


def crc_matches(data: bytes | bytearray | memoryview, at: int, size: int) -> bool:
    """True if the CRC of the batch of `size` bytes at `at` is correct."""
    (claimed,) = _CRC.unpack_from(data, at + CRC_AT)
    with memoryview(data) as view, view[at + ATTRIBUTES_AT : at + size] as covered:
        return bool(crc32c(covered) == claimed)


def rebase(buffer: bytearray | memoryview, at: int, base_offset: int, leader_epoch: int) -> None:
    """Set a batch's base offset and leader epoch, as a leader does; the CRC covers neither."""
    struct.pack_into(">q", buffer, at, base_offset)
    struct.pack_into(">i", buffer, at + LENGTH_END, leader_epoch)
