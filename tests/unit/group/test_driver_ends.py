"""Slow or failing listeners, and the driver's end in every state, within its deadline."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.group.crew import Crew, CrewMember, until
from tests.unit.group.test_membership_driver import CONFIGS, JOINS


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
async def embedded() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"t": 6}, broker_configs=CONFIGS) as cluster:
        yield cluster


@pytest.fixture(params=[False, True], ids=["classic", "modern"])
def modern(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
async def crew(embedded: FakeCluster, modern: bool) -> AsyncIterator[Crew]:
    crew = Crew(embedded.bootstrap_servers, "g", "t", 6, modern=modern)
    yield crew
    await crew.end()


def join(modern: bool) -> ApiKey:
    return JOINS[modern]


# --- listeners


async def test_heartbeats_continue_while_a_listener_runs(crew: Crew) -> None:
    """For longer than the session."""
    at_work, go_on = asyncio.Event(), asyncio.Event()
    slow = await crew.add(session_timeout=2.0, rebalance_timeout=30.0)

    async def listen(what: str) -> None:
        if what == "assign":
            at_work.set()
            await go_on.wait()

    slow.listener = listen
    await at_work.wait()
    heartbeats = slow.machine.counters.heartbeats
    began = now()
    await until(lambda: slow.machine.counters.heartbeats > heartbeats + 5, lambda: slow)
    await until(lambda: now() > began + 3.2)
    go_on.set()
    await crew.until_settled()
    assert not any(what == "lost" for what, _ in slow.log)


async def test_a_listener_exception_is_reported_and_does_not_stop_the_member(crew: Crew) -> None:
    member = await crew.add()

    async def listen(what: str) -> None:
        raise ZeroDivisionError(what)

    member.listener = listen
    await until(lambda: member.stable, lambda: member)
    assert {repr(mistake) for mistake in member.mistakes} >= {"ZeroDivisionError('assign')"}
    member.mistakes.clear()
    await member.driver.close(now() + 10)
    assert member.machine.closed
    assert repr(member.mistakes[0]) == "ZeroDivisionError('revoke')"
    member.mistakes.clear()


async def test_a_listener_that_raises_cancelled_error_does_not_stop_the_member(crew: Crew) -> None:
    """It awaits something that is cancelled; the listener itself is not."""
    member = await crew.add()

    async def listen(what: str) -> None:
        something = asyncio.get_running_loop().create_future()
        something.cancel()
        await something

    member.listener = listen
    await until(lambda: member.stable, lambda: member)
    await member.stop()
    assert member.machine.closed


async def test_a_listener_may_stop_it_all(crew: Crew) -> None:
    member = await crew.add()
    stopped: list[float] = []

    async def listen(what: str) -> None:
        if what == "assign":
            began = now()
            await member.driver.close(began + 10)
            stopped.append(now() - began)

    member.listener = listen
    await until(lambda: bool(stopped), lambda: member)
    assert stopped[0] < 1
    await member.stop(within=1.0)
    assert not member.tasks.running


async def test_a_listener_may_leave(crew: Crew) -> None:
    member = await crew.add()
    await crew.until_settled()
    left: list[bool] = []

    async def listen(what: str) -> None:
        if what == "assign":
            left.append(await member.driver.leave("enough", now() + 10))

    member.listener = listen
    member.subscribe("t", "new")
    await until(lambda: bool(left), lambda: member)
    assert left == [False]
    await until(lambda: not member.held and not member.machine.leaving, lambda: member)


async def test_a_listener_that_never_ends_is_cut_off_at_the_deadline(crew: Crew) -> None:
    member = await crew.add()
    await crew.until_settled()
    ended: list[str] = []

    async def listen(what: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(what)

    member.listener = listen
    began = now()
    await member.driver.close(began + 0.4)
    assert 0.4 <= now() - began < 5
    assert ended == ["revoke"]
    assert not member.tasks.running


# --- ends


@pytest.mark.parametrize("apis", ["metadata", "find", "join", "sync", "leave"])
async def test_close_ends_by_its_deadline_without_any_response(
    embedded: FakeCluster, modern: bool, apis: str
) -> None:
    keys = {
        "metadata": ApiKey.METADATA,
        "find": ApiKey.FIND_COORDINATOR,
        "join": join(modern),
        "sync": ApiKey.SYNC_GROUP,
        "leave": join(modern) if modern else ApiKey.LEAVE_GROUP,
    }
    crew = Crew(embedded.bootstrap_servers, "g", "t", 6, modern=modern)
    try:
        member = CrewMember(embedded.bootstrap_servers, "g", modern=modern)
        crew.members.append(member)
        if apis == "leave":
            await member.start("t")
            await crew.until_settled()
            embedded.control(keys[apis], times=None, drop=True)
        elif apis == "metadata":
            await member.cluster.start()
            embedded.control(keys[apis], times=None, drop=True)
            member.driver.start()
            member.subscribe("t")
            await asyncio.sleep(0.2)
        else:
            fault = embedded.control(keys[apis], times=None, drop=True)
            await member.start("t")
            if apis == "sync" and modern:
                await crew.until_settled()
            else:
                await fault.struck()
        began = now()
        await member.driver.close(began + 1.0)
        assert now() - began < 3
        assert not member.tasks.running
    finally:
        await crew.end()


async def test_close_before_anything_began(embedded: FakeCluster, modern: bool) -> None:
    member = CrewMember(embedded.bootstrap_servers, "g", modern=modern)
    await member.driver.close(now() + 5)
    await member.driver.close(now() + 5)
    await member.die()


async def test_close_without_a_subscription(embedded: FakeCluster, modern: bool) -> None:
    member = CrewMember(embedded.bootstrap_servers, "g", modern=modern)
    await member.cluster.start()
    member.driver.start()
    began = now()
    await member.stop()
    assert member.machine.closed
    assert now() - began < 2


async def test_close_does_not_wait_for_a_join_in_progress(
    embedded: FakeCluster, modern: bool
) -> None:
    """The others rejoin slowly: the LeaveGroup uses another connection."""
    crew = Crew(embedded.bootstrap_servers, "g", "t", 6, modern=modern, rebalance_timeout=30.0)
    try:
        first = await crew.add()
        await crew.until_settled()
        at_work, go_on = asyncio.Event(), asyncio.Event()

        async def listen(what: str) -> None:
            at_work.set()
            await go_on.wait()

        first.listener = listen
        second = await crew.add()
        await at_work.wait()
        began = now()
        await second.stop()
        assert second.machine.closed
        assert now() - began < 3
        go_on.set()
        await until(lambda: first.stable and len(first.held) == 6, lambda: first)
    finally:
        await crew.end()


async def test_several_ends_at_once(crew: Crew) -> None:
    member = await crew.add()
    await crew.until_settled()
    deadline = now() + 10
    await asyncio.gather(*(member.driver.close(deadline) for _ in range(3)))
    assert member.machine.closed
    assert [what for what, _ in member.log].count("revoke") <= 2  # the newcomer's, the last one


async def test_an_end_that_is_cancelled_ends_at_once(crew: Crew) -> None:
    member = await crew.add()
    await crew.until_settled()

    async def listen(what: str) -> None:
        await asyncio.Event().wait()

    member.listener = listen
    closing = asyncio.create_task(member.driver.close(now() + 30))
    await until(lambda: member.log[-1][0] == "revoke")
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await until(lambda: not member.tasks.running)


async def test_an_aborted_driver_makes_no_more_callbacks(crew: Crew, embedded: FakeCluster) -> None:
    member = await crew.add()
    await crew.until_settled()
    heartbeat = ApiKey.CONSUMER_GROUP_HEARTBEAT if crew.options["modern"] else ApiKey.HEARTBEAT
    fault = embedded.control(heartbeat, delay=0.2, times=None)
    await fault.struck()
    heartbeats = member.machine.counters.heartbeats
    changes, told = member.changes, len(member.log)
    member.driver.abort()
    member.driver.on_metadata(member.cluster.metadata)
    await asyncio.sleep(0.5)
    assert member.machine.counters.heartbeats == heartbeats
    assert (member.changes, len(member.log)) == (changes, told)
    assert not member.tasks.running


async def test_leaving_is_not_waited_for_beyond_its_deadline(crew: Crew) -> None:
    member = await crew.add()
    await crew.until_settled()
    go_on = asyncio.Event()

    async def listen(what: str) -> None:
        await go_on.wait()

    member.listener = listen
    began = now()
    assert not await member.driver.leave("unsubscribed", began + 0.2)
    assert now() - began < 2
    go_on.set()
    await until(lambda: not member.machine.leaving, lambda: member)
    assert not member.held


async def test_a_closed_driver_takes_no_subscription(crew: Crew) -> None:
    member = await crew.add()
    await crew.until_settled()
    await member.driver.close(now() + 10)
    with pytest.raises(IllegalStateError):
        member.subscribe("t")


async def test_a_static_member_stays_or_leaves_on_request(crew: Crew) -> None:
    stays = await crew.add(group_instance_id="a")
    goes = await crew.add(group_instance_id="b")
    other = await crew.add(group_instance_id="c")
    await crew.until_settled()
    held = stays.held
    await stays.stop()
    again = await crew.add(group_instance_id="a")
    await until(lambda: again.held == held, lambda: crew.members)
    await goes.stop(stay=False)
    await crew.until_settled()
    assert len(other.held) == 3


async def test_a_process_that_was_stopped_for_longer_than_its_session(modern: bool) -> None:
    """Its partitions already belong to another member: the listener is called first."""
    with FakeCluster(topics={"t": 6}, broker_configs=CONFIGS) as embedded:
        member = CrewMember(embedded.bootstrap_servers, "g", modern=modern, session_timeout=0.6)
        try:
            await member.start("t")
            await until(lambda: member.stable and len(member.held) == 6, lambda: member)
            member.log.clear()
            # Like SIGSTOP, this stops this whole loop; the broker's is in another thread.
            time.sleep(3.5 if modern else 1.0)  # noqa: ASYNC251  # it is the fault itself
            await until(lambda: bool(member.log), lambda: member)
            assert member.log[0][0] == "lost"
            await until(lambda: member.stable and len(member.held) == 6, lambda: member)
        finally:
            await member.die()
