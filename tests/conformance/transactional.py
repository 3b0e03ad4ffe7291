"""A transactional producer of raw requests, for transactions v1 and v2.

It does nothing by itself: the scenario controls its requests and the use of responses.
"""

import asyncio
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
from tests.conformance.requests import NOW
from tests.conformance.target import Target
from tests.unit.testing.raw import RawClient, make_batch

__all__ = ["Writer", "transactional"]

CONCURRENT = 51
TOLD = (
    *("error_code", "transaction_state", "transaction_start_time_ms"),
    *("producer_id", "producer_epoch"),
)
NOT_READY = frozenset({14, 15, 16})  # loading, not available, not coordinator


def transactional(
    producer: tuple[int, int], sequence: int, count: int = 1, *, transactional: bool = True
) -> bytes:
    """A batch of a producer (id, epoch)."""
    return make_batch(
        *[(NOW, b"k", b"v")] * count,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional,
    )


class Writer:
    """Sends requests of one transactional id.

    Args:
        target: The cluster.
        name: The transactional id.
        on: The connection.

    Attributes:
        producer: (producer id, epoch); -1 before `init`.
    """

    def __init__(self, target: Target, name: str, on: str = "main") -> None:
        self.target = target
        self.name = name
        self.producer = (-1, -1)
        self._on = on

    def elsewhere(self, on: str) -> "Writer":
        """The same producer on another connection."""
        writer = Writer(self.target, self.name, on)
        writer.producer = self.producer
        return writer

    async def await_coordinator(self, *, anywhere: bool = False) -> None:
        """The first use of a cluster creates the coordinators' topic, which takes a moment.

        It also uses up a producer id, so that 0 always means none.

        Args:
            anywhere: The connection need not be one to the coordinator.
        """
        not_ready = NOT_READY.difference({16} if anywhere else ())
        await self.target.coordinator_of(self.name, 1)
        request = DescribeTransactionsRequest([self.name])
        async with asyncio.timeout(30):
            while True:
                response = await self.target.quietly(request, 0, self._on)
                given = await self.target.quietly(InitProducerIdRequest(None), 4, self._on)
                codes = {response.transaction_states[0].error_code, given.error_code}
                if not codes.intersection(not_ready):
                    return
                await asyncio.sleep(0.02)

    async def init(
        self,
        version: int = 5,
        timeout_ms: int = 60_000,
        expected: tuple[int, int] = (-1, -1),
    ) -> Any:
        """Send InitProducerId once; keep its result."""
        request = InitProducerIdRequest(self.name, timeout_ms, *expected)
        response = await self.target.ask(request, version, self._on)
        self._keep(response)
        return response

    async def burn_epochs(self, until: int) -> None:
        """Send InitProducerId repeatedly, without recording, until an epoch is reached."""
        client = await RawClient.connect(self.target.bootstrap.split(",")[0])
        request = InitProducerIdRequest(self.name, 60_000)
        producer = self.producer
        try:
            while producer[1] < until:
                burst = min(until - producer[1], 500)
                for _ in range(burst):
                    client.send(request, 5)
                for _ in range(burst):
                    _, response = await client.receive(request, 5)
                    if not response.error_code:
                        producer = (response.producer_id, response.producer_epoch)
        finally:
            await client.close()
        assert producer == (self.producer[0], until)
        self.producer = producer

    async def init_after_abort(self, version: int = 5) -> Any:
        """Repeat InitProducerId until it succeeds; record only the last response."""
        request = InitProducerIdRequest(self.name, 60_000)
        response = await self.target.until(
            request, version, lambda answer: answer.error_code != CONCURRENT, self._on
        )
        self._keep(response)
        return response

    async def add(self, topic: str, *partitions: int, version: int = 3) -> Any:
        """AddPartitionsToTxn."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(partitions))],
        )
        return await self.target.ask(request, version, self._on)

    async def add_offsets(self, group: str, version: int = 3) -> Any:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(self.name, *self.producer, group)
        return await self.target.ask(request, version, self._on)

    async def commit_offsets(
        self,
        group: str,
        topic: str,
        offset: int,
        version: int = 3,
        member: tuple[int, str, str | None] = (-1, "", None),
        partition: int = 0,
    ) -> Any:
        """TxnOffsetCommit; `member` is (generation, member id, instance id)."""
        offsets = [TxnOffsetCommitRequestPartition(partition, offset, committed_metadata="meta")]
        request = TxnOffsetCommitRequest(
            self.name,
            group,
            *self.producer,
            *member,
            topics=[TxnOffsetCommitRequestTopic(topic, partitions=offsets)],
        )
        return await self.target.ask(request, version, self._on)

    async def produce(
        self, topic: str, sequence: int, version: int = 11, partition: int = 0, count: int = 1
    ) -> Any:
        """Produce one transactional batch."""
        return await self.produce_batch(
            topic, transactional(self.producer, sequence, count), version, partition
        )

    async def produce_batch(
        self, topic: str, batch: bytes, version: int = 11, partition: int = 0
    ) -> Any:
        """Produce any batch under this transactional id."""
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
        request = ProduceRequest(self.name, acks=-1, timeout_ms=20_000, topic_data=data)
        return await self.target.ask(request, version, self._on)

    async def end(
        self,
        *,
        committed: bool,
        version: int = 4,
        producer: tuple[int, int] | None = None,
        wait: bool = True,
    ) -> Any:
        """EndTxn, and wait until the markers are written; a new identity is kept."""
        request = EndTxnRequest(self.name, *(producer or self.producer), committed)
        response = await self.target.ask(request, version, self._on)
        self._keep(response)
        if wait:
            await self.settled()
        return response

    async def settled(self) -> None:
        """Wait until no marker is missing; record the state."""
        request = DescribeTransactionsRequest([self.name])
        async with asyncio.timeout(30):
            while True:
                response = await self.target.quietly(request, 0, self._on)
                (found,) = response.transaction_states
                if not found.transaction_state.startswith("Prepare"):
                    break
                await asyncio.sleep(0.02)
        topics = {topic.topic for topic in found.topics}  # their partitions may be others of groups
        told = {name: getattr(found, name) for name in TOLD}
        self.target.note("the transaction", {**told, "topics": topics})

    async def describe(self) -> Any:
        """DescribeTransactions."""
        return await self.target.ask(DescribeTransactionsRequest([self.name]), 0, self._on)

    def _keep(self, response: Any) -> None:
        if not response.error_code and response.producer_id >= 0:
            self.producer = (response.producer_id, response.producer_epoch)
