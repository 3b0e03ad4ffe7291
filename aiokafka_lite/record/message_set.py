"""Reads message formats v0 and v1, used by brokers before 0.11 and found in old logs.

    offset int64, size int32, then the message:
    crc int32 (CRC-32 of everything after it), magic int8, attributes int8 (0-2 codec,
    3 LogAppendTime), [v1: timestamp int64], key and value (int32 length, -1 null, and bytes)

A compressed message wraps a message set in its value. Its offset is that of the last message in
it; the inner offsets are absolute in v0 and count from 0 in v1. With LogAppendTime the wrapper's
timestamp holds for all of them. Producers other than Java's write the offset 0 for every v1
wrapper. Source: org.apache.kafka.common.record.LegacyRecord, KIP-31, KIP-32.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from aiokafka_lite.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka_lite.record._lz4_v0 import with_right_checksum
from aiokafka_lite.record.compression import DEFAULT_LIMIT, Compression, decompress

MESSAGE_OVERHEAD: Final = 14  # bytes of a v0 message without key and value

ENTRY: Final = struct.Struct(">qi")
V0: Final = struct.Struct(">IBB")
V1: Final = struct.Struct(">IBBq")
INT: Final = struct.Struct(">i")
_CODEC_MASK: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
CRC_END: Final = 4  # within the message: where the CRC's coverage begins


class Message(NamedTuple):
    """One message as stored in the log."""

    offset: int
    timestamp: int  # ms; -1 in v0
    timestamp_type: int  # 0 CreateTime, 1 LogAppendTime, -1 in v0, as Java's NO_TIMESTAMP_TYPE
    key: bytes | None
    value: bytes | None
    crc: int


class _Entry(NamedTuple):
    """One message, not yet decompressed."""

    message: Message
    magic: int
    codec: int


def read_messages(
    entry: memoryview, *, check_crcs: bool = True, limit: int = DEFAULT_LIMIT
) -> list[Message]:
    """Read one whole entry of a message set: one message, or all that it wraps.

    Args, Raises: As for `open_messages` and the iterator that it returns.

    Returns:
        At least one message, offsets ascending.
    """
    return list(open_messages(entry, check_crcs=check_crcs, limit=limit)[1])


def open_messages(
    entry: memoryview, *, check_crcs: bool = True, limit: int = DEFAULT_LIMIT
) -> tuple[int, Iterator[Message]]:
    """Open one entry of a message set: one message, or all that it wraps.

    A wrapped message takes at least 26 bytes, and several hundred as an object, so the iterator
    decodes messages one by one. Decompression, and one pass over the sizes, come first.

    Args:
        entry: Exactly one entry, including its offset and size.
        check_crcs: True to check the CRCs, including those of wrapped messages.
        limit: Maximum size of the wrapped message set in bytes.

    Returns:
        The last message's offset, and an iterator over the messages: at least one, with ascending
        offsets. The iterator raises CorruptRecordException at a malformed message.

    Raises:
        CorruptRecordException: The entry is malformed.
        RecordTooLargeError: The wrapped message set exceeds `limit`.
        UnsupportedCodecError: The codec is unknown, or these formats do not have it.
    """
    wrapper = _read_entry(entry, check_crcs)
    if not wrapper.codec:
        return wrapper.message.offset, iter((wrapper.message,))
    if wrapper.codec > Compression.LZ4:
        raise UnsupportedCodecError(
            f"Compression codec {wrapper.codec} is unknown to message format v{wrapper.magic}"
        )
    compressed = wrapper.message.value
    if compressed is None:
        raise CorruptRecordException("A compressed message has no value")
    if wrapper.codec == Compression.LZ4 and wrapper.magic == 0:
        compressed = with_right_checksum(compressed)
    data = decompress(compressed, wrapper.codec, limit=limit)
    last = _last_offset(data)
    base = _base_offset(wrapper, last)
    wrapper = wrapper._replace(message=wrapper.message._replace(value=None))  # no longer needed
    return base + last, _wrapped(data, wrapper, base, base + last, check_crcs)


def _last_offset(data: bytes) -> int:
    """Return the offset field of the last wrapped message."""
    at, total = 0, len(data)
    offset = -1
    while at < total:
        if total - at < ENTRY.size:
            raise CorruptRecordException("A wrapped message is cut off")
        offset, size = ENTRY.unpack_from(data, at)
        at += ENTRY.size + size
        if size < MESSAGE_OVERHEAD or at > total:
            raise CorruptRecordException(f"A wrapped message claims a size of {size}")
    if not total:
        raise CorruptRecordException("A compressed message contains no message")
    if not 0 <= offset < 2**63 - 1:
        raise CorruptRecordException(f"A message has the impossible offset {offset}")
    return offset


def _base_offset(wrapper: _Entry, last: int) -> int:
    """Return the base of the offsets of wrapped messages; the last of them has the offset
    `last`."""
    offset = wrapper.message.offset
    if wrapper.magic:
        return offset - last if offset else 0  # 0: as a producer wrote it
    if offset > last:
        # A broker finds the entry by this offset: a position between the two would never move.
        raise CorruptRecordException(
            f"A v0 wrapper has the offset {offset}, and its last message {last}"
        )
    return 0


def _wrapped(
    data: bytes, wrapper: _Entry, base: int, last: int, check_crcs: bool
) -> Iterator[Message]:
    """Yield the messages in `data`, whose sizes `_last_offset` has checked."""
    view = memoryview(data)
    stamp = wrapper.message.timestamp if wrapper.message.timestamp_type == 1 else None
    previous = -1
    at = 0
    while at < len(data):
        _, size = ENTRY.unpack_from(data, at)
        end = at + ENTRY.size + size
        inner = _read_entry(view[at:end], check_crcs)
        if inner.codec:
            raise CorruptRecordException("A wrapped message is compressed itself")
        # It may be of another format than its wrapper, which decides how offsets count: the log
        # cleaner of Kafka 0.10.0 wrapped v0 messages in v1 (KAFKA-4298).
        message = inner.message
        offset = base + message.offset
        if not previous < offset <= last:
            raise CorruptRecordException("Wrapped messages have offsets out of order")
        if stamp is not None and inner.magic:
            message = message._replace(offset=offset, timestamp=stamp, timestamp_type=1)
        elif base:
            message = message._replace(offset=offset)
        yield message
        previous = offset
        at = end


def _read_entry(entry: memoryview, check_crcs: bool) -> _Entry:
    offset, _size = ENTRY.unpack_from(entry)
    message = entry[ENTRY.size :]
    crc, magic, attributes = V0.unpack_from(message)
    if check_crcs and crc32(message[CRC_END:]) != crc:
        raise CorruptRecordException("A message's CRC does not match its bytes")
    if offset < 0 or offset == 2**63 - 1:
        raise CorruptRecordException(f"A message has the impossible offset {offset}")
    timestamp, timestamp_type, at = -1, -1, V0.size
    if magic == 1:
        if len(message) < MESSAGE_OVERHEAD + 8:
            raise CorruptRecordException("A v1 message is too small")
        timestamp = V1.unpack_from(message)[3]
        timestamp_type = 1 if attributes & _LOG_APPEND_TIME else 0
        at = V1.size
    elif magic:
        raise CorruptRecordException(f"A message set contains an entry of format v{magic}")
    key, at = _nullable(message, at)
    value, at = _nullable(message, at)
    if at != len(message):
        raise CorruptRecordException("The fields of a message do not fill its size")
    fields = Message(offset, timestamp, timestamp_type, key, value, crc)
    return _Entry(fields, magic, attributes & _CODEC_MASK)


def _nullable(message: memoryview, at: int) -> tuple[bytes | None, int]:
    if len(message) - at < 4:
        raise CorruptRecordException("A message is too small for its fields")
    (length,) = INT.unpack_from(message, at)
    at += 4
    if length > len(message) - at:
        raise CorruptRecordException(f"A field of a message claims {length} bytes")
    if length < 0:
        return None, at
    return bytes(message[at : at + length]), at + length
