"""When a consumer commits, and with which identity; the test chooses the store's answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.consumer.commits import auto_commit as room
from aiokafka_lite.consumer.commits.auto_commit import Commits
from aiokafka_lite.consumer.consumer_options import OffsetReset
from aiokafka_lite.consumer.partitions.delivery import EMPTY, Chunk, Delivery
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    KafkaError,
    KafkaTimeoutError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    kafka_errors,
)
from aiokafka_lite.group.membership import CommitIdentity, Counters
from aiokafka_lite.group.offsets.store import Committed
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from tests.unit.consumer.makers import until
from tests.unit.error_table import reactions

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
ME = CommitIdentity("me", 4, None)
ME_LATER = CommitIdentity("me", 5, None)


class Membership:
    """The part of a membership that commits need; the test sets its identity."""

    def __init__(self, *, broker_assigns: bool = False) -> None:
        self.broker_assigns = broker_assigns
        self.identity: CommitIdentity | None = ME
        self.counters = Counters()
        self.rejoin_needed = False
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.told: list[tuple[type[KafkaError], CommitIdentity | None]] = []
        self.becomes: Callable[[], CommitIdentity | None] | None = None  # called for the identity

    def commit_identity(self) -> CommitIdentity | None:
        return self.identity

    def on_commit_error(
        self, error: KafkaError, now: float, sent: CommitIdentity | None = None
    ) -> None:
        self.told.append((type(error), sent))
        if self.becomes is not None:
            self.identity = self.becomes()


class Store:
    """Records each attempt, and answers as configured: with an error, or when a gate opens."""

    group_id = "g"
    client_id = "c"

    def __init__(self) -> None:
        self.commits: list[tuple[dict[TopicPartition, int], CommitIdentity | None]] = []
        self.patience: list[bool] = []
        self.reads: list[CommitIdentity | None] = []
        self.answers: list[KafkaError | asyncio.Event | None] = []
        self.after: KafkaError | None = None  # raised when a gate opens

    def begin_commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: float,
        *,
        missing_topics_may_come: bool = True,
    ) -> "Call":
        async def attempt(who: CommitIdentity | None) -> None:
            self.patience.append(missing_topics_may_come)
            await self.receive(offsets, who)

        return Call(attempt)

    async def receive(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], who: CommitIdentity | None
    ) -> None:
        """One attempt to commit."""
        self.commits.append(({tp: told.offset for tp, told in offsets.items()}, who))
        await self.answer()

    def begin_fetch(
        self, partitions: Collection[TopicPartition], *, require_stable: bool, deadline: float
    ) -> "Call":
        assert require_stable

        async def attempt(who: CommitIdentity | None) -> None:
            self.reads.append(who)
            await self.answer()
            call.found = {tp: Committed(7, None, "") for tp in partitions}

        call = Call(attempt)
        return call

    async def answer(self) -> None:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            if self.after is not None:
                raise self.after
        elif answer is not None:
            raise answer

    @property
    def offsets(self) -> list[dict[TopicPartition, int]]:
        return [offsets for offsets, _ in self.commits]

    @property
    def identities(self) -> list[CommitIdentity | None]:
        return [identity for _, identity in self.commits]


class Call:
    """One commit or fetch, attempt by attempt."""

    def __init__(self, attempt: Callable[[CommitIdentity | None], Awaitable[None]]) -> None:
        self.done = False
        self.found: dict[TopicPartition, Committed] = {}
        self._attempt = attempt

    async def connect(self) -> None:
        pass

    async def attempt(self, connection: None, identity: CommitIdentity | None) -> None:
        await self._attempt(identity)
        self.done = True


@dataclass
class Options:
    enable_auto_commit: bool = True
    auto_commit_interval: float = 0.01
    request_timeout: float = 5.0


class Driver:
    def __init__(self, membership: Membership) -> None:
        self.membership: Any = membership
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


class Rig:
    """Commits with everything that they need."""

    def __init__(self, modern: bool = False) -> None:
        self.store = Store()
        self.options = Options()
        self.positions = Positions(OffsetReset.EARLIEST, 1000)
        self.membership = Membership(broker_assigns=modern)
        self.driver = Driver(self.membership)
        self.mistakes: list[BaseException] = []
        self.tasks = TaskOwner("test", lambda name, error: self.mistakes.append(error))
        self.shared = True
        self.delivery = Delivery()
        self.reported: list[dict[TopicPartition, OffsetAndMetadata]] = []
        store: Any = self.store
        self.commits = Commits(
            store,
            self.positions,
            self.options,
            self.tasks,
            asyncio.get_running_loop(),
            driver=self.driver,
            shared=lambda: self.shared,
            delivery=self.delivery,
            on_committed=lambda offsets: self.reported.append(dict(offsets)),
        )

    def own(self, *partitions: TopicPartition) -> None:
        self.positions.assign(partitions)

    def give(self, tp: TopicPartition, offset: int) -> PartitionState:
        """The application has received everything before `offset`."""
        state = self.positions.state(tp)
        state.seek(offset)
        return state

    @property
    def soon(self) -> float:
        return asyncio.get_running_loop().time() + 5.0


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    rig.own(A, B)
    yield rig
    rig.commits.close()
    await rig.tasks.close(rig.soon)
    assert not rig.mistakes


async def due(rig: Rig) -> None:
    """Advance the clock until a commit is due."""
    rig.commits.on_read()
    await until(lambda: rig.commits.due)


async def committed(rig: Rig, times: int) -> None:
    await until(lambda: rig.commits.counters.commits == times)


# --- by the clock


async def test_records_in_processing_are_not_committed_before_the_next_read(rig: Rig) -> None:
    rig.give(A, 5)
    await due(rig)
    assert not rig.store.commits
    rig.commits.on_read()
    await committed(rig, 1)
    assert rig.store.offsets == [{A: 5}]
    assert not rig.commits.due


async def test_while_a_read_waits_all_is_done_with(rig: Rig) -> None:
    rig.give(A, 5)
    rig.commits.on_read(waiting=True)
    await committed(rig, 1)
    rig.commits.on_read(waiting=False)
    rig.give(A, 6)
    await until(lambda: rig.commits.due)
    assert rig.store.offsets == [{A: 5}]


async def test_an_interval_of_0_commits_at_once_but_not_in_a_busy_loop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a read waits, there is nothing to commit again and again."""
    looks = 0
    given = Commits.given

    def counted(commits: Commits, *args: Any, **options: Any) -> Any:
        nonlocal looks
        looks += 1
        return given(commits, *args, **options)

    monkeypatch.setattr(Commits, "given", counted)
    rig.options.auto_commit_interval = 0.0
    rig.give(A, 5)
    rig.commits.on_read(waiting=True)
    await committed(rig, 1)
    await asyncio.sleep(0.1)
    assert rig.store.offsets == [{A: 5}]
    assert looks < 20


async def test_a_due_commit_makes_the_next_read_pass_by(rig: Rig) -> None:
    rig.delivery.current = Chunk([], 0, 1)
    await due(rig)
    assert rig.delivery.current is EMPTY


async def test_no_timer_runs_without_reads_or_auto_commit(rig: Rig) -> None:
    rig.give(A, 5)
    rig.commits.on_change()
    assert rig.commits._timer is None
    rig.options.enable_auto_commit = False
    rig.commits.on_read()
    assert rig.commits._timer is None


async def test_an_unchanged_position_is_not_committed_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.give(A, 5)
    rig.give(B, 7)
    rig.commits.on_read(waiting=True)
    await committed(rig, 1)
    rig.give(A, 6)
    await committed(rig, 2)
    assert rig.store.offsets == [{A: 5, B: 7}, {A: 6}]
    rig.commits._everything_at = 0.0  # brokers before 2.1 are about to expire it
    await committed(rig, 3)
    assert rig.store.offsets[2] == {A: 6, B: 7}
    assert rig.commits._everything_at > asyncio.get_running_loop().time() + room.AGAIN_AFTER - 5


async def test_a_partition_assigned_again_is_committed_again(rig: Rig) -> None:
    rig.give(A, 5)
    rig.commits.on_read(waiting=True)
    await committed(rig, 1)
    rig.own(B)
    rig.own(A)
    rig.give(A, 5)  # the other member may have read further, and committed
    await committed(rig, 2)
    assert rig.store.offsets == [{A: 5}, {A: 5}]


async def test_a_word_of_the_application_counts_as_committed(rig: Rig) -> None:
    rig.give(A, 5)
    await rig.commits.commit(None, rig.soon)
    rig.commits._everything_at = rig.soon
    await rig.commits.before_revoke([A], rig.soon)
    assert rig.store.offsets == [{A: 5}]
    await rig.commits.commit({A: OffsetAndMetadata(2, "")}, rig.soon)
    await rig.commits.before_revoke([A], rig.soon)
    assert rig.store.offsets[1:] == [{A: 2}, {A: 5}]


async def test_auto_commit_continues_after_a_failure(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.store.answers = [OffsetMetadataTooLargeError("no")]
    rig.give(A, 5)
    rig.commits.on_read(waiting=True)
    await committed(rig, 1)
    assert rig.store.offsets == [{A: 5}, {A: 5}]
    assert "c: auto-commit of t-0 in group g failed" in caplog.text
    assert rig.commits.counters.failures == 1


async def test_the_clock_waits_for_no_topic_that_was_deleted(rig: Rig) -> None:
    rig.give(A, 5)
    rig.commits.on_read(waiting=True)
    await committed(rig, 1)
    await rig.commits.commit(None, rig.soon)
    rig.give(A, 6)
    await rig.commits.before_revoke([A], rig.soon)
    assert rig.store.patience == [False, True, False]


async def test_a_consumer_outside_its_group_does_not_auto_commit(rig: Rig) -> None:
    rig.membership.identity = None
    rig.give(A, 5)
    rig.commits.on_read(waiting=True)
    first = rig.commits._timer
    await until(lambda: rig.commits._timer is not first)
    assert not rig.store.commits
    rig.membership.identity = ME
    await committed(rig, 1)


async def test_a_timer_after_close_does_nothing(rig: Rig) -> None:
    rig.give(A, 5)
    rig.commits.on_read(waiting=True)
    await rig.tasks.close(rig.soon)
    rig.commits._on_timer()
    rig.commits.let_go([A])
    assert not rig.store.commits


# --- at the end


async def test_a_revocation_commits_records_in_progress_too(rig: Rig) -> None:
    rig.give(A, 5)
    rig.give(B, 7)
    await rig.commits.before_revoke([A], rig.soon)
    assert rig.store.offsets == [{A: 5}]  # the other's last record may still be processed
    await rig.commits.at_close(rig.soon)
    assert rig.store.offsets == [{A: 5}, {B: 7}]
    assert rig.store.identities == [ME, ME]


async def test_without_auto_commit_nothing_is_committed_unasked(rig: Rig) -> None:
    rig.options.enable_auto_commit = False
    rig.give(A, 5)
    await rig.commits.before_revoke([A], rig.soon)
    rig.commits.let_go([A])
    await rig.commits.at_close(rig.soon)
    assert not rig.store.commits


async def test_a_failed_last_commit_does_not_hold_up_revoking_or_closing(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.store.answers = [GroupAuthorizationFailedError("g"), KafkaTimeoutError("late")]
    rig.give(A, 5)
    await rig.commits.before_revoke([A], rig.soon)
    await rig.commits.at_close(rig.soon)
    assert caplog.text.count("c: the last auto-commit of t-0 in group g failed") == 2


async def test_the_last_commit_overtakes_that_of_the_clock(rig: Rig) -> None:
    rig.store.answers = [asyncio.Event()]  # the coordinator does not answer
    rig.give(A, 5)
    rig.commits.on_read(waiting=True)
    await until(lambda: bool(rig.store.commits))
    rig.give(A, 6)
    await rig.commits.before_revoke([A], rig.soon)
    assert rig.store.offsets == [{A: 5}, {A: 6}]
    rig.commits.on_read(waiting=True)  # and the clock advances
    rig.give(B, 1)
    await committed(rig, 2)


async def test_a_periodic_commit_that_has_not_started_is_overtaken_too(rig: Rig) -> None:
    rig.give(A, 5)
    await due(rig)
    rig.commits.on_read()
    await rig.commits.before_revoke([A], rig.soon)
    assert rig.store.offsets == [{A: 5}]
    rig.give(B, 1)
    rig.commits.on_read(waiting=True)
    await committed(rig, 2)


async def test_the_last_commit_overtakes_one_that_the_clock_begins_meanwhile(rig: Rig) -> None:
    """The interval passed while the first was in flight, so another is due at its end."""
    never = asyncio.Event()
    rig.store.answers = [never]
    rig.give(A, 5)
    rig.commits.on_read(waiting=True)
    await until(lambda: bool(rig.store.commits))
    await asyncio.sleep(2 * rig.options.auto_commit_interval)
    rig.store.answers = [None, never]
    async with asyncio.timeout(5):
        await rig.commits.before_revoke([A], rig.soon)
    assert rig.commits.counters.commits == 1
    assert rig.store.offsets == [{A: 5}, {A: 5}]


async def test_close_waits_for_commits_of_revoked_partitions(rig: Rig) -> None:
    gate = asyncio.Event()
    rig.store.answers = [gate]
    rig.give(A, 5)
    rig.commits.let_go([A])
    rig.own(B)
    closing = asyncio.ensure_future(rig.commits.at_close(rig.soon))
    await until(lambda: bool(rig.store.commits))
    assert not closing.done()
    gate.set()
    await closing
    assert rig.commits.counters.commits == 1


async def test_a_partition_let_go_is_committed_although_the_consumer_is_joining_since(
    rig: Rig,
) -> None:
    rig.shared, rig.membership.identity = False, None
    rig.give(A, 5)
    rig.commits.let_go([A])
    rig.shared = rig.membership.rejoin_needed = True
    await committed(rig, 1)
    assert rig.store.commits == [({A: 5}, None)]


async def test_a_refused_commit_of_a_partition_let_go_is_not_sent_again_by_a_member(
    rig: Rig,
) -> None:
    """The group had members, which may have read further."""
    rig.shared, rig.membership.identity = False, None
    rig.give(A, 5)
    gate = asyncio.Event()
    rig.store.answers.append(gate)
    rig.store.after = UnknownMemberIdError()
    rig.commits.let_go([A])
    await until(lambda: bool(rig.store.commits))
    rig.shared, rig.membership.identity = True, ME
    gate.set()
    await until(lambda: rig.commits.counters.failures == 1)
    assert rig.store.commits == [({A: 5}, None)]


async def test_committed_waits_for_commits_of_revoked_partitions(rig: Rig) -> None:
    """Otherwise a reassigned partition begins at an older commit, past a batch that a block was
    still processing."""
    gate = asyncio.Event()
    rig.store.answers = [gate]
    rig.give(A, 5)
    rig.commits.let_go([A])
    rig.own(A)
    asking = asyncio.ensure_future(rig.commits.committed([A], rig.soon))
    await until(lambda: bool(rig.store.commits))
    await asyncio.sleep(0)
    assert not rig.store.reads
    gate.set()
    await asking
    assert len(rig.store.reads) == 1


async def test_committed_waits_no_longer_than_its_deadline(rig: Rig) -> None:
    rig.store.answers = [asyncio.Event()]
    rig.give(A, 5)
    rig.commits.let_go([A])
    await until(lambda: bool(rig.store.commits))
    async with asyncio.timeout(2):
        await rig.commits.committed([A], asyncio.get_running_loop().time() + 0.02)
    assert len(rig.store.reads) == 1


async def test_close_ends_by_its_deadline(rig: Rig) -> None:
    rig.store.answers = [asyncio.Event()]
    rig.give(A, 5)
    rig.commits.let_go([A])
    rig.give(B, 7)
    async with asyncio.timeout(2):
        await rig.commits.at_close(asyncio.get_running_loop().time() + 0.05)
        assert rig.commits.counters.commits == 0


# --- one at a time


async def test_commits_take_effect_in_order(rig: Rig) -> None:
    gate = asyncio.Event()
    rig.store.answers = [gate]
    first = asyncio.ensure_future(rig.commits.commit({A: OffsetAndMetadata(1, "")}, rig.soon))
    second = asyncio.ensure_future(rig.commits.commit({A: OffsetAndMetadata(2, "")}, rig.soon))
    await until(lambda: bool(rig.store.commits))
    with pytest.raises(KafkaTimeoutError, match="earlier commit"):
        await rig.commits.commit({A: OffsetAndMetadata(3, "")}, asyncio.get_running_loop().time())
    assert rig.store.offsets == [{A: 1}]
    gate.set()
    await asyncio.gather(first, second)
    assert rig.store.offsets == [{A: 1}, {A: 2}]


async def test_no_commit_overtakes_that_of_the_clock(rig: Rig) -> None:
    """The read that starts it, the next record and its commit follow without a pause."""
    rig.give(A, 5)
    await due(rig)
    rig.commits.on_read()
    rig.give(A, 6)
    await rig.commits.commit(None, rig.soon)
    assert rig.store.offsets == [{A: 5}, {A: 6}]


async def test_the_clock_commits_no_partition_that_is_lost_before_the_commit_begins(
    rig: Rig,
) -> None:
    """In the same iteration of the event loop; it is assigned again before the commit is sent."""
    rig.give(A, 5)
    await due(rig)
    rig.commits.on_read()
    rig.own(B)
    rig.own(A, B)
    await until(lambda: rig.commits.counters.failures == 1)
    assert not rig.store.commits


async def test_a_cancelled_commit_does_not_block_the_next(rig: Rig) -> None:
    rig.store.answers = [asyncio.Event()]
    first = asyncio.ensure_future(rig.commits.commit({A: OffsetAndMetadata(1, "")}, rig.soon))
    await until(lambda: bool(rig.store.commits))
    first.cancel()
    await rig.commits.commit({A: OffsetAndMetadata(2, "")}, rig.soon)
    assert rig.store.offsets == [{A: 1}, {A: 2}]


async def test_commits_are_reported_and_counted(rig: Rig) -> None:
    rig.give(A, 5)
    await rig.commits.commit(None, rig.soon)
    rig.store.answers = [GroupAuthorizationFailedError("g")]
    with pytest.raises(GroupAuthorizationFailedError):
        await rig.commits.commit({B: OffsetAndMetadata(1, "")}, rig.soon)
    assert rig.reported == [{A: (5, "")}]
    counters = rig.commits.counters
    assert (counters.commits, counters.failures) == (1, 1)
    assert counters.time >= counters.slowest >= 0
    assert counters.last > 0


async def test_a_commit_contains_the_leader_epoch_of_the_last_record(rig: Rig) -> None:
    rig.positions.state(A).seek(5, 3)
    rig.give(B, 1)
    given = rig.commits.given()
    assert (given[A], given[A].leader_epoch) == ((5, ""), 3)
    assert given[B].leader_epoch is None
    rig.positions.state(B).ask_reset(OffsetReset.LATEST)
    assert list(rig.commits.given()) == [A]
    assert rig.commits.given([B, TopicPartition("gone", 0)]) == {}


async def test_no_position_in_a_recreated_topic_is_committed(rig: Rig) -> None:
    """The group would begin there in the new topic."""
    rig.give(A, 5).remade = True
    rig.give(B, 1)
    await rig.commits.commit(None, rig.soon)
    await rig.commits.at_close(rig.soon)
    assert rig.store.offsets == [{B: 1}]


# --- the identity of a commit

THEY_ARE_OUT = """
    ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_MEMBER_EPOCH
    STALE_MEMBER_EPOCH GROUP_ID_NOT_FOUND
"""

REFUSALS = reactions(out=THEY_ARE_OUT, otherwise="raise")

CASES = [
    pytest.param(kafka_errors[code], told == "out", id=kafka_errors[code].message)
    for code, told in REFUSALS.items()
]


@pytest.mark.parametrize(("error", "out"), CASES)
async def test_a_refused_member_is_out(error: type[KafkaError], out: bool, rig: Rig) -> None:
    """Refused although its identity has not changed: an error of the group ends the commit."""
    rig.membership.becomes = lambda: None
    rig.store.answers = [error("t-0")]
    rig.give(A, 5)
    with pytest.raises(CommitFailedError if out else error) as raised:
        await rig.commits.commit(None, rig.soon)
    if out:
        assert isinstance(raised.value.__cause__, error)
    assert rig.membership.told == [(error, ME)]
    assert rig.driver.woken == 1
    assert len(rig.store.commits) == 1


@pytest.mark.parametrize(("error", "out"), CASES)
async def test_a_member_that_has_become_another_commits_again(
    error: type[KafkaError], out: bool, rig: Rig
) -> None:
    """Refused under its old identity while it still owns the partitions: it retries with the new
    one."""
    rig.membership.becomes = lambda: ME_LATER
    rig.store.answers = [error("t-0")]
    rig.give(A, 5)
    if out:
        await rig.commits.commit(None, rig.soon)
        assert rig.store.identities == [ME, ME_LATER]
    else:
        with pytest.raises(error):
            await rig.commits.commit(None, rig.soon)
        assert rig.store.identities == [ME]
    assert rig.membership.told == [(error, ME)]


async def test_a_past_identity_that_is_fenced_commits_again_with_the_current_one(rig: Rig) -> None:
    """With another member id, this member itself replaced the old one."""
    refused = asyncio.Event()
    rig.store.answers = [refused]
    rig.give(A, 5)
    commit = asyncio.create_task(rig.commits.commit(None, rig.soon))
    await asyncio.sleep(0)
    rig.membership.identity = ME_LATER
    rig.store.after = FencedInstanceIdError("t-0")
    refused.set()
    await commit
    assert rig.store.identities == [ME, ME_LATER]


async def test_a_commit_is_not_retried_for_a_partition_that_was_lost_meanwhile(rig: Rig) -> None:
    def becomes() -> CommitIdentity:
        rig.own(B)
        rig.own(A, B)  # it is back, but another may have owned it in between
        return ME_LATER

    rig.membership.becomes = becomes
    rig.store.answers = [IllegalGenerationError("t-0")]
    rig.give(A, 5)
    with pytest.raises(CommitFailedError):
        await rig.commits.commit(None, rig.soon)
    assert len(rig.store.commits) == 1


async def test_a_rebalance_under_way_ends_a_commit_at_once(rig: Rig) -> None:
    rig.store.answers = [RebalanceInProgressError("t-0")]
    rig.give(A, 5)
    with pytest.raises(CommitFailedError) as raised:
        await rig.commits.commit(None, rig.soon)
    assert isinstance(raised.value.__cause__, RebalanceInProgressError)
    assert len(rig.store.commits) == 1


@pytest.mark.parametrize("announced", [True, False])
async def test_a_stale_epoch_is_waited_for(announced: bool, rig: Rig) -> None:
    rig.store.answers = [StaleMemberEpochError("t-0")]
    rig.give(A, 5)
    commit = asyncio.ensure_future(rig.commits.commit(None, rig.soon))
    await until(lambda: bool(rig.membership.told))
    assert rig.membership.told == [(StaleMemberEpochError, ME)]
    rig.commits.on_change()  # for another reason
    await asyncio.sleep(0)
    assert len(rig.store.commits) == 1
    rig.membership.identity = ME_LATER
    if announced:
        rig.commits.on_change()
    await commit
    assert rig.store.commits == [({A: 5}, ME), ({A: 5}, ME_LATER)]


async def test_a_heartbeat_without_another_epoch_is_enough(rig: Rig) -> None:
    rig.store.answers = [StaleMemberEpochError("t-0"), StaleMemberEpochError("t-0")]
    rig.give(A, 5)
    commit = asyncio.ensure_future(rig.commits.commit(None, rig.soon))
    for attempt in (1, 2):
        await until(lambda attempt=attempt: len(rig.membership.told) == attempt)
        rig.membership.counters.last_heartbeat = asyncio.get_running_loop().time()
        rig.commits.on_change()
        await asyncio.sleep(0)
        assert len(rig.store.commits) == attempt  # not so fast
    await commit
    assert rig.store.identities == [ME, ME, ME]


async def test_a_stale_epoch_that_does_not_rise_fails_at_the_deadline(rig: Rig) -> None:
    rig.store.answers = [StaleMemberEpochError("t-0")]
    rig.give(A, 5)
    with pytest.raises(CommitFailedError) as raised:
        await rig.commits.commit(None, asyncio.get_running_loop().time() + 0.02)
    assert isinstance(raised.value.__cause__, StaleMemberEpochError)


async def test_a_fenced_static_member_raises(rig: Rig) -> None:
    rig.store.answers = [FencedInstanceIdError("t-0")]
    with pytest.raises(FencedInstanceIdError):
        await rig.commits.commit({A: OffsetAndMetadata(1, "")}, rig.soon)
    assert rig.membership.told == [(FencedInstanceIdError, ME)]


@pytest.mark.parametrize("joining", [True, False])
async def test_a_consumer_outside_the_group_sends_no_commit(joining: bool, rig: Rig) -> None:
    rig.membership.identity = None
    rig.membership.rejoin_needed = joining
    rig.give(A, 5)
    with pytest.raises(CommitFailedError) as raised:
        await rig.commits.commit(None, rig.soon)
    assert isinstance(raised.value.__cause__, RebalanceInProgressError) is joining
    assert not rig.store.commits
    assert not rig.commits.member


async def test_manually_assigned_partitions_are_committed_without_a_member_id(rig: Rig) -> None:
    rig.membership.identity = None
    rig.shared = False
    rig.give(A, 5)
    await rig.commits.commit(None, rig.soon)
    assert rig.store.commits == [({A: 5}, None)]
    rig.store.answers = [UnknownMemberIdError("the group has members")]
    with pytest.raises(CommitFailedError):
        await rig.commits.commit(None, rig.soon)
    assert not rig.membership.told


async def test_a_leaving_member_commits_with_its_member_id(rig: Rig) -> None:
    rig.shared = False  # unsubscribed, and the LeaveGroup is in flight
    await rig.commits.commit({A: OffsetAndMetadata(5, "")}, rig.soon)
    assert rig.store.identities == [ME]


async def test_a_member_that_left_commits_without_a_member_id(rig: Rig) -> None:
    """Offsets of a manual assignment after unsubscribing were committed just before the
    LeaveGroup."""
    rig.shared = False
    rig.membership.becomes = lambda: None
    rig.store.answers = [UnknownMemberIdError("t-0")]
    rig.give(A, 5)
    await rig.commits.commit(None, rig.soon)
    assert rig.store.identities == [ME, None]


# --- reading


async def test_classic_members_fetch_offsets_without_a_member_id(rig: Rig) -> None:
    assert await rig.commits.committed([A], rig.soon) == {A: (7, None, "")}
    assert rig.store.reads == [None]


async def test_a_consumer_protocol_member_fetches_offsets_with_its_identity() -> None:
    rig = Rig(modern=True)
    rig.store.answers = [StaleMemberEpochError("g"), UnknownMemberIdError("g")]
    answers: list[CommitIdentity | None] = [ME_LATER, None]
    rig.membership.becomes = lambda: answers.pop(0)
    assert await rig.commits.committed([A], rig.soon) == {A: (7, None, "")}
    assert rig.store.reads == [ME, ME_LATER, None]
    assert rig.membership.told == [(StaleMemberEpochError, ME), (UnknownMemberIdError, ME_LATER)]


async def test_a_stale_member_epoch_is_retried_until_the_deadline() -> None:
    rig = Rig(modern=True)
    rig.store.answers = [StaleMemberEpochError("g")]
    with pytest.raises(StaleMemberEpochError):
        await rig.commits.committed([A], asyncio.get_running_loop().time() + 0.02)


async def test_a_group_error_without_a_membership_is_raised(rig: Rig) -> None:
    rig.store.answers = [UnknownMemberIdError("g")]
    with pytest.raises(UnknownMemberIdError):
        await rig.commits.committed([A], rig.soon)
    assert not rig.membership.told
