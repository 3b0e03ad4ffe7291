"""The administrative commands against a real Kafka; other clients check their effect."""

import asyncio
import json
import signal
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real.visibility import Placement, seen, topic_is_placed
from tests.unit.cli.commands import Shell
from tools.kafka import KafkaCluster, RealKafka

kafka_python: Any = pytest.importorskip("kafka", reason="the interop extra is not installed")
confluent: Any = pytest.importorskip("confluent_kafka", reason="the interop extra is not installed")
confluent_admin: Any = pytest.importorskip("confluent_kafka.admin")

Rows = Callable[..., Any]


@pytest.fixture
def shell(kafka: RealKafka, tmp_path: Path) -> Shell:
    return Shell(kafka.bootstrap_servers, tmp_path)


@pytest.fixture
def rows(shell: Shell) -> Rows:
    """Runs a command and returns what it prints as JSON."""

    def run(*arguments: str) -> Any:
        done = shell.run(*arguments, "--output", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def other(kafka: RealKafka) -> Any:
    """librdkafka's admin client, as the witness."""
    return confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


def a_topic() -> str:
    return f"cli-{uuid.uuid4().hex[:10]}"


def config_of(other: Any, topic: str, name: str) -> Any:
    resource = confluent_admin.ConfigResource("TOPIC", topic)
    return other.describe_configs([resource])[resource].result(30)[name].value


def partitions_of(other: Any, topic: str) -> int:
    found = other.list_topics(topic, timeout=30).topics[topic]
    return 0 if found.error else len(found.partitions)


def test_topic_is_created_altered_and_deleted(shell: Shell, rows: Rows, other: Any) -> None:
    topic = a_topic()
    [created] = rows("topic", "create", topic, "-p", "3", "-c", "retention.ms=7200000")
    assert (created["partitions"], created["replicas"]) == (3, 1)
    seen(lambda: partitions_of(other, topic), 3)
    assert config_of(other, topic, "retention.ms") == "7200000"
    assert topic in [each["topic"] for each in rows("topics")]
    [described] = rows("topic", "describe", topic)
    assert (described["partitions"], described["unhealthy"]) == (3, 0)
    assert [each["leader"] for each in rows("topic", "describe", topic, "-p")] != [None] * 3

    shell.fails(2, "topic", "alter", topic, "--set", "retention.ms=1")  # not confirmed
    assert config_of(other, topic, "retention.ms") == "7200000"
    changes = ("--set", "retention.ms=3600000", "--append", "cleanup.policy=compact")
    done = shell.run("topic", "alter", topic, *changes, "--partitions", "5", "--yes")
    assert done.returncode == 0, done.stderr
    seen(lambda: config_of(other, topic, "retention.ms"), "3600000")
    seen(lambda: config_of(other, topic, "cleanup.policy"), "delete,compact")
    seen(lambda: partitions_of(other, topic), 5)

    assert shell.run("topic", "delete", topic, "--yes").returncode == 0
    seen(lambda: topic in other.list_topics(timeout=30).topics, False)


def test_records_are_trimmed(kafka: RealKafka, shell: Shell, rows: Rows) -> None:
    topic = a_topic()
    rows("topic", "create", topic, "-p", "1")
    shell.ok("produce", topic, stdin=b"".join(b"%d\n" % n for n in range(10)))
    [before] = rows("topic", "offsets", topic, "-o", "-4")
    assert (before["start"], before["end"], before["at"]) == (0, 10, 6)
    assert shell.run("topic", "trim", topic, "-o", "6", "--yes").returncode == 0
    consumer = kafka_python.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers)
    try:
        tp = kafka_python.TopicPartition(topic, 0)
        assert consumer.beginning_offsets([tp])[tp] == 6
    finally:
        consumer.close()
    assert shell.ok("consume", topic, "-e", "-f", "%v") == b"6789"


def test_group_lag_is_that_of_another_clients_commit(
    kafka: RealKafka, shell: Shell, rows: Rows
) -> None:
    topic, group = a_topic(), f"cli-{uuid.uuid4().hex[:10]}"
    rows("topic", "create", topic, "-p", "1")
    shell.ok("produce", topic, stdin=b"a\nb\nc\nd\ne\n")
    consumer = confluent.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    try:
        consumer.commit(offsets=[confluent.TopicPartition(topic, 0, 2)], asynchronous=False)
    finally:
        consumer.close()
    assert group in [each["group"] for each in rows("groups")]
    [lag] = rows("group", "lag", group)
    assert (lag["topic"], lag["committed"], lag["end"], lag["lag"]) == (topic, 2, 5, 3)
    assert rows("group", "lag", group, "--total")[0]["lag"] == 3


def test_group_is_moved_unless_it_is_active(
    kafka: RealKafka, shell: Shell, rows: Rows, tmp_path: Path
) -> None:
    topic, group = a_topic(), f"cli-{uuid.uuid4().hex[:10]}"
    rows("topic", "create", topic, "-p", "1")
    shell.ok("produce", topic, stdin=b"a\nb\nc\nd\ne\n")
    other = confluent.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})

    def committed() -> int:
        [found] = other.committed([confluent.TopicPartition(topic, 0)], timeout=30)
        return int(found.offset)

    try:
        for protocol in ("classic", "consumer"):
            member = shell.start(
                *("consume", topic, "-g", group, "-X", f"group.protocol={protocol}"),
                *("-X", "client.id=waiter"),
                stdout=subprocess.PIPE,
            )
            assert member.stdout is not None
            assert member.stdout.readline() == b"a\n"
            problem = shell.fails(1, "group", "seek", group, "--to", "3", "-y", *new(topic))
            assert "stop its members first (waiter@" in problem
            [described] = rows("group", "describe", group)
            assert (described["type"], described["state"]) == (protocol, "Stable")
            assert rows("group", "describe", group, "-m")[0]["client_id"] == "waiter"
            assert "NonEmptyGroup" in shell.fails(1, "group", "delete", group, "--yes")
            member.send_signal(signal.SIGINT)
            member.communicate(timeout=60)
            assert member.returncode == 130
            assert committed() == 5
            problem = shell.run("group", "seek", group, "--to", "start", "-y").stderr.decode()
            assert f"{group}: {topic}/0 5 -> 0" in problem
            assert committed() == 0
    finally:
        other.close()
    assert shell.run("group", "seek", group, "--to", "-2", "-y").returncode == 0
    assert shell.ok("consume", topic, "-g", group, "-n", "2") == b"d\ne\n"
    assert shell.ok("group", "seek", group, "--export", "-") == b"%b,0,5\n" % topic.encode()
    assert shell.run("group", "delete", group, "--yes").returncode == 0
    assert group not in [each["group"] for each in rows("groups")]


def new(topic: str) -> list[str]:
    return ["--topic", topic, "--new-topics"]


def test_cluster_is_described(rows: Rows, other: Any) -> None:
    described = other.list_topics(timeout=30)
    [info] = rows("cluster", "info")
    assert info["brokers"] == len(described.brokers)
    assert info["cluster_id"] == described.cluster_id
    assert [each["broker"] for each in rows("cluster", "brokers")] == sorted(described.brokers)
    assert rows("cluster", "health") == []


def test_configs_are_changed(shell: Shell, rows: Rows, other: Any) -> None:
    topic = a_topic()
    rows("topic", "create", topic, "-p", "1")
    seen(lambda: partitions_of(other, topic), 1)
    done = shell.run("config", "set", "topic", topic, "retention.ms=9000000", "--yes")
    assert done.returncode == 0, done.stderr
    seen(lambda: config_of(other, topic, "retention.ms"), "9000000")
    [found] = rows("config", "get", "topic", topic, "retention.ms")
    assert (found["value"], found["source"]) == ("9000000", "TOPIC_CONFIG")
    assert (
        shell.run("config", "set", "topic", topic, "--delete", "retention.ms", "-y").returncode == 0
    )
    seen(lambda: config_of(other, topic, "retention.ms") == "9000000", False)


def test_bench_fills_and_reads_a_topic(kafka: RealKafka, shell: Shell, rows: Rows) -> None:
    topic = a_topic()
    rows("topic", "create", topic, "-p", "2")
    produced = json.loads(shell.ok("bench", "produce", topic, "--records", "5000", "-J"))
    assert (produced["records"], produced["failures"]) == (5000, 0)
    consumer = kafka_python.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers)
    try:
        both = [kafka_python.TopicPartition(topic, number) for number in (0, 1)]
        assert sum(consumer.end_offsets(both).values()) == 5000
    finally:
        consumer.close()
    consumed = json.loads(shell.ok("bench", "consume", topic, "--records", "5000", "-J"))
    assert consumed["records"] == 5000
    assert json.loads(shell.ok("bench", "latency", topic, "--records", "50", "-J"))["records"] == 50


def test_users_and_quotas_are_changed(shell: Shell, rows: Rows, other: Any) -> None:
    user = f"cli-{uuid.uuid4().hex[:10]}"
    shell.ok("user", "create", user, "--password-stdin", stdin=b"secret\n")

    def mechanisms() -> list[str]:
        try:
            described = other.describe_user_scram_credentials([user])[user].result(30)
        except confluent.KafkaException as error:
            if error.args[0].code() != confluent.KafkaError.RESOURCE_NOT_FOUND:
                raise
            return []
        return [each.mechanism.name for each in described.scram_credential_infos]

    seen(mechanisms, ["SCRAM_SHA_512"])
    assert user in [each["user"] for each in rows("user", "list")]
    assert shell.run("user", "delete", user, "--yes").returncode == 0
    seen(lambda: user in [each["user"] for each in rows("user", "list")], False)

    quota = ("quota", "set", "--for-user", user)  # no other client here reads quotas
    assert shell.run(*quota, "producer_byte_rate=5000", "--yes").returncode == 0

    def quotas() -> list[tuple[str, float]]:
        listed = [each for each in rows("quota", "list") if each["user"] == user]
        return [(each["quota"], each["value"]) for each in listed]

    seen(quotas, [("producer_byte_rate", 5000.0)])
    assert shell.run(*quota, "--delete", "producer_byte_rate", "--yes").returncode == 0
    seen(quotas, [])


def test_hanging_transaction_is_aborted(kafka: RealKafka, shell: Shell, rows: Rows) -> None:
    topic, name = a_topic(), f"cli-{uuid.uuid4().hex[:10]}"
    rows("topic", "create", topic, "-p", "1")
    producer = confluent.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"lost")
    assert producer.flush(30) == 0
    [found] = [each for each in rows("txn", "list", "--state", "Ongoing") if each["id"] == name]
    assert found["state"] == "Ongoing"
    assert rows("txn", "describe", name)[0]["partitions"] == [f"{topic}/0"]
    assert shell.run("txn", "abort", name, "--yes").returncode == 0
    with pytest.raises(confluent.KafkaException):
        producer.commit_transaction(30)  # fenced
    assert shell.ok("consume", topic, "-e", "--committed") == b""


def test_acls_are_seen_by_another_client(tmp_path: Path) -> None:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with KafkaCluster(config=config, heap="256m") as guarded:
        shell = Shell(guarded.bootstrap_servers, tmp_path)
        other = confluent_admin.AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
        every = confluent_admin.AclBindingFilter(
            confluent_admin.ResourceType.ANY,
            None,
            confluent_admin.ResourcePatternType.ANY,
            "User:alice",
            None,
            confluent_admin.AclOperation.ANY,
            confluent_admin.AclPermissionType.ANY,
        )

        def acls() -> set[tuple[str, str, str]]:
            found = other.describe_acls(every).result(30)
            return {(each.name, each.operation.name, each.permission_type.name) for each in found}

        who = ("--allow", "User:alice", "--operation", "read,write")
        shell.ok("acl", "create", *who, "--topic", "orders")
        expected = {("orders", "READ", "ALLOW"), ("orders", "WRITE", "ALLOW")}
        seen(acls, expected)
        listed = json.loads(shell.ok("acl", "list", "--topic", "orders", "-o", "json"))
        assert {each["operation"] for each in listed} == {"read", "write"}
        shell.fails(2, "acl", "delete", "--topic", "orders")
        assert acls() == expected
        done = shell.run("acl", "delete", "--topic", "orders", "--operation", "write", "--yes")
        assert done.returncode == 0, done.stderr
        seen(acls, {("orders", "READ", "ALLOW")})


def test_replicas_are_moved_and_leaders_elected(kafka3: RealKafka, tmp_path: Path) -> None:
    shell = Shell(kafka3.bootstrap_servers, tmp_path)
    witness = confluent_admin.AdminClient({"bootstrap.servers": kafka3.bootstrap_servers})
    topic = a_topic()

    def witnessed() -> list[tuple[int, list[int]]]:
        partitions = witness.list_topics(topic, timeout=30).topics[topic].partitions
        return [(each.leader, sorted(each.replicas)) for _, each in sorted(partitions.items())]

    def known(enough: Callable[[Placement], object]) -> None:
        """A command may ask any broker, and completes when the controller has completed it."""
        asyncio.run(topic_is_placed(kafka3.bootstrap_servers, topic, enough))

    shell.ok("topic", "create", topic, "-p", "4", "-r", "1")
    known(lambda placement: len(placement) == 4)
    nodes = sorted(witness.list_topics(timeout=30).brokers)
    planned = json.loads(shell.ok("reassign", "plan", topic, "-r", "2", "-o", "json"))
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(planned), "utf-8")
    done = shell.run("reassign", "apply", "--file", str(plan), "--yes", "--wait")
    assert done.returncode == 0, done.stderr
    wanted = [sorted(each["replicas"]) for each in planned]
    known(lambda placement: [replicas for _, replicas in placement] == wanted)
    assert [replicas for _, replicas in witnessed()] == wanted
    done = shell.run("reassign", "apply", topic, "--to", str(nodes[0]), "-r", "1", "-y", "-w")
    assert done.returncode == 0, done.stderr
    known(lambda placement: placement == [(nodes[0], [nodes[0]])] * 4)
    assert witnessed() == [(nodes[0], [nodes[0]])] * 4
    done = shell.run("elect", topic, "--yes", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert [each["elected"] for each in json.loads(done.stdout)] == [False] * 4


def test_copy_is_equal_for_another_client(kafka: RealKafka, shell: Shell) -> None:
    source, target = a_topic(), a_topic()
    shell.ok("topic", "create", source, "-p", "2", "--no-header")
    producer = confluent.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    headers = [("a", b"1"), ("a", None), ("b", b"\xff")]
    producer.produce(source, None, b"key", partition=0, timestamp=1_700_000_000_000)
    producer.produce(source, b"", None, partition=1, timestamp=1_700_000_000_001)
    producer.produce(source, bytes(range(256)) * 3000, b"", partition=1, headers=headers)
    assert producer.flush(60) == 0
    done = shell.run("topic", "copy", source, target, "--create")
    assert (done.returncode, b"copied 3 records" in done.stderr) == (0, True), done.stderr

    def read(topic: str) -> list[tuple[Any, ...]]:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "witness"}
        consumer = confluent.Consumer({**settings, "auto.offset.reset": "earliest"})
        begin = [confluent.TopicPartition(topic, number, 0) for number in range(2)]
        consumer.assign(begin)
        found: list[tuple[Any, ...]] = []
        while len(found) < 3:
            message = consumer.poll(60)
            assert message is not None
            assert message.error() is None
            place = message.partition(), message.offset()
            content = message.key(), message.value(), message.headers(), message.timestamp()
            found.append((*place, *content))
        consumer.close()
        return sorted(found, key=lambda each: each[:2])

    assert read(target) == read(source)


def test_cluster_views_agree_with_other_clients(rows: Rows, shell: Shell, other: Any) -> None:
    brokers = set(other.list_topics(timeout=30).brokers)
    assert {each["broker"] for each in rows("cluster", "logdirs")} == brokers
    assert {each["broker"] for each in rows("cluster", "versions")} == brokers
    [leader] = [each for each in rows("cluster", "quorum") if each["role"] == "leader"]
    assert leader["lag"] == 0
    features = {each["feature"]: each for each in rows("cluster", "features")}
    now = features["metadata.version"]["level"]
    done = shell.run("cluster", "features", "--set", f"metadata.version={now + 1000}", "--yes")
    assert done.returncode == 1  # the controller refuses a level that it does not have


def test_offsets_of_a_topic_are_deleted(shell: Shell, rows: Rows, other: Any) -> None:
    topic, group = a_topic(), a_topic()
    shell.ok("topic", "create", topic, "-p", "2", "--no-header")
    seen(lambda: partitions_of(other, topic), 2)
    partitions = [confluent.TopicPartition(topic, number, 0) for number in range(2)]
    offsets = confluent.ConsumerGroupTopicPartitions(group, partitions)
    other.alter_consumer_group_offsets([offsets])[group].result(60)
    done = shell.run("group", "delete-offsets", group, "--topic", f"{topic}:1", "--yes")
    assert done.returncode == 0, done.stderr
    found = other.list_consumer_group_offsets([confluent.ConsumerGroupTopicPartitions(group)])
    listed = found[group].result(60).topic_partitions
    assert [(each.topic, each.partition) for each in listed] == [(topic, 0)]
