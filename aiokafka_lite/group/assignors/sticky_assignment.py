"""The sticky assignor: balanced first, then with as few moves as possible.

It is eager: members revoke all partitions before they join. So the partitions that a member held
are not in the owned partitions of its subscription but in its user data, with the generation in
which it received them (KIP-341).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.group.assignment_data import NO_GENERATION, by_topic
from aiokafka_lite.group.assignors.interface import (
    Assigned,
    NativeAssignor,
    Subscriptions,
    TopicLayouts,
)
from aiokafka_lite.group.assignors.racks import Racks
from aiokafka_lite.group.assignors.sticky_claims import Claim, Claims, settle_claims
from aiokafka_lite.group.assignors.sticky_even import EvenDivision
from aiokafka_lite.group.assignors.sticky_uneven import UnevenDivision, unevenness
from aiokafka_lite.protocol.primitives import (
    INT32,
    Reader,
    write_array_length,
    write_int32s,
    write_string,
)
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "StickyAssignor",
    "divide_by_claims",
    "read_user_data",
    "sticky_assignment",
    "write_user_data",
]


def sticky_assignment(members: Subscriptions, topics: TopicLayouts) -> Assigned:
    """Divide the partitions as evenly as possible, with as few moves as possible."""
    claims = {member_id: read_user_data(member.user_data) for member_id, member in members.items()}
    return divide_by_claims(members, topics, claims)[0]


def divide_by_claims(
    members: Subscriptions, topics: TopicLayouts, claimed: Mapping[str, Claim]
) -> tuple[Assigned, dict[TopicPartition, str] | None]:
    """Divide the partitions, given the partitions that each member claims to have held.

    Returns:
        The assignment, and the partitions in it that another member held; None: unknown.
    """
    if not members:
        return {}, {}
    wanted = {topic for member in members.values() for topic in member.topics}
    known = {
        name: topics[name] for name in sorted(wanted & topics.keys()) if topics[name].partitions
    }
    claims = settle_claims(claimed, known)
    racks = Racks(members, known)
    if all(wanted == set(member.topics) for member in members.values()):
        even = EvenDivision(known, claims, racks)
        return even.divide(), even.moving
    return _divide_unevenly(members, known, claims, racks), None


def _divide_unevenly(
    members: Subscriptions, topics: TopicLayouts, claims: Claims, racks: Racks
) -> Assigned:
    """Divide partitions among members of different subscriptions.

    Java takes away every partition that has no replica in its owner's rack, and deals it out again.
    This assignor does so only if it improves the result: in Java, some cooperative groups alternate
    between two assignments and never stop rebalancing.
    """
    by_racks = UnevenDivision(members, topics, claims, racks).divide()
    if not racks.rack_of:
        return by_racks

    def merits(assigned: Assigned) -> tuple[int, int, int]:
        stays = sum(
            len(set(claims.held[member_id]).intersection(mine))
            for member_id, mine in assigned.items()
        )
        return -unevenness(map(len, assigned.values())), racks.matches(assigned), stays

    left = UnevenDivision(members, topics, claims, racks, leave_held=True).divide()
    pairs = zip(merits(left), merits(by_racks), strict=True)
    return left if all(mine >= its for mine, its in pairs) else by_racks


def write_user_data(claim: Claim) -> bytes:
    """The user data of a member, version 1."""
    numbers = by_topic(claim.partitions)
    out = bytearray()
    write_array_length(out, len(numbers), False)
    for topic in sorted(numbers):
        write_string(out, topic, False)
        write_array_length(out, len(numbers[topic]), False)
        write_int32s(out, numbers[topic])
    out += INT32.pack(claim.generation)
    return bytes(out)


def read_user_data(data: bytes | None) -> Claim:
    """The claim in a member's user data; an empty one if the data cannot be read, as in Java.

    Version 0 has no generation, and only the end of the bytes reveals the version.
    """
    if not data:
        return Claim((), NO_GENERATION)
    reader = Reader(data)
    try:
        partitions: list[TopicPartition] = []
        for _ in range(reader.array_length(False)):
            topic = reader.string(False)
            numbers = reader.int32s(reader.array_length(False))
            partitions += [TopicPartition(topic, number) for number in numbers]
        generation = reader.int32() if reader.remaining >= INT32.size else NO_GENERATION
    except KafkaProtocolError:
        return Claim((), NO_GENERATION)  # the member only loses its stickiness
    return Claim(tuple(partitions), generation)


class StickyAssignor(NativeAssignor):
    """Java's StickyAssignor."""

    name: ClassVar[str] = "sticky"
    divide = staticmethod(sticky_assignment)

    def __init__(self) -> None:
        self._held: Claim | None = None  # None before the first assignment

    def user_data(self) -> bytes | None:
        """The last assignment and its generation."""
        return None if self._held is None else write_user_data(self._held)

    def remember(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:
        """Keep the assignment, to claim it in the next rebalance."""
        self._held = Claim(partitions, generation)
