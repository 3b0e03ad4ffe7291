"""Builds Produce requests: chooses the version, and names or ids for the topics.

Non-obvious:
- Topics are sent by id if the broker supports it (v13, KIP-516) and all topics of the request have
  one. A record for a deleted topic then never reaches another topic of the same name.
- The version determines the generation of the transaction: from 12 on, a batch adds its partition
  to the transaction (KIP-890); in older versions it must have been added before.
- Names and ids are cached for one state of the metadata. New metadata begins a new cache, and
  requests in flight keep the old one.
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

__all__ = ["Part", "Requests"]

_V2_FROM: Final = 3  # Produce version that takes record batches (Kafka 0.11)
_V1_FROM: Final = 2  # message format v1 (Kafka 0.10)
_ZSTD_FROM: Final = 7  # KIP-110 (Kafka 2.1)
_ADDS_FROM: Final = 12  # KIP-890, part 2 (Kafka 4.0)

Part = tuple[PartitionQueue, ProducerBatch]


class Requests:
    """Builds the requests for one broker.

    Args:
        node_id: The broker's node id.
        cluster: Provides the topics' ids.
        options: The producer's options.
        identity: The producer's identity, which has the open transaction's generation.
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
        self._encoded_id = NOBODY
        if self._transactional_id is not None:
            self._encoded_id = compact(self._transactional_id)
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
        """Return the version to use, looked up once per connection.

        Raises:
            UnsupportedVersionError: There is no common version that supports the request.
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
        """Return the version for the open transaction; not cached, as it may change with the next.

        Raises:
            UnsupportedVersionError: There is no common version.
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
            f"{self._node_id} supports only v{version}"
        )

    def make(self, version: int, parts: Sequence[Part]) -> tuple[int, BatchesRequest]:
        """Return a request with some sealed batches, and its version, which may be older.

        Args:
            version: The newest version to use, at least 9.
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
                    self._acks, self._timeout_ms, parts, ids, self._topics, self._encoded_id
                )
                return version, request
        for queue, _ in parts:
            topic = queue.topic_partition[0]
            if topic not in self._names:
                self._names[topic] = compact(topic)
        version = min(version, TOPIC_IDS_FROM - 1)
        request = BatchesRequest(
            self._acks, self._timeout_ms, parts, self._names, None, self._encoded_id
        )
        return version, request

    def _learn_id(self, topic: str, metadata: Metadata) -> bool:
        """Cache a topic's id; False if it has none."""
        known = metadata.topics.get(topic)
        if known is None or known.topic_id is None:
            return False
        self._ids[topic] = topic_id = known.topic_id.bytes
        self._topics[topic_id] = topic
        return True

    def make_old(
        self, version: int, parts: Sequence[Part]
    ) -> tuple[ProduceRequest, list[Part], list[tuple[Part, KafkaError]]]:
        """Return a request for a broker before Kafka 2.4.

        Args:
            version: At most 8.

        Returns:
            The request, the parts in it, and the parts it cannot carry, with their errors.
        """
        topics: dict[str, list[tuple[int, Buffer]]] = {}
        carried: list[Part] = []
        refused: list[tuple[Part, KafkaError]] = []
        for part in parts:
            queue, batch = part
            payload = batch.payload
            if version < _V2_FROM:
                try:
                    from aiokafka_lite.record.legacy import convert  # brokers before 0.11

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
