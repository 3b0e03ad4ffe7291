"""How batches are put into a Produce request: which version, and how it names the topics.

Non-obvious:
- Topics are named by their ids where the broker takes that (v13, KIP-516) and all of a request's
  have one: what is meant for a topic that was deleted then never ends in another of its name.
- A transaction of the newer generation is known by the version: from 12 on, a batch adds its
  partition to the transaction (KIP-890); one of the older says what was added before.
- What names and ids mean is kept as of one state of the metadata. New metadata begins anew, and
  requests in flight go on referring to the old.
"""

from collections.abc import Sequence
from typing import Final

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.errors import KafkaError, UnsupportedVersionError
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.producer.batching.accumulator import PartitionQueue, ProducerBatch
from aiokafka_lite.producer.idempotence import ProducerIdentity
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.sending.produce_codec import (
    NOBODY,
    TOPIC_IDS_FROM,
    BatchesRequest,
    compact,
)
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.legacy import convert

__all__ = ["Part", "Requests"]

_V2_FROM: Final = 3  # Produce version that takes record batches (Kafka 0.11)
_V1_FROM: Final = 2  # message format v1 (Kafka 0.10)
_ZSTD_FROM: Final = 7  # KIP-110 (Kafka 2.1)
_ADDS_FROM: Final = 12  # KIP-890, part 2 (Kafka 4.0)

Part = tuple[PartitionQueue, ProducerBatch]


class Requests:
    """Makes the requests of one broker.

    Args:
        node_id: The broker's.
        cluster: Knows the topics' ids.
        options: The producer's.
        identity: The producer's: it tells of the open transaction.
    """

    def __init__(
        self,
        node_id: int,
        cluster: Cluster,
        options: ProducerOptions,
        identity: ProducerIdentity,
    ) -> None:
        self._identity = identity
        self._transactional_id = options.transactional_id
        self._told_id = NOBODY
        if self._transactional_id is not None:
            self._told_id = compact(self._transactional_id)
        self._node_id = node_id
        self._cluster = cluster
        self._compression = options.compression
        self._acks = options.acks
        self._timeout_ms = round(options.request_timeout * 1000)
        self._connection: Connection | None = None  # that `_version` was looked up for
        self._version = 0
        self._named_by: Metadata | None = None
        self._names: dict[str, bytes] = {}
        self._ids: dict[str, bytes] = {}
        self._topics: dict[bytes, str] = {}

    def version_for(self, connection: Connection) -> int:
        """The version to speak, looked up once a connection.

        Raises:
            UnsupportedVersionError: There is none, or none that can say what is to be said.
        """
        if connection is not self._connection:
            if self._identity.transactional:
                return self._transactional_version(connection)
            version = connection.version_of(ProduceRequest)
            if self._compression is Compression.ZSTD and version < _ZSTD_FROM:
                raise UnsupportedVersionError(self._no_zstd(version))
            self._version, self._connection = version, connection
        return self._version

    def _transactional_version(self, connection: Connection) -> int:
        """The version that is the open transaction's; not remembered, as the next one's may be
        another.

        Raises:
            UnsupportedVersionError: There is none.
        """
        if self._identity.implicit:
            version = connection.version_of(ProduceRequest, oldest=_ADDS_FROM)
        else:
            version = connection.version_of(ProduceRequest, _ADDS_FROM - 1, _V2_FROM)
        if self._compression is Compression.ZSTD and version < _ZSTD_FROM:
            raise UnsupportedVersionError(self._no_zstd(version))
        return version

    def _no_zstd(self, version: int) -> str:
        return (
            f"compression_type='zstd' needs Produce v{_ZSTD_FROM} (Kafka 2.1); broker "
            f"{self._node_id} speaks v{version}"
        )

    def make(self, version: int, parts: Sequence[Part]) -> tuple[int, BatchesRequest]:
        """A request of some sealed batches, and its version, which may be older.

        Args:
            version: 9 or newer.
        """
        metadata = self._cluster.metadata
        if metadata is not self._named_by:
            self._named_by = metadata
            self._names, self._ids, self._topics = {}, {}, {}
        if version >= TOPIC_IDS_FROM:
            ids = self._ids
            for queue, _ in parts:
                topic = queue.topic_partition[0]
                if topic not in ids and not self._learn_id(topic, metadata):
                    break
            else:
                request = BatchesRequest(
                    self._acks, self._timeout_ms, parts, ids, self._topics, self._told_id
                )
                return version, request
        for queue, _ in parts:
            topic = queue.topic_partition[0]
            if topic not in self._names:
                self._names[topic] = compact(topic)
        version = min(version, TOPIC_IDS_FROM - 1)
        request = BatchesRequest(
            self._acks, self._timeout_ms, parts, self._names, None, self._told_id
        )
        return version, request

    def _learn_id(self, topic: str, metadata: Metadata) -> bool:
        """Note a topic's id; whether it has one."""
        known = metadata.topics.get(topic)
        if known is None or known.topic_id is None:
            return False
        self._ids[topic] = topic_id = known.topic_id.bytes
        self._topics[topic_id] = topic
        return True

    def make_old(
        self, version: int, parts: Sequence[Part]
    ) -> tuple[ProduceRequest, list[Part], list[tuple[Part, KafkaError]]]:
        """A request for a broker before 2.4.

        Args:
            version: 8 or older.

        Returns:
            It, the parts that are in it, and those that it cannot carry, with why.
        """
        topics: dict[str, list[tuple[int, Buffer]]] = {}
        carried: list[Part] = []
        refused: list[tuple[Part, KafkaError]] = []
        for part in parts:
            queue, batch = part
            payload = batch.payload
            if version < _V2_FROM:
                try:
                    payload = convert(payload, 1 if version >= _V1_FROM else 0)
                except KafkaError as error:
                    refused.append((part, error))
                    continue
            topic, partition = queue.topic_partition
            topics.setdefault(topic, []).append((partition, payload))
            carried.append(part)
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=name, partition_data=[PartitionProduceData(*batch) for batch in batches]
                )
                for name, batches in topics.items()
            ],
        )
        return request, carried, refused
