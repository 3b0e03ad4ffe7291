"""Fast codec for Produce with brokers since Kafka 2.4.

The request is a list of pieces, in which the batches are not copied. A response that reports every
batch as stored is read in one pass, without an object per partition. The generated decoder reads
all other responses.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from aiokafka_lite._build import pick
from aiokafka_lite.producer.batching.accumulator import PartitionQueue, ProducerBatch
from aiokafka_lite.producer.sending._produce_codec_python import TOPIC_IDS_FROM, StoredAt
from aiokafka_lite.protocol.framing import RequestInPieces, decode_response
from aiokafka_lite.protocol.messages.produce import ProduceRequest, ProduceResponse
from aiokafka_lite.protocol.primitives import Buffer, write_string

if TYPE_CHECKING:
    from aiokafka_lite.producer.sending._produce_codec_python import encode_frame, read_stored
else:
    _module = pick(
        "aiokafka_lite.producer.sending._produce_codec_native",
        "aiokafka_lite.producer.sending._produce_codec_python",
    )
    encode_frame, read_stored = _module.encode_frame, _module.read_stored

__all__ = [
    "FIRST_VERSION",
    "NOBODY",
    "TOPIC_IDS_FROM",
    "AllStored",
    "BatchesRequest",
    "StoredAt",
    "compact",
]

FIRST_VERSION: Final = 9
"""The first flexible version."""


def compact(text: str) -> bytes:
    """Encode a topic's name (for versions before `TOPIC_IDS_FROM`) or a transactional id."""
    out = bytearray()
    write_string(out, text, True)
    return bytes(out)


NOBODY: Final = b"\x00"
"""No transactional id."""

AllStored: TypeAlias = tuple[int, dict[tuple[str, int], StoredAt]]
"""A response that reports every batch as stored: the throttle time in milliseconds, and the
place of each (topic, partition)."""


class BatchesRequest(RequestInPieces):
    """A ProduceRequest, versions 9 to 13.

    Args:
        acks: -1, 0 or 1.
        timeout_ms: How long the broker may wait for its replicas.
        parts: Sealed batches with their queues.
        names: Each topic as the version encodes it: see `compact`, or its id's 16 bytes.
        topics: The topics' names by id; None if the version uses names.
        transactional_id: See `compact`; `NOBODY` outside of transactions.
    """

    name: ClassVar[str] = ProduceRequest.name
    api_key: ClassVar[int] = ProduceRequest.api_key
    min_version: ClassVar[int] = FIRST_VERSION
    max_version: ClassVar[int] = TOPIC_IDS_FROM
    flexible_from: ClassVar[int] = ProduceRequest.flexible_from
    response: ClassVar[type[ProduceResponse]] = ProduceResponse

    __slots__ = ("_acks", "_names", "_parts", "_timeout_ms", "_topics", "_transactional_id")

    def __init__(
        self,
        acks: int,
        timeout_ms: int,
        parts: Sequence[tuple[PartitionQueue, ProducerBatch]],
        names: Mapping[str, bytes],
        topics: Mapping[bytes, str] | None = None,
        transactional_id: bytes = NOBODY,
    ) -> None:
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._parts = parts
        self._names = names
        self._topics = topics
        self._transactional_id = transactional_id

    def encode_frame(
        self, version: int, correlation_id: int, client_id: str | None
    ) -> list[Buffer]:
        client = None if client_id is None else client_id.encode()
        return encode_frame(
            version,
            correlation_id,
            client,
            self._acks,
            self._timeout_ms,
            self._parts,
            self._names,
            self._transactional_id,
        )

    def read_response(self, frame: Buffer, version: int) -> ProduceResponse | AllStored:
        found = read_stored(frame, version, self._topics)
        if found is not None:
            return found
        response = decode_response(frame, ProduceResponse, version)[1]
        if self._topics is not None:
            for topic in response.responses:
                topic.name = self._topics.get(topic.topic_id.bytes, "")
        return response
