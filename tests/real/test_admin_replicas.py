"""Log directories, reassignments and elections against a real Kafka; other clients verify them."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer, TopicPartition
from aiokafka_lite.admin import (
    AIOKafkaAdminClient,
    ElectionType,
    NewTopic,
    OffsetSpec,
    PartitionReassignment,
    TopicPartitionReplica,
)
from aiokafka_lite.errors import (
    InvalidReplicationFactorError,
    LogDirNotFound,
    NoReassignmentInProgressError,
    PreferredLeaderNotAvailableError,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
)
from tools.kafka import KafkaCluster, OwnCluster

confluent_admin = pytest.importorskip("confluent_kafka.admin")
pytest.importorskip("kafka.admin")


@pytest.fixture
async def admin3(kafka3: OwnCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka3.bootstrap_servers) as client:
        yield client


def a_name() -> str:
    return f"replicas-{uuid.uuid4().hex[:10]}"


async def seen_by_librdkafka(kafka: OwnCluster, topic: str) -> tuple[int, list[int]]:
    """The leader and the replicas of the topic's first partition; (-1, []) if not known.

    It asks any broker, and brokers apply a new topic at different times.
    """
    judge = confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    seen = await asyncio.to_thread(judge.list_topics, topic, timeout=30)
    partition = seen.topics[topic].partitions.get(0)
    return (-1, []) if partition is None else (partition.leader, partition.replicas)


async def asked_by_kafka_python(kafka: Any, call: str) -> str:
    """What kafka-python's admin client prints, in a separate process because it leaks sockets."""
    script = (
        "import sys, kafka.admin\n"
        "client = kafka.admin.KafkaAdminClient(bootstrap_servers=sys.argv[1])\n"
        f"print(client.{call})\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, kafka.bootstrap_servers), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    return printed.decode()


async def until(condition: Any) -> None:
    """Wait until a coroutine function returns a true value."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.1)


async def test_replicas_are_described_and_moved_between_directories(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    config = {"log.dirs": f"{first},{second}"}
    with KafkaCluster(config=config, heap="256m") as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("moved", 1)
        async with (
            AIOKafkaAdminClient(bootstrap_servers=servers) as admin,
            AIOKafkaProducer(bootstrap_servers=servers) as producer,
        ):
            await producer.send_and_wait("moved", b"x" * 1000)
            [node_id] = cluster.node_ids
            described = (await admin.describe_log_dirs()).value(node_id)
            assert set(described) == {first, second}
            for directory in described.values():
                assert directory.error is None
                assert directory.total_bytes
                assert directory.usable_bytes is not None
            replica = TopicPartitionReplica("moved", 0, node_id)
            found = (await admin.describe_replica_log_dirs([replica])).value(replica)
            assert found.current_dir in described
            info = described[found.current_dir].replicas[TopicPartition("moved", 0)]
            assert info.size > 1000
            target = second if found.current_dir == first else first
            absent = TopicPartitionReplica("absent", 0, node_id)
            moved = await admin.alter_replica_log_dirs({replica: target, absent: target})
            assert moved[replica] is None
            assert isinstance(
                moved[absent], ReplicaNotAvailableError | UnknownTopicOrPartitionError
            )
            wrong = await admin.alter_replica_log_dirs({replica: str(tmp_path / "none")})
            assert isinstance(wrong[replica], LogDirNotFound)

            async def arrived() -> bool:
                [there] = (await admin.describe_replica_log_dirs([replica])).valid().values()
                return (there.current_dir, there.future_dir) == (target, None)

            await until(arrived)
            seen = await asked_by_kafka_python(cluster, "describe_log_dirs()")
            assert f"'{target}'" in seen
        assert (Path(target) / "moved-0").is_dir()


async def test_every_broker_describes_its_directories(
    admin3: AIOKafkaAdminClient, kafka3: OwnCluster
) -> None:
    topic = a_name()
    (await admin3.create_topics([NewTopic(topic, -1, -1, {0: [0, 2]})])).raise_for_errors()
    await admin3.wait_for_topics([topic])
    tp = TopicPartition(topic, 0)

    async def having_it() -> set[int]:
        described = (await admin3.describe_log_dirs(partitions=[tp])).raise_for_errors()
        assert set(described) == {0, 1, 2}
        return {
            node_id
            for node_id, directories in described.items()
            if any(tp in each.replicas for each in directories.values())
        }

    async def both() -> bool:  # a broker shows a topic before it has made its replica
        return await having_it() == {0, 2}

    await until(both)


async def test_a_partition_is_reassigned_and_a_reassignment_cancelled(
    admin3: AIOKafkaAdminClient, kafka3: OwnCluster
) -> None:
    topic = a_name()
    tp = TopicPartition(topic, 0)
    (await admin3.create_topics([NewTopic(topic, -1, -1, {0: [0]})])).raise_for_errors()
    (await admin3.alter_partition_reassignments({tp: [1]})).raise_for_errors()

    async def done() -> bool:
        under_way = await admin3.list_partition_reassignments([tp])
        return not under_way and await seen_by_librdkafka(kafka3, topic) == (1, [1])

    await until(done)
    guarded = await admin3.alter_partition_reassignments(
        {tp: [0, 1]}, allow_replication_factor_change=False
    )
    assert isinstance(guarded[tp], InvalidReplicationFactorError)
    idle = await admin3.alter_partition_reassignments({tp: None})
    assert isinstance(idle[tp], NoReassignmentInProgressError)

    kafka3.stop(2)
    try:
        none = TopicPartition(a_name(), 0)
        begun = await admin3.alter_partition_reassignments({tp: [1, 2], none: [1]})
        assert begun[tp] is None
        assert isinstance(begun[none], UnknownTopicOrPartitionError)
        under_way = (await admin3.list_partition_reassignments())[tp]
        assert under_way == PartitionReassignment((1, 2), (2,), ())
        assert topic in await asked_by_kafka_python(kafka3, "list_partition_reassignments()")
        (await admin3.alter_partition_reassignments({tp: None})).raise_for_errors()
        assert await admin3.list_partition_reassignments([tp]) == {}
        await until(done)
    finally:
        kafka3.start(2)


async def test_the_preferred_leader_is_elected(
    admin3: AIOKafkaAdminClient, kafka3: OwnCluster
) -> None:
    topic = a_name()
    tp, none = TopicPartition(topic, 0), TopicPartition(a_name(), 0)
    (await admin3.create_topics([NewTopic(topic, -1, -1, {0: [0, 1]})])).raise_for_errors()

    async def led_by_0() -> bool:
        return await seen_by_librdkafka(kafka3, topic) == (0, [0, 1])

    await until(led_by_0)
    (await admin3.alter_partition_reassignments({tp: [1, 0]})).raise_for_errors()

    async def reordered() -> bool:
        return (await seen_by_librdkafka(kafka3, topic))[1] == [1, 0]

    await until(reordered)
    elected = await admin3.elect_leaders(ElectionType.PREFERRED, [tp, none])
    assert elected[tp] is True
    assert isinstance(elected[none], UnknownTopicOrPartitionError)

    async def led_by_1() -> bool:
        return await seen_by_librdkafka(kafka3, topic) == (1, [1, 0])

    await until(led_by_1)
    for kind in ElectionType:
        assert (await admin3.elect_leaders(kind, [tp]))[tp] is False
    assert tp not in await admin3.elect_leaders(ElectionType.PREFERRED)


@pytest.mark.long
async def test_an_unclean_election_makes_a_replica_that_lost_records_the_leader(
    admin3: AIOKafkaAdminClient, kafka3: OwnCluster
) -> None:
    """Replica 1 misses a record; then the only replica that has it dies."""
    topic = a_name()
    tp, none = TopicPartition(topic, 0), TopicPartition(a_name(), 0)
    new = NewTopic(topic, -1, -1, {0: [0, 1]}, {"min.insync.replicas": "1"})
    (await admin3.create_topics([new])).raise_for_errors()
    await admin3.wait_for_topics([topic])
    assert (await admin3.elect_leaders(ElectionType.UNCLEAN, [tp]))[tp] is False  # it has one

    async def send(value: bytes) -> None:
        async with AIOKafkaProducer(bootstrap_servers=kafka3.bootstrap_servers) as producer:
            await producer.send_and_wait(topic, value)

    async def leader() -> int | None:
        return (await admin3.describe_topics([topic], typed=True)).value(topic).partitions[0].leader

    async def offline() -> bool:
        return await leader() is None

    async def led_by_1() -> bool:
        return (await seen_by_librdkafka(kafka3, topic))[0] == 1

    async def in_sync_again() -> bool:
        described = (await admin3.describe_topics([topic], typed=True)).value(topic)
        return set(described.partitions[0].isr) == {0, 1}

    down = []
    try:
        await send(b"kept")
        await until(in_sync_again)
        kafka3.stop(1)
        down.append(1)
        await send(b"lost")
        kafka3.kill(0)
        down.append(0)
        kafka3.start(1)
        down.remove(1)
        await until(offline)
        clean = await admin3.elect_leaders(ElectionType.PREFERRED, [tp])
        assert isinstance(clean[tp], PreferredLeaderNotAvailableError)
        everywhere = await admin3.elect_leaders(ElectionType.UNCLEAN, [tp, none])
        assert everywhere[tp] is True
        assert isinstance(everywhere[none], UnknownTopicOrPartitionError)
        await until(led_by_1)
        end = (await admin3.list_offsets({tp: OffsetSpec.LATEST})).value(tp)
        assert end.offset == 1
    finally:
        for node_id in down:
            kafka3.start(node_id)
    await until(in_sync_again)
