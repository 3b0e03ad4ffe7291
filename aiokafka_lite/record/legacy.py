"""Writes message formats v0 and v1, to produce to brokers before 0.11.

`message_set`, which reads them, describes the formats.
"""

import struct
from collections.abc import Iterable
from zlib import crc32

from aiokafka_lite.errors import UnsupportedCodecError, UnsupportedVersionError
from aiokafka_lite.record._lz4_v0 import with_broken_checksum
from aiokafka_lite.record.compression import Bytes, Compression, compress
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.record.message_set import CRC_END, ENTRY, INT, V0, V1, Message, read_messages
from aiokafka_lite.record.record_set import RecordSet

__all__ = ["Message", "convert", "encode_message_set", "read_messages"]


def encode_message_set(
    records: Iterable[tuple[int, Bytes | None, Bytes | None]],
    magic: int,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    *,
    base_offset: int = 0,
) -> bytes:
    """Write a message set as the Java producers before 0.11 did.

    Args:
        records: (timestamp in ms, key, value) of each; v0 drops the timestamp.
        magic: 0 or 1.
        compression: Codec of the message that wraps all others; these formats have no zstd.
        level: See `aiokafka_lite.record.compression.check_level`.
        base_offset: Offset of the first message; a producer writes 0.

    Raises:
        UnsupportedCodecError: The codec is zstd.
        ValueError: The magic is neither 0 nor 1, or there is no record to compress.
    """
    if magic not in (0, 1):
        raise ValueError(f"message format v{magic} is not a message set's")
    if compression > Compression.LZ4:
        raise UnsupportedCodecError(
            f"{compression.name.lower()} compression needs message format v2 (Kafka 2.1 and later)"
        )
    first = 0 if magic and compression else base_offset  # v1 offsets in a wrapper count from 0
    out = bytearray()
    count, max_timestamp = 0, -1
    for timestamp, key, value in records:
        out += _encoded(first + count, magic, 0, timestamp, key, value)
        max_timestamp = max(max_timestamp, timestamp)
        count += 1
    if not compression:
        return bytes(out)
    if not count:
        raise ValueError("an empty message set cannot be compressed")
    payload = compress(out, compression, level)
    if compression is Compression.LZ4 and magic == 0:
        payload = with_broken_checksum(payload)
    last_offset = base_offset + count - 1
    return _encoded(last_offset, magic, compression, max_timestamp, None, payload)


def _encoded(
    offset: int,
    magic: int,
    attributes: int,
    timestamp: int,
    key: Bytes | None,
    value: Bytes | None,
) -> bytes:
    head = V1.pack(0, 1, attributes, timestamp) if magic else V0.pack(0, 0, attributes)
    message = b"".join((head[CRC_END:], *_sized(key), *_sized(value)))
    size = CRC_END + len(message)
    return b"".join((ENTRY.pack(offset, size), struct.pack(">I", crc32(message)), message))


def _sized(field: Bytes | None) -> tuple[bytes, Bytes]:
    if field is None:
        return INT.pack(-1), b""
    return INT.pack(len(field)), field


def convert(
    batch: Bytes, magic: int, level: int | None = None, *, compression: Compression | None = None
) -> bytes:
    """Rewrite a v2 batch as a message set, to produce it to a broker before 0.11.

    Args:
        batch: One whole sealed batch.
        magic: 1 for Kafka 0.10, 0 for older brokers.
        level: Compression level.
        compression: Codec to use instead of the batch's own.

    Raises:
        UnsupportedVersionError: A record has headers, which those formats do not support.
        UnsupportedCodecError: The codec is zstd.
    """
    header = BatchHeader.read(batch)
    records = RecordSet(batch, "", 0, 0, check_crcs=False).read(header.record_count)
    if any(record.headers for record in records):
        raise UnsupportedVersionError(
            "Record headers need message format v2: the broker is older than Kafka 0.11"
        )
    return encode_message_set(
        ((record.timestamp, record.key, record.value) for record in records),
        magic,
        Compression(header.codec) if compression is None else compression,
        level,
    )
