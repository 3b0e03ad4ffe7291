"""The pure-Python twin of murmur2: its specification, and the build without a compiler."""

import struct
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """Hash a record's key as `org.apache.kafka.common.utils.Utils.murmur2` does.

    Args:
        data: The serialized key.

    Returns:
        0 .. 2**32 - 1: Java's signed int with the same bits. Its partitioner takes
        `(hash & 0x7FFFFFFF) % partitions`.
    """
    data = bytes(memoryview(data))
    length = len(data)
    h = (_SEED ^ length) & _MASK
    words = length // 4
    for (k,) in struct.iter_unpack("<I", data[: 4 * words]):
        k = k * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    rest = data[4 * words :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15
