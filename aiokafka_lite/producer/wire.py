"""Produce as it is spoken for every batch with every broker since Kafka 2.4.

The generated messages say the same, for any version. Here the request is written in pieces, what is
around the batches and the batches as they lie; and an answer that everything was stored is read in
one pass, without an object a partition. Any other answer is left to the generated decoder.
"""

from collections.abc import Mapping, Sequence
from struct import Struct as Layout
from struct import error as LayoutError
from typing import ClassVar, Final, NamedTuple, Self

from aiokafka_lite.protocol.framing import RequestInPieces
from aiokafka_lite.protocol.messages.produce import ProduceRequest, ProduceResponse
from aiokafka_lite.protocol.primitives import (
    INT32,
    Buffer,
    Reader,
    write_string,
    write_unsigned_varint,
)

__all__ = ["FIRST_VERSION", "BatchesRequest", "BatchesResponse", "Stored"]

FIRST_VERSION: Final = 9
"""The first flexible one."""

_ACKS_AND_TIMEOUT: Final = Layout(">hi")
# Index, error code, base offset, log append time, log start offset; no record errors, no error
# message, no tagged fields.
_STORED: Final = Layout(">ihqqq3s")
_NOTHING_MORE: Final = b"\x01\x00\x00"


class Stored(NamedTuple):
    """Where a batch was stored."""

    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


class BatchesResponse(ProduceResponse):
    """A ProduceResponse, versions 9 to 12.

    Attributes:
        stored: By (topic, partition), if every batch was stored and nothing else is said; then
            `responses` is empty. None: look there.
    """

    __slots__ = ("stored",)

    stored: dict[tuple[str, int], Stored] | None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        start = reader.pos
        try:
            stored = _read_stored(reader)
        except (LayoutError, IndexError, UnicodeDecodeError):
            stored = None  # the generated decoder says what is wrong with it
        if stored is not None:
            self = cls.__new__(cls)
            self.responses, self.node_endpoints = [], []
            self.throttle_time_ms = reader.int32()
            self.unknown_tagged_fields = reader.tagged_fields()
            if not self.unknown_tagged_fields:
                self.stored = stored
                return self
        reader.pos = start
        self = super().decode(reader, version)
        self.stored = None
        return self


def _read_stored(reader: Reader) -> dict[tuple[str, int], Stored] | None:
    """All partitions' answers, if each is a plain success; else None, the reader anywhere."""
    data, at = reader.data, reader.pos
    unpack, size = _STORED.unpack_from, _STORED.size
    stored: dict[tuple[str, int], Stored] = {}
    topics = data[at]
    at += 1
    if not 0 < topics < 0x80:  # null, or a length of more than one byte
        return None
    for _ in range(topics - 1):
        length = data[at]
        if not 0 < length < 0x80:
            return None
        end = at + length
        topic = str(data[at + 1 : end], "utf-8")
        partitions = data[end]
        if not 0 < partitions < 0x80:
            return None
        at = end + 1
        for _ in range(partitions - 1):
            index, error, base_offset, log_append_time, log_start, rest = unpack(data, at)
            if error or rest != _NOTHING_MORE:
                return None
            stored[topic, index] = Stored(base_offset, log_append_time, log_start)
            at += size
        if data[at]:  # the topic has tagged fields
            return None
        at += 1
    reader.pos = at
    return stored


class BatchesRequest(RequestInPieces):
    """A ProduceRequest, versions 9 to 12, without a transactional id.

    Args:
        acks: -1, 0 or 1.
        timeout_ms: How long the broker may wait for its replicas.
        batches: By topic: partition numbers and record batches.
    """

    name: ClassVar[str] = ProduceRequest.name
    api_key: ClassVar[int] = ProduceRequest.api_key
    min_version: ClassVar[int] = FIRST_VERSION
    max_version: ClassVar[int] = 12  # v13 names topics by id
    flexible_from: ClassVar[int] = ProduceRequest.flexible_from
    response: ClassVar[type[BatchesResponse]] = BatchesResponse

    def __init__(
        self, acks: int, timeout_ms: int, batches: Mapping[str, Sequence[tuple[int, Buffer]]]
    ) -> None:
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._batches = batches

    def encode_in_pieces(self, out: bytearray, version: int) -> list[Buffer]:
        pieces: list[Buffer] = []
        out.append(0)  # no transactional id
        out += _ACKS_AND_TIMEOUT.pack(self._acks, self._timeout_ms)
        write_unsigned_varint(out, len(self._batches) + 1)
        for topic, batches in self._batches.items():
            write_string(out, topic, True)
            write_unsigned_varint(out, len(batches) + 1)
            for partition, records in batches:
                out += INT32.pack(partition)
                write_unsigned_varint(out, len(records) + 1)
                pieces += out, records
                out = bytearray(1)  # the partition's tagged fields: none
            out.append(0)  # the topic's
        out.append(0)  # the request's
        pieces.append(out)
        return pieces
