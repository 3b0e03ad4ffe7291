"""Rewrites a batch before it is stored: in the topic's codec, or with a corrected header.

Source: Kafka's `LogValidator`, which stores the values that it computed from the records.
"""

from struct import Struct
from typing import Final

from aiokafka_lite.record.compression import Compression, compress, decompress
from aiokafka_lite.record.header import (
    CODEC_MASK,
    HEADER_SIZE,
    LENGTH_END,
    BatchHeader,
    write_crc,
)
from aiokafka_lite.testing.log.batch_checks import MAX_TIMESTAMP_AT

__all__ = ["recompressed", "sealed", "with_max_timestamp"]

_TIMESTAMP: Final = Struct(">q")


def sealed(header: BatchHeader, records: bytes) -> memoryview:
    """Build a batch from a header and its records, compressed as the header says; compute
    length and CRC."""
    batch = bytearray(HEADER_SIZE + len(records))
    header._replace(batch_length=len(batch) - LENGTH_END).write(batch)
    batch[HEADER_SIZE:] = records
    write_crc(batch, 0, len(batch))
    return memoryview(batch)


def recompressed(
    batch: memoryview, header: BatchHeader, codec: Compression, level: int | None
) -> memoryview:
    """Return a batch recompressed with another codec (a topic's `compression.type`).

    Args:
        batch: Exactly the bytes of a checked batch.
        header: Its header.
        codec: The new codec.
        level: The codec's compression level; None for its default.
    """
    records = batch[HEADER_SIZE:]
    plain = decompress(records, header.codec) if header.codec else bytes(records)
    packed = compress(plain, codec, level) if codec else plain
    return sealed(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), packed)


def with_max_timestamp(batch: memoryview, timestamp_ms: int) -> memoryview:
    """Return a copy with another maximum timestamp in its header."""
    copy = bytearray(batch)
    _TIMESTAMP.pack_into(copy, MAX_TIMESTAMP_AT, timestamp_ms)
    write_crc(copy, 0, len(copy))
    return memoryview(copy)
