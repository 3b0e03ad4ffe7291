"""When links send their next request: after pauses, after failures, over time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiokafka_lite.errors import (
    KafkaError,
    RequestTimedOutError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
    UnknownError,
)
from aiokafka_lite.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

PATIENCE = 60.0
FETCH, ACKNOWLEDGE = ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE


def count_of(cluster: FakeCluster, api: ApiKey) -> Callable[[], int]:
    """Count the requests of an API from now on."""
    seen = 0

    def count(request: object) -> bool:
        nonlocal seen
        seen += 1
        return False

    cluster.control(api, times=None, error=UnknownError, when=count)
    return lambda: seen


def refuse(cluster: FakeCluster, api: ApiKey, error: type[KafkaError], **control: object) -> None:
    """Answer requests with a top-level error; the broker applies nothing."""
    kind = {FETCH: ShareFetchResponse, ACKNOWLEDGE: ShareAcknowledgeResponse}[api]
    cluster.control(api, respond_with=kind(error_code=error.errno), **control)


@pytest.mark.parametrize("error", [ShareSessionLimitReachedError, RequestTimedOutError])
@pytest.mark.parametrize("node", [0, 1])
async def test_a_leader_that_refuses_every_fetch_does_not_block_the_others(
    cluster, make, node, error
) -> None:
    """A read of one record sends a request to one leader at a time."""
    refuse(cluster, FETCH, error, times=None, node=node)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        for number in range(5):
            reading = asyncio.create_task(consumer.getmany(timeout_ms=50_000, max_records=1))
            await asyncio.sleep(0.05)
            cluster.produce("jobs", b"%d" % number, partition=1 - node)
            [record] = await reading
            assert record.value == b"%d" % number
            record.accept()


async def test_a_leader_that_is_slow_to_acknowledge_does_not_block_the_others(
    cluster, make
) -> None:
    """It would be its turn to be asked for the one record, but it has a request to answer."""
    async with make("jobs", request_timeout_ms=30_000) as consumer, asyncio.timeout(PATIENCE):
        links = consumer._core._leaders._links
        cluster.produce("jobs", b"0", partition=0)
        [held] = await consumer.getmany(timeout_ms=10_000, max_records=1)
        while links[1].claimed:
            await asyncio.sleep(0.005)
        links[0].fetched_at = 0.0
        cluster.control(ACKNOWLEDGE, node=0, delay=20.0)
        renewing = asyncio.ensure_future(held.renew())
        while not links[0]._exchanges.in_flight:
            await asyncio.sleep(0.005)
        cluster.produce("jobs", b"1", partition=1)
        async with asyncio.timeout(5):
            [record] = await consumer.getmany(timeout_ms=10_000, max_records=1)
        assert record.value == b"1"
        renewing.cancel()


async def test_a_read_that_does_not_wait_asks_each_leader_once(cluster, make) -> None:
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        assert not await consumer.getmany(timeout_ms=200)
        fetches = count_of(cluster, FETCH)
        assert not await consumer.getmany(timeout_ms=0)
        await asyncio.sleep(0.5)  # ten times as long as a fetch waits
        assert 1 <= fetches() <= 2


async def test_a_throttle_takes_no_time_of_the_locks(cluster, make) -> None:
    """A fetch that the connection holds for longer than a lock lasts would acquire only records
    that seem to have lost their locks."""
    cluster.move_leader("jobs", 1, 0)

    def throttle(response: ShareFetchResponse) -> None:
        response.throttle_time_ms, response.acquisition_lock_timeout_ms = 1500, 1000

    cluster.control(FETCH, edit=throttle, times=None)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        for number in range(2):
            cluster.produce("jobs", b"%d" % number, partition=0)
            record = await consumer.getone()
            assert (record.value, record.delivery_count) == (b"%d" % number, 1)
            record.accept()


async def test_a_long_poll_takes_only_a_part_of_the_lock(cluster, make) -> None:
    waits: list[int] = []

    def note(request: object) -> bool:
        waits.append(request.max_wait_ms)  # type: ignore[attr-defined]
        return False

    cluster.control(FETCH, times=None, error=UnknownError, when=note)
    async with make("jobs", fetch_max_wait_ms=60_000) as consumer, asyncio.timeout(PATIENCE):
        reading = asyncio.create_task(consumer.getone())
        while len(waits) < 2:
            await asyncio.sleep(0.01)
        for partition in range(2):
            cluster.produce("jobs", b"job", partition=partition)
        assert (await reading).delivery_count == 1
    assert 1000 < max(waits) <= 30_000 / 4


STRIKES = [
    (FETCH, None),  # an error of the partition
    (FETCH, ShareSessionLimitReachedError),
    (FETCH, ShareSessionNotFoundError),
    (FETCH, RequestTimedOutError),
    (ACKNOWLEDGE, RequestTimedOutError),
    (ACKNOWLEDGE, ShareSessionNotFoundError),
]


@pytest.mark.parametrize(
    ("api", "error"),
    STRIKES,
    ids=[f"{api.name}-{error and error.__name__}" for api, error in STRIKES],
)
async def test_a_pause_that_ends_between_two_looks_at_the_clock_stops_no_link(
    cluster, make, monkeypatch, api, error
) -> None:
    """In some steps, the pause of 10 to 20 ms has not ended when the task decides against a
    request, but has ended when it next reads the clock."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, 0.0
    step = 0.0

    def look() -> float:
        nonlocal ahead
        ahead += step
        return real() + ahead

    cluster.move_leader("jobs", 1, 0)  # another link would wake this one
    monkeypatch.setattr(loop, "time", look)
    options = {"retry_backoff_ms": 1, "fetch_max_wait_ms": 10, "metadata_max_age_ms": 300_000}
    async with make("jobs", **options) as consumer, asyncio.timeout(PATIENCE):
        assert not await consumer.getmany(timeout_ms=100)
        for number, microseconds in enumerate(range(1_000, 25_000, 1_000)):
            step = microseconds * 1e-6
            if error is None:
                cluster.control(api, error=RequestTimedOutError)
            else:
                refuse(cluster, api, error)
            cluster.produce("jobs", b"%d" % number, partition=0)
            marks: list[asyncio.Future[None]] = []
            while not marks:
                for record in await consumer.getmany(timeout_ms=50_000, max_records=1):
                    marks.append(record.accept())
            for mark in marks:
                await mark
