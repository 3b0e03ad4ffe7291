"""Arguments: which are rejected, and with which messages."""

import asyncio
import ssl
from inspect import signature
from typing import Any

import pytest

from aiokafka_lite.consumer import consumer_options as options
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.consumer_arguments import consumer_options
from aiokafka_lite.consumer.consumer_arguments import group_options as arguments_of_groups
from aiokafka_lite.consumer.consumer_options import OffsetReset
from aiokafka_lite.coordinator.assignors.range import RangePartitionAssignor

pytestmark = pytest.mark.unhurried

MODERN = {"group_id": "g", "group_protocol": "consumer"}


async def make(**arguments: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(**arguments)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"security_protocol": "SOME"}, ValueError, "`security_protocol` should be SSL or PLAIN"),
        ({"ssl_cafile": "ca.pem"}, ValueError, "PLAINTEXT does not encrypt"),
        ({"isolation_level": "X"}, ValueError, "Incorrect isolation level X"),
        (
            {"security_protocol": "SASL_PLAINTEXT"},
            ValueError,
            "sasl_plain_username and sasl_plain_password required for PLAIN sasl",
        ),
        (
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_plain_username": "u",
                "sasl_plain_password": "p",
                "sasl_mechanism": "GSSAPI",
                "sasl_kerberos_keytab": "",
            },
            ValueError,
            "`sasl_kerberos_keytab` should not be empty",
        ),
        ({"max_poll_records": 0}, ValueError, "`max_poll_records` should be positive Integer"),
        ({"max_poll_records": True}, ValueError, "`max_poll_records` should be positive Integer"),
        ({"auto_offset_reset": "newest"}, ValueError, "'earliest', 'latest' or 'none'"),
        ({"group_id": ""}, ValueError, "`group_id` should be None or not empty"),
        ({"group_id": 7}, TypeError, "`group_id` should be a str"),
        ({"group_instance_id": "g"}, ValueError, "`group_instance_id` requires a"),
        ({"group_id": "g", "group_instance_id": "a b"}, ValueError, "1 to 249 letters"),
        ({"group_id": "g", "group_instance_id": ".."}, ValueError, "1 to 249 letters"),
        ({"group_protocol": "modern"}, ValueError, "should be 'classic' or 'consumer'"),
        ({"group_remote_assignor": "range"}, ValueError, "requires a"),
        (
            {"group_id": "g", "group_remote_assignor": "range"},
            ValueError,
            "`group_remote_assignor` cannot be set with group_protocol='classic'",
        ),
        ({**MODERN, "group_remote_assignor": ""}, ValueError, "not empty"),
        (
            {**MODERN, "partition_assignment_strategy": [RangePartitionAssignor]},
            ValueError,
            "`partition_assignment_strategy` cannot be set with group_protocol='consumer'",
        ),
        ({**MODERN, "session_timeout_ms": 9000}, ValueError, "`session_timeout_ms` cannot be set"),
        ({**MODERN, "heartbeat_interval_ms": 1}, ValueError, "`heartbeat_interval_ms` cannot be"),
        (
            {"group_id": "g", "session_timeout_ms": 6000, "heartbeat_interval_ms": 6000},
            ValueError,
            "`heartbeat_interval_ms` should be less than `session_timeout_ms`",
        ),
        ({"group_id": "g", "partition_assignment_strategy": ()}, ValueError, "assignor"),
        ({"group_id": "g", "partition_assignment_strategy": [int]}, TypeError, "assignor"),
        ({"partition_assignment_strategy": 1}, TypeError, "should be a list or tuple"),
        ({"rebalance_timeout_ms": 0}, ValueError, "`rebalance_timeout_ms`"),
        ({"enable_auto_commit": 1}, TypeError, "`enable_auto_commit` should be True or False"),
        ({"fetch_min_bytes": -1}, ValueError, "`fetch_min_bytes` should be at least 0"),
        ({"fetch_max_bytes": 0}, ValueError, "`fetch_max_bytes` should be at least 1"),
        ({"fetch_max_bytes": "1"}, TypeError, "`fetch_max_bytes` should be an integer"),
        ({"max_partition_fetch_bytes": 0}, ValueError, "`max_partition_fetch_bytes`"),
        ({"buffer_memory": 0}, ValueError, "`buffer_memory`"),
        ({"fetch_max_wait_ms": -1}, ValueError, "`fetch_max_wait_ms` should be at least 0"),
        ({"request_timeout_ms": 0}, ValueError, "`request_timeout_ms`"),
        ({"default_api_timeout_ms": 0}, ValueError, "`default_api_timeout_ms`"),
        ({"retry_backoff_max_ms": -1}, ValueError, "`retry_backoff_max_ms`"),
        ({"reconnect_backoff_ms": "x"}, TypeError, "`reconnect_backoff_ms` should be a number"),
        ({"reconnect_backoff_max_ms": -1}, ValueError, "`reconnect_backoff_max_ms`"),
        ({"socket_connection_setup_timeout_ms": 0}, ValueError, "`socket_connection_setup_tim"),
        (
            {"socket_connection_setup_timeout_max_ms": 0},
            ValueError,
            "`socket_connection_setup_timeout_max_ms`",
        ),
        ({"send_buffer_bytes": -2}, ValueError, "`send_buffer_bytes` should be at least -1"),
        ({"receive_buffer_bytes": 0}, ValueError, "receive_buffer_bytes"),
        ({"session_timeout_ms": "x"}, TypeError, "`session_timeout_ms` should be a number"),
        ({"auto_offset_rest": "latest"}, TypeError, "did you mean `auto_offset_reset`?"),
        ({"quite_unknown": 1}, TypeError, "no argument `quite_unknown`"),
        ({"bootstrap_servers": "host:notaport"}, ValueError, "notaport"),
    ],
)
async def test_refused(arguments: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        await make(**arguments)
    assert words in str(caught.value)


async def test_every_argument_of_aiokafka_is_known() -> None:
    consumer = await make(
        bootstrap_servers=["127.0.0.1:1", "127.0.0.1:2"],
        client_id="me",
        group_id=None,
        group_instance_id=None,
        key_deserializer=None,
        value_deserializer=None,
        fetch_max_wait_ms=500,
        fetch_max_bytes=52428800,
        fetch_min_bytes=1,
        max_partition_fetch_bytes=1048576,
        request_timeout_ms=40000,
        retry_backoff_ms=100,
        auto_offset_reset="none",
        enable_auto_commit=True,
        auto_commit_interval_ms=5000,
        check_crcs=True,
        metadata_max_age_ms=300000,
        partition_assignment_strategy=(),
        max_poll_interval_ms=300000,
        rebalance_timeout_ms=None,
        session_timeout_ms=10000,
        heartbeat_interval_ms=3000,
        consumer_timeout_ms=200,
        max_poll_records=None,
        ssl_context=ssl.create_default_context(),
        security_protocol="SSL",
        exclude_internal_topics=True,
        connections_max_idle_ms=None,
        isolation_level="read_committed",
        sasl_mechanism="PLAIN",
        sasl_plain_password=None,
        sasl_plain_username=None,
        sasl_kerberos_service_name="kafka",
        sasl_kerberos_domain_name=None,
        sasl_oauth_token_provider=None,
        client_rack="here",
    )
    await consumer.stop()


def group_options(**arguments: Any) -> options.GroupOptions:
    own: dict[str, Any] = {
        name: value.default
        for name, value in signature(AIOKafkaConsumer).parameters.items()
        if name in signature(consumer_options).parameters
    }
    of_groups: dict[str, Any] = {
        name: value.default
        for name, value in signature(AIOKafkaConsumer).parameters.items()
        if name in signature(arguments_of_groups).parameters
    }
    found = arguments_of_groups(consumer_options(**own), **{**of_groups, **arguments})
    assert found is not None
    return found


def test_defaults_of_a_group() -> None:
    classic = group_options(group_id="g").membership
    assert (classic.session_timeout, classic.heartbeat_interval) == (10.0, 3.0)
    assert classic.effective_rebalance_timeout == 10.0  # as in aiokafka
    assert classic.max_poll_interval == 300.0
    modern = group_options(**MODERN)
    assert modern.modern
    assert modern.membership.effective_rebalance_timeout == 300.0  # as in Java


async def test_kafka_options_reach_their_components() -> None:
    consumer = await make(
        group_id="g",
        default_api_timeout_ms=7000,
        retry_backoff_ms=300,
        retry_backoff_max_ms=3000,
        reconnect_backoff_ms=70,
        reconnect_backoff_max_ms=2000,
        socket_connection_setup_timeout_ms=5000,
        socket_connection_setup_timeout_max_ms=45_000,
        send_buffer_bytes=1 << 17,
        receive_buffer_bytes=-1,
    )
    core = consumer._core
    assert 6.9 < core.deadline() - asyncio.get_running_loop().time() <= 7.0
    connections = core.cluster._brokers._options
    assert (connections.reconnect_backoff, connections.reconnect_backoff_max) == (0.07, 2.0)
    assert (connections.connect_timeout, connections.connect_timeout_max) == (5.0, 45.0)
    assert (connections.send_buffer_bytes, connections.receive_buffer_bytes) == (1 << 17, None)
    assert core.group is not None
    for backoff in (core.cluster.retry_backoff, core.group.options.retry_backoff):
        assert (backoff.base, backoff.maximum) == (0.3, 3.0)
    await consumer.stop()
    consumer = await make(request_timeout_ms=9000)
    assert consumer._core.options.api_timeout == 9.0
    await consumer.stop()


def test_a_short_session_alone_is_taken_with_quicker_heartbeats() -> None:
    options = group_options(group_id="g", session_timeout_ms=3000).membership
    assert options.heartbeat_interval == 1.0


async def test_deprecated_arguments_warn() -> None:
    with pytest.warns(DeprecationWarning, match="loop"):
        consumer = await make(loop=asyncio.get_running_loop())
    await consumer.stop()
    with pytest.warns(DeprecationWarning, match="api_version"):
        consumer = await make(api_version="auto")
    await consumer.stop()


def test_a_fetch_never_requests_more_than_the_memory_allows() -> None:
    def response_bytes(**sizes: int) -> int:
        defaults: dict[str, Any] = {
            "key_deserializer": None,
            "value_deserializer": None,
            "fetch_max_wait": 0.5,
            "fetch_max_bytes": 52428800,
            "fetch_min_bytes": 1,
            "max_partition_fetch_bytes": 1048576,
            "request_timeout": 40.0,
            "retry_backoff": 0.1,
            "auto_offset_reset": OffsetReset.LATEST,
            "check_crcs": True,
            "quiet_partition_wait": 0.2,
            "max_poll_records": None,
            "exclude_internal_topics": True,
            "isolation_level": options.IsolationLevel.READ_UNCOMMITTED,
            "client_rack": "",
            "buffer_memory": options.DEFAULT_BUFFER_MEMORY,
        }
        return options.ConsumerOptions(**{**defaults, **sizes}).response_bytes

    assert response_bytes() == options.RESPONSE_LIMIT
    assert response_bytes(fetch_max_bytes=1000) == 1000
    assert response_bytes(buffer_memory=1_000_000) == 500_000
    assert response_bytes(buffer_memory=1) == 1
