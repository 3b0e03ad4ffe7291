"""Connections: paused, muted, rejected or killed while they are established; their principals."""

import asyncio
import gc
import socket
import ssl
import struct
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.errors import ClusterAuthorizationFailedError, TopicAuthorizationFailedError
from aiokafka_lite.protocol.message import Response
from aiokafka_lite.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lite.protocol.messages.sasl_handshake import SaslHandshakeRequest
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster, VirtualClock
from aiokafka_lite.testing.context import Delayed
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from tests.unit.testing.raw import RawClient, make_batch

Connect = Callable[[str], Any]

USERS = {"alice": "secret", "bob": "secret"}
METADATA = MetadataRequest([])
ALICE = b"\0alice\0secret"


def produce(size: int = 10, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(0, make_batch((1, b"key", bytes(size))))]
    return ProduceRequest(None, acks, 5000, [TopicProduceData("orders", partition_data=data)])


def fetch(wait_ms: int = 0) -> FetchRequest:
    wanted = [FetchTopic("orders", partitions=[FetchPartition(0, fetch_offset=0)])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=wanted)


async def passed(seconds: float, awaitable: Any) -> tuple[bool, Any]:
    """Whether it took at least this long, and its result."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    result = await awaitable
    return loop.time() - began >= seconds * 0.9, result


async def test_a_connection_that_is_reset_before_it_is_accepted() -> None:
    problems: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, problem: problems.append(problem))
    async with FakeCluster(topics=["orders"]) as cluster:
        host, _, port = cluster.address(0).rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw = await RawClient.connect(cluster.address(0))
        await raw.ask(METADATA, 9)
        await raw.close()
    assert problems == []


# Pause


async def test_a_paused_broker_answers_nothing_and_forgets_nothing(connect: Connect) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        client, waiting = await connect(cluster.address(0)), await connect(cluster.address(0))
        await client.ask(METADATA, 9)
        waiting.send(fetch(wait_ms=300), 11)
        while not cluster.count(ApiKey.FETCH):
            await asyncio.sleep(0)
        cluster.pause(0)
        cluster.pause(0)
        client.send(METADATA, 9)
        newcomer = await connect(cluster.address(0))  # the kernel accepts it
        newcomer.send(METADATA, 9)
        answers = [
            asyncio.ensure_future(client.receive(METADATA, 9)),
            asyncio.ensure_future(newcomer.receive(METADATA, 9)),
            asyncio.ensure_future(waiting.receive(fetch(), 11)),
        ]
        done, _ = await asyncio.wait(answers, timeout=0.4)
        assert not done
        assert cluster.count(ApiKey.METADATA) == 1
        cluster.resume(0)
        cluster.resume(0)
        await asyncio.wait_for(asyncio.gather(*answers), 5)
        await client.ask(METADATA, 9)
        assert cluster.count(ApiKey.METADATA) == 4


async def test_a_paused_broker_can_be_killed(connect: Connect) -> None:
    async with FakeCluster() as cluster:
        client = await connect(cluster.address(0))
        await client.ask(METADATA, 9)
        cluster.pause(0)
        cluster.kill(0)
        assert await client.is_cut()
        await cluster.restart(0)
        again = await connect(cluster.address(0))
        await again.ask(METADATA, 9)


# Throttles


async def test_a_throttled_connection_gets_its_response_and_is_muted(connect: Connect) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        cluster.state.throttles.set(0.15, api_key=ApiKey.PRODUCE)
        client = await connect(cluster.address(0))
        slow, answer = await passed(0.1, client.ask(produce(), 9))
        assert not slow
        assert answer.throttle_time_ms == 150
        late, answer = await passed(0.15, client.ask(METADATA, 9))
        assert late
        assert answer.throttle_time_ms == 0
        other = await connect(cluster.address(0))
        client.send(produce(acks=0), 9)
        assert not (await passed(0.1, other.ask(METADATA, 9)))[0]
        assert (await passed(0.1, client.ask(METADATA, 9)))[0]
        cluster.state.throttles.clear()
        assert not (await client.ask(produce(), 9)).throttle_time_ms


async def test_quotas_throttle(connect: Connect) -> None:
    def quota(key: str, value: float) -> AlterClientQuotasRequest:
        part = EntityData("client-id", "raw")
        entry = AlterClientQuotasRequestEntryData([part], [OpData(key, value)])
        return AlterClientQuotasRequest([entry])

    async with FakeCluster(topics={"orders": 1}, clock=VirtualClock()) as cluster:
        client = await connect(cluster.address(0))
        await client.ask(quota("producer_byte_rate", 1000.0), 1)
        await client.ask(quota("consumer_byte_rate", 2000.0), 1)
        answer = await client.ask(produce(9_000), 9)
        assert answer.throttle_time_ms == 0
        answer = await client.ask(produce(1_000), 9)
        assert 0 < answer.throttle_time_ms < 500
        for _ in range(2):  # 10 kB each, 20 kB are allowed in ten seconds
            fetched = await client.ask(fetch(), 11)
            assert fetched.throttle_time_ms == 0
            assert fetched.responses[0].partitions[0].records
        fetched = await client.ask(fetch(), 11)
        assert fetched.throttle_time_ms > 0
        assert fetched.responses == []
        cluster.advance(20.0)
        fetched = await client.ask(fetch(), 11)
        assert fetched.throttle_time_ms == 0
        assert fetched.responses[0].partitions[0].records


# Principals


async def test_sasl_by_requests(connect: Connect) -> None:
    async with FakeCluster(users=USERS, sasl_mechanisms=["PLAIN"]) as cluster:
        client = await connect(cluster.address(0))
        await client.ask(ApiVersionsRequest("a", "1"), 3)
        handshake = await client.ask(SaslHandshakeRequest("PLAIN"), 1)
        assert handshake.mechanisms == ["PLAIN"]
        answer = await client.ask(SaslAuthenticateRequest(ALICE), 2)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
        await client.ask(METADATA, 9)
        told = [(seen.api_key, seen.principal) for seen in cluster.requests]
        assert told == [
            (ApiKey.API_VERSIONS, "User:ANONYMOUS"),
            (ApiKey.SASL_HANDSHAKE, "User:ANONYMOUS"),
            (ApiKey.SASL_AUTHENTICATE, "User:ANONYMOUS"),
            (ApiKey.METADATA, "User:alice"),
        ]


async def test_sasl_by_bare_tokens(connect: Connect) -> None:
    async with FakeCluster(users=USERS) as cluster:
        client = await connect(cluster.address(0))
        await client.ask(SaslHandshakeRequest("PLAIN"), 0)
        client.writer.write(len(ALICE).to_bytes(4, "big") + ALICE)
        assert await client.frame() == b""
        await client.ask(METADATA, 9)
        assert cluster.requests[-1].principal == "User:alice"
        assert cluster.requests[1].api_key == ApiKey.SASL_AUTHENTICATE
        refused = await connect(cluster.address(0))
        await refused.ask(SaslHandshakeRequest("PLAIN"), 0)
        refused.writer.write((3).to_bytes(4, "big") + b"\0\0\0")
        assert await refused.is_cut()


async def test_a_wrong_password_is_rejected_after_a_delay(connect: Connect) -> None:
    async with FakeCluster(users=USERS) as cluster:
        client = await connect(cluster.address(0))
        await client.ask(SaslHandshakeRequest("PLAIN"), 1)
        wrong = SaslAuthenticateRequest(b"\0alice\0guessed")
        late, answer = await passed(0.1, client.ask(wrong, 2))
        assert late
        assert answer.error_code == 58
        assert answer.error_message == "Authentication failed: Invalid username or password"
        assert await client.is_cut()
        other = await connect(cluster.address(0))
        refused = await other.ask(SaslHandshakeRequest("GSSAPI"), 1)
        assert refused.error_code == 33
        assert refused.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert await other.is_cut()
        silent = await connect(cluster.address(0))
        silent.send(METADATA, 9)
        assert await silent.is_cut()


async def test_a_session_expires_by_the_clusters_clock(connect: Connect) -> None:
    cluster = FakeCluster(users=USERS, sasl_session_lifetime=60.0, clock=VirtualClock())
    async with cluster:
        client = await connect(cluster.address(0))
        for _ in range(2):
            await client.ask(SaslHandshakeRequest("PLAIN"), 1)
            answer = await client.ask(SaslAuthenticateRequest(ALICE), 2)
            assert answer.session_lifetime_ms == 60_000
            cluster.advance(59.0)
            await client.ask(METADATA, 9)
        cluster.advance(2.0)
        client.send(METADATA, 9)
        assert await client.is_cut()


async def test_faults_strike_authentication_too(connect: Connect) -> None:
    async with FakeCluster(users=USERS) as cluster:
        cluster.control(ApiKey.SASL_AUTHENTICATE, error=58)
        client = await connect(cluster.address(0))
        await client.ask(SaslHandshakeRequest("PLAIN"), 1)
        assert (await client.ask(SaslAuthenticateRequest(ALICE), 2)).error_code == 58
        assert await client.is_cut()


async def test_acls_apply_to_the_authenticated_user(connect: Connect) -> None:
    async with FakeCluster(topics={"orders": 1}, users=USERS, super_users=["User:bob"]) as cluster:
        alice, bob = await connect(cluster.address(0)), await connect(cluster.address(0))
        for client, name in ((alice, b"alice"), (bob, b"bob")):
            await client.ask(SaslHandshakeRequest("PLAIN"), 1)
            await client.ask(SaslAuthenticateRequest(b"\0" + name + b"\0secret"), 2)
        orders = MetadataRequest([MetadataRequestTopic(name="orders")], False, True, True)

        async def answer(client: RawClient) -> tuple[int, int]:
            response = await client.ask(orders, 9)
            return response.topics[0].error_code, response.cluster_authorized_operations

        denied = TopicAuthorizationFailedError.errno
        assert (await answer(alice))[0] == denied
        assert (await answer(bob))[0] == 0
        cluster.acls.allow("User:alice", Operation.READ, Resource.TOPIC, "orders")
        cluster.acls.allow("User:alice", Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        assert await answer(alice) == (0, 1 << Operation.ALTER | 1 << Operation.DESCRIBE)
        refused = await alice.ask(
            AlterClientQuotasRequest(
                [AlterClientQuotasRequestEntryData([EntityData("user", "x")])]
            ),
            1,
        )
        assert refused.entries[0].error_code == ClusterAuthorizationFailedError.errno


def certificates(folder: Path) -> None:
    """A CA, a broker's certificate and a client's, by `openssl`."""

    def openssl(arguments: str) -> None:
        command = ["openssl", *arguments.split()]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    # What the default contexts of Python 3.13 and newer require (VERIFY_X509_STRICT).
    usage = "-addext keyUsage=critical,keyCertSign"
    openssl(f"req -x509 {key} -days 2 -subj /CN=ca {usage} -keyout ca.key -out ca.pem")
    (folder / "signed.ext").write_text("authorityKeyIdentifier=keyid\n")
    for name, subject in (("broker", "/CN=broker"), ("client", "/C=DE/O=A,B/OU=dev/CN=alice")):
        openssl(f"req {key} -subj {subject} -keyout {name}.key -out {name}.csr")
        openssl(
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
            f" -extfile signed.ext -out {name}.pem"
        )


async def test_a_client_certificate_sets_the_principal(tmp_path: Path) -> None:
    await asyncio.to_thread(certificates, tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "broker.pem", tmp_path / "broker.key")
    server.load_verify_locations(tmp_path / "ca.pem")
    server.verify_mode = ssl.CERT_OPTIONAL
    async with FakeCluster(ssl_context=server) as cluster:
        for certificate, principal in [
            (None, "User:ANONYMOUS"),
            ("client", r"User:CN=alice,OU=dev,O=A\,B,C=DE"),
        ]:
            context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
            context.check_hostname = False
            if certificate is not None:
                names = (tmp_path / f"{certificate}.pem", tmp_path / f"{certificate}.key")
                context.load_cert_chain(*names)
            host, _, port = cluster.address(0).rpartition(":")
            client = RawClient(*await asyncio.open_connection(host, int(port), ssl=context))
            await client.ask(METADATA, 9)
            assert cluster.requests[-1].principal == principal
            await client.close()


# Internal failures


async def test_exceptions_in_timers_are_reported(cluster: FakeCluster) -> None:
    def fail() -> None:
        raise LookupError("in a timer")

    cluster.state.clock.call_later(0.0, fail)
    async with asyncio.timeout(5):
        while not cluster.failures:
            await asyncio.sleep(0.001)
    assert [str(failure) for failure in cluster.failures] == ["in a timer"]
    with pytest.raises(ExceptionGroup):
        cluster.raise_failures()


class Broken(Delayed):
    """A delayed response without a condition; even its cancellation fails."""

    timeout = None
    watched = ()

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout

    def take_if_ready(self) -> None:
        return None

    def take_now(self) -> Response:
        raise LookupError("in take_now")

    def cancel(self) -> None:
        raise LookupError("in cancel")


@pytest.mark.parametrize(("timeout", "told"), [(None, "in cancel"), (0.0, "in take_now")])
async def test_exceptions_in_waiting_responses_are_reported(
    monkeypatch: pytest.MonkeyPatch,
    cluster: FakeCluster,
    connect: Connect,
    timeout: float | None,
    told: str,
) -> None:
    monkeypatch.setattr(
        "aiokafka_lite.testing.server.request_exchange.handle_of",
        lambda key: lambda *_: Broken(timeout),
    )
    client = await connect(cluster.address(0))
    client.send(METADATA, 9)
    async with asyncio.timeout(5):
        while not cluster.count(ApiKey.METADATA):
            await asyncio.sleep(0.001)
        if timeout is None:
            await client.close()
        while not cluster.failures:
            await asyncio.sleep(0.001)
    assert told in [str(failure) for failure in cluster.failures]
    with pytest.raises(ExceptionGroup):
        cluster.raise_failures()


# Connecting and disconnecting


@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
async def test_connections_during_a_stop_are_closed(tls: bool, tmp_path: Path) -> None:
    context = None
    if tls:
        await asyncio.to_thread(certificates, tmp_path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "broker.pem", tmp_path / "broker.key")
    cluster = FakeCluster(ssl_context=context)
    await cluster.start()
    host, _, port = cluster.address(0).rpartition(":")
    clients = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
    async with asyncio.timeout(10):  # it does not wait for a TLS handshake that never comes
        await cluster.stop()
        for reader, writer in clients:
            writer.transport.abort()
            try:
                assert await reader.read() == b""
            except ConnectionError:
                pass  # a reset is an end, too
    del clients
    gc.collect()


async def test_a_thousand_clusters_leave_no_socket_behind() -> None:
    """Clients connect at any moment of a cluster's life; a leaked socket warns when collected."""

    async def connect(host: str, port: int, moments: int) -> None:
        for _ in range(moments):
            await asyncio.sleep(0)
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            return  # it came too late
        writer.transport.abort()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        for number in range(1000):
            cluster = FakeCluster()
            await cluster.start()
            host, _, port = cluster.address(0).rpartition(":")
            clients = [asyncio.ensure_future(connect(host, int(port), n)) for n in range(3)]
            for _ in range(number % 7):
                await asyncio.sleep(0)
            await cluster.stop()
            await asyncio.gather(*clients)
        del cluster, clients
        gc.collect()
    assert not [str(warning.message) for warning in caught]


async def test_a_loop_without_readers(monkeypatch: pytest.MonkeyPatch, connect: Connect) -> None:
    """Windows' proactor loop has none."""
    loop = asyncio.get_running_loop()

    def add_reader(*arguments: object) -> None:
        raise NotImplementedError

    if not isinstance(loop, asyncio.SelectorEventLoop):
        pytest.skip("only this one can be made to look like that")
    monkeypatch.setattr(loop, "add_reader", add_reader)
    async with FakeCluster() as cluster:
        client = await connect(cluster.address(0))
        await client.ask(METADATA, 9)
        cluster.pause(0)
        cluster.resume(0)
        again = await connect(cluster.address(0))
        await again.ask(METADATA, 9)


# The seed


async def test_the_seed_decides_salts_and_nonces(connect: Connect) -> None:
    first = SaslAuthenticateRequest(b"n,,n=alice,r=abc")

    async def conversation(seed: int) -> list[bytes]:
        async with FakeCluster(users=USERS, seed=seed) as cluster:
            answers = []
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                client = await connect(cluster.address(0))
                await client.ask(SaslHandshakeRequest(mechanism), 1)
                answers.append((await client.ask(first, 2)).auth_bytes)
            return answers

    told = await conversation(1)
    assert told == await conversation(1)
    assert told != await conversation(2)
    assert told[0] != told[1]
