"""Members of consumer groups (KIP-848), which scenarios let join, report and leave.

An assignment enters the transcript only as counts by topic: which of two equal members gets the odd
partition depends on the order of a hash map in Kafka.
"""

import asyncio
from typing import Any
from uuid import UUID

from aiokafka_lite.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from aiokafka_lite.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.conformance import membership
from tests.conformance.target import Target

__all__ = ["Reporter", "describe", "describe_until", "new_group"]

GROUP_CONFIGS = 32
OF_GROUP = 8
SET = 0
JOINING = 0
UNKNOWN_MEMBER = 25


async def new_group(target: Target, *, interval_ms: int | None = 0, **configs: object) -> str:
    """A group id whose coordinator is ready.

    Args:
        target: Where.
        interval_ms: Between two assignments; None leaves Kafka's second.
        configs: The group's own, with underscores for points.
    """
    group = await membership.new_group(target)
    if interval_ms is not None:
        configs["consumer_assignment_interval_ms"] = interval_ms
    if configs:
        alterations = [
            AlterableConfig(name.replace("_", "."), SET, str(value))
            for name, value in configs.items()
        ]
        change = AlterConfigsResource(GROUP_CONFIGS, group, alterations)
        response = await target.quietly(IncrementalAlterConfigsRequest([change]), 1)
        assert not response.responses[0].error_code, response
        await _await_configs(target, group, set(configs))
    return group


async def _await_configs(target: Target, group: str, names: set[str]) -> None:
    """Wait until the broker and the group's coordinator have the group's own configurations."""
    wanted = DescribeConfigsResource(GROUP_CONFIGS, group)
    async with asyncio.timeout(20):
        while True:
            response = await target.quietly(DescribeConfigsRequest([wanted]), 4)
            configs = response.results[0].configs
            told = {one.name for one in configs if one.config_source == OF_GROUP}
            if {name.replace("_", ".") for name in names} <= told:
                break
            await asyncio.sleep(0.02)
    await target.published()


class Reporter:
    """One member with its own connection, which stores its assignment.

    Args:
        target: Where the group is.
        group: Its id.
        name: Of the connection, and the member's id.
        topics: The topics that it subscribes to by name.
        version: Of ConsumerGroupHeartbeat.
        fields: Of its first report, as they are called there.
    """

    def __init__(
        self, target: Target, group: str, name: str, *topics: str, version: int = 1, **fields: Any
    ) -> None:
        self.target = target
        self.group = group
        self.name = name
        self.version = version
        self.member_id = f"{group}-{name}" if version else ""
        self.instance_id: str | None = fields.pop("instance_id", None)
        self.epoch = JOINING
        self.owned: list[TopicPartitions] = []
        self.first = {
            "rebalance_timeout_ms": 60_000,
            "topic_partitions": [],
            "subscribed_topic_names": list(topics) if topics else None,
            **fields,
        }

    async def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """The first report, or one after a reset."""
        self.owned = []
        return await self.report(**{"member_epoch": JOINING, **self.first, **fields})

    async def report(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A report of `fields` only."""
        response = await self._send(fields)
        self._enter(fields, response)
        return response

    async def acknowledge(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A report of the owned partitions, which are the last assigned ones."""
        return await self.report(topic_partitions=self.owned, **fields)

    async def quietly(self) -> None:
        """The same, without a trace in the transcript."""
        response = await self._send({"topic_partitions": self.owned})
        assert not response.error_code, response

    async def report_until(self, assigned: int) -> ConsumerGroupHeartbeatResponse:
        """Report the owned partitions until this many are assigned; record only that response."""
        async with asyncio.timeout(20):
            while True:
                response = await self._send({"topic_partitions": self.owned})
                if response.error_code or sum(self.counts) == assigned:
                    self._enter({"until": assigned}, response)
                    return response
                await asyncio.sleep(0.05)

    async def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return await self.report(member_epoch=epoch)

    @property
    def counts(self) -> list[int]:
        """The number of assigned partitions by topic."""
        return sorted(len(topic.partitions) for topic in self.owned)

    async def _send(self, fields: dict[str, Any]) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group,
                "member_id": self.member_id,
                "member_epoch": self.epoch,
                "instance_id": self.instance_id,
                **fields,
            }
        )
        response: ConsumerGroupHeartbeatResponse = await self.target.quietly(
            request, self.version, self.name
        )
        if not response.error_code:
            self.epoch = response.member_epoch
            self.member_id = response.member_id or self.member_id
            if response.assignment is not None:
                self.owned = response.assignment.topic_partitions
        return response

    def _enter(self, fields: dict[str, Any], response: ConsumerGroupHeartbeatResponse) -> None:
        told = None if response.assignment is None else self.counts
        self.target.note(
            f"{self.name} reports {sorted(fields)}",
            {
                "error_code": response.error_code,
                "member_id": response.member_id and response.member_id == self.member_id,
                "member_epoch": response.member_epoch,
                "interval": response.heartbeat_interval_ms,
                "assigned": told,
            },
        )


async def describe(target: Target, group: str, *, by_topic: bool = True) -> DescribedGroup:
    """Record the description of a group.

    Args:
        target: Where.
        group: Its id.
        by_topic: How many partitions of each topic a member has; else only the total, which is all
            that "uniform" guarantees to members that read several topics.
    """
    response = await target.quietly(ConsumerGroupDescribeRequest([group]), 1)
    (described,) = response.groups
    target.note("described", _facts(described, by_topic))
    return described


async def describe_until(target: Target, group: str, state: str, epoch: int) -> DescribedGroup:
    """Record the description of a group once it is in a state and an epoch."""
    async with asyncio.timeout(20):
        while True:
            response = await target.quietly(ConsumerGroupDescribeRequest([group]), 1)
            (described,) = response.groups
            if (described.group_state, described.group_epoch) == (state, epoch):
                return await describe(target, group)
            await asyncio.sleep(0.05)


def _shares(assignment: Assignment, by_topic: bool) -> object:
    counts = [(topic.topic_name, len(topic.partitions)) for topic in assignment.topic_partitions]
    return sorted(counts) if by_topic else sum(count for _, count in counts)


def _facts(group: DescribedGroup, by_topic: bool) -> dict[str, object]:
    return {
        "error_code": group.error_code,
        "state": group.group_state,
        "epochs": (group.group_epoch, group.assignment_epoch),
        "assignor": group.assignor_name,
        "authorized": group.authorized_operations,
        "members": sorted(
            (
                (member.client_id, member.client_host, member.member_epoch, member.member_type),
                (member.instance_id, member.rack_id, member.subscribed_topic_regex),
                sorted(member.subscribed_topic_names),
                _shares(member.assignment, by_topic),
                _shares(member.target_assignment, by_topic),
            )
            for member in group.members
        ),
    }


def partitions(topic_id: UUID, *numbers: int) -> TopicPartitions:
    """A part of the partitions that a member reports as owned."""
    return TopicPartitions(topic_id, list(numbers))
