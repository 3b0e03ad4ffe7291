"""The transactions of one log: last stable offset, aborted ones, markers byte for byte."""

import pytest

from aiokafka_lite.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.log.control_batches import marker_batch, read_marker
from aiokafka_lite.testing.log.open_transactions import EndMarker, OpenTransactions
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch
from tests.unit.testing.transactions.writer import Writer

COMMIT, ABORT = EndMarker(True, 0), EndMarker(False, 0)


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_equals_the_one_of_kafka(committed: bool) -> None:
    batch = bytes(marker_batch(5, 3, EndMarker(committed, 7), NOW_MS))
    header = BatchHeader.read(batch)
    assert (header.size, header.attributes, header.record_count) == (78, 0x30, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 3, -1)
    assert (header.base_timestamp, header.max_timestamp) == (NOW_MS, NOW_MS)
    key = b"\0\0\0\1" if committed else b"\0\0\0\0"
    assert batch[61:] == b"\x20\0\0\0" + b"\x08" + key + b"\x0c\0\0\0\0\0\7" + b"\0"
    assert read_marker(memoryview(batch)) == (committed, 7)


def test_other_control_batches_are_not_markers() -> None:
    batch = make_batch((NOW_MS, b"\0\0\0\2", b"\0\0"), producer_id=1, producer_epoch=0)
    assert read_marker(memoryview(batch)) is None
    assert read_marker(memoryview(make_batch((NOW_MS, None, None)))) is None


def transactions_of(*events: tuple[int, int, str]) -> OpenTransactions:
    """(producer id, offset, "b"egin, "c"ommit or "a"bort)"""
    transactions = OpenTransactions()
    for producer_id, offset, what in events:
        if what == "b":
            transactions.begin(producer_id, offset)
        else:
            transactions.end(producer_id, offset, committed=what == "c")
    return transactions


def test_the_oldest_open_transaction_is_the_first_undecided() -> None:
    begun = ((1, 0, "b"), (2, 3, "b"), (1, 4, "b"), (3, 5, "b"))
    assert transactions_of().first_undecided is None
    assert transactions_of(*begun).first_undecided == 0
    assert transactions_of(*begun, (1, 6, "c")).first_undecided == 3
    assert transactions_of(*begun, (1, 6, "c"), (2, 7, "a")).first_undecided == 5
    assert transactions_of(*begun, (1, 6, "c"), (2, 7, "a"), (1, 8, "b")).first_undecided == 5


@pytest.mark.parametrize(
    ("first", "end", "found"),
    [
        (0, 100, [(2, 3), (1, 0), (1, 11)]),
        (0, 3, [(1, 0)]),
        (0, 4, [(2, 3), (1, 0)]),
        (9, 100, [(2, 3), (1, 0), (1, 11)]),
        (10, 100, [(1, 0), (1, 11)]),
        (11, 12, [(1, 11)]),
        (15, 100, []),
        (12, 11, []),
    ],
)
def test_aborted_transactions_of_a_range(
    first: int, end: int, found: list[tuple[int, int]]
) -> None:
    transactions = transactions_of(
        *((1, 0, "b"), (2, 3, "b"), (3, 6, "b"), (3, 8, "c"), (2, 9, "a"), (1, 10, "a")),
        *((1, 11, "b"), (4, 12, "b"), (9, 13, "a"), (1, 14, "a")),
    )
    assert transactions.aborted_between(first, end) == found


def test_the_last_stable_offset_is_not_before_the_log_start(writer: Writer) -> None:
    for sequence in range(4):
        writer.produce(sequence)
    writer.partition().delete_before(2)
    assert writer.partition().last_stable_offset == 2


def test_a_marker_notifies_watchers(writer: Writer) -> None:
    writer.produce(0)
    told: list[int] = []
    partition = writer.partition()
    partition.watchers.add(lambda: told.append(partition.last_stable_offset))
    writer.end()
    assert told == [2]


def test_a_truncated_log_has_its_earlier_producer_state(writer: Writer) -> None:
    partition = writer.partition()
    first = writer.producer
    writer.produce(0)
    writer.produce(1)
    writer.end(committed=False)
    writer.produce(0)
    writer.end(committed=False)
    assert [aborted.last_offset for aborted in partition.producers.transactions.aborted] == [2, 4]
    partition.truncate(3)
    assert [aborted.last_offset for aborted in partition.producers.transactions.aborted] == [2]
    assert partition.last_stable_offset == 3
    partition.truncate(2)
    assert partition.producers.transactions.aborted == []
    assert partition.last_stable_offset == 0
    table = partition.producers.all()
    assert (table[first[0]].epoch, table[first[0]].last_sequence) == (first[1], 1)
    partition.truncate(0)
    assert not partition.producers.all()


def test_a_log_time_topic_stamps_markers(broker: SocketlessBroker) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"}
    broker.state.create_topic("stamped", 1, configs=configs)
    writer = Writer(broker, topic="stamped")
    writer.init()
    writer.produce(0)
    broker.clock.advance(1)
    writer.end()
    *_, marker = writer.partition().log.batches()
    header = BatchHeader.read(marker)
    assert (header.timestamp_type, header.max_timestamp) == (1, NOW_MS + 1000)
    assert read_marker(marker) == (True, 0)


def write(
    broker: SocketlessBroker,
    epoch: int,
    sequence: int,
    *,
    transactional: bool = True,
    verified: bool = True,
) -> int:
    """Append to partition 0 of orders, bypassing the APIs; return the offset."""
    batch = memoryview(
        make_batch(
            producer_id=1,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )
    partition = broker.state.topics["orders"].partitions[0]
    header = BatchHeader.read(batch)
    return partition.append(batch, header, -1, NOW_MS, verified=verified).base_offset


def test_a_transaction_is_verified_once(broker: SocketlessBroker) -> None:
    with pytest.raises(InvalidTxnState):
        write(broker, 0, 0, verified=False)
    assert write(broker, 0, 0) == 0
    assert write(broker, 0, 1, verified=False) == 1
    with pytest.raises(InvalidTxnState):
        write(broker, 0, 2, transactional=False)
    with pytest.raises(InvalidTxnState):
        write(broker, 1, 0, verified=False)  # another epoch means another transaction
    broker.state.topics["orders"].partitions[0].append_marker(1, 0, COMMIT, 0, NOW_MS)
    with pytest.raises(InvalidTxnState):
        write(broker, 0, 2, verified=False)
    assert write(broker, 0, 2, transactional=False) == 3


def test_markers_that_come_too_late(broker: SocketlessBroker) -> None:
    partition = broker.state.topics["orders"].partitions[0]
    partition.append_marker(1, 3, EndMarker(True, 5), 0, NOW_MS)
    with pytest.raises(TransactionCoordinatorFenced):
        partition.append_marker(1, 3, EndMarker(True, 4), 0, NOW_MS)
    for version in (0, 2):
        with pytest.raises(InvalidProducerEpoch):
            partition.append_marker(1, 2, EndMarker(True, 5), version, NOW_MS)
        partition.append_marker(1, 3, EndMarker(True, 5), version, NOW_MS)  # a repeated one
    assert partition.producers.all()[1].coordinator_epoch == 5
    assert write(broker, 3, 0) == 3
    with pytest.raises(InvalidProducerEpoch):
        partition.append_marker(1, 3, EndMarker(True, 5), 2, NOW_MS)
    partition.append_marker(1, 4, EndMarker(True, 5), 2, NOW_MS)
    with pytest.raises(InvalidProducerEpoch):
        write(broker, 3, 1)
    with pytest.raises(OutOfOrderSequenceNumber):
        write(broker, 4, 1)
    assert write(broker, 4, 0) == 5


def verify(broker: SocketlessBroker, epoch: int, sequence: int, *, bumps: bool) -> None:
    """Announce a batch that requires verification by the coordinator."""
    batch = make_batch(
        producer_id=1, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    table = broker.state.topics["orders"].partitions[0].producers
    assert table.needs_verification(BatchHeader.read(batch), bumps_epoch=bumps)


def test_the_first_batch_has_the_lowest_announced_sequence(broker: SocketlessBroker) -> None:
    verify(broker, 0, 4, bumps=False)
    verify(broker, 0, 6, bumps=False)
    with pytest.raises(OutOfOrderSequenceNumber):
        write(broker, 0, 6)
    assert write(broker, 0, 4) == 0


def test_where_each_transaction_has_an_epoch_it_begins_with_zero(broker: SocketlessBroker) -> None:
    verify(broker, 0, 4, bumps=True)
    verify(broker, 0, 4, bumps=False)
    with pytest.raises(OutOfOrderSequenceNumber):
        write(broker, 0, 4)
    assert write(broker, 0, 0) == 0


@pytest.mark.parametrize(
    ("bumps", "epoch", "kept"), [(True, 3, True), (True, 4, False), (False, 3, False)]
)
def test_a_marker_ends_a_verification_but_for_that_of_the_next_transaction(
    broker: SocketlessBroker, bumps: bool, epoch: int, kept: bool
) -> None:
    verify(broker, 3, 0, bumps=bumps)
    partition = broker.state.topics["orders"].partitions[0]
    partition.append_marker(1, epoch, ABORT, 0, NOW_MS)
    assert write(broker, epoch, 0, transactional=False) == 1
    if kept:
        with pytest.raises(OutOfOrderSequenceNumber):
            write(broker, epoch, 1, transactional=False)
    else:
        assert write(broker, epoch, 1, transactional=False) == 2
