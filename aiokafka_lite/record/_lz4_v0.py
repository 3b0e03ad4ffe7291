"""KAFKA-3160: in message format v0 an lz4 frame carries a wrong header checksum.

The checksum byte of a frame descriptor is the second byte of the descriptor's xxHash32. Brokers and
clients of message format v0 hashed the frame's magic with it, and Java still does so there.
"""

import struct
from typing import Final

from aiokafka_lite.errors import CorruptRecordException

_MAGIC: Final = b"\x04\x22\x4d\x18"
_FLG_AT: Final = 4
_CONTENT_SIZE: Final = 0x08  # flags that make the descriptor longer
_DICTIONARY: Final = 0x01
_MASK: Final = 0xFFFFFFFF
_PRIME_1: Final = 0x9E3779B1
_PRIME_2: Final = 0x85EBCA77
_PRIME_3: Final = 0xC2B2AE3D
_PRIME_4: Final = 0x27D4EB2F
_PRIME_5: Final = 0x165667B1


def xxhash32(data: bytes) -> int:
    """Return the xxHash32, with seed 0, of less than 16 bytes, enough for a frame descriptor."""
    if len(data) >= 16:
        raise ValueError("only short inputs are hashed here")
    acc = (_PRIME_5 + len(data)) & _MASK
    lanes = len(data) // 4
    for (lane,) in struct.iter_unpack("<I", data[: 4 * lanes]):
        acc = _rotated(acc + lane * _PRIME_3, 17) * _PRIME_4 & _MASK
    for byte in data[4 * lanes :]:
        acc = _rotated(acc + byte * _PRIME_5, 11) * _PRIME_1 & _MASK
    acc = (acc ^ acc >> 15) * _PRIME_2 & _MASK
    acc = (acc ^ acc >> 13) * _PRIME_3 & _MASK
    return acc ^ acc >> 16


def _rotated(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> (32 - bits)) & _MASK


def with_right_checksum(frame: bytes) -> bytes:
    """Return the frame with the checksum that lz4 libraries expect, whichever it has."""
    at = _checksum_at(frame)
    right = xxhash32(frame[_FLG_AT:at]) >> 8 & 0xFF
    broken = xxhash32(frame[:at]) >> 8 & 0xFF
    if frame[at] not in (right, broken):
        raise CorruptRecordException("An lz4 frame's header checksum does not match")
    return b"%b%c%b" % (frame[:at], right, frame[at + 1 :])


def with_broken_checksum(frame: bytes) -> bytes:
    """Return the frame with the checksum that readers of message format v0 expect."""
    at = _checksum_at(frame)
    return b"%b%c%b" % (frame[:at], xxhash32(frame[:at]) >> 8 & 0xFF, frame[at + 1 :])


def _checksum_at(frame: bytes) -> int:
    if len(frame) < 7 or frame[: len(_MAGIC)] != _MAGIC:
        raise CorruptRecordException("An lz4 message is not an lz4 frame")
    flags = frame[_FLG_AT]
    if flags & _DICTIONARY:
        raise CorruptRecordException("An lz4 frame requires a dictionary, which Kafka does not use")
    at = _FLG_AT + 2 + (8 if flags & _CONTENT_SIZE else 0)
    if len(frame) <= at:
        raise CorruptRecordException("An lz4 frame's header is cut off")
    return at
