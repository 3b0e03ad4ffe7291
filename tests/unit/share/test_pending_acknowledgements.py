"""Acknowledgements of one leader: marks, batches, halves after a rejection, expiry."""

from __future__ import annotations

import asyncio
import gc
import sys
from types import FrameType
from uuid import UUID

import pytest

from aiokafka_lite.errors import (
    IllegalStateError,
    InvalidRecordStateError,
    KafkaConnectionError,
    NotLeaderForPartitionError,
)
from aiokafka_lite.share.acknowledgement import Failures
from aiokafka_lite.share.acquisition import Acquisition
from aiokafka_lite.share.pending_acknowledgements import ATTEMPTS, PendingAcknowledgements
from aiokafka_lite.share.records.offset_states import ACCEPT, REJECT, RELEASE
from aiokafka_lite.share.share_session import PartitionId
from aiokafka_lite.structs import TopicPartition

TP = TopicPartition("jobs", 0)
KEY = PartitionId(UUID(int=7), 0)


class Leader:
    """Owns acquisitions; a broker that rejects parts with a lost offset."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.pending = PendingAcknowledgements()
        self.unseen: Failures = []
        self.lost: set[int] = set()
        self.applied: dict[int, int] = {}
        self.requests = 0

    def on_marked(self, acquisition: Acquisition) -> None:
        self.pending.on_marked(acquisition)

    def on_awaited(self) -> None:
        pass

    def on_unseen_failure(self, topic_partition: TopicPartition, failures: Failures) -> None:
        self.unseen.extend(failures)

    def acquire(self, first: int, last: int, *, gaps=(), deadline=100.0) -> Acquisition:
        acquisition = Acquisition(self, TP, KEY, first, last, deadline, deadline + 1)
        acquisition.acquire(first, last)
        for offset in range(first, last + 1):
            if offset not in gaps:
                assert acquisition.hold(offset)
        self.pending.on_acquired(acquisition, [(first, last)])
        if gaps:
            self.pending.on_marked(acquisition)
        return acquisition

    def exchange(self, now: float = 0.0) -> bool:
        """One request; False if there is nothing to send."""
        parts = self.pending.take(now)
        for key, part in parts.items():
            self.requests += 1
            offsets = {
                offset: kind
                for run in part.runs
                for offset, kind in zip(range(run.first, run.last + 1), run.types, strict=True)
            }
            assert list(offsets) == sorted(offsets)
            if self.lost.isdisjoint(offsets):
                self.applied |= offsets
                self.pending.on_acknowledged(part)
            else:
                self.pending.on_rejected(key, part, InvalidRecordStateError("lost"))
        return bool(parts)

    def drain(self) -> None:
        while self.exchange():
            pass


@pytest.fixture
def leader():
    leader = Leader()
    yield leader
    leader.loop.close()


def runs_of(leader: Leader, now: float = 0.0) -> list[tuple[int, int, list[int]]]:
    parts = leader.pending.take(now)
    return [(run.first, run.last, list(run.types)) for part in parts.values() for run in part.runs]


def test_consecutive_marks_form_one_run_and_gaps_are_included(leader) -> None:
    acquisition = leader.acquire(10, 19, gaps=(13,))
    for offset in (10, 11, 12, 14, 17, 18):
        acquisition.mark(offset, REJECT if offset == 14 else ACCEPT)
    assert runs_of(leader) == [(10, 14, [1, 1, 1, 0, 3]), (17, 18, [1, 1])]
    assert not leader.pending.take(0.0)


def test_gaps_alone_are_sent(leader) -> None:
    leader.acquire(0, 2, gaps=(0, 1, 2))
    assert leader.pending.terminal_waiting
    assert runs_of(leader) == [(0, 2, [0, 0, 0])]


def test_a_second_terminal_mark_is_refused(leader) -> None:
    acquisition = leader.acquire(0, 1)
    acquisition.mark(0, ACCEPT)
    with pytest.raises(IllegalStateError, match="offset 0 of jobs-0 was already accepted"):
        acquisition.mark(0, RELEASE)
    leader.exchange()
    with pytest.raises(IllegalStateError, match="already acknowledged"):
        acquisition.renew(0)
    assert leader.applied == {0: ACCEPT}


def test_a_terminal_mark_replaces_a_renewal_that_was_not_sent(leader) -> None:
    acquisition = leader.acquire(0, 1)
    renewal = acquisition.renew(0)
    accepted = acquisition.mark(0, ACCEPT)
    assert renewal.result() == acquisition.deadline
    assert leader.pending.take_renewals(0.0) == {}
    leader.exchange()
    assert accepted.result() is None


def test_a_mark_during_a_renewal_survives_its_result(leader) -> None:
    acquisition = leader.acquire(0, 1)
    renewal = acquisition.renew(0)
    [part] = leader.pending.take_renewals(0.0).values()
    acquisition.mark(0, RELEASE)
    leader.pending.on_renewed(part, 150.0, 151.0)
    assert renewal.result() == 150.0
    leader.exchange()
    assert leader.applied == {0: RELEASE}


@pytest.mark.parametrize("lost", [{0}, {499}, {250}, {3, 400}])
def test_one_lost_lock_does_not_fail_the_others(leader, lost) -> None:
    acquisition = leader.acquire(0, 499)
    leader.lost = lost
    acks = [acquisition.mark(offset, ACCEPT) for offset in range(500)]
    leader.drain()
    assert leader.requests <= 1 + 20 * len(lost)
    assert leader.applied.keys() == set(range(500)) - lost
    for offset, ack in enumerate(acks):
        if offset in lost:
            with pytest.raises(InvalidRecordStateError):
                ack.result()
        else:
            assert ack.result() is None


def test_the_search_for_lost_locks_is_bounded(leader) -> None:
    acquisition = leader.acquire(0, 1999)
    leader.lost = set(range(2000))
    acks = [acquisition.mark(offset, ACCEPT) for offset in range(2000)]
    leader.drain()
    assert leader.requests <= ATTEMPTS + 1
    assert all(ack.done() for ack in acks)
    assert not leader.pending.holds


def test_expired_marks_fail_here_and_are_not_sent(leader) -> None:
    acquisition, other = leader.acquire(0, 1, deadline=10.0), leader.acquire(2, 3, deadline=50.0)
    late, good = acquisition.mark(0, ACCEPT), other.mark(2, ACCEPT)
    leader.exchange(now=12.0)
    assert leader.applied == {2: ACCEPT}
    assert good.result() is None
    with pytest.raises(InvalidRecordStateError, match="has expired"):
        late.result()


def test_forgotten_records_expire_and_are_counted(leader) -> None:
    acquisition = leader.acquire(0, 3, deadline=10.0)
    acquisition.mark(0, ACCEPT)
    leader.exchange()
    assert leader.pending.next_expiry() == 11.0
    assert leader.pending.expire(10.5) == {}
    assert leader.pending.expire(11.5) == {TP: 3}
    assert not leader.pending.holds
    with pytest.raises(InvalidRecordStateError):
        acquisition.mark(1, ACCEPT).result()


def test_records_acquired_again_lose_their_first_lock(leader) -> None:
    first = leader.acquire(0, 9)
    stale = first.mark(4, ACCEPT)
    second = leader.acquire(4, 5)
    with pytest.raises(InvalidRecordStateError):
        stale.result()
    with pytest.raises(InvalidRecordStateError):
        first.mark(5, ACCEPT).result()
    second.mark(4, ACCEPT)
    first.mark(3, ACCEPT)
    assert runs_of(leader) == [(3, 3, [1]), (4, 4, [1])]


def test_a_lost_connection_fails_marks_and_later_ones(leader) -> None:
    acquisition = leader.acquire(0, 9)
    marked = acquisition.mark(0, ACCEPT)
    in_flight = acquisition.mark(1, ACCEPT)
    [part] = leader.pending.take(0.0).values()
    waiting = acquisition.mark(2, ACCEPT)
    renewal = acquisition.renew(3)
    assert leader.pending.lose(InvalidRecordStateError("the connection was lost")) == 7
    assert not in_flight.done()
    leader.pending.on_failed(part, KafkaConnectionError("gone"))
    for ack, error in (
        (marked, KafkaConnectionError),
        (in_flight, KafkaConnectionError),
        (waiting, InvalidRecordStateError),
        (renewal, InvalidRecordStateError),
        (acquisition.mark(4, ACCEPT), InvalidRecordStateError),
    ):
        with pytest.raises(error):
            ack.result()
    assert not leader.pending.waiting
    assert acquisition.deadline_of(4) == 0.0


def test_marks_of_other_partitions_stay_when_only_some_may_be_named(leader) -> None:
    leader.acquire(0, 1).mark(0, ACCEPT)
    assert leader.pending.take(0.0, only=frozenset()) == {}
    assert leader.pending.waits_for_other_than(frozenset())
    assert not leader.pending.waits_for_other_than({KEY})
    assert runs_of(leader) == [(0, 0, [1])]


def test_what_the_broker_did_not_apply_is_sent_again(leader) -> None:
    acquisition = leader.acquire(0, 3)
    acquisition.mark(0, ACCEPT)
    [(key, part)] = leader.pending.take(0.0).items()
    acquisition.mark(1, ACCEPT)
    leader.pending.put_back(key, part)
    assert runs_of(leader) == [(0, 0, [1])]  # one part of a partition in a request
    assert runs_of(leader) == [(1, 1, [1])]


def test_another_error_fails_a_part_at_once(leader) -> None:
    acquisition = leader.acquire(0, 3)
    acks = [acquisition.mark(offset, ACCEPT) for offset in range(4)]
    [(key, part)] = leader.pending.take(0.0).items()
    leader.pending.on_rejected(key, part, NotLeaderForPartitionError("moved"))
    assert not leader.pending.waiting
    for ack in acks:
        with pytest.raises(NotLeaderForPartitionError):
            ack.result()


def test_an_unawaited_failure_is_logged(leader) -> None:
    acquisition = leader.acquire(0, 1)
    acquisition.mark(0, ACCEPT)
    seen = acquisition.mark(1, ACCEPT)
    [(key, part)] = leader.pending.take(0.0).items()
    leader.pending.on_rejected(key, part, NotLeaderForPartitionError("moved"))
    with pytest.raises(NotLeaderForPartitionError):
        seen.result()
    del seen, part
    assert leader.unseen == []
    other = leader.acquire(5, 6)
    other.mark(5, ACCEPT)
    leader.pending.lose(InvalidRecordStateError("lost"))
    assert [(first, last) for first, last, _ in leader.unseen] == [(5, 5)]


def test_rejected_renewals_leave_innocent_locks(leader) -> None:
    acquisition = leader.acquire(0, 3)
    renewals = [acquisition.renew(offset) for offset in range(4)]
    rounds = 0
    while parts := leader.pending.take_renewals(0.0):
        rounds += 1
        for key, part in parts.items():
            if any(run.first <= 2 <= run.last for run in part.runs):
                leader.pending.on_renewal_rejected(key, part, InvalidRecordStateError("lost"))
            else:
                leader.pending.on_renewed(part, 200.0, 201.0)
    assert rounds <= 5
    for offset, renewal in enumerate(renewals):
        if offset == 2:
            with pytest.raises(InvalidRecordStateError):
                renewal.result()
        else:
            assert renewal.result() == acquisition.deadline_of(offset) == 200.0


def test_an_awaiting_task_that_is_cancelled_affects_no_other() -> None:
    async def run() -> None:
        leader = Leader()
        leader.loop.close()
        leader.loop = asyncio.get_running_loop()
        acquisition = leader.acquire(0, 1)
        one, two = acquisition.mark(0, ACCEPT), acquisition.mark(1, ACCEPT)

        async def wait(ack) -> object:
            return await ack

        first, second = asyncio.create_task(wait(one)), asyncio.create_task(wait(two))
        await asyncio.sleep(0)
        assert acquisition.outcome.awaited
        first.cancel()
        await asyncio.sleep(0)
        leader.exchange()
        assert await second is None
        assert first.cancelled()
        assert await one is None

    asyncio.run(run())


def steps(call) -> int:
    """Count the lines of Python that a call executes, without those of finalizers."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object):
        nonlocal count
        count += event == "line"
        return trace

    previous = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(previous)
        gc.enable()
    return count


def costs_with(held: int) -> list[int]:
    """The steps of a query, of an acknowledgement, and of an acquisition."""
    leader = Leader()
    for number in range(held):
        leader.acquire(2 * number, 2 * number + 1, deadline=100.0 + number)
    pending = leader.pending
    last = leader.acquire(2 * held, 2 * held, deadline=100.0 + held)

    def ask() -> None:
        assert pending.holds
        assert not pending.waiting
        assert not pending.renewals_waiting
        assert not pending.terminal_waiting
        assert not pending.waits_for_other_than(())
        assert pending.next_expiry() == 101.0
        assert pending.expire(50.0) == {}

    def acknowledge() -> None:
        last.mark(2 * held, ACCEPT)
        [(_, part)] = pending.take(0.0).items()
        pending.on_acknowledged(part)

    def acquire() -> None:
        leader.acquire(2 * held + 1, 2 * held + 1)

    costs = [steps(ask), steps(acknowledge), steps(acquire)]
    assert not last.open
    leader.loop.close()
    return costs


def test_an_exchange_costs_the_same_however_many_acquisitions_are_held() -> None:
    assert costs_with(1) == costs_with(1000)


def test_settled_acquisitions_are_forgotten_before_their_locks_end(leader) -> None:
    for number in range(2000):
        acquisition = leader.acquire(number, number)
        if number:
            acquisition.mark(number, ACCEPT)
            leader.drain()
    assert len(leader.pending._expiries) < 100
    assert leader.pending.holds
    assert leader.pending.find(TP, 1999) is None
    assert leader.pending.find(TP, 0) is not None
    assert leader.pending.next_expiry() == 101.0
    assert leader.pending.expire(102.0) == {TP: 1}
    assert not leader.pending.holds
    assert leader.pending.next_expiry() == float("inf")


def test_a_renewal_moves_the_expiry(leader) -> None:
    acquisition = leader.acquire(0, 1)
    leader.acquire(2, 2, deadline=150.0)
    acquisition.renew(0)
    [(_, part)] = leader.pending.take_renewals(0.0).items()
    leader.pending.on_renewed(part, 200.0, 201.0)
    assert leader.pending.next_expiry() == 151.0
    assert leader.pending.expire(160.0) == {TP: 1}
    assert leader.pending.next_expiry() == 201.0
    assert leader.pending.expire(202.0) == {TP: 2}


def test_a_mark_that_replaces_a_renewal_leaves_no_renewal_waiting(leader) -> None:
    acquisition = leader.acquire(0, 1)
    acquisition.renew(0)
    assert leader.pending.renewals_waiting
    acquisition.mark(0, ACCEPT)
    assert not leader.pending.renewals_waiting
    assert leader.pending.terminal_waiting
    acquisition.renew(1)
    assert leader.pending.renewals_waiting
    assert leader.pending.terminal_waiting
