"""A transactional producer of a socketless broker; each call returns the error code."""

from typing import Any

from aiokafka_lite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from aiokafka_lite.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from aiokafka_lite.protocol.messages.describe_transactions import DescribeTransactionsRequest
from aiokafka_lite.protocol.messages.end_txn import EndTxnRequest
from aiokafka_lite.protocol.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from aiokafka_lite.testing.topics import Partition
from tests.unit.testing.raw import SocketlessBroker, make_batch

__all__ = ["Writer"]


class Writer:
    """Uses one transactional id; keeps the identity that it receives."""

    def __init__(
        self, broker: SocketlessBroker, name: str = "mine", node: int = 0, topic: str = "orders"
    ) -> None:
        self.broker = broker
        self.name = name
        self.node = node
        self.topic = topic
        self.producer = (-1, -1)

    def init(
        self, version: int = 5, timeout_ms: int = 60_000, expected: tuple[int, int] = (-1, -1)
    ) -> int:
        request = InitProducerIdRequest(self.name, timeout_ms, *expected)
        return self._keep(self.broker.ask(request, version, self.node))

    def add(self, *partitions: int, version: int = 3) -> list[int]:
        """The error code of each partition."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(self.topic, list(partitions))],
        )
        response = self.broker.ask(request, version, self.node)
        (topic,) = response.results_by_topic_v3_and_below
        return [result.partition_error_code for result in topic.results_by_partition]

    def add_offsets(self, group: str, version: int = 3) -> int:
        request = AddOffsetsToTxnRequest(self.name, *self.producer, group)
        return int(self.broker.ask(request, version, self.node).error_code)

    def commit_offsets(self, group: str, offset: int, version: int = 3) -> int:
        offsets = [TxnOffsetCommitRequestPartition(0, offset)]
        request = TxnOffsetCommitRequest(
            self.name,
            group,
            *self.producer,
            topics=[TxnOffsetCommitRequestTopic(self.topic, partitions=offsets)],
        )
        (topic,) = self.broker.ask(request, version, self.node).topics
        return int(topic.partitions[0].error_code)

    def produce(
        self, sequence: int, version: int = 12, partition: int = 0, node: int | None = None
    ) -> int:
        batch = make_batch(
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        data = [
            TopicProduceData(self.topic, partition_data=[PartitionProduceData(partition, batch)])
        ]
        request = ProduceRequest(self.name, acks=-1, timeout_ms=1000, topic_data=data)
        response = self.broker.ask(request, version, self.node if node is None else node)
        return int(response.responses[0].partition_responses[0].error_code)

    def end(
        self, *, committed: bool = True, version: int = 5, producer: tuple[int, int] | None = None
    ) -> int:
        request = EndTxnRequest(self.name, *(producer or self.producer), committed)
        return self._keep(self.broker.ask(request, version, self.node))

    @property
    def state(self) -> str:
        """Return the DescribeTransactions result, or its error code."""
        request = DescribeTransactionsRequest([self.name])
        (state,) = self.broker.ask(request, 0, self.node).transaction_states
        return str(state.transaction_state or state.error_code)

    def partition(self, index: int = 0) -> Partition:
        return self.broker.state.topics[self.topic].partitions[index]

    def _keep(self, response: Any) -> int:
        if not response.error_code and response.producer_id >= 0:
            self.producer = (response.producer_id, response.producer_epoch)
        return int(response.error_code)
