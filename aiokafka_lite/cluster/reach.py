"""Which brokers answer, judged without a request: the part of `health()` that all clients share.

Nothing here has a clock or does I/O.

Non-obvious:
- A broker without pending requests is not silent. So an idle client notices a frozen broker only
  with its next request, which is a metadata refresh at the latest. A broken connection causes such
  a refresh at once.
- A coordinator may hold a join for as long as a rebalance takes, and a plugin may hold metrics, so
  requests on connections for `Purpose.GROUP` and `Purpose.TELEMETRY` do not make the cluster
  silent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

from aiokafka_lite.errors import KafkaError

if TYPE_CHECKING:
    from aiokafka_lite.cluster.broker import Broker
    from aiokafka_lite.structs import HealthState

__all__ = ["LATELY", "Reach", "StateClock", "reach"]

LATELY: Final = 10.0
"""Seconds that all brokers may leave requests unanswered before the client is not ready. Longer
than the 5 seconds after which a metadata refresh tries the next broker."""


class Reach(NamedTuple):
    """The connections of a client at one instant."""

    connected: int
    """Number of brokers with an open connection."""
    silent_for: float
    """Seconds for which requests wait and no broker has answered any; 0.0 if none waits."""
    error: KafkaError | None
    """Why the last metadata refresh failed; None if it succeeded."""
    metadata_age: float | None
    """Seconds since the last metadata refresh; None before the first."""
    ended: bool
    """True if the connection to the cluster is closed."""

    def answers(self, held: float = 0.0) -> bool:
        """True if a broker answered within the last `LATELY` seconds, or had nothing to answer.

        Args:
            held: Seconds that a broker may hold a fetch in addition.

        Idle connections may be closed on purpose, so the lack of one counts only if the last
        metadata refresh failed as well.
        """
        if self.ended or self.silent_for > LATELY + held:
            return False
        return self.connected > 0 or self.error is None

    def why_not(self) -> str:
        """Return why no broker answers."""
        if self.ended:
            return "the connection to the cluster is closed"
        if self.connected:
            return f"no broker has answered for {self.silent_for:.0f} s"
        return f"no broker is reachable: {self.error}"


def reach(
    brokers: Iterable[Broker],
    now: float,
    error: KafkaError | None,
    metadata_age: float,
    *,
    ended: bool,
) -> Reach:
    """Judge the connections to these brokers; see `Reach`.

    Args:
        brokers: All brokers of the client, bootstrap addresses included.
        now: In loop time.
        error: Of the last metadata refresh.
        metadata_age: Seconds; infinite before the first refresh.
        ended: True if the cluster is closed.
    """
    connected = 0
    answered_at = -1.0
    asked_at: float | None = None  # when the oldest pending request began to wait
    for broker in brokers:
        connections = broker.connections
        connected += bool(connections)
        for purpose, connection in connections.items():
            answered_at = max(answered_at, connection.answered_at)
            if connection.in_flight and not purpose.may_wait:
                at = connection.asked_at
                asked_at = at if asked_at is None else min(asked_at, at)
    silent_for = 0.0 if asked_at is None else max(now - max(answered_at, asked_at), 0.0)
    age = metadata_age if isfinite(metadata_age) else None
    return Reach(connected, silent_for, error, age, ended)


class StateClock:
    """Records how long a client has been in its state.

    Attributes:
        since: When the last state was first passed to `see`, in seconds since the epoch.
    """

    __slots__ = ("_state", "since")

    def __init__(self) -> None:
        self._state: HealthState | None = None
        self.since = 0.0

    def see(self, state: HealthState) -> float:
        """Return when this state began, which is now if it differs from the last one."""
        if state is not self._state:
            self._state = state
            self.since = time.time()
        return self.since
