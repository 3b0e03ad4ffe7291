"""SASL/GSSAPI with a stand-in for Kerberos: the exchange, threads, deadlines, invalid tokens."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError, KafkaError
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.gss import KerberosLogin
from aiokafka_lite.net.gss.gss_context import _KRB5, gss_failure
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.net.sasl import gssapi
from aiokafka_lite.net.sasl.gssapi import LONGEST_ANSWER, MOST_STEPS, Gssapi
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.testing import FakeCluster, VirtualClock
from aiokafka_lite.testing.security import authentication
from tests.unit.net.sasl.stand_in_gss import StandInGss

LAYERS = b"wrapped:\x01\x01\x00\x00"


@pytest.fixture
def gss() -> StandInGss:
    return StandInGss()


@pytest.fixture(params=["requests", "bare tokens"])
def cluster(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    withdrawn: dict[str, Any] = {}
    if request.param == "bare tokens":
        withdrawn["api_versions"] = {
            ApiKey.SASL_AUTHENTICATE: None,
            ApiKey.SASL_HANDSHAKE: (0, 0),
        }
    settings: dict[str, Any] = {"users": {"alice": "-"}, "sasl_mechanisms": ["GSSAPI"]}
    with FakeCluster(topics=["orders"], **settings, **withdrawn) as cluster:
        yield cluster


def alice(gss: StandInGss, **options: Any) -> ConnectionOptions:
    login = KerberosLogin(principal=options.pop("principal", "alice"))
    return ConnectionOptions(
        security_protocol="SASL_PLAINTEXT", mechanism=Gssapi(login, new_context=gss), **options
    )


async def connect_to(cluster: FakeCluster, options: ConnectionOptions) -> Connection:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    return await open_connection(host, int(port), options)


async def test_client_logs_in_and_no_step_runs_in_the_event_loop(
    cluster: FakeCluster, gss: StandInGss
) -> None:
    connection = await connect_to(cluster, alice(gss))
    assert await connection.request(MetadataRequest(topics=[]), 1)
    assert cluster.requests[-1].principal == "User:alice"
    assert gss.services == ["kafka@127.0.0.1"]
    assert threading.main_thread() not in gss.threads
    assert gss.closed == 1
    connection.close()


async def test_unknown_principal_is_refused(cluster: FakeCluster, gss: StandInGss) -> None:
    with pytest.raises(AuthenticationFailedError):
        await connect_to(cluster, alice(gss, principal="mallory"))
    assert gss.closed == 1


@pytest.mark.parametrize(
    "failure",
    [AuthenticationFailedError("No Kerberos credentials available"), KafkaConnectionError("KDC")],
)
async def test_failure_of_gss_is_raised_as_it_is(
    cluster: FakeCluster, gss: StandInGss, failure: Exception
) -> None:
    gss.failure = failure
    with pytest.raises(type(failure), match=failure.args[0]):
        await connect_to(cluster, alice(gss))
    assert gss.closed == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (6, AuthenticationFailedError),  # client not found
        (21, KafkaConnectionError),  # client not yet valid
        (32, AuthenticationFailedError),  # ticket expired
        (33, KafkaConnectionError),  # ticket not yet valid
        (34, KafkaConnectionError),  # request is a replay
        (156, KafkaConnectionError),  # KDC unreachable
    ],
)
def test_failures_that_java_retries_are_retriable(code: int, kind: type[KafkaError]) -> None:
    for minor in (_KRB5 + code, _KRB5 + code - 2**32):  # unsigned, or signed
        error = gss_failure(KerberosLogin("alice"), "kafka@broker", minor, "why")
        assert type(error) is kind
        assert "kafka@broker" in str(error)


async def test_kdc_that_does_not_answer_fails_the_attempt(
    cluster: FakeCluster, gss: StandInGss
) -> None:
    gss.silent = threading.Event()
    try:
        with pytest.raises(KafkaConnectionError, match="GSSAPI produced no token"):
            await connect_to(cluster, alice(gss, request_timeout=0.2))
    finally:
        gss.silent.set()


async def test_producer_passes_its_options_on(
    cluster: FakeCluster, gss: StandInGss, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gssapi.Gssapi.__init__, "__defaults__", ("kafka", None, gss))
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="brokers",
        sasl_kerberos_domain_name="kafka.example",
        sasl_kerberos_principal="alice",
    ) as producer:
        await producer.send_and_wait("orders", b"one tea")
    assert set(gss.services) == {"brokers@kafka.example"}


async def test_sessions_are_renewed_on_the_same_connection(
    gss: StandInGss, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "LEAST_TIME_BETWEEN_MS", 0)
    settings: dict[str, Any] = {"users": {"alice": "-"}, "sasl_mechanisms": ["GSSAPI"]}
    # Time stands still for the broker: it closes no connection whose client is slow.
    with FakeCluster(sasl_session_lifetime=0.5, clock=VirtualClock(), **settings) as cluster:
        connection = await connect_to(cluster, alice(gss))
        async with asyncio.timeout(60):
            while len(gss.services) < 3:
                await connection.request(MetadataRequest(topics=[]), 1)
                await asyncio.sleep(0.02)
        assert not connection.closed
        connection.close()


def steps_of(gss: StandInGss) -> Callable[[bytes | None], bytes]:
    context = gss(KerberosLogin(principal="alice"), "kafka@localhost")
    return gssapi._exchange(context).send  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([b"garbage"], "Invalid token"),
        ([b""], "Invalid token"),
        ([b"x" * (LONGEST_ANSWER + 1)], "is longer than"),
        ([b"accepted", b"not wrapped"], "Integrity Check"),
        ([b"accepted", b"wrapped:"], "has 0 bytes, not 4"),
        ([b"accepted", LAYERS + b"\x00"], "has 5 bytes, not 4"),
        ([b"accepted", b"wrapped:\x06\x01\x00\x00"], "requires a security layer"),
    ],
)
def test_invalid_answers_raise(gss: StandInGss, answers: list[bytes], text: str) -> None:
    send = steps_of(gss)
    assert send(None) == b"ticket of alice for kafka@localhost"
    *good, bad = answers
    for answer in good:
        send(answer)
    with pytest.raises(AuthenticationFailedError, match=text):
        send(bad)
    assert gss.closed == 1


def test_endless_exchange_ends(gss: StandInGss) -> None:
    gss.rounds = MOST_STEPS + 1
    send = steps_of(gss)
    send(None)
    for _ in range(MOST_STEPS - 1):
        assert send(b"accepted") == b""
    with pytest.raises(AuthenticationFailedError, match="not complete after"):
        send(b"accepted")


def test_no_layer_is_chosen_whatever_size_the_broker_offers(gss: StandInGss) -> None:
    send = steps_of(gss)
    send(None)
    send(b"accepted")
    assert send(b"wrapped:\x07\xff\xff\xff") == b"wrapped:\x01\x00\x00\x00"
