"""Members of groups on a socketless broker: pending requests are inspected, never awaited."""

from typing import Any

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest
from aiokafka_lite.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokafka_lite.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from aiokafka_lite.testing.context import Delayed
from tests.unit.testing.raw import SocketlessBroker

MEMBER_ID_REQUIRED = 79


class Asked:
    """A request that may still wait for its answer."""

    def __init__(self, broker: SocketlessBroker, request: Request, version: int, node: int) -> None:
        self._answer = broker.begin(request, version, node)

    @property
    def answer(self) -> Any:
        """The response, or None while it waits."""
        if isinstance(self._answer, Delayed):
            return self._answer.take_if_ready()
        return self._answer

    @property
    def code(self) -> int | None:
        """Its error code, or None while it waits."""
        answer = self.answer
        return None if answer is None else int(answer.error_code)


class FakeMember:
    """A client of the newest version; its fields may be changed at will."""

    def __init__(self, broker: SocketlessBroker, group: str = "g", **fields: Any) -> None:
        self.broker = broker
        self.group = group
        self.node = 0
        self.member_id = ""
        self.generation = -1
        self.instance_id: str | None = None
        self.protocol_type = "consumer"
        self.protocols = [("range", b"r")]
        self.session_timeout_ms = 10_000
        self.rebalance_timeout_ms = 60_000
        self.version = 9
        self.asked: Asked | None = None
        for name, value in fields.items():
            setattr(self, name, value)

    def begin_join(self) -> Asked:
        """JoinGroup, with a prior request for a member id if necessary."""
        asked = self._join()
        if asked.code == MEMBER_ID_REQUIRED:
            self.member_id = asked.answer.member_id
            asked = self._join()
        self.asked = asked
        return asked

    def _join(self) -> Asked:
        request = JoinGroupRequest(
            self.group,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.member_id,
            self.instance_id,
            self.protocol_type,
            [JoinGroupRequestProtocol(*protocol) for protocol in self.protocols],
        )
        return Asked(self.broker, request, self.version, self.node)

    def joined(self) -> Any:
        """The response to the join, which must have arrived."""
        assert self.asked is not None
        answer = self.asked.answer
        assert answer is not None, "it still waits"
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    def join(self) -> Any:
        self.begin_join()
        return self.joined()

    def begin_sync(self, *shares: tuple[str, bytes]) -> Asked:
        shared = [SyncGroupRequestAssignment(*share) for share in shares]
        request = SyncGroupRequest(
            self.group, self.generation, self.member_id, self.instance_id, assignments=shared
        )
        return Asked(self.broker, request, 4, self.node)

    def beat(self) -> int:
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance_id)
        return int(self.broker.ask(request, 4, self.node).error_code)

    def leave(self) -> int:
        who = MemberIdentity(self.member_id, self.instance_id)
        (answer,) = self.broker.ask(
            LeaveGroupRequest(self.group, members=[who]), 5, self.node
        ).members
        return int(answer.error_code)


def form(leader: FakeMember, *others: FakeMember) -> None:
    """Let all join and sync; the group is then stable, and the first member is its leader."""
    for member in (leader, *others):
        member.begin_join()
    if others:
        leader.begin_join()
    for member in (leader, *others):
        member.joined()
    waiting = [other.begin_sync() for other in others]
    shares = [(member.member_id, member.member_id.encode()) for member in (leader, *others)]
    assert leader.begin_sync(*shares).code == 0
    assert [asked.code for asked in waiting] == [0] * len(others)
