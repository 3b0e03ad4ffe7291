"""TLS with a real Kafka that requires client certificates: options, errors, identity, proxies."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaAdminClient, AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError, KafkaError
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.handshake import BrokerIdentity, OtherBrokerError
from aiokafka_lite.net.open_connection import open_connection
from tests.certificates import Authority
from tests.proxies import ProxyServer
from tools.kafka import KafkaCluster, Security

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(300)]

PARTITION = TopicPartition("secured", 0)


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    security = Security(("SSL",), client_auth=True, host="localhost")
    with KafkaCluster(security=security) as cluster:
        cluster.create_topic("secured")
        yield cluster


@pytest.fixture(scope="module")
def options(secured: KafkaCluster) -> dict[str, Any]:
    security = secured.security
    assert security is not None
    return {
        "bootstrap_servers": secured.bootstrap_of("SSL"),
        "security_protocol": "SSL",
        "ssl_cafile": security.ca_file,
        "ssl_certfile": security.client_certificate,
        "ssl_keyfile": security.client_key,
    }


async def round_trip(options: dict[str, Any], value: bytes) -> None:
    async with AIOKafkaProducer(**options) as producer, AIOKafkaConsumer(**options) as consumer:
        sent = await producer.send_and_wait("secured", value)
        consumer.assign([PARTITION])
        consumer.seek(PARTITION, sent.offset)
        assert (await consumer.getone()).value == value


async def test_files(options: dict[str, Any]) -> None:
    await round_trip(options, b"files")
    async with AIOKafkaAdminClient(**options) as admin:
        assert "secured" in await admin.list_topics()


def as_text(options: dict[str, Any]) -> dict[str, str]:
    names = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
    return {name: Path(options[name]).read_text() for name in names}


async def test_pem_text(options: dict[str, Any]) -> None:
    await round_trip({**options, **as_text(options)}, b"text")


@pytest.fixture
def encrypted_key(options: dict[str, Any], tmp_path: Path) -> Path:
    encrypted = tmp_path / "encrypted.key"
    command = ["openssl", "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", "pass:hush"]
    key = ["-in", str(options["ssl_keyfile"]), "-out", str(encrypted)]
    subprocess.run([*command, *key], check=True, capture_output=True, timeout=60)
    return encrypted


async def test_encrypted_key(options: dict[str, Any], encrypted_key: Path) -> None:
    chosen = {**options, "ssl_keyfile": encrypted_key, "ssl_password": "hush"}
    await round_trip(chosen, b"encrypted")


@pytest.mark.parametrize("protocols", ["TLSv1.2", "TLSv1.3"])
async def test_each_tls_version(options: dict[str, Any], protocols: str) -> None:
    await round_trip({**options, "ssl_enabled_protocols": protocols}, protocols.encode())


async def failure(options: dict[str, Any]) -> KafkaError:
    producer = AIOKafkaProducer(**options)
    with pytest.raises(KafkaError) as caught:
        await producer.start()
    await producer.stop()
    return caught.value


@pytest.mark.parametrize("protocols", ["TLSv1.2", "TLSv1.3"])
async def test_missing_client_certificate(options: dict[str, Any], protocols: str) -> None:
    without = {**options, "ssl_certfile": None, "ssl_keyfile": None}
    error = await failure({**without, "ssl_enabled_protocols": protocols})
    assert isinstance(error, AuthenticationFailedError)
    assert "refused this client's certificate, or the lack of one" in str(error)
    assert "check `ssl_certfile`" in str(error) or "pass `ssl_certfile`" in str(error)


@pytest.mark.parametrize("protocols", ["TLSv1.2", "TLSv1.3"])
async def test_client_certificate_of_another_authority(
    options: dict[str, Any], protocols: str, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other").issue("client")
    chosen = {**options, "ssl_certfile": other.cert, "ssl_keyfile": other.key}
    error = await failure({**chosen, "ssl_enabled_protocols": protocols})
    assert isinstance(error, AuthenticationFailedError)
    assert "refused this client's certificate" in str(error)


async def test_expired_client_certificate(options: dict[str, Any]) -> None:
    authority = Authority(Path(options["ssl_cafile"]).parent)
    expired = authority.issue("client", expires="210203040506Z")
    error = await failure({**options, "ssl_certfile": expired.cert, "ssl_keyfile": expired.key})
    assert isinstance(error, AuthenticationFailedError)
    assert "expired on 2021-02-03 04:05:06 UTC" in str(error)


async def test_unknown_authority(options: dict[str, Any], tmp_path: Path) -> None:
    error = await failure({**options, "ssl_cafile": Authority(tmp_path / "other").cert})
    assert isinstance(error, AuthenticationFailedError)
    assert "pass the authority that signed it as `ssl_cafile`" in str(error)


async def test_tls_to_the_plain_listener_and_the_reverse(
    secured: KafkaCluster, options: dict[str, Any]
) -> None:
    error = await failure({**options, "bootstrap_servers": secured.bootstrap_servers})
    assert isinstance(error, KafkaConnectionError)
    assert "as a listener without TLS does" in str(error)
    error = await failure({"bootstrap_servers": secured.bootstrap_of("SSL")})
    assert "the other side speaks TLS" in str(error)


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_proxies(options: dict[str, Any], scheme: str) -> None:
    async with ProxyServer(scheme, credentials="ann:hush") as proxy:
        await round_trip({**options, "proxy_url": proxy.url("ann:hush")}, scheme.encode())
        assert proxy.accepted >= 3


async def test_brokers_check_the_identity_that_clients_expect(secured: KafkaCluster) -> None:
    [address] = secured.bootstrap_servers.split(",")
    async with AIOKafkaAdminClient(bootstrap_servers=address) as admin:
        cluster = await admin.describe_cluster()
    cluster_id, node_id = cluster["cluster_id"], cluster["brokers"][0]["node_id"]
    host, _, port = address.partition(":")
    connection = await open_connection(
        host, int(port), ConnectionOptions(), expected=BrokerIdentity(cluster_id, node_id)
    )
    connection.close()
    for wrong in (
        BrokerIdentity("another-cluster", node_id),
        BrokerIdentity(cluster_id, node_id + 7),
    ):
        with pytest.raises(OtherBrokerError, match="REBOOTSTRAP_REQUIRED"):
            await open_connection(host, int(port), ConnectionOptions(), expected=wrong)
