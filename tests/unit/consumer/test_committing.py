"""Commits of consumers in the embedded broker's groups: arguments, errors in each state, timers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from aiokafka_lite.abc import ConsumerRebalanceListener
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    FencedInstanceIdError,
    GroupIdNotFound,
    IllegalOperation,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    PartitionsRevokedError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka_lite.share import AIOKafkaShareConsumer
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.consumer.makers import append, numbered, until
from tests.unit.consumer.members import CONFIGS, PROTOCOLS
from tests.unit.error_table import METADATA_IS_OLD, PASSES, reactions

pytestmark = pytest.mark.unhurried

Make = Callable[..., AIOKafkaConsumer]
ORDERS = TopicPartition("orders", 0)
OTHER = TopicPartition("other", 0)

BY_HAND = "by hand"
STATES = [*PROTOCOLS, BY_HAND]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    topics = {"orders": 1, "other": 1}
    async with FakeCluster(brokers=2, topics=topics, broker_configs=CONFIGS) as cluster:
        append(cluster, numbered(1000))
        yield cluster


@pytest.fixture
async def make(cluster: FakeCluster) -> AsyncIterator[Make]:
    made: list[AIOKafkaConsumer] = []

    def make(state: str, **options: Any) -> AIOKafkaConsumer:
        defaults: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "retry_backoff_ms": 1,
            "request_timeout_ms": 5000,
            "fetch_max_wait_ms": 50,
        }
        if state in ("eager", "cooperative"):
            # The broker waits this long for a member that lost its id, and joined with a new one.
            defaults["session_timeout_ms"] = 500
        consumer = AIOKafkaConsumer(**{**defaults, **PROTOCOLS.get(state, {}), **options})
        if state == BY_HAND:
            consumer.assign([ORDERS, OTHER])
        else:
            consumer.subscribe(["orders", "other"])
        made.append(consumer)
        return consumer

    yield make
    for consumer in made:
        await consumer.stop()


@pytest.fixture(params=STATES)
async def reader(request: pytest.FixtureRequest, make: Make) -> AIOKafkaConsumer:
    """A started consumer in one of the states."""
    consumer = make(request.param)
    await consumer.start()
    return consumer


# --- arguments, with aiokafka's messages


@pytest.mark.parametrize("offsets", [{}, [], 5, {ORDERS: (1, "a", 2)}, {ORDERS: "x"}])
async def test_offsets_that_are_none(offsets: Any, reader: AIOKafkaConsumer) -> None:
    with pytest.raises(ValueError):
        await reader.commit(offsets)


@pytest.mark.parametrize("offset", [-1, 2**63, True, 1.5])
async def test_offsets_that_no_record_has(offset: Any, reader: AIOKafkaConsumer) -> None:
    with pytest.raises(ValueError):
        await reader.commit({ORDERS: offset})


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ({"orders": 1}, "Key should be TopicPartition instance"),
        ({("orders", 0): 1}, "Key should be TopicPartition instance"),
        ({ORDERS: (1, 2)}, "Metadata should be a string"),
        ({ORDERS: (1, b"x")}, "Metadata should be a string"),
    ],
)
async def test_offsets_of_wrong_types(offsets: Any, words: str, reader: AIOKafkaConsumer) -> None:
    with pytest.raises(TypeError, match=words):
        await reader.commit(offsets)


async def test_partitions_that_are_not_assigned(reader: AIOKafkaConsumer) -> None:
    stranger = TopicPartition("orders", 7)
    with pytest.raises(IllegalStateError, match="is not assigned"):
        await reader.commit({stranger: 1})
    with pytest.raises(IllegalStateError, match="not assigned"):
        await reader.seek_to_committed(stranger)
    with pytest.raises(TypeError, match="TopicPartition"):
        await reader.seek_to_committed("orders")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match="TopicPartition"):
        await reader.committed("orders")  # type: ignore[arg-type]  # wrong on purpose
    assert await reader.committed(stranger) is None


async def test_every_form_of_an_offset_is_accepted(
    reader: AIOKafkaConsumer, cluster: FakeCluster
) -> None:
    for number, told in enumerate((5, (6, "words"), OffsetAndMetadata(7, ""), [8, "words"])):
        await reader.commit({ORDERS: told})
        assert await reader.committed(ORDERS) == 5 + number
    await reader.commit({ORDERS: OffsetAndMetadata(9, "words", leader_epoch=0)})
    kept = cluster.state.groups.get("g").offsets.find("orders", 0)
    assert (kept.offset, kept.leader_epoch, kept.metadata) == (9, 0, "words")
    # A record has the epoch -1 if it is stored in an old message format.
    await reader.commit({ORDERS: OffsetAndMetadata(10, "", leader_epoch=-1)})
    assert await reader.committed(ORDERS) == 10
    await reader.commit({ORDERS: 0})
    assert await reader.committed(ORDERS) == 0
    assert await reader.committed(OTHER) is None


async def test_commits_without_a_group_assignment_or_subscription_are_refused(
    cluster: FakeCluster, make: Make
) -> None:
    alone = AIOKafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers)
    for call in (alone.commit(), alone.committed(ORDERS)):
        with pytest.raises(IllegalOperation, match="Requires group_id"):
            await call
    with pytest.raises(IllegalStateError, match="No partitions"):
        await alone.seek_to_committed()
    await alone.stop()
    member = make("eager")
    with pytest.raises(IllegalStateError, match="No partitions assigned"):
        await member.commit()
    member.unsubscribe()
    with pytest.raises(IllegalStateError, match="Not subscribed to any topics"):
        await member.commit()
    with pytest.raises(IllegalStateError, match="No partitions"):
        await member.seek_to_committed()
    await member.stop()
    for call in (member.commit(), member.committed(ORDERS), member.seek_to_committed()):
        with pytest.raises(ConsumerStoppedError):
            await call


async def test_a_call_that_the_stop_ends(reader: AIOKafkaConsumer, cluster: FakeCluster) -> None:
    cluster.control(ApiKey.OFFSET_COMMIT, drop=True, times=None)
    cluster.control(ApiKey.OFFSET_FETCH, drop=True, times=None)
    calls = [
        asyncio.ensure_future(call)
        for call in (reader.commit({ORDERS: 1}), reader.committed(ORDERS))
    ]
    await until(lambda: cluster.count(ApiKey.OFFSET_COMMIT) > 0)
    await reader.stop()
    for call in calls:
        with pytest.raises(ConsumerStoppedError):
            await call


async def test_seek_to_committed(reader: AIOKafkaConsumer, cluster: FakeCluster) -> None:
    assert await reader.seek_to_committed() == {ORDERS: None, OTHER: None}
    await reader.getmany(timeout_ms=2000, max_records=20)
    await reader.commit({ORDERS: 5, OTHER: 0})
    assert await reader.seek_to_committed(ORDERS) == {ORDERS: 5}
    assert (await reader.getone(ORDERS)).offset == 5
    assert await reader.seek_to_committed() == {ORDERS: 5, OTHER: 0}
    assert await reader.position(ORDERS) == 5
    await reader.commit({ORDERS: 0})
    assert await reader.seek_to_committed(ORDERS) == {ORDERS: 0}
    assert (await reader.getone(ORDERS)).offset == 0


# --- every error, in each state

OF_MEMBERS = reactions(
    again=f"{PASSES} {METADATA_IS_OLD} STALE_MEMBER_EPOCH",
    out="""
        ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_MEMBER_EPOCH
        GROUP_ID_NOT_FOUND
    """,
    otherwise="raise",
)

BY_NOBODY = reactions(
    again=f"{PASSES} {METADATA_IS_OLD}",
    out="""
        ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_MEMBER_EPOCH
        STALE_MEMBER_EPOCH
    """,
    otherwise="raise",
)


@pytest.mark.parametrize("state", STATES)
async def test_a_commit_is_refused(state: str, make: Make, cluster: FakeCluster) -> None:
    """The outcome of the commit; whatever it is, the next one succeeds after a while."""
    consumer = make(state)
    await consumer.start()
    expected = dict(BY_NOBODY if state == BY_HAND else OF_MEMBERS)
    del expected[FencedInstanceIdError.errno]  # ends the membership: below
    found: dict[int, str] = {}
    for offset, code in enumerate(expected):
        fault = cluster.control(ApiKey.OFFSET_COMMIT, error=code)
        try:
            await consumer.commit({ORDERS: offset})
        except CommitFailedError as error:
            found[code] = "out" if type(error.__cause__) is for_code(code) else repr(error)
        except KafkaError as error:
            found[code] = "raise" if type(error) is for_code(code) else repr(error)
        else:
            assert cluster.committed("g")[ORDERS] == offset
            found[code] = "again"
        assert fault.hits == 1
        await until(lambda: _settled(consumer))
        await consumer.commit({ORDERS: 777})
    assert found == expected


def _settled(consumer: AIOKafkaConsumer) -> bool:
    """True if it has its expected partitions."""
    core = consumer._core
    if core.group is None or ORDERS not in consumer.assignment():
        return False
    return core.subscription.manual or not core.group.driver.membership.rejoin_needed


@pytest.mark.parametrize("state", PROTOCOLS)
async def test_a_commit_into_a_group_that_no_longer_exists_fails_and_the_member_rejoins(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    """All members seemed dead, such as this one on a suspended machine, and the broker removed
    the group. For the application, that is a normal rebalance."""
    consumer = make(state)
    await consumer.start()
    cluster.state.groups.delete("g")
    with pytest.raises(CommitFailedError) as raised:
        await consumer.commit({ORDERS: 1})
    assert isinstance(raised.value.__cause__, GroupIdNotFound)
    async with asyncio.timeout(30):
        while True:
            try:
                await consumer.commit({ORDERS: 2})
            except CommitFailedError:
                await asyncio.sleep(0.01)
            else:
                break
    assert cluster.committed("g")[ORDERS] == 2


async def test_a_commit_to_a_share_group_says_that_the_group_does_not_exist(
    make: Make, cluster: FakeCluster
) -> None:
    """There was no rebalance, and a program that continues would never commit anything."""
    servers = cluster.bootstrap_servers
    async with AIOKafkaShareConsumer("orders", bootstrap_servers=servers, group_id="g"):
        consumer = make(BY_HAND)
        await consumer.start()
        await until(lambda: bool(cluster.state.groups.all()))
        with pytest.raises(GroupIdNotFound):
            await consumer.commit({ORDERS: 1})


@pytest.mark.parametrize("state", PROTOCOLS)
async def test_a_fenced_member_raises(state: str, make: Make, cluster: FakeCluster) -> None:
    consumer = make(state, group_instance_id="i")
    await consumer.start()
    cluster.control(ApiKey.OFFSET_COMMIT, error=FencedInstanceIdError)
    with pytest.raises(FencedInstanceIdError):
        await consumer.commit({ORDERS: 1})


@pytest.mark.parametrize("state", ["eager", "cooperative"])
async def test_a_commit_of_a_past_member_id_is_not_fenced_by_the_consumer_itself(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    """A static member that did not poll rejoins with another member id. The broker then rejects
    a delayed commit with the old id as coming from a fenced instance."""
    consumer = make(state, group_instance_id="i", max_poll_interval_ms=400)
    await consumer.start()
    membership = consumer._core.group.driver.membership
    first = membership.member_id
    cluster.control(ApiKey.OFFSET_COMMIT, delay=2.0)
    commit = asyncio.create_task(consumer.commit({ORDERS: 1}))
    await until(lambda: membership.generation < 0)
    await consumer.getone()
    assert membership.member_id not in (first, "")
    with pytest.raises(CommitFailedError) as raised:
        await commit
    assert isinstance(raised.value.__cause__, FencedInstanceIdError)
    await consumer.getone()
    await consumer.commit({ORDERS: 2})
    assert cluster.committed("g")[ORDERS] == 2


READING = reactions(
    again=f"{PASSES} {METADATA_IS_OLD}",
    otherwise="raise",
)


@pytest.mark.parametrize("state", STATES)
async def test_every_error_code_of_an_offset_fetch(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    consumer = make(state)
    await consumer.start()
    await consumer.commit({ORDERS: 5})
    expected = dict(READING)
    if state == "modern":
        for code in _codes(
            "STALE_MEMBER_EPOCH UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH GROUP_ID_NOT_FOUND"
        ):
            expected[code] = "again"  # with the next epoch, or without a member id
        for code in _codes("ILLEGAL_GENERATION REBALANCE_IN_PROGRESS"):
            expected[code] = "again"  # no broker returns this for an OffsetFetch
    found: dict[int, str] = {}
    for code in expected:
        cluster.control(ApiKey.OFFSET_FETCH, error=code)
        try:
            told = await consumer.committed(ORDERS)
        except KafkaError as error:
            found[code] = "raise" if type(error) is for_code(code) else repr(error)
        else:
            assert told == 5
            found[code] = "again"
    assert found == expected


def _codes(names: str) -> list[int]:
    table = reactions(these=names, otherwise="")
    return [code for code, told in table.items() if told]


# --- in a rebalance


@pytest.mark.parametrize("state", PROTOCOLS)
async def test_a_commit_of_a_partition_that_another_member_has_by_now(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    """A rebalance is no misuse: the error is that of other late commits, whether another task
    has read since or not."""
    consumer = make(state)
    await consumer.start()
    await consumer.getmany(timeout_ms=2000)
    other = make(state)
    await other.start()
    await until(lambda: len(consumer.assignment()) == 1)
    (gone,) = other.assignment()
    with pytest.raises(CommitFailedError, match=f"revoked {gone.topic}-0") as caught:
        await consumer.commit({gone: 5})
    assert isinstance(caught.value, IllegalStateError)  # what aiokafka raises
    assert isinstance(caught.value.__cause__, RebalanceInProgressError)
    await consumer.getmany()
    with pytest.raises(CommitFailedError, match=f"revoked {gone.topic}-0"):
        await consumer.commit({gone: 5})
    assert gone not in cluster.committed("g")
    (kept,) = consumer.assignment()
    await consumer.commit({kept: 5})
    assert cluster.committed("g")[kept] == 5


@pytest.mark.parametrize("offsets", [{ORDERS: 5}, None], ids=["offsets", "delivered"])
@pytest.mark.parametrize("state", ["eager", "cooperative"])
async def test_a_commit_after_the_consumer_left_the_group(
    state: str, offsets: dict[TopicPartition, int] | None, make: Make, cluster: FakeCluster
) -> None:
    """It has read nothing for `max_poll_interval_ms`, and lost all its partitions."""
    consumer = make(state, max_poll_interval_ms=400, rebalance_timeout_ms=400)
    await consumer.start()
    await consumer.getmany(timeout_ms=2000)
    await until(lambda: not consumer.assignment())
    with pytest.raises(PartitionsRevokedError, match=r"revoked .*orders-0"):
        await consumer.commit(offsets)
    with pytest.raises(IllegalStateError, match="No partitions assigned") as caught:
        await consumer.commit({TopicPartition("orders", 7): 5})
    assert not isinstance(caught.value, CommitFailedError)  # it was never assigned
    assert cluster.committed("g") == {}


async def test_a_commit_while_the_others_join_succeeds(make: Make, cluster: FakeCluster) -> None:
    """Its generation stays in force until all have joined."""
    consumer = make("cooperative")
    await consumer.start()
    joining = cluster.control(ApiKey.JOIN_GROUP, delay=0.2)
    consumer.enforce_rebalance()
    await joining.struck()
    await consumer.commit({ORDERS: 5})
    assert cluster.committed("g") == {ORDERS: 5}


async def test_a_commit_between_join_and_sync_raises_a_rebalance_error(
    make: Make, cluster: FakeCluster
) -> None:
    consumer = make("cooperative")
    await consumer.start()
    syncing = cluster.control(ApiKey.SYNC_GROUP, delay=0.2)
    consumer.enforce_rebalance()
    await syncing.struck()
    with pytest.raises(CommitFailedError) as raised:
        await consumer.commit({ORDERS: 5})
    assert isinstance(raised.value.__cause__, RebalanceInProgressError)
    await until(lambda: _settled(consumer))
    await consumer.commit({ORDERS: 5})


async def test_a_commit_by_a_non_member_into_a_group_with_members_is_refused(
    make: Make, cluster: FakeCluster
) -> None:
    await make("eager").start()
    stranger = make(BY_HAND)
    await stranger.start()
    with pytest.raises(CommitFailedError) as raised:
        await stranger.commit({ORDERS: 5})
    assert isinstance(raised.value.__cause__, UnknownMemberIdError)


@pytest.mark.parametrize("state", STATES)
async def test_the_coordinator_moves(state: str, make: Make, cluster: FakeCluster) -> None:
    consumer = make(state)
    await consumer.start()
    for node in (1, 0, 1):
        cluster.move_coordinator("g", node)
        await consumer.commit({ORDERS: node})
        assert await consumer.committed(ORDERS) == node


@pytest.mark.parametrize("state", STATES)
async def test_commits_time_out_without_a_coordinator(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    consumer = make(state, request_timeout_ms=200)
    await consumer.start()
    faults = [
        cluster.control(api, error=15, times=None)
        for api in (ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)
    ]
    with pytest.raises(KafkaTimeoutError):
        await consumer.commit({ORDERS: 5})
    with pytest.raises(KafkaTimeoutError):
        await consumer.committed(ORDERS)
    for fault in faults:
        fault.remove()


# --- automatic


@pytest.mark.parametrize("way", ["getone", "getmany", "async for"])
@pytest.mark.parametrize("state", STATES)
async def test_a_record_that_is_worked_on_is_not_committed(
    state: str, way: str, make: Make, cluster: FakeCluster
) -> None:
    consumer = make(state, enable_auto_commit=True, auto_commit_interval_ms=20)
    await consumer.start()
    commits = consumer._core.group.commits  # type: ignore[union-attr]  # it has a group
    stream = aiter(consumer)

    async def read() -> int:
        if way == "getone":
            return (await consumer.getone()).offset
        if way == "async for":
            return (await anext(stream)).offset
        return (await consumer.getmany(timeout_ms=2000, max_records=1))[ORDERS][0].offset

    for _ in range(3):
        before = await read()
        await until(lambda: commits.due)
        assert cluster.committed("g").get(ORDERS, 0) <= before
        assert await read() == before + 1
        await until(lambda before=before: cluster.committed("g").get(ORDERS) == before + 1)
    await consumer.stop()
    assert cluster.committed("g")[ORDERS] == before + 2


@pytest.mark.parametrize("state", STATES)
async def test_a_waiting_read_commits_all_records_before_it(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    consumer = make(state, enable_auto_commit=True, auto_commit_interval_ms=20)
    await consumer.start()
    consumer.seek(ORDERS, 998)
    assert [record.offset async for record in _take(consumer, 2)] == [998, 999]
    waiting = asyncio.ensure_future(consumer.getone())
    await until(lambda: cluster.committed("g").get(ORDERS) == 1000)
    assert not waiting.done()
    waiting.cancel()


async def _take(consumer: AIOKafkaConsumer, count: int) -> AsyncIterator[Any]:
    for _ in range(count):
        yield await consumer.getone()


@pytest.mark.parametrize("state", STATES)
async def test_unsubscribing_commits_the_positions(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    consumer = make(state, enable_auto_commit=True)
    await consumer.start()
    await consumer.getmany(timeout_ms=2000, max_records=7)
    consumer.unsubscribe()
    assert consumer.assignment() == set()
    await until(lambda: cluster.committed("g").get(ORDERS) == 7)


async def _seek_back_during_an_auto_commit(
    consumer: AIOKafkaConsumer, cluster: FakeCluster, **control: Any
) -> None:
    """Commit offset 1, read to 8, and seek back to 1 once the auto-commit of 8 has been sent."""
    await consumer.start()
    await consumer.getmany(ORDERS, timeout_ms=2000, max_records=1)
    await consumer.commit()
    fault = cluster.control(ApiKey.OFFSET_COMMIT, **control)
    await consumer.getmany(ORDERS, timeout_ms=2000, max_records=7)
    waiting = asyncio.ensure_future(consumer.getone(OTHER))
    await fault.struck()
    consumer.seek(ORDERS, 1)
    waiting.cancel()


LATE_COMMITS: dict[str, dict[str, Any]] = {
    "late": {"delay": 0.2},
    "answered late": {"after_handling": True, "delay": 0.2},
}


@pytest.mark.parametrize("control", LATE_COMMITS.values(), ids=LATE_COMMITS)
@pytest.mark.parametrize("state", STATES)
async def test_position_sought_during_an_auto_commit_is_committed_on_stop(
    state: str, control: dict[str, Any], make: Make, cluster: FakeCluster
) -> None:
    consumer = make(state, enable_auto_commit=True, auto_commit_interval_ms=20)
    await _seek_back_during_an_auto_commit(consumer, cluster, **control)
    await consumer.stop()
    await asyncio.sleep(0.3)  # until the late commit would have been handled, too
    assert cluster.committed("g")[ORDERS] == 1


async def test_position_sought_during_an_auto_commit_outlasts_a_new_assignment(
    make: Make, cluster: FakeCluster
) -> None:
    consumer = make(BY_HAND, enable_auto_commit=True, auto_commit_interval_ms=20)
    await _seek_back_during_an_auto_commit(consumer, cluster, delay=0.2)
    consumer.assign([OTHER])
    consumer.assign([ORDERS, OTHER])
    assert (await consumer.getone(ORDERS)).offset == 1


class Committing(ConsumerRebalanceListener):
    """Commits the partitions that it is about to lose."""

    def __init__(self, consumer: AIOKafkaConsumer, explicit: bool) -> None:
        self.consumer = consumer
        self.explicit = explicit
        self.told: list[set[TopicPartition]] = []

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked:
            await self.consumer.commit({ORDERS: 6} if self.explicit else None)
            self.told.append(revoked)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("state", PROTOCOLS)
async def test_a_listener_commits_revoked_partitions(
    state: str, explicit: bool, make: Make, cluster: FakeCluster
) -> None:
    consumer = make(state)
    listener = Committing(consumer, explicit)
    consumer.subscribe(["orders", "other"], listener=listener)
    await consumer.start()
    await consumer.getmany(timeout_ms=2000, max_records=7)
    consumer.unsubscribe()
    await until(lambda: bool(listener.told))
    assert cluster.committed("g")[ORDERS] == (6 if explicit else 7)
    # A moment later it has left, and there is nothing left to commit.
    await until(lambda: not consumer._core.group.parting)  # type: ignore[union-attr]  # it has one
    with pytest.raises(IllegalStateError, match="Not subscribed"):
        await consumer.commit()


async def test_assigning_other_partitions_commits_the_previous_ones(
    make: Make, cluster: FakeCluster
) -> None:
    consumer = make(BY_HAND, enable_auto_commit=True)
    await consumer.start()
    await consumer.getmany(timeout_ms=2000, max_records=7)
    consumer.assign([OTHER])
    await until(lambda: cluster.committed("g").get(ORDERS) == 7)
    await consumer.stop()
    assert cluster.committed("g") == {ORDERS: 7, OTHER: 0}


@pytest.mark.parametrize("state", STATES)
async def test_a_deleted_topic_holds_up_no_stop(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    consumer = make(state, enable_auto_commit=True, metadata_max_age_ms=300_000)
    await consumer.start()
    await consumer.getmany(timeout_ms=2000, max_records=7)
    cluster.delete_topic("other")
    async with asyncio.timeout(3):
        await consumer.stop()
    assert cluster.committed("g") == {ORDERS: 7}


@pytest.mark.parametrize("state", STATES)
async def test_a_crashed_member_repeats_uncommitted_records(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    first = make(state)
    await first.start()
    await first.getmany(timeout_ms=2000, max_records=7)
    await first.commit()
    await first.getmany(timeout_ms=2000, max_records=5)
    first._core.abort()
    second = make(state)
    async with asyncio.timeout(15):
        await second.start()
        assert (await second.getone()).offset == 7


@pytest.mark.parametrize("state", STATES)
async def test_a_commit_is_cancelled_at_each_await(
    state: str, make: Make, cluster: FakeCluster
) -> None:
    """Whether it was carried out or not, the next ones are, in order."""
    consumer = make(state)
    await consumer.start()
    for passes in range(40):
        if passes % 4 == 0:
            cluster.control(ApiKey.OFFSET_COMMIT, error=14)
        for call in (consumer.commit({ORDERS: 2 * passes}), consumer.committed(ORDERS)):
            task = asyncio.ensure_future(call)
            for _ in range(passes):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await consumer.commit({ORDERS: 2 * passes + 1})
        assert await consumer.committed(ORDERS) == 2 * passes + 1
