"""The interface of the two membership machines: the steps they request, and their inputs. Sans-IO.

A machine (`classic.machine.ClassicMembership`, `consumer.machine.ConsumerMembership`) decides when
a member of a group joins, heartbeats, revokes partitions and leaves. One driver task carries out
its decisions, the same for both protocols:

    while (step := machine.next_step(now)) is not None:
        ...  # begin it; once it is done, call the machine's method named below
    ...      # then wait for the first of: an outcome, `next_wakeup(now)`, the application

==================  =============================================================================
Step                Called when it is done
==================  =============================================================================
`Send`              exactly once, `on_response(kind, ...)` or `on_error(kind, ...)`; until then
                    the machine requests no other of the same kind
`FindCoordinator`   `on_coordinator`, or `on_error(FIND_COORDINATOR, ...)`
`Revoke`            `on_revoked`; none of the next three is requested before
`Lost`              `on_lost`
`Assign`            `on_assigned`
`Elect`             `on_elected` or `on_election_failed`
`Fail`              nothing; `retry` when the application wants to continue
==================  =============================================================================

Non-obvious:
- `next_step` returns each step once, and the caller must carry it out. Several steps may be in
  progress at once (a callback and a heartbeat).
- Times are arguments, in seconds of the event loop's clock; they never go back.
- The driver removes partitions from the fetcher before it calls the listener of a `Revoke` or
  `Lost`, and adds those of an `Assign` before it calls the listener, so that the listener's seeks
  stay in effect. `assignment` is what the application holds according to its listener calls.
- A broker answers the requests of a connection in order. A heartbeat, a commit or a LeaveGroup
  behind a JoinGroup that waits for other members would wait too. The machine sends no heartbeat
  then; requests that must not wait set `Send.apart`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.errors import KafkaConfigurationError, KafkaError
from aiokafka_lite.group.assignor import Assignor, GroupMember, RebalanceProtocol, TopicLayout
from aiokafka_lite.group.group_metadata import GroupMetadata
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
"""The `kind` with which the driver reports that no coordinator was found."""

Partitions: TypeAlias = frozenset[TopicPartition]


# --- steps


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request to the group's coordinator.

    Attributes:
        kind: The API's name, such as "Heartbeat"; the outcome is reported with it.
        request_class: The class of the request, to choose the version.
        request_for: Builds the request for a version.
        timeout: Seconds until the request times out and its connection is closed.
        oldest: The oldest suitable version.
        apart: True if it must not queue behind a JoinGroup or SyncGroup in progress: it is then
            sent over another connection.
    """

    kind: str
    request_class: type[Request]
    request_for: Callable[[int], Request]
    timeout: float
    oldest: int = 0
    apart: bool = False


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Find the coordinator, which is unknown or was wrong."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Revoke partitions from the application, whose listener may still commit their offsets.

    Attributes:
        partitions: May be empty: the eager protocol calls the listener in every rebalance.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Lost:
    """Take away lost partitions, which other members may own already: no commit can succeed.

    Attributes:
        partitions: Never empty.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Assign:
    """Assign partitions to the application.

    Attributes:
        added: Partitions that it did not hold before; may be empty.
        all: All partitions that it holds from now on.
    """

    added: Partitions
    all: Partitions


@dataclass(frozen=True, slots=True)
class Elect:
    """Compute the assignment, because this member leads a group of the classic protocol.

    The driver loads the metadata of all topics that the members subscribe to and passes it to
    `on_metadata`. Then, without an await, it computes the assignment and calls `on_elected`.

    Attributes:
        protocol: Name of the assignor that the coordinator chose.
        members: All members of the generation.
        skip: True if the group already has an assignment (KIP-814). None is computed, but the
            topics are reported, because the leader watches them for all members.
    """

    protocol: str
    members: tuple[GroupMember, ...]
    skip: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """Report a lasting error: the application's pending calls raise it."""

    error: KafkaError


Step: TypeAlias = Send | FindCoordinator | Revoke | Lost | Assign | Elect | Fail


# --- data of the machines


class CommitIdentity(NamedTuple):
    """The identity used for a commit; passed back with an error, which may be out of date."""

    member_id: str
    generation: int
    """Generation, or member epoch."""
    instance_id: str | None


@dataclass(slots=True)
class Counters:
    """Counters of a machine, for metrics.

    Attributes:
        heartbeats: Heartbeats answered without an error.
        last_heartbeat: Loop time when the last of them was sent; -1: never.
        rebalances: Number of assignments received.
        failed_rebalances: Attempts to join that failed (MEMBER_ID_REQUIRED is not a failure).
        last_rebalance: Loop time when the last assignment was received; -1: never.
        rebalance_time: Total seconds from the first request of each rebalance to its assignment.
        slowest_rebalance: The longest of those, in seconds.
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
    """The options of a member under Kafka's names; durations are in seconds.

    Attributes:
        group_id: The group's name.
        group_instance_id: Makes a static member (KIP-345).
        session_timeout: Time without a heartbeat after which the coordinator removes a member. The
            consumer protocol uses the group's configuration instead.
        heartbeat_interval: Time between heartbeats; in the consumer protocol the coordinator sets
            it.
        rebalance_timeout: Maximum time for a member to revoke partitions and rejoin; None: the
            session timeout, as in aiokafka.
        max_poll_interval: A member that does not poll for this long leaves until the next poll.
        request_timeout: Timeout of one request; JoinGroup and SyncGroup also get the rebalance
            timeout if that is longer.
        retry_backoff: Time between attempts (KIP-580).
        client_rack: The member's rack (KIP-881), or None.
        server_assignor: The consumer protocol's assignor; None: the group's default.
        client_id: The client's id; log lines begin with it.

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
    client_id: str = "client"

    def __post_init__(self) -> None:
        if not self.group_id:
            raise KafkaConfigurationError("`group_id` should not be empty")
        if self.group_instance_id == "":
            raise KafkaConfigurationError("`group_instance_id` should be None or not empty")
        for name in (
            "session_timeout",
            "heartbeat_interval",
            "max_poll_interval",
            "request_timeout",
        ):
            if not getattr(self, name) > 0:
                raise KafkaConfigurationError(
                    f"`{name}` should be positive, not {getattr(self, name)!r}"
                )
        if self.rebalance_timeout is not None and not self.rebalance_timeout > 0:
            raise KafkaConfigurationError(
                f"`rebalance_timeout` should be positive, not {self.rebalance_timeout!r}"
            )

    @property
    def log_fields(self) -> dict[str, object]:
        """Further attributes of this membership's log records (`extra`)."""
        return {"kafka_client_id": self.client_id, "kafka_group": self.group_id}

    @property
    def effective_rebalance_timeout(self) -> float:
        """`rebalance_timeout`, or its default."""
        return self.session_timeout if self.rebalance_timeout is None else self.rebalance_timeout


# --- the classic protocol's assignors


# --- the machine


class Membership(Protocol):
    """A member of a group, in either protocol."""

    counters: Counters

    @property
    def state(self) -> Enum:
        """The current state; each machine has its own set of states."""

    @property
    def member_id(self) -> str:
        """The member id; "" if there is none."""

    @property
    def generation(self) -> int:
        """The generation, or the member epoch; -1 outside of the group."""

    @property
    def protocol(self) -> str:
        """Name of the group's assignor; "" if the broker assigns, or before the first
        generation."""

    @property
    def broker_assigns(self) -> bool:
        """True if the broker computes the assignment (KIP-848)."""

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the application holds, according to the machine's steps."""

    @property
    def rejoin_needed(self) -> bool:
        """True if a rebalance is needed or in progress."""

    @property
    def closed(self) -> bool:
        """True once `close` has completed: the machine requests no more steps."""

    @property
    def leaving(self) -> bool:
        """True while `leave` or `close` is in progress."""

    @property
    def watched_topics(self) -> frozenset[str]:
        """Topics that `on_metadata` must report: its own; for a leader, those of all members."""

    @property
    def unresolved_topic_ids(self) -> frozenset[UUID]:
        """Assigned topics whose names `on_metadata` has not reported yet; while there are any, a
        rejoin is needed (consumer protocol only)."""

    @property
    def pending_failure(self) -> KafkaError | None:
        """The lasting error that the next `Fail` will report; None if there is none."""

    # steps

    def next_step(self, now: float) -> Step | None:
        """The next step, or None for now. Each step is returned once."""

    def next_wakeup(self, now: float) -> float | None:
        """Latest loop time to call `next_step` again; None: only after the next input.

        Call it after `next_step` returned None; a time not after `now` means at once.
        """

    # inputs from the network

    def on_response(self, kind: str, response: Response, now: float) -> None:
        """A request was answered, possibly with an error code."""

    def on_error(self, kind: str, error: KafkaError, now: float) -> None:
        """A request or the coordinator lookup failed."""

    def on_coordinator(self, now: float) -> None:
        """The coordinator was found."""

    def on_coordinator_lost(self, now: float) -> None:
        """The coordinator is unknown: its connection was lost, or another request failed there."""

    def on_metadata(self, topics: Mapping[str, TopicLayout], now: float) -> None:
        """New metadata of topics, at least of all `watched_topics` that exist."""

    # inputs from the application

    def on_subscription(
        self,
        topics: Collection[str],
        now: float,
        *,
        pattern: str | None = None,
        matches: Callable[[str], bool] | None = None,
    ) -> None:
        """The application subscribes: join, or rejoin if the subscription changed.

        Args:
            topics: Names; for a pattern that the client resolves, the current matches.
            pattern: A pattern that the broker resolves (RE2; consumer protocol only).
            matches: Returns True if the client's pattern matches a topic: the leader may know
                topics that this member does not know yet.
        """

    def on_poll(self, now: float, *, waiting: bool = False) -> None:
        """The application polls for records; the poll interval starts with the first call.

        Args:
            waiting: The application waits for records until the next call of this method.
        """

    def on_revoked(self, now: float) -> None:
        """The listener of a `Revoke` has completed, whether it raised or not."""

    def on_lost(self, now: float) -> None:
        """The listener of a `Lost` has completed."""

    def on_assigned(self, now: float) -> None:
        """The listener of an `Assign` has completed."""

    def on_elected(
        self, assignments: Mapping[str, bytes], now: float, topics: Collection[str] = ()
    ) -> None:
        """The assignment was computed.

        Args:
            assignments: By member id; {} if the step had `skip`.
            topics: All topics that members subscribe to.
        """

    def on_election_failed(self, error: KafkaError, now: float) -> None:
        """The assignment could not be computed."""

    def request_rejoin(self, reason: str, now: float) -> None:
        """Rebalance (KIP-568).

        Args:
            reason: Sent to the coordinator (KIP-800).
        """

    def retry(self, now: float) -> None:
        """Continue after a `Fail`, if that can help."""

    def leave(self, reason: str, now: float) -> None:
        """Revoke all partitions and leave; `on_subscription` may join again."""

    def close(self, now: float, stay: bool | None = None) -> None:
        """Revoke all partitions and end.

        Args:
            stay: Remain in the group until the session times out (KIP-1092); None: static members
                do.
        """

    # commits

    def commit_identity(self) -> CommitIdentity | None:
        """The identity to commit with; None: not a member now, so a commit cannot succeed."""

    def on_commit_error(
        self, error: KafkaError, now: float, sent: CommitIdentity | None = None
    ) -> None:
        """The coordinator rejected a commit.

        Args:
            sent: The identity it was sent with; None: the current `commit_identity`.
        """

    def group_metadata(self) -> GroupMetadata:
        """The identity of this member, for transactions."""
