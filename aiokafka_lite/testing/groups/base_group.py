"""The base class of all groups, with the requests of the classic protocol.

A group of another kind answers classic requests as Kafka does. The defaults are here; a consumer
group, which classic members may join (KIP-848), overrides them.
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
from aiokafka_lite.testing.groups.committed_offsets import GroupOffsets
from aiokafka_lite.testing.groups.reply import Reply

__all__ = ["NO_MEMBER", "Group", "GroupKind", "Joiner", "PartitionCheck", "refused_join"]

GroupKind: TypeAlias = Literal["classic", "consumer", "share"]
PartitionCheck: TypeAlias = Callable[[str, int], None]
"""Raises an error if the commit of a topic's partition is not allowed."""

NO_MEMBER: Final = ""  # the member id before one is assigned


class Joiner:
    """The client that asks to join, as the broker sees it.

    Attributes:
        client_id: From the request's header; "" if absent.
        client_host: As shown in descriptions ("/127.0.0.1").
        knows_member_id: True if the client rejoins with the id it receives (JoinGroup v4+,
            KIP-394).
        skips_assignment: True if the client supports `skip_assignment` (JoinGroup v9+, KIP-814).
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
    """A group.

    Args:
        group_id: The group id.
        offsets: Its committed offsets, owned by `Groups.offsets_of` because they outlive a change
            of the group's kind.
    """

    kind: ClassVar[GroupKind]

    def __init__(self, group_id: str, offsets: GroupOffsets) -> None:
        self.group_id = group_id
        self.offsets = offsets

    # State

    @property
    @abstractmethod
    def state(self) -> str:
        """Kafka's name of the state: "Empty", "Stable", "Dead"; for classic groups also
        "PreparingRebalance" and "CompletingRebalance", for consumer groups "Assigning" and
        "Reconciling"."""

    @property
    def is_empty(self) -> bool:
        """True if the group has no members."""
        return self.state == "Empty"

    @abstractmethod
    def subscribed_topics(self) -> frozenset[str] | None:
        """The members' topics; None if unknown, as in groups of other protocol types."""

    def is_subscribed(self, topic: str) -> bool:
        """Return True if members read a topic, which keeps its offsets."""
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
        """Check that a commit comes from a current member.

        Args:
            member_id: "" for a client outside the group.
            generation_or_epoch: The generation of a classic member, or the epoch of another; -1
                for a client outside the group.
            instance_id: The instance id of a static member.
            transactional: True for TxnOffsetCommit.
            version: Request version; before OffsetCommit v9, clients do not know epochs.

        Returns:
            A further check for each partition, or None.

        Raises:
            BrokerResponseError: The error for the client.
        """

    @abstractmethod
    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that an offset fetch comes from a current member; epoch -1 needs no membership.

        Raises:
            BrokerResponseError: The error for the client.
        """

    def expire_offsets(self, now_ms: int, retention_ms: int) -> bool:
        """Delete expired offsets; return True if none remain."""
        return self.offsets.expire(now_ms, retention_ms, self.is_subscribed)

    def on_offset_commit(self, member_id: str) -> None:  # noqa: B027 (most need not know)
        """Renew the session of a member that committed."""

    # Requests of the classic protocol

    def on_join(
        self, request: JoinGroupRequest, joiner: Joiner, reply: Reply[JoinGroupResponse]
    ) -> None:
        """Handle JoinGroup; `reply` may wait until the other members have joined."""
        reply.send(refused_join(InconsistentGroupProtocolError.errno))

    def on_sync(self, request: SyncGroupRequest, reply: Reply[SyncGroupResponse]) -> None:
        """Handle SyncGroup; `reply` may wait for the leader's assignment."""
        reply.send(SyncGroupResponse(error_code=UnknownMemberIdError.errno))

    def on_heartbeat(self, request: HeartbeatRequest) -> None:
        """Handle Heartbeat.

        Raises:
            BrokerResponseError: The error for the member.
        """
        raise UnknownMemberIdError(f"group {self.group_id!r} has no classic members")

    def on_leave(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        """Handle LeaveGroup of one or several members; return one response for each.

        Raises:
            BrokerResponseError: The error for the whole request.
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

    # Coordinator changes and deletion

    def on_coordinator_moved(self) -> None:  # noqa: B027 (most hold nothing that waits)
        """A broker becomes the group's coordinator."""

    def on_coordinator_lost(self) -> None:  # noqa: B027 (most hold nothing that waits)
        """No broker coordinates the group: nothing expires until one does."""

    def close(self) -> None:  # noqa: B027 (most have no timer)
        """Cancel the timers and answer waiting members; the group is deleted or replaced."""


def refused_join(error_code: int, member_id: str = NO_MEMBER) -> JoinGroupResponse:
    """Return the response to a failed join."""
    return JoinGroupResponse(error_code=error_code, member_id=member_id, protocol_name=None)
