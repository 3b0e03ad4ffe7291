"""Names of brokers: all addresses are tried, and resolved again for each attempt."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import KafkaConfigurationError, KafkaConnectionError
from aiokafka_lite.net import dial as dialling
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.dial import canonical_addresses
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.testing import FakeCluster


class Names:
    """A name server; each lookup is counted."""

    def __init__(self) -> None:
        self.addresses: dict[str, list[str]] = {}
        self.looked_up: list[str] = []

    def look_up(self, host: str, port: int) -> list[Any]:
        self.looked_up.append(host)
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kind = socket.SOCK_STREAM
        return [(socket.AF_INET, kind, 6, "", (each, port)) for each in self.addresses[host]]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(dialling, "_look_up", names.look_up)
    return names


async def test_all_brokers_change_their_addresses_at_once(names: Names) -> None:
    """As when a cluster is moved to other machines: only the names stay."""
    names.addresses["kafka.example"] = ["127.0.0.1"]
    old = FakeCluster(topics={"t": 1}, advertise="kafka.example", data_dir=None)
    await old.start()
    port = int(old.bootstrap_servers.rpartition(":")[2])
    options: dict[str, Any] = {"bootstrap_servers": f"kafka.example:{port}"}
    async with AIOKafkaProducer(**options) as producer, AIOKafkaConsumer(**options) as consumer:
        partition = TopicPartition("t", 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        await producer.send_and_wait("t", b"before")
        assert (await consumer.getone()).value == b"before"
        await old.stop()
        async with FakeCluster(
            topics={"t": 1}, advertise="kafka.example", host="127.0.0.2", port=port
        ):
            sent = asyncio.create_task(producer.send_and_wait("t", b"after"))
            names.addresses["kafka.example"] = ["127.0.0.2"]
            await sent
            consumer.seek(partition, 0)
            assert (await consumer.getone()).value == b"after"


async def test_silent_address_of_a_name_does_not_delay_the_start(
    names: Names, silent_address: Callable[[], tuple[str, int]]
) -> None:
    host, port = silent_address()
    async with FakeCluster(host="127.0.0.2", port=port):
        names.addresses["kafka.example"] = [host, "127.0.0.2"]
        options = ConnectionOptions(connect_timeout=3600)
        async with asyncio.timeout(60):
            connection = await open_connection("kafka.example", port, options)
        connection.close()


@pytest.fixture
def silent_address() -> Any:
    """An address that neither accepts nor refuses: its queue is full."""
    kept = []

    def make() -> tuple[str, int]:
        full = socket.socket()
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        kept.append(full)
        for _ in range(3):
            queued = socket.socket()
            queued.setblocking(False)
            queued.connect_ex(full.getsockname())
            kept.append(queued)
        host, port = full.getsockname()
        return host, port

    yield make
    for each in kept:
        each.close()


async def test_address_whose_broker_does_not_answer_is_tried_last(names: Names) -> None:
    """A load balancer accepts connections for a broker that is down."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    dead = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = dead.sockets[0].getsockname()[1]
    async with FakeCluster(host="127.0.0.2", port=port):
        names.addresses["kafka.example"] = ["127.0.0.1", "127.0.0.2"]
        options = ConnectionOptions()
        with pytest.raises(KafkaConnectionError):
            await open_connection("kafka.example", port, options)
        connection = await open_connection("kafka.example", port, options)
        connection.close()
    dead.close()
    await dead.wait_closed()


async def test_canonical_names_replace_bootstrap_addresses(
    names: Names, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    canonical = {"127.0.0.1": "one.example", "127.0.0.2": "two.example"}
    monkeypatch.setattr(dialling, "_canonical_name", lambda address: canonical[address[0]])
    names.addresses["all.example"] = ["127.0.0.1", "127.0.0.2", "127.0.0.1"]
    found = await canonical_addresses([("all.example", 1), ("none.example", 2)], 5.0)
    assert found == [("one.example", 1), ("two.example", 1), ("none.example", 2)]
    assert "cannot find the canonical name of bootstrap address none.example" in caplog.text
    names.addresses["one.example"] = ["127.0.0.1"]
    names.addresses["two.example"] = ["127.0.0.2"]
    async with FakeCluster(topics={"t": 1}) as cluster:
        port = int(cluster.bootstrap_servers.rpartition(":")[2])
        names.looked_up.clear()
        async with AIOKafkaProducer(
            bootstrap_servers=f"all.example:{port}",
            client_dns_lookup="resolve_canonical_bootstrap_servers_only",
        ) as producer:
            await producer.send_and_wait("t", b"tea")
    assert "one.example" in names.looked_up
    assert names.looked_up[0] == "all.example"


async def test_unknown_lookup_is_an_error() -> None:
    with pytest.raises(KafkaConfigurationError, match="`client_dns_lookup` should be use_all"):
        AIOKafkaProducer(client_dns_lookup="default")
