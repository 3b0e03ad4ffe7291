"""The share consumer on three real brokers: a broker dies, a leader moves, a Java member joins."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from aiokafka_lite import (
    AIOKafkaAdminClient,
    AIOKafkaProducer,
    AIOKafkaShareConsumer,
    TopicPartition,
)
from aiokafka_lite.admin import ConfigResource
from aiokafka_lite.errors import KafkaError
from tests.real.visibility import group_has_configs
from tools.kafka import KafkaCluster
from tools.kafka.java import run
from tools.kafka.releases import FALLBACK

pytestmark = pytest.mark.timeout(600)

PATIENCE = 180.0
JAVA_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"


async def new_group(cluster, **config: str) -> str:
    group = f"share-{uuid.uuid4().hex[:10]}"
    changes = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "15000"}
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        outcome = await admin.incremental_alter_configs({ConfigResource("group", group): changes})
        outcome.raise_for_errors()
    await group_has_configs(cluster.bootstrap_servers, group, changes)
    return group


async def produce(cluster, topic: str, values: range, partitions: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        acks = [
            await producer.send(topic, b"%d" % value, partition=value % partitions)
            for value in values
        ]
        await asyncio.gather(*acks)


def consumer_of(cluster, topic: str, group: str, **options: object) -> AIOKafkaShareConsumer:
    return AIOKafkaShareConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, group_id=group, **options
    )


async def leader_of(cluster, tp: TopicPartition) -> int:
    async with AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        [topic] = await admin.describe_topics([tp.topic])
        return topic["partitions"][tp.partition]["leader"]


async def has_replica(admin: AIOKafkaAdminClient, node_id: int, tp: TopicPartition) -> bool:
    """True while a broker has a replica.

    It is notified of the replica's removal later than the other brokers. Until then, if it is the
    leader, it accepts acknowledgements.
    """
    directories = (await admin.describe_log_dirs([node_id], partitions=[tp]))[node_id]
    return any(tp in directory.replicas for directory in directories.values())


async def accept_until(consumer: AIOKafkaShareConsumer, wanted: set[int]) -> dict[int, int]:
    """Read and accept until all wanted values are accepted for certain; return how many
    acknowledgements of each were confirmed."""
    accepted: dict[int, int] = {}
    async with asyncio.timeout(PATIENCE):
        while not wanted <= accepted.keys():
            batch = await consumer.getmany(timeout_ms=1000, max_records=20)
            marks = [(int(record.value), record.accept()) for record in batch]
            for value, mark in marks:
                try:
                    await mark
                except KafkaError:
                    continue  # it is redelivered
                accepted[value] = accepted.get(value, 0) + 1
    return accepted


async def test_records_of_all_leaders_are_accepted(kafka3, topic3) -> None:
    name, group = topic3(partitions=6), await new_group(kafka3)
    await produce(kafka3, name, range(600), 6)
    async with consumer_of(kafka3, name, group) as consumer:
        accepted = await accept_until(consumer, set(range(600)))
    assert set(accepted.values()) == {1}


async def test_a_killed_leader_loses_no_record(kafka3, topic3) -> None:
    name, group = topic3(partitions=3), await new_group(kafka3)
    await produce(kafka3, name, range(300), 3)
    victim = await leader_of(kafka3, TopicPartition(name, 0))
    async with consumer_of(kafka3, name, group) as consumer:
        accepted = await accept_until(consumer, {0})
        await asyncio.to_thread(kafka3.kill, victim)
        try:
            rest = set(range(300)) - accepted.keys()
            await accept_until(consumer, rest)
        finally:
            await asyncio.to_thread(kafka3.start, victim)


async def test_held_records_of_a_moved_leader_come_again(kafka3, topic3) -> None:
    name, group = topic3(partitions=1), await new_group(kafka3)
    await produce(kafka3, name, range(10), 1)
    tp = TopicPartition(name, 0)
    old = await leader_of(kafka3, tp)
    new = next(node for node in kafka3.node_ids if node != old)
    async with consumer_of(kafka3, name, group) as consumer, asyncio.timeout(PATIENCE):
        held = await consumer.getone()
        async with AIOKafkaAdminClient(bootstrap_servers=kafka3.bootstrap_servers) as admin:
            (await admin.alter_partition_reassignments({tp: [new]})).raise_for_errors()
            while await leader_of(kafka3, tp) != new or await has_replica(admin, old, tp):
                await asyncio.sleep(0.2)
        with pytest.raises(KafkaError):
            await held.accept()
        accepted = await accept_until(consumer, set(range(10)))
    assert accepted[0] >= 1


async def test_java_and_this_client_take_over_from_each_other(kafka3, topic3) -> None:
    name, group = topic3(partitions=3), await new_group(kafka3)
    await produce(kafka3, name, range(100), 3)
    async with consumer_of(kafka3, name, group) as consumer:
        mine = set(await accept_until(consumer, {0}))
        for record in await consumer.getmany(timeout_ms=5000):
            assert int(record.value) not in mine  # held, and released by stop
    arguments = ["--bootstrap-server", kafka3.bootstrap_servers, "--topic", name]
    arguments += ["--group", group, "--timeout-ms", "30000", "--max-messages", str(100 - len(mine))]
    lines = await asyncio.to_thread(run, JAVA_CONSUMER, arguments, FALLBACK, timeout=180)
    theirs = {int(line) for line in lines if line.isdigit()}
    assert mine | theirs == set(range(100))
    assert not mine & theirs
    await produce(kafka3, name, range(100, 200), 3)
    async with consumer_of(kafka3, name, group) as consumer:
        accepted = await accept_until(consumer, set(range(100, 200)))
    assert set(accepted) == set(range(100, 200))


async def test_java_and_this_client_share_a_topic(kafka3, topic3) -> None:
    name, group = topic3(partitions=3), await new_group(kafka3)
    arguments = ["--bootstrap-server", kafka3.bootstrap_servers, "--topic", name]
    arguments += ["--group", group, "--timeout-ms", "60000", "--max-messages", "50"]
    java = asyncio.create_task(
        asyncio.to_thread(run, JAVA_CONSUMER, arguments, FALLBACK, timeout=300)
    )
    mine: set[int] = set()
    written = 0
    async with consumer_of(kafka3, name, group) as consumer, asyncio.timeout(PATIENCE):
        while not (java.done() and mine):
            await produce(kafka3, name, range(written, written + 50), 3)
            written += 50
            for _ in range(3):
                batch = await consumer.getmany(timeout_ms=500, max_records=20)
                mine |= {int(record.value) for record in batch}
                await batch.accept()
        theirs = {int(line) for line in await java if line.isdigit()}
        while len(mine | theirs) < written:
            batch = await consumer.getmany(timeout_ms=500)
            mine |= {int(record.value) for record in batch}
            await batch.accept()
    assert len(theirs) == 50
    assert mine | theirs == set(range(written))


@pytest.mark.long
async def test_a_partition_that_a_restarted_broker_blocks_continues_with_more_locks() -> None:
    """Kafka 4.3.1 and 4.4.0 deliver nothing after record 0 until the limit grows; see
    docs/share-groups.md."""
    locks, count, group, topic = 120, 400, "blocked", "jobs"
    with KafkaCluster(nodes=1) as kafka:
        servers = kafka.bootstrap_servers
        kafka.create_topic(topic, 1)

        async def allow(most: int) -> None:
            settings = {
                "share.auto.offset.reset": "earliest",
                "share.partition.max.record.locks": str(most),
            }
            async with AIOKafkaAdminClient(bootstrap_servers=servers) as admin:
                resource = ConfigResource("group", group)
                (await admin.incremental_alter_configs({resource: settings})).raise_for_errors()

        await allow(locks)
        for first in range(0, count, 50):  # a batch each: whole batches exceed the limit
            await produce(kafka, topic, range(first, first + 50), 1)
        async with (
            consumer_of(kafka, topic, group, acquire_mode="batch_optimized") as consumer,
            asyncio.timeout(PATIENCE),
        ):
            held = None
            seen: set[int] = set()
            while len(seen) <= locks:
                for record in await consumer.getmany(timeout_ms=1000):
                    seen.add(record.offset)
                    if record.offset == 0:
                        held = record
                    else:
                        record.accept()
                await consumer.flush()
            assert held is not None
            (node,) = kafka.node_ids
            await asyncio.to_thread(kafka.kill, node)
            await asyncio.to_thread(kafka.start, node)
            await asyncio.to_thread(kafka.wait_ready)
            again = await accept_until(consumer, {0})
            await allow(2 * locks)
            again |= await accept_until(consumer, set(range(count)) - seen - again.keys())
            assert again == dict.fromkeys({0, *range(max(seen) + 1, count)}, 1)
