"""Every error code of Kafka in answer to each request of the consumer: it does what Java's does.

Source: FetchCollector.handleInitializeErrors, FetchSessionHandler.handleResponse,
OffsetFetcherUtils.handleListOffsetResponse, Metadata and NetworkClient of Kafka's Java client.
Where Java calls a code impossible (an IllegalStateException), ours tries again if the code is one
that passes, and else tells the application.
"""

import asyncio
from collections.abc import Mapping

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import KafkaError, UnsupportedVersionError, for_code
from aiokafka_lite.protocol.messages.fetch import FetchResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append
from tests.unit.error_table import METADATA_IS_OLD, reactions

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

# Java asks for new metadata after FETCH_SESSION_TOPIC_ID_ERROR only; ours after any refusal but
# those that are the normal course of a session.
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
del API_VERSIONS[UnsupportedVersionError.errno]  # told in version 0, with the versions that are


def every(table: Mapping[int, str]) -> pytest.MarkDecorator:
    """Runs a test for each code of a table."""
    cases = [
        pytest.param(code, reaction, id=for_code(code).message) for code, reaction in table.items()
    ]
    return pytest.mark.parametrize(("code", "reaction"), cases)


def refreshes_of(consumer: AIOKafkaConsumer, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows with every request for new metadata."""
    seen: list[bool] = []
    request_update = consumer._core.cluster.request_update

    def note() -> int:
        seen.append(True)
        return request_update()

    monkeypatch.setattr(consumer._core.cluster, "request_update", note)
    return seen


async def read(consumer: AIOKafkaConsumer, code: int, value: bytes) -> str:
    """Whether the next record comes, or first the error, and the record then."""
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


@every(FETCH)
async def test_fetch(
    code: int,
    reaction: str,
    cluster: FakeCluster,
    make: MakeConsumer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append(cluster, [b"first"])
    async with make(retry_backoff_ms=1, fetch_max_wait_ms=5) as consumer:
        consumer.assign([ORDERS])
        assert await read(consumer, code, b"first") == "retry"
        # Nothing is half handed out, or an offset out of range would be asked for again after it.
        assert await consumer.getmany() == {}
        refreshes = refreshes_of(consumer, monkeypatch)
        looked_up = cluster.count(ApiKey.LIST_OFFSETS)
        fault = cluster.control(ApiKey.FETCH, error=code)
        await fault.struck()
        append(cluster, [b"second"])
        if reaction == "reset":
            value = b"first"  # auto_offset_reset is earliest here
            found = await read(consumer, code, value)
            assert cluster.count(ApiKey.LIST_OFFSETS) == looked_up + 1
            found = "reset" if found == "retry" else found
        else:
            found = await read(consumer, code, b"second")
            found = "refresh" if found == "retry" and refreshes else found
        assert found == reaction


@every(FETCH_AS_A_WHOLE)
async def test_fetch_as_a_whole(
    code: int,
    reaction: str,
    cluster: FakeCluster,
    make: MakeConsumer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append(cluster, [b"first"])
    async with make(retry_backoff_ms=1, fetch_max_wait_ms=5) as consumer:
        consumer.assign([ORDERS])
        assert await read(consumer, code, b"first") == "retry"
        refreshes = refreshes_of(consumer, monkeypatch)
        fault = cluster.control(ApiKey.FETCH, respond_with=FetchResponse(error_code=code))
        await fault.struck()
        append(cluster, [b"second"])
        found = await read(consumer, code, b"second")
        assert ("refresh" if found == "retry" and refreshes else found) == reaction


@every(LIST_OFFSETS)
async def test_a_position_is_looked_up(
    code: int, reaction: str, cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [b"first"])
    async with make(retry_backoff_ms=1) as consumer:
        fault = cluster.control(ApiKey.LIST_OFFSETS, error=code)
        consumer.assign([ORDERS])
        found = await read(consumer, code, b"first")
        assert fault.hits == 1
        # No offset is what a search by time may find; an end is asked for again.
        assert found == ("retry" if reaction == "nothing" else reaction)


@every(LIST_OFFSETS)
async def test_a_time_is_searched_for(
    code: int, reaction: str, cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [b"first"])
    async with make(retry_backoff_ms=1) as consumer, asyncio.timeout(5):
        cluster.control(ApiKey.LIST_OFFSETS, error=code)
        if reaction == "raise":
            with pytest.raises(for_code(code)):
                await consumer.offsets_for_times({ORDERS: 0})
        else:
            found = (await consumer.offsets_for_times({ORDERS: 0}))[ORDERS]
            assert reaction == ("nothing" if found is None else "retry")


@every(TOPIC)
async def test_metadata_of_a_topic(
    code: int, reaction: str, cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [b"first"])
    async with make(retry_backoff_ms=1) as consumer:
        fault = cluster.control(
            ApiKey.METADATA, error=code, partitions=[("orders", None)], times=None
        )
        consumer.subscribe(["orders"])
        await asyncio.wait_for(fault.struck(), 5)
        asyncio.get_running_loop().call_later(0.02, fault.remove)
        if reaction == "raise":
            with pytest.raises(for_code(code)):
                await consumer.getone()
            fault.remove()
            await consumer._core.cluster.refresh(asyncio.get_running_loop().time() + 5)
        assert await read(consumer, code, b"first") == "retry"


@every(ANY_CODE)
async def test_metadata_of_a_partition(
    code: int, reaction: str, cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [b"first"])
    async with make(retry_backoff_ms=1) as consumer:
        fault = cluster.control(ApiKey.METADATA, error=code, partitions=[("orders", 0)])
        consumer.assign([ORDERS])
        assert await read(consumer, code, b"first") == reaction
        assert fault.hits == 1


@every(API_VERSIONS)
async def test_api_versions(
    code: int, reaction: str, cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [b"first"])
    async with make(retry_backoff_ms=1) as consumer:
        fault = cluster.control(ApiKey.API_VERSIONS, error=code)
        consumer.assign([ORDERS])
        assert await read(consumer, code, b"first") == reaction
        assert fault.hits == 1
