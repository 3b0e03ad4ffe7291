"""A batch that is stored otherwise than it was sent: in the topic's own codec, or corrected.

Source: Kafka's `LogValidator`, which assigns what it computed of the records itself.
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
    """A batch of a header and its records, compressed as the header says; length and CRC are
    computed."""
    batch = bytearray(HEADER_SIZE + len(records))
    header._replace(batch_length=len(batch) - LENGTH_END).write(batch)
    batch[HEADER_SIZE:] = records
    write_crc(batch, 0, len(batch))
    return memoryview(batch)


def recompressed(
    batch: memoryview, header: BatchHeader, codec: Compression, level: int | None
) -> memoryview:
    """The same records in another codec (`compression.type` of a topic).

    Args:
        batch: Exactly the bytes of a batch that was checked.
        header: Its header.
        codec: What it shall be compressed with.
        level: The codec's; None for its default.
    """
    records = batch[HEADER_SIZE:]
    plain = decompress(records, header.codec) if header.codec else bytes(records)
    packed = compress(plain, codec, level) if codec else plain
    return sealed(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), packed)


def with_max_timestamp(batch: memoryview, timestamp_ms: int) -> memoryview:
    """A copy that tells another largest timestamp."""
    copy = bytearray(batch)
    _TIMESTAMP.pack_into(copy, MAX_TIMESTAMP_AT, timestamp_ms)
    write_crc(copy, 0, len(copy))
    return memoryview(copy)
