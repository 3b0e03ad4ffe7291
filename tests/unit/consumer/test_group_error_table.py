"""Every error code of Kafka in response to each request of a membership, through the whole
consumer.

`tests.unit.group.test_driver_error_table` has the table of what happens to the member. This table
is about what the application sees: nothing, an error that a read raises once, or one that each read
raises. In each case every record is read, and `stop()` returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import KafkaError, for_code
from aiokafka_lite.errors.table import CODES
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.consumer.makers import append, numbered
from tests.unit.consumer.members import CONFIGS, PROTOCOLS
from tests.unit.group import test_driver_error_table as fates
from tests.unit.group.test_driver_error_table import Fate

pytestmark = pytest.mark.unhurried

AT_ONCE = 12
"""Consumers; more would only wait for each other."""

EARLY, LATE = numbered(5), numbered(5, 5)
# Seconds of a loop that skips idle time: no member is late because the machine is busy.
PATIENCE = 60.0
SESSION_MS = 10_000
SETTINGS = {**CONFIGS, "group.consumer.session.timeout.ms": SESSION_MS}


@dataclass(frozen=True)
class Meeting:
    """A request, and the moment in a member's life at which it is rejected.

    Attributes:
        fate_of: What happens to the member, by code.
        settled: True if it already has its partitions; otherwise it is about to join.
    """

    protocol: str
    api: ApiKey
    fate_of: Callable[[int], Fate]
    settled: bool = False

    def __str__(self) -> str:
        return f"{self.protocol}-{self.api.name}-{'later' if self.settled else 'first'}"


CLASSIC = [
    # Every read raises FENCED_INSTANCE_ID, whichever request it answers.
    Meeting("eager", ApiKey.FIND_COORDINATOR, fates.of_modern_search),
    *(
        meeting
        for protocol in ("eager", "cooperative")
        for meeting in (
            Meeting(protocol, ApiKey.JOIN_GROUP, fates.of_join),
            Meeting(protocol, ApiKey.SYNC_GROUP, fates.of_sync),
            Meeting(protocol, ApiKey.HEARTBEAT, fates.of_heartbeat, settled=True),
        )
    ),
]
MODERN = [
    Meeting("modern", ApiKey.FIND_COORDINATOR, fates.of_modern_search),
    Meeting("modern", ApiKey.CONSUMER_GROUP_HEARTBEAT, fates.of_modern_join),
    Meeting("modern", ApiKey.CONSUMER_GROUP_HEARTBEAT, fates.of_modern_later, settled=True),
]
MEETINGS = CLASSIC + MODERN
# Classic members start in the same way.
AT_FIRST = [each for each in MEETINGS if not each.settled and each.protocol != "cooperative"]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 1}, broker_configs=SETTINGS) as cluster:
        append(cluster, EARLY)
        yield cluster


async def each_code(meet: Callable[[int], Any]) -> None:
    """Try each code with a separate consumer, some at a time; report all failures."""
    places = asyncio.Semaphore(AT_ONCE)

    async def one(code: int) -> str | None:
        async with places:
            try:
                async with asyncio.timeout(PATIENCE):
                    await meet(code)
            except (AssertionError, TimeoutError, KafkaError) as error:
                return f"{code} {CODES[code][0]}: {error!r}"
        return None

    outcomes = await asyncio.gather(*(one(code) for code in CODES if code))
    assert not [outcome for outcome in outcomes if outcome]


def of_group(group_id: str) -> Callable[[Any], bool]:
    """True if a request concerns a group."""

    def is_its_own(request: Any) -> bool:
        keys = getattr(request, "coordinator_keys", None) or [getattr(request, "key", None)]
        return getattr(request, "group_id", None) == group_id or group_id in keys

    return is_its_own


def made(cluster: FakeCluster, meeting: Meeting, group_id: str, *topics: str) -> AIOKafkaConsumer:
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": group_id,
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 10,
        "request_timeout_ms": 5000,
        **PROTOCOLS[meeting.protocol],
    }
    if meeting.protocol != "modern":
        # A rebalance waits this long for a member that lost its id and joined with a new one.
        options["session_timeout_ms"] = SESSION_MS
    return AIOKafkaConsumer(*topics, **options)


@pytest.mark.parametrize("meeting", MEETINGS, ids=str)
async def test_reads_raise_an_error_of_a_group_request_once_and_go_on(
    cluster: FakeCluster, meeting: Meeting
) -> None:
    """Unless another member has this member's place: then each read raises."""

    async def meet(code: int) -> None:
        fate, name = meeting.fate_of(code), f"{meeting}-{code}"
        cluster.create_topic(name, 1)
        append(cluster, EARLY, topic=name)
        consumer = made(cluster, meeting, name)
        try:
            await consumer.start()
            if meeting.settled:
                consumer.subscribe([name])
                assert [(await consumer.getone()).value for _ in EARLY] == EARLY
                await consumer.commit()
            fault = cluster.control(meeting.api, when=of_group(name), error=code)
            if not meeting.settled:
                consumer.subscribe([name])
            reading = asyncio.ensure_future(consumer.getone())
            await fault.struck()
            if fate is not Fate.HEALED:
                assert type(await raised(reading)) is for_code(code), fate.value
                reading = asyncio.ensure_future(consumer.getone())
            if fate is Fate.ENDED:
                assert type(await raised(reading)) is for_code(code), "told once only"
                return
            append(cluster, LATE, topic=name)
            values = [(await reading).value]
            while values[-1] != LATE[-1]:
                values.append((await consumer.getone()).value)
            # Records read under the old member id, and not committed, may be delivered again.
            assert list(dict.fromkeys(values)) == (LATE if meeting.settled else EARLY + LATE)
            assert len(values) == len(set(values)) or (meeting.settled and fate is Fate.HEALED)
            assert fault.hits == 1
        finally:
            await consumer.stop()

    await each_code(meet)


async def raised(asked: Awaitable[object]) -> KafkaError | None:
    """The error that a read, or a start, raises; None if there is none."""
    try:
        await asked
    except KafkaError as error:
        return error
    return None


@pytest.mark.parametrize("meeting", AT_FIRST, ids=str)
async def test_start_raises_the_errors_of_a_group_request_that_reads_raise(
    cluster: FakeCluster, meeting: Meeting
) -> None:
    """Otherwise it returns with partitions."""

    async def meet(code: int) -> None:
        fate, name = meeting.fate_of(code), f"{meeting}-{code}"
        fault = cluster.control(meeting.api, when=of_group(name), error=code)
        consumer = made(cluster, meeting, name, "orders")
        try:
            told = await raised(consumer.start())
            assert type(told) is (type(None) if fate is Fate.HEALED else for_code(code))
            assert told or (await consumer.getone()).value == EARLY[0]
        finally:
            await consumer.stop()
        assert fault.hits == 1

    await each_code(meet)


@pytest.mark.parametrize("protocol", ["eager", "modern"])
async def test_stop_commits_and_ends_although_leaving_is_rejected(
    cluster: FakeCluster, protocol: str
) -> None:
    """The consumer still stops, with everything committed."""
    api = ApiKey.CONSUMER_GROUP_HEARTBEAT if protocol == "modern" else ApiKey.LEAVE_GROUP
    meeting = Meeting(protocol, api, fates.of_modern_later)

    async def meet(code: int) -> None:
        name = f"{meeting}-{code}"
        about_it = of_group(name)
        consumer = made(cluster, meeting, name, "orders")
        await consumer.start()
        assert (await consumer.getone()).value == EARLY[0]
        fault = cluster.control(
            api,
            when=lambda request: about_it(request) and getattr(request, "member_epoch", -1) < 0,
            error=code,
        )
        await consumer.stop()
        assert fault.hits == 1
        assert cluster.committed(name) == {("orders", 0): 1}

    await each_code(meet)
