"""Kafka's own tools and Java clients against the embedded broker; each call starts a JVM."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from time import sleep

import pytest

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.foreign.work import await_true
from tools.kafka import NEWEST, KafkaNotAvailable
from tools.kafka.java import JavaTools, run

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOOLS = "org.apache.kafka.tools"
TOOLS_OF = "3.9.2"
"""The tools of Kafka 4.4 are not published; programs written against the client library use 4.4."""
CONSOLE = "kafka.tools.ConsoleProducer"
PARTITIONS = 3
TRANSACTIONS_IN = 100.0
"""Seconds in which Java's JVM starts, its members share a group out, maybe after the session of one
that could not leave, and end transactions; also on a busy machine."""
QUICK_HEARTBEATS = {
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
    # A member that leaves while its coordinator is killed stays in the group for a session.
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.session.timeout.ms": 6000,
}


def java(program: str, *arguments: object, given: str = "", release: str = TOOLS_OF) -> list[str]:
    """Run a Java program; return its output lines."""
    try:
        return run(program, [str(argument) for argument in arguments], release, given=given)
    except KafkaNotAvailable as error:
        pytest.skip(f"no real Kafka: {error}")


def tool(cluster: FakeCluster, name: str, *arguments: object, given: str = "") -> list[str]:
    """Run a tool with the address of the cluster."""
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    program = name if name.startswith("kafka.") else f"{TOOLS}.{name}"
    return [line for line in java(program, *servers, *arguments, given=given) if line]


def settings_file(folder: Path, settings: Mapping[str, object]) -> Path:
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def console_read(
    cluster: FakeCluster, topic: str, count: int, *more: object, settings: Iterable[str] = ()
) -> list[str]:
    """The first `count` values that the console consumer prints."""
    properties = [word for each in settings for word in ("--consumer-property", each)]
    return tool(
        *(cluster, "consumer.ConsoleConsumer", "--topic", topic, "--from-beginning"),
        *("--max-messages", count, "--timeout-ms", 60_000, *properties, *more),
    )


@pytest.mark.parametrize(
    ("poses_as", "release", "settings"),
    [
        (None, "4.4.0", {"compression_type": "zstd"}),
        ("2.8", "2.8.2", {"compression_type": "lz4"}),
        ("0.11", "0.11.0.3", {"compression_type": "none"}),
        ("0.10.2", "0.10.2.2", {"compression_type": "gzip"}),
        ("0.8.2", "0.8.2.2", {"compression_codec": "snappy"}),
    ],
)
def test_round_trip_of_each_release(
    poses_as: str | None, release: str, settings: dict[str, str]
) -> None:
    """Including null keys and values, headers and timestamps."""
    brokers = 1 if release.startswith("0.8") else 2
    with FakeCluster(
        brokers, {"orders": PARTITIONS}, version=poses_as, check_records=True
    ) as cluster:
        tools = JavaTools(cluster.bootstrap_servers, release)
        try:
            written = tools.generate("orders", PARTITIONS, 1000, **settings)
        except KafkaNotAvailable as error:
            pytest.skip(f"no real Kafka: {error}")
        assert sum(digest.count for digest in written.values()) == 1000
        assert tools.digest("orders") == written


def test_console_tools() -> None:
    with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        values = [f"value {number}" for number in range(100)]
        tool(cluster, CONSOLE, "--topic", "orders", given="\n".join(values) + "\n")
        group = ("--group", "readers")
        assert sorted(console_read(cluster, "orders", 100, *group)) == sorted(values)
        tool(cluster, CONSOLE, "--topic", "orders", given="one more\n")
        assert console_read(cluster, "orders", 1, *group) == ["one more"]


def test_performance_tools() -> None:
    with FakeCluster(2, {"orders": PARTITIONS}) as cluster:
        servers = cluster.bootstrap_servers
        told = java(
            *(f"{TOOLS}.ProducerPerformance", "--topic", "orders", "--num-records", 20_000),
            *("--record-size", 100, "--throughput", -1, "--producer-props"),
            *(f"bootstrap.servers={servers}", "compression.type=lz4"),
        )
        assert told[-1].startswith("20000 records sent")
        told = tool(
            *(cluster, "ConsumerPerformance", "--topic", "orders", "--messages", 20_000),
            *("--group", "perf", "--timeout", 20_000),
        )
        assert [line.split(", ")[4] for line in told[1:]] == ["20000"]


def test_performance_tool_in_transactions() -> None:
    with FakeCluster(1, {"orders": 1}) as cluster:
        java(
            *(f"{TOOLS}.ProducerPerformance", "--topic", "orders", "--num-records", 2000),
            *("--record-size", 100, "--throughput", 4000, "--transactional-id", "till"),
            *("--transaction-duration-ms", 100, "--producer-props"),
            f"bootstrap.servers={cluster.bootstrap_servers}",
        )
        assert cluster.count(ApiKey.END_TXN) > 1
        committed = ["isolation.level=read_committed"]
        assert len(console_read(cluster, "orders", 2000, settings=committed)) == 2000
        (listed,) = tool(cluster, "TransactionsCommand", "list")[1:]
        assert listed.split()[0] == "till"
        assert listed.split()[-1] == "CompleteCommit"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_exactly_once_with_restarting_members_and_brokers(protocol: str, tmp_path: Path) -> None:
    classic = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 100}
    settings = settings_file(tmp_path, classic if protocol == "classic" else {})
    with FakeCluster(
        3, {"orders": PARTITIONS, "bills": 1}, broker_configs=QUICK_HEARTBEATS
    ) as cluster:
        values = iter(range(300))

        def write(count: int) -> None:
            for number in islice(values, count):
                cluster.produce("orders", b"%d" % number, partition=number % PARTITIONS)

        def kill_one_after_another() -> None:
            """Each broker is killed while records remain; the copiers end with the last record."""
            for node_id in range(3):
                ended = cluster.count(ApiKey.END_TXN)
                write(50)  # a transaction takes up to 20 of them
                await_true(
                    lambda ended=ended: cluster.count(ApiKey.END_TXN) >= ended + 2, TRANSACTIONS_IN
                )
                write(50)
                cluster.kill(node_id)
                sleep(0.3)  # long enough for clients to use another broker
                cluster.restart(node_id)

        with ThreadPoolExecutor() as threads:
            copying = threads.submit(
                java,
                *("ExactlyOnce", cluster.bootstrap_servers, "orders", "bills", "copiers"),
                *(settings, protocol, 2, 300),
                release=NEWEST,
            )
            kill_one_after_another()
            (told,) = copying.result()
        committed, aborted = map(int, told.split())
        assert committed > 0
        assert aborted > 0
        read_committed = ["isolation.level=read_committed"]
        found = console_read(cluster, "bills", 300, settings=read_committed)
        assert Counter(found) == Counter(map(str, range(300)))
        log = JavaTools(cluster.bootstrap_servers)
        assert log.digest("bills", "read_committed")[0].count == 300


def test_topics() -> None:
    with FakeCluster(3, auto_create_topics=False) as cluster:
        create = ("--create", "--topic", "orders", "--partitions", 2, "--replication-factor", 3)
        assert tool(cluster, "TopicCommand", *create, "--config", "retention.ms=5000") == [
            "Created topic orders."
        ]
        tool(cluster, "TopicCommand", "--alter", "--topic", "orders", "--partitions", 4)
        head, *partitions = tool(cluster, "TopicCommand", "--describe", "--topic", "orders")
        assert "PartitionCount: 4" in head
        assert "retention.ms=5000" in head
        assert [sorted(re.findall(r"Isr: ([\d,]+)", line)[0]) for line in partitions] == [
            sorted("0,1,2")
        ] * 4
        assert tool(cluster, "TopicCommand", "--list") == ["orders"]
        tool(cluster, "TopicCommand", "--delete", "--topic", "orders")
        assert tool(cluster, "TopicCommand", "--list") == []


def test_configurations() -> None:
    with FakeCluster(1, ["orders"]) as cluster:
        orders = ("--entity-type", "topics", "--entity-name", "orders")
        command = ("--bootstrap-server", cluster.bootstrap_servers, *orders)
        config = "kafka.admin.ConfigCommand"
        java(config, *command, "--alter", "--add-config", "cleanup.policy=compact,retention.ms=7")
        java(config, *command, "--alter", "--delete-config", "retention.ms")
        _, *told = java(config, *command, "--describe")
        assert [line.split()[0] for line in told] == ["cleanup.policy=compact"]


def test_groups_offsets_and_records(tmp_path: Path) -> None:
    with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        given = "".join(f"{number}\n" for number in range(90))
        tool(cluster, CONSOLE, "--topic", "orders", given=given)
        console_read(cluster, "orders", 90, "--group", "readers")
        groups = "consumer.group.ConsumerGroupCommand"
        assert tool(cluster, groups, "--list") == ["readers"]
        told = tool(cluster, groups, "--describe", "--group", "readers")
        rows = [line.split() for line in told if line.startswith("readers")]
        assert sum(int(row[3]) for row in rows) == 90
        assert [row[5] for row in rows] == ["0"] * len(rows)  # the lag
        tool(
            *(cluster, groups, "--group", "readers", "--topic", "orders", "--reset-offsets"),
            *("--to-earliest", "--execute"),
        )
        assert len(console_read(cluster, "orders", 90, "--group", "readers")) == 90
        tool(cluster, groups, "--delete", "--group", "readers")
        assert tool(cluster, groups, "--list") == []
        offsets = dict(
            line.split(":")[1:] for line in tool(cluster, "GetOffsetShell", "--topic", "orders")
        )
        assert sum(map(int, offsets.values())) == 90
        before = [
            {"topic": "orders", "partition": partition, "offset": int(offsets[str(partition)])}
            for partition in range(PARTITIONS)
        ]
        path = tmp_path / "offsets.json"
        path.write_text(json.dumps({"partitions": before, "version": 1}))
        tool(cluster, "DeleteRecordsCommand", "--offset-json-file", path)
        first = tool(cluster, "GetOffsetShell", "--topic", "orders", "--time", "earliest")
        assert dict(line.split(":")[1:] for line in first) == offsets


def test_acls() -> None:
    with FakeCluster(1, ["orders"], super_users=["User:ANONYMOUS"]) as cluster:
        acls = "kafka.admin.AclCommand"
        allowed = ("--allow-principal", "User:ann", "--operation", "Read", "--topic", "orders")
        tool(cluster, acls, "--add", *allowed)
        assert "principal=User:ann, host=*, operation=READ, permissionType=ALLOW" in "".join(
            tool(cluster, acls, "--list", "--topic", "orders")
        )
        tool(cluster, acls, "--remove", *allowed, "--force")
        assert "User:ann" not in "".join(tool(cluster, acls, "--list"))
