"""ListOffsets in every version, and OffsetForLeaderEpoch: positions in a log."""

from typing import Any

import pytest

from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokafka_lite.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.topics import Partition
from tests.unit.testing.raw import SocketlessBroker, make_batch


def append(partition: Partition, *timestamps: int) -> None:
    batch = memoryview(make_batch(*((timestamp, None, b"v") for timestamp in timestamps)))
    partition.append(batch, BatchHeader.read(batch), 1, 0)


@pytest.fixture
def partition(broker: SocketlessBroker) -> Partition:
    partition = broker.state.create_topic("orders", 1).partitions[0]
    append(partition, 10, 20)
    partition.lead(0)
    append(partition, 40, 15)
    return partition


def look_up(broker: SocketlessBroker, version: int, timestamp: int, **fields: Any) -> Any:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **fields)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[wanted])]
    )
    return broker.ask(request, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    ("timestamp", "expected", "epoch"),
    [
        (-1, (4, -1), 1),
        (-2, (0, -1), 0),
        (0, (0, 10), 0),
        (11, (1, 20), 0),
        (21, (2, 40), 1),
        (41, (-1, -1), -1),
    ],
)
def test_offsets(
    broker: SocketlessBroker,
    partition: Partition,
    version: int,
    timestamp: int,
    expected: tuple[int, int],
    epoch: int,
) -> None:
    found = look_up(broker, version, timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, *expected)
    assert found.leader_epoch == (epoch if version >= 4 else -1)


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"), [(-3, 7, 2), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)]
)
def test_later_timestamps(
    broker: SocketlessBroker, partition: Partition, timestamp: int, since: int, offset: int
) -> None:
    assert look_up(broker, since - 1, timestamp).error_code == 35
    found = look_up(broker, since, timestamp)
    assert (found.error_code, found.offset) == (0, offset)


def test_the_log_start_moves(broker: SocketlessBroker, partition: Partition) -> None:
    partition.log.delete_before(3)
    assert look_up(broker, 7, -2).offset == 3
    assert look_up(broker, 7, 0).offset == 3
    # As in Kafka, the largest timestamp counts until its batch is gone.
    assert (look_up(broker, 7, -3).offset, look_up(broker, 7, -3).timestamp) == (2, 40)


def test_a_duplicate_partition_gets_one_error(
    broker: SocketlessBroker, partition: Partition
) -> None:
    wanted = [ListOffsetsPartition(0, timestamp=-1)] * 2
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic("orders", wanted)])
    (answer,) = broker.ask(request, 5).topics[0].partitions
    assert (answer.error_code, answer.offset) == (42, -1)


def test_followers_answer_only_debugging_clients(three_brokers: SocketlessBroker) -> None:
    three_brokers.state.create_topic("orders", 1)

    def error(replica_id: int) -> int:
        wanted = [ListOffsetsPartition(0, timestamp=-1)]
        request = ListOffsetsRequest(replica_id, topics=[ListOffsetsTopic("orders", wanted)])
        return int(three_brokers.ask(request, 5, 1).topics[0].partitions[0].error_code)

    assert [error(replica_id) for replica_id in (-1, -2)] == [6, 0]


@pytest.mark.parametrize(
    ("timestamp", "offsets"), [(-1, [4, 0]), (-2, [0]), (50, [0]), (5, []), (-3, None)]
)
def test_version_0(
    broker: SocketlessBroker, partition: Partition, timestamp: int, offsets: list[int] | None
) -> None:
    found = look_up(broker, 0, timestamp, max_num_offsets=5)
    assert (found.old_style_offsets if offsets is not None else found.error_code) == (
        35 if offsets is None else offsets
    )
    if offsets:
        assert look_up(broker, 0, timestamp, max_num_offsets=1).old_style_offsets == offsets[:1]


def test_errors(broker: SocketlessBroker) -> None:
    assert look_up(broker, 5, -1).error_code == 3
    broker.state.create_topic("orders", 1).partitions[0].lead(0)
    assert look_up(broker, 5, -1, current_leader_epoch=0).error_code == 74
    assert look_up(broker, 5, -1, current_leader_epoch=2).error_code == 75


@pytest.mark.parametrize("version", range(5))
def test_end_of_epochs(broker: SocketlessBroker, partition: Partition, version: int) -> None:
    def end(epoch: int, partition: int = 0) -> tuple[int, int, int]:
        request = OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="orders",
                    partitions=[OffsetForLeaderPartition(partition=partition, leader_epoch=epoch)],
                )
            ]
        )
        answer = broker.ask(request, version).topics[0].partitions[0]
        return (answer.error_code, answer.leader_epoch, answer.end_offset)

    told = (lambda epoch: epoch) if version >= 1 else (lambda epoch: -1)
    assert end(0) == (0, told(0), 2)
    assert end(1) == (0, told(1), 4)
    assert end(2) == (0, -1, -1)
    assert end(0, partition=1) == (3, -1, -1)
