"""Detection of the API versions of brokers from 0.8.2 to future releases."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import (
    InvalidRequestError,
    KafkaConnectionError,
    KafkaProtocolError,
    NodeNotReadyError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
)
from aiokafka_lite.net.api_version_cache import Known
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.handshake import (
    STEP_TIMEOUT,
    BrokerIdentity,
    Rung,
    is_before_api_versions,
    ladder,
)
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.net.sasl.plain import Plain
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.framing import decode_request_header, encode_response
from aiokafka_lite.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from aiokafka_lite.protocol.messages.request_header import RequestHeader
from aiokafka_lite.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from aiokafka_lite.protocol.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from aiokafka_lite.testing import FakeCluster
from tests.unit.net.mechanisms import Password
from tests.unit.net.scripted import MODERN, Peer, Script, answer_to_api_versions

Serve = Callable[..., Any]
Connect = Callable[..., Any]


def negotiating(asked: list[int], newest: int, tells_range: bool) -> Script:
    """A broker with ApiVersions up to `newest`; from 2.4 on its refusal includes the range."""

    async def script(peer: Peer) -> None:
        while True:
            frame = await peer.read_frame()
            header, _ = decode_request_header(frame)
            assert header.request_api_key == ApiKey.API_VERSIONS
            asked.append(header.request_api_version)
            if header.request_api_version <= newest:
                ranges = {**MODERN, ApiKey.API_VERSIONS: (0, newest)}
                peer.answer(header, answer_to_api_versions(ranges))
                continue
            ranges = {ApiKey.API_VERSIONS: (0, newest)} if tells_range else {}
            refusal = answer_to_api_versions(ranges, UnsupportedVersionError.errno)
            peer.write(encode_response(refusal, 0, header.correlation_id))

    return script


async def test_current_broker_needs_one_request(serve: Serve, connect: Connect) -> None:
    asked: list[int] = []
    connection = await connect(await serve(negotiating(asked, 4, True)))
    assert asked == [4]
    assert connection.versions.range_of(ApiKey.METADATA) == MODERN[ApiKey.METADATA]


def identifying(asked: list[ApiVersionsRequest], newest: int) -> Script:
    """Broker 7 of the cluster "mine"; from version 5 on it rejects requests for another broker."""

    async def script(peer: Peer) -> None:
        while True:
            frame = await peer.read_frame()
            header, reader = decode_request_header(frame)
            version = header.request_api_version
            asked.append(ApiVersionsRequest.decode(reader, version))
            ranges = {**MODERN, ApiKey.API_VERSIONS: (0, newest)}
            if version > newest:
                refusal = answer_to_api_versions(ranges, UnsupportedVersionError.errno)
                peer.write(encode_response(refusal, 0, header.correlation_id))
                continue
            wrong = version >= 5 and (asked[-1].cluster_id, asked[-1].node_id) not in (
                ("mine", 7),
                (None, -1),
            )
            errno = RebootstrapRequiredError.errno if wrong else 0
            peer.answer(header, answer_to_api_versions(ranges, errno))

    return script


async def test_kip_1242_expected_broker_is_accepted(serve: Serve, connect: Connect) -> None:
    asked: list[ApiVersionsRequest] = []
    await connect(await serve(identifying(asked, 5)), expected=BrokerIdentity("mine", 7))
    assert [(each.cluster_id, each.node_id) for each in asked] == [("mine", 7)]


async def test_kip_1242_another_broker_raises(serve: Serve, connect: Connect) -> None:
    broker = await serve(identifying([], 5))
    options = ConnectionOptions()
    await connect(broker, options=options)  # at bootstrap no particular broker is expected
    with pytest.raises(NodeNotReadyError, match="REBOOTSTRAP_REQUIRED"):
        await connect(broker, options=options, expected=BrokerIdentity("mine", 8))
    assert broker.accepted == 2


async def test_kip_1242_with_older_brokers(serve: Serve, connect: Connect) -> None:
    asked: list[ApiVersionsRequest] = []
    options = ConnectionOptions()
    broker = await serve(identifying(asked, 4))
    for _ in range(2):
        await connect(broker, options=options, expected=BrokerIdentity("mine", 8))
    assert [each.node_id for each in asked] == [8, -1, -1]


async def test_request_names_the_client_software(serve: Serve, connect: Connect) -> None:
    requests: list[ApiVersionsRequest] = []

    async def script(peer: Peer) -> None:
        header, request = await peer.read()
        assert isinstance(request, ApiVersionsRequest)
        requests.append(request)
        peer.answer(header, answer_to_api_versions())
        await peer.silence()

    await connect(await serve(script), client_software_name="mine", client_software_version="1.2.3")
    assert (requests[0].client_software_name, requests[0].client_software_version) == (
        "mine",
        "1.2.3",
    )


async def test_kip_511_response_with_the_supported_range(serve: Serve, connect: Connect) -> None:
    asked: list[int] = []
    options = ConnectionOptions()
    broker = await serve(negotiating(asked, 3, True))
    connection = await connect(broker, options=options)
    assert asked == [4, 3]
    assert connection.versions.supports(ApiKey.METADATA, 12)
    await connect(broker, options=options)
    assert asked == [4, 3, 3]  # remembered
    assert broker.accepted == 2


async def test_kip_511_response_of_brokers_before_2_4(serve: Serve, connect: Connect) -> None:
    asked: list[int] = []
    options = ConnectionOptions()
    broker = await serve(negotiating(asked, 2, False))
    connection = await connect(broker, options=options)
    assert asked == [4, 0]
    assert connection.versions.supports(ApiKey.METADATA, 12)
    await connect(broker, options=options)
    assert asked == [4, 0, 2]  # its response had the range


async def test_broker_that_rejects_every_version_raises(serve: Serve, connect: Connect) -> None:
    broker = await serve(negotiating([], -1, True))
    with pytest.raises(UnsupportedVersionError, match="refused ApiVersions"):
        await connect(broker)


async def test_other_error_codes_raise_node_not_ready(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        header, _ = await peer.read()
        peer.answer(header, answer_to_api_versions({}, InvalidRequestError.errno))
        await peer.silence()

    broker = await serve(script)
    with pytest.raises(NodeNotReadyError, match="INVALID_REQUEST"):
        await connect(broker)
    assert broker.accepted == 1


def old(knows: type[ListGroupsRequest] | type[MetadataRequest], hangs_up: bool) -> Script:
    """A broker before 0.10: it answers this request and Metadata. On any other it closes the
    connection or stays silent."""

    async def script(peer: Peer) -> None:
        while True:
            header, request = await peer.read()
            if isinstance(request, ListGroupsRequest) and knows is ListGroupsRequest:
                peer.answer(header, ListGroupsResponse())
            elif isinstance(request, MetadataRequest):
                assert request.topics == []
                peer.answer(header, MetadataResponse())
            elif hangs_up:
                return
            else:
                await peer.silence()

    return script


@pytest.mark.parametrize("hangs_up", [True, False], ids=["hangs-up", "silent"])
@pytest.mark.parametrize(
    ("knows", "release", "connections"),
    [(ListGroupsRequest, "0.9", 7), (MetadataRequest, "0.8.2", 9)],
)
async def test_brokers_before_0_10_are_detected(
    serve: Serve,
    connect: Connect,
    knows: type[ListGroupsRequest] | type[MetadataRequest],
    release: str,
    connections: int,
    hangs_up: bool,
) -> None:
    broker = await serve(old(knows, hangs_up))
    # It does not answer most requests, and each time out is long enough for a busy machine to
    # answer the others.
    options = ConnectionOptions(connect_timeout=5 if hangs_up else 1.0)
    connection = await connect(broker, options=options)
    assert connection.versions.release == release
    assert connection.versions.supports(ApiKey.LIST_GROUPS) is (release == "0.9")
    assert broker.accepted == connections
    again = await connect(broker, options=options)
    assert again.versions == connection.versions
    assert broker.accepted == connections + 1  # cached: no request is sent
    another = await serve(old(knows, hangs_up))
    assert (await connect(another, options=options)).versions.release == release
    assert (
        another.accepted == (connections + 1) // 2
    )  # another old broker is known, so one detection is enough


async def test_repeated_disconnects_do_not_imply_an_old_broker(
    serve: Serve, connect: Connect
) -> None:
    async def cut_off(peer: Peer) -> None:
        await peer.read()

    async def cut_off_after_metadata(peer: Peer) -> None:
        header, request = await peer.read()
        assert isinstance(request, MetadataRequest)
        peer.answer(header, MetadataResponse())
        await peer.read()

    async def well(peer: Peer) -> None:
        await peer.greet()
        await peer.silence()

    broker = await serve(cut_off, cut_off, cut_off, cut_off_after_metadata, well)
    connection = await connect(broker)
    assert connection.versions.release is None
    assert connection.versions.supports(ApiKey.METADATA, 12)
    assert broker.accepted == 5


async def test_modern_broker_rules_out_old_brokers_in_its_cluster(
    serve: Serve, connect: Connect
) -> None:
    async def greets(peer: Peer) -> None:
        await peer.greet()
        await peer.silence()

    options = ConnectionOptions()
    await connect(await serve(greets), options=options)
    broker = await serve(old(MetadataRequest, hangs_up=True))
    with pytest.raises(KafkaConnectionError, match="closed the connection"):
        await connect(broker, options=options)
    assert broker.accepted == 2


async def test_configured_old_release_skips_detection(serve: Serve, connect: Connect) -> None:
    broker = await serve(old(ListGroupsRequest, True))
    connection = await connect(broker, api_version="0.8.2")
    assert connection.versions.release == "0.8.2"
    assert broker.accepted == 1


async def test_configured_newer_release_is_still_detected(serve: Serve, connect: Connect) -> None:
    asked: list[int] = []
    connection = await connect(await serve(negotiating(asked, 4, True)), api_version="2.8")
    assert asked == [4]
    assert connection.versions.release is None


@pytest.mark.parametrize("hangs_up", [True, False], ids=["hangs-up", "silent"])
async def test_no_answer_to_a_new_version_falls_back_to_version_0(
    serve: Serve, connect: Connect, hangs_up: bool
) -> None:
    """As behind a proxy; the broker offers the newer version in its answer to the old one."""

    async def script(peer: Peer) -> None:
        while True:
            header, request = await peer.read()
            assert isinstance(request, ApiVersionsRequest)
            if header.request_api_version == 0:
                peer.answer(header, answer_to_api_versions())
            elif hangs_up:
                return
            else:
                await peer.silence()

    broker = await serve(script)
    # Each timeout is long enough for a busy machine to answer the others.
    options = ConnectionOptions(connect_timeout=5 if hangs_up else 0.4)
    connection = await connect(broker, options=options)
    assert connection.versions.supports(ApiKey.METADATA, 12)
    assert broker.accepted == 5  # it must seem so twice
    for accepted in 6, 7, 8:
        connection = await connect(broker, options=options)
        assert connection.versions.supports(ApiKey.METADATA, 12)
        assert broker.accepted == accepted  # remembered
    connection.close(KafkaConnectionError("lost"))
    await connect(broker, options=options)
    assert broker.accepted == 13  # tried again


def with_features(header: RequestHeader) -> ApiVersionsResponse:
    """A modern broker's answer: versions before 3 have no features."""
    answer = answer_to_api_versions()
    if header.request_api_version >= 3:
        answer.finalized_features = [FinalizedFeatureKey("transaction.version", 2, 2)]
    return answer


@pytest.mark.parametrize(("silent", "modern"), [(1, False), (1, True), (2, False)])
async def test_late_answer_keeps_the_features(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch, silent: int, modern: bool
) -> None:
    """The first connections are silent, as those of a busy broker."""
    monkeypatch.setattr("aiokafka_lite.net.handshake.STEP_TIMEOUT", 0.3)
    asked: list[int] = []

    async def asleep(peer: Peer) -> None:
        await peer.silence()

    async def awake(peer: Peer) -> None:
        while True:
            header, request = await peer.read()
            if isinstance(request, ApiVersionsRequest):
                asked.append(header.request_api_version)
                peer.answer(header, with_features(header))
            else:
                peer.answer(header, ListGroupsResponse())

    broker = await serve(*[asleep] * silent, awake)
    options = ConnectionOptions()
    options.known.modern = modern  # if so, there are only two rungs
    for _ in range(2):
        connection = await connect(broker, options=options)
        assert connection.versions.features == {"transaction.version": 2}
    assert asked[-1] >= 4


async def test_constantly_slow_modern_broker_does_not_count_as_old(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its answers takes longer than a step."""
    monkeypatch.setattr("aiokafka_lite.net.handshake.STEP_TIMEOUT", 0.1)

    async def slow(peer: Peer) -> None:
        while True:
            header, request = await peer.read()
            await asyncio.sleep(0.3)
            if isinstance(request, ApiVersionsRequest):
                peer.answer(header, with_features(header))
            elif isinstance(request, ListGroupsRequest):
                peer.answer(header, ListGroupsResponse())
            else:
                peer.answer(header, MetadataResponse())

    broker = await serve(slow)
    connection = await connect(broker)
    assert connection.versions.release is None
    assert connection.versions.features == {"transaction.version": 2}
    assert broker.accepted == 4


async def test_constantly_slow_broker_with_sasl_keeps_its_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiokafka_lite.net.handshake.STEP_TIMEOUT", 0.1)
    async with FakeCluster(1, users={"u": "p"}) as broker:
        broker.control(ApiKey.API_VERSIONS, delay=0.3, times=None)
        options = ConnectionOptions(security_protocol="SASL_PLAINTEXT", mechanism=Plain("u", "p"))
        host, _, port = broker.bootstrap_servers.rpartition(":")
        connection = await open_connection(host, int(port), options)
        assert connection.versions.features["transaction.version"] == 2
        connection.close()
        known = options.known.recall(host, int(port))
        assert known is not None
        assert not known.guessed


async def test_proxy_with_sasl_that_closes_connections_at_newer_versions(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        while True:
            header, request = await peer.read()
            if isinstance(request, SaslHandshakeRequest):
                peer.answer(header, SaslHandshakeResponse())
            elif isinstance(request, SaslAuthenticateRequest):
                welcome = b"welcome" if request.auth_bytes.startswith(b"again") else b"who?"
                peer.answer(header, SaslAuthenticateResponse(auth_bytes=welcome))
            elif header.request_api_version == 0:
                peer.answer(header, answer_to_api_versions())
            else:
                return

    broker = await serve(script)
    options = ConnectionOptions(security_protocol="SASL_PLAINTEXT", mechanism=Password())
    await connect(broker, options=options)
    assert broker.accepted == 5  # it must seem so twice
    await connect(broker, options=options)
    assert broker.accepted == 6  # remembered


async def test_upgraded_broker_is_asked_for_its_features(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        while True:
            header, _ = await peer.read()
            peer.answer(header, with_features(header))

    broker = await serve(script)
    options = ConnectionOptions()
    options.known.remember("127.0.0.1", broker.port, Known(api_versions=2))
    connection = await connect(broker, options=options)
    assert connection.versions.features == {"transaction.version": 2}
    assert broker.accepted == 1


async def test_upgraded_broker_with_sasl_is_connected_at_once() -> None:
    """It answers ApiVersions only once before the authentication."""
    async with FakeCluster(1, users={"u": "p"}) as broker:
        options = ConnectionOptions(security_protocol="SASL_PLAINTEXT", mechanism=Plain("u", "p"))
        host, _, port = broker.bootstrap_servers.rpartition(":")
        options.known.remember(host, int(port), Known(api_versions=3))
        for _ in range(2):
            connection = await open_connection(host, int(port), options)
            assert connection.versions.features["transaction.version"] == 2
            connection.close()
        asked = [seen.version for seen in broker.requests if seen.api_key == ApiKey.API_VERSIONS]
        assert asked == [3, 5]


async def test_broker_that_always_disconnects_raises(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.read()

    broker = await serve(script)
    with pytest.raises(KafkaConnectionError, match="closed the connection"):
        await connect(broker)
    assert broker.accepted == 4


async def test_known_broker_that_dies_does_not_count_as_old(serve: Serve, connect: Connect) -> None:
    async def dies(peer: Peer) -> None:
        await peer.read()

    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.silence()

    broker = await serve(script, dies, script)
    options = ConnectionOptions()
    await connect(broker, options=options)
    with pytest.raises(KafkaConnectionError):
        await connect(broker, options=options)
    assert broker.accepted == 2
    await connect(broker, options=options)


async def test_slow_modern_broker_does_not_count_as_old(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is silent at first, but answers the older requests."""
    monkeypatch.setattr("aiokafka_lite.net.handshake.STEP_TIMEOUT", 0.05)

    async def asleep(peer: Peer) -> None:
        await peer.silence()

    async def awake(peer: Peer) -> None:
        header, request = await peer.read()
        assert isinstance(request, ListGroupsRequest)
        peer.answer(header, ListGroupsResponse())
        await peer.greet()
        await peer.silence()

    broker = await serve(asleep, asleep, awake)
    connection = await connect(broker)
    assert connection.versions.release is None
    assert connection.versions.supports(ApiKey.METADATA, 12)
    assert broker.accepted == 3


async def test_non_kafka_server_is_not_retried(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        peer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.silence()

    broker = await serve(script)
    with pytest.raises(KafkaProtocolError, match="speaks HTTP"):
        await connect(broker)
    assert broker.accepted == 1


@pytest.mark.parametrize("garbage", [b"\x00\x23", b"\x00\x23\xff\xff\xff\xff", b"\x00"])
async def test_garbage_response_raises(serve: Serve, connect: Connect, garbage: bytes) -> None:
    async def script(peer: Peer) -> None:
        header, _ = await peer.read()
        data = header.correlation_id.to_bytes(4, "big") + garbage
        peer.write(len(data).to_bytes(4, "big") + data)
        await peer.silence()

    broker = await serve(script)
    with pytest.raises(KafkaProtocolError, match="ApiVersions"):
        async with asyncio.timeout(5):
            await connect(broker)


def rungs(options: ConnectionOptions, known: Known | None) -> list[Rung]:
    return [step.rung for step in ladder(options, known)]


def test_ladder_of_detection_requests() -> None:
    plain = ConnectionOptions()
    assert rungs(plain, None) == [
        Rung.NEGOTIATE,
        Rung.NEGOTIATE_PLAINLY,
        Rung.LIST_GROUPS,
        Rung.METADATA,
    ]
    assert rungs(plain, Known(api_versions=3)) == [Rung.NEGOTIATE]
    assert rungs(plain, Known(release="0.9")) == [Rung.ASSUME]
    assert rungs(ConnectionOptions(api_version="0.9"), Known(api_versions=3)) == [Rung.ASSUME]
    assert rungs(ConnectionOptions(api_version="0.10"), None)[0] is Rung.NEGOTIATE
    sasl = ConnectionOptions(security_protocol="SASL_PLAINTEXT", mechanism=Password())
    assert rungs(sasl, None) == [Rung.NEGOTIATE, Rung.NEGOTIATE_PLAINLY]
    plain.known.remember("a", 9092, Known(api_versions=2))  # Kafka 2.0: other brokers may be older
    assert len(rungs(plain, None)) == 4
    plain.known.remember("a", 9092, Known(api_versions=3))
    assert rungs(plain, None) == [Rung.NEGOTIATE, Rung.NEGOTIATE_PLAINLY]


def test_timeout_is_short_while_there_is_another_step() -> None:
    options = ConnectionOptions(connect_timeout=7)
    assert [step.timeout for step in ladder(options, None)] == [STEP_TIMEOUT] * 3 + [7]
    assert [step.timeout for step in ladder(options, Known(api_versions=4))] == [7]
    assert [step.timeout for step in ladder(options, None, 14)] == [STEP_TIMEOUT] * 3 + [14]
    hasty = ConnectionOptions(connect_timeout=0.1)
    assert {step.timeout for step in ladder(hasty, None)} == {0.1}


@pytest.mark.parametrize("release", ["0.8.2", "0.9", "0.9.0.1"])
def test_releases_without_api_versions(release: str) -> None:
    assert is_before_api_versions(release)


@pytest.mark.parametrize("release", ["0.10", "0.10.2", "0.11", "1.0", "4.4.0"])
def test_releases_with_api_versions(release: str) -> None:
    assert not is_before_api_versions(release)


async def test_cached_release_is_dropped_when_its_connection_fails(
    serve: Serve, connect: Connect
) -> None:
    """An assumed release sends no detection request, so its first request fails."""

    async def modern(peer: Peer) -> None:
        header, request = await peer.read()
        if isinstance(request, ApiVersionsRequest):
            peer.answer(header, answer_to_api_versions())
            await peer.silence()

    broker = await serve(modern)
    options = ConnectionOptions()
    options.known.remember("127.0.0.1", broker.port, Known(release="0.9"))
    connection = await connect(broker, options=options)
    with pytest.raises(KafkaConnectionError):
        await connection.request(HeartbeatRequest("g", 0, "m"), 0)
    again = await connect(broker, options=options)
    assert again.versions.release is None
