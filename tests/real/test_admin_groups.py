"""Groups and their offsets on a real Kafka; another client verifies what the admin client did."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource
from aiokafka_lite.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopicError,
    NonEmptyGroup,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from tests.real.visibility import group_has_configs
from tools.kafka import OwnCluster, RealKafka
from tools.kafka.java import run
from tools.kafka.releases import FALLBACK

confluent = pytest.importorskip("confluent_kafka")
confluent_admin = pytest.importorskip("confluent_kafka.admin")

PATIENCE = 60  # seconds
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


@pytest.fixture
async def admin3(kafka3: OwnCluster) -> AsyncIterator[AIOKafkaAdminClient]:
    async with AIOKafkaAdminClient(bootstrap_servers=kafka3.bootstrap_servers) as client:
        yield client


def a_name() -> str:
    return f"group-{uuid.uuid4().hex[:10]}"


def judge_of(kafka: RealKafka) -> Any:
    return confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


async def described_by(judge: Any, group: str) -> Any:
    return await asyncio.to_thread(
        lambda: judge.describe_consumer_groups([group])[group].result(PATIENCE)
    )


async def offsets_by(judge: Any, group: str) -> dict[TopicPartition, int]:
    asked = confluent.ConsumerGroupTopicPartitions(group)
    found = await asyncio.to_thread(
        lambda: judge.list_consumer_group_offsets([asked])[group].result(PATIENCE)
    )
    return {
        TopicPartition(each.topic, each.partition): each.offset for each in found.topic_partitions
    }


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_groups_are_described_as_librdkafka_describes_them(
    kafka3, admin3, topic3, protocol
) -> None:
    name, group, judge = topic3(partitions=6), a_name(), judge_of(kafka3)
    options = {"group_id": group, "group_protocol": protocol}
    async with (
        AIOKafkaConsumer(
            name, bootstrap_servers=kafka3.bootstrap_servers, client_id="one", **options
        ) as one,
        AIOKafkaConsumer(
            name, bootstrap_servers=kafka3.bootstrap_servers, client_id="two", **options
        ) as two,
    ):

        async def shared() -> bool:
            await asyncio.gather(one.getmany(timeout_ms=10), two.getmany(timeout_ms=10))
            return len(one.assignment()) == len(two.assignment()) == 3

        await until(shared)
        results = await admin3.describe_consumer_groups(
            [group, a_name()], typed=True, include_authorized_operations=True
        )
        ours = results.value(group)
        assert [type(error) for error in results.errors().values()] == [GroupIdNotFound]
        seen = await described_by(judge, group)
        assert (ours.type, ours.state) == (protocol, seen.state.name.capitalize())
        assert ours.coordinator_id == seen.coordinator.id == await admin3.find_coordinator(group)
        assert ours.assignor == seen.partition_assignor
        assert {each.member_id: (each.client_id, each.host) for each in ours.members} == {
            each.member_id: (each.client_id, each.host) for each in seen.members
        }
        assert {each.member_id: each.assignment for each in ours.members} == {
            each.member_id: {
                TopicPartition(tp.topic, tp.partition) for tp in each.assignment.topic_partitions
            }
            for each in seen.members
        }
        assert ours.authorized_operations
        if protocol == "classic":
            [response] = await admin3.describe_consumer_groups([group])
            assert {member[0] for member in response.groups[0].members} == {
                each.member_id for each in seen.members
            }
            [classic] = (await admin3.describe_classic_groups([group])).valid().values()
            assert (classic.protocol_type, classic.protocol) == ("consumer", ours.assignor)
        else:
            assert {each.upgraded for each in ours.members} == {True}
            assert {each.member_epoch for each in ours.members} == {ours.group_epoch}
            none = await admin3.describe_classic_groups([group])
            assert isinstance(none[group], GroupIdNotFound)
        busy = await admin3.delete_consumer_groups([group])
        assert isinstance(busy[group], NonEmptyGroup)
        refused = await admin3.alter_consumer_group_offsets(group, {TopicPartition(name, 0): 1})
        with pytest.raises(UnknownMemberIdError, match="active members"):
            refused.raise_for_errors()


async def test_offsets_are_changed_as_librdkafka_sees(kafka3, admin3, topic3) -> None:
    name, judge = topic3(partitions=3), judge_of(kafka3)
    one, two, three = (TopicPartition(name, number) for number in range(3))
    missing = TopicPartition(a_name(), 0)
    groups = [a_name() for _ in range(6)]
    for number, group in enumerate(groups):
        results = await admin3.alter_consumer_group_offsets(
            group, {one: number, two: OffsetAndMetadata(7, "note", 0), missing: 1}
        )
        assert results.valid() == {one: None, two: None}
        assert isinstance(results[missing], UnknownTopicOrPartitionError)
        assert await offsets_by(judge, group) == {one: number, two: 7}
    listed = await admin3.list_consumer_groups_offsets({**dict.fromkeys(groups), "none": [one]})
    for number, group in enumerate(groups):
        assert listed.value(group).valid() == {
            one: OffsetAndMetadata(number, ""),
            two: OffsetAndMetadata(7, "note", 0),
        }
    assert listed.value("none").valid() == {one: None}
    assert await admin3.list_consumer_group_offsets(groups[2], None, [three, one]) == {
        three: OffsetAndMetadata(-1, ""),
        one: OffsetAndMetadata(2, ""),
    }
    deleted = await admin3.delete_consumer_group_offsets(groups[0], [one, missing])
    assert deleted[one] is None
    assert isinstance(deleted[missing], UnknownTopicOrPartitionError)
    assert await offsets_by(judge, groups[0]) == {two: 7}
    with pytest.raises(GroupIdNotFound):
        await admin3.delete_consumer_group_offsets(a_name(), [one])
    gone = await admin3.delete_consumer_groups([*groups, "none"])
    assert list(gone.valid()) == groups
    assert isinstance(gone["none"], GroupIdNotFound)
    left = await asyncio.to_thread(lambda: judge.list_consumer_groups().result(PATIENCE))
    assert not set(groups) & {each.group_id for each in left.valid}


async def test_offsets_of_subscribed_topics_stay(kafka3, admin3, topic3) -> None:
    name, group = topic3(partitions=1), a_name()
    tp = TopicPartition(name, 0)
    async with AIOKafkaConsumer(
        name, bootstrap_servers=kafka3.bootstrap_servers, group_id=group
    ) as consumer:
        await consumer.commit({tp: 0})
        results = await admin3.delete_consumer_group_offsets(group, [tp])
        assert isinstance(results[tp], GroupSubscribedToTopicError)
    assert await offsets_by(judge_of(kafka3), group) == {tp: 0}


async def test_members_are_removed(kafka3, admin3, topic3) -> None:
    name, group, judge = topic3(partitions=2), a_name(), judge_of(kafka3)
    members = [
        AIOKafkaConsumer(
            name,
            bootstrap_servers=kafka3.bootstrap_servers,
            group_id=group,
            group_instance_id=instance,
            session_timeout_ms=30_000,
        )
        for instance in ("one", "two")
    ]
    try:
        await asyncio.gather(*(each.start() for each in members))

        async def stable() -> bool:
            await asyncio.gather(*(each.getmany(timeout_ms=10) for each in members))
            return [len(each.assignment()) for each in members] == [1, 1]

        await until(stable)
    finally:
        await asyncio.gather(*(each.stop() for each in members))
    # Static members stay until their session times out.
    assert len((await described_by(judge, group)).members) == 2
    results = await admin3.remove_members_from_consumer_group(group, ["one", "none"], reason="test")
    assert results["one"] is None
    assert isinstance(results["none"], UnknownMemberIdError)
    [left] = (await described_by(judge, group)).members
    assert left.group_instance_id == "two"
    assert dict(await admin3.remove_members_from_consumer_group(group)) == {"two": None}
    assert (await described_by(judge, group)).members == []
    assert dict(await admin3.remove_members_from_consumer_group(group)) == {}


@pytest.mark.long
async def test_share_groups_are_administered(kafka3, admin3, topic3) -> None:
    name, group, servers = topic3(partitions=2), a_name(), kafka3.bootstrap_servers
    one, two = (TopicPartition(name, number) for number in range(2))
    resource = ConfigResource("group", group)
    changes = {resource: {"share.auto.offset.reset": "earliest"}}
    (await admin3.incremental_alter_configs(changes)).raise_for_errors()
    await group_has_configs(servers, group, changes[resource])
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(9):
            await producer.send_and_wait(name, b"%d" % number, partition=number % 2)

    words = ["--bootstrap-server", servers, "--topic", name, "--group", group]
    words += ["--timeout-ms", "60000", "--max-messages", "10"]
    reading = asyncio.create_task(
        asyncio.to_thread(run, SHARE_CONSUMER, words, FALLBACK, timeout=120)
    )

    async def assigned() -> bool:
        found = (await admin3.describe_share_groups([group])).valid().get(group)
        return found is not None and any(each.assignment for each in found.members)

    await until(assigned)
    found = (await admin3.describe_share_groups([group], include_authorized_operations=True)).value(
        group
    )
    [member] = found.members
    assert (found.state, member.subscribed_topics) == ("Stable", {name})
    assert member.assignment == {one, two}
    assert found.coordinator_id == await admin3.find_coordinator(group)
    assert found.authorized_operations
    busy = await admin3.delete_share_groups([group])
    assert isinstance(busy[group], NonEmptyGroup)
    with pytest.raises(NonEmptyGroup):
        await admin3.alter_share_group_offsets(group, {one: 0})
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(name, b"9", partition=1)
    assert sorted(await reading) == [str(number) for number in range(10)]

    async def empty() -> bool:
        return not (await admin3.describe_share_groups([group])).value(group).members

    await until(empty)

    async def offsets() -> dict[TopicPartition, int | None]:
        listed = (await admin3.list_share_group_offsets([group])).value(group)
        return {
            tp: None if each is None else each.start_offset
            for tp, each in listed.raise_for_errors().items()
        }

    async def java_offsets() -> dict[TopicPartition, int]:
        arguments = ["--bootstrap-server", servers, "--describe", "--group", group, "--offsets"]
        lines = await asyncio.to_thread(run, SHARE_GROUPS, arguments, FALLBACK)
        rows = [line.split() for line in lines if name in line]
        return {TopicPartition(row[1], int(row[2])): int(row[3]) for row in rows}

    assert await offsets() == await java_offsets()
    missing = TopicPartition(a_name(), 0)
    results = await admin3.alter_share_group_offsets(group, {one: 2, two: 4, missing: 1})
    assert results.valid() == {one: None, two: None}
    assert isinstance(results[missing], UnknownTopicOrPartitionError)
    assert await offsets() == await java_offsets() == {one: 2, two: 4}
    dropped = await admin3.delete_share_group_offsets(group, [name, missing.topic])
    assert dropped[name] is None
    assert isinstance(dropped[missing.topic], UnknownTopicOrPartitionError)
    assert await java_offsets() == {}
    gone = await admin3.delete_share_groups([group, "none"])
    assert gone[group] is None
    assert isinstance(gone["none"], GroupIdNotFound)
    described = await admin3.describe_share_groups([group])
    assert isinstance(described[group], GroupIdNotFound)


async def test_streams_groups_are_administered(kafka3, admin3, topic3) -> None:
    name, group, servers = topic3(partitions=2), a_name(), kafka3.bootstrap_servers
    topology = Topology(1, [Subtopology("0", [name])])
    async with AIOKafkaClient(bootstrap_servers=servers, client_id="app") as client:
        node = await admin3.find_coordinator(group)
        member = f"member-{uuid.uuid4()}"

        async def beat(epoch: int, **more: Any) -> Any:
            return await client.send(
                node,
                StreamsGroupHeartbeatRequest(
                    group, member, epoch, active_tasks=[], standby_tasks=[], warmup_tasks=[], **more
                ),
            )

        async def joined() -> bool:
            response = await beat(
                0, rebalance_timeout_ms=60_000, topology=topology, process_id="process"
            )
            return not response.error_code

        await until(joined)
        found = (
            await admin3.describe_streams_groups([group], include_authorized_operations=True)
        ).value(group)
        assert found.coordinator_id == node
        assert found.authorized_operations
        assert found.topology is not None
        assert found.topology.epoch == 1
        [part] = found.topology.subtopologies or ()
        assert (part.subtopology_id, part.source_topics) == ("0", (name,))
        [described] = found.members
        assert (described.member_id, described.process_id) == (member, "process")
        assert described.client_id == "app"
        busy = await admin3.delete_streams_groups([group])
        assert isinstance(busy[group], NonEmptyGroup)
        await beat(-1)

    tp = TopicPartition(name, 1)
    (await admin3.alter_streams_group_offsets(group, {tp: 3})).raise_for_errors()
    assert await offsets_by(judge_of(kafka3), group) == {tp: 3}
    listed = await admin3.list_streams_group_offsets([group])
    assert listed.value(group).valid() == {tp: OffsetAndMetadata(3, "")}
    (await admin3.delete_streams_group_offsets(group, [tp])).raise_for_errors()
    assert dict((await admin3.list_streams_group_offsets([group])).value(group)) == {}
    (await admin3.delete_streams_groups([group])).raise_for_errors()
    gone = await admin3.describe_streams_groups([group])
    assert isinstance(gone[group], GroupIdNotFound)
