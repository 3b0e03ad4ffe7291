"""Emulating a release: its APIs, versions and features, and nothing newer."""

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.protocol.versions import RELEASES
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.apis import SERVED
from aiokafka_lite.testing.features import Features
from aiokafka_lite.testing.release_profile import announced, offered
from tests.unit.testing.raw import RawClient, SocketlessBroker

SOFTWARE = {"client_software_name": "test", "client_software_version": "1.0"}
KRAFT_ONLY = {ApiKey.DESCRIBE_QUORUM, ApiKey.UNREGISTER_BROKER}


@pytest.mark.parametrize("release", RELEASES)
def test_no_api_is_newer_than_the_release(release: str) -> None:
    found = offered(SERVED, release, {})
    released = RELEASES[release]
    assert found.keys() <= released.keys()
    for key, (first, last) in found.items():
        assert released[ApiKey(key)][0] <= first <= last <= released[ApiKey(key)][1]
    on_kraft = Features(release).on_kraft
    assert all((key in found) == on_kraft for key in KRAFT_ONLY & released.keys())


@pytest.mark.parametrize("release", RELEASES)
def test_every_served_api_of_the_release_is_offered(release: str) -> None:
    found = offered(SERVED, release, {})
    for key, (first, last) in RELEASES[release].items():
        if key in SERVED and key not in KRAFT_ONLY:
            assert found[key] == (max(first, SERVED[key][0]), min(last, SERVED[key][1]))


@pytest.mark.parametrize("release", RELEASES)
def test_features_of_releases(release: str) -> None:
    features = Features(release)
    assert features.on_kraft == ("metadata.version" in features.finalized)
    for name, level in features.finalized.items():
        assert features.supported[name].lowest <= level <= features.supported[name].highest
    shares = "share.version" in features.supported
    assert shares == (release in ("4.1", "4.2", "4.3", "4.4"))


def test_releases_since_4_0_announce_produce_from_version_0() -> None:
    ranges = offered(SERVED, "4.4", {})
    assert ranges[ApiKey.PRODUCE] == (3, 13)
    assert announced(ranges, (4, 4))[ApiKey.PRODUCE] == (0, 13)
    assert announced(offered(SERVED, "3.9", {}), (3, 9))[ApiKey.PRODUCE] == (0, 11)


@pytest.mark.parametrize("version", ["5.9", "banana", "", "3"])
def test_an_unknown_release(version: str) -> None:
    with pytest.raises(ValueError, match="unknown Kafka release"):
        FakeCluster(version=version)


@pytest.mark.parametrize(
    "features", [{"nope": 1}, {"group.version": 2}, {"metadata.version": 0}, {"share.version": 3}]
)
def test_invalid_features_are_errors(features: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="features="):
        FakeCluster(features=features)


@pytest.mark.parametrize("configs", [{"nope": 1}, {"num.partitions": "x"}])
def test_invalid_broker_configs_are_errors(configs: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"nope|num\.partitions"):
        FakeCluster(broker_configs=configs)


def test_api_versions_returns_features() -> None:
    broker = SocketlessBroker(features={"group.version": 0, "transaction.version": 1})
    answer = broker.ask(ApiVersionsRequest(**SOFTWARE), 4)
    assert {f.name: f.max_version_level for f in answer.finalized_features} == {
        "metadata.version": 33,
        "transaction.version": 1,
        "eligible.leader.replicas.version": 1,
        "share.version": 2,
    }
    assert "group.version" in {f.name for f in answer.supported_features}
    # KIP-1022: v3 clients do not support a lowest level of 0.
    older = broker.ask(ApiVersionsRequest(**SOFTWARE), 3)
    assert [f.name for f in older.supported_features] == ["metadata.version"]


@pytest.mark.parametrize("after_handling", [False, True])
async def test_an_unsupported_api_versions_gets_a_version_0_response(
    after_handling: bool,
) -> None:
    async with FakeCluster() as cluster:
        cluster.control(ApiKey.API_VERSIONS, error=35, after_handling=after_handling)
        client = await RawClient.connect(cluster.address(0))
        client.send(ApiVersionsRequest(**SOFTWARE), 4)
        reader = Reader(await client.frame())
        assert reader.int32() == 1
        answer = ApiVersionsResponse.decode(reader, 0)
        reader.expect_end()
        assert answer.error_code == 35
        spoken = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert spoken[ApiKey.API_VERSIONS] == SERVED[ApiKey.API_VERSIONS]
        await client.ask(ApiVersionsRequest(**SOFTWARE), 4)
        await client.close()


async def test_a_cluster_of_2_8() -> None:
    async with FakeCluster(version="2.8.2") as cluster:
        client = await RawClient.connect(cluster.address(0))
        answer = await client.ask(ApiVersionsRequest(**SOFTWARE), 3)
        ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        assert ranges[ApiKey.METADATA] == (0, 11)
        assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in ranges
        assert ApiKey.DESCRIBE_QUORUM not in ranges
        assert (answer.finalized_features_epoch, answer.finalized_features) == (0, [])
        client.send(MetadataRequest([]), 12)
        assert await client.is_cut()
        await client.close()


@pytest.mark.asyncio(loop_factories=["asyncio"])
@pytest.mark.parametrize("release", ["0.8.2", "0.9", "0.10.0", "0.11", "2.3", "2.8", "3.9", "4.4"])
async def test_clients_work_with_older_releases(release: str) -> None:
    async with FakeCluster(version=release, topics=["orders"]) as cluster:
        servers = cluster.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("orders", b"first")
            await producer.send_and_wait("asked-for", b"second")
        async with AIOKafkaConsumer(
            bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0) for topic in ("orders", "asked-for")])
            read = {(await consumer.getone()).value for _ in range(2)}
        assert read == {b"first", b"second"}
