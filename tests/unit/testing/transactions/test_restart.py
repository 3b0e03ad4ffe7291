"""Transactions of a cluster in a folder, across a restart."""

from pathlib import Path
from typing import Any

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
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
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.clock import VirtualClock
from tests.unit.testing.raw import RawClient, make_batch


def written(producer: tuple[int, int], sequence: int) -> ProduceRequest:
    batch = make_batch(
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=True,
    )
    data = [PartitionProduceData(0, batch)]
    return ProduceRequest("mine", -1, 1000, [TopicProduceData("orders", partition_data=data)])


async def ask(cluster: FakeCluster, *requests: tuple[Request, int]) -> list[Any]:
    client = await RawClient.connect(cluster.address(0))
    try:
        return [await client.ask(request, version) for request, version in requests]
    finally:
        await client.close()


async def test_an_open_transaction_continues_after_a_restart(tmp_path: Path) -> None:
    async with FakeCluster(topics={"orders": 1}, data_dir=tmp_path) as cluster:
        (given,) = await ask(cluster, (InitProducerIdRequest("mine", 60_000), 5))
        producer = (given.producer_id, given.producer_epoch)
        offsets = [TxnOffsetCommitRequestPartition(0, 7)]
        topics = [TxnOffsetCommitRequestTopic("orders", partitions=offsets)]
        kept = TxnOffsetCommitRequest("mine", "group", *producer, topics=topics)
        for response in await ask(cluster, (written(producer, 0), 12)):
            assert response.responses[0].partition_responses[0].error_code == 0
        for response in await ask(cluster, (kept, 5)):
            assert response.topics[0].partitions[0].error_code == 0
    async with FakeCluster(data_dir=tmp_path) as cluster:
        partition = cluster.partition("orders", 0)
        assert (partition.log.end_offset, partition.last_stable_offset) == (1, 0)
        response, ended = await ask(
            cluster,
            (written(producer, 1), 12),
            (EndTxnRequest("mine", *producer, True), 5),
        )
        assert response.responses[0].partition_responses[0].error_code == 0
        assert (ended.error_code, ended.producer_epoch) == (0, 1)
        assert partition.last_stable_offset == 3
        group = cluster.state.groups.get("group")
        assert group is not None
        committed = group.offsets.find("orders", 0)
        assert committed is not None
        assert committed.offset == 7
    async with FakeCluster(data_dir=tmp_path) as cluster:
        late, given = await ask(
            cluster,
            (written(producer, 2), 12),
            (InitProducerIdRequest("mine", 60_000), 5),
        )
        assert late.responses[0].partition_responses[0].error_code == 47
        assert (given.producer_id, given.producer_epoch) == (producer[0], 2)


async def test_an_open_transaction_times_out_after_a_restart(tmp_path: Path) -> None:
    async with FakeCluster(
        topics={"orders": 1}, data_dir=tmp_path, clock=VirtualClock()
    ) as cluster:
        (given,) = await ask(cluster, (InitProducerIdRequest("mine", 60_000), 5))
        producer = (given.producer_id, given.producer_epoch)
        added = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="mine",
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic("orders", [0])],
        )
        await ask(cluster, (added, 3), (written(producer, 0), 11))
    async with FakeCluster(data_dir=tmp_path, clock=VirtualClock()) as cluster:
        partition = cluster.partition("orders", 0)
        cluster.advance(59)
        assert partition.last_stable_offset == 0
        cluster.advance(1)
        assert partition.last_stable_offset == 2
        assert partition.aborted_between(0, 2) == [(producer[0], 0)]
