"""The classic machine, state by state: every error code for every request, and what is never
sent."""

from collections.abc import Callable

import pytest

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import (
    AuthenticationFailedError,
    BrokerResponseError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    InconsistentGroupProtocolError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    for_code,
)
from aiokafka_lite.errors.table import CODES
from aiokafka_lite.group.assignment_data import Assignment, read_subscription, write_assignment
from aiokafka_lite.group.classic.machine import ClassicMembership, ClassicState
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    Assign,
    CommitIdentity,
    Elect,
    Fail,
    FindCoordinator,
    Lost,
    MembershipOptions,
    RebalanceProtocol,
    Revoke,
    Send,
    Step,
    TopicLayout,
)
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokafka_lite.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from aiokafka_lite.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from aiokafka_lite.protocol.messages.metadata import MetadataResponse
from aiokafka_lite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lite.structs import TopicPartition
from tests.unit.group.classic_drive import COOPERATIVE, EAGER, Spread

S = ClassicState
T = [TopicPartition("t", number) for number in range(4)]
NEWEST = {"JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4, "LeaveGroup": 5}
MEMBER_ID_REQUIRED, UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE, FENCED = 79, 25, 22, 27, 82

both = pytest.mark.parametrize("protocols", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])


class Script:
    """One machine, driven step by step; listeners return when the script lets them."""

    def __init__(
        self,
        protocols: frozenset[RebalanceProtocol] = EAGER,
        topics: frozenset[str] = frozenset({"t"}),
        **options: object,
    ) -> None:
        self.now = 1000.0
        backoff = Backoff(0.1, 1.0, jitter=0.0)
        self.machine = ClassicMembership(
            MembershipOptions("g", retry_backoff=backoff, **options),  # type: ignore[arg-type]
            [Spread("spread", protocols)],
        )
        self.machine.on_metadata({"t": TopicLayout(4)}, self.now)
        self.machine.on_subscription(topics, self.now)

    def step(self) -> Step | None:
        return self.machine.next_step(self.now)

    def steps(self) -> list[Step]:
        """All its current steps."""
        found = []
        while (step := self.step()) is not None:
            found.append(step)
        at = self.machine.next_wakeup(self.now)
        assert at is None or at > self.now
        return found

    def after(self, seconds: float) -> list[Step]:
        self.now += seconds
        return self.steps()

    def sent(self) -> list[str]:
        return [step.kind for step in self.steps() if isinstance(step, Send)]

    # the usual path

    def to_joining(self) -> None:
        found = self.steps()
        assert found[0] == FindCoordinator()
        if len(found) > 1:  # eager: a newcomer's listener
            assert found[1:] == [Revoke(frozenset())]
            self.machine.on_revoked(self.now)
        self.machine.on_coordinator(self.now)
        assert self.sent() == ["JoinGroup"]

    def joined(self, generation: int = 1, *, leads: bool = False, **fields: object) -> None:
        members = [JoinGroupResponseMember("me", None, b"")] if leads else []
        told: dict[str, object] = {
            "generation_id": generation,
            "protocol_type": "consumer",
            "protocol_name": "spread",
            "leader": "me" if leads else "another",
            "member_id": "me",
            "members": members,
            **fields,
        }
        self.machine.on_response("JoinGroup", JoinGroupResponse(**told), self.now)  # type: ignore[arg-type]

    def to_syncing(self) -> None:
        self.to_joining()
        self.joined()
        assert self.sent() == ["SyncGroup"]

    def synced(self, *partitions: TopicPartition, **fields: object) -> None:
        share = write_assignment(Assignment(partitions))
        response = SyncGroupResponse(0, 0, "consumer", "spread", share)
        for name, value in fields.items():
            setattr(response, name, value)
        self.machine.on_response("SyncGroup", response, self.now)

    def to_assigning(self, *partitions: TopicPartition) -> None:
        self.to_syncing()
        self.synced(*(partitions or T[:2]))
        (step,) = self.steps()
        assert isinstance(step, Assign)

    def to_stable(self, *partitions: TopicPartition) -> None:
        self.to_assigning(*partitions)
        self.machine.on_assigned(self.now)
        assert self.steps() == []
        assert self.machine.state is S.STABLE

    def to_revoking(self) -> None:
        """Cooperative: a part of its partitions moves to other members."""
        self.to_stable(*T[:2])
        self.machine.request_rejoin("test", self.now)
        assert self.sent() == ["JoinGroup"]
        self.joined(2)
        assert self.sent() == ["SyncGroup"]
        self.synced(T[0])
        assert self.steps() == [Revoke(frozenset({T[1]}))]

    def to_preparing(self) -> None:
        """Eager: everything is being revoked."""
        self.to_stable()
        self.machine.request_rejoin("test", self.now)
        (step,) = self.steps()
        assert isinstance(step, Revoke)

    def beat(self, code: int | None = 0) -> None:
        """A heartbeat is sent and answered."""
        while "Heartbeat" not in self.sent():
            at = self.machine.next_wakeup(self.now)
            assert at is not None
            self.now = at
        if code is not None:
            self.machine.on_response("Heartbeat", HeartbeatResponse(0, code), self.now)


def test_the_usual_path_request_by_request() -> None:
    script = Script()
    machine = script.machine
    assert script.steps() == [FindCoordinator(), Revoke(frozenset())]
    machine.on_coordinator(script.now)
    assert script.steps() == []  # the listener comes first
    machine.on_revoked(script.now)
    (join,) = script.steps()
    assert isinstance(join, Send)
    request = join.request_for(9)
    assert isinstance(request, JoinGroupRequest)
    assert (request.group_id, request.member_id, request.protocol_type) == ("g", "", "consumer")
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 10_000)
    assert request.reason == "subscribed"
    assert read_subscription(request.protocols[0].metadata).topics == ("t",)
    machine.on_response(
        "JoinGroup", JoinGroupResponse(0, MEMBER_ID_REQUIRED, member_id="me"), script.now
    )
    (join,) = script.steps()
    assert isinstance(join, Send)
    again = join.request_for(9)
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "me"
    script.joined(7, leads=True)
    assert machine.state is S.ELECTING
    (elect,) = script.steps()
    assert isinstance(elect, Elect)
    assert (elect.protocol, elect.skip) == ("spread", False)
    machine.on_elected({"me": b"share"}, script.now, ["t"])
    (sync,) = script.steps()
    assert isinstance(sync, Send)
    told = sync.request_for(5)
    assert isinstance(told, SyncGroupRequest)
    assert (told.generation_id, told.member_id) == (7, "me")
    assert (told.protocol_type, told.protocol_name) == ("consumer", "spread")
    assert [(each.member_id, each.assignment) for each in told.assignments] == [("me", b"share")]
    script.synced(*T)
    assert script.steps() == [Assign(frozenset(T), frozenset(T))]
    assert machine.state is S.ASSIGNING
    machine.on_assigned(script.now)
    assert machine.state is S.STABLE
    assert machine.commit_identity() == CommitIdentity("me", 7, None)
    assert machine.group_metadata() == ("g", 7, "me", None)
    (beat,) = script.after(3.0)
    assert isinstance(beat, Send)
    assert beat.timeout <= 10.0
    heartbeat = beat.request_for(4)
    assert isinstance(heartbeat, HeartbeatRequest)
    assert (heartbeat.generation_id, heartbeat.member_id) == (7, "me")
    machine.close(script.now)
    assert script.steps() == [Revoke(frozenset(T))]
    machine.on_revoked(script.now)
    (leave,) = script.steps()
    assert isinstance(leave, Send)
    left = leave.request_for(5)
    assert isinstance(left, LeaveGroupRequest)
    (who,) = left.members
    assert (who.member_id, who.reason) == ("me", "the consumer is being closed")
    old = leave.request_for(2)
    assert isinstance(old, LeaveGroupRequest)
    assert (old.member_id, old.members) == ("me", [])
    assert not machine.closed
    machine.on_response("LeaveGroup", LeaveGroupResponse(), script.now)
    assert script.steps() == []
    assert machine.closed
    machine.on_response("Heartbeat", HeartbeatResponse(0, UNKNOWN_MEMBER), script.now)
    assert script.steps() == []


def test_every_request_can_be_encoded_in_every_version() -> None:
    script = Script(group_instance_id="i")
    script.to_stable()
    script.beat()
    for kind, oldest in (("JoinGroup", 5), ("SyncGroup", 3), ("Heartbeat", 3), ("LeaveGroup", 3)):
        assert NEWEST[kind] >= oldest
    place = script.machine._identity
    for step in (
        place.join([("spread", b"")], "r", 0.0),
        place.sync({"me": b""}, 0.0),
        place.heartbeat(0.0),
    ):
        for version in range(step.request_class.max_version + 1):
            request = step.request_for(version)
            if version >= step.oldest:
                request.encode(bytearray(), version)
            else:
                with pytest.raises(UnsupportedVersionError):
                    request.encode(bytearray(), version)


# --- every error code


def expected_of_join(code: int) -> ClassicState:
    error = for_code(code)("")
    if code == FENCED:
        return S.FENCED
    if code in (UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE) or error.retriable:
        return S.PREPARING
    return S.FAILED


codes = pytest.mark.parametrize("code", sorted(set(CODES) - {0}), ids=lambda code: CODES[code][0])


@codes
@both
def test_every_error_of_join_group(code: int, protocols: frozenset[RebalanceProtocol]) -> None:
    script = Script(protocols)
    script.to_joining()
    answer = JoinGroupResponse(0, code, member_id="me")
    script.machine.on_response("JoinGroup", answer, script.now)
    if code == MEMBER_ID_REQUIRED:
        assert script.machine.state is S.PREPARING
        assert script.machine.counters.failed_rebalances == 0
    else:
        assert script.machine.state is expected_of_join(code)
        assert script.machine.counters.failed_rebalances == 1
    goes_on(script, code)


@codes
@both
def test_every_error_of_sync_group(code: int, protocols: frozenset[RebalanceProtocol]) -> None:
    script = Script(protocols)
    script.to_syncing()
    script.machine.on_response("SyncGroup", SyncGroupResponse(0, code), script.now)
    assert script.machine.state is expected_of_join(code)
    assert script.machine.member_id == ("" if code in (UNKNOWN_MEMBER, FENCED) else "me")
    goes_on(script, code)


def goes_on(script: Script, code: int) -> None:
    """Take all steps that follow an error of a join."""
    machine = script.machine
    if machine.state is S.FENCED:
        assert [type(step) for step in script.steps()] == [Fail]
        machine.retry(script.now)
        assert script.after(600) == []
        return
    if machine.state is S.FAILED:
        (step,) = script.steps()
        assert isinstance(step, Fail)
        assert type(step.error) is for_code(code)
        assert all(not isinstance(each, Send | FindCoordinator) for each in script.after(600))
        machine.retry(script.now)
        found = script.steps()
        if FindCoordinator() in found:  # the session is over, and with it its coordinator
            machine.on_coordinator(script.now)
            found = script.steps()
    else:
        found = script.after(1.5)
    if FindCoordinator() in found:
        machine.on_coordinator(script.now)
        found = script.after(1.5)
    assert [step.kind for step in found if isinstance(step, Send)][-1] == "JoinGroup"


@codes
@pytest.mark.parametrize("where", ["stable", "assigning", "revoking", "preparing", "electing"])
def test_every_error_of_a_heartbeat(code: int, where: str) -> None:
    script = Script(COOPERATIVE if where == "revoking" else EAGER)
    machine = script.machine
    if where == "electing":
        script.to_joining()
        script.joined(leads=True)
        script.steps()
    else:
        getattr(script, f"to_{where}")()
    before, held, sent_at = machine.state, machine.assignment, script.now
    script.beat(code)
    error = for_code(code)("")
    if code in (UNKNOWN_MEMBER, ILLEGAL_GENERATION):
        assert machine.state is S.PREPARING
        assert machine.generation == -1
        assert machine.member_id == ("" if code == UNKNOWN_MEMBER else "me")
        assert machine.commit_identity() is None
    elif code == FENCED:
        assert machine.state is S.FENCED
    elif code == REBALANCE:
        assert machine.state is before
        assert machine.rejoin_needed
        assert machine.generation > 0
    elif isinstance(error, AuthenticationFailedError) and where not in ("preparing", "electing"):
        assert machine.state is before
        assert isinstance(script.steps()[0], Fail)
        return
    elif error.fatal_to_consumer:
        assert machine.state is S.FAILED
    else:
        assert machine.state is before
        if error.retriable and FindCoordinator() in script.steps():
            machine.on_coordinator(script.now)
        script.beat()  # soon again
        assert script.now - sent_at < 4.0
        return
    lost = [step for step in through_listeners(script) if isinstance(step, Lost)]
    if code in (UNKNOWN_MEMBER, ILLEGAL_GENERATION, FENCED):
        rest = held - frozenset({T[1]}) if where == "revoking" else held
        if where == "preparing":
            rest = frozenset()  # given back already
        assert [step.partitions for step in lost] == ([rest] if rest else [])
    else:
        assert lost == []


def through_listeners(script: Script) -> list[Step]:
    """Its steps while every listener returns at once, the running one first."""
    machine, now = script.machine, script.now
    found: list[Step] = []
    ends: dict[type[Step], Callable[[float], None]] = {
        Revoke: machine.on_revoked,
        Lost: machine.on_lost,
        Assign: machine.on_assigned,
    }
    for end in ends.values():
        try:
            end(now)
        except IllegalStateError:
            continue  # that one is not running
        break
    for _ in range(20):
        if (step := script.step()) is None:
            return found
        found.append(step)
        if type(step) in ends:
            ends[type(step)](now)
    raise AssertionError(found)


@codes
def test_every_error_of_leave_group_ends_it(code: int) -> None:
    script = Script()
    script.to_stable()
    script.machine.close(script.now)
    through_listeners(script)
    script.machine.on_response("LeaveGroup", LeaveGroupResponse(0, code), script.now)
    assert script.steps() == []
    assert script.machine.closed


@codes
@pytest.mark.parametrize("where", ["stable", "assigning", "joining"])
def test_every_error_of_a_commit(code: int, where: str) -> None:
    script = Script(COOPERATIVE)
    machine = script.machine
    script.to_assigning()
    if where != "assigning":
        machine.on_assigned(script.now)
    sent = machine.commit_identity()
    if where == "joining":
        machine.request_rejoin("test", script.now)
        assert script.sent() == ["JoinGroup"]
    before = machine.state
    machine.on_commit_error(for_code(code)(""), script.now, sent)
    if code == FENCED:
        assert machine.state is S.FENCED
    elif code in (UNKNOWN_MEMBER, ILLEGAL_GENERATION) and where != "joining":
        assert machine.state is S.PREPARING
        assert machine.generation == -1
    else:
        assert machine.state is before
        wanted = code == REBALANCE or where != "stable"
        assert machine.rejoin_needed is wanted


def test_a_commit_error_of_an_old_generation_is_ignored() -> None:
    script = Script()
    script.to_stable()
    past = CommitIdentity("me", 0, None)
    script.machine.on_commit_error(for_code(ILLEGAL_GENERATION)(""), script.now, past)
    assert script.machine.state is S.STABLE


@pytest.mark.parametrize("kind", ["JoinGroup", "SyncGroup"])
@pytest.mark.parametrize(
    "error", [KafkaConnectionError("cut"), KafkaProtocolError("bad"), UnsupportedVersionError("")]
)
def test_a_join_or_sync_without_a_response_is_repeated(kind: str, error: KafkaError) -> None:
    script = Script()
    if kind == "JoinGroup":
        script.to_joining()
    else:
        script.to_syncing()
    script.machine.on_error(kind, error, script.now)
    if error.retriable:
        assert script.steps() == [FindCoordinator()]
        script.machine.on_coordinator(script.now)
        assert [type(step) for step in script.after(0.2)] == [Send]
    else:
        assert script.steps() == [Fail(error)]
        assert script.machine.state is S.FAILED


def test_coordinator_lookups_are_repeated_with_backoff() -> None:
    script = Script(COOPERATIVE)
    assert script.steps() == [FindCoordinator()]
    pauses = []
    for _ in range(6):
        script.machine.on_error(FIND_COORDINATOR, KafkaConnectionError("cut"), script.now)
        assert script.steps() == []
        at = script.machine.next_wakeup(script.now)
        assert at is not None
        pauses.append(round(at - script.now, 3))
        script.now = at
        assert script.steps() == [FindCoordinator()]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    refused = GroupAuthorizationFailedError("g")
    script.machine.on_error(FIND_COORDINATOR, refused, script.now)
    assert script.steps() == [Fail(refused)]
    script.machine.retry(script.now)
    assert script.after(2) == [FindCoordinator()]


@pytest.mark.parametrize(
    ("code", "pauses"),
    [(14, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]), (UNKNOWN_MEMBER, [0.0, 0.2, 0.4, 0.8, 1.0, 1.0])],
)
def test_joins_that_are_refused_come_with_pauses(code: int, pauses: list[float]) -> None:
    script = Script()
    script.to_joining()
    for pause in pauses:
        script.machine.on_response("JoinGroup", JoinGroupResponse(0, code), script.now)
        if pause:
            assert script.steps() == []
            at = script.machine.next_wakeup(script.now)
            assert at is not None
            assert at - script.now == pytest.approx(pause)
            script.now = at
        assert script.sent() == ["JoinGroup"]


# --- contents of responses


@both
def test_a_group_of_another_kind(protocols: frozenset[RebalanceProtocol]) -> None:
    for told in ({"protocol_type": "connect"}, {"protocol_name": "range"}):
        script = Script(protocols)
        script.to_joining()
        script.joined(**told)
        (step,) = script.steps()
        assert isinstance(step, Fail)
        assert isinstance(step.error, InconsistentGroupProtocolError)
        script.machine.close(script.now)
        assert script.sent() == ["LeaveGroup"]
    for told in ({"protocol_type": "connect"}, {"protocol_name": "range"}):
        script = Script(protocols)
        script.to_syncing()
        script.synced(T[0], **told)
        (step,) = script.steps()
        assert isinstance(step, Fail)
        assert isinstance(step.error, InconsistentGroupProtocolError)


def test_an_assignment_that_cannot_be_read() -> None:
    script = Script()
    script.to_syncing()
    script.synced(assignment=b"\x00")
    (step,) = script.steps()
    assert isinstance(step, Fail)
    assert isinstance(step.error, KafkaProtocolError)


def test_an_assignment_of_other_topics_is_not_taken() -> None:
    script = Script()
    script.to_syncing()
    script.synced(TopicPartition("u", 0))
    assert script.machine.assignment == frozenset()
    assert script.machine.state is S.PREPARING
    assert script.steps() == [Revoke(frozenset())]
    script.machine.on_revoked(script.now)
    assert [type(step) for step in script.after(0.2)] == [Send]


def test_a_pattern_takes_topics_that_only_the_leader_knew() -> None:
    script = Script()
    script.machine.on_subscription({"t"}, script.now, matches=lambda topic: topic in "tu")
    script.to_syncing()
    script.synced(TopicPartition("u", 0))
    assert script.machine.watched_topics == {"t", "u"}
    (step,) = script.steps()
    assert isinstance(step, Assign)
    script.machine.on_assigned(script.now)
    assert not script.machine.rejoin_needed


def test_an_election_that_fails() -> None:
    for error, state in (
        (UnknownTopicOrPartitionError("t"), S.PREPARING),
        (KafkaProtocolError("a member's subscription"), S.FAILED),
    ):
        script = Script()
        script.to_joining()
        script.joined(leads=True)
        script.steps()
        script.machine.on_election_failed(error, script.now)
        assert script.machine.state is state


def test_the_result_of_an_election_that_is_past_is_dropped() -> None:
    script = Script()
    script.to_joining()
    script.joined(1, leads=True)
    assert [type(step) for step in script.steps()] == [Elect]
    script.beat(ILLEGAL_GENERATION)
    assert "JoinGroup" in script.sent()
    script.joined(2, leads=True)
    assert script.steps() == []  # the first assignment is still being computed
    script.machine.on_elected({"me": b"old"}, script.now, ["t"])
    assert [type(step) for step in script.steps()] == [Elect]
    script.machine.on_elected({"me": b"new"}, script.now, ["t"])
    (sync,) = script.steps()
    assert isinstance(sync, Send)
    request = sync.request_for(5)
    assert isinstance(request, SyncGroupRequest)
    assert [each.assignment for each in request.assignments] == [b"new"]


def test_skip_assignment() -> None:
    script = Script(group_instance_id="i")
    script.to_joining()
    script.joined(3, leads=True, skip_assignment=True)
    (elect,) = script.steps()
    assert isinstance(elect, Elect)
    assert elect.skip
    script.machine.on_elected({}, script.now, ["t"])
    assert script.sent() == ["SyncGroup"]
    script.synced(*T)
    script.steps()
    script.machine.on_assigned(script.now)
    script.machine.on_metadata({"t": TopicLayout(5)}, script.now)
    assert script.machine.rejoin_needed  # it is the leader anyway


# --- time


def test_no_heartbeat_while_a_join_or_sync_is_under_way() -> None:
    script = Script(COOPERATIVE)
    script.to_stable()
    script.machine.request_rejoin("test", script.now)
    assert script.sent() == ["JoinGroup"]
    assert script.after(3600) == []
    assert script.machine.next_wakeup(script.now) is None
    script.joined(2)
    assert script.sent() == ["SyncGroup"]
    assert script.after(3600) == []
    script.synced(*T[:2])
    assert script.machine.assignment == frozenset(T[:2])


@both
def test_a_silent_coordinator_is_unknown_and_the_partitions_stay(
    protocols: frozenset[RebalanceProtocol],
) -> None:
    """A new coordinator restarts every session, so it may still have the member."""
    script = Script(protocols)
    script.to_stable()
    script.beat()
    script.beat(None)
    sent_at = script.now - 3.0  # of the one that was answered
    script.now = sent_at + 9.9
    assert script.steps() == []
    script.now = sent_at + 10.0
    assert script.steps() == [FindCoordinator()]
    assert script.machine.next_wakeup(script.now) is None  # the search has an outcome
    assert script.machine.generation == 1
    assert script.machine.assignment == frozenset(T[:2])
    assert not script.machine.rejoin_needed
    script.machine.on_error("Heartbeat", KafkaConnectionError("silent"), script.now)
    script.machine.on_coordinator(script.now)
    at = script.machine.next_wakeup(script.now)
    assert at is not None
    assert at < script.now + 1.0
    script.now = at
    assert script.sent() == ["Heartbeat"]
    script.machine.on_response("Heartbeat", HeartbeatResponse(), script.now)
    assert script.steps() == []
    assert script.machine.generation == 1


def test_a_coordinator_that_disowns_a_member_after_a_silence_takes_its_partitions() -> None:
    script = Script()
    script.to_stable()
    script.now += 60.0
    assert script.steps() == [FindCoordinator()]
    script.machine.on_coordinator(script.now)
    assert script.sent() == ["Heartbeat"]
    unknown = HeartbeatResponse(error_code=UnknownMemberIdError.errno)
    script.machine.on_response("Heartbeat", unknown, script.now)
    assert script.steps() == [Lost(frozenset(T[:2]))]
    assert script.machine.generation == -1


def test_broken_heartbeats_are_retried_and_never_cost_the_partitions() -> None:
    script = Script()
    script.to_stable()
    began, beats = script.now, 0
    while script.now < began + 100.0:
        at = script.machine.next_wakeup(script.now)
        assert at is not None
        script.now = at
        for step in script.steps():
            if isinstance(step, FindCoordinator):
                script.machine.on_coordinator(script.now)
            elif isinstance(step, Send):
                beats += 1
                script.machine.on_error("Heartbeat", KafkaConnectionError("cut"), script.now)
    assert script.machine.generation == 1
    assert script.machine.assignment == frozenset(T[:2])
    assert 100 < beats < 1_000


@pytest.mark.parametrize("search", [True, False])
def test_a_failed_authentication_is_reported_and_the_place_is_kept(search: bool) -> None:
    script = Script()
    script.to_stable()
    machine = script.machine
    began, fails, attempts = script.now, 0, 0
    machine.on_coordinator_lost(script.now)
    while script.now < began + 100.0:
        for step in script.steps():
            fails += isinstance(step, Fail)
            if isinstance(step, FindCoordinator) and search:
                attempts += 1
                machine.on_error(FIND_COORDINATOR, AuthenticationFailedError("no"), script.now)
            elif isinstance(step, FindCoordinator):
                machine.on_coordinator(script.now)
            elif isinstance(step, Send):
                attempts += 1
                assert step.kind == "Heartbeat"
                machine.on_error("Heartbeat", AuthenticationFailedError("no"), script.now)
        at = machine.next_wakeup(script.now)
        assert at is not None
        script.now = at
        if attempts == 50:
            machine.retry(script.now)
    assert fails == 2  # once until the application continues to read
    assert 80 < attempts < 120  # eventually once per second
    assert (machine.state, machine.generation, machine.member_id) == (S.STABLE, 1, "me")
    machine.on_coordinator(script.now)
    script.beat()
    assert machine.assignment == frozenset(T[:2])
    script.beat(None)
    machine.on_error("Heartbeat", AuthenticationFailedError("again"), script.now)
    assert isinstance(script.steps()[0], Fail)  # of the next outage


def test_a_rejoin_waits_for_a_pending_assignment() -> None:
    script = Script()
    script.to_joining()
    script.machine.on_subscription({"t", "u"}, script.now)
    script.joined()
    assert script.sent() == ["SyncGroup"]
    script.synced(T[0])
    (step,) = script.steps()
    assert isinstance(step, Assign)
    script.machine.on_assigned(script.now)
    assert script.steps() == [Revoke(frozenset({T[0]}))]
    script.machine.on_revoked(script.now)
    (join,) = script.steps()
    assert isinstance(join, Send)
    request = join.request_for(9)
    assert isinstance(request, JoinGroupRequest)
    assert read_subscription(request.protocols[0].metadata).topics == ("t", "u")
    assert request.reason == "subscription has changed since the last join"


def test_a_cooperative_member_revokes_unsubscribed_partitions_before_it_rejoins() -> None:
    script = Script(COOPERATIVE, topics=frozenset({"t", "u"}))
    other = TopicPartition("u", 0)
    script.to_stable(T[0], other)
    script.machine.on_subscription({"t"}, script.now)
    assert script.steps() == [Revoke(frozenset({other}))]
    script.machine.on_revoked(script.now)
    (join,) = script.steps()
    assert isinstance(join, Send)
    request = join.request_for(9)
    assert isinstance(request, JoinGroupRequest)
    told = read_subscription(request.protocols[0].metadata)
    assert (told.topics, told.owned, told.generation) == (("t",), (T[0],), 1)


def test_cooperative_rejoins_after_a_revocation() -> None:
    script = Script(COOPERATIVE)
    script.to_revoking()
    assert script.machine.assignment == frozenset(T[:2])
    script.machine.on_revoked(script.now)
    assert script.steps() == [Assign(frozenset(), frozenset({T[0]}))]
    script.machine.on_assigned(script.now)
    (join,) = script.steps()
    assert isinstance(join, Send)
    request = join.request_for(9)
    assert isinstance(request, JoinGroupRequest)
    assert request.reason == "need to revoke partitions and re-join"


def test_the_racks_matter_only_to_a_member_that_has_one() -> None:
    for rack, rejoins in ((None, False), ("a", True)):
        script = Script(client_rack=rack)
        script.to_joining()
        script.joined(leads=True)
        script.steps()
        script.machine.on_elected({}, script.now, ["t"])
        script.steps()
        script.synced(*T)
        script.steps()
        script.machine.on_assigned(script.now)
        script.machine.on_metadata(
            {"t": TopicLayout(4, (frozenset({"a"}),) * 4), "other": TopicLayout(1)}, script.now
        )
        assert script.machine.rejoin_needed is rejoins


# --- leaving


def test_a_coordinator_that_is_lost_is_looked_for_and_nothing_else_happens() -> None:
    script = Script()
    script.to_stable()
    script.machine.on_coordinator_lost(script.now)
    assert script.steps() == [FindCoordinator()]
    script.machine.on_coordinator(script.now)
    assert script.steps() == []
    assert script.machine.state is S.STABLE


def test_a_heartbeat_response_after_a_join_is_ignored() -> None:
    for code in (UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE, -1):
        script = Script(COOPERATIVE)
        script.to_stable()
        script.beat(None)
        script.machine.request_rejoin("test", script.now)
        assert script.sent() == ["JoinGroup"]
        script.machine.on_response("Heartbeat", HeartbeatResponse(0, code), script.now)
        assert script.machine.state is S.JOINING
        assert script.steps() == []


def test_leaving_while_a_sync_is_under_way() -> None:
    script = Script()
    script.to_syncing()
    script.machine.leave("unsubscribed", script.now)
    (leave,) = script.steps()
    assert isinstance(leave, Send)
    assert leave.apart  # the coordinator may be slow to answer the pending request
    script.synced(*T)
    assert script.steps() == []
    assert script.machine.state is S.LEAVING
    script.machine.on_error("LeaveGroup", KafkaConnectionError("cut"), script.now)
    assert script.steps() == []
    assert script.machine.state is S.UNSUBSCRIBED
    assert script.machine.assignment == frozenset()
    assert script.machine.next_wakeup(script.now) is None


def test_leaving_without_a_coordinator() -> None:
    script = Script()
    script.to_stable()
    script.machine.on_coordinator_lost(script.now)
    script.machine.close(script.now)
    assert [type(step) for step in script.steps()] == [Revoke]
    script.machine.on_revoked(script.now)
    assert script.steps() == []
    assert script.machine.closed


def test_leaving_twice_and_then_closing() -> None:
    script = Script(group_instance_id="i")
    script.to_stable()
    script.machine.leave("unsubscribed", script.now)
    script.machine.on_subscription({"t"}, script.now)
    script.machine.leave("unsubscribed", script.now)  # takes the subscription back
    script.machine.close(script.now, stay=False)
    script.machine.close(script.now, stay=True)  # too late
    assert [type(step) for step in script.steps()] == [Revoke]
    script.machine.on_revoked(script.now)
    (leave,) = script.steps()
    assert isinstance(leave, Send)
    request = leave.request_for(5)
    assert isinstance(request, LeaveGroupRequest)
    (who,) = request.members
    assert (who.member_id, who.group_instance_id) == ("me", "i")
    script.machine.on_response("LeaveGroup", LeaveGroupResponse(), script.now)
    assert script.steps() == []
    assert script.machine.closed


def test_a_membership_that_is_lost_while_leaving_is_lost() -> None:
    script = Script()
    script.to_assigning()
    script.machine.leave("unsubscribed", script.now)
    script.beat(UNKNOWN_MEMBER)  # the listener is still running
    assert script.steps() == []
    script.machine.on_assigned(script.now)
    assert script.steps() == [Lost(frozenset(T[:2]))]
    script.machine.on_lost(script.now)
    assert script.steps() == []
    assert script.machine.state is S.UNSUBSCRIBED


def test_a_member_id_assigned_after_close_is_left() -> None:
    """Also the id that MEMBER_ID_REQUIRED brings: the coordinator keeps it for a session."""
    script = Script()
    script.to_joining()
    script.machine.close(script.now)
    assert script.steps() == []
    answer = JoinGroupResponse(0, MEMBER_ID_REQUIRED, member_id="late")
    script.machine.on_response("JoinGroup", answer, script.now)
    (leave,) = script.steps()
    assert isinstance(leave, Send)
    request = leave.request_for(2)
    assert isinstance(request, LeaveGroupRequest)
    assert request.member_id == "late"
    script.machine.on_response("LeaveGroup", LeaveGroupResponse(), script.now)
    assert script.steps() == []
    assert script.machine.closed


def test_a_reason_is_not_longer_than_java_s() -> None:
    script = Script(COOPERATIVE)
    script.to_stable()
    script.machine.request_rejoin("x" * 1000, script.now)
    (join,) = script.steps()
    assert isinstance(join, Send)
    request = join.request_for(9)
    assert isinstance(request, JoinGroupRequest)
    assert request.reason == "x" * 255


# --- misuse


def test_invalid_calls_of_a_driver_are_refused() -> None:
    script = Script()
    machine = script.machine
    with pytest.raises(IllegalStateError):
        machine.on_assigned(script.now)
    with pytest.raises(IllegalStateError):
        machine.on_elected({}, script.now)
    script.to_joining()
    with pytest.raises(IllegalStateError):
        machine.on_response("JoinGroup", MetadataResponse(), script.now)
    with pytest.raises(KafkaConfigurationError):
        machine.on_subscription({"t"}, script.now, pattern="t.*")
    machine.close(script.now)
    with pytest.raises(IllegalStateError):
        machine.on_subscription({"t"}, script.now)


def test_assignors_that_do_not_fit() -> None:
    options = MembershipOptions("g")
    only = frozenset({RebalanceProtocol.COOPERATIVE})
    for assignors in ([], [Spread(), Spread()], [Spread("a"), Spread("b", only)]):
        with pytest.raises(KafkaConfigurationError):
            ClassicMembership(options, assignors)
    mixed = ClassicMembership(options, [Spread("a", COOPERATIVE), Spread("b", EAGER)])
    assert mixed.rebalance_protocol is RebalanceProtocol.EAGER


@pytest.mark.parametrize(
    "wrong",
    [
        {"group_id": ""},
        {"group_instance_id": ""},
        {"session_timeout": 0},
        {"heartbeat_interval": -1},
        {"rebalance_timeout": 0},
        {"max_poll_interval": float("nan")},
    ],
)
def test_options_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(KafkaConfigurationError):
        MembershipOptions(**{"group_id": "g", **wrong})  # type: ignore[arg-type]


def test_every_code_has_an_error() -> None:
    assert all(issubclass(for_code(code), BrokerResponseError) for code in CODES if code)
