"""Every error code of Kafka in response to each request of the consumer: it reacts like Java's.

Source: FetchCollector.handleInitializeErrors, FetchSessionHandler.handleResponse,
OffsetFetcherUtils.handleListOffsetResponse, Metadata and NetworkClient of Kafka's Java client.
Where Java considers a code impossible (an IllegalStateException), this consumer retries if the code
is retriable, and otherwise raises it to the application.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import KafkaError, UnsupportedVersionError, for_code
from aiokafka_lite.protocol.messages.fetch import FetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.makers import append
from tests.unit.error_table import METADATA_IS_OLD, assert_reactions, reactions

ORDERS = TopicPartition("orders", 0)

FETCH = reactions(
    refresh=f"""
        {METADATA_IS_OLD} REQUEST_TIMED_OUT COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE
        NOT_COORDINATOR NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_CONTROLLER
        CONCURRENT_TRANSACTIONS FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH
        OFFSET_NOT_AVAILABLE UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED
        FETCH_SESSION_TOPIC_ID_ERROR SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH
        SHARE_SESSION_LIMIT_REACHED
    """,
    retry="UNKNOWN_LEADER_EPOCH UNKNOWN_SERVER_ERROR",
    reset="OFFSET_OUT_OF_RANGE",
    otherwise="raise",  # CORRUPT_MESSAGE and TOPIC_AUTHORIZATION_FAILED among them
)

# Java requests new metadata only after FETCH_SESSION_TOPIC_ID_ERROR; this consumer after any error
# except those of a session's normal course.
FETCH_AS_A_WHOLE = reactions(
    retry="FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH", otherwise="refresh"
)

LIST_OFFSETS = reactions(
    **{"raise": "TOPIC_AUTHORIZATION_FAILED"},
    nothing="UNSUPPORTED_FOR_MESSAGE_FORMAT",
    otherwise="retry",
)

TOPIC = reactions(
    **{"raise": "TOPIC_AUTHORIZATION_FAILED INVALID_TOPIC_EXCEPTION"}, otherwise="retry"
)

ANY_CODE = reactions(otherwise="retry")

API_VERSIONS = reactions(otherwise="retry")
del API_VERSIONS[UnsupportedVersionError.errno]  # answered in version 0, with supported versions


@asynccontextmanager
async def reader(**options: Any) -> AsyncIterator[tuple[FakeCluster, AIOKafkaConsumer]]:
    """A broker with one record, and a consumer of it that retries at once."""
    async with FakeCluster(topics={"orders": 3}) as cluster:
        append(cluster, [b"first"])
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            **{
                "auto_offset_reset": "earliest",
                "fetch_max_wait_ms": 50,
                "retry_backoff_ms": 1,
                "request_timeout_ms": 5000,
                **options,
            },
        )
        async with consumer:
            yield cluster, consumer


def refreshes_of(consumer: AIOKafkaConsumer) -> list[bool]:
    """A counter that grows with every request for new metadata."""
    seen: list[bool] = []
    request_update = consumer._core.cluster.request_update

    def note() -> int:
        seen.append(True)
        return request_update()

    consumer._core.cluster.request_update = note  # type: ignore[method-assign]  # of this one
    return seen


async def read(consumer: AIOKafkaConsumer, code: int, value: bytes) -> str:
    """Whether the next record arrives, or first the error, and then the record."""
    async with asyncio.timeout(5):
        raised: KafkaError | None = None
        try:
            record = await consumer.getone()
        except KafkaError as error:
            raised = error
            record = await consumer.getone()
        assert record.value == value
        assert raised is None or type(raised) is for_code(code)
        return "raise" if raised else "retry"


async def test_every_error_of_a_fetched_partition() -> None:
    async def reaction_to(code: int) -> str:
        async with reader(fetch_max_wait_ms=5) as (cluster, consumer):
            consumer.assign([ORDERS])
            assert await read(consumer, code, b"first") == "retry"
            # No set is half delivered, or an offset out of range would be requested again
            # afterwards.
            assert await consumer.getmany() == {}
            refreshes = refreshes_of(consumer)
            looked_up = cluster.count(ApiKey.LIST_OFFSETS)
            fault = cluster.control(ApiKey.FETCH, error=code)
            await fault.struck()
            append(cluster, [b"second"])
            if FETCH[code] == "reset":
                # auto_offset_reset is earliest here
                found = await read(consumer, code, b"first")
                assert cluster.count(ApiKey.LIST_OFFSETS) == looked_up + 1
                return "reset" if found == "retry" else found
            found = await read(consumer, code, b"second")
            return "refresh" if found == "retry" and refreshes else found

    await assert_reactions(FETCH, reaction_to)


async def test_every_error_of_a_fetch_as_a_whole() -> None:
    async def reaction_to(code: int) -> str:
        async with reader(fetch_max_wait_ms=5) as (cluster, consumer):
            consumer.assign([ORDERS])
            assert await read(consumer, code, b"first") == "retry"
            refreshes = refreshes_of(consumer)
            fault = cluster.control(ApiKey.FETCH, respond_with=FetchResponse(error_code=code))
            await fault.struck()
            append(cluster, [b"second"])
            found = await read(consumer, code, b"second")
            return "refresh" if found == "retry" and refreshes else found

    await assert_reactions(FETCH_AS_A_WHOLE, reaction_to)


async def test_every_error_of_a_position_that_is_looked_up() -> None:
    async def reaction_to(code: int) -> str:
        async with reader() as (cluster, consumer):
            fault = cluster.control(ApiKey.LIST_OFFSETS, error=code)
            consumer.assign([ORDERS])
            found = await read(consumer, code, b"first")
            assert fault.hits == 1
            return found

    # A search by time may find no offset; an end is requested again.
    table = {code: told if told == "raise" else "retry" for code, told in LIST_OFFSETS.items()}
    await assert_reactions(table, reaction_to)


async def test_every_error_of_a_search_by_time() -> None:
    async def reaction_to(code: int) -> str:
        async with reader() as (cluster, consumer), asyncio.timeout(5):
            cluster.control(ApiKey.LIST_OFFSETS, error=code)
            try:
                found = (await consumer.offsets_for_times({ORDERS: 0}))[ORDERS]
            except for_code(code):
                return "raise"
            return "nothing" if found is None else "retry"

    await assert_reactions(LIST_OFFSETS, reaction_to)


async def test_every_error_of_a_topics_metadata() -> None:
    async def reaction_to(code: int) -> str:
        async with reader() as (cluster, consumer):
            fault = cluster.control(
                ApiKey.METADATA, error=code, partitions=[("orders", None)], times=None
            )
            consumer.subscribe(["orders"])
            await asyncio.wait_for(fault.struck(), 5)
            asyncio.get_running_loop().call_later(0.02, fault.remove)
            if TOPIC[code] == "raise":
                with pytest.raises(for_code(code)):
                    await consumer.getone()
                fault.remove()
                await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + 5)
            assert await read(consumer, code, b"first") == "retry"
            return TOPIC[code]

    await assert_reactions(TOPIC, reaction_to)


async def reaction_of_reader(api_key: ApiKey, code: int, **fault: Any) -> str:
    """A consumer's reaction to one error response, before its first record."""
    async with reader() as (cluster, consumer):
        struck = cluster.control(api_key, error=code, **fault)
        consumer.assign([ORDERS])
        found = await read(consumer, code, b"first")
        assert struck.hits == 1
        return found


async def test_every_error_of_a_partitions_metadata() -> None:
    async def reaction_to(code: int) -> str:
        return await reaction_of_reader(ApiKey.METADATA, code, partitions=[("orders", 0)])

    await assert_reactions(ANY_CODE, reaction_to)


async def test_every_error_of_api_versions() -> None:
    async def reaction_to(code: int) -> str:
        return await reaction_of_reader(ApiKey.API_VERSIONS, code)

    await assert_reactions(API_VERSIONS, reaction_to)
