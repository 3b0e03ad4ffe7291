"""Logs a member's life cycle: one INFO line for each change, in both protocols.

The driver passes each step that it begins and calls `look` first, so the lines are in the order of
the events. Repeated attempts are logged once. Arguments of a log record are strings, because a
handler may format it after the member's state has changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum
from typing import Final

from aiokafka_lite.group.membership import (
    Assign,
    Elect,
    FindCoordinator,
    Lost,
    Membership,
    MembershipOptions,
    Revoke,
    Send,
    Step,
)
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest
from aiokafka_lite.structs import TopicPartition

__all__ = ["GroupLife", "named"]

log: Final = logging.getLogger(__name__)

_JOIN_WITH_REASON: Final = 8
_LEAVE_WITH_REASON: Final = 5
_OUT: Final = frozenset({"unsubscribed", "closed", "idle", "stale"})
"""States of either machine in which it is not a member and requests nothing."""


class GroupLife:
    """Logs the life of one member.

    Args:
        options: The membership's options.
        membership: The machine.
    """

    def __init__(self, options: MembershipOptions, membership: Membership) -> None:
        self._client_id = options.client_id
        self._group = options.group_id
        self._static = options.group_instance_id is not None
        self._fields = options.log_fields
        self._membership = membership
        self._state: Enum = membership.state
        self._member_id = ""
        self._generation = -1
        self._joining: str | None = None  # the reason that was logged, until the member has joined
        self._searching = False
        self._coordinator: int | None = None

    def look(self) -> None:
        """Log a change of the machine's state, if there is one."""
        membership = self._membership
        state, generation = membership.state, membership.generation
        if generation != self._generation:
            self._generation = generation
            if generation >= 0:
                self._member_id = membership.member_id
                self._joining = None
                self._on_generation(generation)
        if state is not self._state:
            self._state = state
            if membership.broker_assigns and state.value == "joining":
                self._on_join(membership.member_id, "it is subscribed")
            elif state.value in _OUT:
                self._on_out()

    def on_step(self, step: Step) -> None:
        """Log a step that begins."""
        self.look()
        match step:
            case Send(kind="JoinGroup"):
                request = step.request_for(_JOIN_WITH_REASON)
                if isinstance(request, JoinGroupRequest) and request.reason != self._joining:
                    self._joining = request.reason
                    self._on_join(request.member_id, request.reason)
            case Send(kind="LeaveGroup"):
                request = step.request_for(_LEAVE_WITH_REASON)
                if isinstance(request, LeaveGroupRequest):
                    for each in request.members:
                        text = "%s: leaving group %s as member %s: %s"
                        member_id = each.member_id
                        arguments = (self._client_id, self._group, member_id, each.reason)
                        log.info(text, *arguments, extra=self._extra(member_id))
            case FindCoordinator():
                if self._coordinator is not None and not self._searching:
                    text = "%s: group %s lost its coordinator, broker %s; looking for the new one"
                    extra = {**self._extra(), "kafka_broker": self._coordinator}
                    log.info(text, self._client_id, self._group, self._coordinator, extra=extra)
                self._searching = True
            case Elect(protocol, members, skip):
                what = "the assignment is kept" if skip else f"assigning with {protocol}"
                text = "%s: leader of %d members; %s"
                log.info(text, str(self), len(members), what, extra=self._extra())
            case Revoke(gone) if gone:
                log.info("%s: revoking %s", str(self), named(gone), extra=self._extra())
            case Lost(gone):
                log.info("%s: lost %s", str(self), named(gone), extra=self._extra())
            case Assign(added, everything):
                new = named(added)
                text = "%s: assigned %s (new: %s)"
                log.info(text, str(self), named(everything), new, extra=self._extra())

    def on_coordinator(self, node_id: int | None) -> None:
        """Log the coordinator that was found, by node id."""
        if self._searching and node_id is not None:
            text = "%s: the coordinator of group %s is broker %d"
            extra = {**self._extra(), "kafka_broker": node_id}
            log.info(text, self._client_id, self._group, node_id, extra=extra)
        self._searching = False
        self._coordinator = node_id

    def _on_join(self, member_id: str, reason: str | None) -> None:
        who = f"as member {member_id}" if member_id else "as a new member"
        text = "%s: joining group %s %s: %s"
        why = reason or "unknown reason"
        log.info(text, self._client_id, self._group, who, why, extra=self._extra(member_id))

    def _on_generation(self, generation: int) -> None:
        membership = self._membership
        if membership.broker_assigns:
            text = "%s: member %s of group %s is in member epoch %d"
            member = (self._member_id, self._group, generation)
            log.info(text, self._client_id, *member, extra=self._extra())
        else:
            text = "%s: joined group %s as member %s in generation %d, protocol %s"
            joined = (self._group, self._member_id, generation, membership.protocol)
            log.info(text, self._client_id, *joined, extra=self._extra())

    def _on_out(self) -> None:
        if self._member_id:
            text = "%s: member %s left group %s"
            if self._static:
                text = "%s: static member %s stopped and stays in group %s for the session timeout"
            log.info(text, self._client_id, self._member_id, self._group, extra=self._extra())
        self._member_id = ""
        self._joining = None

    def _extra(self, member_id: str = "") -> dict[str, object]:
        """Further attributes of a log record; by default with the current member id."""
        return {**self._fields, "kafka_member_id": member_id or self._member_id}

    def __str__(self) -> str:
        parts = [f"{self._client_id}: group {self._group}"]
        if self._member_id:
            parts.append(f"member {self._member_id}")
        if self._generation >= 0:
            what = "member epoch" if self._membership.broker_assigns else "generation"
            parts.append(f"{what} {self._generation}")
        return ", ".join(parts)


def named(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic, consecutive numbers as ranges: "orders 0-3, 7; other 0"."""
    by_topic: dict[str, list[list[int]]] = {}
    for topic, partition in sorted(partitions):
        ranges = by_topic.setdefault(topic, [])
        if ranges and ranges[-1][1] == partition - 1:
            ranges[-1][1] = partition
        else:
            ranges.append([partition, partition])
    topics = []
    for topic, ranges in by_topic.items():
        numbers = (f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)
        topics.append(f"{topic} {', '.join(numbers)}")
    return "; ".join(topics) or "none"
