"""Every error code, in response to every step, carried out or not: the reported outcome of a
transaction is true, retriable errors stay invisible, and the producer continues or fails for good.

`test_machine_at_random` mixes these cases; this test is exhaustive.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import for_code
from aiokafka_lite.errors.table import CODES, RETRIABLE
from aiokafka_lite.producer.idempotence import TransactionalIdentity
from aiokafka_lite.producer.transactions.transaction_machine import TransactionMachine
from aiokafka_lite.producer.transactions.transaction_states import TransactionState as S
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffsets,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    OffsetsOrder,
    Step,
)
from aiokafka_lite.structs import TopicPartition
from tests.unit.producer.transactions.coordinator_model import GROUP, NAME, Coordinator, offsets

PLACES = [TopicPartition("out", number) for number in range(2)]
MANY = 60
"""Steps in which a transaction comes to its end."""


class Generation(NamedTuple):
    """A kind of cluster."""

    level: int  # of transaction.version
    can_bump: bool


GENERATIONS = {
    "before 2.5": Generation(0, False),
    "adds partitions": Generation(1, True),
    "batches add": Generation(2, True),
}
STEPS = {
    "FindCoordinator of transactions": lambda step: (
        isinstance(step, FindCoordinator) and step.place[0] is CoordinatorKind.TRANSACTION
    ),
    "FindCoordinator of the group": lambda step: (
        isinstance(step, FindCoordinator) and step.place[0] is CoordinatorKind.GROUP
    ),
    "InitProducer": lambda step: isinstance(step, InitProducer) and step.identity[0] < 0,
    "InitProducer that bumps": lambda step: (
        isinstance(step, InitProducer) and step.identity[0] >= 0
    ),
    "AddPartitions": lambda step: isinstance(step, AddPartitions),
    "AddOffsets": lambda step: isinstance(step, AddOffsets),
    "CommitOffsets": lambda step: isinstance(step, CommitOffsets),
    "commit": lambda step: isinstance(step, EndTransaction) and step.committed,
    "abort": lambda step: isinstance(step, EndTransaction) and not step.committed,
}
NEVER = {  # steps that a generation does not have
    "before 2.5": {"InitProducer that bumps"},
    "adds partitions": set[str](),
    "batches add": {"AddPartitions", "AddOffsets", "InitProducer that bumps"},
}


class Play:
    """A producer's life with the model of a coordinator, with one step that fails.

    Args:
        generation: The cluster's generation.
        where: One of `STEPS`.
        code: The error code of the first such step.
        done: True if the step was carried out anyway.
    """

    def __init__(self, generation: Generation, where: str, code: int, *, done: bool) -> None:
        self.coordinator = Coordinator(generation.level)
        self.identity = TransactionalIdentity()
        self.machine = TransactionMachine(NAME, self.identity, Backoff(0.1, 1.0, jitter=0.0))
        self.told: dict[int, str] = {}
        self.sent: Counter[int] = Counter()
        self.struck = 0
        self._can_bump = generation.can_bump
        self._is_target, self._code, self._done = STEPS[where], code, done
        self._now = 0.0
        self._tag = 0
        self._waiting: list[TopicPartition] = []

    def start(self) -> None:
        self.machine.initialize()
        self._until(S.READY)

    def transact(self, end: str, *, spoil: bool = False) -> None:
        """Run one transaction; end it as requested, or abort it if necessary."""
        machine = self.machine
        self._tag += 1
        machine.begin()
        self.coordinator.writes_add = machine.implicit
        self._waiting = list(PLACES)
        self.sent[self._tag] = len(PLACES) + 1
        order = machine.add_offsets(offsets(self._tag), GROUP)
        for _ in range(MANY):
            if machine.state is not S.IN_TRANSACTION or (order.done and not self._waiting):
                break
            self._turn()
        if spoil and machine.state is S.IN_TRANSACTION:
            machine.on_batch_failed(for_code(45)("refused"), numbered=True)
        if machine.state is S.IN_TRANSACTION:
            machine.commit() if end == "committed" else machine.abort()
            self._until(S.READY, S.ABORTABLE_ERROR)
        self._judge_order(order)
        if machine.state is S.READY:
            self.told[self._tag] = end
        elif machine.state is S.ABORTABLE_ERROR:
            machine.abort()
            self._waiting.clear()
            self._until(S.READY)
            if machine.state is S.READY:
                self.told[self._tag] = "aborted"

    def _judge_order(self, order: OffsetsOrder) -> None:
        assert order.done or self.machine.state is S.COMMITTING

    def _until(self, *states: S) -> None:
        for _ in range(MANY):
            if self.machine.state in (*states, S.FATAL_ERROR):
                return
            self._turn()
        raise AssertionError(f"it does not get beyond {self.machine.state}")

    def _turn(self) -> None:
        """Write what can be written, and take a step, or let time pass."""
        machine = self.machine
        if machine.state in (S.ABORTABLE_ERROR, S.ABORTING, S.FATAL_ERROR):
            self._waiting.clear()
        for place in [each for each in self._waiting if machine.admit(each)]:
            self._waiting.remove(place)
            code = self.coordinator.write(place, self.identity.stamp, self._tag)
            if code:
                machine.on_batch_failed(for_code(code)(), numbered=True)
        step = machine.next_step(self._now, drained=not self._waiting)
        if step is None:
            wakeup = machine.next_wakeup()
            assert wakeup is None or wakeup > self._now
            self._now = self._now if wakeup is None else wakeup
        else:
            self._answer(step)

    def _answer(self, step: Step) -> None:
        machine = self.machine
        if not isinstance(step, FindCoordinator):
            machine.on_coordinator(self.coordinator.level, self._can_bump)
        strikes = not self.struck and self._is_target(step)
        self.struck += strikes
        answer = None
        if not isinstance(step, FindCoordinator) and (not strikes or self._done):
            answer = self.coordinator.carry_out(step, self._tag)
        if not strikes:
            if isinstance(step, FindCoordinator):
                machine.on_found(step)
            else:
                assert answer is not None
                machine.on_answer(step, answer, self._now)
        elif isinstance(step, FindCoordinator):
            machine.on_error(step, for_code(self._code)(), self._now)
        elif isinstance(step, AddPartitions):
            refused = dict.fromkeys(step.partitions, self._code)
            machine.on_answer(step, Answer(partitions=refused), self._now)
        elif isinstance(step, CommitOffsets):
            refused = dict.fromkeys(step.offsets, self._code)
            machine.on_answer(step, Answer(partitions=refused), self._now)
        else:
            machine.on_answer(step, Answer(self._code), self._now)


def cases() -> Iterator[tuple[str, str]]:
    for generation in GENERATIONS:
        for where in STEPS:
            if where not in NEVER[generation]:
                yield generation, where


@pytest.mark.parametrize("done", [False, True], ids=["refused", "done all the same"])
@pytest.mark.parametrize(("generation", "where"), [*cases()])
def test_reported_outcomes_match_the_coordinator(generation: str, where: str, done: bool) -> None:
    for code in sorted(CODES.keys() - {0}):
        play = Play(GENERATIONS[generation], where, code, done=done)
        play.start()
        ends = ["aborted", "committed"] if where == "abort" else ["committed", "committed"]
        spoils = where == "InitProducer that bumps"
        for number, end in enumerate(ends):
            if play.machine.state is S.READY:
                play.transact(end, spoil=spoils and not number)
        about = f"code {code} in answer to {where}"
        assert play.struck == 1, about
        coordinator = play.coordinator
        stored = Counter(coordinator.committed)
        for tag, told in play.told.items():
            if told == "committed":  # carried out without a report, and then repeated
                assert stored[tag] >= play.sent[tag], about
            else:
                assert not stored[tag], about
                assert tag not in coordinator.open, about
        if play.machine.state is S.READY:
            assert play.told[2] == "committed", about
        if CODES[code][1] & RETRIABLE:
            first = "aborted" if spoils else ends[0]
            assert play.told == {1: first, 2: "committed"}, about
        assert play.machine.state in (S.READY, S.FATAL_ERROR), about
