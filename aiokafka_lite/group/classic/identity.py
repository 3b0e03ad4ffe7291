"""A classic member's place in its group: who it is there, and what it has asked the coordinator.
Sans-IO.

A place ends when the coordinator disowns it, or when it is given up; that begins a new *era*. What
was sent in an older era still gets its answer, which says nothing of the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from aiokafka_lite.group.classic import requests
from aiokafka_lite.group.classic.requests import JOIN, LEAVE, SYNC
from aiokafka_lite.group.membership import CommitIdentity, GroupMetadata, MembershipOptions, Send

__all__ = ["NOBODY", "NO_GENERATION", "Place", "Sent"]

NOBODY: Final = ""
"""The id of who has none yet."""

NO_GENERATION: Final = -1


class Sent(NamedTuple):
    """A request under way, and who sent it."""

    at: float
    era: int
    member_id: str
    generation: int


class Place:
    """Who a member is, and its requests.

    Attributes:
        member_id: Its id; "" while there is none.
        generation: Its generation; -1 outside of the group.
        protocol: Name of the generation's assignor.
        era: How many places of this member have ended.

    Args:
        options: The member's.
    """

    __slots__ = (
        "_farewells",
        "_in_flight",
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
        self._in_flight: dict[str, Sent] = {}
        self._farewells: list[tuple[str, str]] = []  # (member id, reason) of LeaveGroups to send

    @property
    def taken(self) -> bool:
        """True if it is in a generation."""
        return self.generation != NO_GENERATION

    @property
    def static(self) -> bool:
        """True if it outlasts the member's process (KIP-345)."""
        return self._options.group_instance_id is not None

    @property
    def identity(self) -> CommitIdentity | None:
        """The identity to commit with; None: as nobody."""
        if not self.taken:
            return None
        return CommitIdentity(self.member_id, self.generation, self._options.group_instance_id)

    @property
    def metadata(self) -> GroupMetadata:
        """The identity of this member, for transactions."""
        member_id = self.member_id if self.taken else NOBODY
        options = self._options
        return GroupMetadata(
            options.group_id, self.generation, member_id, options.group_instance_id
        )

    # --- its requests

    def asks(self, kind: str) -> bool:
        """True if a request of a kind is under way."""
        return kind in self._in_flight

    @property
    def waits_in_line(self) -> bool:
        """True if a request is under way that the coordinator may be long to answer."""
        return JOIN in self._in_flight or SYNC in self._in_flight

    @property
    def joins_as_nobody(self) -> bool:
        """True if the answer to a JoinGroup may bring an id that is to be given back."""
        joining = self._in_flight.get(JOIN)
        return joining is not None and joining.member_id == NOBODY and not self.static

    @property
    def departs(self) -> bool:
        """True if the coordinator is still to be told of a place given up."""
        return bool(self._farewells) or LEAVE in self._in_flight

    def join(self, protocols: Sequence[tuple[str, bytes]], reason: str, now: float) -> Send:
        """Ask for a place in the next generation."""
        return self._send(requests.join(self._options, self.member_id, protocols, reason), now)

    def sync(self, shares: Mapping[str, bytes], now: float) -> Send:
        """Ask for what comes with the place, having told the `shares` of all if it leads."""
        member_id, generation, protocol = self.member_id, self.generation, self.protocol
        step = requests.sync(self._options, member_id, generation, protocol, shares)
        return self._send(step, now)

    def heartbeat(self, now: float) -> Send:
        """Keep the place."""
        return self._send(requests.heartbeat(self._options, self.member_id, self.generation), now)

    def leave(self, now: float) -> Send | None:
        """Tell of the next place that was given up, if there is one."""
        if not self._farewells or LEAVE in self._in_flight:
            return None
        member_id, reason = self._farewells.pop(0)
        step = requests.leave(self._options, member_id, reason, apart=self.waits_in_line)
        return self._send(step, now)

    def _send(self, step: Send, now: float) -> Send:
        self._in_flight[step.kind] = Sent(now, self.era, self.member_id, self.generation)
        return step

    def on_outcome(self, kind: str) -> Sent:
        """A request is answered, or has failed."""
        return self._in_flight.pop(kind)

    # --- its begin and end

    def take(self, member_id: str, generation: int, protocol: str) -> None:
        """It is in a generation."""
        self.member_id = member_id
        self.generation = generation
        self.protocol = protocol

    def end(self, *, member_id: bool) -> None:
        """It is over.

        Args:
            member_id: And so is the id.
        """
        self.era += 1
        self.generation = NO_GENERATION
        if member_id:
            self.member_id = NOBODY

    def give_up(self, reason: str, *, tell: bool) -> None:
        """End it, or what is about to become one.

        Args:
            tell: The coordinator, by LeaveGroup; of a static member also while it joins without
                an id, since it is known by another one.
        """
        if tell and (self.member_id != NOBODY or (self.static and JOIN in self._in_flight)):
            self._farewells.append((self.member_id, reason))
        self.end(member_id=True)

    def decline(self, member_id: str, reason: str) -> None:
        """A place came that nobody wants any more."""
        self._farewells.append((member_id, reason))

    def forgo_farewells(self) -> None:
        """There is nobody to tell: the session's timeout will do."""
        self._farewells.clear()
