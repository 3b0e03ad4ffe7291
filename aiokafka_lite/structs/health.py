"""What the `health()` of a client returns: names of `structs`, imported there on first use.

The dataclasses take longer to import than everything else in `structs`.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["ConsumerHealth", "Health", "HealthState", "ProducerHealth"]


class HealthState(StrEnum):
    """The state of a client, as its `health()` reports it. Not in aiokafka."""

    STARTING = "starting"
    """`start()` was not called, or has not connected yet."""
    JOINING = "joining"
    """Not a member of the group, or without its first assignment; or nothing is subscribed to."""
    STABLE = "stable"
    """Working."""
    REBALANCING = "rebalancing"
    """The group rebalances; the member keeps its place."""
    RECONNECTING = "reconnecting"
    """No broker answers, or the coordinator of the group is unknown. The client keeps trying."""
    FAILED = "failed"
    """Reads or sends raise `last_error`."""
    STOPPED = "stopped"
    """`stop()` was called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of a client at one instant. Not in aiokafka.

    Attributes:
        state: The state of the client.
        ready: True if the client can do its work now: for a readiness probe.
        alive: False if the client cannot recover, so that the process should be restarted: for a
            liveness probe. An unreachable cluster never makes it False.
        reason: Why the state is not `STABLE`, for people; "" if it is.
        since: When `health()` first returned this state, in seconds since the epoch.
        last_error: The error that explains the state, if there is one.
        brokers_connected: Number of brokers with an open connection.
        metadata_age: Seconds since the last metadata refresh; None before the first.
    """

    state: HealthState
    ready: bool
    alive: bool
    reason: str
    since: float
    last_error: Exception | None
    brokers_connected: int
    metadata_age: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHealth(Health):
    """The health of a consumer or a share consumer. Not in aiokafka.

    Attributes:
        assigned: Number of assigned partitions.
        last_heartbeat_ago: Seconds since the last answered heartbeat was sent; None before the
            first and without a group.
        last_fetch_ago: Seconds since a broker answered a fetch; None before the first.
        last_poll_ago: Seconds since the application read; 0.0 while a read waits. None before the
            first read and without a group. A read that takes a record which is already decoded
            is noticed within an eighth of `max_poll_interval_ms`.
    """

    assigned: int
    last_heartbeat_ago: float | None
    last_fetch_ago: float | None
    last_poll_ago: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerHealth(Health):
    """The health of a producer. Not in aiokafka.

    Attributes:
        oldest_unacked_age: Seconds since the first record of the oldest batch without an outcome;
            None if there is no such batch.
        buffered_bytes: Bytes of `buffer_memory` in use.
        in_flight: Produce requests without an answer.
    """

    oldest_unacked_age: float | None
    buffered_bytes: int
    in_flight: int


for _public in (HealthState, Health, ConsumerHealth, ProducerHealth):
    _public.__module__ = "aiokafka_lite.structs"  # where applications and pickles find it
