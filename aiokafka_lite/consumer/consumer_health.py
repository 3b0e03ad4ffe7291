"""What `AIOKafkaConsumer.health` returns. It reads the parts of a consumer and changes nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from aiokafka_lite.cluster.reach import Reach, StateClock
from aiokafka_lite.errors import FencedInstanceIdError
from aiokafka_lite.structs import ConsumerHealth, HealthState

if TYPE_CHECKING:  # membership is imported only with a group
    from aiokafka_lite.consumer.core import ConsumerCore
    from aiokafka_lite.consumer.membership.consumer_group import ConsumerGroup

__all__ = ["consumer_health"]


def consumer_health(core: ConsumerCore, clock: StateClock, *, stopped: bool) -> ConsumerHealth:
    """Judge a consumer.

    Args:
        core: The consumer's parts.
        clock: Records how long the state has lasted.
        stopped: True once the application has called `stop`.
    """
    now = core.loop.time()
    reach = core.cluster.reach(now)
    group = core.group
    state, reason, error = _state(core, reach, stopped)
    fetched_at = core.buffer.metrics.fetched_at
    ready = state in (HealthState.STABLE, HealthState.REBALANCING, HealthState.RECONNECTING)
    if ready and not reach.answers(core.options.fetch_max_wait):
        ready = False
        state, reason = HealthState.RECONNECTING, reach.why_not()
    if group is not None and not stopped and group.driver.stuck(now):
        alive, reason = False, f"the task of group {group.options.group_id} makes no progress"
    else:
        alive = not (state is HealthState.FAILED and _is_final(core, reach, error))
    return ConsumerHealth(
        state=state,
        ready=ready,
        alive=alive,
        reason=reason,
        since=clock.see(state),
        last_error=None if stopped else error or reach.error,
        brokers_connected=reach.connected,
        metadata_age=reach.metadata_age,
        assigned=len(core.positions),
        last_heartbeat_ago=_heartbeat_ago(group, now),
        last_fetch_ago=None if fetched_at is None else time.monotonic() - fetched_at,
        last_poll_ago=None if group is None else group.read_ago(now),
    )


def _state(
    core: ConsumerCore, reach: Reach, stopped: bool
) -> tuple[HealthState, str, Exception | None]:
    """The state as far as it does not depend on whether brokers answer, the reason, the error."""
    if stopped:
        return HealthState.STOPPED, "stop() was called", None
    error = _error(core)
    if error is not None:
        return HealthState.FAILED, f"{type(error).__name__}: {error}", error
    if not core.started:
        begun = core.starting and not core.closed
        reason = "start() has not connected yet" if begun else "start() was not called"
        return HealthState.STARTING, reason, None
    if reach.ended:
        return HealthState.FAILED, reach.why_not(), None
    group = core.group
    if group is not None and core.subscription.shared:
        from aiokafka_lite.group.member_standing import standing

        where = standing(group.driver, joined=group.joined)
        return where.state, where.reason, where.explained_by(group.last_failure)
    if not len(core.positions):
        if core.subscription.topics or core.subscription.pattern is not None:
            return HealthState.JOINING, "the subscribed topics have no partitions yet", None
        return HealthState.JOINING, "no topic or partition is subscribed to or assigned", None
    return HealthState.STABLE, "", None


def _error(core: ConsumerCore) -> Exception | None:
    """The error that reads raise."""
    if core.reader.error is not None:
        return core.reader.error
    group = core.group
    if group is not None and core.subscription.shared:
        # The membership fails at once; a task passes the error on a pass of the loop later.
        failure = group.failure or group.driver.membership.pending_failure
        if failure is not None:
            return failure
    return next((state.error for state in core.positions if state.error is not None), None)


def _is_final(core: ConsumerCore, reach: Reach, error: Exception | None) -> bool:
    """True if a failed consumer cannot recover: a task crashed, or the member was replaced."""
    crashed = core.crash is not None and error is core.crash
    return crashed or reach.ended or isinstance(error, FencedInstanceIdError)


def _heartbeat_ago(group: ConsumerGroup | None, now: float) -> float | None:
    if group is None:
        return None
    at = group.driver.membership.counters.last_heartbeat
    return None if at < 0 else now - at
