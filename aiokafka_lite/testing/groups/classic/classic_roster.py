"""The members of a classic group, their protocols, and the selected protocol.

`ClassicRoster` only stores and checks; `classic_group` handles the requests.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiokafka_lite.errors import (
    FencedInstanceIdError,
    GroupCoordinatorNotAvailableError,
    GroupIdNotFound,
    IllegalGenerationError,
    KafkaProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from aiokafka_lite.protocol.messages.join_group import JoinGroupResponse
from aiokafka_lite.protocol.messages.sync_group import SyncGroupResponse
from aiokafka_lite.protocol.primitives import Reader
from aiokafka_lite.testing.clock import Timer
from aiokafka_lite.testing.groups.base_group import Group, PartitionCheck
from aiokafka_lite.testing.groups.committed_offsets import GroupOffsets
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.reply import Reply

__all__ = [
    "COMPLETING_REBALANCE",
    "DEAD",
    "EMPTY",
    "PREPARING_REBALANCE",
    "STABLE",
    "ClassicMember",
    "ClassicRoster",
    "MemberProtocol",
]

EMPTY: Final = "Empty"
PREPARING_REBALANCE: Final = "PreparingRebalance"
COMPLETING_REBALANCE: Final = "CompletingRebalance"
STABLE: Final = "Stable"
DEAD: Final = "Dead"

CONSUMER: Final = "consumer"
"""The protocol type of consumers; others (Connect) have different metadata."""


class MemberProtocol(NamedTuple):
    """A protocol (such as an assignor) that a member supports, with its metadata."""

    name: str
    metadata: bytes


class ClassicMember:
    """A member.

    Attributes:
        member_id: The id from the broker.
        instance_id: The instance id of a static member, or None.
        client_id, client_host: The client that joined.
        rebalance_timeout_ms: How long the others wait for it to rejoin.
        session_timeout_ms: Its session timeout.
        protocol_type: The protocol type that it sent.
        protocols: The supported protocols, in preference order.
        assignment: Its assignment, as encoded by the leader.
        joining: Its waiting JoinGroup.
        syncing: Its waiting SyncGroup.
        is_new: True before the response to its first join, so it cannot send heartbeats yet.
        session: The session timer.
    """

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Sequence[MemberProtocol],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = list(protocols)
        self.assignment = assignment
        self.joining: Reply[JoinGroupResponse] | None = None
        self.syncing: Reply[SyncGroupResponse] | None = None
        self.is_new = False
        self.session: Timer | None = None

    @property
    def is_excused(self) -> bool:
        """True while it waits for a response, so it cannot send heartbeats."""
        if self.is_new:
            return False  # its wait has its own timer
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return its metadata for a protocol; empty if it does not support the protocol."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """Return its preferred protocol among the candidates."""
        return next(each.name for each in self.protocols if each.name in candidates)


class ClassicRoster(Group):
    """The state of a classic group.

    Args:
        group_id: The group id.
        offsets: Its committed offsets.
        environment: The environment of groups.

    Attributes:
        generation: Number of the generation, which requests must contain.
        protocol_type: "consumer", "connect", ...; None before the first member, and for a group
            that only stores offsets.
        protocol_name: The selected protocol; None without members.
        leader: Member id of the leader.
        members: Members by id, in the order in which they joined.
        static_members: Member ids by instance id.
        pending_members: Assigned member ids (KIP-394) that have not rejoined yet, with their expiry
            timers.
        pending_syncs: Ids of members that have a JoinGroup response but have not sent SyncGroup;
            some may have left.
        state_since_ms: Time of the last state change.
    """

    kind = "classic"

    def __init__(self, group_id: str, offsets: GroupOffsets, environment: Environment) -> None:
        super().__init__(group_id, offsets)
        self.environment = environment
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, Timer] = {}
        self.pending_syncs: set[str] = set()
        self.state_since_ms = environment.clock.now_ms()
        self._state = EMPTY
        self._previous_state = EMPTY
        self._subscribed: frozenset[str] | None = None

    @property
    def state(self) -> str:
        return self._state

    def enter(self, state: str) -> None:
        """Change the state."""
        self._previous_state = self._state
        self._state = state
        self.state_since_ms = self.environment.clock.now_ms()

    # Members

    @property
    def rebalance_timeout(self) -> float:
        """The longest rebalance timeout of the members, in seconds."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0) / 1000

    @property
    def have_all_joined(self) -> bool:
        """True if every member waits in a join and no pending member id is left."""
        joining = all(member.joining is not None for member in self.members.values())
        return joining and not self.pending_members

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one sets the protocol type and becomes the leader."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.forget_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member; if it was the leader, the next one is."""
        member = self.members.pop(member_id, None)
        if member is not None:
            if member.session is not None:
                member.session.cancel()
            if self.static_members.get(member.instance_id or "") == member_id:
                del self.static_members[member.instance_id or ""]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.forget_pending(member_id)

    def forget_pending(self, member_id: str) -> None:
        """Remove a pending member id."""
        timer = self.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def rename_static(self, member: ClassicMember, member_id: str) -> None:
        """Replace the member id of a static member that has rejoined (KIP-345)."""
        members = {
            member_id if each is member else known: each for known, each in self.members.items()
        }
        self.members.clear()
        self.members.update(members)
        if self.leader == member.member_id:
            self.leader = member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id
        member.member_id = member_id

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; return False if there is none."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.joining is None:
            joined = (each for each in self.members.values() if each.joining is not None)
            elected = next(joined, None)
            if elected is None:
                return False
            self.leader = elected.member_id
        return True

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member with an id.

        Raises:
            FencedInstanceIdError: A newer member has the instance id.
            UnknownMemberIdError: There is no such member.
        """
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise UnknownMemberIdError(
                    f"static member {instance_id!r} is not in group {self.group_id!r}"
                )
            if known != member_id:
                raise FencedInstanceIdError(
                    f"static member {instance_id!r} now has member id {known}, not {member_id}"
                )
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"member {member_id!r} is not in group {self.group_id!r}")
        return member

    # Protocols

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return True if the current members support one of the protocols."""
        names = set(protocols)
        if self._state == EMPTY:
            return bool(protocol_type) and bool(names)
        agreed = names & self._candidates() if self.members else names
        return self.protocol_type == protocol_type and bool(agreed)

    def select_protocol(self) -> str:
        """Return the protocol that all members support and most prefer.

        Raises:
            RuntimeError: The group has no members.
        """
        if not self.members:
            raise RuntimeError(f"group {self.group_id!r} has no member to select a protocol")
        candidates = self._candidates()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(sorted(votes, key=_place_in_hash_map), key=votes.__getitem__)

    def _candidates(self) -> set[str]:
        supported = [{each.name for each in member.protocols} for member in self.members.values()]
        return set.intersection(*supported)

    def subscribed_topics(self) -> frozenset[str] | None:
        return self._subscribed

    def is_subscribed(self, topic: str) -> bool:
        if self._subscribed is None:  # unknown subscriptions may include any topic
            return self.protocol_type == CONSUMER
        return topic in self._subscribed

    def read_subscriptions(self) -> None:
        """Read the members' subscriptions, if they are consumers with valid metadata."""
        self._subscribed = None
        if self.protocol_type == CONSUMER:
            subscriptions = [
                member.metadata(self.protocol_name) for member in self.members.values()
            ]
            try:
                self._subscribed = frozenset().union(*map(_topics, subscriptions))
            except KafkaProtocolError:
                self._subscribed = None  # as in Kafka: custom metadata is accepted

    # Offsets

    def check_commit(
        self,
        member_id: str,
        generation_or_epoch: int,
        instance_id: str | None,
        *,
        transactional: bool,
        version: int = 9,
    ) -> PartitionCheck | None:
        if self._state == DEAD:
            raise GroupCoordinatorNotAvailableError(f"group {self.group_id!r} is dead")
        if generation_or_epoch < 0 and self._state == EMPTY:
            return None
        if generation_or_epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(generation_or_epoch)
        elif not transactional:
            raise UnknownMemberIdError(
                f"group {self.group_id!r} has members, and only they may commit"
            )
        if not transactional and self._state == COMPLETING_REBALANCE:
            raise RebalanceInProgressError(f"group {self.group_id!r} awaits its assignment")
        return None

    def check_generation(self, generation: int) -> None:
        """Check that a generation is the current one.

        Raises:
            IllegalGenerationError
        """
        if generation != self.generation:
            raise IllegalGenerationError(
                f"group {self.group_id!r} is in generation {self.generation}, not {generation}"
            )

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if self._state == DEAD:
            raise GroupIdNotFound(f"Group {self.group_id} is in dead state.")

    def expire_offsets(self, now_ms: int, retention_ms: int) -> bool:
        kept_since_ms = None
        if self.protocol_type is not None:
            if self._state == EMPTY:
                kept_since_ms = self.state_since_ms
            elif self._state != STABLE or self._subscribed is None:
                return False
        return self.offsets.expire(now_ms, retention_ms, self._is_read, kept_since_ms)

    def _is_read(self, topic: str) -> bool:
        return bool(self.members) and self.is_subscribed(topic)

    def note(self) -> None:
        """Store the state that outlives the members in the journal."""
        remembered: Mapping[str, object] = {
            "kind": self.kind,
            "generation": self.generation,
            "protocol_type": self.protocol_type,
            "since_ms": self.state_since_ms,
        }
        self.environment.journal.note("group", (self.group_id,), remembered)

    def recall(self, remembered: Mapping[str, Any]) -> None:
        """Restore the state of an empty group from the journal."""
        self.generation = remembered["generation"]
        self.protocol_type = remembered["protocol_type"]
        self.state_since_ms = remembered["since_ms"]


def _place_in_hash_map(name: str) -> int:
    """Return the order of a name in Java's `HashMap`, by which Kafka breaks ties of votes."""
    code = 0
    for character in name:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return (code ^ code >> 16) & 0xF


def _topics(subscription: bytes) -> list[str]:
    """Return the topics in a consumer's metadata; all versions start like version 0."""
    reader = Reader(subscription)
    reader.int16()  # the version
    return ConsumerProtocolSubscription.decode(reader, 0).topics
