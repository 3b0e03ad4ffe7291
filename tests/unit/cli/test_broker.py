"""The standalone broker: its output, its exit, invalid options, and durability."""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.cli import main
from aiokafka_lite.cli.commands import broker_command
from aiokafka_lite.errors import AuthenticationFailedError
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from aiokafka_lite.testing import FakeCluster, VirtualClock

COMMAND = (sys.executable, "-m", "aiokafka_lite", "broker")
PATIENCE = 30  # seconds for a process to start or to end

Start = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts brokers: `process, bootstrap = start("--brokers", "3")`; ends the remaining ones."""
    started: list[subprocess.Popen[str]] = []

    def start_one(*options: str, prefix: tuple[str, ...] = ()) -> tuple[Any, str]:
        if "--listen" not in options:
            options = ("--listen", "127.0.0.1:0", *options)
        process = subprocess.Popen(
            [*prefix, *COMMAND, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Kafka is ready at "), end(process)
        return process, line.split()[4]

    yield start_one
    for process in started:
        if process.poll() is None:
            process.kill()
    for process in started:
        end(process)


def lasting_address(ports: int = 1) -> str:
    """An unused address, below the range of ports that the system assigns."""
    for first in random.sample(range(20_000, 30_000), 100):
        try:
            for port in range(first, first + ports):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return f"127.0.0.1:{first}"
    raise LookupError("100 ports in a row are taken")


def end(process: "subprocess.Popen[str]", number: int | None = None) -> tuple[int, str, str]:
    """Exit status, and the output after the first line."""
    if number is not None:
        process.send_signal(number)
    if process.stdout is not None and process.stdout.closed:
        return process.returncode, "", ""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


async def round_trip(servers: str, topic: str, **security: Any) -> list[bytes | None]:
    async with AIOKafkaProducer(bootstrap_servers=servers, **security) as producer:
        await producer.send_and_wait(topic, b"one tea")
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=servers, auto_offset_reset="earliest", **security
    ) as consumer:
        return [(await consumer.getone()).value]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_broker_serves_until_a_signal(start: Start, number: int) -> None:
    process, servers = start("--brokers", "3", "--topics", "orders:6", "--topics", "payments")
    assert servers.count(",") == 2
    assert await round_trip(servers, "orders") == [b"one tea"]
    assert await round_trip(servers, "made-when-asked-for") == [b"one tea"]
    async with AIOKafkaConsumer("payments", bootstrap_servers=servers):
        assert end(process, number) == (0, "", "")  # although a client is connected


def test_sigint_stops_a_broker_started_in_the_background(start: Start) -> None:
    process, _ = start(prefix=("sh", "-c", "trap '' INT; exec \"$@\"", "sh"))
    assert end(process, signal.SIGINT) == (0, "", "")


def test_broker_listens_only_on_the_given_address(start: Start) -> None:
    _, servers = start("--advertise", "kafka.example")
    host, port = servers.split(":")
    assert host == "kafka.example"
    socket.create_connection(("127.0.0.1", int(port))).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(port)))


def test_brokers_use_consecutive_ports(start: Start) -> None:
    address = lasting_address(ports=2)
    _, servers = start("--listen", address, "--brokers", "2")
    assert servers == f"{address},127.0.0.1:{int(address.split(':')[1]) + 1}"


def test_port_in_use_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["broker", "--listen", address]) == 1
    output = capsys.readouterr().err
    assert f"broker 0 cannot listen on {address}: Address already in use" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--topics", "orders:six"], "'orders:six' is not NAME or NAME:PARTITIONS"),
        (["--topics", "orders:0"], "'orders:0' is not NAME or NAME:PARTITIONS"),
        (["--listen", "9092"], "'9092' is not HOST:PORT"),
        (["--listen", "localhost:70000"], "'localhost:70000' is not HOST:PORT"),
        (["--brokers", "0"], "'0' should be an integer of at least 1"),
        (["--user", "alice"], "a user must have the form NAME:PASSWORD"),
        (["--config", "group.max.size"], "'group.max.size' is not NAME=VALUE"),
        (["--log-level", "loud"], "invalid choice: 'loud'"),
        (["--no-such-thing"], "unrecognized arguments: --no-such-thing"),
    ],
)
def test_invalid_options_exit_with_usage(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["broker", *arguments])
    assert left.value.code == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (["--version", "9.9"], 2, "unknown Kafka release '9.9'"),
        (["--topics", "a b", "--listen", "127.0.0.1:0"], 1, "Topic name is invalid: 'a b'"),
        (["--listen", "127.0.0.1:65535", "--brokers", "2"], 2, "2 ports from there on"),
        (["--data-dir", "/proc/nothing"], 2, "/proc/nothing"),
        (["--data-dir", ""], 2, "the directory name is empty"),
        (["--topics", "a:1", "b", "a:2"], 2, "a topic is listed twice"),
        (["--config", "no.such.setting=1"], 2, "no.such.setting"),
        (["--racks", "a", "b"], 2, "racks has 2 items for 1 brokers"),
    ],
)
def test_invalid_arguments(
    arguments: list[str], status: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", *arguments]) == status
    output = capsys.readouterr().err
    assert output.startswith("broker: ")
    assert why in output
    assert output.count("\n") == 1


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    output = capsys.readouterr().out
    assert "broker" in output
    assert "demo" in output


def test_no_auto_create_and_versions(start: Start) -> None:
    _, servers = start("--no-auto-create", "--version", "2.8", "--topics", "orders:3")

    async def look() -> None:
        async with AIOKafkaConsumer("orders", bootstrap_servers=servers) as consumer:
            assert await consumer.topics() == {"orders"}
            assert consumer.partitions_for_topic("orders") == {0, 1, 2}
        with pytest.raises(Exception, match="unasked"):
            async with AIOKafkaProducer(
                bootstrap_servers=servers, max_block_ms=300, request_timeout_ms=300
            ) as producer:
                await producer.send_and_wait("unasked", b"x")

    asyncio.run(look())


async def test_sasl_users(start: Start) -> None:
    _, servers = start("--user", "alice:secret", "--user", "bob:a:b")
    security = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}
    for name, password in (("alice", "secret"), ("bob", "a:b")):
        identity = {"sasl_plain_username": name, "sasl_plain_password": password}
        assert await round_trip(servers, name, **security, **identity) == [b"one tea"]
    wrong = {"sasl_plain_username": "alice", "sasl_plain_password": "guess"}
    with pytest.raises(AuthenticationFailedError):
        await round_trip(servers, "alice", **security, **wrong)


def test_configurations_racks_and_acls(start: Start) -> None:
    given = ("--config", "num.partitions=7", "--racks", "here", "--user", "alice:secret")
    _, servers = start(*given, "--super-user", "alice", "--topics", "orders")

    async def look() -> None:
        alice: dict[str, Any] = {
            "bootstrap_servers": servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "secret",
        }
        async with AIOKafkaClient(**alice) as client:
            assert [broker.rack for broker in client.cluster.brokers()] == ["here"]
            request = DescribeConfigsRequest([DescribeConfigsResource(4, "0", ["num.partitions"])])
            (result,) = (await client.send(0, request)).results
            assert [entry.value for entry in result.configs] == ["7"]

    asyncio.run(look())


def test_data_dir_in_use_fails(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start("--data-dir", str(tmp_path / "data"))
    assert main(["broker", "--data-dir", str(tmp_path / "data")]) == 2
    assert "is in use by another cluster" in capsys.readouterr().err


async def test_retention_and_compaction_run_periodically() -> None:
    clock = VirtualClock()
    async with FakeCluster(clock=clock) as cluster:
        cluster.create_topic("short", configs={"retention.ms": "1000"})
        cluster.create_topic("compacted", configs={"cleanup.policy": "compact"})
        for _ in range(2):
            cluster.produce("short", b"x")
            cluster.produce("compacted", b"x", b"key")
        cluster.advance(2)
        cleaning = asyncio.create_task(broker_command._clean_up(cluster, interval=0.001))
        while cluster.records("short") or len(cluster.records("compacted")) > 1:
            await asyncio.sleep(0.001)
            assert not cleaning.done()
        cleaning.cancel()
        await asyncio.wait([cleaning])


async def test_internal_errors_are_reported_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = FakeCluster()
    cluster.state.clock.failures.append(LookupError("inside"))
    serving = asyncio.create_task(broker_command._serve(cluster, None))
    while not capsys.readouterr().out:
        await asyncio.sleep(0.001)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await serving == 1
    assert "1 internal errors" in capsys.readouterr().err


async def test_no_acknowledged_record_is_lost_after_a_kill(start: Start, tmp_path: Path) -> None:
    """The producer continues through three kills of its broker, without loss or duplicates."""
    folder = tmp_path / "data"
    arguments = ("--data-dir", str(folder), "--topics", "orders:3")
    process, servers = start("--listen", lasting_address(), *arguments)
    acknowledged: dict[tuple[int, int], bytes] = {}
    sent = 0
    async with AIOKafkaProducer(bootstrap_servers=servers, retry_backoff_ms=20) as producer:
        for death in range(4):
            acks = []
            for _ in range(4000):
                value = b"%0100d" % sent
                acks.append((value, await producer.send("orders", value, b"%d" % (sent % 100))))
                sent += 1
            if death < 3:
                await acks[500][1]  # some are written, some in flight, some not sent
                process.kill()
                await asyncio.to_thread(process.wait, PATIENCE)
                process, _ = start("--listen", servers, *arguments)
            for value, ack in acks:
                done = await ack
                acknowledged[done.partition, done.offset] = value
    assert end(process, signal.SIGTERM)[0] == 0
    with FakeCluster(data_dir=folder) as cluster:
        kept = {
            (record.partition, record.offset): record.value for record in cluster.records("orders")
        }
    assert kept == acknowledged
    assert len(set(kept.values())) == sent


async def test_transactions_and_offsets_survive_a_kill(start: Start, tmp_path: Path) -> None:
    """After a kill in a transaction, committed records stay and the open transaction is aborted."""
    aiokafka = pytest.importorskip("aiokafka")
    folder = tmp_path / "data"
    arguments = ("--data-dir", str(folder), "--topics", "orders:2")
    process, servers = start("--listen", lasting_address(), *arguments)
    for death in range(2):
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id="till")
        await producer.start()  # aborts the transaction that its predecessor left open
        for number in range(20):
            async with producer.transaction():
                await producer.send("orders", b"%d-%d" % (death, number), partition=number % 2)
                offsets = {aiokafka.TopicPartition("orders", 0): 100 * death + number}
                await producer.send_offsets_to_transaction(offsets, "kitchen")
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"never", partition=0)
        process.kill()
        await asyncio.to_thread(process.wait, PATIENCE)
        process, _ = start("--listen", servers, *arguments)
        await producer.abort_transaction()
        await producer.stop()
    assert end(process, signal.SIGTERM)[0] == 0
    with FakeCluster(data_dir=folder) as cluster:
        kept = [record.value for record in cluster.records("orders", committed_only=True)]
        assert cluster.committed("kitchen") == {("orders", 0): 119}
        assert sum(record.value == b"never" for record in cluster.records("orders")) == 2
    assert sorted(kept) == sorted(b"%d-%d" % (death, n) for death in range(2) for n in range(20))
