"""GSSAPI with a real KDC and a real Kafka: this package and Java, all credentials, renewal."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.admin import AIOKafkaAdminClient
from aiokafka_lite.errors import AuthenticationFailedError, KafkaConnectionError
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.gss.gss_context import KerberosLogin, NewContext
from aiokafka_lite.net.gss.gss_library import LibraryContext, find_library
from aiokafka_lite.net.gss.gss_package import PackageContext, find_package
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.net.sasl.gssapi import Gssapi
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.versions import BrokerVersions
from tests.kdc import (
    BROKER,
    LOGIN_MODULE,
    REALM,
    Kdc,
    find_program,
    kerberos_cluster,
    missing_programs,
)
from tests.real.session_transactions import copy_in_transactions
from tools.kafka import KafkaCluster
from tools.kafka.java import run
from tools.kafka.releases import FALLBACK

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing_programs()),
        reason=f"no Kerberos KDC: {', '.join(missing_programs())} (Debian: krb5-kdc "
        "krb5-admin-server) not installed",
    ),
]

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SESSION_MS = 4000


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        kdc.add(BROKER, "alice", "bob", "carol")
        yield kdc


@pytest.fixture(scope="module")
def guarded(kdc: Kdc) -> Iterator[KafkaCluster]:
    with kerberos_cluster(kdc, SESSION_MS) as cluster:
        cluster.create_topic("guarded")
        yield cluster


@pytest.fixture(autouse=True)
def no_default_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/cache")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)


def arguments(cluster: KafkaCluster, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap_of("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        **more,
    }


async def round_trip(guarded: KafkaCluster, seconds: float, **more: Any) -> int:
    """Send and read one record after the other; return their number."""
    chosen = arguments(guarded, **more)
    consumer = AIOKafkaConsumer(**chosen, auto_offset_reset="latest")
    async with AIOKafkaProducer(**chosen) as producer, consumer:
        consumer.assign([TopicPartition("guarded", 0)])
        await consumer.seek_to_end()
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until or not number:
            value = b"%d" % number
            await producer.send_and_wait("guarded", value)
            assert (await asyncio.wait_for(consumer.getone(), 60)).value == value
            number += 1
            await asyncio.sleep(0.02)
    return number


async def test_credentials_of_a_keytab(guarded: KafkaCluster, kdc: Kdc) -> None:
    await round_trip(guarded, 0, sasl_kerberos_keytab=str(kdc.keytab("alice")))
    await round_trip(
        guarded,
        0,
        sasl_kerberos_keytab=str(kdc.keytab("alice")),
        sasl_kerberos_principal=f"alice@{REALM}",
        sasl_kerberos_domain_name="localhost",
    )


async def test_credentials_of_the_environments_keytab(
    guarded: KafkaCluster, kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.keytab("bob")))
    await round_trip(guarded, 0)


@pytest.mark.skipif(find_program("kinit") is None, reason="kinit (krb5-user) is not installed")
async def test_credentials_of_a_cache(guarded: KafkaCluster, kdc: Kdc, tmp_path: Path) -> None:
    cache = f"FILE:{tmp_path}/tickets"
    kinit = await asyncio.create_subprocess_exec(
        str(find_program("kinit")), "-c", cache, "-k", "-t", str(kdc.keytab("alice")), "alice"
    )
    assert await kinit.wait() == 0
    await round_trip(guarded, 0, sasl_kerberos_cache=cache)


IMPLEMENTATIONS = [
    pytest.param(
        lambda login, service: LibraryContext(find_library(), login, service),  # type: ignore[arg-type]
        id="library",
        marks=pytest.mark.skipif(find_library() is None, reason="no libgssapi_krb5 here"),
    ),
    pytest.param(
        lambda login, service: PackageContext(find_package(), login, service),
        id="package",
        marks=pytest.mark.skipif(
            find_package() is None, reason="the package gssapi is not installed"
        ),
    ),
]


@contextmanager
def bare_tokens() -> Iterator[None]:
    """Let brokers seem to lack SaslAuthenticate, as those before 1.0: 4.4 still serves that."""
    supports = BrokerVersions.supports
    patch = pytest.MonkeyPatch()
    patch.setattr(
        BrokerVersions,
        "supports",
        lambda self, key: key != ApiKey.SASL_AUTHENTICATE and supports(self, key),
    )
    try:
        yield
    finally:
        patch.undo()


@pytest.mark.parametrize("new_context", IMPLEMENTATIONS)
@pytest.mark.parametrize("bare", [False, True], ids=["requests", "bare tokens"])
async def test_each_implementation_of_gss(
    guarded: KafkaCluster, kdc: Kdc, new_context: NewContext, bare: bool
) -> None:
    login = KerberosLogin(keytab=str(kdc.keytab("alice")))
    options = ConnectionOptions(
        security_protocol="SASL_PLAINTEXT", mechanism=Gssapi(login, new_context=new_context)
    )
    host, port = guarded.bootstrap_of("SASL_PLAINTEXT").split(":")
    if bare:
        with bare_tokens():
            connection = await open_connection(host, int(port), options)
    else:
        connection = await open_connection(host, int(port), options)
    answer = await connection.request(MetadataRequest(topics=[]), 1)
    assert [broker.host for broker in answer.brokers] == ["localhost"]
    connection.close()


async def test_missing_credentials_raise_with_the_text_of_gss(
    guarded: KafkaCluster, kdc: Kdc
) -> None:
    for more, text in (
        ({}, "No Kerberos credentials available"),
        ({"sasl_kerberos_keytab": "/nowhere"}, "'/nowhere' cannot be read: No such file"),
        (
            {"sasl_kerberos_keytab": str(kdc.keytab("alice")), "sasl_kerberos_principal": "eve"},
            r"principal 'eve', keytab .*No credentials",
        ),
        (
            {
                "sasl_kerberos_keytab": str(kdc.keytab("alice")),
                "sasl_kerberos_service_name": "http",
            },
            "http/localhost@KAFKA.TEST not found in Kerberos database",
        ),
    ):
        producer = AIOKafkaProducer(**arguments(guarded, **more))
        with pytest.raises(AuthenticationFailedError, match=text) as caught:
            await producer.start()
        assert not caught.value.retriable
        await producer.stop()


async def test_client_starts_once_the_kdc_answers_again(guarded: KafkaCluster, kdc: Kdc) -> None:
    chosen = arguments(guarded, sasl_kerberos_keytab=str(kdc.keytab("bob")))
    chosen["sasl_kerberos_principal"] = "bob"  # its tickets are not cached yet
    kdc.stop()
    try:
        admin = AIOKafkaAdminClient(**chosen)
        with pytest.raises(KafkaConnectionError, match="Cannot contact any KDC"):
            await admin.start()
        await admin.close()
        waiting = AIOKafkaAdminClient(**chosen, bootstrap_timeout_ms=120_000)
        starting = asyncio.create_task(waiting.start())
        await asyncio.sleep(0.5)
        assert not starting.done()
    finally:
        kdc.start()
    await asyncio.wait_for(starting, 120)
    assert "guarded" in await waiting.list_topics()
    await waiting.close()


async def renewed(
    guarded: KafkaCluster, kdc: Kdc, patch: pytest.MonkeyPatch, seconds: float
) -> tuple[int, int]:
    """Exchange records while sessions and tickets live 4 s; return both numbers."""
    patch.setenv("KRB5_CONFIG", str(kdc.short_tickets(4)))
    before = kdc.logins("carol")
    records = await round_trip(guarded, seconds, sasl_kerberos_keytab=str(kdc.keytab("carol")))
    return records, kdc.logins("carol") - before


async def test_tickets_and_sessions_are_renewed_under_traffic(
    guarded: KafkaCluster, kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, logins = await renewed(guarded, kdc, monkeypatch, 10)
    assert records > 10
    assert logins >= 2


@pytest.mark.long
async def test_tickets_and_sessions_are_renewed_for_two_minutes(
    guarded: KafkaCluster, kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, logins = await renewed(guarded, kdc, monkeypatch, 120)
    assert records > 100
    assert logins >= 20


@pytest.mark.long
@pytest.mark.timeout(400)
async def test_transactions_under_short_sessions_store_each_record_once(
    guarded: KafkaCluster, kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions and tickets expire after 4 s."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.short_tickets(4)))
    before = kdc.logins("carol")
    chosen = arguments(guarded, sasl_kerberos_keytab=str(kdc.keytab("carol")))
    done = await copy_in_transactions(guarded, "kerberos", chosen, 120)
    assert kdc.logins("carol") - before >= 10
    print(f"{done}, {kdc.logins('carol') - before} logins")


@pytest.mark.long
async def test_group_with_java(
    guarded: KafkaCluster, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This package and Java's consumer share the partitions of a topic; each record is read
    once."""
    guarded.create_topic("shared", 2)
    properties = tmp_path / "java.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
        "sasl.kerberos.service.name=kafka\nauto.offset.reset=earliest\n"
        "group.protocol=consumer\n"
        f"sasl.jaas.config={LOGIN_MODULE} required useKeyTab=true storeKey=true doNotPrompt=true "
        f'keyTab="{kdc.keytab("bob")}" principal="bob@{REALM}";\n'
    )
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.config}")
    ours = arguments(guarded, sasl_kerberos_keytab=str(kdc.keytab("alice")))
    consumer = AIOKafkaConsumer(
        "shared",
        group_id="kerberos",
        group_protocol="consumer",
        auto_offset_reset="earliest",
        **ours,
    )
    each = 20
    async with AIOKafkaProducer(**ours) as producer, consumer, asyncio.timeout(200):
        words = ["--bootstrap-server", guarded.bootstrap_of("SASL_PLAINTEXT"), "--topic", "shared"]
        words += ["--group", "kerberos", "--max-messages", str(each), "--timeout-ms", "120000"]
        words += ["--command-config", str(properties)]
        java = asyncio.create_task(asyncio.to_thread(run, CONSOLE, words, FALLBACK, timeout=180))
        while len(consumer.assignment()) != 1:
            assert not java.done(), java.result()
            await asyncio.sleep(0.1)
        for number in range(each):
            for partition in (0, 1):
                await producer.send("shared", b"%d-%d" % (partition, number), partition=partition)
        [mine] = consumer.assignment()
        read = [(await consumer.getone()).value for _ in range(each)]
        assert read == [b"%d-%d" % (mine.partition, number) for number in range(each)]
        printed = [line.encode() for line in await java]
        assert printed == [b"%d-%d" % (1 - mine.partition, number) for number in range(each)]
