"""Fetching from followers (KIP-392), and responses of brokers that do not lead."""

from aiokafka_lite.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.conformance.conftest import Compare
from tests.conformance.requests import GOOD, fetch, produce
from tests.conformance.target import Target


async def nodes_of(target: Target) -> list[int]:
    response = await target.quietly(MetadataRequest([]), 9, "topics")
    return sorted(broker.node_id for broker in response.brokers)


def look_up(topic: str, replica_id: int, epoch: int = -1) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(0, epoch, -1)]
    return ListOffsetsRequest(replica_id, topics=[ListOffsetsTopic(topic, wanted)])


def end_of(topic: str, current: int) -> OffsetForLeaderEpochRequest:
    wanted = [OffsetForLeaderPartition(0, current, 0)]
    return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, wanted)])


async def test_preferred_read_replica(compare3: Compare) -> None:
    async def scenario(target: Target) -> None:
        nodes = await nodes_of(target)
        topic = target.unique("topic")
        replicas = [CreatableReplicaAssignment(0, nodes[:2])]
        wanted = CreatableTopic(topic, -1, -1, replicas)
        await target.quietly(CreateTopicsRequest([wanted], timeout_ms=20_000), 5, "topics")
        await target.known_everywhere(topic)
        leader, follower, stranger = (f"main@{node}" for node in nodes)
        await target.until(
            produce(topic, GOOD),
            9,
            lambda answer: not answer.responses[0].partition_responses[0].error_code,
            leader,
        )

        def is_there(answer: object) -> bool:
            (data,) = answer.responses[0].partitions  # type: ignore[attr-defined] # FetchResponse
            return data.high_watermark == 2 and not data.error_code

        await target.until(fetch(topic, 0), 12, is_there, follower)
        # Once a follower has it, every broker returns it.
        for on in (leader, follower, stranger):
            for version in (10, 11, 12):
                for epoch in (-1, 0, 9):
                    await target.ask(fetch(topic, 1, epoch=epoch), version, on)
            await target.ask(fetch(topic, 3), 12, on)
            await target.ask(fetch(topic, 2, fetched_epoch=0), 12, on)
            await target.ask(fetch(topic, 2, fetched_epoch=4), 12, on)
            for replica_id in (-1, -2):
                for epoch in (-1, 0, 9):
                    await target.ask(look_up(topic, replica_id, epoch), 7, on)
            for current in (-1, 0, 9):
                await target.ask(end_of(topic, current), 3, on)
        await target.ask(produce(topic, GOOD), 9, follower)
        await target.ask(produce(topic, GOOD), 9, stranger)
        for on in (follower, stranger, leader):
            deleted = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 1)])]
            await target.ask(DeleteRecordsRequest(deleted, 5000), 2, on)

    await compare3(scenario)
