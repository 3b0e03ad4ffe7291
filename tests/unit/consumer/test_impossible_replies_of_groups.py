"""Impossible responses to the requests of a group: the application gets an error, or the request
is retried; no record is lost, commits stay, and the consumer stops normally."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import KafkaError, KafkaProtocolError, KafkaTimeoutError
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.consumer.makers import append, numbered
from tests.unit.consumer.members import CONFIGS, PROTOCOLS
from tests.unit.lies import LIES, NEEDS_PATIENCE

VALUES = numbered(20)
HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
CASES = [
    *(
        ("eager", api)
        for api in (
            ApiKey.FIND_COORDINATOR,
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.OFFSET_FETCH,
            ApiKey.OFFSET_COMMIT,
        )
    ),
    ("cooperative", ApiKey.SYNC_GROUP),
    *(("modern", api) for api in (HEARTBEAT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT)),
]


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={"orders": 1}, broker_configs=CONFIGS) as cluster:
        append(cluster, VALUES)
        yield cluster


@pytest.mark.parametrize(
    ("protocol", "api"), CASES, ids=lambda case: getattr(case, "name", str(case))
)
async def test_nothing_is_lost(cluster: FakeCluster, protocol: str, api: ApiKey) -> None:
    """Each corrupt response goes to a separate consumer, all concurrently."""
    outcomes = await asyncio.gather(
        *(_meet(cluster, protocol, api, lie) for lie in LIES), return_exceptions=True
    )
    assert not {lie: told for lie, told in zip(LIES, outcomes, strict=True) if told is not None}


async def _meet(cluster: FakeCluster, protocol: str, api: ApiKey, lie: str) -> None:
    group_id = f"{protocol}-{api.name}-{lie}"
    patience = 1000 if lie in NEEDS_PATIENCE else 5000
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": group_id,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 10,
        "request_timeout_ms": patience,
        **PROTOCOLS[protocol],
    }
    if protocol != "modern":
        # The broker waits this long for a member that never received its id, and joined again.
        options["session_timeout_ms"] = 500
    consumer = AIOKafkaConsumer(**options)
    fault = cluster.control(
        api,
        when=lambda request: (
            group_id
            in (
                getattr(request, "group_id", None),
                getattr(request, "key", None),
                *(getattr(request, "coordinator_keys", None) or ()),
                *(group.group_id for group in getattr(request, "groups", None) or ()),
            )
        ),
        after_handling=True,
        tamper=LIES[lie],
    )
    documented = KafkaTimeoutError if lie in NEEDS_PATIENCE else KafkaProtocolError
    told: list[KafkaError] = []
    values: list[Any] = []
    async with asyncio.timeout(20):
        try:
            await consumer.start()
            consumer.subscribe(["orders"])
            while len(values) < len(VALUES):
                try:
                    values.append((await consumer.getone()).value)
                except KafkaProtocolError as error:
                    told.append(error)
            if api in (ApiKey.HEARTBEAT, HEARTBEAT):
                await fault.struck()
            try:
                await consumer.commit()
            except documented as error:
                told.append(error)
                await consumer.commit()
        finally:
            await consumer.stop()
    assert values == VALUES
    assert fault.hits == 1
    assert len(told) <= 1
    assert cluster.committed(group_id) == {("orders", 0): len(VALUES)}
