"""Encodes a Produce request and decodes a response without errors: the readable specification.

For versions 9 to 13; the generated messages are equivalent, for any version.
"""

from collections.abc import Mapping, Sequence
from struct import Struct as Layout
from struct import error as LayoutError
from typing import Final

from aiokafka_lite.producer.batching._accumulator_python import PartitionQueue
from aiokafka_lite.producer.batching._ack_python import ProducerBatch
from aiokafka_lite.protocol.primitives import INT32, Buffer, write_unsigned_varint

__all__ = ["StoredAt", "encode_frame", "read_stored"]

StoredAt = tuple[int, int, int]
"""Where a batch was stored: base offset, log append time (ms), log start offset."""

TOPIC_IDS_FROM: Final = 13
"""First version that identifies topics only by id."""

_HEADER: Final = Layout(">ihhi")
_ACKS_AND_TIMEOUT: Final = Layout(">hi")
# Index, error code, base offset, log append time, log start offset; no record errors, no error
# message, no tagged fields.
_STORED: Final = Layout(">ihqqq3s")
_NOTHING_MORE: Final = b"\x01\x00\x00"


def encode_frame(
    version: int,
    correlation_id: int,
    client_id: bytes | None,
    acks: int,
    timeout_ms: int,
    parts: Sequence[tuple[PartitionQueue, ProducerBatch]],
    names: Mapping[str, bytes],
    transactional_id: bytes = b"\x00",
) -> list[Buffer]:
    """Encode a whole request, with its size, as a list of pieces; the batches are not copied.

    Args:
        client_id: In UTF-8.
        parts: Sealed batches with their queues.
        names: Each topic as the version encodes it: a compact string, or 16 bytes of id.
        transactional_id: As a compact string; a zero byte for none.
    """
    topics: dict[str, list[tuple[int, Buffer]]] = {}
    for queue, batch in parts:
        topic, partition = queue.topic_partition
        topics.setdefault(topic, []).append((partition, batch.payload))
    out = bytearray(_HEADER.pack(0, 0, version, correlation_id))
    out += (-1 if client_id is None else len(client_id)).to_bytes(2, "big", signed=True)
    out += client_id or b""
    out.append(0)  # the header's tagged fields: none
    out += transactional_id
    out += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    write_unsigned_varint(out, len(topics) + 1)
    pieces: list[Buffer] = []
    first = out
    for topic, batches in topics.items():
        out += names[topic]
        write_unsigned_varint(out, len(batches) + 1)
        for partition, records in batches:
            out += INT32.pack(partition)
            write_unsigned_varint(out, len(records) + 1)
            pieces += bytes(out) if pieces else out, records
            out = bytearray(1)  # the partition's tagged fields: none
        out.append(0)  # the topic's
    out.append(0)  # the request's
    pieces.append(bytes(out) if pieces else out)
    INT32.pack_into(first, 0, sum(map(len, pieces)) - INT32.size)
    return pieces


def read_stored(
    frame: Buffer, version: int, names: Mapping[bytes, str] | None
) -> tuple[int, dict[tuple[str, int], StoredAt]] | None:
    """Read a response, correlation id included, if it reports that every batch was stored.

    Args:
        names: The topics' names by their id's 16 bytes, if the version uses ids.

    Returns:
        The throttle time in milliseconds, and the place of each (topic, partition). None if the
        response contains anything else or is invalid: the generated decoder handles it.
    """
    try:
        return _read(frame, version, names)
    except (LayoutError, IndexError, UnicodeDecodeError):
        return None


def _read(
    data: Buffer, version: int, names: Mapping[bytes, str] | None
) -> tuple[int, dict[tuple[str, int], StoredAt]] | None:
    stored: dict[tuple[str, int], StoredAt] = {}
    topics = data[5]
    if data[4] or not 0 < topics < 0x80:  # tagged fields; null, or a length of more than one byte
        return None
    at = 6
    for _ in range(topics - 1):
        if version >= TOPIC_IDS_FROM:
            end = at + 16
            name = None if names is None else names.get(bytes(data[at:end]))
        else:
            if not 0 < data[at] < 0x80:
                return None
            end = at + data[at]
            name = str(data[at + 1 : end], "utf-8")
        partitions = data[end]
        if name is None or not 0 < partitions < 0x80:
            return None
        at = end + 1
        for _ in range(partitions - 1):
            index, error, base_offset, log_append_time, log_start, rest = _STORED.unpack_from(
                data, at
            )
            if error or rest != _NOTHING_MORE:
                return None
            stored[name, index] = (base_offset, log_append_time, log_start)
            at += _STORED.size
        if data[at]:  # the topic has tagged fields
            return None
        at += 1
    (throttle,) = INT32.unpack_from(data, at)
    if data[at + 4] or at + 5 != len(data):
        return None
    return throttle, stored
