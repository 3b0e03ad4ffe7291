"""Pushes one client's metrics (KIP-714): the task, and what an application asks of it.

There is no task if the first broker does not collect metrics, which is so unless a plugin of the
brokers does (`ClientTelemetry`). Without a subscription the task sends one small request in an
interval that the broker sets, five minutes by default.

Non-obvious:
- Requests have a connection of their own. A plugin that hangs would otherwise hold back the
  metadata that follows on the same connection.
- A failure of any kind is a line at level DEBUG: metrics must not disturb their client, and must
  not look like trouble to the people who read its log.
- Reading and encoding lets the event loop run between slices of at most a few hundred points.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import Final, TypeVar
from uuid import UUID

from aiokafka_lite import _arguments
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite._threads import NoThreadError, codec_threads
from aiokafka_lite.cluster.broker import Broker, Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from aiokafka_lite.metrics_push.application_metrics import ApplicationMetrics
from aiokafka_lite.metrics_push.metric_points import ClientMetrics, Deltas
from aiokafka_lite.metrics_push.otlp import Encoder, Point
from aiokafka_lite.metrics_push.push_schedule import PushSchedule, Step, Subscription
from aiokafka_lite.protocol.message import RequestOf, Response
from aiokafka_lite.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from aiokafka_lite.protocol.messages.push_telemetry import PushTelemetryRequest
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.record.compression import Compression, compress

__all__ = ["MetricsPush"]

log = logging.getLogger(__name__)

LAST_PUSH_WITHIN: Final = 1.0
"""Seconds that a stop waits for the last push."""

READ_WITHIN: Final = 0.2
"""Seconds that a stop waits until the metrics of the last push are read. That takes milliseconds,
unless a push is under way whose answer is late."""

LONGEST_SLEEP: Final = 3600.0
"""Seconds; event loops do not accept unbounded timers."""

LARGE: Final = 64 * 1024
"""Bytes from which a push is compressed in a thread."""

_ResponseT = TypeVar("_ResponseT", bound=Response)


class MetricsPush:
    """Pushes the metrics of one client.

    Args:
        cluster: The client's.
        application: The metrics that the application adds.
        loop: The client's event loop.
        enabled: False: nothing is asked or pushed.
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
        self._schedule: PushSchedule | None = None  # None before the start
        self._deltas = Deltas()
        self._broker: Broker | None = None  # the same for all requests, until it fails
        self._wake = asyncio.Event()  # set: the task looks at the schedule again
        self._last_read = asyncio.Event()  # set: the metrics of the last push were read
        self._identified = asyncio.Event()  # set: the instance id is known, or will never be
        self._began = self._pushed = 0  # nanoseconds since the epoch: start, last accepted push
        self._task: asyncio.Task[None] | None = None

    def start(self, metrics: ClientMetrics) -> None:
        """Begin, once the cluster is started. Does nothing if it is not enabled.

        Args:
            metrics: Where the metrics come from; must not refer to the client's public object.
        """
        if not self.enabled:
            return
        self._schedule = PushSchedule(self._loop.time(), random.uniform)
        if self._cluster.lacks_api(GetTelemetrySubscriptionsRequest.api_key):
            self._schedule.on_unsupported()
            self._identified.set()
            return
        self._began = self._pushed = time.time_ns()
        self._task = self._tasks.spawn(self._run(self._schedule, metrics), "push metrics")

    async def begin_to_close(self) -> None:
        """Begin the last push, if the brokers want metrics: read the metrics, and send them while
        the client closes its other parts. `close` waits for the answer. Idempotent.

        Cancellation: `close` ends the task.
        """
        schedule = self._schedule
        self._stop(schedule)
        if self._task is None or schedule is None or schedule.off:
            return
        try:
            async with asyncio.timeout(READ_WITHIN):
                await self._last_read.wait()
        except TimeoutError:
            pass  # the broker has not answered the push before; the last one may have less to say

    def _stop(self, schedule: PushSchedule | None) -> None:
        if schedule is not None:
            schedule.on_stop(self._loop.time())
        self._wake.set()
        self._identified.set()

    async def close(self, deadline: float) -> None:
        """Push for the last time if the brokers want metrics, and end the task. Idempotent.

        Args:
            deadline: Loop time; at most `LAST_PUSH_WITHIN` seconds are spent.

        Cancellation: ends the task.
        """
        task, schedule = self._task, self._schedule
        if task is None or schedule is None:
            return
        self._stop(schedule)
        now = self._loop.time()
        try:
            if not schedule.off and not task.done() and deadline > now:
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
        schedule = self._schedule
        if schedule is None:
            self._cluster.check_open()  # says that it is not started
        else:
            try:
                async with asyncio.timeout(limit):
                    await self._identified.wait()
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"no broker assigned a client instance id within {limit:g} s"
                ) from None
            if schedule.client_instance_id is not None:
                return schedule.client_instance_id
            if schedule.unsupported:
                raise UnsupportedVersionError(
                    "the brokers do not collect metrics of clients: they have no plugin for it"
                )
        raise IllegalStateError("the client has no instance id: it is not started, or is stopped")

    # The task

    async def _run(self, schedule: PushSchedule, metrics: ClientMetrics) -> None:
        try:
            while not schedule.off:
                now = self._loop.time()
                step = schedule.next_step(now)
                if step is None:
                    await self._sleep(schedule.next_wakeup() - now)
                elif step is Step.ASK:
                    await self._ask(schedule)
                else:
                    await self._push(schedule, metrics, terminating=step is Step.LAST)
        finally:
            schedule.off = True
            self._last_read.set()
            self._identified.set()

    async def _sleep(self, pause: float) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(min(pause, LONGEST_SLEEP)):
                await self._wake.wait()
        except TimeoutError:
            pass  # the pause is over

    async def _ask(self, schedule: PushSchedule) -> None:
        request = GetTelemetrySubscriptionsRequest(schedule.client_instance_id or ZERO_UUID)
        response = await self._send(schedule, request)
        if response is None:
            return
        schedule.on_subscription(response, self._loop.time())
        log.debug("%s: metrics subscription: %r", self._cluster.client_id, response)
        if schedule.client_instance_id is not None:
            self._identified.set()

    async def _push(
        self, schedule: PushSchedule, metrics: ClientMetrics, *, terminating: bool
    ) -> None:
        subscription = schedule.subscription
        if subscription is None:
            raise AssertionError("a push is due only with a subscription")
        read_at = time.time_ns()
        self._deltas.begin()
        data = await self._encoded(subscription, metrics, read_at, schedule.application_too)
        if terminating:
            self._last_read.set()
        codec, data = await self._compressed(data, subscription.codecs)
        if len(data) > subscription.max_bytes:
            log.debug("%s: %d bytes of metrics are too many", self._cluster.client_id, len(data))
            schedule.on_too_large(self._loop.time())
            return
        request = PushTelemetryRequest(
            subscription.client_instance_id,
            subscription.subscription_id,
            terminating,
            codec,
            data,
        )
        response = await self._send(schedule, request)
        if response is None or not response.error_code:
            self._deltas.on_accepted()
            self._pushed = read_at
        if response is not None:
            if response.error_code:
                log.debug("%s: metrics were refused: %r", self._cluster.client_id, response)
            schedule.on_pushed(response.error_code, self._loop.time())

    async def _encoded(
        self, subscription: Subscription, metrics: ClientMetrics, now_ns: int, application: bool
    ) -> bytes:
        delta = subscription.delta
        encoder = Encoder(
            start_ns=self._pushed if delta else self._began, now_ns=now_ns, delta=delta
        )

        def add(points: list[Point]) -> None:
            for point in self._deltas.since_last(points) if delta else points:
                encoder.add(point)

        for points in metrics.points(subscription.wants):
            add(points)
            await asyncio.sleep(0)
        if application:
            name = self._cluster.client_id
            add(list(self.application.points(subscription.wants, name)))
        return encoder.finish(metrics.resource())

    async def _compressed(
        self, data: bytes, codecs: tuple[Compression, ...]
    ) -> tuple[Compression, bytes]:
        if not codecs or codecs[0] is Compression.NONE:
            return Compression.NONE, data
        if len(data) >= LARGE:
            try:
                return codecs[0], await codec_threads.run(self._loop, compress, data, codecs[0])
            except NoThreadError:
                pass  # slow is better than not at all
        return codecs[0], compress(data, codecs[0])

    async def _send(
        self, schedule: PushSchedule, request: RequestOf[_ResponseT]
    ) -> _ResponseT | None:
        """Send a request; None if there is no response, which the schedule then knows."""
        broker = self._broker
        try:
            if broker is None or broker.closed or broker.connected(Purpose.TELEMETRY) is None:
                broker = self._broker = self._cluster.any_broker()
            return await broker.request(request, Purpose.TELEMETRY)
        except UnsupportedVersionError:
            schedule.on_unsupported()
        except KafkaError as error:
            log.debug("%s: metrics got no answer: %s", self._cluster.client_id, error)
            self._broker = None
            schedule.on_unanswered(self._loop.time())
        return None

    def _on_task_error(self, name: str, error: BaseException) -> None:
        """The task ended by a bug; its client works on."""
        extra = {"kafka_client_id": self._cluster.client_id}
        text = "%s: %s crashed; no more metrics are pushed"
        log.error(text, self._cluster.client_id, name, exc_info=error, extra=extra)
