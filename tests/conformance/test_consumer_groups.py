"""Groups of the consumer protocol (KIP-848): one and several members, and errors.

Not compared: when a coordinator detects that topics were created, were deleted or have grown. Kafka
detects it a little later; the embedded broker at the next heartbeat. The scenarios wait for it.

Also not compared are two defects of Kafka 4.4 on which no client relies. If a member joins without
a subscription while an assignment is due, Kafka assigns as if all members had the same
subscription. A member that changes from dynamic to static under the same id must revoke all
partitions.
"""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lite.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from aiokafka_lite.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lite.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.conformance.conftest import Compare
from tests.conformance.reporting import (
    Reporter,
    describe,
    describe_until,
    new_group,
    partitions,
)
from tests.conformance.target import Target

NOBODY = UUID(int=7)


@pytest.mark.parametrize("version", [0, 1])
async def test_one_member(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        topic, other = await target.topic(4), await target.topic(1)
        group = await new_group(target)
        member = Reporter(target, group, "a", topic, version=version)
        await describe(target, group)
        await member.join()
        await describe(target, group)
        await member.report()
        await member.acknowledge()
        await member.report(**{**member.first, "topic_partitions": member.owned})  # everything
        await member.join()  # as after a failure
        await member.report(subscribed_topic_names=[topic, other])
        await describe(target, group)
        await member.report(subscribed_topic_names=[topic, other])
        await member.report(subscribed_topic_names=[other])
        await describe(target, group)
        await member.acknowledge()
        await member.report(subscribed_topic_names=[])
        await member.acknowledge()
        await describe(target, group)
        await member.report(rack_id="r1", subscribed_topic_names=[topic])
        await describe(target, group)
        await member.leave()
        await describe(target, group)
        await member.leave()
        await member.report()
        member.epoch = 0
        await member.join()
        await describe(target, group)

    await compare(scenario)


async def test_an_empty_subscription(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target)
        member = Reporter(target, group, "a")
        await member.join(subscribed_topic_names=[])
        await describe(target, group)
        await member.report()
        await member.report(subscribed_topic_names=[target.unique("nothing")])
        await describe(target, group)
        await member.leave()
        await describe(target, group)

    await compare(scenario)


async def test_two_and_three_members(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(6)
        group = await new_group(target)
        a, b, c = (Reporter(target, group, name, topic) for name in "abc")
        await a.join()
        await b.join()
        await describe(target, group)
        await b.report()
        await a.report()  # the response lists the partitions to revoke
        await describe(target, group)
        await a.report()
        await b.report()
        kept, told = a.owned, a.counts
        target.note("a has", told)
        await a.report(topic_partitions=[partitions(kept[0].topic_id, *range(6))])  # not yet
        await b.report()
        await a.report(topic_partitions=kept)
        await describe(target, group)
        await b.report()
        await b.acknowledge()
        await describe(target, group)
        await c.join()
        await a.report()
        await b.report()
        await describe(target, group)
        await a.acknowledge()
        await c.acknowledge()
        await describe(target, group)
        await b.acknowledge()
        await c.acknowledge()
        await a.acknowledge()
        await describe(target, group)
        await b.leave()
        await describe(target, group)
        await a.report()
        await c.report()
        await describe(target, group)
        await a.leave()
        await c.leave()
        await describe(target, group)

    await compare(scenario)


INTERVAL_MS = 6_000
"""Between two assignments of a group: longer than a process may pause between two steps."""


async def test_assignment_includes_members_that_join_within_its_interval(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(6)
        group = await new_group(target, interval_ms=INTERVAL_MS)
        a, b, c = (Reporter(target, group, name, topic) for name in "abc")
        await a.join()
        await b.join()
        await c.join()
        await describe(target, group)
        await a.report()
        await b.report()
        await asyncio.sleep(INTERVAL_MS / 1000 + 0.1)
        await b.report()
        await describe(target, group)
        await a.report()
        await a.acknowledge()
        await b.report()
        await c.report()
        await describe(target, group)
        await a.leave()
        await b.report()
        await b.leave()
        await c.leave()
        await a.join(member_epoch=0)  # an empty group need not wait
        await describe(target, group)

    await compare(scenario)


async def test_group_with_its_own_heartbeat_interval(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target, consumer_heartbeat_interval_ms=6000)
        member = Reporter(target, group, "a", topic)
        await member.join()
        await member.report()
        await member.leave()

    await compare(scenario)


async def test_fenced_members(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        a, b = (Reporter(target, group, name, topic) for name in "ab")
        await a.join()
        await b.join()
        for epoch in (1, 3, 99):
            await a.report(member_epoch=epoch)
        await a.report(member_epoch=2)  # the response requires to revoke two
        kept = a.owned
        await a.acknowledge()  # and comes to epoch 3
        await a.report(member_epoch=2)  # as if the response had been lost
        await a.report(member_epoch=2, topic_partitions=[])
        a.epoch = 2
        await a.report(member_epoch=2, topic_partitions=kept)
        await a.report(member_epoch=2, topic_partitions=[partitions(NOBODY, 0)])
        whole = [partitions(kept[0].topic_id, 0, 1, 2, 3)]
        await a.report(member_epoch=2, topic_partitions=whole)
        await a.report(member_epoch=1, topic_partitions=kept)
        nobody = Reporter(target, group, "nobody", topic)
        await nobody.report(member_epoch=3)
        await nobody.leave()
        await nobody.leave(-2)
        elsewhere = Reporter(target, target.unique("nowhere"), "a", topic)
        await elsewhere.report(member_epoch=3)
        await elsewhere.leave()
        await a.join()
        await describe(target, group)

    await compare(scenario)


GOOD: dict[str, Any] = {
    "group_id": "group",
    "member_id": "member",
    "member_epoch": 0,
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": [],
    "topic_partitions": [],
}


@pytest.mark.parametrize("version", [0, 1])
async def test_invalid_owned_partitions(compare: Compare, version: int) -> None:
    async def scenario(target: Target) -> None:
        group = await new_group(target, interval_ms=None)
        member = Reporter(target, group, "a", version=version)
        wrong: list[dict[str, Any]] = [
            {"member_id": ""},
            {"member_id": "  "},
            {"group_id": ""},
            {"group_id": " "},
            {"instance_id": ""},
            {"rack_id": ""},
            {"rebalance_timeout_ms": -1},
            {"topic_partitions": None},
            {"topic_partitions": [partitions(NOBODY, 0)]},
            {"subscribed_topic_names": None},
            {"server_assignor": ""},
            {"server_assignor": "sticky"},
            {"member_epoch": 1, "member_id": ""},
            {"member_epoch": -1, "member_id": ""},
            {"member_epoch": -2},
            {"member_epoch": -2, "member_id": "", "instance_id": "i"},
            {"member_epoch": -3},
            {"member_epoch": 5, "server_assignor": "none"},
        ]
        for fields in wrong:
            await member.report(**{**GOOD, "group_id": group, **fields})
            member.member_id, member.epoch = "", 0
        await describe(target, group)

    await compare(scenario)


async def test_static_members(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        a, b = (Reporter(target, group, name, topic, instance_id=f"i-{name}") for name in "ab")
        await a.join()
        await b.join()
        await a.report()
        await a.acknowledge()
        await b.acknowledge()
        await describe(target, group)
        twin = Reporter(target, group, "twin", topic, instance_id="i-a")
        await twin.join()  # the first is still there
        await twin.report(member_epoch=3)
        await twin.leave()
        await twin.leave(-2)
        await a.join()
        await a.leave(-2)
        await describe(target, group)
        await a.report(member_epoch=3)
        await twin.join()
        await describe(target, group)
        await a.report(member_epoch=3)
        await a.join()
        await twin.acknowledge()
        await twin.leave(-2)
        twin.epoch = 0
        await twin.join()  # under the same id
        await twin.leave(-2)
        other = Reporter(target, group, "other", topic, instance_id="i-c")
        await other.leave(-2)
        await other.leave()
        dynamic = Reporter(target, group, "dynamic", topic)
        dynamic.member_id = twin.member_id
        await dynamic.leave()
        await describe(target, group)
        await b.leave()
        await describe(target, group)

    await compare(scenario)


async def test_static_member_returns_with_another_subscription(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, other = await target.topic(4), await target.topic(2)
        group = await new_group(target)
        a = Reporter(target, group, "a", topic, instance_id="i")
        await a.join()
        await a.leave(-2)
        again = Reporter(target, group, "again", other, instance_id="i")
        await again.join()
        await again.acknowledge()
        await describe(target, group)

    await compare(scenario)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
async def test_different_subscriptions(compare: Compare, assignor: str) -> None:
    async def scenario(target: Target) -> None:
        first, second, third = [await target.topic(count) for count in (6, 4, 2)]
        group = await new_group(target)
        a = Reporter(target, group, "a", first, second, third, server_assignor=assignor)
        b = Reporter(target, group, "b", second, server_assignor=assignor)
        c = Reporter(target, group, "c", second, third, server_assignor=assignor)
        members = (a, b, c)
        for member in members:
            await member.join()
        for _ in range(3):
            for member in members:
                await member.quietly()
        await describe(target, group, by_topic=assignor == "range")
        target.note("sizes", sorted(sum(member.counts) for member in members))

    await compare(scenario)


async def test_range(compare: Compare) -> None:
    """Ranges are assigned by member id, so the assignment is deterministic."""

    async def scenario(target: Target) -> None:
        topics = [await target.topic(count) for count in (7, 7, 2)]
        group = await new_group(target)
        members = [
            Reporter(target, group, name, *topics, server_assignor="range") for name in "cab"
        ]
        members.append(
            Reporter(target, group, "z", *topics, server_assignor="range", instance_id="first")
        )
        for member in members:
            await member.join()
        for _ in range(3):
            for member in members:
                await member.quietly()
        described = await describe(target, group)
        for one in sorted(described.members, key=lambda one: one.client_id):
            owned = {t.topic_name: sorted(t.partitions) for t in one.assignment.topic_partitions}
            target.note(one.client_id, tuple((name, tuple(owned.get(name, ()))) for name in topics))

    await compare(scenario)


async def test_members_vote_for_the_assignor(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        a, b, c = (Reporter(target, group, name, topic) for name in "abc")
        await a.join(server_assignor="range")
        await describe(target, group)
        await b.join(server_assignor="range")
        await c.join(server_assignor="uniform")
        await describe(target, group)
        await a.report(server_assignor="uniform")
        await describe(target, group)
        await b.leave()
        await c.leave()
        await describe(target, group)

    await compare(scenario)


async def test_new_topics_and_partitions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, later = await target.topic(2), target.unique("later")
        group = await new_group(target)
        member = Reporter(target, group, "a", topic, later)
        await member.join()
        await describe(target, group)
        create = CreateTopicsRequest([CreatableTopic(later, 2, 1)], 30_000)
        assert not (await target.quietly(create, 7)).topics[0].error_code
        await member.report_until(4)
        await describe(target, group)
        grow = CreatePartitionsRequest([CreatePartitionsTopic(topic, 5, None)], 30_000)
        assert not (await target.quietly(grow, 3)).results[0].error_code
        await member.report_until(7)
        await describe(target, group)

    await compare(scenario)


async def test_regular_expressions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic, other = await target.topic(2), await target.topic(4)
        group = await new_group(target)
        pattern = f"{topic}|{other}"
        fields = {"subscribed_topic_regex": pattern, "server_assignor": "range"}
        a, b = (Reporter(target, group, name, **fields) for name in "ab")
        await a.join()
        await describe_until(target, group, "Assigning", 3)
        await a.report()
        await describe(target, group)
        await b.join()
        await a.report()
        await a.acknowledge()
        await b.acknowledge()
        await describe(target, group)
        await b.report(subscribed_topic_regex="", subscribed_topic_names=[other])
        await b.acknowledge()
        await a.acknowledge()
        await b.acknowledge()
        await describe(target, group)
        await a.report(subscribed_topic_regex="", subscribed_topic_names=[])
        await a.acknowledge()
        await describe(target, group)

    await compare(scenario)


EXPRESSIONS = [
    *("", "a", ".*", "(", ")", "a|b", "[a-z]+", "[", "[z-a]", "a{2}", "a{2,1}", "a{1001}", "a{"),
    *("x**", "a++", "a+?", "a*??", "a{2}{3}", "a?", "??", "*", "+a", "a|*", "(|a)", "()"),
    *(r"\Q(\E", r"\d\w\s\D\W\S", r"\bx\B", r"\z", r"\Z", r"\A", r"\C", r"\1", r"\y", "\\"),
    *(r"\pL", r"\p{Lu}", r"\PN", r"\p{Nope}", r"\x41", r"\x{41}", r"\.", r"\-", r"\_", r"\n\t"),
    *("(?i)a", "(?i:a)b", "(?U)a", "(?s-i:a)", "(?z)a", "(?:a)", "(?P<n>a)", "(?<n>a)"),
    *("a(?=b)", "a(?!b)", "(?<=a)b", "(?<!a)b", "(?>a)", "(?#a)", "(?P=n)", "(?(1)a|b)"),
    *("[]**]", "[[a]", "[a&&b]", "a{,2}", "a[:b:]", "[a[^b]", "a|", "(a|b", "(?i", "(?"),
    *("[[:alpha:]]", "[[:nope:]]", "[^[:digit:]_]", "[]a]", "[^]]", "[a-]", "[-a]", "^a$", "a^b"),
]


async def test_valid_and_invalid_regular_expressions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        await new_group(target, interval_ms=None)
        for number, regex in enumerate(EXPRESSIONS):
            group = target.unique("group")
            member = Reporter(target, group, "a", subscribed_topic_regex=regex)
            response = await member.join()
            target.note(f"{number}: {regex}", response.error_code)

    await compare(scenario)


async def test_commits_of_members(compare: Compare) -> None:
    def commit(group: str, topic: str, member: str, epoch: int, *numbers: int) -> Any:
        offsets = [OffsetCommitRequestPartition(number, 5) for number in numbers]
        return OffsetCommitRequest(
            group, epoch, member, topics=[OffsetCommitRequestTopic(topic, partitions=offsets)]
        )

    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        a, b = (Reporter(target, group, name, topic) for name in "ab")
        await target.ask(commit(group, topic, "", -1, 0), 9)
        await a.join()
        await target.ask(commit(group, topic, a.member_id, 2, 0), 9)
        await target.ask(commit(group, topic, a.member_id, 2, 0), 8)
        await target.ask(commit(group, topic, a.member_id, 3, 0), 9)
        await target.ask(commit(group, topic, a.member_id, 1, 0), 9)
        await target.ask(commit(group, topic, "", -1, 0), 9)
        await target.ask(commit(group, topic, "nobody", 2, 0), 9)
        await b.join()
        await a.report()
        await a.acknowledge()
        await b.acknowledge()
        kept = sorted(a.owned[0].partitions)
        for epoch in (1, 2, 3):  # an older epoch may commit what it has owned ever since
            for number in (kept[0], sorted(b.owned[0].partitions)[0]):
                request = commit(group, topic, a.member_id, epoch, number)
                response = await target.quietly(request, 9)
                target.note(f"{epoch}", response.topics[0].partitions[0].error_code)

        for member_id, epoch in ((a.member_id, 3), (a.member_id, 2), ("nobody", 3), (None, -1)):
            wanted = OffsetFetchRequestGroup(
                group, member_id, epoch, [OffsetFetchRequestTopics(topic, partition_indexes=[9])]
            )
            await target.ask(OffsetFetchRequest(groups=[wanted]), 9)

    await compare(scenario)


async def test_group_size_limit_and_session_timeout(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        a, b = (Reporter(target, group, name, topic) for name in "ab")
        await a.join(rebalance_timeout_ms=500)
        await b.join()
        await a.report()  # does not revoke the partitions as the response requires
        await describe_until(target, group, "Assigning", 4)
        await a.report()
        await b.report()
        await b.acknowledge()
        await describe(target, group)

    await compare(scenario)


async def test_names_and_expressions_together(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topics = [await target.topic(2) for _ in range(4)]
        group = await new_group(target)
        regexes = topics[1], f"{topics[2]}|{topics[0]}"
        fields = [{"subscribed_topic_regex": one, "server_assignor": "range"} for one in regexes]
        a = Reporter(target, group, "a", topics[0], topics[0], **fields[0])
        b = Reporter(target, group, "b", **fields[1])
        await a.join()
        await describe_until(target, group, "Assigning", 3)
        await a.report()
        await describe(target, group)
        await b.join()  # an expression that waits: the last were resolved just now
        await b.report()
        await describe(target, group)
        await a.report(subscribed_topic_regex=f"{topics[3]}.*")
        await a.acknowledge()  # now both are looked up, which Kafka does beside its answers
        await describe_until(target, group, "Assigning", 4)
        await a.report(subscribed_topic_regex=b.first["subscribed_topic_regex"])
        await a.acknowledge()
        await a.report(subscribed_topic_names=[topics[3]])
        await describe(target, group)
        await a.leave()
        await b.report()
        await describe(target, group)

    await compare(scenario)


async def test_members_that_change_their_attributes(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(4)
        group = await new_group(target)
        a, b = (Reporter(target, group, name, topic) for name in "ab")
        await a.join()
        a.instance_id = "i"
        await a.report()
        await a.join()  # a dynamic member becomes a static one
        await a.report()
        await describe(target, group)
        a.instance_id = "j"
        await a.report()
        await a.join()
        await describe(target, group)
        a.instance_id = None
        await a.report()
        await a.join()
        await describe(target, group)
        b.member_id = a.member_id
        await b.join(rack_id="r", rebalance_timeout_ms=5, server_assignor="range")
        await describe(target, group)
        await a.leave()
        await b.leave()

    await compare(scenario)


async def test_subscription_change_during_revocation(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        first, second = await target.topic(4), await target.topic(4)
        group = await new_group(target)
        a, b = (
            Reporter(target, group, name, first, second, server_assignor="range") for name in "ab"
        )
        await a.join()
        await b.join()
        await a.report()
        await a.report(subscribed_topic_names=[first])
        await describe(target, group)
        await b.report()
        await a.report(subscribed_topic_names=[second])
        await describe(target, group)
        await a.report(topic_partitions=[])
        await a.acknowledge()
        await b.acknowledge()
        await a.acknowledge()
        await b.acknowledge()
        await describe(target, group)
        await b.report(subscribed_topic_names=[])
        await b.acknowledge()
        await a.acknowledge()
        await describe(target, group)

    await compare(scenario)


async def test_rejoining_during_revocation(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        topic = await target.topic(6)
        group = await new_group(target)
        a, b = (Reporter(target, group, name, topic) for name in "ab")
        await a.join()
        await b.join()
        await a.report()
        await a.join()
        await describe(target, group)
        await b.report()
        await b.acknowledge()
        await b.join()
        await describe(target, group)

    await compare(scenario)
