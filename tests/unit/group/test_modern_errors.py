"""Every error that a coordinator may return for a heartbeat, in every state that sends one."""

from random import Random
from typing import Any

import pytest

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
    for_code,
    kafka_errors,
)
from aiokafka_lite.group.consumer.heartbeat_errors import Reaction, explain, reaction
from aiokafka_lite.group.consumer.machine import ConsumerMembership, MemberState
from aiokafka_lite.group.consumer.requests import HEARTBEAT
from aiokafka_lite.group.consumer.states import FOLLOWING
from aiokafka_lite.group.membership import (
    FIND_COORDINATOR,
    Assign,
    Fail,
    FindCoordinator,
    Lost,
    Revoke,
    Send,
    TopicLayout,
)
from aiokafka_lite.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.unit.group.modern_crew import _uuid, options, tps

TOPIC_ID = _uuid(Random(7))
NAMES = {"t": TopicLayout(4, topic_id=TOPIC_ID)}

JOINING, RECONCILING, ACKNOWLEDGING, STABLE, PREPARE_LEAVING, LEAVING = (
    MemberState.JOINING,
    MemberState.RECONCILING,
    MemberState.ACKNOWLEDGING,
    MemberState.STABLE,
    MemberState.PREPARE_LEAVING,
    MemberState.LEAVING,
)
SENDING = (JOINING, RECONCILING, ACKNOWLEDGING, STABLE, PREPARE_LEAVING, LEAVING)

FENCING = {25, 110}
MOVING = {15, 16}
TELLING = {29}
GONE = 69  # GROUP_ID_NOT_FOUND: fences a member, and is fatal to a joining one
RETRIED = {code for code, kind in kafka_errors.items() if kind.retriable} - MOVING
CODES = sorted(code for code in kafka_errors if code)


def answer(epoch: int = 1, partitions: list[int] | None = None) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if partitions is not None:
        assignment = Assignment([TopicPartitions(TOPIC_ID, partitions)])
    return ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=epoch, heartbeat_interval_ms=5000, assignment=assignment
    )


def refusal(code: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message="no", assignment=None)


class Hand:
    """A machine driven manually, and its clock."""

    def __init__(self, **fields: Any) -> None:
        self.machine = ConsumerMembership(options(**fields))
        self.now = 100.0
        self.machine.on_metadata(NAMES, self.now)

    def step(self, kind: type[Any]) -> Any:
        step = self.machine.next_step(self.now)
        assert isinstance(step, kind), step
        return step

    def steps(self) -> list[Any]:
        found = []
        while (step := self.machine.next_step(self.now)) is not None:
            found.append(step)
            assert len(found) < 10
        return found

    def respond(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.machine.on_response(HEARTBEAT, response, self.now)

    def joining(self) -> "Hand":
        self.machine.on_subscription(["t"], self.now)
        self.step(FindCoordinator)
        self.machine.on_coordinator(self.now)
        self.step(Send)
        return self

    def stable(self) -> "Hand":
        self.joining().respond(answer(1, [0, 1]))
        self.step(Assign)
        self.machine.on_assigned(self.now)
        self.step(Send)
        assert self.machine.state is STABLE
        return self

    def sending(self, state: MemberState) -> "Hand":
        """A heartbeat is in flight, and the machine is in that state."""
        if state is JOINING:
            return self.joining()
        self.stable()
        if state is STABLE:
            return self
        if state is PREPARE_LEAVING:
            self.machine.leave("by hand", self.now)
            self.step(Revoke)
        elif state is LEAVING:
            self.respond(answer(1))
            self.machine.leave("by hand", self.now)
            self.step(Revoke)
            self.machine.on_revoked(self.now)
            self.step(Send)
        else:
            self.respond(answer(1, [0]))
            self.step(Revoke)
            self.now += 5.0
            self.step(Send)
            if state is ACKNOWLEDGING:
                self.machine.on_revoked(self.now)
                self.step(Assign)
                self.machine.on_assigned(self.now)
        assert self.machine.state is state
        return self

    def release(self) -> None:
        """End all listeners, one after the other."""
        for _ in range(3):
            for step in self.steps():
                if isinstance(step, Lost):
                    self.machine.on_lost(self.now)
                elif isinstance(step, Revoke):
                    self.machine.on_revoked(self.now)


@pytest.mark.parametrize("state", SENDING)
@pytest.mark.parametrize("code", CODES)
def test_every_error_in_every_state(code: int, state: MemberState) -> None:
    hand = Hand().sending(state)
    machine = hand.machine
    held = machine.assignment
    if state is RECONCILING:
        machine.on_revoked(hand.now)  # otherwise it would wait for its listener
        hand.step(Assign)
        machine.on_assigned(hand.now)
        state = ACKNOWLEDGING
        held = machine.assignment
    hand.respond(refusal(code))
    what = reaction(for_code(code)(), answered=True, joining=state is JOINING)
    if state is PREPARE_LEAVING:
        assert machine.state is PREPARE_LEAVING
        machine.on_revoked(hand.now)
        assert machine.assignment == frozenset()
        if what in (Reaction.FENCED, Reaction.FATAL):
            assert machine.state is MemberState.UNSUBSCRIBED  # there is no member to report to
        else:
            assert machine.state is LEAVING
        assert not any(isinstance(step, Fail) for step in hand.steps())
    elif state is LEAVING:
        left = what in (Reaction.FENCED, Reaction.FATAL)
        assert machine.state is (MemberState.UNSUBSCRIBED if left else LEAVING)
        for _ in range(20):
            for step in hand.steps():
                if isinstance(step, Send):
                    hand.respond(refusal(code))
                else:
                    assert isinstance(step, FindCoordinator)
                    machine.on_coordinator(hand.now)
            hand.now += 0.5
        assert machine.state is MemberState.UNSUBSCRIBED  # eventually it stops retrying
    elif code in FENCING or (code == GONE and state is not JOINING):
        lost = [step for step in hand.steps() if isinstance(step, Lost)]
        assert lost == ([Lost(held)] if held else [])
        if lost:
            assert machine.state is MemberState.FENCED
            machine.on_lost(hand.now)
        assert machine.state is JOINING
        assert machine.generation == -1
        hand.now += 0.1
        request = hand.step(Send).request_for(1)
        assert (request.member_epoch, request.topic_partitions) == (0, [])
    elif code in MOVING | RETRIED | TELLING:
        assert machine.state is state
        steps = hand.steps()
        if code in MOVING:
            assert steps == [FindCoordinator()]
            machine.on_coordinator(hand.now)
            steps = hand.steps()  # at once, since it is another broker
        elif code in TELLING:
            (fail,) = steps
            assert fail.error.errno == code
        if code not in MOVING:
            assert not any(isinstance(step, Send) for step in steps)
            hand.now += 0.1
            steps = hand.steps()
        (send,) = steps
        assert send.request_for(1).subscribed_topic_names == ["t"]  # sent in full
        assert machine.assignment == held
    else:
        assert what is Reaction.FATAL
        assert machine.state is MemberState.FATAL
        assert machine.generation == -1
        fail, *others = hand.steps()
        assert fail.error.errno == code
        assert "group 'g'" in str(fail.error)
        assert others == ([Lost(held)] if held else [])
        if held:
            machine.on_lost(hand.now)
        assert hand.steps() == []  # nothing more is sent
        machine.retry(hand.now)
        again = hand.steps()
        assert isinstance(again[0], Fail if code == 82 else Send)


@pytest.mark.parametrize("state", SENDING)
@pytest.mark.parametrize("error", [KafkaConnectionError("cut"), KafkaTimeoutError("late")])
def test_a_request_that_is_lost(error: KafkaError, state: MemberState) -> None:
    hand = Hand().sending(state)
    machine = hand.machine
    machine.on_error(HEARTBEAT, error, hand.now)
    assert machine.state is state
    assert not any(isinstance(step, Send | FindCoordinator) for step in hand.steps())
    wakeup = machine.next_wakeup(hand.now)
    assert wakeup is not None
    hand.now = wakeup
    hand.step(FindCoordinator)
    machine.on_coordinator(hand.now)
    if state is not PREPARE_LEAVING:
        request = hand.step(Send).request_for(1)
        assert request.member_epoch == {JOINING: 0, LEAVING: -1}.get(state, 1)
        assert request.subscribed_topic_names == (None if state is LEAVING else ["t"])


@pytest.mark.parametrize("error", [UnsupportedVersionError(), AuthenticationFailedError()])
def test_a_request_that_could_never_be_sent(error: KafkaError) -> None:
    hand = Hand().joining()
    hand.machine.on_error(HEARTBEAT, error, hand.now)
    assert hand.machine.state is MemberState.FATAL
    assert isinstance(hand.step(Fail).error, type(error))


@pytest.mark.parametrize("state", SENDING)
def test_coordinator_lookups_that_fail_are_repeated_with_backoff(state: MemberState) -> None:
    hand = Hand().sending(state)
    machine = hand.machine
    machine.on_error(HEARTBEAT, KafkaConnectionError("cut"), hand.now)
    searches = 0
    began = hand.now
    while hand.now < began + 60:
        for step in hand.steps():
            if isinstance(step, FindCoordinator):
                searches += 1
                machine.on_error(FIND_COORDINATOR, KafkaConnectionError("nobody"), hand.now)
        hand.now += 0.05
    if state is LEAVING:
        assert machine.state is MemberState.UNSUBSCRIBED  # its session will expire
        assert searches == 2
    else:
        assert machine.state is state
        assert 50 <= searches <= 70  # eventually once per second


@pytest.mark.parametrize("state", [RECONCILING, ACKNOWLEDGING, STABLE])
@pytest.mark.parametrize("search", [True, False])
def test_a_failed_authentication_is_reported_and_the_place_is_kept(
    state: MemberState, search: bool
) -> None:
    hand = Hand().sending(state)
    machine = hand.machine
    before = machine.commit_identity()
    assert before is not None
    fails = 0
    if search:
        machine.on_error(HEARTBEAT, KafkaConnectionError("cut"), hand.now)
    else:
        machine.on_error(HEARTBEAT, AuthenticationFailedError("no"), hand.now)
    for turn in range(6):
        if turn == 3:
            machine.retry(hand.now)
        hand.now += 2.0
        steps = hand.steps()
        assert FindCoordinator() in steps
        if search:
            machine.on_error(FIND_COORDINATOR, AuthenticationFailedError("no"), hand.now)
        else:
            machine.on_coordinator(hand.now)
            hand.step(Send)
            machine.on_error(HEARTBEAT, AuthenticationFailedError("no"), hand.now)
        fails += sum(isinstance(step, Fail) for step in [*steps, *hand.steps()])
    assert fails == 2  # once until the application continues to read
    assert machine.commit_identity() == before
    assert machine.state in (RECONCILING, ACKNOWLEDGING, STABLE)


def test_a_search_that_is_refused_is_fatal() -> None:
    hand = Hand()
    hand.machine.on_subscription(["t"], hand.now)
    hand.step(FindCoordinator)
    hand.machine.on_error(FIND_COORDINATOR, GroupAuthorizationFailedError("no"), hand.now)
    assert isinstance(hand.step(Fail).error, GroupAuthorizationFailedError)


def test_an_unauthorized_topic_is_reported_once_until_the_application_retries() -> None:
    hand = Hand().stable()
    fails = 0
    for turn in range(6):
        hand.respond(refusal(29))
        if turn == 3:
            hand.machine.retry(hand.now)
        hand.now += 2.0
        steps = hand.steps()
        fails += sum(isinstance(step, Fail) for step in steps)
        assert any(isinstance(step, Send) for step in steps)
    assert fails == 2
    assert hand.machine.state is STABLE
    assert hand.machine.assignment == tps("t", 0, 1)


def test_a_response_to_an_older_membership_is_ignored() -> None:
    hand = Hand().stable()
    machine = hand.machine
    machine.on_coordinator_lost(hand.now)
    hand.step(FindCoordinator)
    machine.on_error(FIND_COORDINATOR, GroupAuthorizationFailedError("no"), hand.now)
    assert machine.state is MemberState.FATAL
    assert [type(step) for step in hand.steps()] == [Fail, Lost]
    hand.respond(answer(9, [0, 1, 2, 3]))
    machine.on_lost(hand.now)
    assert machine.state is MemberState.FATAL
    assert machine.generation == -1
    assert machine.assignment == frozenset()


def test_a_newer_target_waits_for_the_one_that_is_reconciled() -> None:
    hand = Hand().stable()
    machine = hand.machine
    hand.respond(answer(1, [0]))
    assert hand.step(Revoke).partitions == tps("t", 1)
    hand.now += 5.0
    hand.step(Send)
    hand.respond(answer(2, [0, 3]))
    assert hand.steps() == []  # the listener runs
    machine.on_revoked(hand.now)
    assert hand.step(Assign) == Assign(frozenset(), tps("t", 0))
    machine.on_assigned(hand.now)
    told = hand.step(Send).request_for(1)
    assert [topic.partitions for topic in told.topic_partitions] == [[0]]
    assert machine.state is RECONCILING
    assert hand.step(Assign) == Assign(tps("t", 3), tps("t", 0, 3))


def test_a_target_that_is_restored_is_acknowledged_without_a_change() -> None:
    hand = Hand().stable()
    machine = hand.machine
    machine.on_metadata({}, hand.now)
    other = _uuid(Random(8))
    hand.respond(
        ConsumerGroupHeartbeatResponse(
            member_epoch=2,
            heartbeat_interval_ms=5000,
            assignment=Assignment([TopicPartitions(TOPIC_ID, [0, 1]), TopicPartitions(other, [0])]),
        )
    )
    told = hand.step(Send).request_for(1)
    assert [topic.partitions for topic in told.topic_partitions] == [[0, 1]]
    hand.respond(answer(2, [0, 1]))
    told = hand.step(Send).request_for(1)
    assert [topic.partitions for topic in told.topic_partitions] == [[0, 1]]
    assert machine.state is STABLE


@pytest.mark.parametrize("leaves", [False, True])
def test_partitions_in_an_assign_callback_are_reported_as_owned_when_in_doubt(leaves: bool) -> None:
    """Otherwise the coordinator, which may have revoked it meanwhile, would assign it to
    another."""
    hand = Hand().stable()
    machine = hand.machine
    hand.respond(answer(2, [1, 2]))
    assert hand.step(Revoke).partitions == tps("t", 0)
    machine.on_revoked(hand.now)
    assert hand.step(Assign) == Assign(tps("t", 2), tps("t", 1, 2))
    if leaves:
        machine.leave("by hand", hand.now)
    hand.now += 5.0
    hand.step(Send)
    machine.on_error(HEARTBEAT, KafkaConnectionError("cut"), hand.now)
    machine.on_coordinator(hand.now)
    hand.now += 1.0
    (send,) = (step for step in hand.steps() if isinstance(step, Send))
    owned = send.request_for(1).topic_partitions
    assert [topic.partitions for topic in owned] == [[0, 1, 2]]
    machine.on_assigned(hand.now)
    if leaves:
        assert hand.step(Revoke).partitions == tps("t", 1, 2)
        return
    hand.respond(answer(2))
    owned = hand.step(Send).request_for(1).topic_partitions
    assert [topic.partitions for topic in owned] == [[1, 2]]


def test_a_member_that_is_fenced_right_after_each_join_pauses_before_the_next() -> None:
    """It sent 2,400 requests a second to a coordinator that returned wrong epochs."""
    hand = Hand().joining()
    waits = []
    for _ in range(4):
        hand.respond(answer(1, [0, 1]))
        hand.step(Assign)
        hand.machine.on_assigned(hand.now)
        hand.step(Send)
        hand.respond(refusal(110))
        hand.step(Lost)
        hand.machine.on_lost(hand.now)
        assert hand.steps() == []
        again_at = hand.machine.next_wakeup(hand.now)
        assert again_at is not None
        waits.append(again_at - hand.now)
        hand.now = again_at
        hand.step(Send)
    assert waits[0] > 0.05
    assert waits == sorted(waits)


def test_a_member_that_is_fenced_later_joins_again_at_once() -> None:
    hand = Hand().stable()
    hand.respond(answer(1))
    hand.now += 5.0
    hand.step(Send)
    hand.respond(refusal(110))
    hand.step(Lost)
    hand.machine.on_lost(hand.now)
    hand.step(Send)


def test_fenced_while_a_listener_runs() -> None:
    hand = Hand().sending(RECONCILING)
    machine = hand.machine
    hand.respond(refusal(110))
    assert hand.steps() == []  # one listener at a time
    machine.on_revoked(hand.now)
    assert hand.step(Lost).partitions == tps("t", 0)
    assert machine.state is MemberState.FENCED
    machine.on_lost(hand.now)
    assert machine.state is JOINING


def test_a_subscription_while_leaving_rejoins() -> None:
    hand = Hand().sending(LEAVING)
    hand.machine.on_subscription(["t"], hand.now)
    assert hand.machine.state is LEAVING
    hand.respond(answer(-1))
    assert hand.machine.state is JOINING
    assert hand.step(Send).request_for(1).member_id == "m"


def test_a_failure_that_was_not_raised_yet_ends_with_the_subscription() -> None:
    hand = Hand().sending(JOINING)
    hand.respond(refusal(30))
    assert isinstance(hand.machine.pending_failure, GroupAuthorizationFailedError)
    hand.machine.leave("unsubscribed", hand.now)
    hand.machine.on_subscription(["u"], hand.now)
    assert not any(isinstance(step, Fail) for step in hand.steps())


def test_a_failure_is_reported_again_for_a_new_subscription() -> None:
    """The application need not have read the first one: it has unsubscribed."""
    hand = Hand().sending(JOINING)
    hand.respond(refusal(29))
    hand.step(Fail)
    hand.machine.leave("unsubscribed", hand.now)
    hand.machine.on_subscription(["u"], hand.now)
    hand.now += 2.0
    assert hand.step(Send).request_for(1).member_epoch == -1
    hand.respond(answer(-1))
    hand.step(Send)
    hand.respond(refusal(29))
    hand.step(Fail)


def test_no_state_is_a_trap() -> None:
    """Every state is reachable from all others."""
    for start in MemberState:
        reached = {start}
        while further := {one for state in reached for one in FOLLOWING[state]} - reached:
            reached |= further
        assert reached == set(MemberState)


def test_an_explained_error_keeps_its_class_and_cause() -> None:
    for code in CODES:
        error = for_code(code)("what the broker says")
        explained = explain(error, options(), None)
        assert type(explained) is type(error)
        assert "what the broker says" in str(explained)
