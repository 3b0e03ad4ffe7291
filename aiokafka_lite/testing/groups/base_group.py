"""What every kind of group has, and what a client of the classic protocol may ask of any of them.

A group of another kind than asked for answers as Kafka does: its defaults are here, and the kind
that can do better (a consumer group that classic members join, KIP-848) overrides them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, Literal, TypeAlias

from aiokafka_lite.errors import (
    InconsistentGroupProtocolError,
    UnknownMemberIdError,
)
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from aiokafka_lite.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lite.testing.groups.group_offsets import GroupOffsets
from aiokafka_lite.testing.groups.reply import Reply

__all__ = ["NO_MEMBER", "Group", "GroupKind", "Joiner", "PartitionCheck", "refused_join"]

GroupKind: TypeAlias = Literal["classic", "consumer"]
PartitionCheck: TypeAlias = Callable[[str, int], None]
"""Told topic and partition, raises what refuses the commit of it."""

NO_MEMBER: Final = ""  # the member id of who has none yet


class Joiner:
    """Who asks to join, as the broker sees the connection.

    Attributes:
        client_id: Of the request's header; "" without.
        client_host: As descriptions show it ("/127.0.0.1").
        knows_member_id: The client joins again with the id that it is given (JoinGroup v4+,
            KIP-394).
        skips_assignment: The client knows of `skip_assignment` (JoinGroup v9+, KIP-814).
    """

    __slots__ = ("client_host", "client_id", "knows_member_id", "skips_assignment")

    def __init__(
        self,
        client_id: str,
        client_host: str,
        *,
        knows_member_id: bool = True,
        skips_assignment: bool = True,
    ) -> None:
        self.client_id = client_id
        self.client_host = client_host
        self.knows_member_id = knows_member_id
        self.skips_assignment = skips_assignment


class Group(ABC):
    """One group.

    Args:
        group_id: Its name.
        offsets: What it committed; `Groups.offsets_of` has it, as it outlives a group's kind.
    """

    kind: ClassVar[GroupKind]

    def __init__(self, group_id: str, offsets: GroupOffsets) -> None:
        self.group_id = group_id
        self.offsets = offsets

    # What it is

    @property
    @abstractmethod
    def state(self) -> str:
        """As Kafka names it: "Empty", "Stable", "Dead"; "PreparingRebalance" and
        "CompletingRebalance" of a classic group, "Assigning" and "Reconciling" of a consumer
        group."""

    @property
    def is_empty(self) -> bool:
        """It has no members."""
        return self.state == "Empty"

    @abstractmethod
    def subscribed_topics(self) -> frozenset[str] | None:
        """What its members read; None if that is not known, as of other protocols' groups."""

    def is_subscribed(self, topic: str) -> bool:
        """Whether members read a topic, so that its offsets are neither expired nor deleted."""
        return topic in (self.subscribed_topics() or ())

    # Offsets

    @abstractmethod
    def check_commit(
        self,
        member_id: str,
        generation_or_epoch: int,
        instance_id: str | None,
        *,
        transactional: bool,
        version: int = 9,
    ) -> PartitionCheck | None:
        """Refuse the commit of who is not a member of now.

        Args:
            member_id: "" of a client outside of the group.
            generation_or_epoch: A classic member's generation, another's epoch; -1 outside.
            instance_id: A static member's name.
            transactional: It came by TxnOffsetCommit.
            version: Of the request; before OffsetCommit v9 nobody knows epochs.

        Returns:
            A check that has to be passed by each partition beside, if there is one.

        Raises:
            BrokerResponseError: What the client is answered.
        """

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Refuse to tell offsets to who is not a member of now; epoch -1: anybody may ask.

        Raises:
            BrokerResponseError: What the client is answered.
        """

    def expire_offsets(self, now_ms: int, retention_ms: int) -> bool:
        """Forget the offsets that have been kept long enough; True if none is left."""
        return self.offsets.expire(now_ms, retention_ms, self.is_subscribed)

    def on_offset_commit(self, member_id: str) -> None:  # noqa: B027 (most need not know)
        """A member committed, which shows that it lives."""

    # What a client of the classic protocol asks

    def on_join(
        self, request: JoinGroupRequest, joiner: Joiner, reply: Reply[JoinGroupResponse]
    ) -> None:
        """JoinGroup; `reply` may stay open until the others have joined."""
        reply.send(refused_join(InconsistentGroupProtocolError.errno))

    def on_sync(self, request: SyncGroupRequest, reply: Reply[SyncGroupResponse]) -> None:
        """SyncGroup; `reply` may stay open until the leader has shared out."""
        reply.send(SyncGroupResponse(error_code=UnknownMemberIdError.errno))

    def on_heartbeat(self, request: HeartbeatRequest) -> None:
        """Heartbeat.

        Raises:
            BrokerResponseError: What the member is answered.
        """
        raise UnknownMemberIdError(f"group {self.group_id!r} has no classic members")

    def on_leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """LeaveGroup of one member or of several; an answer for each.

        Raises:
            BrokerResponseError: What the client is answered for all of it.
        """
        return LeaveGroupResponse(
            members=[
                MemberResponse(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    error_code=UnknownMemberIdError.errno,
                )
                for member in request.members
            ]
        )

    # The cluster's life

    def on_coordinator_moved(self) -> None:  # noqa: B027 (most hold nothing that waits)
        """A broker takes the group over: another one, or the first to come back."""

    def on_coordinator_lost(self) -> None:  # noqa: B027 (most hold nothing that waits)
        """No broker is left to coordinate the group: nothing expires until one takes it over."""

    def close(self) -> None:  # noqa: B027 (most have no timer)
        """The group is deleted or replaced: cancel its timers, answer who still waits."""


def refused_join(error_code: int, member_id: str = NO_MEMBER) -> JoinGroupResponse:
    """The answer to a join that failed."""
    return JoinGroupResponse(error_code=error_code, member_id=member_id, protocol_name=None)
