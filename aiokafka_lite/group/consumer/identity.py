"""A member's identity and epoch, and its heartbeat in flight (KIP-848). Sans-IO.

A membership ends when the coordinator rejects the member, or when the member gives it up; that
begins a new *era*. Responses to requests of an older era do not affect the new one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.group.consumer.requests import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    HeartbeatRequests,
    Heartbeats,
)
from aiokafka_lite.group.consumer.target_assignment import LocalAssignment
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.group.membership import CommitIdentity, MembershipOptions, Send

__all__ = ["NO_EPOCH", "MemberIdentity", "Sent"]

NO_EPOCH: Final = -1
LEAVE_ATTEMPTS: Final = 3
"""A member that cannot send its leave is removed when its session ends; stopping must not wait for
it."""


class Sent(NamedTuple):
    """The heartbeat in flight."""

    at: float
    era: int
    joins: bool
    leaves: bool


class MemberIdentity:
    """A member's identity and its heartbeats.

    Attributes:
        member_id: The member id as the coordinator returned it, the same for life; "" before that.
        epoch: 0 while it joins; -1 outside of the group.
        known: True if the coordinator may have the member. With a client-made id, this may be so
            even if no response ever arrived.
        era: Number of memberships that have ended.

    Args:
        options: Options of the member.
        own_id: Source of the client-made member id; in v0 the coordinator makes another one.
        heartbeats: Makes the requests, given the options and the client-made member id.
    """

    __slots__ = (
        "_heartbeats",
        "_leave_attempts",
        "_leaving_epoch",
        "_options",
        "_own_id",
        "_sent",
        "epoch",
        "era",
        "known",
        "member_id",
    )

    def __init__(
        self,
        options: MembershipOptions,
        own_id: UUID,
        heartbeats: Callable[[MembershipOptions, str], HeartbeatRequests] = Heartbeats,
    ) -> None:
        self._options = options
        self._own_id = base64.urlsafe_b64encode(own_id.bytes).rstrip(b"=").decode()  # as Kafka's
        self._heartbeats = heartbeats(options, self._own_id)
        self._sent: Sent | None = None
        self._leaving_epoch = LEAVING_EPOCH
        self._leave_attempts = 0
        self.member_id = ""
        self.epoch = NO_EPOCH
        self.known = False
        self.era = 0

    @property
    def inside(self) -> bool:
        """True if the member believes it is in the group."""
        return self.epoch > JOINING_EPOCH

    @property
    def generation(self) -> int:
        """The member epoch; -1 outside of the group."""
        return self.epoch if self.inside else NO_EPOCH

    @property
    def identity(self) -> CommitIdentity | None:
        """The identity to commit with; None if there is none."""
        if not self.inside:
            return None
        return CommitIdentity(self.member_id, self.epoch, self._options.group_instance_id)

    @property
    def metadata(self) -> GroupMetadata:
        """The identity of this member, for transactions."""
        options = self._options
        member_id = self.member_id if self.inside else ""
        return GroupMetadata(
            options.group_id, self.generation, member_id, options.group_instance_id
        )

    @property
    def asks(self) -> bool:
        """True if a heartbeat is in flight."""
        return self._sent is not None

    # heartbeats

    def heartbeat(
        self, topics: frozenset[str], pattern: str | None, owned: LocalAssignment, now: float
    ) -> Send:
        """The next heartbeat, which joins or continues."""
        joins = self.epoch == JOINING_EPOCH
        self.known = self.known or joins
        self._sent = Sent(now, self.era, joins, leaves=False)
        return self._heartbeats.heartbeat(self.member_id, self.epoch, topics, pattern, owned)

    def farewell(self, now: float) -> Send:
        """The heartbeat that leaves."""
        self._sent = Sent(now, self.era, joins=False, leaves=True)
        return self._heartbeats.leave(self.member_id, self._leaving_epoch)

    def on_outcome(self, kind: str) -> Sent:
        """The heartbeat in flight was answered or failed.

        Raises:
            IllegalStateError: There is none.
        """
        sent, self._sent = self._sent, None
        if sent is None or kind != self._heartbeats.kind:
            raise IllegalStateError(f"no {kind} is in flight")
        return sent

    def on_named(self, member_id: str | None) -> None:
        """The coordinator answered, possibly with a member id that it made."""
        self.member_id = member_id or self.member_id or self._own_id

    def on_doubt(self) -> None:
        """A heartbeat may have been lost: the next one sends everything."""
        self._heartbeats.forget()

    # begin and end

    def begin(self) -> None:
        """Join with the next heartbeat."""
        self.end()
        self.epoch = JOINING_EPOCH

    def end(self) -> None:
        """The membership is over."""
        self.era += 1
        self.epoch = NO_EPOCH
        self._heartbeats.forget()

    def plan_farewell(self, stay: bool | None) -> None:
        """Choose how the member leaves.

        Args:
            stay: As in `Membership.close`.
        """
        static = self._options.group_instance_id is not None
        self._leaving_epoch = (
            STATIC_LEAVING_EPOCH if static and stay is not False else LEAVING_EPOCH
        )
        self._leave_attempts = 0
        if stay and not static:
            self.known = False  # it only stops sending heartbeats

    def on_farewell_failed(self, *, again: bool) -> None:
        """The heartbeat that leaves failed.

        Args:
            again: True if a retry may help.
        """
        self._leave_attempts += 1
        if not again or self._leave_attempts >= LEAVE_ATTEMPTS:
            self.known = False

    def __str__(self) -> str:
        return f"member {self.member_id or self._own_id} of group {self._options.group_id!r}"
