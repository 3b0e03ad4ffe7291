"""Transactional ids in their coordinator: timeouts, fencing, expiry, moves, restarts."""

from random import Random

import pytest

from aiokafka_lite.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    NotCoordinatorForGroupError,
    NotEnoughReplicasError,
    ProducerFenced,
    TransactionalIdNotFoundError,
)
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.configs.broker_configs import ANY_BROKER
from aiokafka_lite.testing.configs.config_store import ConfigResource
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.log.control_batches import read_marker
from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.state import ClusterState
from aiokafka_lite.testing.storage.journal import Journal
from aiokafka_lite.testing.transactions.transaction import ProducerIdentity, Transaction
from tests.unit.testing.raw import NOW_MS, SocketlessBroker
from tests.unit.testing.remembering import Remembering
from tests.unit.testing.transactions.writer import Writer

DAY = 86_400  # seconds
TIMEOUT = 60  # seconds, for a writer's transactions
LARGEST = 0x7FFF


def known(writer: Writer) -> Transaction:
    found = writer.broker.state.transactions.get(writer.name)
    assert found is not None
    return found


def last_batch(writer: Writer, partition: int = 0) -> memoryview:
    *_, last = writer.partition(partition).log.batches()
    return last


def test_a_dangling_transaction_is_aborted_in_a_new_epoch(writer: Writer) -> None:
    assert writer.produce(0) == 0
    writer.broker.clock.advance(TIMEOUT - 1)
    assert (writer.state, writer.partition().last_stable_offset) == ("Ongoing", 0)
    writer.broker.clock.advance(1)
    assert (writer.state, writer.partition().last_stable_offset) == ("CompleteAbort", 2)
    assert known(writer).producer == (writer.producer[0], 1)
    assert writer.partition().aborted_between(0, 9) == [(writer.producer[0], 0)]
    assert writer.produce(1) == InvalidProducerEpoch.errno
    assert writer.produce(1, partition=1) == InvalidProducerEpoch.errno
    assert writer.end() == InvalidTxnState.errno
    assert writer.end(committed=False) == 0  # as if it had aborted the transaction
    assert writer.producer == known(writer).producer
    assert writer.produce(0) == 0


def test_before_epochs_grew_with_each_end_a_timeout_fences_all_the_same(writer: Writer) -> None:
    writer.broker.state.features.update("transaction.version", 1)
    assert writer.add(0) == [0]
    assert writer.produce(0, version=11) == 0
    writer.broker.clock.advance(TIMEOUT)
    assert writer.state == "CompleteAbort"
    assert known(writer).producer == (writer.producer[0], 1)
    assert writer.end(version=4) == ProducerFenced.errno
    assert writer.end(version=1) == InvalidProducerEpoch.errno


def test_the_clock_of_a_transaction_begins_with_its_first_partition(writer: Writer) -> None:
    writer.broker.clock.advance(TIMEOUT * 2)
    assert writer.state == "Empty"
    writer.produce(0)
    writer.broker.clock.advance(TIMEOUT / 2)
    writer.produce(0, partition=1)
    writer.broker.clock.advance(TIMEOUT / 2)
    assert writer.state == "CompleteAbort"


def test_an_ended_transaction_has_no_timeout(writer: Writer) -> None:
    writer.produce(0)
    writer.end()
    writer.broker.clock.advance(TIMEOUT / 2)
    writer.produce(0)
    writer.broker.clock.advance(TIMEOUT / 2)
    assert writer.state == "Ongoing"


@pytest.mark.parametrize(
    ("timeout_ms", "code"), [(0, 50), (-1, 50), (1, 0), (900_000, 0), (900_001, 50)]
)
def test_transaction_timeouts_are_checked(
    broker: SocketlessBroker, timeout_ms: int, code: int
) -> None:
    assert InvalidTransactionTimeout.errno == 50
    assert Writer(broker).init(timeout_ms=timeout_ms) == code


def test_an_unused_id_is_forgotten(writer: Writer) -> None:
    writer.broker.clock.advance(7 * DAY - 1)
    assert writer.state == "Empty"
    writer.broker.clock.advance(1)
    assert writer.state == str(TransactionalIdNotFoundError.errno)
    assert writer.end() == InvalidProducerIdMapping.errno
    before = writer.producer
    assert writer.init(expected=before) == 0
    assert writer.producer == (before[0] + 1, 0)


def test_the_last_epoch_is_followed_by_another_producer_id(writer: Writer) -> None:
    old = known(writer).producer.producer_id
    known(writer).producer = ProducerIdentity(old, LARGEST - 1)
    writer.producer = (old, LARGEST - 1)
    writer.produce(0)
    assert writer.end() == 0
    assert writer.producer == (old + 1, 0)
    assert BatchHeader.read(last_batch(writer)).producer_epoch == LARGEST
    repeated = writer.end(producer=(old, LARGEST - 1))
    assert (repeated, writer.producer) == (0, (old + 1, 0))
    assert writer.end(committed=False, producer=(old, LARGEST - 1)) == InvalidTxnState.errno
    assert writer.produce(0) == 0


def test_an_exhausted_epoch_gives_the_next_producer_another_id(writer: Writer) -> None:
    old = known(writer).producer.producer_id
    known(writer).producer = ProducerIdentity(old, LARGEST - 1)
    last = (old, LARGEST - 1)
    assert writer.init(expected=last) == 0
    assert writer.producer == (old + 1, 0)
    assert writer.init(expected=last) == 0  # it did not receive the response
    assert writer.init(expected=(old, 3)) == ProducerFenced.errno


def test_a_timeout_in_the_last_epoch_leaves_none(writer: Writer) -> None:
    old = known(writer).producer.producer_id
    known(writer).producer = ProducerIdentity(old, LARGEST - 1)
    writer.producer = (old, LARGEST - 1)
    writer.produce(0)
    writer.broker.clock.advance(TIMEOUT)
    assert known(writer).producer == (old + 1, 0)


def test_a_later_producer_aborts_and_fences(writer: Writer) -> None:
    other = Writer(writer.broker)
    writer.produce(0)
    assert other.init() == ConcurrentTransactions.errno
    assert other.init() == 0
    assert other.producer == (writer.producer[0], 2)
    assert writer.produce(1) == InvalidProducerEpoch.errno
    assert writer.end() == ProducerFenced.errno
    assert writer.init(expected=writer.producer) == ProducerFenced.errno
    assert writer.init(version=3, expected=writer.producer) == InvalidProducerEpoch.errno


@pytest.fixture
def three() -> Writer:
    """On three brokers, with one replica of each of three partitions."""
    broker = SocketlessBroker(3)
    broker.state.create_topic("orders", 3, 1)
    writer = Writer(broker)
    coordinator = broker.state.coordinators.node_of(CoordinatorType.TRANSACTION, writer.name)
    writer.node = coordinator.node_id
    assert writer.init() == 0
    return writer


def others(writer: Writer) -> list[int]:
    return [node for node in range(3) if node != writer.node]


def test_a_marker_waits_for_a_leader(three: Writer) -> None:
    state, (dead, alive) = three.broker.state, others(three)
    for node in (dead, alive):
        assert three.produce(0, partition=node, node=node) == 0
    state.on_node_down(dead)
    assert three.end() == 0
    assert three.state == "PrepareCommit"
    assert three.partition(alive).last_stable_offset == 2
    assert three.partition(dead).last_stable_offset == 0
    assert three.end() == ProducerFenced.errno
    assert three.end(producer=(three.producer[0], 0)) == ConcurrentTransactions.errno
    assert three.end(committed=False, producer=(three.producer[0], 0)) == InvalidTxnState.errno
    assert three.init() == ConcurrentTransactions.errno
    assert three.add(0) == [ConcurrentTransactions.errno]
    assert three.produce(0, partition=alive, node=alive) == ConcurrentTransactions.errno
    assert three.produce(0, 11, partition=alive, node=alive) == NotEnoughReplicasError.errno
    state.on_node_up(dead)
    assert three.state == "CompleteCommit"
    assert three.partition(dead).last_stable_offset == 2
    assert three.partition(alive).log.end_offset == 2


def test_a_marker_does_not_wait_for_a_topic_that_is_deleted(three: Writer) -> None:
    dead, _ = others(three)
    three.produce(0, partition=dead, node=dead)
    three.broker.state.on_node_down(dead)
    three.end()
    assert three.state == "PrepareCommit"
    three.broker.state.delete_topic("orders")
    assert three.state == "CompleteCommit"


def test_a_marker_waits_for_replicas_in_sync() -> None:
    broker = SocketlessBroker(3)
    broker.state.create_topic("orders", 1, configs={"min.insync.replicas": "2"})
    writer = Writer(broker)
    writer.node = broker.state.coordinators.node_of(CoordinatorType.TRANSACTION, "mine").node_id
    writer.init()
    assert writer.produce(0, node=0) == 0
    writer.partition().shrink_isr([1, 2])
    writer.end()
    assert writer.state == "PrepareCommit"
    writer.partition().expand_isr([1])
    assert writer.state == "CompleteCommit"


def test_a_new_coordinator_continues_in_a_new_coordinator_epoch(three: Writer) -> None:
    other = others(three)[0]
    assert three.produce(0, partition=other, node=other) == 0
    three.broker.state.coordinators.move(CoordinatorType.TRANSACTION, three.name, other)
    wrong = NotCoordinatorForGroupError.errno
    assert three.end() == wrong
    assert three.init() == wrong
    assert three.add(0) == [wrong]
    assert three.add_offsets("group") == wrong
    assert three.state == str(wrong)
    three.node = other
    assert three.end() == 0
    assert read_marker(last_batch(three, other)) == (True, 1)
    three.broker.state.on_node_down(other)
    three.node = three.broker.state.coordinators.node_of(
        CoordinatorType.TRANSACTION, three.name
    ).node_id
    three.produce(0, partition=three.node)
    three.end(committed=False)
    assert read_marker(last_batch(three, three.node)) == (False, 2)


def restarted(journal: Journal, clock: VirtualClock) -> ClusterState:
    state = ClusterState(
        [Node(0, "127.0.0.1", None)], clock=clock, random=Random(0), journal=journal
    )
    state.create_topic("orders", 1)
    return state


def test_an_open_transaction_is_restored_and_times_out() -> None:
    journal, clock = Remembering(), VirtualClock(NOW_MS)
    before = restarted(journal, clock).transactions
    producer = before.init_producer_id("mine", 60_000)
    before.add_partitions("mine", producer, [("orders", 0)])
    before.init_producer_id("quiet", 60_000)
    clock.close()
    clock.advance(20)
    state = restarted(journal, clock)
    state.on_node_up(0)
    clock.advance(39)
    mine, quiet = state.transactions.get("mine"), state.transactions.get("quiet")
    assert mine is not None
    assert quiet is not None
    assert (mine.state, mine.partitions, quiet.state) == ("Ongoing", {("orders", 0)}, "Empty")
    clock.advance(1)
    assert mine.state == "CompleteAbort"
    assert mine.producer == (producer.producer_id, 1)
    assert state.topics["orders"].partitions[0].log.end_offset == 1  # the marker
    assert state.transactions.producer_ids.take() == 1000  # the rest of the block is not used


def test_markers_that_were_missing_are_written_after_a_restart() -> None:
    journal, clock = Remembering(), VirtualClock(NOW_MS)
    before = restarted(journal, clock)
    before.on_node_up(0)
    transactions = before.transactions
    producer = transactions.init_producer_id("mine", 60_000)
    transactions.add_partitions("mine", producer, [("orders", 0)])
    before.on_node_down(0)
    transactions.end("mine", producer, committed=True, bumps=True)
    state = restarted(journal, clock)
    state.on_node_up(0)
    mine = state.transactions.get("mine")
    assert mine is not None
    assert mine.state == "CompleteCommit"
    assert state.topics["orders"].partitions[0].log.end_offset == 1


def test_an_expired_id_does_not_come_back() -> None:
    journal, clock = Remembering(), VirtualClock(NOW_MS)
    transactions = restarted(journal, clock).transactions
    transactions.init_producer_id("mine", 60_000)
    clock.advance(8 * DAY)
    assert list(transactions.all()) == []
    assert list(journal.entries("transaction")) == []


def test_markers_that_wait_are_written_once(three_brokers: SocketlessBroker) -> None:
    """The coordinator may move several times while the partition has no leader."""
    state = three_brokers.state
    state.create_topic("orders", 1, 1)
    state.coordinators.move(CoordinatorType.TRANSACTION, "mine", 1)
    writer = Writer(three_brokers, node=1)
    assert writer.init() == 0
    assert writer.produce(0, node=0) == 0
    state.on_node_down(0)
    assert writer.end() == 0
    for node in (2, 1, 2, 1):
        state.coordinators.move(CoordinatorType.TRANSACTION, "mine", node)
    assert writer.state == "PrepareCommit"
    assert len(writer.partition().watchers) == 1
    state.on_node_up(0)
    assert writer.state == "CompleteCommit"
    assert writer.partition().log.end_offset == 2
    assert len(writer.partition().watchers) == 0


@pytest.mark.parametrize("cure", ["restart", "configure", "brokers", "reassign"])
def test_markers_wait_for_enough_replicas(three_brokers: SocketlessBroker, cure: str) -> None:
    state = three_brokers.state
    needed = {"min.insync.replicas": "2"}
    of_topic = {} if cure == "brokers" else needed
    state.configure(ConfigResource.BROKER, ANY_BROKER, needed)
    topic = state.create_topic("orders", assignments={0: [0, 1]}, configs=of_topic)
    state.coordinators.move(CoordinatorType.TRANSACTION, "mine", 0)
    writer = Writer(three_brokers)
    assert writer.init() == 0
    assert writer.produce(0) == 0
    state.on_node_down(1)
    assert writer.end() == 0
    assert writer.state == "PrepareCommit"
    match cure:
        case "restart":
            state.on_node_up(1)
        case "configure":
            state.configure_topic(topic, {"min.insync.replicas": "1"})
        case "brokers":
            state.configure(ConfigResource.BROKER, ANY_BROKER, {"min.insync.replicas": "1"})
        case "reassign":
            state.reassign(topic.partitions[0], [0, 1, 2])
    assert writer.state == "CompleteCommit"
