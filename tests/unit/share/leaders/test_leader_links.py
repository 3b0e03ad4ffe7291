"""Links of leaders that no longer have a partition of the consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from aiokafka_lite.errors import (
    GroupCoordinatorNotAvailableError,
    InvalidRecordStateError,
    UnknownError,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.share.share_session import PartitionId
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

PATIENCE = 60.0


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def fill(cluster: FakeCluster, count: int) -> None:
    for value in range(count):
        cluster.produce("jobs", b"%d" % value, partition=value % 2)


def closings(cluster: FakeCluster) -> list[object]:
    """Count the requests that close a session from now on."""
    seen: list[object] = []

    def closes(request: object) -> bool:
        if request.share_session_epoch == -1:  # type: ignore[attr-defined]
            seen.append(request)
        return False

    cluster.control(ApiKey.SHARE_ACKNOWLEDGE, times=None, error=UnknownError, when=closes)
    return seen


async def test_a_link_without_partitions_closes_its_session_and_ends(cluster, make) -> None:
    fill(cluster, 10)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        links = consumer._core._leaders._links
        seen: set[bytes] = set()
        while len(seen) < 10:
            for record in await consumer.getmany(timeout_ms=1000):
                seen.add(record.value)
                await record.accept()
        assert links.keys() == {0, 1}
        closed = closings(cluster)
        cluster.move_leader("jobs", 1, 0)
        await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + PATIENCE)
        await until(lambda: links.keys() == {0})
        assert len(closed) == 1
        cluster.move_leader("jobs", 1, 1)
        cluster.produce("jobs", b"10", partition=1)
        record = await consumer.getone()
        assert record.value == b"10"
        assert await record.accept() is None
        assert links.keys() == {0, 1}


async def test_held_records_are_acknowledged_before_the_link_ends(cluster, make) -> None:
    fill(cluster, 2)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        links = consumer._core._leaders._links
        held = [await consumer.getone() for _ in range(2)]
        closed = closings(cluster)
        consumer.unsubscribe()
        await until(lambda: not any(link.session.wanted for link in links.values()))
        assert links.keys() == {0, 1}
        assert closed == []
        for record in held:
            assert await record.accept() is None
        await until(lambda: not links)
        assert len(closed) == 2
        consumer.subscribe(["jobs"])
        cluster.produce("jobs", b"new", partition=1)
        record = await consumer.getone()
        assert record.value == b"new"
        record.accept()


async def test_a_place_means_the_newest_delivery(cluster, make) -> None:
    """Only a request to the former leader shows that the lock is lost."""
    cluster.produce("jobs", b"0", partition=0)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        stale = await consumer.getone()
        cluster.move_leader("jobs", 0, 1)
        await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + PATIENCE)
        again = await consumer.getone()
        assert (stale.offset, again.offset) == (0, 0)
        assert stale.lock_deadline > 0
        assert await consumer.acknowledge("jobs", 0, 0) is None
        assert again.settled
        assert not stale.settled


async def test_links_that_have_ended_no_longer_watch_the_connection(cluster, make) -> None:
    """Otherwise it keeps them all, and a chain of a thousand watchers ends in a RecursionError."""
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        leaders, assignment = consumer._core._leaders, consumer.assignment()
        connections, watchers = set(), set()
        for number in range(3):
            cluster.produce("jobs", b"%d" % number, partition=0)
            assert await (await consumer.getone()).accept() is None
            connection = leaders._links[0]._exchanges._connection.current
            leaders.route(())
            await until(lambda: not leaders._links)
            connections.add(connection)
            watchers.add(connection.on_close)
            leaders.route(assignment)
        assert len(connections) == len(watchers) == 1
        link = leaders._links[0]
        cluster.produce("jobs", b"held", partition=0)
        record = await consumer.getone()
        connection.close()
        assert record.lock_deadline == 0.0
        assert leaders._links[0] is link
        assert (await consumer.getone()).delivery_count == 2


async def test_a_session_that_cannot_be_closed_fails_no_read(cluster, make) -> None:
    fill(cluster, 1)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        links = consumer._core._leaders._links
        await (await consumer.getone()).accept()
        fault = cluster.control(ApiKey.SHARE_ACKNOWLEDGE, error=UnknownError)
        consumer.unsubscribe()
        await fault.struck()
        await until(lambda: not links)
        consumer.subscribe(["jobs"])
        cluster.produce("jobs", b"new", partition=0)
        assert (await consumer.getone()).value == b"new"


async def test_a_link_forgets_the_names_of_partitions_that_it_no_longer_needs(
    cluster, make
) -> None:
    fill(cluster, 2)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        links = consumer._core._leaders._links
        held = [await consumer.getone() for _ in range(2)]
        link = links[0]
        [(real, tp)] = link._results._names.items()
        for number in range(100):
            link.set_wanted({PartitionId(UUID(int=number), 0): TopicPartition(f"t{number}", 0)})
        assert len(link._results._names) <= 3  # it may have been sent one of them
        assert link._results.name_of(real) == tp  # its record is held
        link.set_wanted({real: tp})
        for record in held:
            assert await record.accept() is None
        await until(lambda: link.session.partitions == {real})
        link.set_wanted({real: tp})
        assert link._results._names == {real: tp}


async def refused(cluster, leaders):
    """Return the only link after the broker has refused its acknowledgements for now."""
    fault = cluster.control(ApiKey.SHARE_ACKNOWLEDGE, error=GroupCoordinatorNotAvailableError)
    await fault.struck()
    link = leaders._links[0]
    await until(lambda: not link._exchanges.in_flight)
    return link


async def test_a_flush_ends_with_the_link_whose_marks_were_lost(cluster, make) -> None:
    """While the link pauses, no exchange tells the flush that its marks have failed."""
    fill(cluster, 1)
    options = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    async with make("jobs", **options) as consumer, asyncio.timeout(PATIENCE):
        leaders = consumer._core._leaders
        record = await consumer.getone()
        leaders.route(())
        accepted = record.accept()
        flushing = asyncio.create_task(consumer.flush())
        link = await refused(cluster, leaders)
        link._exchanges._connection.current.close()
        await until(lambda: 0 not in leaders._links)
        async with asyncio.timeout(5):
            await flushing
        with pytest.raises(InvalidRecordStateError, match="lost"):
            await accepted


async def test_a_link_ends_after_the_result_of_its_last_renewal(cluster, make) -> None:
    fill(cluster, 1)
    options = {"retry_backoff_ms": 1000, "retry_backoff_max_ms": 1000}
    async with make("jobs", **options) as consumer, asyncio.timeout(PATIENCE):
        leaders = consumer._core._leaders
        record = await consumer.getone()
        leaders.route(())
        renewed = asyncio.ensure_future(record.renew())
        link = await refused(cluster, leaders)
        record._marks.latest = link.loop.time()  # the lock expires during the pause
        link.pending.expire(link.loop.time() + 100)
        assert not link.pending.holds
        link.wake()
        await until(lambda: 0 not in leaders._links)
        async with asyncio.timeout(5):
            with pytest.raises(InvalidRecordStateError, match="expired"):
                await renewed
