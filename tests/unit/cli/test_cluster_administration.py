"""`reassign`, `elect`, `topic copy`, `group delete-offsets` and the views of `cluster`."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite import AIOKafkaProducer, TopicPartition
from aiokafka_lite.admin import AIOKafkaAdminClient
from aiokafka_lite.cli import main
from aiokafka_lite.cli.administration.reassignment_plan import plan_reassignment
from aiokafka_lite.cli.administration.topic_partitions import parse_topic_partitions
from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.cli.transfer import copying
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.cli.commands import PATIENCE, Shell

Run = Callable[..., str]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(3, {"orders": 4, "teas": 1}, racks=["a", "b", "c"]) as cluster:
        yield cluster


@pytest.fixture
def run(
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs a command, checks its status and its output on stderr, and returns its output on
    stdout."""
    monkeypatch.setenv("AIOKAFKA_LITE_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    monkeypatch.setenv("AIOKAFKA_LITE_CONFIG", str(tmp_path / "config.toml"))

    def run_one(*arguments: str, status: int = 0, says: str = "") -> str:
        capsys.readouterr()
        assert main(arguments) == status
        captured = capsys.readouterr()
        assert says in captured.err if says else captured.err == ""
        return captured.out

    return run_one


def rows(run: Run, *arguments: str, **checks: Any) -> Any:
    return json.loads(run(*arguments, "--output", "json", **checks))


def replicas(cluster: FakeCluster, topic: str) -> list[list[int]]:
    count = len(cluster.state.topics[topic].partitions)
    return [list(cluster.partition(topic, number).replicas) for number in range(count)]


# --- planning


PLACEMENTS = st.lists(
    st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), min_size=1, max_size=20
)


@given(PLACEMENTS, st.sets(st.integers(0, 6), min_size=1), st.none() | st.integers(1, 4))
def test_plan_uses_only_the_brokers_and_keeps_what_it_can(
    placement: list[list[int]], brokers: set[int], count: int | None
) -> None:
    now = {TopicPartition("t", number): nodes for number, nodes in enumerate(placement)}
    racks = {node: str(node % 3) for node in range(7)}
    planned = plan_reassignment(now, brokers, racks, count)
    assert planned.keys() == now.keys()
    for tp, nodes in planned.items():
        size = min(len(now[tp]) if count is None else count, len(brokers))
        assert len(nodes) == len(set(nodes)) == size
        assert set(nodes) <= brokers
        kept = [node for node in now[tp] if node in brokers][:size]
        assert set(kept) <= set(nodes)
    again = plan_reassignment(planned, brokers, racks, count)
    assert {tp: set(nodes) for tp, nodes in again.items()} == {
        tp: set(nodes) for tp, nodes in planned.items()
    }


def test_plan_spreads_leaders_and_racks() -> None:
    now = {TopicPartition("t", number): (1,) for number in range(6)}
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    planned = plan_reassignment(now, [1, 2, 3, 4], racks, 2)
    assert all({racks[node] for node in nodes} == {"a", "b"} for nodes in planned.values())
    leaders = [nodes[0] for nodes in planned.values()]
    assert max(leaders.count(node) for node in set(leaders)) == 2


def test_topic_partitions_are_parsed() -> None:
    found = parse_topic_partitions(["a:0,1", "a:2", "b", "c:0", "c"])
    assert found == {"a": frozenset({0, 1, 2}), "b": None, "c": None}
    for wrong in ("", ":1", "a:", "a:x", "a:-1"):
        with pytest.raises(UsageError, match="is not TOPIC or TOPIC:0,1"):
            parse_topic_partitions([wrong])


# --- reassign and elect


def test_replicas_are_moved_by_a_plan(run: Run, cluster: FakeCluster, tmp_path: Path) -> None:
    nodes = sorted({node for each in replicas(cluster, "orders") for node in each})
    planned = rows(run, "reassign", "plan", "orders", "--to", str(nodes[0]), "-r", "1")
    assert [each["replicas"] for each in planned] == [[nodes[0]]] * 4
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(planned), "utf-8")
    run("reassign", "apply", "--file", str(plan), "--dry-run", says="orders/0: ")
    assert replicas(cluster, "orders") != [[nodes[0]]] * 4
    run("reassign", "apply", "--file", str(plan), status=2, says="add --yes")
    run("reassign", "apply", "--file", str(plan), "--yes", "--wait", says=f"-> {nodes[0]}")
    assert replicas(cluster, "orders") == [[nodes[0]]] * 4
    run("reassign", "apply", "--file", str(plan), says="every replica is there already")
    run("reassign", "cancel", says="no reassignment is in progress")
    assert rows(run, "reassign", "list") == []


def test_invalid_plans_are_refused(run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    run("reassign", "apply", "--file", str(plan), status=1, says="No such file")
    for text, says in (
        ("no json", "is not a plan"),
        ('[{"topic": "orders"}]', "is not a plan"),
        ('[{"topic": "orders", "partition": 0, "replicas": ["1"]}]', "is invalid"),
        ('[{"topic": "orders", "partition": 0, "replicas": []}]', "needs replicas"),
        ('[{"topic": "orders", "partition": 0, "replicas": [1, 1]}]', "different brokers"),
    ):
        plan.write_text(text, "utf-8")
        run("reassign", "apply", "--file", str(plan), "-y", status=2, says=says)
    plan.write_text('[{"topic": "orders", "partition": 9, "replicas": [1]}]', "utf-8")
    run("reassign", "apply", "--file", str(plan), "-y", status=1, says="has no partition 9")
    run("reassign", "apply", status=2, says="name the topics")
    run("reassign", "plan", status=2, says="name the topics")
    run("reassign", "plan", "orders", "--to", "1,x", status=2, says="write broker ids")
    run("reassign", "plan", "orders", "--to", "77", status=1, says="the cluster has the brokers")
    run("reassign", "plan", "orders", "-r", "9", status=2, says="brokers to use")


def test_leaders_are_elected(run: Run, cluster: FakeCluster) -> None:
    run("elect", "orders:9", "-y", status=2, says="has the partitions 0 to 3")
    run("elect", "--unclean", "-y", status=2, says="name the partitions")
    run("elect", status=2, says="add --yes")
    found = rows(run, "elect", "orders:0,1", "--yes", says="preferred leaders of 2 partitions")
    assert [each["partition"] for each in found] == [0, 1]


# --- copy


async def produce_odd_records(cluster: FakeCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        headers = [("a", b"1"), ("a", None), ("b", b"\xff")]
        await producer.send_and_wait("orders", None, b"k", 0, 1000, headers)
        await producer.send_and_wait("orders", b"", None, 1, 2000)
        await producer.send_and_wait("orders", b"\x00\xff" * 1000, b"", 3)
        for number in range(50):
            await producer.send("orders", b"%d" % number, None, 2)


def fields(cluster: FakeCluster, topic: str) -> list[list[tuple[object, ...]]]:
    found: list[list[tuple[object, ...]]] = [[] for _ in cluster.state.topics[topic].partitions]
    for each in cluster.records(topic):
        headers = tuple(tuple(header) for header in each.headers)
        found[each.partition].append((each.key, each.value, headers, each.timestamp))
    return found


def test_copy_keeps_every_byte_and_the_partitions(run: Run, cluster: FakeCluster) -> None:
    asyncio.run(produce_odd_records(cluster))
    run("topic", "copy", "orders", "orders2", status=1, says="add --create")
    run("topic", "copy", "orders", "orders2", "--create", says="copied 53 records")
    assert fields(cluster, "orders2") == fields(cluster, "orders")
    run("topic", "copy", "orders", "teas", status=1, says="has 1 partitions, 'orders' has 4")
    run("topic", "copy", "orders", "teas", "--by-key", "-o", "+49", says="copied 1 records")
    assert [each.value for each in cluster.records("teas")] == [b"49"]


def test_copy_between_clusters(run: Run, cluster: FakeCluster) -> None:
    asyncio.run(produce_odd_records(cluster))
    with FakeCluster(topics={"orders": 4}) as other:
        address = other.bootstrap_servers
        run("topic", "copy", "orders", "orders", status=2, says="into itself")
        same = cluster.bootstrap_servers
        run("topic", "copy", "orders", "orders", "--to", same, status=2, says="one cluster")
        run("topic", "copy", "orders", "orders", "--to", address, says="copied 53 records")
        assert fields(other, "orders") == fields(cluster, "orders")
        run("profile", "add", "other", "-b", address)
        arguments = ("topic", "copy", "orders", "orders", "--to-profile", "other")
        run(*arguments, "-b", cluster.bootstrap_servers, "-o", "end", says="copied 0 records")
        run(*arguments, "--to", address, status=2, says="cannot be combined")


def test_copy_ends_at_the_first_record_that_the_target_refuses(
    run: Run, cluster: FakeCluster
) -> None:
    asyncio.run(produce_odd_records(cluster))
    run("topic", "create", "small", "-p", "4", "-c", "max.message.bytes=500")
    run("topic", "copy", "orders", "small", status=1, says="orders/3 offset 0 was not copied")


@pytest.mark.parametrize("command", ["topic copy orders teas --by-key", "bench produce teas"])
def test_interrupted_writer_waits_only_briefly_for_a_broker_that_hangs(
    cluster: FakeCluster, tmp_path: Path, command: str
) -> None:
    asyncio.run(produce_odd_records(cluster))
    fault = cluster.control(ApiKey.PRODUCE, drop=True, times=None)
    shell = Shell(cluster.bootstrap_servers, tmp_path)
    with shell.start(*command.split(), stderr=subprocess.PIPE) as process:
        try:
            fault.wait(timeout=PATIENCE)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            process.kill()


def test_copy_ends_at_the_present_end(run: Run, cluster: FakeCluster) -> None:
    asyncio.run(produce_odd_records(cluster))
    run("topic", "copy", "orders", "later", "--create", "-o", "0:100", says="copied 53 records")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("a", "internal", UUID(int=1)), ("a", "external", UUID(int=1)), True),  # two listeners
        (("a", "internal", None), ("a", "external", None), True),
        (("a", "internal", UUID(int=1)), ("a", "external", UUID(int=2)), False),  # a fixed id
        (("a", "internal", UUID(int=1)), ("b", "internal", UUID(int=1)), False),
        ((None, "old", None), (None, "old", None), True),
        ((None, "old", None), (None, "other", None), False),
    ],
)
def test_one_cluster_is_recognized(one: Any, other: Any, expected: bool) -> None:
    def seen(cluster_id: str | None, host: str, topic_id: UUID | None) -> Any:
        brokers = {1: SimpleNamespace(host=host, port=9092)}
        topics = {"orders": SimpleNamespace(topic_id=topic_id)}
        return SimpleNamespace(cluster_id=cluster_id, brokers=brokers, topics=topics)

    assert copying._is_same(seen(*one), seen(*other), "orders") is expected


# --- topics without a leader


def test_topic_without_a_leader_can_be_deleted(run: Run, cluster: FakeCluster) -> None:
    run("topic", "create", "broken", "-p", "3", "-r", "1")
    gone = replicas(cluster, "broken")[1][0]
    cluster.kill(gone)
    address = cluster.bootstrap_servers
    found = rows(run, "topic", "offsets", "broken", "-b", address, status=1, says="broken/1")
    assert [each["partition"] for each in found] == [0, 2]
    run("topic", "delete", "broken", "-b", address, "--yes", says="unknown for 1 partitions")
    assert "broken" not in cluster.state.topics


# --- group delete-offsets


def test_offsets_of_a_group_are_deleted(run: Run, cluster: FakeCluster) -> None:
    async def commit() -> None:
        async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            offsets = {TopicPartition("orders", number): 0 for number in range(3)}
            offsets[TopicPartition("teas", 0)] = 0
            (await admin.alter_consumer_group_offsets("kitchen", offsets)).raise_for_errors()

    asyncio.run(commit())
    command = ("group", "delete-offsets", "kitchen")
    run(*command, "--topic", "none", status=1, says="no committed offset of none")
    run(*command, "--topic", "orders:0,1", status=2, says="add --yes")
    run(*command, "--topic", "orders:0,1", "-y", says="delete the offset of orders/0 (0)")
    lag = rows(run, "group", "lag", "kitchen")
    assert [(each["topic"], each["partition"]) for each in lag] == [("orders", 2), ("teas", 0)]


# --- cluster


def test_cluster_shows_its_controllers_features_disks_and_versions(run: Run) -> None:
    quorum = rows(run, "cluster", "quorum")
    assert [each["role"] for each in quorum].count("leader") == 1
    features = {each["feature"]: each for each in rows(run, "cluster", "features")}
    version = features["metadata.version"]
    assert version["least"] <= version["level"] <= version["most"]
    disks = rows(run, "cluster", "logdirs")
    assert sorted({each["broker"] for each in disks}) == sorted({n["node"] for n in quorum})
    assert sum(each["replicas"] for each in disks) >= 5
    versions = rows(run, "cluster", "versions", "--broker", str(quorum[0]["node"]))
    [metadata] = [each for each in versions if each["api"] == "metadata"]
    assert (metadata["key"], metadata["newest"]) == (3, 13)
    run("cluster", "versions", "--broker", "99", status=1, says="the cluster has the brokers")


def test_feature_levels_are_changed_after_a_confirmation(run: Run) -> None:
    command = ("cluster", "features", "--set")
    run(*command, "metadata.version=x", status=2, says="a level is a number")
    run(*command, "metadata.version=0", status=2, says="add --downgrade")
    run(*command, "metadata.version=1", status=2, says="add --yes")
    run(*command, "nonsense=3", "--yes", status=1, says="nonsense")
