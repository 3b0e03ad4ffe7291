"""A real broker that dies in the middle of a call about many items fails its own items at most."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource, NewTopic, OffsetSpec
from aiokafka_lite.errors import GroupIdNotFound, KafkaError
from aiokafka_lite.structs import TopicPartition
from tools.kafka import OwnCluster

DYING = 1


@pytest.fixture
async def admin3(kafka3: OwnCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka3.bootstrap_servers) as client:
        yield client


async def test_items_of_a_dying_broker_fail_or_move_and_the_others_succeed(
    kafka3: OwnCluster, admin3: AIOKafkaAdminClient
) -> None:
    topic = f"solo-{uuid.uuid4().hex[:8]}"
    partitions = [TopicPartition(topic, number) for number in range(6)]
    replicas = {number: [number % 3] for number in range(6)}
    await admin3.create_topics([NewTopic(topic, -1, -1, replicas)], raise_errors=True)
    await admin3.wait_for_topics({topic: 6})
    coordinators: dict[str, int] = {}
    while len(coordinators) < 12 or DYING not in coordinators.values():
        group = f"{topic}-{len(coordinators)}"
        await admin3.alter_consumer_group_offsets(group, {partitions[0]: 7})
        coordinators[group] = await admin3.find_coordinator(group)
    groups = list(coordinators)
    brokers = {ConfigResource("broker", str(number)): number for number in range(3)}

    kafka3.pause(DYING)  # it takes the requests, and never answers
    dead = False
    try:
        offsets = asyncio.create_task(
            admin3.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), timeout_ms=20_000)
        )
        configs = asyncio.create_task(
            admin3.describe_configs(brokers, typed=True, timeout_ms=20_000)
        )
        described = asyncio.create_task(admin3.describe_consumer_groups(groups, typed=True))
        committed = asyncio.create_task(admin3.list_consumer_groups_offsets(groups))
        await asyncio.sleep(0)
        done, _ = await asyncio.wait([offsets, configs, described, committed], timeout=1)
        assert not done
        kafka3.kill(DYING)
        dead = True

        async with asyncio.timeout(120):
            of_partitions = await offsets
            assert set(of_partitions) == set(partitions)
            failed = {tp for tp, each in of_partitions.items() if isinstance(each, KafkaError)}
            assert failed == {tp for tp in partitions if tp.partition % 3 == DYING}
            of_brokers = await configs
            assert set(of_brokers) == set(brokers)
            silent = {
                brokers[resource]
                for resource, each in of_brokers.items()
                if isinstance(each, KafkaError)
            }
            assert silent == {DYING}
            # Coordinators have replicas, so that another broker takes over.
            states = await described
            while any(isinstance(each, GroupIdNotFound) for each in states.values()):
                # It shows the last change of its predecessor once the replicas confirm it.
                await asyncio.sleep(0.1)
                states = await admin3.describe_consumer_groups(groups, typed=True)
            states = states.raise_for_errors()
            assert {each.state for each in states.values()} == {"Empty"}
            assert not any(each.coordinator_id == DYING for each in states.values())
            (await committed).raise_for_errors()
            offsets = await admin3.list_consumer_groups_offsets(groups)
            for found in offsets.raise_for_errors().values():
                assert found.value(partitions[0]).offset == 7
    finally:
        if not dead:
            kafka3.resume(DYING)
        else:
            kafka3.start(DYING)
