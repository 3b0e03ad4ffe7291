"""A real broker answers every API in every common version, and the response can be decoded."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pytest

from aiokafka_lite.protocol import framing
from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnTransaction,
)
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from aiokafka_lite.protocol.registry import API_MODULES, ApiKey, api_name, request_class
from aiokafka_lite.protocol.versions import RELEASES, BrokerVersions, versions_of
from tools.kafka import NEWEST, OLD_RELEASES, KafkaCluster, KafkaNotAvailable, RealKafka

pytestmark = pytest.mark.timeout(300)

HARMFUL = {
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.UNREGISTER_CONTROLLER,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
}
"""The broker might carry out a request of defaults."""


def harmless(api_key: int, version: int) -> Request:
    """A request that changes nothing: defaults, except where a broker would not answer them."""
    request: Any = request_class(api_key)()
    if api_key == ApiKey.PRODUCE:
        request.acks = 1
    elif (api_key == ApiKey.FETCH and version < 15) or api_key == ApiKey.LIST_OFFSETS:
        request.replica_id = -1
    elif api_key == ApiKey.API_VERSIONS:
        request.client_software_name, request.client_software_version = "oracle", "1"
    elif api_key == ApiKey.DESCRIBE_ACLS:
        request.resource_type_filter = request.operation = request.permission_type = 1
    elif api_key == ApiKey.OFFSET_FETCH and version > 7:
        request.groups = [OffsetFetchRequestGroup("oracle")]  # without one 3.9 never answers
    elif api_key == ApiKey.ADD_PARTITIONS_TO_TXN and version > 3:
        request.transactions = [AddPartitionsToTxnTransaction(transactional_id="oracle")]
    return request


ONLY_WHERE_CONFIGURED = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


class Wire:
    """A blocking connection, because this test checks bytes, not the client."""

    def __init__(self, connection: socket.socket, stream: BinaryIO) -> None:
        self.connection = connection
        self.stream = stream

    def ask(self, request: Request, version: int) -> Any:
        self.connection.sendall(framing.encode_request(request, version, 7, "oracle"))
        size = self.stream.read(4)
        if len(size) < 4:
            raise EOFError(f"closed after {api_name(request.api_key)} {version}")
        frame = self.stream.read(struct.unpack(">i", size)[0])
        correlation_id, response = framing.decode_response(frame, type(request), version)
        assert correlation_id == 7
        return response


@contextmanager
def connected(bootstrap_servers: str) -> Iterator[Wire]:
    host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=30) as connection,
        connection.makefile("rb") as stream,
    ):
        yield Wire(connection, stream)


def told_by(bootstrap_servers: str) -> BrokerVersions:
    with connected(bootstrap_servers) as wire:
        return BrokerVersions.from_response(wire.ask(ApiVersionsRequest(), 0))


def ask_everything(bootstrap_servers: str, broker: BrokerVersions) -> int:
    """Send every API in every common version, each on a new connection."""
    asked = 0
    for api_key in API_MODULES:
        message, offered = request_class(api_key), broker.range_of(api_key)
        if offered is None or api_key in HARMFUL:
            continue
        # Brokers report Produce from 0, for old librdkafka, but accept it from 3.
        dropped = api_key == ApiKey.PRODUCE and offered[1] >= 12
        oldest = max(message.min_version, 3 if dropped else offered[0])
        for version in range(oldest, min(message.max_version, offered[1]) + 1):
            with connected(bootstrap_servers) as wire:
                wire.ask(harmless(api_key, version), version)
            asked += 1
    return asked


@pytest.mark.real
def test_every_api_and_version_gets_a_readable_response(kafka: RealKafka) -> None:
    assert ask_everything(kafka.bootstrap_servers, told_by(kafka.bootstrap_servers)) > 100


@pytest.mark.brokers
@pytest.mark.parametrize("release", ["3.9.2", *OLD_RELEASES])
def test_every_api_and_version_gets_a_readable_response_from_old_brokers(release: str) -> None:
    try:
        with KafkaCluster(release) as cluster:
            servers = cluster.bootstrap_servers
            known = versions_of(release)
            broker = told_by(servers) if known.supports(ApiKey.API_VERSIONS) else known
            assert ask_everything(servers, broker) >= 9
    except KafkaNotAvailable as reason:
        pytest.skip(f"no real Kafka: {reason}")


@pytest.mark.real
def test_release_table_matches_the_brokers_versions(kafka: RealKafka) -> None:
    broker = told_by(kafka.bootstrap_servers)
    known = versions_of(NEWEST)
    if broker.range_of(ApiKey.API_VERSIONS) != known.range_of(ApiKey.API_VERSIONS):
        pytest.skip(f"the broker is not {NEWEST}")
    for api_key, versions in RELEASES[known.release or NEWEST].items():
        if api_key not in ONLY_WHERE_CONFIGURED | {ApiKey.PRODUCE}:
            assert broker.range_of(api_key) == versions, api_name(api_key)
    assert broker.range_of(ApiKey.PRODUCE) == (0, 13), "told for old librdkafka, taken from 3 on"
