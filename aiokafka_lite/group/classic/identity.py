"""A classic member's place in its group: its identity there, and its pending requests. Sans-IO.

A place ends when the coordinator rejects the member, or when the member gives it up; that begins a
new *era*. Responses to requests of an older era do not affect the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from aiokafka_lite.group.classic import requests
from aiokafka_lite.group.classic.requests import JOIN, LEAVE, SYNC
from aiokafka_lite.group.group_metadata import GroupMetadata
from aiokafka_lite.group.membership import CommitIdentity, MembershipOptions, Send

__all__ = ["NOBODY", "NO_GENERATION", "MemberIdentity", "Sent"]

NOBODY: Final = ""
"""The member id before the coordinator assigns one."""

NO_GENERATION: Final = -1


class Sent(NamedTuple):
    """A request in flight, and the identity that sent it."""

    at: float
    era: int
    member_id: str
    generation: int


class MemberIdentity:
    """A member's identity and its requests.

    Attributes:
        member_id: The member id; "" if there is none.
        generation: The generation; -1 outside of the group.
        protocol: Name of the generation's assignor.
        era: Number of places of this member that have ended.

    Args:
        options: Options of the member.
    """

    __slots__ = (
        "_farewells",
        "_in_flight",
        "_metadata",
        "_options",
        "era",
        "generation",
        "member_id",
        "protocol",
    )

    def __init__(self, options: MembershipOptions) -> None:
        self._options = options
        self.member_id = NOBODY
        self.generation = NO_GENERATION
        self.protocol = ""
        self.era = 0
        self._metadata: GroupMetadata | None = None  # the last result of `metadata`
        self._in_flight: dict[str, Sent] = {}
        self._farewells: list[tuple[str, str]] = []  # (member id, reason) of LeaveGroups to send

    @property
    def taken(self) -> bool:
        """True if the member is in a generation."""
        return self.generation != NO_GENERATION

    @property
    def static(self) -> bool:
        """True for a static member, whose place outlasts its process (KIP-345)."""
        return self._options.group_instance_id is not None

    @property
    def identity(self) -> CommitIdentity | None:
        """The identity to commit with; None if there is none."""
        if not self.taken:
            return None
        return CommitIdentity(self.member_id, self.generation, self._options.group_instance_id)

    @property
    def metadata(self) -> GroupMetadata:
        """The identity of this member, for transactions."""
        generation = self.generation
        member_id = self.member_id if generation != NO_GENERATION else NOBODY
        last = self._metadata
        if last is None or last.generation != generation or last.member_id != member_id:
            options = self._options
            self._metadata = last = GroupMetadata(
                options.group_id, generation, member_id, options.group_instance_id
            )
        return last

    # --- its requests

    def asks(self, kind: str) -> bool:
        """True if a request of a kind is in flight."""
        return kind in self._in_flight

    @property
    def waits_in_line(self) -> bool:
        """True if a request is in flight that the coordinator may hold for a long time."""
        return JOIN in self._in_flight or SYNC in self._in_flight

    @property
    def joins_as_nobody(self) -> bool:
        """True if a JoinGroup response may bring a member id that must be given back."""
        joining = self._in_flight.get(JOIN)
        return joining is not None and joining.member_id == NOBODY and not self.static

    @property
    def departs(self) -> bool:
        """True if a LeaveGroup is pending for an abandoned place."""
        return bool(self._farewells) or LEAVE in self._in_flight

    def join(self, protocols: Sequence[tuple[str, bytes]], reason: str, now: float) -> Send:
        """Request a place in the next generation."""
        return self._send(requests.join(self._options, self.member_id, protocols, reason), now)

    def sync(self, shares: Mapping[str, bytes], now: float) -> Send:
        """Request this member's assignment; a leader sends the assignments of all in `shares`."""
        member_id, generation, protocol = self.member_id, self.generation, self.protocol
        step = requests.sync(self._options, member_id, generation, protocol, shares)
        return self._send(step, now)

    def heartbeat(self, now: float) -> Send:
        """Keep the place."""
        return self._send(requests.heartbeat(self._options, self.member_id, self.generation), now)

    def leave(self, now: float) -> Send | None:
        """The LeaveGroup for the next abandoned place, or None."""
        if not self._farewells or LEAVE in self._in_flight:
            return None
        member_id, reason = self._farewells.pop(0)
        step = requests.leave(self._options, member_id, reason, apart=self.waits_in_line)
        return self._send(step, now)

    def _send(self, step: Send, now: float) -> Send:
        self._in_flight[step.kind] = Sent(now, self.era, self.member_id, self.generation)
        return step

    def on_outcome(self, kind: str) -> Sent:
        """A request was answered or failed."""
        return self._in_flight.pop(kind)

    # --- its beginning and end

    def take(self, member_id: str, generation: int, protocol: str) -> None:
        """The member is in a generation."""
        self.member_id = member_id
        self.generation = generation
        self.protocol = protocol

    def end(self, *, member_id: bool) -> None:
        """End the place.

        Args:
            member_id: Also discard the member id.
        """
        self.era += 1
        self.generation = NO_GENERATION
        if member_id:
            self.member_id = NOBODY

    def give_up(self, reason: str, *, leave: bool) -> None:
        """Abandon the place, or the one that a pending join may bring.

        Args:
            leave: Send a LeaveGroup; for a static member also while it joins without a member id,
                because the coordinator has it under another id.
        """
        if leave and (self.member_id != NOBODY or (self.static and JOIN in self._in_flight)):
            self._farewells.append((self.member_id, reason))
        self.end(member_id=True)

    def decline(self, member_id: str, reason: str) -> None:
        """Decline a place that is no longer wanted."""
        self._farewells.append((member_id, reason))

    def forgo_farewells(self) -> None:
        """Drop pending LeaveGroups; the session timeout ends those places."""
        self._farewells.clear()
