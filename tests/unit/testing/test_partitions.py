"""Partitions: batches changed before they are stored, in-sync replicas, truncation."""

from typing import Any

import pytest

from aiokafka_lite.errors import (
    FencedLeaderEpochError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
    OutOfOrderSequenceNumber,
    UnknownLeaderEpochError,
)
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, crc_matches
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing.log.batch_rewriting import with_max_timestamp
from aiokafka_lite.testing.log.control_batches import EndMarker
from aiokafka_lite.testing.topics import Partition
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch

RECORDS = [(NOW_MS, b"k", b"v" * 400), (NOW_MS - 5, None, b"w"), (NOW_MS + 5, b"", None)]


def partition_of(broker: SocketlessBroker, **configs: str) -> Partition:
    names = {name.replace("_", "."): value for name, value in configs.items()}
    return broker.state.create_topic("orders", 1, configs=names).partitions[0]


def append(partition: Partition, batch: bytes | memoryview, acks: int = 1) -> int:
    view = memoryview(batch)
    header = BatchHeader.read(view)
    return partition.append(view, header, acks, NOW_MS, verified=True).base_offset


def by(producer_id: int, sequence: int, **fields: Any) -> bytes:
    return make_batch(
        (NOW_MS, b"k", b"v"),
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        **fields,
    )


# Stored differently than sent


@pytest.mark.parametrize("sent", list(Compression))
@pytest.mark.parametrize("kept", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_has_its_own_compression(
    broker: SocketlessBroker, kept: str, sent: Compression
) -> None:
    partition = partition_of(broker, compression_type=kept)
    append(partition, make_batch(*RECORDS, compression=sent, producer_id=4, base_sequence=0))
    (stored,) = partition.log.batches()
    header = BatchHeader.read(stored)
    others = {"producer": sent, "uncompressed": Compression.NONE}
    assert header.codec == (others[kept] if kept in others else Compression.named(kept))
    assert crc_matches(stored, 0, len(stored))
    assert (header.producer_id, header.max_timestamp) == (4, NOW_MS + 5)
    read = RecordSet(stored, "orders", 0, 0).read(9)
    assert [(each.timestamp, each.key, each.value) for each in read] == RECORDS


def test_the_size_counts_as_it_is_stored(broker: SocketlessBroker) -> None:
    partition = partition_of(broker, compression_type="uncompressed", max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        append(partition, make_batch((NOW_MS, None, bytes(5000)), compression=Compression.GZIP))
    assert partition.log.end_offset == 0


@pytest.mark.parametrize("checked", [True, False])
def test_a_largest_timestamp_is_corrected_where_records_are_read(checked: bool) -> None:
    partition = partition_of(SocketlessBroker(check_records=checked))
    for claimed in (NOW_MS + 99, NOW_MS - 99):
        append(partition, with_max_timestamp(memoryview(make_batch(*RECORDS)), claimed))
    found = [BatchHeader.read(batch).max_timestamp for batch in partition.log.batches()]
    assert found == ([NOW_MS + 5] * 2 if checked else [NOW_MS + 99, NOW_MS - 99])
    assert all(crc_matches(batch, 0, len(batch)) for batch in partition.log.batches())


# In-sync replicas


def test_too_few_in_sync(three_brokers: SocketlessBroker) -> None:
    partition = partition_of(three_brokers, min_insync_replicas="2")
    woken: list[int] = []
    partition.watchers.add(lambda: woken.append(1))
    assert (partition.leader, partition.isr) == (0, [0, 1, 2])
    partition.shrink_isr([2])
    assert append(partition, make_batch(), acks=-1) == 0
    partition.shrink_isr([1, 2])
    assert partition.isr == [0]
    with pytest.raises(NotEnoughReplicasError):
        append(partition, make_batch(), acks=-1)
    assert append(partition, make_batch(), acks=1) == 1
    partition.expand_isr([2, 7])
    assert partition.isr == [0, 2]
    assert append(partition, make_batch(), acks=-1) == 2
    assert len(woken) == 6  # three changes and three appends
    with pytest.raises(ValueError, match="0 leads orders-0"):
        partition.shrink_isr([0, 1])


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(-1, None), (0, FencedLeaderEpochError), (1, None), (2, UnknownLeaderEpochError)],
)
def test_leader_epochs(broker: SocketlessBroker, epoch: int, error: type[Exception] | None) -> None:
    partition = partition_of(broker)
    partition.lead(0)
    if error is None:
        partition.check_epoch(epoch)
    else:
        with pytest.raises(error):
            partition.check_epoch(epoch)


# Lost ends


def test_a_truncation_forgets_the_producer_state_after_it(broker: SocketlessBroker) -> None:
    partition = partition_of(broker)
    for sequence in range(3):
        append(partition, by(7, sequence))
    append(partition, by(8, 0))
    assert partition.truncate(2) == 2
    assert (partition.leader_epoch, partition.log.end_of_epoch(0)) == (1, (0, 2))
    with pytest.raises(OutOfOrderSequenceNumber):
        append(partition, by(7, 3))
    assert append(partition, by(7, 1)) == 1  # still known: not stored again
    assert append(partition, by(7, 2)) == 2
    assert append(partition, by(8, 0)) == 3
    assert partition.log.epochs == [(0, 0), (1, 2)]


@pytest.mark.parametrize(
    ("to_offset", "stable", "aborted"),
    [
        (9, 2, [(7, 0)]),  # nothing is lost but the epoch
        (3, 2, [(7, 0)]),  # the second transaction stays open
        (2, 2, [(7, 0)]),  # it never began
        (1, 0, []),  # the first is open again: its marker is lost
        (0, 0, []),
    ],
)
def test_transactions_are_lost_too(
    broker: SocketlessBroker, to_offset: int, stable: int, aborted: list[tuple[int, int]]
) -> None:
    partition = partition_of(broker)
    append(partition, by(7, 0, transactional=True))
    partition.append_marker(7, 0, EndMarker(False, 0), 1, NOW_MS)
    append(partition, by(8, 0, transactional=True))
    append(partition, by(8, 1, transactional=True))
    partition.truncate(to_offset)
    assert partition.log.end_offset == min(to_offset, 4)
    assert partition.last_stable_offset == stable
    assert partition.aborted_between(0, 99) == aborted


def test_a_batch_is_lost_as_a_whole(broker: SocketlessBroker) -> None:
    partition = partition_of(broker)
    append(partition, make_batch(*RECORDS))
    append(partition, make_batch(*RECORDS))
    assert partition.truncate(5) == 3
    assert partition.truncate(99) == 3
    assert partition.leader_epoch == 2
