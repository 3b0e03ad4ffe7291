"""What the two membership machines share: the steps they ask for, and what they are told. Sans-IO.

A machine (`classic.ClassicMembership`, `modern.ConsumerMembership`) decides when a member of a
group joins, heartbeats, gives partitions back and leaves. One driver task carries its decisions
out, the same for both protocols:

    while (step := machine.next_step(now)) is not None:
        ...  # begin it; when it is through, tell the machine by the method named below
    ...      # then wait for whatever comes first: an outcome, `next_wakeup(now)`, the application

==================  =============================================================================
Step                Told when it is through
==================  =============================================================================
`Send`              exactly once, `on_response(kind, ...)` or `on_error(kind, ...)`; until then
                    no other of the same kind is asked for
`FindCoordinator`   `on_coordinator`, or `on_error(FIND_COORDINATOR, ...)`
`Revoke`            `on_revoked`; none of the next three is asked for before
`Lost`              `on_lost`
`Assign`            `on_assigned`
`Elect`             `on_elected` or `on_election_failed`
`Fail`              nothing; `retry` when the application wants to go on
==================  =============================================================================

Non-obvious:
- A step is handed out once: who takes it from `next_step` has to carry it out. Several may be
  under way at once (a callback and a heartbeat).
- Times are the loop's seconds, handed in; they never go back.
- The driver takes partitions from the fetcher before it calls the listener of a `Revoke` or
  `Lost`, and gives those of an `Assign` to it before it calls the listener: what the listener
  seeks must stay. `assignment` says what the application holds, as far as it has been told.
- A broker answers the requests of a connection in their order: a heartbeat, a commit or a
  LeaveGroup behind a JoinGroup that waits for the others would wait too. No heartbeat is asked
  for then; what must not wait says `Send.apart`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import KafkaConfigurationError, KafkaError
from aiokafka_lite.protocol.message import Request, Response
from aiokafka_lite.structs import TopicPartition

__all__ = [
    "FIND_COORDINATOR",
    "Assign",
    "Assignor",
    "CommitIdentity",
    "Counters",
    "Elect",
    "Fail",
    "FindCoordinator",
    "GroupMember",
    "GroupMetadata",
    "Lost",
    "Membership",
    "MembershipOptions",
    "RebalanceProtocol",
    "Revoke",
    "Send",
    "Step",
    "TopicLayout",
]

FIND_COORDINATOR: Final = "FindCoordinator"
"""The `kind` under which the driver tells that no coordinator could be found."""

Partitions: TypeAlias = frozenset[TopicPartition]


# --- steps


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to the group's coordinator.

    Attributes:
        kind: The API's name, such as "Heartbeat": what its outcome is told under.
        request_class: What it will be, for the choice of the version.
        request_for: Makes it for the version that will be spoken.
        timeout: Seconds until it is given up, with its connection.
        oldest: The oldest version that will do.
        apart: It must not queue behind a JoinGroup or SyncGroup that is under way: send it over
            another connection if there is one.
    """

    kind: str
    request_class: type[Request]
    request_for: Callable[[int], Request]
    timeout: float
    oldest: int = 0
    apart: bool = False


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """The coordinator is not known, or was wrong: find it."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Take partitions from the application, which may still commit for them in its listener.

    Attributes:
        partitions: May be empty: the eager protocol tells of every rebalance.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Lost:
    """Take partitions from the application that others may own already: no commit will succeed.

    Attributes:
        partitions: Never empty.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Assign:
    """Give partitions to the application.

    Attributes:
        added: Those it did not hold before; may be empty.
        all: Everything it holds from now on.
    """

    added: Partitions
    all: Partitions


class GroupMember(NamedTuple):
    """A member as the coordinator describes it to the leader."""

    member_id: str
    instance_id: str | None
    subscription: bytes
    """What its assignor said of it (ConsumerProtocolSubscription)."""


@dataclass(frozen=True, slots=True)
class Elect:
    """This member leads a group of the classic protocol: compute who gets what.

    The driver loads the metadata of all topics that the members subscribe to, tells it by
    `on_metadata`, and then, at one go, computes the assignment and calls `on_elected`.

    Attributes:
        protocol: Name of the assignor that the coordinator chose.
        members: All of the generation.
        skip: The assignment stands already (KIP-814): none is computed, but the topics are told,
            since the leader watches them for all.
    """

    protocol: str
    members: tuple[GroupMember, ...]
    skip: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """A lasting error: whatever the application waits for raises it."""

    error: KafkaError


Step: TypeAlias = Send | FindCoordinator | Revoke | Lost | Assign | Elect | Fail


# --- what is told and read


class TopicLayout(NamedTuple):
    """As much of a topic's metadata as membership needs."""

    partitions: int
    """How many it has, numbered from 0."""
    racks: tuple[frozenset[str], ...] = ()
    """By partition, the racks that hold a copy; empty where no racks matter."""
    topic_id: UUID | None = None
    """None from brokers before 2.8."""


class CommitIdentity(NamedTuple):
    """As whom offsets are committed; handed back with an error, which may be of a time past."""

    member_id: str
    generation: int
    """Generation, or member epoch."""
    instance_id: str | None


class GroupMetadata(NamedTuple):
    """Who a member is, for TxnOffsetCommit (KIP-447)."""

    group_id: str
    generation: int
    """Generation, or member epoch; -1 outside of the group."""
    member_id: str
    """"" outside of the group."""
    instance_id: str | None


@dataclass(slots=True)
class Counters:
    """What a machine has done so far, for metrics.

    Attributes:
        heartbeats: Heartbeats answered without an error.
        last_heartbeat: Loop time when the last of them was sent, -1 for never.
        rebalances: Assignments that were received.
        failed_rebalances: Attempts to join that ended in an error which was not asked for
            (MEMBER_ID_REQUIRED is no failure).
        last_rebalance: Loop time when the last assignment came, -1 for never.
        rebalance_time: Seconds from the first request of each rebalance to its assignment, in
            all.
        slowest_rebalance: The longest of those.
        lost: How often partitions were lost.
    """

    heartbeats: int = 0
    last_heartbeat: float = -1.0
    rebalances: int = 0
    failed_rebalances: int = 0
    last_rebalance: float = -1.0
    rebalance_time: float = 0.0
    slowest_rebalance: float = 0.0
    lost: int = 0


@dataclass(frozen=True, slots=True)
class MembershipOptions:
    """The options of a member, Kafka's names; durations in seconds.

    Attributes:
        group_id: The group's name.
        group_instance_id: Makes a static member (KIP-345).
        session_timeout: Silence after which the coordinator forgets a member. The new protocol
            takes the group's own setting.
        heartbeat_interval: Between heartbeats; the new protocol's coordinator tells its own.
        rebalance_timeout: Most time that a member may take to give partitions back and rejoin;
            None: the session timeout, as aiokafka does.
        max_poll_interval: Without a poll for so long the member leaves until the next one.
        request_timeout: Of one request; JoinGroup and SyncGroup get the rebalance timeout on top
            if that is longer.
        retry_backoff: Between attempts (KIP-580).
        client_rack: Where the member is (KIP-881); None: untold.
        server_assignor: The new protocol's assignor; None: the group's default.

    Raises:
        KafkaConfigurationError: A duration that is not positive, or an empty name.
    """

    group_id: str
    group_instance_id: str | None = None
    session_timeout: float = 10.0
    heartbeat_interval: float = 3.0
    rebalance_timeout: float | None = None
    max_poll_interval: float = 300.0
    request_timeout: float = 40.0
    retry_backoff: Backoff = field(default_factory=lambda: Backoff(0.1, 1.0))
    client_rack: str | None = None
    server_assignor: str | None = None

    def __post_init__(self) -> None:
        if not self.group_id:
            raise KafkaConfigurationError("a group's name should not be empty")
        if self.group_instance_id == "":
            raise KafkaConfigurationError("`group_instance_id` should be None or not empty")
        for name in (
            "session_timeout",
            "heartbeat_interval",
            "max_poll_interval",
            "request_timeout",
        ):
            if not getattr(self, name) > 0:
                raise KafkaConfigurationError(f"`{name}` should be positive")
        if self.rebalance_timeout is not None and not self.rebalance_timeout > 0:
            raise KafkaConfigurationError("`rebalance_timeout` should be positive")

    @property
    def effective_rebalance_timeout(self) -> float:
        """`rebalance_timeout`, or what stands in for it."""
        return self.session_timeout if self.rebalance_timeout is None else self.rebalance_timeout


# --- the classic protocol's assignors


class RebalanceProtocol(Enum):
    """How a rebalance goes (KIP-429); the larger value is preferred."""

    EAGER = 0  # every member gives everything back before it joins
    COOPERATIVE = 1  # members keep what they have, and give back only what goes elsewhere


class Assignor(Protocol):
    """As much of an assignor as a member needs; who leads needs more, which the driver calls."""

    @property
    def name(self) -> str:
        """What members and coordinator call it by."""

    @property
    def rebalance_protocols(self) -> Collection[RebalanceProtocol]:
        """How it can rebalance."""

    def subscription(
        self,
        topics: frozenset[str],
        owned: frozenset[TopicPartition],
        generation: int,
        rack: str | None,
    ) -> bytes:
        """What the leader is to know of this member (ConsumerProtocolSubscription).

        Args:
            generation: In which `owned` was received; -1: none.
        """

    def on_assignment(self, assignment: bytes, generation: int) -> Collection[TopicPartition]:
        """Read what the leader has assigned (ConsumerProtocolAssignment), and remember it.

        Raises:
            KafkaProtocolError: It cannot be read.
        """


# --- the machine


class Membership(Protocol):
    """A member of a group, in either protocol."""

    counters: Counters

    @property
    def state(self) -> Enum:
        """Where it stands; each machine has its own states."""

    @property
    def member_id(self) -> str:
        """The member's id; "" while there is none."""

    @property
    def generation(self) -> int:
        """The generation, or the member epoch; -1 outside of the group."""

    @property
    def protocol(self) -> str:
        """Name of the assignor that the group goes by; "" where the broker assigns, or before the
        first generation."""

    @property
    def broker_assigns(self) -> bool:
        """Whether this is the protocol in which the broker assigns (KIP-848)."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What the application holds, as far as the machine has told it to."""

    @property
    def rejoin_needed(self) -> bool:
        """Whether a rebalance is wanted or under way."""

    @property
    def closed(self) -> bool:
        """Whether `close` is through: nothing more will be asked for."""

    @property
    def leaving(self) -> bool:
        """Whether `leave` or `close` is under way."""

    @property
    def watched_topics(self) -> frozenset[str]:
        """Topics whose changes `on_metadata` has to tell: its own, of a leader all members'."""

    @property
    def unresolved_topic_ids(self) -> frozenset[UUID]:
        """Topics that it shall own, but whose names `on_metadata` has yet to tell; while there are
        any, a rejoin is needed (the new protocol only)."""

    # what it wants

    def next_step(self, now: float) -> Step | None:
        """The next thing to do, or None for now. Each is handed out once."""

    def next_wakeup(self, now: float) -> float | None:
        """Loop time to ask `next_step` again at the latest; None: only after something is told.

        Ask it when `next_step` has given None; a time not after `now` means at once.
        """

    # what is told by the network

    def on_response(self, kind: str, response: Response, now: float) -> None:
        """A request was answered, possibly with an error code."""

    def on_error(self, kind: str, error: KafkaError, now: float) -> None:
        """A request, or the search for the coordinator, has failed."""

    def on_coordinator(self, now: float) -> None:
        """The coordinator is known."""

    def on_coordinator_lost(self, now: float) -> None:
        """The coordinator is gone (its connection was lost), or was found wrong elsewhere."""

    def on_metadata(self, topics: Mapping[str, TopicLayout], now: float) -> None:
        """The metadata of topics, at least of all `watched_topics` that exist."""

    # what is told by the application

    def on_subscription(
        self,
        topics: Collection[str],
        now: float,
        *,
        pattern: str | None = None,
        matches: Callable[[str], bool] | None = None,
    ) -> None:
        """What the application subscribes to; join, or rejoin if it is another thing.

        Args:
            topics: Names; of a pattern that the client resolves, those that match so far.
            pattern: A pattern that the broker resolves (RE2; the new protocol only).
            matches: Whether the client's pattern takes a topic: the leader may know some that
                this member does not know yet.
        """

    def on_poll(self, now: float, *, waiting: bool = False) -> None:
        """The application asks for records; before the first time, no poll is missed.

        Args:
            waiting: It goes on waiting for them, until the next call of this.
        """

    def on_revoked(self, now: float) -> None:
        """The listener of a `Revoke` is through, whether it raised or not."""

    def on_lost(self, now: float) -> None:
        """The listener of a `Lost` is through."""

    def on_assigned(self, now: float) -> None:
        """The listener of an `Assign` is through."""

    def on_elected(
        self, assignments: Mapping[str, bytes], now: float, topics: Collection[str] = ()
    ) -> None:
        """The assignment is computed.

        Args:
            assignments: By member id; {} if it was to be skipped.
            topics: All that members subscribe to.
        """

    def on_election_failed(self, error: KafkaError, now: float) -> None:
        """The assignment could not be computed."""

    def request_rejoin(self, reason: str, now: float) -> None:
        """Rebalance (KIP-568).

        Args:
            reason: Told to the coordinator (KIP-800).
        """

    def retry(self, now: float) -> None:
        """Go on after a `Fail`, as far as that can help."""

    def leave(self, reason: str, now: float) -> None:
        """Give everything back and leave; `on_subscription` may join again."""

    def close(self, now: float, stay: bool | None = None) -> None:
        """Give everything back and end.

        Args:
            stay: Remain in the group until the session times out (KIP-1092); None: static members
                do.
        """

    # commits

    def commit_identity(self) -> CommitIdentity | None:
        """As whom to commit; None: this is no member now, and a commit cannot succeed."""

    def on_commit_error(
        self, error: KafkaError, now: float, sent: CommitIdentity | None = None
    ) -> None:
        """A commit was refused.

        Args:
            sent: As whom it was sent; None: as `commit_identity` says now.
        """

    def group_metadata(self) -> GroupMetadata:
        """Who this is, for transactions."""
