"""Authentication of other clients by SASL PLAIN and SCRAM, with and without TLS; wrong passwords
and ACLs."""

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from tests.foreign.work import await_true

aiokafka = pytest.importorskip("aiokafka")
aiokafka_errors = pytest.importorskip("aiokafka.errors")
confluent_kafka = pytest.importorskip("confluent_kafka")
kafka = pytest.importorskip("kafka")

ConfluentError = confluent_kafka.KafkaError
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
USERS = {"alice": "alice-secret", "admin": "admin-secret"}


@pytest.fixture
def guarded() -> Iterator[FakeCluster]:
    with FakeCluster(topics={"orders": 1}, users=USERS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key in the same file."""
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        " -subj /CN=broker -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out broker.pem"
    )
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    both = (folder / "key.pem").read_text() + (folder / "broker.pem").read_text()
    (folder / "both.pem").write_text(both)
    return folder


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka(guarded: FakeCluster, mechanism: str) -> None:
    settings = {
        "bootstrap.servers": guarded.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
    }
    producer = confluent_kafka.Producer(settings)
    producer.produce("orders", b"hello")
    assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer(
        {**settings, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert message.value() == b"hello"
    assert {seen.principal for seen in guarded.requests} == {"User:ANONYMOUS", "User:alice"}


def test_confluent_kafka_with_an_unsecured_token() -> None:
    settings = {"users": {}, "sasl_mechanisms": ["OAUTHBEARER"]}
    with FakeCluster(topics={"orders": 1}, **settings) as cluster:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": True,
                "sasl.oauthbearer.config": "principal=carol",
            }
        )
        producer.produce("orders", b"hello")
        assert producer.flush(20) == 0
        assert cluster.requests[-1].principal == "User:carol"


def test_confluent_kafka_with_a_wrong_password(guarded: FakeCluster) -> None:
    told: list[int] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": guarded.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "guessed",
            "error_cb": lambda error: told.append(error.code()),
        }
    )

    def refused() -> bool:
        producer.poll(0.05)
        return ConfluentError._AUTHENTICATION in told

    await_true(refused)


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(guarded: FakeCluster, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": guarded.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": USERS["alice"],
    }
    producer = kafka.KafkaProducer(**settings)
    try:
        assert producer.send("orders", b"hello").get(20).offset == 0
    finally:
        producer.close()
    consumer = kafka.KafkaConsumer(
        "orders", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
    )
    try:
        assert next(consumer).value == b"hello"
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
async def test_aiokafka(mechanism: str, tls: bool, certificate: Path) -> None:
    server_context = client_context = None
    if tls:
        server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server_context.load_cert_chain(certificate / "both.pem")
        client_context = ssl.create_default_context(cafile=str(certificate / "broker.pem"))
    cluster = FakeCluster(topics={"orders": 1}, users=USERS, ssl_context=server_context)
    async with cluster:
        settings = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "security_protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
            "ssl_context": client_context,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": USERS["alice"],
        }
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait("orders", b"hello")
        consumer = aiokafka.AIOKafkaConsumer("orders", auto_offset_reset="earliest", **settings)
        async with consumer:
            record = await asyncio.wait_for(anext(consumer), 20)
        assert record.value == b"hello"


async def test_aiokafka_with_a_wrong_password() -> None:
    async with FakeCluster(users=USERS) as cluster:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="guessed",
        )
        with pytest.raises(aiokafka_errors.KafkaConnectionError):
            await producer.start()
        await producer.stop()


def test_acls_deny_a_client() -> None:
    with FakeCluster(
        topics={"orders": 1, "secrets": 1}, users=USERS, super_users=["User:admin"]
    ) as cluster:
        cluster.acls.allow("User:alice", Operation.WRITE, Resource.TOPIC, "orders")

        def codes(user: str, topic: str) -> list[int]:
            seen: list[int] = []
            producer = confluent_kafka.Producer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": user,
                    "sasl.password": USERS[user],
                }
            )
            producer.produce(
                topic, b"x", on_delivery=lambda error, _: seen.append(error.code() if error else 0)
            )
            producer.flush(20)
            return seen

        assert codes("alice", "orders") == [0]
        assert codes("alice", "secrets") == [ConfluentError.TOPIC_AUTHORIZATION_FAILED]
        assert codes("admin", "secrets") == [0]
        cluster.acls.deny("User:alice", Operation.WRITE, Resource.TOPIC, "orders")
        assert codes("alice", "orders") == [ConfluentError.TOPIC_AUTHORIZATION_FAILED]
