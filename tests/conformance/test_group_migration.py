"""Consumer groups with members of both protocols (KIP-848), and conversions in both directions."""

import asyncio

import pytest

from aiokafka_lite.protocol.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    TopicPartition as OwnedPartition,
)
from aiokafka_lite.protocol.messages.describe_groups import DescribeGroupsRequest
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.conformance.conftest import Compare
from tests.conformance.membership import Member, subscription
from tests.conformance.reporting import Reporter, describe, new_group
from tests.conformance.target import Target


def assignment(topic: str, *numbers: int, user_data: bytes | None = None) -> bytes:
    """An assignment by the leader of a group of consumers."""
    encoded = bytearray(b"\x00\x00")
    ConsumerProtocolAssignment([TopicPartition(topic, list(numbers))], user_data).encode(encoded, 0)
    return bytes(encoded)


def owning(topic: str, *numbers: int) -> bytes:
    """A consumer's metadata that names the partitions it owns."""
    encoded = bytearray(b"\x00\x01")
    owned = [OwnedPartition(topic, list(numbers))] if numbers else []
    ConsumerProtocolSubscription([topic], None, owned).encode(encoded, 1)
    return bytes(encoded)


async def settled(target: Target, group: str, topic: str, **fields: object) -> Member:
    """A classic group of one member that has all four partitions."""
    member = Member(target, group, "old", protocols=[("range", subscription(topic))])
    for name, value in fields.items():
        setattr(member, name, value)
    await member.join()
    await member.sync({member.member_id: assignment(topic, 0, 1, 2, 3)})
    return member


async def synced(member: Member) -> None:
    """SyncGroup, of which only sizes are recorded: the owners of partitions are random."""
    version = member.sync_version
    response = await member.target.quietly(member.sync_request(), version, member.name)
    member.target.note(
        f"{member.name} syncs",
        (response.error_code, response.protocol_name, len(response.assignment)),
    )


async def test_migration_in_both_directions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        old = await settled(target, group, topic)
        old.protocols = [("range", owning(topic, 0, 1, 2, 3))]
        new = Reporter(target, group, "new", topic)
        await new.join()
        await describe(target, group)
        await old.beat()
        await synced(old)
        await old.join()
        await describe(target, group)
        await synced(old)
        await old.beat()  # has to revoke two partitions: joins again
        old.protocols = [("range", owning(topic, 0, 1))]
        await old.join()
        await synced(old)
        await old.beat()
        await describe(target, group)
        await new.report()
        await new.acknowledge()
        await describe(target, group)
        await new.leave()
        await describe(target, group)
        await old.beat()
        await old.join()
        await old.sync({old.member_id: assignment(topic, 0, 1, 2, 3)})
        await old.beat()
        await old.leave()

    await compare(scenario)


async def test_classic_members_join_a_consumer_group(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        new = Reporter(target, group, "new", topic)
        await new.join()
        old = Member(target, group, "old", protocols=[("range", owning(topic))])
        other = Member(target, group, "other", protocols=[("sticky", owning(topic))])
        await old.join()
        await old.beat()
        await synced(old)
        await describe(target, group)
        await new.report()
        await new.acknowledge()
        await old.beat()
        await old.join()
        await synced(old)
        await old.beat()
        await describe(target, group)
        await target.ask(other.join_request(), 9, "other")  # no common assignor
        other.protocols, other.protocol_type = [("range", b"")], "connect"
        await target.ask(other.join_request(), 9, "other")
        old.generation += 1
        await old.beat()
        await synced(old)
        old.generation -= 1
        old.protocol_name = "sticky"
        await synced(old)
        old.protocol_name = "range"
        stranger = Member(target, group, "new", protocols=[("range", owning(topic))])
        stranger.member_id, stranger.generation = new.member_id, new.epoch
        await stranger.beat()
        await synced(stranger)
        stranger.member_id = "nobody"
        await stranger.beat()
        await synced(stranger)
        await stranger.leave()
        await old.leave()
        await describe(target, group)
        await old.beat()
        await old.leave()

    await compare(scenario)


async def test_member_changes_its_protocol(compare: Compare) -> None:
    """The same member id, first in the one protocol, then in the other."""

    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        old = await settled(target, group, topic)
        new = Reporter(target, group, "new", topic)
        new.member_id = old.member_id
        await new.join()
        await describe(target, group)
        await old.beat()
        await new.acknowledge()
        await new.leave()
        await describe(target, group)

    await compare(scenario)


async def test_static_members_migrate_in_both_directions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        old = await settled(target, group, topic, instance_id="i")
        new = Reporter(target, group, "new", topic, instance_id="i")
        await new.join()
        await describe(target, group)
        await old.beat()
        await new.acknowledge()
        await new.leave(-2)
        await describe(target, group)
        back = Member(target, group, "back", protocols=[("range", owning(topic))], instance_id="i")
        await back.join()
        await describe(target, group)
        await back.beat()
        await back.leave()

    await compare(scenario)


async def test_administrators_remove_members_of_both_protocols(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        a = Reporter(target, group, "a", topic, instance_id="i-a")
        b = Reporter(target, group, "b", topic)
        await a.join()
        await b.join()
        members = [
            MemberIdentity("", "i-a"),
            MemberIdentity("", "nobody"),
            MemberIdentity("nobody"),
            MemberIdentity(a.member_id, "other"),
        ]
        await target.ask(LeaveGroupRequest(group, members=members), 5)
        await describe(target, group)
        await target.ask(LeaveGroupRequest(group, members=[MemberIdentity(b.member_id)]), 5)
        await describe(target, group)

    await compare(scenario)


async def test_the_first_joins_while_a_classic_group_rebalances(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        old = await settled(target, group, topic)
        late = Member(target, group, "late", protocols=[("range", subscription(topic))])
        await late.begin_join()
        await late.waits_to_join()
        new = Reporter(target, group, "new", topic)
        await new.join()
        await late.joined()
        await old.beat()
        await describe(target, group)

    await compare(scenario)


@pytest.mark.parametrize(
    ("protocol_type", "metadata", "user_data"),
    [
        ("connect", b"anything", None),
        ("consumer", b"nonsense", None),
        ("consumer", None, b"of a custom assignor"),
        ("consumer", None, b""),
    ],
)
async def test_groups_that_cannot_migrate(
    compare: Compare, protocol_type: str, metadata: bytes | None, user_data: bytes | None
) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        told = subscription(topic) if metadata is None else metadata
        old = Member(target, group, "old", protocols=[("p", told)], protocol_type=protocol_type)
        await old.join()
        await old.sync({old.member_id: assignment(topic, 0, user_data=user_data)})
        new = Reporter(target, group, "new", topic)
        await new.join()
        await new.report(member_epoch=1)
        await new.leave()
        await old.beat()
        await describe(target, group)
        await old.leave()
        await new.join()  # an empty group is converted, whatever its type
        await describe(target, group)

    await compare(scenario)


async def test_an_emptied_consumer_group_becomes_classic(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        new = Reporter(target, group, "new", topic)
        await new.join()
        await new.leave()
        old = Member(target, group, "old", protocols=[("range", subscription(topic))])
        await old.join()
        await describe(target, group)
        await new.report()
        await asyncio.sleep(0)
        await old.leave()

    await compare(scenario)


@pytest.mark.parametrize("version", [0, 3, 5, 6])
async def test_older_classic_members(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        await Reporter(target, group, "new", topic).join()
        protocols = [("range", subscription(topic)), ("roundrobin", owning(topic))]
        old = Member(target, group, "old", protocols=protocols, version=version)
        await old.join()
        await synced(old)
        await old.beat()
        await old.join()
        await describe(target, group)
        await old.leave(0)
        await old.leave(2)
        await old.beat()
        old.member_id = "of its own"
        await old.join()
        await describe(target, group)

    await compare(scenario)


async def test_classic_static_members_in_a_consumer_group(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        new = Reporter(target, group, "new", topic)
        await new.join()
        old = Member(target, group, "old", protocols=[("range", owning(topic))], instance_id="i")
        await old.join()
        await synced(old)
        twin = Member(target, group, "twin", protocols=[("range", owning(topic))], instance_id="i")
        await twin.join()
        await old.beat()
        await synced(old)
        await old.join()
        await old.leave()
        await twin.beat()
        await synced(twin)
        await describe(target, group)
        stranger = Member(
            target, group, "stranger", protocols=[("range", owning(topic))], instance_id="j"
        )
        stranger.member_id = "unknown"
        await stranger.join()
        await stranger.beat()
        await synced(stranger)
        await twin.leave()
        await describe(target, group)

    await compare(scenario)


async def test_commits_of_classic_members(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        await Reporter(target, group, "new", topic).join()
        old = Member(target, group, "old", protocols=[("range", owning(topic))])
        await old.join()
        await synced(old)
        offsets = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 5)])]
        for version in (2, 8, 9):
            for generation in (old.generation, old.generation - 1, old.generation + 1, -1):
                for member_id in (old.member_id, "nobody", ""):
                    request = OffsetCommitRequest(group, generation, member_id, topics=offsets)
                    await target.ask(request, version)

    await compare(scenario)


async def test_leader_of_a_classic_group_migrates(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        first = await settled(target, group, topic)
        second = Member(target, group, "second", protocols=[("range", subscription(topic))])
        await second.begin_join()
        await first.beat_until()
        await first.join()
        await second.joined()
        second.begin_sync()
        await first.sync(
            {
                first.member_id: assignment(topic, 0, 1),
                second.member_id: assignment(topic, 2, 3),
            }
        )
        await second.synced()
        await first.leave()
        new = Reporter(target, group, "new", topic)
        await new.join()
        await describe(target, group)
        await second.beat()
        second.protocols = [("range", owning(topic, 2, 3))]
        await second.join()
        await synced(second)
        await new.acknowledge()
        await describe(target, group)

    await compare(scenario)


@pytest.mark.parametrize("topics_change", [False, True])
async def test_last_static_member_migrates_back(compare: Compare, topics_change: bool) -> None:
    """Under the same member id: a downgrade, with a rebalance only where one is due."""

    async def scenario(target: Target) -> None:
        topic, other = await target.topic(6), await target.topic(3)
        group = await new_group(target)
        new = Reporter(target, group, "new", topic, instance_id="i")
        await new.join()
        old = Member(target, group, "old", protocols=[("range", owning(topic))])
        await old.join()
        await synced(old)
        read = other if topics_change else topic
        back = Member(target, group, "back", protocols=[("range", owning(read))], instance_id="i")
        back.member_id = new.member_id
        await back.join()
        await describe(target, group)
        await target.ask(DescribeGroupsRequest([group]), 6)
        await back.beat()
        await old.beat()
        again = Reporter(target, group, "again", topic)
        await again.join()
        await describe(target, group)

    await compare(scenario)
