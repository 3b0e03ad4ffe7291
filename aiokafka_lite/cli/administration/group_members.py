"""Groups of both protocols with their members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from aiokafka_lite.admin.groups.group_types import (
    ClassicMemberDescription,
    GroupMemberDescription,
)
from aiokafka_lite.cli.connection.lookup import Lookup
from aiokafka_lite.errors import GroupIdNotFound, IllegalArgumentError

__all__ = ["Group", "Member", "describe"]

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
        state: "Stable", "Empty", ...; "Dead" if the coordinator does not have the group.
        assignor: The name of the assignor; "" without one.
    """

    group_id: str
    type: str
    state: str
    assignor: str
    members: list[Member]

    @property
    def is_active(self) -> bool:
        """True if the group has members: then only they may change its offsets."""
        return bool(self.members) or self.state not in ("", "Empty", _DEAD)


async def describe(lookup: Lookup, group: str) -> Group:
    """Return a group; one that does not exist is "Dead".

    Raises:
        KafkaError: The coordinator refused, or did not answer in time.
    """
    admin = lookup.admin()
    try:
        found = (await admin.describe_consumer_groups([group], typed=True)).value(group)
    except GroupIdNotFound:
        return Group(group, "classic", _DEAD, "", [])
    except IllegalArgumentError:  # its members are not consumers
        classic = (await admin.describe_classic_groups([group])).value(group)
        members = _members(classic.members)
        return Group(group, "classic", classic.state, classic.protocol, members)
    return Group(group, found.type, found.state, found.assignor, _members(found.members))


def _members(
    members: Iterable[GroupMemberDescription | ClassicMemberDescription],
) -> list[Member]:
    return [
        Member(each.member_id, each.client_id, each.host.lstrip("/"), each.group_instance_id)
        for each in members
    ]
