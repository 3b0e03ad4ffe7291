"""Members of classic groups, which scenarios let join, assign partitions and leave."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka_lite.errors import MemberIdRequired
from aiokafka_lite.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokafka_lite.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.conformance.target import Target

__all__ = ["SHORT_REBALANCE_MS", "Member", "new_group", "subscription"]

REBALANCE_IN_PROGRESS = 27

SHORT_REBALANCE_MS = 6_000
"""The rebalance timeout of members that a scenario lets miss it. What has to happen before it still
happens in time if a process pauses for some seconds."""

NOT_YET = (14, 15, 16)  # a new coordinator is loading, and may not know yet that it is one


async def new_group(target: Target) -> str:
    """The name of a group with a working coordinator."""
    group = target.unique("group")
    await target.coordinator_of(group)
    async with asyncio.timeout(20):
        while (await target.quietly(SyncGroupRequest(group), 4)).error_code in NOT_YET:
            await asyncio.sleep(0.05)
    return group


def subscription(*topics: str) -> bytes:
    """A consumer's metadata."""
    encoded = bytearray(b"\x00\x00")
    ConsumerProtocolSubscription(list(topics)).encode(encoded, 0)
    return bytes(encoded)


class Member:
    """One client with its own connection.

    Args:
        target: Where the group is.
        group: Its id.
        name: Of the connection.
        protocols: (name, metadata) of each that it supports.
        version: The version of JoinGroup; the other requests use the versions of the same release.
    """

    def __init__(
        self,
        target: Target,
        group: str,
        name: str,
        *,
        protocols: Sequence[tuple[str, bytes]] = (("range", b"r"),),
        protocol_type: str = "consumer",
        instance_id: str | None = None,
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int = 30_000,
        version: int = 9,
    ) -> None:
        self.target = target
        self.group = group
        self.name = name
        self.protocols = protocols
        self.protocol_type = protocol_type
        self.instance_id = instance_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.version = version
        self.member_id = ""
        self.generation = -1
        self.protocol_name: str | None = protocols[0][0] if protocols else None
        self._join: asyncio.Task[Any] | None = None
        self._sync: asyncio.Task[Any] | None = None

    # JoinGroup

    def join_request(self) -> JoinGroupRequest:
        protocols = [JoinGroupRequestProtocol(*protocol) for protocol in self.protocols]
        timeouts = (self.session_timeout_ms, self.rebalance_timeout_ms)
        who = (self.member_id, self.instance_id, self.protocol_type)
        return JoinGroupRequest(self.group, *timeouts, *who, protocols)

    async def meet(self) -> None:
        """Request a member id, if the version requires it."""
        if self.version >= 4 and self.instance_id is None and not self.member_id:
            response = await self.target.ask(self.join_request(), self.version, self.name)
            assert response.error_code == MemberIdRequired.errno
            self.member_id = response.member_id

    async def begin_join(self) -> None:
        """Send a JoinGroup that may have to wait."""
        await self.meet()
        self._join = self.target.start(self.join_request(), self.version, self.name)

    async def joined(self) -> Any:
        """The answer to it."""
        assert self._join is not None
        response = await self.target.settle(self._join)
        if not response.error_code:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.protocol_name = response.protocol_name
        self._join = None
        return response

    async def join(self) -> Any:
        await self.begin_join()
        return await self.joined()

    async def waits_to_join(self) -> None:
        assert self._join is not None
        await self.target.waits(self._join)

    # SyncGroup

    def sync_request(
        self, shares: dict[str, bytes] | None = None, **fields: Any
    ) -> SyncGroupRequest:
        shared = [SyncGroupRequestAssignment(*share) for share in (shares or {}).items()]
        request = SyncGroupRequest(
            self.group, self.generation, self.member_id, self.instance_id, assignments=shared
        )
        if self.sync_version >= 5:
            request.protocol_type, request.protocol_name = self.protocol_type, self.protocol_name
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    @property
    def sync_version(self) -> int:
        return {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 3, 6: 4}.get(self.version, 5)

    def begin_sync(self, shares: dict[str, bytes] | None = None, **fields: Any) -> None:
        request = self.sync_request(shares, **fields)
        self._sync = self.target.start(request, self.sync_version, self.name)

    async def synced(self) -> Any:
        assert self._sync is not None
        response = await self.target.settle(self._sync)
        self._sync = None
        return response

    async def sync(self, shares: dict[str, bytes] | None = None, **fields: Any) -> Any:
        self.begin_sync(shares, **fields)
        return await self.synced()

    async def waits_to_sync(self) -> None:
        assert self._sync is not None
        await self.target.waits(self._sync)

    # Heartbeat and LeaveGroup

    @property
    def heartbeat_version(self) -> int:
        return {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 3}.get(self.version, 4)

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(self.group, self.generation, self.member_id, self.instance_id)

    async def beat(self) -> Any:
        return await self.target.ask(self.heartbeat_request(), self.heartbeat_version, self.name)

    async def beat_until(self, code: int = REBALANCE_IN_PROGRESS) -> Any:
        return await self.target.until(
            self.heartbeat_request(),
            self.heartbeat_version,
            lambda response: response.error_code == code,
            self.name,
        )

    async def leave(self, version: int = 5) -> Any:
        identity = MemberIdentity(self.member_id, self.instance_id)
        if version < 3:
            request = LeaveGroupRequest(self.group, self.member_id)
        else:
            request = LeaveGroupRequest(self.group, members=[identity])
        return await self.target.ask(request, version, self.name)
