"""Produce requests written in pieces: what is around the batches, and the batches as they lie.

The generated `ProduceRequest` says the same, for any version; this is what is sent for every batch
to every broker since Kafka 2.4, and spares the objects in between and a copy of the batches.
"""

from collections.abc import Mapping, Sequence
from struct import Struct as Layout
from typing import ClassVar, Final

from aiokafka_lite.protocol.framing import RequestInPieces
from aiokafka_lite.protocol.messages.produce import ProduceRequest, ProduceResponse
from aiokafka_lite.protocol.primitives import INT32, Buffer, write_string, write_unsigned_varint

__all__ = ["FIRST_VERSION", "BatchesRequest"]

FIRST_VERSION: Final = 9
"""The first flexible one."""

_ACKS_AND_TIMEOUT: Final = Layout(">hi")


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
    response: ClassVar[type[ProduceResponse]] = ProduceResponse

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
