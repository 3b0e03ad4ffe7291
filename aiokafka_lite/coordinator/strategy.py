"""Converts `partition_assignment_strategy` to the assignors of a member.

Built-in assignors run natively. Any other class is an application's assignor in aiokafka's form;
`ClassAssignor` adapts it to the membership, which exchanges bytes with one object for each member.

Non-obvious: such a class does not see the partitions that members keep while they rebalance, but
other members with the same assignor may cooperate: those of a Java group, or those that use the
built-in class where this member uses a subclass. The partitions that they own are withheld from
others until they have revoked them.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from aiokafka_lite.client import ClusterMetadata
from aiokafka_lite.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka_lite.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyPartitionAssignor,
)
from aiokafka_lite.coordinator.assignors.native import NativePartitionAssignor
from aiokafka_lite.coordinator.assignors.range import RangePartitionAssignor
from aiokafka_lite.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka_lite.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka_lite.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.group.assignment_data import read_subscription
from aiokafka_lite.group.assignors.interface import (
    LeadingAssignor,
    TopicLayouts,
    choose_rebalance_protocol,
)
from aiokafka_lite.group.membership import GroupMember, RebalanceProtocol
from aiokafka_lite.structs import TopicPartition

__all__ = ["ClassAssignor", "assignors_of"]

log = logging.getLogger(__name__)

OURS: Final[frozenset[type[NativePartitionAssignor]]] = frozenset(
    {
        CooperativeStickyPartitionAssignor,
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
    }
)

METHODS: Final = ("assign", "metadata", "on_assignment")


def assignors_of(
    strategy: Iterable[type[AbstractPartitionAssignor]], cluster: ClusterMetadata
) -> tuple[LeadingAssignor, ...]:
    """The assignors of one member, the preferred one first.

    Args:
        strategy: The classes that the application chose.
        cluster: Passed to the application's assignors; must follow the metadata.

    Raises:
        TypeError: An entry is not an assignor.
        KafkaConfigurationError: There are no assignors, or two share a name.
    """
    assignors = tuple(_assignor_of(each, cluster) for each in strategy)
    choose_rebalance_protocol(assignors)  # rejects assignors that cannot work together
    return assignors


def _assignor_of(
    chosen: type[AbstractPartitionAssignor], cluster: ClusterMetadata
) -> LeadingAssignor:
    for ours in OURS:
        if chosen is ours:
            return ours.native()
    # Duck typing: applications pass instances, and classes without the base class.
    if not isinstance(getattr(chosen, "name", None), str):
        raise TypeError(f"an assignor requires a `name` that is a str: {chosen!r}")
    lacking = [name for name in METHODS if not callable(getattr(chosen, name, None))]
    if lacking:
        raise TypeError(f"the assignor {chosen!r} lacks {', '.join(lacking)}")
    return ClassAssignor(chosen, cluster)


class ClassAssignor:
    """Adapts an assignor in aiokafka's form to the membership.

    Args:
        assignor: The class.
        cluster: Passed to its `assign`.
    """

    rebalance_protocols: Final = frozenset({RebalanceProtocol.EAGER})

    def __init__(self, assignor: type[AbstractPartitionAssignor], cluster: ClusterMetadata) -> None:
        self._assignor = assignor
        self._cluster = cluster
        self.name = str(assignor.name)

    def subscription(
        self,
        topics: frozenset[str],
        owned: frozenset[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """The subscription that the leader receives; the class receives only the topics."""
        with _uncancelled():
            return _encoded(self._assignor.metadata(set(topics)))

    def on_assignment(self, assignment: bytes, generation: int) -> Collection[TopicPartition]:
        """Pass the leader's assignment to the class."""
        if assignment:
            decoded = ConsumerProtocolMemberAssignment.decode(assignment)
        else:
            decoded = ConsumerProtocolMemberAssignment(0, [], b"")
        with _uncancelled():
            self._assignor.on_assignment(decoded)
            on_generation = getattr(self._assignor, "on_generation_assignment", None)
            if on_generation is not None:  # only sticky assignors have it
                on_generation(generation)
        return decoded.partitions()

    def assign(self, members: Sequence[GroupMember], topics: TopicLayouts) -> dict[str, bytes]:
        """Let the class assign; propagates whatever it raises. Partitions that another member owns
        are withheld until that member has revoked them and rejoins."""
        subscriptions = {
            member.member_id: ConsumerProtocolMemberMetadata.decode(member.subscription)
            for member in members
        }
        with _uncancelled():
            assigned = self._assignor.assign(self._cluster, subscriptions)
        strangers = assigned.keys() - subscriptions.keys()
        if strangers:
            log.warning(
                "The assignor %s assigned partitions to unknown members %s",
                self.name,
                sorted(strangers),
            )
        nothing = ConsumerProtocolMemberAssignment(0, [], b"")
        encoded = {
            member_id: _encoded(assigned.get(member_id, nothing)) for member_id in subscriptions
        }
        owners = _owners(members)
        if owners:
            for member_id, data in encoded.items():
                encoded[member_id] = _without_moving(data, member_id, owners)
        return encoded


def _owners(members: Iterable[GroupMember]) -> Mapping[TopicPartition, set[str]]:
    """The members that own a partition while they rebalance; eager members own none."""
    owners: dict[TopicPartition, set[str]] = {}
    for member in members:
        try:
            owned = read_subscription(member.subscription).owned
        except KafkaProtocolError:
            continue  # an assignor's `version` may promise fields that aiokafka does not write
        for tp in owned:
            owners.setdefault(tp, set()).add(member.member_id)
    return owners


def _without_moving(
    data: bytes, member_id: str, owners: Mapping[TopicPartition, set[str]]
) -> bytes:
    """A member's assignment without the partitions that only others own."""
    assignment = ConsumerProtocolMemberAssignment.decode(data)
    assigned = [(topic, list(numbers)) for topic, numbers in assignment.assignment]
    kept = [
        (
            topic,
            [n for n in numbers if member_id in owners.get(TopicPartition(topic, n), (member_id,))],
        )
        for topic, numbers in assigned
    ]
    if kept == assigned:
        return data
    assignment.assignment = kept
    return assignment.encode()


@contextmanager
def _uncancelled() -> Iterator[None]:
    """Convert a cancellation that an assignor raises, such as the result of a cancelled future,
    to an error. Otherwise, it would end a task of the membership unnoticed, and the consumer
    would wait forever."""
    try:
        yield
    except CancelledError as error:
        raise RuntimeError(f"the assignor raised {error!r}") from error


def _encoded(
    data: ConsumerProtocolMemberMetadata | ConsumerProtocolMemberAssignment | bytes,
) -> bytes:
    """The encoded data; an assignor may return it encoded already."""
    return data if isinstance(data, bytes) else data.encode()
