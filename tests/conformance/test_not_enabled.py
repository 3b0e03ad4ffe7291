"""Responses of a cluster that has not enabled consumer, share and streams groups.

The test needs its own Kafka, whose features it first disables. It omits the APIs by which brokers
store the state of share groups: no client sends them.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from aiokafka_lite.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokafka_lite.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.apis import NOT_ENABLED, SERVED
from tests.conformance.comparing import AllowedDifferences, report
from tests.conformance.target import Target
from tests.unit.testing.apis.test_not_enabled import filled
from tools.kafka import KafkaNotAvailable, OwnCluster, open_cluster

pytestmark = pytest.mark.real

SAFE_DOWNGRADE = 2
FEATURES = ("group.version", "share.version", "streams.version")
SHARING = (
    *(ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.SHARE_FETCH),
    *(ApiKey.SHARE_ACKNOWLEDGE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS),
    *(ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS),
)
BY_BROKERS = range(ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.STREAMS_GROUP_HEARTBEAT)


@pytest.fixture
def bare() -> Iterator[OwnCluster]:
    """A separate broker."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(open_cluster(1))
        except KafkaNotAvailable as error:
            pytest.skip(f"no real Kafka: {error}")
        yield cluster


async def scenario(target: Target) -> None:
    await target.coordinator_of("g")
    heartbeat = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 1000, [], None, None, [])
    for version in (0, 1):
        await target.ask(heartbeat, version)
        await target.ask(ConsumerGroupDescribeRequest(["g", ""]), version)
    for api_key in (*SHARING, *(key for key in NOT_ENABLED if key not in BY_BROKERS)):
        first, last = SERVED[api_key]
        for version in range(first, last + 1):
            await target.ask(filled(api_key), version)


async def test_disabled_apis(bare: OwnCluster, allowed: AllowedDifferences) -> None:
    async with FakeCluster(features={"group.version": 0, "share.version": 0}) as fake:
        judge = Target("Kafka", bare.bootstrap_servers, "x")
        judged = Target("embedded", fake.bootstrap_servers, "x")
        try:
            updates = [FeatureUpdateKey(name, 0, upgrade_type=SAFE_DOWNGRADE) for name in FEATURES]
            answer = await judge.quietly(UpdateFeaturesRequest(30_000, updates), 1)
            assert not answer.error_code, answer
            await judge.published()
            raised = await asyncio.gather(
                *(scenario(target) for target in (judge, judged)), return_exceptions=True
            )
        finally:
            await asyncio.gather(judge.close(), judged.close())
    told = report("test_disabled_apis", judge, judged, allowed, (raised[0], raised[1]))
    if told is not None:
        pytest.fail(told, pytrace=False)
