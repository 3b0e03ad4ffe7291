"""The machine's tables: every error code at every step, allowed sequences, and requests."""

from collections.abc import Callable

import pytest

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    CommitFailedError,
    IllegalOperation,
    InvalidProducerEpoch,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    MessageSizeTooLargeError,
    ProducerFenced,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.errors.table import CODES, RETRIABLE
from aiokafka_lite.producer.idempotence import TransactionalIdentity
from aiokafka_lite.producer.transactions.transaction_machine import TransactionMachine, soon
from aiokafka_lite.producer.transactions.transaction_states import FOLLOWING
from aiokafka_lite.producer.transactions.transaction_states import TransactionState as S
from aiokafka_lite.producer.transactions.transaction_steps import (
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffsets,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    Step,
)
from aiokafka_lite.structs import TopicPartition
from tests.unit.producer.transactions.coordinator_model import GROUP, NAME, PLACE, offsets

OUT = TopicPartition("out", 0)
OTHER = TopicPartition("out", 1)
SOON = 10.0  # seconds after which everything postponed is due


def machine_at(level: int = 0, *, can_bump: bool = True) -> TransactionMachine:
    """A machine that is ready."""
    machine = TransactionMachine(NAME, TransactionalIdentity(), Backoff(0.1, 1.0, jitter=0.0))
    machine.initialize()
    carry_out(machine, InitProducer, Answer(identity=(7, 0)), level=level, can_bump=can_bump)
    assert machine.state is S.READY
    return machine


def take(machine: TransactionMachine, kind: type[Step], *, now: float = 0.0) -> Step:
    """The next step, of a given kind; coordinators are looked up in between."""
    step = machine.next_step(now, drained=True)
    while isinstance(step, FindCoordinator) and kind is not FindCoordinator:
        machine.on_found(step)
        step = machine.next_step(now, drained=True)
    assert isinstance(step, kind), step
    return step


def carry_out(
    machine: TransactionMachine,
    kind: type[Step],
    answer: Answer | None = None,
    *,
    level: int | None = None,
    can_bump: bool = True,
) -> Step:
    step = take(machine, kind)
    if level is not None:
        machine.on_coordinator(level, can_bump)
    machine.on_answer(step, answer or answer_to(step, 0), 0.0)
    return step


def answer_to(step: Step, code: int) -> Answer:
    match step:
        case AddPartitions(partitions=partitions):
            return Answer(partitions=dict.fromkeys(partitions, code))
        case CommitOffsets(offsets=told):
            return Answer(partitions=dict.fromkeys(told, code))
        case _:
            return Answer(code)


# How to reach each step; the machine, and the step that is then in flight.


def at_init() -> tuple[TransactionMachine, Step]:
    machine = TransactionMachine(NAME, TransactionalIdentity(), Backoff(0.1, 1.0, jitter=0.0))
    machine.initialize()
    return machine, take(machine, InitProducer)


def at_find_transaction() -> tuple[TransactionMachine, Step]:
    machine = TransactionMachine(NAME, TransactionalIdentity(), Backoff(0.1, 1.0, jitter=0.0))
    machine.initialize()
    return machine, take(machine, FindCoordinator)


def at_find_group() -> tuple[TransactionMachine, Step]:
    machine = machine_at(2)
    machine.begin()
    machine.add_offsets(offsets(1), GROUP)
    step = take(machine, FindCoordinator)
    assert isinstance(step, FindCoordinator)
    assert step.place == (CoordinatorKind.GROUP, GROUP.group_id)
    return machine, step


def at_add_partitions() -> tuple[TransactionMachine, Step]:
    machine = machine_at()
    machine.begin()
    assert not machine.admit(OUT)
    return machine, take(machine, AddPartitions)


def at_add_offsets() -> tuple[TransactionMachine, Step]:
    machine = machine_at()
    machine.begin()
    machine.add_offsets(offsets(1), GROUP)
    return machine, take(machine, AddOffsets)


def at_commit_offsets() -> tuple[TransactionMachine, Step]:
    machine, step = at_add_offsets()
    machine.on_answer(step, Answer(), 0.0)
    return machine, take(machine, CommitOffsets)


def at_commit_offsets_2() -> tuple[TransactionMachine, Step]:
    machine = machine_at(2)
    machine.begin()
    machine.add_offsets(offsets(1), GROUP)
    return machine, take(machine, CommitOffsets)


def at_commit() -> tuple[TransactionMachine, Step]:
    machine = machine_at(2)
    machine.begin()
    assert machine.admit(OUT)
    machine.commit()
    return machine, take(machine, EndTransaction)


def at_abort() -> tuple[TransactionMachine, Step]:
    machine = machine_at(2)
    machine.begin()
    assert machine.admit(OUT)
    machine.abort()
    return machine, take(machine, EndTransaction)


Reach = Callable[[], tuple[TransactionMachine, Step]]

FENCED = {47, 90}
LOST_ITS_PLACE = {22, 25, 27, 69, 110, 113}
ABORTABLE: dict[Reach, set[int]] = {
    at_find_transaction: set(),
    at_find_group: {24, 30, 120},
    at_init: set(),
    at_add_partitions: CODES.keys() - {0, 35, 47, 48, 49, 53, 90},  # except retriable errors
    at_add_offsets: {24, 30, 59, 120},
    at_commit_offsets: {12, 24, 28, 29, 30, 59, 82, 120} | LOST_ITS_PLACE,
    at_commit_offsets_2: {12, 24, 28, 29, 30, 59, 82, 120} | LOST_ITS_PLACE,
    at_commit: {59, 120},
    at_abort: set(),
}
"""The codes that leave the producer usable after an abort. Errors that are retriable in Java are
retried, and all others end the producer."""


@pytest.mark.parametrize("reach", ABORTABLE, ids=lambda reach: reach.__name__)
@pytest.mark.parametrize("code", sorted(CODES.keys() - {0}))
def test_every_code_at_every_step(reach: Reach, code: int) -> None:
    machine, step = reach()
    before = machine.state
    passes = bool(CODES[code][1] & RETRIABLE)
    if isinstance(step, FindCoordinator):
        machine.on_error(step, for_code(code)(), 0.0)
        passes = passes or issubclass(for_code(code), AuthenticationFailedError)
    else:
        machine.on_answer(step, answer_to(step, code), 0.0)
    if passes:
        assert machine.state is before
        assert machine.next_step(0.0, drained=True) is None, "not without a pause"
        wakeup = machine.next_wakeup()
        assert wakeup is not None
        assert 0 < wakeup < SOON
        take(machine, type(step), now=wakeup)
    elif code in ABORTABLE[reach]:
        assert machine.state is S.ABORTABLE_ERROR
        assert machine.next_step(SOON, drained=True) is None
        if code in LOST_ITS_PLACE and isinstance(step, CommitOffsets):
            assert isinstance(machine.error, CommitFailedError)
        else:
            assert isinstance(machine.error, for_code(code))
        with pytest.raises(type(machine.error)):
            machine.commit()
        machine.abort()
    else:
        assert machine.state is S.FATAL_ERROR
        fenced = code in FENCED and not isinstance(step, FindCoordinator)
        assert isinstance(machine.error, ProducerFenced if fenced else for_code(code))
        for call in (machine.begin, machine.commit, machine.abort):
            with pytest.raises(type(machine.error)):
                call()
        assert machine.next_step(SOON, drained=True) is None


@pytest.mark.parametrize("reach", ABORTABLE, ids=lambda reach: reach.__name__)
@pytest.mark.parametrize(
    "error",
    [
        KafkaConnectionError(),
        KafkaProtocolError("garbled"),
        AuthenticationFailedError("the certificate is not trusted"),
        SaslAuthenticationFailed(),
    ],
    ids=repr,
)
def test_coordinator_is_looked_up_after_a_failed_request(reach: Reach, error: KafkaError) -> None:
    machine, step = reach()
    machine.on_error(step, error, 0.0)
    wakeup = machine.next_wakeup()
    assert wakeup is not None
    again = machine.next_step(wakeup, drained=True)
    assert isinstance(again, FindCoordinator)
    assert again.place == step.place


def test_every_state_may_become_fatal_and_nothing_follows_that() -> None:
    for state, following in FOLLOWING.items():
        assert (S.FATAL_ERROR in following) == (state is not S.FATAL_ERROR)


# What is held until the brokers have ended the previous transaction


def held() -> TransactionMachine:
    machine = machine_at(2)
    machine.begin()
    machine.hold()
    return machine


def test_a_held_transaction_sends_no_request() -> None:
    machine = held()
    machine.add_offsets(offsets(1), GROUP)
    assert not machine.admit(OUT)
    assert machine.next_step(0.0, drained=False) is None
    machine.commit()
    assert not machine.admit(OUT)
    assert machine.next_step(0.0, drained=True) is None, "the offsets are still to come"
    machine.release()
    assert machine.admit(OUT)
    carry_out(machine, CommitOffsets, Answer(partitions=dict.fromkeys(offsets(1), 0)))
    carry_out(machine, EndTransaction, Answer(identity=(7, 1)))
    assert machine.state is S.READY


def test_an_empty_held_transaction_ends() -> None:
    machine = held()
    machine.commit()
    assert machine.next_step(0.0, drained=True) is None
    assert machine.state is S.READY


def test_an_abort_does_not_wait_for_held_partitions() -> None:
    machine = held()
    order = machine.add_offsets(offsets(1), GROUP)
    assert not machine.admit(OUT)
    machine.abort()
    assert order.error is not None
    assert machine.next_step(0.0, drained=True) is None
    assert machine.state is S.READY
    machine.begin()
    assert machine.admit(OUT), "of each transaction anew"


# The older generation


def test_partitions_are_added_together_and_once() -> None:
    machine = machine_at()
    machine.begin()
    assert not machine.admit(OUT)
    assert not machine.admit(OTHER)
    step = carry_out(machine, AddPartitions)
    assert isinstance(step, AddPartitions)
    assert step.partitions == {OUT, OTHER}
    assert machine.admit(OUT)
    assert machine.admit(OTHER)
    assert machine.next_step(0.0, drained=False) is None
    machine.commit()
    assert machine.next_step(0.0, drained=False) is None, "not before all is written"
    carry_out(machine, EndTransaction)
    machine.begin()
    assert not machine.admit(OUT), "of each transaction anew"


def test_a_refused_batch_bumps_the_epoch_after_the_abort() -> None:
    machine = machine_at()
    machine.begin()
    machine.admit(OUT)
    carry_out(machine, AddPartitions)
    machine.on_batch_failed(MessageSizeTooLargeError(), numbered=True)
    machine.abort()
    carry_out(machine, EndTransaction)
    assert machine.state is S.INITIALIZING
    step = carry_out(machine, InitProducer, Answer(identity=(7, 1)))
    assert isinstance(step, InitProducer)
    assert step.identity == (7, 0)
    assert machine.state is S.READY


def test_without_an_epoch_bump_only_a_sequence_gap_is_fatal() -> None:
    machine = machine_at(can_bump=False)
    machine.begin()
    machine.on_batch_failed(MessageSizeTooLargeError(), numbered=False)
    assert machine.state is S.ABORTABLE_ERROR
    machine.abort()
    assert machine.next_step(0.0, drained=True) is None
    assert machine.state is S.READY
    machine.begin()
    machine.on_batch_failed(MessageSizeTooLargeError(), numbered=True)
    assert machine.state is S.FATAL_ERROR
    assert isinstance(machine.error, UnsupportedVersionError)
    assert isinstance(machine.error.__cause__, MessageSizeTooLargeError)


def test_an_abort_after_a_lost_response_accepts_that_no_transaction_existed() -> None:
    machine, step = at_add_partitions()
    machine.on_error(step, KafkaConnectionError(), 0.0)
    machine.abort()
    end = take(machine, EndTransaction)
    machine.on_answer(end, Answer(48), 0.0)
    assert machine.state is S.READY

    machine, step = at_add_partitions()
    machine.on_error(step, KafkaConnectionError(), 0.0)
    step = take(machine, AddPartitions, now=SOON)
    machine.on_answer(step, answer_to(step, 29), SOON)  # this says nothing about the first attempt
    machine.abort()
    machine.on_answer(take(machine, EndTransaction), Answer(), SOON)
    assert machine.state is S.READY

    machine, step = at_add_partitions()
    machine.on_answer(step, answer_to(step, 0), 0.0)
    machine.abort()
    machine.on_answer(take(machine, EndTransaction), Answer(48), 0.0)
    assert machine.state is S.FATAL_ERROR, "there was something"


def test_a_transaction_without_added_partitions_needs_no_end_request() -> None:
    machine = machine_at()
    for end in (machine.commit, machine.abort):
        machine.begin()
        end()
        assert machine.next_step(0.0, drained=True) is None
        assert machine.state is S.READY


def test_the_first_addition_is_retried_after_a_short_pause() -> None:
    machine, step = at_add_partitions()
    now = 0.0
    for failures in range(1, 6):
        machine.on_answer(step, answer_to(step, 51), now)
        now = machine.next_wakeup() or 0.0
        assert now == pytest.approx(sum(soon(each) for each in range(1, failures + 1)))
        step = take(machine, AddPartitions, now=now)
    assert 0.02 < now < 0.1
    machine.on_answer(step, answer_to(step, 0), 0.0)
    assert not machine.admit(OTHER)
    step = take(machine, AddPartitions)
    machine.on_answer(step, answer_to(step, 51), 0.0)
    assert machine.next_wakeup() == 0.1, "that is no transaction before"


def test_an_expired_pause_does_not_wake_the_driver_again() -> None:
    """Otherwise its driver would check again at once, repeatedly: a busy loop until the abort."""
    machine, step = at_add_partitions()
    machine.on_error(step, KafkaConnectionError("lost"), 0.0)
    assert machine.next_wakeup() == 0.1
    machine.on_batch_failed(MessageSizeTooLargeError(), numbered=False)
    assert machine.state is S.ABORTABLE_ERROR
    assert machine.next_step(0.05, drained=False) is None
    assert machine.next_wakeup() == 0.1, "not over yet"
    assert machine.next_step(0.1, drained=False) is None
    assert machine.next_wakeup() is None


def test_the_topics_that_are_refused_are_named() -> None:
    machine = machine_at()
    machine.begin()
    for tp in (OUT, TopicPartition("secret", 0)):
        machine.admit(tp)
    step = take(machine, AddPartitions)
    machine.on_answer(step, Answer(partitions={OUT: 55, TopicPartition("secret", 0): 29}), 0.0)
    assert isinstance(machine.error, TopicAuthorizationFailedError)
    assert machine.error.args == ("secret",)


def test_the_epoch_is_bumped_when_the_cluster_has_been_upgraded() -> None:
    machine = machine_at()
    machine.begin()
    machine.admit(OUT)
    carry_out(machine, AddPartitions, level=2)
    machine.commit()
    end = carry_out(machine, EndTransaction)
    assert isinstance(end, EndTransaction)
    assert not end.implicit, "it ends as it began"
    carry_out(machine, InitProducer, Answer(identity=(7, 1)))
    machine.begin()
    assert machine.implicit


def test_an_upgrade_seen_by_an_empty_transaction_bumps_the_epoch_of_earlier_records() -> None:
    """A late request of the first transaction must not add its partition to the third one."""
    machine = machine_at()
    machine.begin()
    machine.admit(OUT)
    carry_out(machine, AddPartitions)
    machine.commit()
    carry_out(machine, EndTransaction)
    machine.begin()
    machine.admit(OTHER)
    step = take(machine, AddPartitions)
    machine.on_coordinator(2, True)  # a new connection
    machine.on_answer(step, answer_to(step, 29), 0.0)
    machine.abort()
    step = carry_out(machine, InitProducer, Answer(identity=(7, 1)))
    assert isinstance(step, InitProducer)
    assert step.identity == (7, 0)
    machine.begin()
    assert machine.implicit
    assert machine._identity.stamp == (7, 1)


def test_an_upgrade_seen_before_any_record_bumps_no_epoch() -> None:
    machine = machine_at()
    machine.begin()
    machine.admit(OTHER)
    step = take(machine, AddPartitions)
    machine.on_coordinator(2, True)
    machine.on_answer(step, answer_to(step, 29), 0.0)
    machine.abort()
    assert machine.next_step(0.0, drained=True) is None
    assert machine.state is S.READY


# The newer generation


def test_batches_add_and_each_end_gives_an_epoch() -> None:
    machine = machine_at(2)
    identity = machine._identity
    for epoch in range(1, 4):
        machine.begin()
        assert machine.admit(OUT)
        machine.commit()
        carry_out(machine, EndTransaction, Answer(identity=(7, epoch)))
        assert identity.stamp == (7, epoch)
        assert machine.state is S.READY


def test_a_failed_transaction_needs_no_epoch_bump() -> None:
    machine = machine_at(2)
    machine.begin()
    machine.admit(OUT)
    machine.on_batch_failed(MessageSizeTooLargeError(), numbered=True)
    machine.abort()
    carry_out(machine, EndTransaction, Answer(identity=(7, 1)))
    assert machine.state is S.READY


def test_an_old_epoch_is_aborted_first_and_seen_as_a_fence() -> None:
    machine = machine_at(2)
    machine.begin()
    machine.admit(OUT)
    machine.on_batch_failed(InvalidProducerEpoch("told"), numbered=True)
    assert machine.state is S.ABORTABLE_ERROR
    with pytest.raises(ProducerFenced, match="told"):
        machine.commit()
    machine.abort()
    machine.on_answer(take(machine, EndTransaction), Answer(90), 0.0)
    assert machine.state is S.FATAL_ERROR


# Offsets


def test_only_the_refused_offsets_are_committed_again() -> None:
    machine = machine_at(2)
    machine.begin()
    both = {**offsets(1), TopicPartition("in", 1): next(iter(offsets(1).values()))}
    order = machine.add_offsets(both, GROUP)
    step = take(machine, CommitOffsets)
    first, second = both
    machine.on_answer(step, Answer(partitions={first: 0, second: 14}), 0.0)
    step = take(machine, CommitOffsets, now=SOON)
    assert isinstance(step, CommitOffsets)
    assert list(step.offsets) == [second]
    machine.on_answer(step, Answer(partitions={second: 0}), 0.0)
    assert order.done
    assert order.error is None


def test_an_answer_that_leaves_everything_out_is_no_answer() -> None:
    for reach in (at_add_partitions, at_commit_offsets):
        machine, step = reach()
        machine.on_answer(step, Answer(), 0.0)
        assert machine.next_step(0.0, drained=True) is None
        take(machine, type(step), now=SOON)


def test_an_abort_drops_queued_additions() -> None:
    machine, step = at_commit_offsets()
    another = machine.add_offsets(offsets(2), GROUP)
    machine.abort()
    assert another.done
    assert another.error is not None
    machine.on_answer(step, answer_to(step, 0), 0.0)
    carry_out(machine, EndTransaction)
    assert machine.state is S.READY


def test_a_group_is_added_once_a_transaction() -> None:
    machine, step = at_commit_offsets()
    machine.on_answer(step, answer_to(step, 0), 0.0)
    machine.add_offsets(offsets(2), GROUP)
    take(machine, CommitOffsets)


# Misuse


def test_a_call_in_the_wrong_state_raises_and_changes_nothing() -> None:
    machine = machine_at()
    for call in (machine.commit, machine.abort):
        with pytest.raises(
            IllegalOperation, match=r"Not in the middle .* ready; call begin_transaction\(\) first"
        ):
            call()
    machine.begin()
    with pytest.raises(IllegalOperation, match="in transaction; commit or abort the open"):
        machine.begin()
    machine.admit(OUT)
    machine.commit()
    for call in (machine.begin, machine.commit, machine.abort):
        with pytest.raises(
            IllegalOperation, match=r"committing; call commit_transaction\(\) again"
        ):
            call()
    assert machine.state is S.COMMITTING


def test_a_response_without_a_request_raises() -> None:
    machine = machine_at()
    with pytest.raises(ValueError, match="not in flight"):
        machine.on_answer(InitProducer(PLACE, (-1, -1)), Answer(identity=(1, 0)), 0.0)
