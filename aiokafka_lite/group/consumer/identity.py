"""A member's standing with its coordinator (KIP-848): as whom, in which epoch, what is under way.
Sans-IO.

A membership ends when the coordinator disowns it, or the member gives it up; that begins a new
*era*. What was sent in an older era still gets its answer, which says nothing of the new one.
"""

from __future__ import annotations

import base64
from typing import Final, NamedTuple
from uuid import UUID

from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.group.consumer.requests import (
    HEARTBEAT,
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Heartbeats,
)
from aiokafka_lite.group.consumer.target_assignment import LocalAssignment
from aiokafka_lite.group.membership import CommitIdentity, GroupMetadata, MembershipOptions, Send

__all__ = ["NO_EPOCH", "Sent", "Standing"]

NO_EPOCH: Final = -1
LEAVE_ATTEMPTS: Final = 3
"""Who cannot say that it leaves is forgotten when its session ends; stopping must not wait."""


class Sent(NamedTuple):
    """The heartbeat that is under way."""

    at: float
    era: int
    joins: bool
    leaves: bool


class Standing:
    """Who a member is, and its heartbeats.

    Attributes:
        member_id: Its id as the coordinator told it, the same for life; "" before that.
        epoch: 0 while it joins; -1 outside of the group.
        known: Whether the coordinator may know it. Under an id that it made itself it may be known
            without ever having got an answer.
        era: How many memberships have ended.

    Args:
        options: The member's.
        own_id: What its own id is made of; the coordinator makes another one in v0.
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

    def __init__(self, options: MembershipOptions, own_id: UUID) -> None:
        self._options = options
        self._own_id = base64.urlsafe_b64encode(own_id.bytes).rstrip(b"=").decode()  # as Kafka's
        self._heartbeats = Heartbeats(options, self._own_id)
        self._sent: Sent | None = None
        self._leaving_epoch = LEAVING_EPOCH
        self._leave_attempts = 0
        self.member_id = ""
        self.epoch = NO_EPOCH
        self.known = False
        self.era = 0

    @property
    def inside(self) -> bool:
        """True if it is in the group, as far as it knows."""
        return self.epoch > JOINING_EPOCH

    @property
    def generation(self) -> int:
        """Its epoch inside of the group, else -1."""
        return self.epoch if self.inside else NO_EPOCH

    @property
    def identity(self) -> CommitIdentity | None:
        """The identity to commit with; None: as nobody."""
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
        """True if a heartbeat is under way."""
        return self._sent is not None

    # heartbeats

    def heartbeat(
        self, topics: frozenset[str], pattern: str | None, owned: LocalAssignment, now: float
    ) -> Send:
        """Join, or go on."""
        joins = self.epoch == JOINING_EPOCH
        self.known = self.known or joins
        self._sent = Sent(now, self.era, joins, leaves=False)
        return self._heartbeats.heartbeat(self.member_id, self.epoch, topics, pattern, owned)

    def farewell(self, now: float) -> Send:
        """Leave."""
        self._sent = Sent(now, self.era, joins=False, leaves=True)
        return self._heartbeats.leave(self.member_id, self._leaving_epoch)

    def on_outcome(self, kind: str) -> Sent:
        """The heartbeat is answered, or has failed.

        Raises:
            IllegalStateError: There is none.
        """
        sent, self._sent = self._sent, None
        if sent is None or kind != HEARTBEAT:
            raise IllegalStateError(f"no {kind} is under way")
        return sent

    def on_named(self, member_id: str | None) -> None:
        """The coordinator answered, perhaps with the id that it has made."""
        self.member_id = member_id or self.member_id or self._own_id

    def on_doubt(self) -> None:
        """What was told may not have been heard: the next heartbeat tells everything."""
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
        """How it will leave.

        Args:
            stay: As of `Membership.close`.
        """
        static = self._options.group_instance_id is not None
        self._leaving_epoch = (
            STATIC_LEAVING_EPOCH if static and stay is not False else LEAVING_EPOCH
        )
        self._leave_attempts = 0
        if stay and not static:
            self.known = False  # it just falls silent

    def on_farewell_failed(self, *, again: bool) -> None:
        """The coordinator could not be told.

        Args:
            again: Trying again may help.
        """
        self._leave_attempts += 1
        if not again or self._leave_attempts >= LEAVE_ATTEMPTS:
            self.known = False

    def __str__(self) -> str:
        return f"member {self.member_id or self._own_id} of group {self._options.group_id!r}"
