"""Random sequences of valid and invalid requests of consumer group members, in both protocols.

The members join twice, leave after leaving, send wrong epochs and claim partitions that they do not
own. With the assignor "range", Kafka and the embedded broker must agree on every partition. Cases
that `test_consumer_groups` does not compare are omitted here, too.
"""

from random import Random
from typing import Any, Final

import pytest

from aiokafka_lite.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tests.conformance.conftest import Compare
from tests.conformance.membership import Member
from tests.conformance.reporting import Reporter, describe, new_group, partitions
from tests.conformance.target import Target
from tests.conformance.test_group_migration import owning, synced

STEPS: Final = 30


class Crowd:
    """Four members, two of which share an instance id, and their events.

    Args:
        target: Where.
        group: Its id.
        topics: The topics to read.
        random: Decides; the same on both clusters.
    """

    def __init__(self, target: Target, group: str, topics: list[str], random: Random) -> None:
        self.target = target
        self.group = group
        self.topics = topics
        self.random = random
        instances = {"a": None, "b": None, "c": "i", "d": "i"}
        self.new = {
            name: Reporter(target, group, name, server_assignor="range", instance_id=instance)
            for name, instance in instances.items()
        }
        self.old = {
            name: Member(target, group, name, instance_id=instance)
            for name, instance in instances.items()
        }
        for name, member in self.old.items():
            member.member_id = self.new[name].member_id

    def some_topics(self) -> list[str]:
        return sorted(self.random.sample(self.topics, self.random.randint(1, len(self.topics))))

    async def report(self, reporter: Reporter) -> None:
        everything = [
            partitions(topic.topic_id, 0, 1, 2)
            for other in self.new.values()
            for topic in other.owned
        ]
        told: list[dict[str, Any]] = [
            {},
            {"topic_partitions": reporter.owned},
            {"topic_partitions": reporter.owned},
            {"topic_partitions": everything},
            {"topic_partitions": []},
            {"subscribed_topic_names": self.some_topics(), "topic_partitions": reporter.owned},
            {"subscribed_topic_names": [], "topic_partitions": reporter.owned},
            {"member_epoch": reporter.epoch + 1},
            {"member_epoch": max(reporter.epoch - 1, 1), "topic_partitions": reporter.owned},
        ]
        await reporter.report(**self.random.choice(told))

    async def step_of_the_new(self) -> None:
        reporter = self.new[self.random.choice("abcd")]
        action = self.random.choice(["join", "join", *["report"] * 7, "leave", "pause"])
        if action == "join":
            await reporter.join(subscribed_topic_names=self.some_topics())
        elif action == "leave":
            await reporter.leave()
        elif action == "pause" and reporter.instance_id is not None:
            await reporter.leave(-2)
        else:
            await self.report(reporter)

    async def step_of_the_old(self) -> None:
        member = self.old[self.random.choice("abcd")]
        action = self.random.choice(["join", "join", "sync", "sync", "beat", "leave"])
        topics, numbers = self.some_topics(), self.random.choice([(), (0, 1)])
        if action == "join":
            member.protocols = [("range", owning(topics[0], *numbers))]
            if await self.has_members():  # an empty group, or a classic one, may keep it waiting
                await member.join()
        elif action == "sync":
            await synced(member)
        elif action == "beat":
            await member.beat()
        else:
            await member.leave()

    async def has_members(self) -> bool:
        """True if it is a consumer group with members."""
        request = ConsumerGroupDescribeRequest([self.group])
        (group,) = (await self.target.quietly(request, 1)).groups
        return bool(group.members)


@pytest.mark.parametrize("both_protocols", [False, True])
@pytest.mark.parametrize("seed", range(5))
async def test_random_sequences(compare: Compare, seed: int, both_protocols: bool) -> None:
    async def scenario(target: Target) -> None:
        topics = [await target.topic(count) for count in (3, 3, 2)]
        group = await new_group(target)
        random = Random(seed)
        crowd = Crowd(target, group, topics, random)
        for _ in range(STEPS):
            if both_protocols and random.random() < 0.4:
                await crowd.step_of_the_old()
            else:
                await crowd.step_of_the_new()
            await describe(target, group)

    await compare(scenario)
