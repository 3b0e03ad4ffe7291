"""The test harness: clusters start, are killed, restart, are suspended, and clean up."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tools.kafka import NEWEST, BrokerFailed, KafkaCluster, OwnCluster, RealKafka
from tools.kafka.broker import await_condition
from tools.kafka.wire import ask_metadata

ROOT = Path(__file__).parents[2]


def first_address(bootstrap_servers: str) -> tuple[str, int]:
    host, _, port = bootstrap_servers.split(",")[0].rpartition(":")
    return host, int(port)


def has_ended(pid: int) -> bool:
    """True if the process has ended or is a zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


def test_topic_factory_returns_after_creation(kafka: RealKafka, topic) -> None:
    name = topic(partitions=3, **{"cleanup.policy": "compact"})
    error, leaders = ask_metadata(first_address(kafka.bootstrap_servers), name).topics[name]
    assert error == 0
    assert sorted(leaders) == [0, 1, 2]
    assert topic() != topic()


def test_three_nodes_form_a_cluster(kafka3: OwnCluster, topic3) -> None:
    name = topic3(partitions=6)
    for address in kafka3.bootstrap_servers.split(","):
        view = ask_metadata(first_address(address), name)
        assert sorted(view.brokers) == kafka3.node_ids == [0, 1, 2]
        assert sorted(view.topics[name][1]) == list(range(6))


@pytest.mark.long
def test_a_killed_node_restarts_on_its_port_with_its_data() -> None:
    with KafkaCluster() as cluster:
        cluster.create_topic("kept", 2)
        address = cluster.address(0)
        cluster.kill(0)
        assert not cluster.running(0)
        with pytest.raises(OSError, match="refused"):
            ask_metadata(address)
        cluster.start(0)
        assert cluster.address(0) == address
        cluster.create_topic("kept", 2)  # an existing topic is fine; this waits for its leaders
        assert sorted(ask_metadata(address, "kept").topics["kept"][1]) == [0, 1]
        with pytest.raises(BrokerFailed, match="is already running"):
            cluster.start(0)
        cluster.pause(0)
        with pytest.raises(TimeoutError):
            ask_metadata(address, timeout=0.5)
        cluster.resume(0)
        assert ask_metadata(address).brokers.keys() == {0}
        cluster.stop(0)
        assert "shut down completed" in cluster.log(0)
        folder = cluster.folder
    assert not folder.exists()


@pytest.mark.long
def test_an_upgraded_node_keeps_its_port_and_data() -> None:
    with KafkaCluster("3.9.2") as cluster:
        cluster.create_topic("kept", 2)
        address = cluster.address(0)
        cluster.upgrade(0, NEWEST)
        assert cluster.version == NEWEST
        assert cluster.address(0) == address
        assert sorted(ask_metadata(address, "kept").topics["kept"][1]) == [0, 1]
        assert f"Kafka version: {NEWEST}" in cluster.log(0)


def test_clusters_with_zookeeper_are_not_upgraded() -> None:
    with pytest.raises(ValueError, match=r"only KRaft, not 2\.8\.2 to 4\.4\.0"):
        KafkaCluster("2.8.2").upgrade(0, "4.4.0")


@pytest.mark.parametrize(
    "death",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_brokers_end_with_their_owner(death: signal.Signals) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            # A shell starts background jobs with SIGINT ignored, which children would inherit.
            "import signal, sys, time\n"
            "from tools.kafka import KafkaCluster\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "with KafkaCluster() as cluster:\n"
            "    print(cluster._brokers[0].pid, cluster.folder, flush=True)\n"
            "    time.sleep(300)\n",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert not has_ended(int(pid))
        owner.send_signal(death)
    assert await_condition(lambda: has_ended(int(pid)), 20), f"broker {pid} lives on"
    kept = Path(folder)
    # An interrupt is an error in the `with` block, so only the logs are kept.
    if death is signal.SIGINT:
        assert not list(kept.glob("node-*/data"))
        assert (kept / "node-0" / "broker.log").is_file()
        subprocess.run(["rm", "-r", folder], check=True)
    else:
        assert await_condition(lambda: not kept.exists(), 20), f"{folder} was left behind"


def test_port_in_use_raises() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        cluster = KafkaCluster(port=taken.getsockname()[1])
        with pytest.raises(BrokerFailed, match="Address already in use"):
            cluster.__enter__()


def test_command_line_prints_its_address() -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "tools.kafka"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with server:
        assert server.stdout is not None
        address = first_address(server.stdout.readline().strip())
        assert ask_metadata(address).brokers.keys() == {0}
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "is up after" in said
    with pytest.raises(OSError, match="refused"):
        ask_metadata(address)
