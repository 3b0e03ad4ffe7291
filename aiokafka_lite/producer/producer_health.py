"""What `AIOKafkaProducer.health` returns. It reads the parts of a producer and changes nothing."""

from __future__ import annotations

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.reach import Reach, StateClock
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.producer.sending.sender import Sender
from aiokafka_lite.structs import HealthState, ProducerHealth

__all__ = ["producer_health"]


def producer_health(
    cluster: Cluster,
    sender: Sender,
    clock: StateClock,
    now: float,
    *,
    begun: bool,
    stopped: bool,
) -> ProducerHealth:
    """Judge a producer.

    Args:
        cluster: The producer's cluster.
        sender: Its sender.
        clock: Records how long the state has lasted.
        now: In loop time.
        begun: True once `start` was called, unless it failed.
        stopped: True once `stop` was called.
    """
    reach = cluster.reach(now)
    fatal = sender.fatal
    state, reason = _state(reach, sender, fatal, begun, stopped)
    oldest = min((batch.created for batch in sender.accumulator.unresolved()), default=None)
    pool = sender.pool
    return ProducerHealth(
        state=state,
        ready=state is HealthState.STABLE,
        # Neither a fatal error nor a crash of the sender can be repaired within this producer.
        alive=state is not HealthState.FAILED,
        reason=reason,
        since=clock.see(state),
        last_error=None if stopped else fatal or reach.error,
        brokers_connected=reach.connected,
        metadata_age=reach.metadata_age,
        oldest_unacked_age=None if oldest is None else max(now - oldest, 0.0),
        buffered_bytes=pool.total - pool.unused,
        in_flight=sender.in_flight,
    )


def _state(
    reach: Reach, sender: Sender, fatal: KafkaError | None, begun: bool, stopped: bool
) -> tuple[HealthState, str]:
    if stopped:
        return HealthState.STOPPED, "stop() was called"
    if not begun:
        return HealthState.STARTING, "start() was not called"
    if fatal is not None:
        return HealthState.FAILED, f"{type(fatal).__name__}: {fatal}"
    if reach.ended:
        return HealthState.FAILED, reach.why_not()
    if not sender.started:
        return HealthState.STARTING, "start() has not connected yet"
    if not reach.answers():
        return HealthState.RECONNECTING, reach.why_not()
    return HealthState.STABLE, ""
