"""Pushes one client's metrics (KIP-714): the interface for the client and its application.

If the first broker does not collect metrics, there is no task, and `push_task` is not imported.
Brokers collect metrics only with a plugin that implements `ClientTelemetry`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from aiokafka_lite import _arguments
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import IllegalStateError, KafkaTimeoutError, UnsupportedVersionError
from aiokafka_lite.metrics_push.application_metrics import ApplicationMetrics

if TYPE_CHECKING:  # loaded if the brokers collect metrics
    from aiokafka_lite.metrics_push.metric_points import ClientMetrics
    from aiokafka_lite.metrics_push.push_task import PushTask

__all__ = ["MetricsPush"]

log = logging.getLogger(__name__)

GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
"""The number of the API, whose messages only a client that pushes imports."""

LAST_PUSH_WITHIN: Final = 1.0
"""Seconds that a stop waits for the last push."""

READ_WITHIN: Final = 0.2
"""Seconds that a stop waits until the metrics of the last push are read. That takes milliseconds,
unless a push is under way whose answer is late."""


class MetricsPush:
    """Pushes the metrics of one client.

    Args:
        cluster: The client's.
        application: The metrics that the application adds.
        loop: The client's event loop.
        enabled: False: no subscription is requested and no metrics are pushed.
    """

    def __init__(
        self,
        cluster: Cluster,
        application: ApplicationMetrics,
        loop: asyncio.AbstractEventLoop,
        *,
        enabled: bool,
    ) -> None:
        self.application = application
        self.enabled = enabled
        self._cluster = cluster
        self._loop = loop
        self._tasks = TaskOwner("metrics push", self._on_task_error, loop)
        self._unsupported = False  # True if the first broker does not collect metrics
        self._pushing: PushTask | None = None  # None before the start, or without such brokers
        self._task: asyncio.Task[None] | None = None

    def start(self, metrics: Callable[[], ClientMetrics]) -> None:
        """Start pushing once the cluster is started. Does nothing if pushing is not enabled.

        Args:
            metrics: Returns the source of the metrics, which must not refer to the client's
                public object. Called only if the brokers collect metrics.
        """
        if not self.enabled:
            return
        if self._cluster.lacks_api(GET_TELEMETRY_SUBSCRIPTIONS):
            self._unsupported = True
            return
        from aiokafka_lite.metrics_push.push_task import PushTask

        self._pushing = PushTask(self._cluster, self.application, self._loop, metrics())
        self._task = self._tasks.spawn(self._pushing.run(), "push metrics")

    async def begin_to_close(self) -> None:
        """Begin the last push, if the brokers want metrics: read the metrics, and send them while
        the client closes its other parts. `close` waits for the answer. Idempotent.

        Cancellation: `close` ends the task.
        """
        pushing = self._pushing
        if pushing is None:
            return
        pushing.stop()
        if pushing.schedule.off:
            return
        try:
            async with asyncio.timeout(READ_WITHIN):
                await pushing.last_read.wait()
        except TimeoutError:
            pass  # the broker has not answered the previous push; the last one may contain less

    async def close(self, deadline: float) -> None:
        """Push for the last time if the brokers want metrics, and end the task. Idempotent.

        Args:
            deadline: Loop time; at most `LAST_PUSH_WITHIN` seconds are spent.

        Cancellation: ends the task.
        """
        task, pushing = self._task, self._pushing
        if task is None or pushing is None:
            return
        pushing.stop()
        now = self._loop.time()
        try:
            if not pushing.schedule.off and not task.done() and deadline > now:
                await asyncio.wait({task}, timeout=min(deadline - now, LAST_PUSH_WITHIN))
        finally:
            self._tasks.cancel()

    def abort(self) -> None:
        """End the task at once, without a last push; finalizers may call it. Idempotent."""
        self._tasks.cancel()

    async def client_instance_id(self, timeout: float) -> UUID:
        """Return the id that the brokers gave this client.

        Args:
            timeout: Seconds to wait for it.

        Raises:
            IllegalStateError: Pushing is disabled, or the client is not started or is stopped.
            UnsupportedVersionError: The brokers do not collect metrics of clients.
            KafkaTimeoutError: No broker assigned an id in this time.
            TypeError, ValueError: `timeout` is not a valid number.
        """
        limit = _arguments.seconds("timeout", timeout)
        if not limit >= 0:
            raise ValueError(f"`timeout` should be 0 or more seconds, not {timeout!r}")
        if not self.enabled:
            raise IllegalStateError(
                "the client has no instance id: it was created with enable_metrics_push=False"
            )
        pushing = self._pushing
        if pushing is not None:
            try:
                async with asyncio.timeout(limit):
                    await pushing.identified.wait()
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"no broker assigned a client instance id within {limit:g} s"
                ) from None
            if pushing.schedule.client_instance_id is not None:
                return pushing.schedule.client_instance_id
        if self._unsupported or (pushing is not None and pushing.schedule.unsupported):
            raise UnsupportedVersionError(
                "the brokers do not collect metrics of clients: they have no plugin for it"
            )
        if pushing is None:
            self._cluster.check_open()  # raises if it is not started
        raise IllegalStateError("the client has no instance id: it is not started, or is stopped")

    def _on_task_error(self, name: str, error: BaseException) -> None:
        """Log a bug that ended the task; the client continues."""
        extra = {"kafka_client_id": self._cluster.client_id}
        text = "%s: %s crashed; no more metrics are pushed"
        log.error(text, self._cluster.client_id, name, exc_info=error, extra=extra)
