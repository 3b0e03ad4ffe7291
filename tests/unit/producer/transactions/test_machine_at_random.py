"""Any sequence of calls, failures and error codes at every step: no part of an aborted
transaction is committed, nothing is written before its partition was added, every transaction
ends or the producer fails, and no request is repeated without a pause."""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import KafkaConnectionError, OutOfOrderSequenceNumber, for_code
from aiokafka_lite.errors.table import CODES
from aiokafka_lite.producer.idempotence import TransactionalIdentity
from aiokafka_lite.producer.transactions.transaction_machine import TransactionMachine
from aiokafka_lite.producer.transactions.transaction_states import TransactionState as S
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddPartitions,
    Answer,
    CommitOffsets,
    FindCoordinator,
    InitProducer,
    OffsetsOrder,
    Step,
)
from aiokafka_lite.structs import TopicPartition
from tests.unit.producer.transactions.coordinator_model import GROUP, NAME, Coordinator, offsets

PARTITIONS = [TopicPartition("out", number) for number in range(3)]
FATES = st.sampled_from(["done", "done", "code", "lost", "done but lost"])
CODE = st.one_of(
    st.sampled_from([14, 15, 16, 51]),  # retriable errors
    st.sampled_from([14, 15, 22, 29, 30, 59, 82, 120]),  # and abortable errors
    st.sampled_from(sorted(CODES.keys() - {0})),
)
MANY = 60
"""Steps in which everything must have ended once there are no more failures."""


class Transactions(RuleBasedStateMachine):
    """An application, a sender and a driver in one, with the model of a coordinator."""

    @initialize(
        level=st.sampled_from([0, 1, 2]),
        can_bump=st.booleans(),
        refused_at_first=st.sampled_from([False] * 9 + [True]),
    )
    def setup(self, level: int, can_bump: bool, refused_at_first: bool) -> None:
        self.now = 0.0
        self.coordinator = Coordinator(level)
        self.can_bump = can_bump or level >= 2
        self.identity = TransactionalIdentity()
        self.machine = TransactionMachine(NAME, self.identity, Backoff(0.1, 1.0, jitter=0.0))
        self.machine.initialize()
        self.tag = 0  # of the open transaction
        self.unsent: dict[TopicPartition, int] = defaultdict(int)
        self.unclear: dict[TopicPartition, int] = defaultdict(int)  # to be sent again
        self.orders: list[tuple[int, OffsetsOrder]] = []
        self.wanted: dict[int, str] = {}  # the application's requests, by tag
        self.ended: dict[int, str] = {}  # and its outcome was reported
        self.sent: dict[int, int] = defaultdict(int)  # records, by tag
        self.under_way: Step | None = None
        if not refused_at_first:
            self._finish_steps()

    # The application

    @precondition(lambda self: self.machine.state is S.READY)
    @rule()
    def begin(self) -> None:
        self.tag += 1
        self.machine.begin()
        self.coordinator.writes_add = self.machine.implicit

    @precondition(lambda self: self.machine.state is S.IN_TRANSACTION)
    @rule(partition=st.sampled_from(PARTITIONS))
    def send(self, partition: TopicPartition) -> None:
        self.unsent[partition] += 1
        self.sent[self.tag] += 1
        self.machine.admit(partition)

    @precondition(lambda self: self.machine.state is S.IN_TRANSACTION)
    @rule()
    def send_offsets(self) -> None:
        self.orders.append((self.tag, self.machine.add_offsets(offsets(self.tag), GROUP)))

    @precondition(lambda self: self.machine.state is S.IN_TRANSACTION)
    @rule()
    def commit(self) -> None:
        self.wanted[self.tag] = "committed"
        self.machine.commit()

    @precondition(lambda self: self.machine.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR))
    @rule()
    def abort(self) -> None:
        self.wanted[self.tag] = "aborted"
        self.machine.abort()
        self.unsent.clear()

    # The sender

    def _write(self, fate: str) -> None:
        machine = self.machine
        for waiting, others in ((self.unclear, self.unclear), (self.unsent, self.unclear)):
            for partition in [each for each, count in waiting.items() if count]:
                if not machine.admit(partition):
                    continue
                if waiting is self.unclear:  # the broker recognizes it as a stored batch
                    waiting[partition] -= 1
                    if fate == "refused":
                        machine.on_batch_failed(OutOfOrderSequenceNumber(), numbered=True)
                    return
                waiting[partition] -= 1
                if fate == "refused":
                    machine.on_batch_failed(OutOfOrderSequenceNumber(), numbered=True)
                    return
                code = self.coordinator.write(partition, self.identity.stamp, self.tag)
                if code:
                    machine.on_batch_failed(for_code(code)(), numbered=True)
                    return
                if fate == "unclear":
                    others[partition] += 1
                elif fate == "expired":
                    machine.on_batch_failed(KafkaConnectionError(), numbered=True)
                return

    @rule(fate=st.sampled_from(["stored", "stored", "unclear", "refused", "expired"]))
    def write(self, fate: str) -> None:
        self._write(fate)

    @property
    def drained(self) -> bool:
        return not any(self.unsent.values()) and not any(self.unclear.values())

    # The driver

    def _ask(self) -> bool:
        self.under_way = self.machine.next_step(self.now, drained=self.drained)
        return self.under_way is not None

    def _answer(self, fate: str, code: int) -> None:
        step, machine = self.under_way, self.machine
        assert step is not None
        self.under_way = None
        if isinstance(step, FindCoordinator):
            if fate == "code":
                machine.on_error(step, for_code(code)(), self.now)
            elif fate == "done":
                machine.on_found(step)
            else:
                machine.on_error(step, KafkaConnectionError(), self.now)
            return
        machine.on_coordinator(self.coordinator.level, self.can_bump)
        if fate == "lost":
            machine.on_error(step, KafkaConnectionError(), self.now)
            return
        if fate == "code":
            if isinstance(step, AddPartitions):
                answer = Answer(partitions=dict.fromkeys(step.partitions, code))
            elif isinstance(step, CommitOffsets):
                answer = Answer(partitions=dict.fromkeys(step.offsets, code))
            else:
                answer = Answer(code)
            machine.on_answer(step, answer, self.now)
            return
        answer = self.coordinator.carry_out(step, self.tag)
        if fate == "done but lost":
            machine.on_error(step, KafkaConnectionError(), self.now)
        else:
            machine.on_answer(step, answer, self.now)

    def _finish_steps(self) -> None:
        for _ in range(8):
            if not self._ask():
                break
            self._answer("done", 0)

    @precondition(lambda self: self.under_way is None)
    @rule()
    def ask(self) -> None:
        self._ask()

    @precondition(lambda self: self.under_way is not None)
    @rule(fate=FATES, code=CODE)
    def answer(self, fate: str, code: int) -> None:
        self._answer(fate, code)

    @precondition(lambda self: self.under_way is None)
    @rule(fate=FATES, code=CODE)
    def step(self, fate: str, code: int) -> None:
        """Take and answer a step as soon as one may be taken."""
        if not self._ask():
            self.now = max(self.now, self.machine.next_wakeup() or 0.0)
            if not self._ask():
                return
        if isinstance(self.under_way, FindCoordinator):
            self._answer("done", 0)
            if not self._ask():
                return
        self._answer(fate, code)

    @precondition(lambda self: self.under_way is None)
    @rule()
    def carry_on(self) -> None:
        """Let no failure happen for a while."""
        for _ in range(2):
            self.now = max(self.now, self.machine.next_wakeup() or 0.0)
            self._finish_steps()
            self._write("stored")

    @rule(seconds=st.sampled_from([0.02, 0.1, 1.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    # The cluster

    @precondition(lambda self: self.coordinator.epoch >= 0 and self.coordinator.level < 2)
    @rule()
    def upgrade(self) -> None:
        self.coordinator.level = 2
        self.can_bump = True

    @precondition(lambda self: self.tag > 3 and self.coordinator.epoch >= 0)
    @rule()
    def take_over(self) -> None:
        self.coordinator.take_over()

    # Invariants

    @invariant()
    def what_was_told_is_so(self) -> None:
        if not hasattr(self, "machine"):
            return
        state = self.machine.state
        if state in (S.ABORTABLE_ERROR, S.FATAL_ERROR):
            assert self.machine.error is not None
            self.unsent.clear()  # as the sender does
        if state in (S.READY, S.INITIALIZING) and self.tag and self.tag not in self.ended:
            self.ended[self.tag] = self.wanted[self.tag]
        coordinator = self.coordinator
        if state is S.READY and self.identity.stamp == coordinator.stamp:
            assert coordinator.state != "ongoing", "a transaction was left open"
        for tag, told in self.ended.items():
            stored = coordinator.committed.count(tag)
            if told == "aborted":
                assert not stored, f"{tag} was aborted, and is committed"
                assert tag not in coordinator.open, f"{tag} was aborted, and is open"
            else:
                accepted = [o for of, o in self.orders if of == tag and o.error is None]
                assert stored >= self.sent[tag] + len(accepted), f"{tag} is not all committed"
        for tag in coordinator.committed:
            assert self.wanted.get(tag) == "committed" or tag == self.tag
        for _, order in self.orders:
            assert order.done or state in (S.IN_TRANSACTION, S.COMMITTING)

    def teardown(self) -> None:
        """Without further failures everything ends, and no request is repeated in a busy loop."""
        if not hasattr(self, "machine"):
            return
        machine = self.machine
        if self.under_way is not None:
            self._answer("done", 0)
        for _ in range(MANY):
            if machine.state in (S.READY, S.FATAL_ERROR):
                break
            if machine.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
                self.abort()
            self._write("stored")
            if self._ask():
                self._answer("done", 0)
            else:
                self.now = max(self.now, machine.next_wakeup() or 0.0)
            self.what_was_told_is_so()
        assert machine.state in (S.READY, S.FATAL_ERROR), machine.state
        self.what_was_told_is_so()
        assert machine.next_step(self.now + 10, drained=True) is None
        assert machine.next_wakeup() is None


Transactions.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestTransactions = Transactions.TestCase


def test_init_producer_is_repeated_only_after_a_backoff() -> None:
    machine = TransactionMachine(NAME, TransactionalIdentity(), Backoff(0.1, 1.0, jitter=0.0))
    machine.initialize()
    asked = 0
    for tick in range(100):  # a second
        step = machine.next_step(tick / 100, drained=True)
        if isinstance(step, FindCoordinator):
            machine.on_found(step)
            step = machine.next_step(tick / 100, drained=True)
        if step is not None:
            assert isinstance(step, InitProducer)
            machine.on_answer(step, Answer(14), tick / 100)
            asked += 1
    assert asked == 4  # at 0, 0.1, 0.3, 0.7
