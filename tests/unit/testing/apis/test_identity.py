"""The APIs that a client uses first: ApiVersions, InitProducerId, FindCoordinator."""

import pytest

from aiokafka_lite.protocol.framing import decode_response, encode_request
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lite.protocol.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lite.protocol.messages.push_telemetry import PushTelemetryRequest
from aiokafka_lite.protocol.registry import request_class
from aiokafka_lite.testing.apis import SERVED
from aiokafka_lite.testing.context import CloseConnection
from tests.unit.testing.raw import SocketlessBroker

SOFTWARE = {"client_software_name": "test", "client_software_version": "1.0"}


@pytest.mark.parametrize("version", range(6))
def test_api_versions(broker: SocketlessBroker, version: int) -> None:
    response = broker.ask(ApiVersionsRequest(**SOFTWARE), version)
    assert response.error_code == 0
    told = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert told == SERVED


@pytest.mark.parametrize("key", SERVED)
def test_served_versions_are_spoken(broker: SocketlessBroker, key: int) -> None:
    first, last = SERVED[key]
    message = request_class(key)
    assert message.min_version <= first <= last <= message.max_version
    unstable = key == InitProducerIdRequest.api_key
    assert (first, last + unstable) == (message.min_version, message.max_version)


def test_api_versions_in_an_unknown_version(broker: SocketlessBroker) -> None:
    frame = encode_request(ApiVersionsRequest(**SOFTWARE), 5, 7, "test")
    frame[6:8] = (99).to_bytes(2, "big")
    exchange = broker.dispatchers[0].receive(bytes(frame[4:]), broker.session, 0.0)
    answer = exchange.encode(exchange.handle())
    correlation_id, response = decode_response(memoryview(answer)[4:], ApiVersionsRequest, 0)
    assert correlation_id == 7
    assert response.error_code == 35
    assert [(api.api_key, api.max_version) for api in response.api_keys] == [(18, 5)]


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1")])
def test_software_names(broker: SocketlessBroker, name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    assert broker.ask(request, 3).error_code == 42
    assert broker.ask(request, 2).error_code == 0


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, 0),
        ("right", 0, 0),
        ("wrong", 0, 129),
        ("right", 1, 129),
        ("wrong", -1, 42),
        (None, 0, 42),
    ],
)
def test_api_versions_checks_the_destination(
    broker: SocketlessBroker, cluster_id: str | None, node_id: int, error: int
) -> None:
    if cluster_id == "right":
        cluster_id = broker.state.cluster_id
    request = ApiVersionsRequest(**SOFTWARE, cluster_id=cluster_id, node_id=node_id)
    assert broker.ask(request, 5).error_code == error


def test_unsupported_requests_close_the_connection(broker: SocketlessBroker) -> None:
    with pytest.raises(CloseConnection):
        broker.begin(PushTelemetryRequest(), 0)
    frame = bytearray(encode_request(FindCoordinatorRequest(), 0, 7, "test")[4:])
    broker.dispatchers[0].receive(bytes(frame + b"!"), broker.session, 0.0)  # Kafka accepts it, too
    for damaged in (frame[:3], frame[:9], b"\x7f\xff" + frame[2:]):
        with pytest.raises(CloseConnection):
            broker.dispatchers[0].receive(bytes(damaged), broker.session, 0.0)
    frame[2:4] = (77).to_bytes(2, "big")
    with pytest.raises(CloseConnection):
        broker.dispatchers[0].receive(bytes(frame), broker.session, 0.0)


@pytest.mark.parametrize("version", range(6))
def test_producer_ids(broker: SocketlessBroker, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    answers = [broker.ask(request, version) for _ in range(2)]
    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [
        (0, 0, 0),
        (0, 1, 0),
    ]


def test_producer_ids_refused(broker: SocketlessBroker) -> None:
    half = InitProducerIdRequest(transactional_id=None, producer_id=3)
    nameless = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1)
    for request in (half, nameless):
        answer = broker.ask(request, 4)
        assert (answer.error_code, answer.producer_id) == (42, -1)


@pytest.mark.parametrize("version", range(7))
def test_coordinators(three_brokers: SocketlessBroker, version: int) -> None:
    broker = three_brokers
    request = (
        FindCoordinatorRequest(coordinator_keys=["mine"])
        if version >= 4
        else FindCoordinatorRequest(key="mine")
    )
    response = broker.ask(request, version)
    found = response.coordinators[0] if version >= 4 else response
    assert found.error_code == 0
    assert found.port == broker.state.nodes[found.node_id].port
    broker.state.on_node_down(found.node_id)
    response = broker.ask(request, version)
    moved = response.coordinators[0] if version >= 4 else response
    assert moved.node_id != found.node_id
    for node_id in broker.state.nodes:
        broker.state.on_node_down(node_id)
    response = broker.ask(request, version)
    none = response.coordinators[0] if version >= 4 else response
    assert (none.error_code, none.node_id) == (15, -1)


def test_an_unknown_kind_of_coordinator(broker: SocketlessBroker) -> None:
    request = FindCoordinatorRequest(key="mine", key_type=9)
    assert broker.ask(request, 1).error_code == 42
