"""Describing the cluster, and the admin client's own life."""

import asyncio
import gc
import importlib
import warnings

import pytest

from aiokafka_lite.admin import AclOperation, AIOKafkaAdminClient
from aiokafka_lite.errors import IllegalStateError, KafkaConnectionError, UnsupportedVersionError
from aiokafka_lite.testing import ApiKey, FakeCluster

pytestmark = pytest.mark.unhurried


async def test_the_cluster_as_aiokafka_describes_it(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    told = await admin.describe_cluster()
    ports = [node.port for node in brokers.state.nodes.values()]
    assert told == {
        "throttle_time_ms": 0,
        "brokers": [
            {"node_id": 0, "host": "127.0.0.1", "port": ports[0], "rack": "a"},
            {"node_id": 1, "host": "127.0.0.1", "port": ports[1], "rack": "b"},
            {"node_id": 2, "host": "127.0.0.1", "port": ports[2], "rack": None},
        ],
        "cluster_id": told["cluster_id"],
        "controller_id": told["controller_id"],
    }
    assert told["cluster_id"]
    assert told["controller_id"] in (0, 1, 2)


async def test_the_typed_description(admin: AIOKafkaAdminClient) -> None:
    told = await admin.describe_cluster(typed=True)
    assert set(told.brokers) == {0, 1, 2}
    assert told.brokers[1].rack == "b"
    assert told.authorized_operations is None
    told = await admin.describe_cluster(typed=True, include_authorized_operations=True)
    assert told.authorized_operations is not None
    assert AclOperation.CREATE in told.authorized_operations


@pytest.mark.parametrize("release", ["0.10.0", "2.2", "2.7"])
async def test_brokers_without_describe_cluster_receive_a_metadata_request(release: str) -> None:
    async with (
        FakeCluster(2, version=release) as old,
        AIOKafkaAdminClient(bootstrap_servers=old.bootstrap_servers) as admin,
    ):
        told = await admin.describe_cluster()
        assert [each["node_id"] for each in told["brokers"]] == [0, 1]
        assert (told["cluster_id"] is None) == (release == "0.10.0")
        with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 4\.0 or newer"):
            await admin.describe_cluster(include_fenced_brokers=True)
        if release != "2.7":
            with pytest.raises(UnsupportedVersionError, match=r"requires Kafka 2\.3 or newer"):
                await admin.describe_cluster(include_authorized_operations=True)


async def test_start_and_close_are_idempotent(brokers: FakeCluster) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers)
    await admin.start()
    await admin.start()
    await admin.list_topics()
    await admin.close()
    await admin.close()
    with pytest.raises(IllegalStateError, match="closed"):
        await admin.start()
    with pytest.raises(IllegalStateError, match="closed"):
        await admin.list_topics()


async def test_a_call_before_start_is_refused(brokers: FakeCluster) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers)
    with pytest.raises(IllegalStateError, match="not started"):
        await admin.describe_cluster()
    await admin.close()


async def test_a_start_that_failed_can_be_repeated() -> None:
    brokers = FakeCluster(1)
    async with brokers:
        servers = brokers.bootstrap_servers
        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        brokers.kill(0)
        with pytest.raises(KafkaConnectionError):
            async with admin:
                pass
        await brokers.restart(0)
        async with admin:
            assert await admin.list_topics() == []


async def test_closing_ends_calls_under_way(
    admin: AIOKafkaAdminClient, brokers: FakeCluster
) -> None:
    fault = brokers.control(ApiKey.DESCRIBE_CLUSTER, drop=True)
    call = asyncio.create_task(admin.describe_cluster())
    await fault.struck()
    await admin.close()
    with pytest.raises(IllegalStateError):
        await call


async def test_a_client_that_is_dropped_warns(brokers: FakeCluster) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers)
    await admin.start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del admin
        gc.collect()
    assert "Unclosed AIOKafkaAdminClient" in str([each.message for each in caught])


async def test_constructor_arguments_of_aiokafka(brokers: FakeCluster) -> None:
    with pytest.warns(DeprecationWarning, match="api_version"):
        admin = AIOKafkaAdminClient(
            loop=None,
            bootstrap_servers=brokers.bootstrap_servers,
            client_id="ops",
            request_timeout_ms=40000,
            connections_max_idle_ms=540000,
            retry_backoff_ms=100,
            metadata_max_age_ms=300000,
            security_protocol="PLAINTEXT",
            ssl_context=None,
            api_version="auto",
            sasl_mechanism="PLAIN",
            sasl_plain_username=None,
            sasl_plain_password=None,
            sasl_kerberos_service_name="kafka",
            sasl_kerberos_domain_name=None,
            sasl_oauth_token_provider=None,
        )
    async with admin:
        await admin.list_topics()
    with pytest.raises(TypeError, match="did you mean `bootstrap_servers`"):
        AIOKafkaAdminClient(bootstrap_server="x")  # type: ignore[arg-type]
    for bad in ({"request_timeout_ms": 0}, {"default_api_timeout_ms": -1}, {"client_id": "\ud800"}):
        with pytest.raises(ValueError):
            AIOKafkaAdminClient(**bad)


def test_aiokafkas_import_paths() -> None:
    for module, names in {
        "": ["AIOKafkaAdminClient", "NewTopic", "NewPartitions", "RecordsToDelete"],
        ".client": ["AIOKafkaAdminClient"],
        ".new_topic": ["NewTopic"],
        ".new_partitions": ["NewPartitions"],
        ".config_resource": ["ConfigResource", "ConfigResourceType"],
        ".records_to_delete": ["RecordsToDelete"],
    }.items():
        found = importlib.import_module(f"aiokafka_lite.admin{module}")
        assert [name for name in names if not hasattr(found, name)] == []


def test_a_client_needs_a_running_loop() -> None:
    with pytest.raises(RuntimeError, match="no event loop"):
        AIOKafkaAdminClient()


async def test_concurrent_starts_wait_for_the_same_connection(brokers: FakeCluster) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap_servers)
    fault = brokers.control(ApiKey.METADATA, delay=0.05)
    await asyncio.gather(admin.start(), admin.start(), admin.start())
    assert fault.hits == 1
    assert admin._cluster.metadata.brokers
    await admin.close()
