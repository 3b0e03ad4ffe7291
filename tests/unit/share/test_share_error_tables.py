"""Every error code of Kafka in response to each request of the share consumer, in each state.

Source: ShareConsumeRequestManager and ShareSessionHandler of Kafka's Java client. Where Java drops
acknowledgements after a retriable error, this client resends them: the broker applied nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaShareConsumer, ShareRecord
from aiokafka_lite.errors import ConsumerStoppedError, KafkaError, for_code
from aiokafka_lite.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchResponse
from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster, Fault, VirtualClock
from tests.unit.error_table import METADATA_IS_OLD, PASSES, assert_reactions, reactions

pytestmark = pytest.mark.unhurried

FETCH, ACKNOWLEDGE = ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE
HEARTBEAT = ApiKey.SHARE_GROUP_HEARTBEAT
PATIENCE = 60.0

MOVED = """
    UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER FENCED_LEADER_EPOCH UNKNOWN_TOPIC_ID
    INCONSISTENT_TOPIC_ID
"""
REFRESHES = " ".join(name for name in METADATA_IS_OLD.split() if name not in MOVED.split())
"""Errors of old metadata that do not say that the leader has gone."""

REQUEST = reactions(
    again=f"{PASSES} {METADATA_IS_OLD} UNKNOWN_SERVER_ERROR",
    otherwise="raise",
)
"""The response as a whole: the broker applied nothing."""

MARKED = reactions(
    again=f"{PASSES} {METADATA_IS_OLD}", fail="UNKNOWN_SERVER_ERROR", otherwise="raise"
)
"""The same with acknowledgements, which an unknown error may have followed."""

RENEWING = reactions(
    again=f"{PASSES} {METADATA_IS_OLD}", lost="UNKNOWN_SERVER_ERROR", otherwise="raise"
)
"""The same with renewals."""

UNSENT = reactions(again=f"{PASSES} {METADATA_IS_OLD}", otherwise="fail")
"""The acknowledgements of a request that was rejected as a whole."""

FETCHED = REQUEST
"""A partition without acknowledgements."""

ACKNOWLEDGED = reactions(
    again=f"{PASSES} {REFRESHES} INVALID_RECORD_STATE",  # the last in halves
    otherwise="fail",
)
"""The terminal acknowledgements of a partition."""

RENEWED = reactions(
    again=f"{PASSES} {REFRESHES} INVALID_RECORD_STATE", lost=MOVED, otherwise="kept"
)
"""The renewals of a partition: failed with the lock, or without it."""

JOINING = reactions(
    again=f"{PASSES} {METADATA_IS_OLD} UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH", otherwise="raise"
)
JOINED = reactions(
    again=f"""
        {PASSES} {METADATA_IS_OLD} UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH GROUP_ID_NOT_FOUND
    """,
    otherwise="raise",
)

ANY = reactions(otherwise="stopped")


@asynccontextmanager
async def member(values: int) -> AsyncIterator[tuple[FakeCluster, AIOKafkaShareConsumer]]:
    """A broker with some records, and a consumer of them that retries at once."""
    async with FakeCluster(topics={"jobs": 1}, clock=VirtualClock()) as cluster:
        cluster.configure_group("workers", {"share.auto.offset.reset": "earliest"})
        for value in range(values):
            cluster.produce("jobs", b"%d" % value)
        consumer = AIOKafkaShareConsumer(
            "jobs",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="workers",
            fetch_max_wait_ms=20,
            retry_backoff_ms=1,
            request_timeout_ms=5000,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                yield cluster, consumer
        finally:
            await consumer.stop()


async def take(consumer: AIOKafkaShareConsumer, count: int) -> list[ShareRecord[Any, Any]]:
    records: list[ShareRecord[Any, Any]] = []
    while len(records) < count:
        records += await consumer.getmany(timeout_ms=5000, max_records=count - len(records))
    return records


async def raised_by(read: Awaitable[object], code: int) -> bool:
    """True if a read raises the error of a code; another exception propagates."""
    try:
        await read
    except for_code(code) as error:
        return type(error) is for_code(code)
    return False


async def failure_of(mark: Awaitable[object]) -> KafkaError | None:
    try:
        await mark
    except KafkaError as error:
        return error
    return None


async def accept_all(
    cluster: FakeCluster, consumer: AIOKafkaShareConsumer, *values: int, accepted: Sequence[int]
) -> None:
    """Accept the remaining records, as after any error: nothing hangs, and nothing is lost."""
    left = set(values) - set(accepted)
    while left:
        for record in await consumer.getmany(timeout_ms=50):
            if await failure_of(record.accept()) is None:
                left.discard(int(record.value))
        cluster.advance(31)  # for locks that the consumer has released


def has_marks(request: Any) -> bool:
    return any(
        partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    )


def fail_once(
    cluster: FakeCluster,
    api: ApiKey,
    code: int,
    *,
    whole: bool,
    when: Callable[[Any], bool] = lambda request: True,
    edit: Callable[[Any], None] | None = None,
) -> Fault:
    """The next request gets an error, and the broker applies nothing."""
    if not whole:
        return cluster.control(api, error=code, when=when, edit=edit)
    kind = {FETCH: ShareFetchResponse, ACKNOWLEDGE: ShareAcknowledgeResponse}[api]
    return cluster.control(api, respond_with=kind(error_code=code), when=when)


# --- fetches


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("state", ["opening", "in a session", "holding a record"])
async def test_every_error_of_a_fetch(state: str, whole: bool) -> None:
    async def reaction_to(code: int) -> str:
        async with member(2) as (cluster, consumer):
            await consumer.start()
            held: list[ShareRecord[Any, Any]] = []
            accepted: list[int] = []
            if state != "opening":
                held = await take(consumer, 1)
            if state == "in a session":
                await held.pop().accept()
                accepted.append(0)
            fault = fail_once(cluster, FETCH, code, whole=whole)
            reading = asyncio.ensure_future(take(consumer, 1))
            raised = await raised_by(reading, code)
            assert fault.hits == 1
            if not raised:
                (record,) = reading.result()
                await record.accept()
                accepted.append(int(record.value))
            for record in held:
                try:
                    await record.accept()
                    accepted.append(int(record.value))
                except KafkaError:
                    cluster.advance(31)  # it is redelivered
            await accept_all(cluster, consumer, 0, 1, accepted=accepted)
            return "raise" if raised else "again"

    await assert_reactions(REQUEST if whole else FETCHED, reaction_to)


# --- acknowledgements


def without_fetch_error(response: ShareFetchResponse) -> None:
    """Leave only the errors of acknowledgements."""
    for topic in response.responses:
        for partition in topic.partitions:
            partition.error_code = 0


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("api", [FETCH, ACKNOWLEDGE])
async def test_every_error_of_acknowledgements(api: ApiKey, whole: bool) -> None:
    async def reaction_to(code: int) -> str:
        async with member(2) as (cluster, consumer):
            await consumer.start()
            records = await take(consumer, 2)
            edit = without_fetch_error if api == FETCH else None
            fault = fail_once(cluster, api, code, whole=whole, when=has_marks, edit=edit)
            reading = None
            if api == FETCH:  # they are sent with the fetches of a waiting read
                reading = asyncio.ensure_future(consumer.getmany(timeout_ms=5000))
                while not consumer._core.buffer.limits:
                    await asyncio.sleep(0)
            errors = [await failure_of(mark) for mark in [record.accept() for record in records]]
            assert fault.hits == 1
            cluster.produce("jobs", b"2")
            raised = await raised_by(reading or consumer.getmany(timeout_ms=0), code)
            accepted = [n for n, error in enumerate(errors) if error is None]
            if reading is not None and not raised:
                (record,) = reading.result()
                await record.accept()
                accepted.append(int(record.value))
            if errors == [None, None]:
                assert not raised
                found = "again"
            else:
                assert {type(error) for error in errors} == {for_code(code)}, errors
                found = "raise" if raised else "fail"
            await accept_all(cluster, consumer, 0, 1, 2, accepted=accepted)
            return found

    await assert_reactions(MARKED if whole else ACKNOWLEDGED, reaction_to)


@pytest.mark.parametrize("whole", [True, False])
async def test_every_error_of_renewals(whole: bool) -> None:
    async def reaction_to(code: int) -> str:
        async with member(2) as (cluster, consumer):
            await consumer.start()
            records = await take(consumer, 2)
            fault = fail_once(cluster, ACKNOWLEDGE, code, whole=whole, when=has_marks)
            errors = [await failure_of(mark) for mark in [record.renew() for record in records]]
            assert fault.hits == 1
            raised = await raised_by(consumer.getmany(timeout_ms=0), code)
            kept = all(record.lock_deadline > 0 for record in records)
            accepted = []
            if kept:
                for record in records:
                    await record.accept()
                    accepted.append(int(record.value))
            await accept_all(cluster, consumer, 0, 1, accepted=accepted)
            if errors == [None, None]:
                assert kept
                assert not raised
                return "again"
            assert {type(error) for error in errors} == {for_code(code)}, errors
            return "raise" if raised else "kept" if kept else "lost"

    await assert_reactions(RENEWING if whole else RENEWED, reaction_to)


# --- the end


@pytest.mark.parametrize("whole", [True, False])
async def test_every_error_of_the_last_acknowledgements(whole: bool) -> None:
    async def reaction_to(code: int) -> str:
        async with member(2) as (cluster, consumer):
            await consumer.start()
            marks = [record.accept() for record in await take(consumer, 2)]
            fail_once(cluster, ACKNOWLEDGE, code, whole=whole, when=has_marks)
            await consumer.stop()
            errors = [await failure_of(mark) for mark in marks]
            return "again" if errors == [None, None] else "fail"

    await assert_reactions(UNSENT if whole else ACKNOWLEDGED, reaction_to)


async def test_every_error_of_closing_a_session() -> None:
    async def reaction_to(code: int) -> str:
        async with member(1) as (cluster, consumer):
            await consumer.start()
            (record,) = await take(consumer, 1)
            mark = record.accept()
            fault = fail_once(
                cluster,
                ACKNOWLEDGE,
                code,
                whole=True,
                when=lambda request: request.share_session_epoch == -1,
            )
            await consumer.stop()
            assert fault.hits == 1
            assert mark.result() is None
            with pytest.raises(ConsumerStoppedError):
                await consumer.getone()
            return "stopped"

    await assert_reactions(ANY, reaction_to)


# --- the membership


def heartbeat_error(cluster: FakeCluster, code: int, when: Callable[[int], bool]) -> Fault:
    return cluster.control(
        HEARTBEAT,
        respond_with=ShareGroupHeartbeatResponse(error_code=code, error_message=None),
        when=lambda request: when(request.member_epoch),
    )


async def test_every_error_of_joining() -> None:
    async def reaction_to(code: int) -> str:
        async with member(1) as (cluster, consumer):
            fault = heartbeat_error(cluster, code, lambda epoch: epoch == 0)
            raised = await raised_by(consumer.start(), code)
            assert fault.hits == 1
            if raised:
                await consumer.start()
            await accept_all(cluster, consumer, 0, accepted=[])
            return "raise" if raised else "again"

    await assert_reactions(JOINING, reaction_to)


async def test_every_error_of_a_heartbeat() -> None:
    async def reaction_to(code: int) -> str:
        async with member(2) as (cluster, consumer):
            await consumer.start()
            (held,) = await take(consumer, 1)
            fault = heartbeat_error(cluster, code, lambda epoch: epoch > 0)
            consumer._core.group.driver.rejoin("a heartbeat is due")
            await fault.struck()
            reading = asyncio.ensure_future(take(consumer, 1))
            raised = await raised_by(reading, code)
            assert await held.accept() is None  # the session continues
            accepted = [0]
            if not raised:
                (record,) = reading.result()
                await record.accept()
                accepted.append(1)
            await accept_all(cluster, consumer, 0, 1, accepted=accepted)
            return "raise" if raised else "again"

    await assert_reactions(JOINED, reaction_to)


async def test_every_error_of_leaving() -> None:
    async def reaction_to(code: int) -> str:
        async with member(1) as (cluster, consumer):
            await consumer.start()
            fault = heartbeat_error(cluster, code, lambda epoch: epoch == -1)
            await consumer.stop()
            assert fault.hits == 1
            return "stopped"

    await assert_reactions(ANY, reaction_to)
