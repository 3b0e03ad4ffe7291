"""`topic`, `group`, `cluster` and `config` against the embedded broker."""

import asyncio
import io
import json
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.cli import main
from aiokafka_lite.errors import PolicyViolationError, UnknownError
from aiokafka_lite.testing import ApiKey, FakeCluster
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from tests.unit.cli.commands import PATIENCE, Shell

Run = Callable[..., str]

ACTIVE: Any = {"status": 1, "says": "stop its members first (waiter@127.0.0.1)"}


def rows(run: Run, *arguments: str, **checks: Any) -> Any:
    return json.loads(run(*arguments, "--output", "json", **checks))


def test_topics_are_created_listed_and_described(run: Run, kafka_broker: FakeCluster) -> None:
    created = rows(run, "topic", "create", "a", "b", "-p", "3", "-c", "retention.ms=7000")
    assert [(each["topic"], each["partitions"]) for each in created] == [("a", 3), ("b", 3)]
    assert kafka_broker.state.topics["a"].configs["retention.ms"] == "7000"
    assert run("topics", "--no-header").split() == ["a", "3", "1", "b", "3", "1"]
    assert run("topic", "list", "-r", "b|c", "--no-header").split() == ["b", "3", "1"]
    described = rows(run, "topic", "describe", "a", "-p")
    assert [each["partition"] for each in described] == [0, 1, 2]
    assert rows(run, "topic", "describe", "a", "b", "--unhealthy") == []
    configs = rows(run, "topic", "describe", "a", "-c")
    [retention] = [each for each in configs if each["config"] == "retention.ms"]
    assert (retention["value"], retention["source"]) == ("7000", "TOPIC_CONFIG")


def test_each_failed_topic_is_reported(run: Run) -> None:
    run("topic", "create", "a")
    created = rows(run, "topic", "create", "a", "b", status=1, says="TopicAlreadyExistsError")
    assert [each["topic"] for each in created] == ["b"]
    run("topic", "describe", "a", "nope", status=1, says="nope")


def test_existing_topics_may_be_ignored_when_topics_are_created(run: Run) -> None:
    rows(run, "topic", "create", "a")
    created = rows(run, "topic", "create", "a", "b", "--if-not-exists")
    assert [each["topic"] for each in created] == ["b"]
    assert rows(run, "topic", "create", "a", "--if-not-exists") == []
    says = "InvalidReplicationFactorError"
    run("topic", "create", "a", "c", "-r", "9", "--if-not-exists", status=1, says=says)


def test_missing_topics_may_be_ignored_when_topics_are_deleted(run: Run) -> None:
    run("topic", "create", "a")
    run("topic", "delete", "a", "nope", "--if-exists", "--yes", says="delete topic a")
    assert rows(run, "topics") == []
    run("topic", "delete", "a", "--if-exists", "--yes")
    run("topic", "delete", "-r", "a|b", "--if-exists", "--yes")
    run("topic", "delete", "a", "--yes", status=1, says="UnknownTopicOrPartitionError")


def test_dry_run_changes_nothing(run: Run, kafka_broker: FakeCluster) -> None:
    run("topic", "create", "a", "--dry-run")
    assert "a" not in kafka_broker.state.topics
    run("topic", "create", "a")
    run("topic", "delete", "a", "--dry-run", says="delete topic a: 1 partitions, 0 offsets in use")
    run("topic", "alter", "a", "--partitions", "2", "--dry-run", says="partitions 1 -> 2")
    assert rows(run, "topics")[0]["partitions"] == 1


def test_destructive_commands_need_a_terminal_or_yes(run: Run, kafka_broker: FakeCluster) -> None:
    run("topic", "create", "a")
    run("topic", "delete", "a", status=2, says="add --yes")
    assert "a" in kafka_broker.state.topics
    run("topic", "delete", "a", "--yes", says="delete topic a")
    assert "a" not in kafka_broker.state.topics


def test_topic_is_altered(run: Run, kafka_broker: FakeCluster) -> None:
    run("topic", "create", "a", "-c", "cleanup.policy=compact")
    changes = ("--set", "retention.ms=5000", "--append", "cleanup.policy=delete")
    run("topic", "alter", "a", *changes, "--partitions", "4", "-y", says="set retention.ms 5000")
    configs = kafka_broker.state.topics["a"].configs
    assert configs["retention.ms"] == "5000"
    assert configs["cleanup.policy"] == "compact,delete"
    assert rows(run, "topics")[0]["partitions"] == 4
    run("topic", "alter", "a", "--delete", "retention.ms", "-y", says="delete retention.ms")
    assert "retention.ms" not in kafka_broker.state.topics["a"].configs
    run("topic", "alter", "a", status=2, says="nothing to change")


def test_offsets_and_trim(run: Run, kafka_broker: FakeCluster) -> None:
    run("topic", "create", "a")
    for number in range(10):
        kafka_broker.produce("a", b"x", timestamp_ms=1_700_000_000_000 + number)
    [found] = rows(run, "topic", "offsets", "a", "-o", "@1700000000004")
    assert (found["start"], found["end"], found["at"]) == (0, 10, 4)
    run("topic", "trim", "a", "-o", "-3", "--yes", says="a/0: start 0 -> 7 (end 10)")
    assert rows(run, "topic", "offsets", "a")[0]["start"] == 7
    run("topic", "trim", "a", "-o", "5", "--yes")  # nothing is left to delete
    run("topic", "trim", "a", "-o", "1:3", status=2, says="not a range")
    run("topic", "trim", "a", "-o", "9", "-p", "3", "-y", status=2, says="has 1 partitions")


def test_cluster_is_described(run: Run, kafka_broker: FakeCluster) -> None:
    run("topic", "create", "a", "-p", "2")
    [info] = rows(run, "cluster", "info")
    assert (info["brokers"], info["topics"], info["partitions"]) == (1, 1, 2)
    [broker] = rows(run, "cluster", "brokers")
    assert f"{broker['host']}:{broker['port']}" == kafka_broker.bootstrap_servers
    assert rows(run, "cluster", "health") == []


def test_configs_are_read_and_changed(run: Run) -> None:
    run("topic", "create", "a")
    run("config", "set", "topic", "a", "retention.ms=9", "-y", says="retention.ms 604800000 -> 9")
    [found] = rows(run, "config", "get", "topic", "a", "retention.ms", "--changed")
    assert (found["value"], found["source"]) == ("9", "TOPIC_CONFIG")
    run("config", "set", "topic", "a", "--delete", "retention.ms", "-y", says="9 -> the default")
    assert rows(run, "config", "get", "topic", "a", "retention.ms", "--changed") == []
    run("config", "get", "topic", "a", "nope", status=2, says="no configuration nope")
    run("config", "set", "topic", "a", "retention.ms=x", "-y", status=1, says="InvalidConfig")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("topic", "list", "-b", "http://127.0.0.1:9092"), "begins with the scheme http://"),
        (("consume", "a", "-e", "-X", "fetch.max.bytes=-1"), "should be at least 1, not -1"),
        (("produce", "a", "-X", "acks=7"), "`acks` should be 0, 1, -1 or 'all', not 7"),
        (("top", "--once", "-b", "127.0.0.1:99999"), "a port of 1 to 65535"),
    ],
)
def test_options_that_a_client_refuses_are_invalid_arguments(
    kafka_broker: FakeCluster, run: Run, arguments: tuple[str, ...], says: str
) -> None:
    kafka_broker.create_topic("a")
    run(*arguments, status=2, says=says)


def test_a_name_without_a_configuration_has_no_old_value(run: Run) -> None:
    run("topic", "create", "a")
    change = ("config", "set", "topic", "a", "retentin.ms=1")
    run(*change, "--dry-run", says="topic a: retentin.ms none -> 1")


def test_groups_and_their_lag(kafka_broker: FakeCluster, run: Run) -> None:
    kafka_broker.create_topic("a", 1)
    for _ in range(5):
        kafka_broker.produce("a", b"x")
    commit(kafka_broker, "g", {("a", 0): 2})
    [group] = rows(run, "groups")
    assert (group["group"], group["state"]) == ("g", "Empty")
    [lag] = rows(run, "group", "lag", "g")
    assert (lag["committed"], lag["end"], lag["lag"]) == (2, 5, 3)
    assert rows(run, "group", "lag", "--total") == [{"group": "g", "partitions": 1, "lag": 3}]


def test_watched_lag_reaches_a_pipe_at_once(kafka_broker: FakeCluster, tmp_path: Path) -> None:
    kafka_broker.create_topic("t", 1)
    commit(kafka_broker, "g", {("t", 0): 0})
    shell = Shell(kafka_broker.bootstrap_servers, tmp_path)
    shell.environment.pop("PYTHONUNBUFFERED", None)
    command = ("group", "lag", "g", "-w", "--no-header")
    with shell.start(*command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], PATIENCE)[0]
            assert process.stdout.readline().split()[:3] == [b"g", b"t", b"0"]
            process.terminate()
            assert process.wait(PATIENCE) == 143
        finally:
            process.kill()


def test_lag_of_all_groups_says_which_broker_did_not_list_its_own(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeCluster(2, topics=["a"]) as cluster:
        monkeypatch.setenv("AIOKAFKA_LITE_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
        commit(cluster, "g", {("a", 0): 0})
        other = 1 - cluster.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id
        cluster.control(ApiKey.LIST_GROUPS, error=UnknownError, node=other)
        lags = rows(run, "group", "lag", status=1, says="UnknownError")
        assert [lag["group"] for lag in lags] == ["g"]


def commit(cluster: FakeCluster, group: str, offsets: dict[tuple[str, int], int]) -> None:
    async def commit_all() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id=group, enable_auto_commit=False
        )
        consumer.assign([TopicPartition(*each) for each in offsets])
        async with consumer:
            await consumer.commit({TopicPartition(*tp): each for tp, each in offsets.items()})

    asyncio.run(commit_all())


def test_group_is_moved(run: Run, kafka_broker: FakeCluster, tmp_path: Path) -> None:
    kafka_broker.create_topic("a", 2)
    for number in range(20):
        kafka_broker.produce("a", b"x", partition=number % 2, timestamp_ms=1000 + number)
    commit(kafka_broker, "g", {("a", 0): 2, ("a", 1): 3})
    saved = str(tmp_path / "offsets.csv")
    run("group", "seek", "g", "--export", saved)
    assert Path(saved).read_text() == "a,0,2\na,1,3\n"

    run("group", "seek", "g", "--to", "start", "--dry-run", says="g: a/0 2 -> 0\ng: a/1 3 -> 0\n")
    run("group", "seek", "g", "--to", "start", status=2, says="add --yes")
    assert kafka_broker.committed("g") == {("a", 0): 2, ("a", 1): 3}
    run("group", "seek", "g", "--to", "-1", "--topic", "a:1", "--yes", says="g: a/1 3 -> 9")
    assert kafka_broker.committed("g") == {("a", 0): 2, ("a", 1): 9}
    run("group", "seek", "g", "--to", "@1970-01-01T00:00:01.010", "-y", says="g: a/0 2 -> 5")
    assert kafka_broker.committed("g") == {("a", 0): 5, ("a", 1): 5}
    run("group", "seek", "g", "--to-file", saved, "--yes", says="g: a/0 5 -> 2")
    assert kafka_broker.committed("g") == {("a", 0): 2, ("a", 1): 3}
    run("group", "seek", "h", "--to-group", "g", "--new-topics", "-y", says="h: a/0 none -> 2")
    assert kafka_broker.committed("h") == {("a", 0): 2, ("a", 1): 3}
    run("group", "seek", "g", "--to", "2", "--topic", "a:0", "-y", says="there already")


def test_offsets_of_partitions_that_are_new_to_the_group_are_not_left_out_silently(
    run: Run, kafka_broker: FakeCluster, tmp_path: Path
) -> None:
    kafka_broker.create_topic("a", 2)
    kafka_broker.produce("a", b"x", partition=0)
    file = tmp_path / "offsets.csv"
    file.write_text("a,0,1\na,1,0\n")
    seek = ("group", "seek", "g", "--to-file", str(file), "--yes")
    run(*seek, status=1, says="group g has no offset of a/0 and 1 more: add --new-topics")
    commit(kafka_broker, "g", {("a", 0): 0})
    run(*seek, says="group g has no offset of a/1: add --new-topics")
    assert kafka_broker.committed("g") == {("a", 0): 1}
    kafka_broker.create_topic("b", 1)
    other = ("--topic", "b", "--new-topics")
    run(*seek, *other, status=1, says="no offset of b to move to")


@pytest.mark.parametrize("form", [(), ("--total",)])
def test_lag_of_a_misspelled_group_is_an_error(
    run: Run, kafka_broker: FakeCluster, form: tuple[str, ...]
) -> None:
    kafka_broker.create_topic("a", 1)
    commit(kafka_broker, "g", {("a", 0): 0})
    lags = rows(run, "group", "lag", "g", "h", *form, status=1, says="group h does not exist")
    assert [each["group"] for each in lags] == ["g"]


def test_exported_offsets_that_cannot_be_written_move_nothing(
    run: Run, kafka_broker: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_broker.create_topic("a", 1)
    kafka_broker.produce("a", b"x")
    commit(kafka_broker, "g", {("a", 0): 0})
    for arguments in (
        ("group", "seek", "g", "--export", "-", "--to", "end", "--yes"),
        ("group", "list"),
    ):
        with open("/dev/full", "w") as full, monkeypatch.context() as patches:
            patches.setattr(sys, "stdout", full)
            assert main(arguments) == 1
    assert kafka_broker.committed("g") == {("a", 0): 0}


def test_groups_are_deleted(run: Run, kafka_broker: FakeCluster) -> None:
    kafka_broker.create_topic("a", 1)
    commit(kafka_broker, "g", {("a", 0): 0})
    run("group", "delete", "g", "n", status=2, says="delete group g with the offsets of 1 part")
    run("group", "delete", "g", "n", "--yes", status=1, says="GroupIdNotFound: group 'n'")
    assert kafka_broker.committed("g") == {}
    run("group", "describe", "g", status=1, says="group g does not exist")


def test_offsets_that_do_not_exist_are_refused(
    run: Run, kafka_broker: FakeCluster, tmp_path: Path
) -> None:
    kafka_broker.create_topic("a", 1)
    commit(kafka_broker, "g", {("a", 0): 0})
    file = tmp_path / "file"
    for text, status, says in (
        ("a,0,5\n", 1, "a/0 has the offsets 0 to 0, not 5"),
        ("a,0\n", 2, "line 1"),
        ("a,3,0\n", 1, "no partition 3"),
    ):
        file.write_text(text)
        run(
            *("group", "seek", "g", "--to-file", str(file), "--new-topics", "-y"),
            status=status,
            says=says,
        )
    run("group", "seek", "g", status=2, says="write one of")
    run("group", "seek", "n", "--to", "end", "-y", status=1, says="has no committed offsets")
    run("group", "seek", "n", "--to", "end", "--topic", "a", "-y", status=1, says="--new-topics")
    assert kafka_broker.committed("g") == {("a", 0): 0}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_active_group_is_refused_with_its_members(
    run: Run, kafka_broker: FakeCluster, tmp_path: Path, protocol: str
) -> None:
    kafka_broker.create_topic("a", 1)
    for _ in range(3):
        kafka_broker.produce("a", b"x")
    shell = Shell(kafka_broker.bootstrap_servers, tmp_path)
    member = shell.start(
        *("consume", "a", "-g", "g", "-X", "client.id=waiter", "-X", f"group.protocol={protocol}"),
        stdout=subprocess.PIPE,
    )
    try:
        assert member.stdout is not None
        assert member.stdout.readline() == b"x\n"
        run("group", "seek", "g", "--to", "start", "--topic", "a", "--new-topics", "-y", **ACTIVE)
        [group] = rows(run, "group", "describe", "g")
        assert (group["type"], group["state"], group["members"]) == (protocol, "Stable", 1)
        [described] = rows(run, "group", "describe", "g", "--members")
        assert (described["client_id"], described["host"]) == ("waiter", "127.0.0.1")
        run("group", "delete", "g", "--yes", status=1, says="NonEmptyGroup")
    finally:
        member.terminate()
        member.communicate(timeout=60)


@pytest.mark.kafka(users={"root": "toor"}, super_users=["User:root"])
def test_acls_are_created_listed_and_deleted(
    run: Run, kafka_broker: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOKAFKA_LITE_SASL_USERNAME", "root")
    monkeypatch.setenv("AIOKAFKA_LITE_SASL_PASSWORD", "toor")
    who = ("--allow", "User:alice", "--operation", "read,describe")
    assert "User:alice allow read topic a" in run(
        "acl", "create", *who, "--topic", "a", "--dry-run"
    )
    assert rows(run, "acl", "list") == []
    run("acl", "create", *who, "--topic", "a")
    run("acl", "create", "--deny", "User:bob", "--operation", "all", "--group", "g-", "--prefixed")
    operations = [each["operation"] for each in rows(run, "acl", "list", "--topic", "a")]
    assert operations == ["describe", "read"]
    [denied] = rows(run, "acl", "list", "--principal", "User:bob")
    assert (denied["permission"], denied["pattern"], denied["name"]) == ("deny", "prefixed", "g-")
    run("acl", "delete", "--topic", "a", status=2, says="delete User:alice allow read topic a")
    assert len(rows(run, "acl", "list")) == 3
    run("acl", "delete", "--topic", "a", "--yes", says="delete User:alice allow describe topic a")
    assert [each["principal"] for each in rows(run, "acl", "list")] == ["User:bob"]
    run("acl", "delete", "--topic", "a", "--yes", status=1, says="no ACL matches")
    run("acl", "create", *who, status=2, says="name a resource")
    run("acl", "create", *who, "--topic", "a", "--group", "g", status=2, says="name one resource")
    run("acl", "list", "--operation", "fly", status=2, says="'fly': use all, read")


@pytest.mark.kafka(super_users=["User:ANONYMOUS"])
def test_an_acl_that_was_not_deleted_is_reported(run: Run, kafka_broker: FakeCluster) -> None:
    def refuse(response: Any) -> None:
        [kept] = response.filter_results[0].matching_acls
        kept.error_code, kept.error_message = PolicyViolationError.errno, "the store is read-only"

    run("acl", "create", "--allow", "User:alice", "--operation", "read", "--topic", "a")
    kafka_broker.control(ApiKey.DELETE_ACLS, edit=refuse)
    run("acl", "delete", "--topic", "a", "--yes", status=1, says="the store is read-only")


def test_users_are_created_listed_and_deleted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("wonder-land\n"))
    run("user", "create", "alice", "--password-stdin")
    [found] = rows(run, "user", "list")
    assert (found["user"], found["mechanism"]) == ("alice", "SCRAM-SHA-512")
    run("user", "create", "bob", status=2, says="add --password-stdin")
    run(
        "user",
        "delete",
        "alice",
        status=2,
        says="delete the SCRAM-SHA-512 credential of user alice",
    )
    run("user", "delete", "alice", "--yes", says="credential of user alice")
    assert rows(run, "user", "list") == []
    run("user", "delete", "alice", "--yes", status=1, says="ResourceNotFound")


def test_quotas_are_set_listed_and_removed(run: Run) -> None:
    quota = ("quota", "set", "--for-user", "alice")
    run(
        *quota,
        "producer_byte_rate=1000",
        "--yes",
        says="user alice: producer_byte_rate none -> 1000",
    )
    run("quota", "set", "--ip", "default", "connection_creation_rate=5", "-y", says="ip default")
    listed = [(each["user"], each["ip"], each["value"]) for each in rows(run, "quota", "list")]
    assert sorted(listed, key=str) == [("alice", None, 1000.0), (None, "default", 5.0)]
    run(*quota, "--delete", "producer_byte_rate", status=2, says="1000.0 -> none")
    run(*quota, "--delete", "producer_byte_rate", "-y", says="1000.0 -> none")
    assert [each["ip"] for each in rows(run, "quota", "list")] == ["default"]
    run(*quota, "producer_byte_rate=x", status=2, says="the value is a number")
    run("quota", "set", "producer_byte_rate=1", status=2, says="whose quota")


def test_open_transaction_is_described_and_aborted(run: Run, kafka_broker: FakeCluster) -> None:
    kafka_broker.create_topic("a", 1)

    async def leave_open() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=kafka_broker.bootstrap_servers, transactional_id="hanging"
        )
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait("a", b"x")
        try:
            await asyncio.to_thread(look)
        finally:
            await producer.stop(timeout=0)

    def look() -> None:
        shell = Shell(kafka_broker.bootstrap_servers, Path("/nonexistent"))
        [found] = json.loads(shell.ok("txn", "list", "--state", "Ongoing", "-o", "json"))
        assert (found["id"], found["state"]) == ("hanging", "Ongoing")
        [described] = json.loads(shell.ok("txn", "describe", "hanging", "-o", "json"))
        assert described["partitions"] == ["a/0"]
        assert "(Ongoing; a/0)" in shell.fails(2, "txn", "abort", "hanging")
        assert shell.run("txn", "abort", "hanging", "--yes").returncode == 0
        assert json.loads(shell.ok("txn", "list", "--state", "Ongoing", "-o", "json")) == []
        assert "nope" in shell.fails(1, "txn", "describe", "nope")

    asyncio.run(leave_open())


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("table", "TOPIC  PARTITIONS  REPLICAS\na      1           1\n"),
        ("yaml", '- topic: "a"\n  partitions: 1\n  replicas: 1\n'),
    ],
)
def test_output_forms(run: Run, form: str, expected: str) -> None:
    run("topic", "create", "a")
    assert run("topic", "list", "-o", form).startswith(expected)
    assert "TOPIC-ID" in run("topic", "list", "-o", "wide")


def test_color_is_used_only_when_it_is_wanted(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("topic", "create", "a")
    assert main(["topics", "--color", "always"]) == 0
    assert capsys.readouterr().out.startswith("\x1b[1mTOPIC")


def test_empty_value_is_not_called_the_default(run: Run) -> None:
    run("topic", "create", "a")
    change = ("config", "set", "topic", "a")
    run(*change, "cleanup.policy=", "--dry-run", says="cleanup.policy delete -> nothing")
    run(*change, "--delete", "cleanup.policy", "--dry-run", says="delete -> the default")
