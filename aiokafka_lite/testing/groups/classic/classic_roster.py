"""The members of a classic group: who is in, what each supports, which protocol they agree on.

`ClassicRoster` only keeps and checks; who joins when, and what that sets off, is in `classic`.
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
from aiokafka_lite.testing.groups.environment import Environment
from aiokafka_lite.testing.groups.group_offsets import GroupOffsets
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
"""The protocol type of consumers; others (Connect) do as they like."""


class MemberProtocol(NamedTuple):
    """A way of sharing out that a member supports, and what it tells for it."""

    name: str
    metadata: bytes


class ClassicMember:
    """One member.

    Attributes:
        member_id: Given by the broker.
        instance_id: The name of a static member, or None.
        client_id, client_host: As when it joined.
        rebalance_timeout_ms: How long the others wait for it to join again.
        session_timeout_ms: How long it may be silent.
        protocol_type: What kind of group it takes this for.
        protocols: What it supports, what it likes best first.
        assignment: Its share, in the words of the leader.
        joining: Its JoinGroup that waits.
        syncing: Its SyncGroup that waits.
        is_new: It has not had an answer to its first join, so cannot send heartbeats.
        session: Runs out when it is silent.
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
        """It waits for an answer of the broker, so nobody can expect a heartbeat of it."""
        if self.is_new:
            return False  # what it waits for has a time limit of its own
        return self.joining is not None or self.syncing is not None

    def metadata(self, protocol: str | None) -> bytes:
        """What it tells for a protocol; nothing for one that it does not support."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """The candidate that it likes best."""
        return next(each.name for each in self.protocols if each.name in candidates)


class ClassicRoster(Group):
    """What a classic group knows of itself.

    Args:
        group_id: Its name.
        offsets: What it committed.
        environment: What it lives in.

    Attributes:
        generation: Counts the rebalances; members have to name it.
        protocol_type: "consumer", "connect", ...; None until the first member, and of a group
            that only keeps offsets.
        protocol_name: What the members agreed on; None while nobody is in.
        leader: Member id of who shares out.
        members: By member id, in the order in which they came.
        static_members: Member id by instance id.
        pending_members: Ids that were given out (KIP-394) to who has not come back yet, with the
            timers that forget them.
        pending_syncs: Ids of members who have had their JoinGroup answered and not yet sent a
            SyncGroup; some may be gone since.
        state_since_ms: When it got into its state.
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
        """Go over to another state."""
        self._previous_state = self._state
        self._state = state
        self.state_since_ms = self.environment.clock.now_ms()

    # Members

    @property
    def rebalance_timeout(self) -> float:
        """The longest of the members', in seconds."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0) / 1000

    @property
    def have_all_joined(self) -> bool:
        """Every member waits in a join, and nobody is still to come back with its id."""
        joining = all(member.joining is not None for member in self.members.values())
        return joining and not self.pending_members

    def add(self, member: ClassicMember) -> None:
        """Let a member in; the first one decides what kind of protocol this is, and leads."""
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.forget_pending(member.member_id)

    def remove(self, member_id: str) -> None:
        """Take out a member, or one who was expected; the next of them leads if it led."""
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
        """Expect nobody any more to come back with an id."""
        timer = self.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def rename_static(self, member: ClassicMember, member_id: str) -> None:
        """Give the place of a static member to its next incarnation (KIP-345)."""
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
        """Let somebody lead who has joined; False if nobody has."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.joining is None:
            joined = (each for each in self.members.values() if each.joining is not None)
            elected = next(joined, None)
            if elected is None:
                return False
            self.leader = elected.member_id
        return True

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member of an id.

        Raises:
            FencedInstanceIdError: A newer incarnation of a static member has taken its place.
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
        """Whether somebody of that kind can agree with the members of now."""
        names = set(protocols)
        if self._state == EMPTY:
            return bool(protocol_type) and bool(names)
        agreed = names & self._candidates() if self.members else names
        return self.protocol_type == protocol_type and bool(agreed)

    def select_protocol(self) -> str:
        """The protocol that all support and most like best.

        Raises:
            RuntimeError: Nobody is in.
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
        if self._subscribed is None:  # of consumers who do not tell, anything may be read
            return self.protocol_type == CONSUMER
        return topic in self._subscribed

    def read_subscriptions(self) -> None:
        """Find out what the members read, if they are consumers and say so as consumers do."""
        self._subscribed = None
        if self.protocol_type == CONSUMER:
            told = [member.metadata(self.protocol_name) for member in self.members.values()]
            try:
                self._subscribed = frozenset().union(*map(_topics, told))
            except KafkaProtocolError:
                self._subscribed = None  # as Kafka: another kind of consumer, which nobody refuses

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
        """Refuse who is not of the generation of now.

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
        """Have the journal remember what outlives the members."""
        remembered: Mapping[str, object] = {
            "kind": self.kind,
            "generation": self.generation,
            "protocol_type": self.protocol_type,
            "since_ms": self.state_since_ms,
        }
        self.environment.journal.note("group", (self.group_id,), remembered)

    def recall(self, remembered: Mapping[str, Any]) -> None:
        """Take back what the journal remembers of an empty group."""
        self.generation = remembered["generation"]
        self.protocol_type = remembered["protocol_type"]
        self.state_since_ms = remembered["since_ms"]


def _place_in_hash_map(name: str) -> int:
    """Kafka counts the votes in a `HashMap`, and of equals takes the first in its order."""
    code = 0
    for character in name:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return (code ^ code >> 16) & 0xF


def _topics(subscription: bytes) -> list[str]:
    """The topics of a consumer's metadata; every version begins as version 0 does."""
    reader = Reader(subscription)
    reader.int16()  # the version
    return ConsumerProtocolSubscription.decode(reader, 0).topics
