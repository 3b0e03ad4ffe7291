"""Several clients join, assign, fall silent, die and rejoin at random: the invariants of a
group, and no client waits forever."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.groups.classic.classic_group import ClassicGroup
from aiokafka_lite.testing.groups.committed_offsets import CommittedOffset
from tests.unit.testing.groups.members import Asked, FakeMember
from tests.unit.testing.raw import SocketlessBroker

CLIENTS = 4
NOT_COORDINATOR, ILLEGAL_GENERATION, UNKNOWN_MEMBER = 16, 22, 25
REBALANCE, MEMBER_ID_REQUIRED, FENCED, INCONSISTENT = 27, 79, 82, 23
PROTOCOLS = [
    [("range", b"1")],
    [("range", b"2"), ("sticky", b"1")],
    [("sticky", b"2"), ("range", b"1")],
]

clients = st.integers(0, CLIENTS - 1)


class Client(FakeMember):
    """A member, and its view of the group.

    Attributes:
        syncing: Its SyncGroup.
        leads: The members, if its last response made it the leader.
        share: Its assignment of `generation`; None before.
    """

    syncing: Asked | None = None
    leads: list[str] | None = None
    share: bytes | None = None

    def forget(self, *, member_id: bool) -> None:
        self.generation = -1
        self.leads = self.share = self.syncing = self.asked = None
        if member_id:
            self.member_id = ""

    def look(self) -> None:
        """Process the responses that have arrived, as a client does."""
        if self.asked is not None and self.asked.answer is not None:
            answer = self.asked.answer
            self.asked = None
            if answer.error_code:
                known = (NOT_COORDINATOR, UNKNOWN_MEMBER, FENCED, INCONSISTENT)
                assert answer.error_code in known, answer
                self.forget(member_id=answer.error_code in (UNKNOWN_MEMBER, FENCED))
            else:
                self.forget(member_id=False)
                self.member_id, self.generation = answer.member_id, answer.generation_id
                if answer.leader == self.member_id and not answer.skip_assignment:
                    self.leads = [each.member_id for each in answer.members]
                    assert self.member_id in self.leads
                else:
                    assert not answer.members or answer.skip_assignment
        if self.syncing is not None and self.syncing.answer is not None:
            answer = self.syncing.answer
            self.syncing = None
            if answer.error_code:
                codes = (NOT_COORDINATOR, UNKNOWN_MEMBER, FENCED, ILLEGAL_GENERATION, REBALANCE)
                assert answer.error_code in codes, answer
                self.forget(member_id=False)
            else:
                self.share = answer.assignment


class Clients(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.broker = SocketlessBroker(2)
        self.node = self.broker.state.coordinators.node_of(CoordinatorType.GROUP, "g").node_id
        self.clients = [
            Client(
                self.broker,
                instance_id=f"static{number}" if number % 2 else None,
                node=self.node,
                session_timeout_ms=10_000 + number * 7_000,
                rebalance_timeout_ms=8_000 + number * 5_000,
                version=9 if number < 2 else 5,
            )
            for number in range(CLIENTS)
        ]
        kept = CommittedOffset(1, commit_ms=self.broker.clock.now_ms())
        self.group.offsets.commit("t", 0, kept)  # or the empty group would be removed
        self.generation = 0
        self.shared: set[tuple[int, bytes]] = set()

    @property
    def group(self) -> ClassicGroup:
        return self.broker.state.groups.classic("g")

    def look(self) -> None:
        for client in self.clients:
            client.look()

    # What clients do

    @rule(number=clients)
    def join(self, number: int) -> None:
        client = self.clients[number]
        if client.asked is None and client.syncing is None:
            client.begin_join()
        self.look()

    @rule(number=clients)
    def sync(self, number: int) -> None:
        client = self.clients[number]
        if client.asked is None and client.syncing is None and client.generation >= 0:
            shares = []
            for member_id in client.leads or ():
                share = f"{client.generation} {member_id}".encode()
                self.shared.add((client.generation, share))
                shares.append((member_id, share))
            client.syncing = client.begin_sync(*shares)
        self.look()

    @rule(number=clients)
    def beat(self, number: int) -> None:
        client = self.clients[number]
        if client.asked is None and client.generation >= 0:
            code = client.beat()
            known = (0, REBALANCE, UNKNOWN_MEMBER, ILLEGAL_GENERATION, FENCED)
            assert code in known, code
            if code in (UNKNOWN_MEMBER, FENCED):
                client.forget(member_id=True)
        self.look()

    @rule(number=clients)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        if client.asked is None and client.syncing is None and client.member_id:
            assert client.leave() in (0, UNKNOWN_MEMBER, FENCED)
            client.forget(member_id=True)
        self.look()

    @rule(number=clients)
    def die(self, number: int) -> None:
        """Abandon its pending requests; a static one rejoins with its instance id."""
        self.clients[number].forget(member_id=True)

    @rule(number=clients)
    def lose_the_connection(self, number: int) -> None:
        self.clients[number].forget(member_id=False)

    @rule()
    def get_on(self) -> None:
        """Let all members join and sync, so that groups with several members become stable."""
        for _ in range(2):
            for number in range(CLIENTS):
                if self.clients[number].generation != self.group.generation:
                    self.join(number)
                self.beat(number)
                if self.group.state == "PreparingRebalance":
                    self.join(number)
        for number in range(CLIENTS):
            self.sync(number)

    @rule(number=clients, protocols=st.sampled_from(PROTOCOLS))
    def change(self, number: int, protocols: list[tuple[str, bytes]]) -> None:
        self.clients[number].protocols = protocols

    @rule(seconds=st.sampled_from([0.5, 3.0, 9.0, 20.0, 310.0]))
    def pass_time(self, seconds: float) -> None:
        self.broker.clock.advance(seconds)
        self.look()

    @precondition(lambda self: self.group.members)
    @rule()
    def move(self) -> None:
        self.node = 1 - self.node
        self.broker.state.coordinators.move(CoordinatorType.GROUP, "g", self.node)
        for client in self.clients:
            client.node = self.node
        self.look()
        self.generation = self.group.generation  # an unassigned one may be discarded

    # Invariants

    @invariant()
    def states_fit_the_members(self) -> None:
        group = self.group
        waiting = [each for each in group.members.values() if each.joining is not None]
        syncing = [each for each in group.members.values() if each.syncing is not None]
        if group.state == "Empty":
            assert not group.members
        elif group.state == "PreparingRebalance":
            assert not syncing
        elif group.state == "CompletingRebalance":
            assert group.members
            assert not waiting
            assert group.pending_syncs <= set(group.members)
        else:
            assert group.state == "Stable"
            assert group.members
            assert not waiting
            assert not syncing

    @invariant()
    def somebody_leads(self) -> None:
        group = self.group
        assert (group.leader in group.members) or not group.members
        assert set(group.static_members.values()) <= set(group.members)
        assert not set(group.pending_members) & set(group.members)
        for member_id, member in group.members.items():
            assert member.member_id == member_id
            assert member.session is not None

    @invariant()
    def all_support_the_protocol(self) -> None:
        group = self.group
        if group.state in ("Stable", "CompletingRebalance"):
            for member in group.members.values():
                assert group.protocol_name in [each.name for each in member.protocols]

    @invariant()
    def generations_only_grow(self) -> None:
        assert self.group.generation >= self.generation
        self.generation = self.group.generation

    @invariant()
    def everybody_has_the_share_that_the_leader_gave(self) -> None:
        given = [(each.generation, each.share) for each in self.clients if each.share]
        assert len(set(given)) == len(given)  # a static member's next incarnation has its own
        for generation, share in given:
            assert (generation, share) in self.shared

    def teardown(self) -> None:
        asked = [client.asked for client in self.clients] + [
            client.syncing for client in self.clients
        ]
        self.broker.clock.advance(10_000)
        assert all(each.answer is not None for each in asked if each is not None)
        assert self.group.state == "Empty"


Clients.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestClients = Clients.TestCase
