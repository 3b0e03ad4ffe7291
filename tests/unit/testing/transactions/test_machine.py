"""Several producers at once, of both generations: a reader sees what was committed and no more.

The values contain their producer and transaction, so a model of three lists (committed, open,
aborted) suffices to determine what a read_committed reader must see.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing.log.producer_state import ProducerTable
from aiokafka_lite.testing.topics import Partition
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch
from tests.unit.testing.transactions.writer import Writer

PARTITIONS = 2
WRITERS = 3
ALL = 2**31 - 1
FAILURES = {47, 48, 49, 51, 90, 120}  # the codes that a fenced producer may get

writers = st.integers(0, WRITERS - 1)
partitions = st.integers(0, PARTITIONS - 1)


class Model:
    """One writer and what it has written, by partition."""

    def __init__(self, broker: SocketlessBroker, number: int) -> None:
        self.writer = Writer(broker, f"writer-{number}")
        self.old = number % 2 == 0  # the generation that adds partitions before it writes
        self.sequences = [0] * PARTITIONS
        self.open: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        assert self.writer.init() == 0

    def begin_anew(self) -> None:
        self.sequences = [0] * PARTITIONS
        self.open = [[] for _ in range(PARTITIONS)]


class Transactional(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.broker = SocketlessBroker()
        self.broker.state.create_topic("orders", PARTITIONS)
        self.models = [Model(self.broker, number) for number in range(WRITERS)]
        self.committed: list[set[bytes]] = [set() for _ in range(PARTITIONS)]
        self.written = 0

    @rule(number=writers, partition=partitions, repeats=st.booleans())
    def write(self, number: int, partition: int, repeats: bool) -> None:
        model = self.models[number]
        if model.old:
            assert model.writer.add(partition) == [0]
        value = b"%d" % self.written
        self.written += 1
        for _ in range(1 + repeats):
            assert self._produce(model, partition, value) == 0
        model.sequences[partition] += 1
        model.open[partition].append(value)

    @rule(number=writers, committed=st.booleans())
    def end(self, number: int, committed: bool) -> None:
        model = self.models[number]
        code = model.writer.end(committed=committed, version=4 if model.old else 5)
        if not any(model.open):
            # No transaction is open: the last end may be repeated, or there is nothing to end.
            assert code in (0, 48)
            if not model.old and code == 0:
                model.begin_anew()
            return
        assert code == 0
        for partition, values in enumerate(model.open):
            if committed:
                self.committed[partition].update(values)
            values.clear()
        if not model.old:
            model.begin_anew()

    @rule(number=writers)
    def another_comes(self, number: int) -> None:
        model = self.models[number]
        before = model.writer.producer
        code = model.writer.init()
        assert code == (51 if any(model.open) else 0)
        if code:
            assert model.writer.init() == 0
        after, model.writer.producer = model.writer.producer, before
        assert self._produce(model, 0, b"late") in FAILURES
        model.writer.producer = after
        model.begin_anew()

    @rule(seconds=st.sampled_from([1, 30, 61]))
    def time_passes(self, seconds: int) -> None:
        self.broker.clock.advance(seconds)
        for model in self.models:
            if any(model.open) and model.writer.state != "Ongoing":
                assert model.writer.state == "CompleteAbort"
                assert model.writer.init() == 0
                model.begin_anew()

    @precondition(lambda self: self.written)
    @rule(partition=partitions)
    def restart(self, partition: int) -> None:
        """The log restores the state, except producers that only failed to write."""
        found = self._partition(partition).producers
        again = ProducerTable()
        again.restore(self._partition(partition).log.batches())
        assert {
            producer_id: (producer.epoch, list(producer.batches), producer.coordinator_epoch)
            for producer_id, producer in again.all().items()
        } == {
            producer_id: (producer.epoch, list(producer.batches), producer.coordinator_epoch)
            for producer_id, producer in found.all().items()
        }
        assert again.transactions.aborted == found.transactions.aborted
        assert again.transactions.first_undecided == found.transactions.first_undecided

    @invariant()
    def a_reader_sees_what_was_committed(self) -> None:
        for index in range(PARTITIONS):
            partition = self._partition(index)
            log, stable = partition.log, partition.last_stable_offset
            undecided = {value for model in self.models for value in model.open[index]}
            told = log.read(0, ALL, below=stable) if stable else b""
            seen = RecordSet(
                told, "orders", index, 0, aborted=partition.aborted_between(0, stable)
            ).read(ALL)
            values = [record.value for record in seen]
            assert len(values) == len(set(values))
            assert not undecided.intersection(values)
            if undecided:
                assert self.committed[index].issuperset(values)
            else:
                assert stable == log.end_offset
                assert self.committed[index] == set(values)

    def _produce(self, model: Model, partition: int, value: bytes) -> int:
        batch = make_batch(
            (NOW_MS, None, value),
            producer_id=model.writer.producer[0],
            producer_epoch=model.writer.producer[1],
            base_sequence=model.sequences[partition],
            transactional=True,
        )
        data = [TopicProduceData("orders", partition_data=[PartitionProduceData(partition, batch)])]
        request = ProduceRequest(model.writer.name, -1, 1000, data)
        response = self.broker.ask(request, 11 if model.old else 12)
        return int(response.responses[0].partition_responses[0].error_code)

    def _partition(self, index: int) -> Partition:
        return self.broker.state.topics["orders"].partitions[index]


TestTransactional = Transactional.TestCase
TestTransactional.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
