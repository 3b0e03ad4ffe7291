"""What `AIOKafkaShareConsumer.health` returns. It reads the parts of a share consumer and changes
nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka_lite.cluster.reach import Reach, StateClock
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.member_standing import standing
from aiokafka_lite.structs import ConsumerHealth, HealthState

if TYPE_CHECKING:
    from aiokafka_lite.share.share_core import ShareCore

__all__ = ["share_health"]


def share_health(core: ShareCore, clock: StateClock, *, stopped: bool) -> ConsumerHealth:
    """Judge a share consumer.

    Args:
        core: The consumer's parts.
        clock: Records how long the state has lasted.
        stopped: True once the application has called `stop`.
    """
    now = core.loop.time()
    reach = core.cluster.reach(now)
    state, reason, error = _state(core, reach, stopped)
    ready = state in (HealthState.STABLE, HealthState.REBALANCING, HealthState.RECONNECTING)
    if ready and not reach.answers(core.options.fetch_max_wait):
        ready = False
        state, reason = HealthState.RECONNECTING, reach.why_not()
    if not stopped and core.group.driver.stuck(now):
        alive, reason = False, f"the task of group {core.group.driver.group_id} makes no progress"
    else:
        crashed = core.crash is not None and error is core.crash
        alive = not (state is HealthState.FAILED and (crashed or reach.ended))
    heartbeat_at = core.group.driver.membership.counters.last_heartbeat
    fetched_at = core.metrics.fetched_at
    return ConsumerHealth(
        state=state,
        ready=ready,
        alive=alive,
        reason=reason,
        since=clock.see(state),
        last_error=None if stopped else error or reach.error,
        brokers_connected=reach.connected,
        metadata_age=reach.metadata_age,
        assigned=len(core.assignment),
        last_heartbeat_ago=None if heartbeat_at < 0 else now - heartbeat_at,
        last_fetch_ago=None if fetched_at is None else now - fetched_at,
        last_poll_ago=core.group.read_ago(now),
    )


def _state(
    core: ShareCore, reach: Reach, stopped: bool
) -> tuple[HealthState, str, KafkaError | None]:
    """The state as far as it does not depend on whether brokers answer, the reason, the error."""
    if stopped:
        return HealthState.STOPPED, "stop() was called", None
    # The membership fails at once; a task passes the error on a pass of the loop later.
    error = core.crash or core.failure or core.group.driver.membership.pending_failure
    if error is not None:
        return HealthState.FAILED, f"{type(error).__name__}: {error}", error
    if not core.started:
        begun = core.starting and not core.closed
        reason = "start() has not connected yet" if begun else "start() was not called"
        return HealthState.STARTING, reason, None
    if reach.ended:
        return HealthState.FAILED, reach.why_not(), None
    where = standing(core.group.driver, joined=core.group.joined)
    return where.state, where.reason, where.explained_by(core.group.last_failure)
