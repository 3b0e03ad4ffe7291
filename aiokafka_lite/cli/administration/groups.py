"""Groups of both protocols with their members, and their deletion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from aiokafka_lite.cli.connection.lookup import Lookup
from aiokafka_lite.cluster.retry import CoordinatorOf, call
from aiokafka_lite.errors import GroupIdNotFound, UnsupportedVersionError, for_code
from aiokafka_lite.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from aiokafka_lite.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from aiokafka_lite.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

__all__ = ["Group", "Member", "delete", "describe"]

_DEAD: Final = "Dead"


class Member(NamedTuple):
    """A member of a group."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None


class Group(NamedTuple):
    """A group.

    Attributes:
        type: "consumer" for Kafka 4's protocol, else "classic".
        state: "Stable", "Empty", ...; "Dead" if the coordinator does not know the group.
        assignor: Who assigns the partitions; "" without one.
    """

    group_id: str
    type: str
    state: str
    assignor: str
    members: list[Member]

    @property
    def is_active(self) -> bool:
        """True if the group has members, which alone may change its offsets."""
        return bool(self.members) or self.state not in ("", "Empty", _DEAD)


async def describe(lookup: Lookup, group: str) -> Group:
    """Return a group; one that does not exist is "Dead".

    Raises:
        KafkaError: The coordinator refused, or did not answer in time.
    """
    # Kafka 4's protocol first: to DescribeGroups its groups are dead.
    return await _describe_consumer(lookup, group) or await _describe_classic(lookup, group)


async def _describe_consumer(lookup: Lookup, group: str) -> Group | None:
    def check(response: ConsumerGroupDescribeResponse) -> None:
        for each in response.groups:
            if each.error_code:
                raise for_code(each.error_code)(each.error_message or f"describing group {group}")

    try:
        response = await call(
            lookup.cluster,
            ConsumerGroupDescribeRequest(group_ids=[group]),
            CoordinatorOf(group),
            lookup.deadline(),
            check=check,
        )
    except (GroupIdNotFound, UnsupportedVersionError):
        return None  # a classic group, or a broker before Kafka 3.7
    for found in response.groups:
        if found.group_id == group:
            return Group(
                group,
                "consumer",
                found.group_state,
                found.assignor_name,
                _members(found.members, "instance_id"),
            )
    return None


async def _describe_classic(lookup: Lookup, group: str) -> Group:
    def check(response: DescribeGroupsResponse) -> None:
        for each in response.groups:
            if each.error_code:
                raise for_code(each.error_code)(f"describing group {group}")

    try:
        response = await call(
            lookup.cluster,
            DescribeGroupsRequest(groups=[group]),
            CoordinatorOf(group),
            lookup.deadline(),
            check=check,
        )
    except GroupIdNotFound:  # from version 6 on; before, the state is Dead
        return Group(group, "classic", _DEAD, "", [])
    for found in response.groups:
        if found.group_id == group:
            members = _members(found.members, "group_instance_id")
            return Group(group, "classic", found.group_state, found.protocol_data, members)
    return Group(group, "classic", _DEAD, "", [])


def _members(members: Iterable[Any], instance: str) -> list[Member]:
    return [
        Member(
            each.member_id, each.client_id, each.client_host.lstrip("/"), getattr(each, instance)
        )
        for each in members
    ]


async def delete(lookup: Lookup, group: str) -> None:
    """Delete a group and its offsets.

    Raises:
        NonEmptyGroup: It has members.
        GroupIdNotFound: There is no such group.
    """

    def check(response: DeleteGroupsResponse) -> None:
        for each in response.results:
            if each.error_code:
                raise for_code(each.error_code)(f"deleting group {group}")

    await call(
        lookup.cluster,
        DeleteGroupsRequest(groups_names=[group]),
        CoordinatorOf(group),
        lookup.deadline(),
        check=check,
    )
