"""The four requests of a classic member, as steps. Pure functions.

===========  ==========  ========================================================================
JoinGroup    v0-v9       v0 has no rebalance timeout; v5 static members (KIP-345); v8 a reason
                         (KIP-800)
SyncGroup    v0-v5       v3 static members; v5 demands the protocol's type and name (KIP-559)
Heartbeat    v0-v4       v3 static members
LeaveGroup   v0-v5       v0-v2 one member; v3 several, static ones too; v5 reasons
===========  ==========  ========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from aiokafka_lite.group.membership import MembershipOptions, Send
from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokafka_lite.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

HEARTBEAT: Final = "Heartbeat"
JOIN: Final = "JoinGroup"
LEAVE: Final = "LeaveGroup"
SYNC: Final = "SyncGroup"

PROTOCOL_TYPE: Final = "consumer"
"""Distinguishes consumer groups from other groups, such as Connect's."""

_LONGEST_REASON: Final = 255  # as in Java; brokers accept more
_SHARE_OF_SESSION: Final = 2 / 3
_AFTER_REBALANCE: Final = 5.0  # seconds for the response after the rebalance timeout


def join(
    options: MembershipOptions,
    member_id: str,
    protocols: Sequence[tuple[str, bytes]],
    reason: str,
) -> Send:
    """Join or rejoin. The response arrives when all members have joined.

    Args:
        protocols: Assignor names and their subscriptions, the preferred one first.
        reason: For the coordinator's log.
    """

    def request(version: int) -> Request:
        return JoinGroupRequest(
            options.group_id,
            round(options.session_timeout * 1000),
            round(options.effective_rebalance_timeout * 1000),
            member_id,
            options.group_instance_id,
            PROTOCOL_TYPE,
            [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
            reason[:_LONGEST_REASON],
        )

    oldest = 0 if options.group_instance_id is None else 5
    return Send(JOIN, JoinGroupRequest, request, _timeout(options), oldest)


def sync(
    options: MembershipOptions,
    member_id: str,
    generation: int,
    protocol: str,
    assignments: Mapping[str, bytes],
) -> Send:
    """Request this member's assignment. The response arrives when the leader has sent all of them.

    Args:
        assignments: All assignments, from the leader; {} from other members.
    """

    def request(version: int) -> Request:
        return SyncGroupRequest(
            options.group_id,
            generation,
            member_id,
            options.group_instance_id,
            PROTOCOL_TYPE,
            protocol,
            [SyncGroupRequestAssignment(member, share) for member, share in assignments.items()],
        )

    oldest = 0 if options.group_instance_id is None else 3
    return Send(SYNC, SyncGroupRequest, request, _timeout(options), oldest)


def heartbeat(options: MembershipOptions, member_id: str, generation: int) -> Send:
    """Keep the session alive; the response shows whether the member must rejoin."""

    def request(version: int) -> Request:
        return HeartbeatRequest(options.group_id, generation, member_id, options.group_instance_id)

    oldest = 0 if options.group_instance_id is None else 3
    return Send(HEARTBEAT, HeartbeatRequest, request, _promptly(options), oldest)


def leave(options: MembershipOptions, member_id: str, reason: str, *, apart: bool) -> Send:
    """Leave the group.

    Args:
        apart: True if a JoinGroup or SyncGroup is in flight, which it must not wait for.
    """

    def request(version: int) -> Request:
        if version < 3:
            return LeaveGroupRequest(options.group_id, member_id)
        who = MemberIdentity(member_id, options.group_instance_id, reason[:_LONGEST_REASON])
        return LeaveGroupRequest(options.group_id, members=[who])

    oldest = 0 if options.group_instance_id is None else 3
    return Send(LEAVE, LeaveGroupRequest, request, _promptly(options), oldest, apart)


def _timeout(options: MembershipOptions) -> float:
    """Timeout of a request that waits for other members, in seconds."""
    return max(options.request_timeout, options.effective_rebalance_timeout + _AFTER_REBALANCE)


def _promptly(options: MembershipOptions) -> float:
    """Timeout of a request that is answered at once, in seconds. If a heartbeat's connection is
    dead, time remains for another one, over a new connection, before the session ends."""
    return min(options.request_timeout, options.session_timeout * _SHARE_OF_SESSION)
