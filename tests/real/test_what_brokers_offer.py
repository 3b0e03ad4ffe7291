"""An embedded broker that emulates a release returns the ApiVersions of a real one.

`make test-brokers` compares with brokers of 2.8.2 and 3.9.2, `make test` with the newest.
"""

import pytest

from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokafka_lite.protocol.registry import API_MODULES, ApiKey
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.apis.unserved import NOT_OFFERED
from tests.unit.testing.raw import RawClient
from tools.kafka import KafkaCluster, KafkaNotAvailable, RealKafka

NOT_HERE = {"share.version", "streams.version"}
"""Features that a real cluster has and an embedded one cannot have."""


async def told(address: str, version: int) -> ApiVersionsResponse:
    client = await RawClient.connect(address)
    software = {"client_software_name": "test", "client_software_version": "1.0"}
    try:
        response: ApiVersionsResponse = await client.ask(ApiVersionsRequest(**software), version)
        return response
    finally:
        await client.close()


def ranges(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    """Without the APIs between brokers, and those that the docs list as not offered."""
    return {
        api.api_key: (api.min_version, api.max_version)
        for api in response.api_keys
        if api.api_key in API_MODULES and ApiKey(api.api_key) not in NOT_OFFERED
    }


def levels(response: ApiVersionsResponse) -> dict[str, int]:
    return {
        feature.name: feature.max_version_level
        for feature in response.finalized_features
        if feature.name not in NOT_HERE
    }


def supported(response: ApiVersionsResponse) -> dict[str, tuple[int, int]]:
    return {
        feature.name: (feature.min_version, feature.max_version)
        for feature in response.supported_features
        if feature.name not in NOT_HERE
    }


async def compare(address: str, release: str, versions: range) -> None:
    async with FakeCluster(version=release) as cluster:
        for version in versions:
            real, ours = await told(address, version), await told(cluster.address(0), version)
            assert ranges(ours) == ranges(real)
            assert levels(ours) == levels(real)
            assert supported(ours) == supported(real)
            assert (ours.finalized_features_epoch >= 0) == (real.finalized_features_epoch >= 0)


async def test_the_newest_release_matches_the_table(kafka: RealKafka) -> None:
    await compare(kafka.bootstrap_servers.split(",")[0], "4.4", range(6))


@pytest.mark.brokers
@pytest.mark.parametrize(("release", "newest"), [("2.8.2", 3), ("3.9.2", 4)])
async def test_older_releases_match_the_table(release: str, newest: int) -> None:
    try:
        with KafkaCluster(release) as cluster:
            await compare(cluster.bootstrap_servers, release, range(newest + 1))
    except KafkaNotAvailable as error:
        pytest.skip(f"no real Kafka: {error}")
