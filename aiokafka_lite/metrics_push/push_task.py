"""The task that pushes one client's metrics (KIP-714).

Without a subscription, it sends one small request per interval, which the broker sets: five minutes
by default.

Non-obvious:
- Requests have their own connection. Otherwise, a plugin that hangs would delay the metadata
  that follows on the same connection.
- A failure of any kind is logged at level DEBUG: metrics must not disturb the client, nor look like
  a problem in its log.
- Reading and encoding lets the event loop run between slices of at most a few hundred points.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import Final, TypeVar

from aiokafka_lite._threads import NoThreadError, codec_threads
from aiokafka_lite.cluster.broker import Broker, Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.errors import KafkaError, UnsupportedVersionError
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

__all__ = ["PushTask"]

log = logging.getLogger(__name__)

LONGEST_SLEEP: Final = 3600.0
"""Seconds; event loops do not accept timers of unlimited length."""

LARGE: Final = 64 * 1024
"""Pushes of at least this many bytes are compressed in a thread."""

_ResponseT = TypeVar("_ResponseT", bound=Response)


class PushTask:
    """Requests subscriptions and pushes metrics.

    Args:
        cluster: The client's cluster, started.
        application: The metrics that the application adds.
        loop: The client's event loop.
        metrics: The source of the metrics.

    Attributes:
        schedule: Which request is due.
        last_read: Set once the metrics of the last push were read.
        identified: Set once the instance id is known, or will never be.
    """

    def __init__(
        self,
        cluster: Cluster,
        application: ApplicationMetrics,
        loop: asyncio.AbstractEventLoop,
        metrics: ClientMetrics,
    ) -> None:
        self.schedule = PushSchedule(loop.time(), random.uniform)
        self.last_read = asyncio.Event()
        self.identified = asyncio.Event()
        self._cluster = cluster
        self._application = application
        self._loop = loop
        self._metrics = metrics
        self._deltas = Deltas()
        self._broker: Broker | None = None  # the same for all requests, until it fails
        self._wake = asyncio.Event()  # makes the task check the schedule again
        self._began = time.time_ns()  # since the epoch

    def stop(self) -> None:
        """Make the next push the last one, and end waits for the instance id. Idempotent."""
        self.schedule.on_stop(self._loop.time())
        self._wake.set()
        self.identified.set()

    async def run(self) -> None:
        """Request subscriptions and push until the schedule ends."""
        schedule = self.schedule
        try:
            while not schedule.off:
                now = self._loop.time()
                step = schedule.next_step(now)
                if step is None:
                    await self._sleep(schedule.next_wakeup() - now)
                elif step is Step.ASK:
                    await self._ask()
                else:
                    await self._push(terminating=step is Step.LAST)
        finally:
            schedule.off = True
            self.last_read.set()
            self.identified.set()

    async def _sleep(self, pause: float) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(min(pause, LONGEST_SLEEP)):
                await self._wake.wait()
        except TimeoutError:
            pass  # the pause is over

    async def _ask(self) -> None:
        schedule = self.schedule
        request = GetTelemetrySubscriptionsRequest(schedule.client_instance_id or ZERO_UUID)
        response = await self._send(request)
        if response is None:
            return
        schedule.on_subscription(response, self._loop.time())
        log.debug("%s: metrics subscription: %r", self._cluster.client_id, response)
        if schedule.client_instance_id is not None:
            self.identified.set()

    async def _push(self, *, terminating: bool) -> None:
        schedule = self.schedule
        subscription = schedule.subscription
        if subscription is None:
            raise AssertionError("a push is due only with a subscription")
        read_at = time.time_ns()
        self._deltas.begin(read_at)
        data = await self._encoded(subscription, read_at, schedule.application_too)
        if terminating:
            self.last_read.set()
        codec, data = await self._compressed(data, subscription.codecs)
        if len(data) > subscription.max_bytes:
            log.debug("%s: metrics of %d bytes are too large", self._cluster.client_id, len(data))
            schedule.on_too_large(self._loop.time())
            return
        request = PushTelemetryRequest(
            subscription.client_instance_id,
            subscription.subscription_id,
            terminating,
            codec,
            data,
        )
        response = await self._send(request)
        if response is None or not response.error_code:
            self._deltas.on_accepted()
        if response is not None:
            if response.error_code:
                log.debug("%s: metrics were rejected: %r", self._cluster.client_id, response)
            schedule.on_pushed(response.error_code, self._loop.time())

    async def _encoded(self, subscription: Subscription, now_ns: int, application: bool) -> bytes:
        delta = subscription.delta
        encoder = Encoder(start_ns=self._began, now_ns=now_ns, delta=delta)

        def add(points: list[Point]) -> None:
            for point in self._deltas.since_last(points) if delta else points:
                encoder.add(point)

        for points in self._metrics.points(subscription.wants):
            add(points)
            await asyncio.sleep(0)
        if application:
            name = self._cluster.client_id
            add(list(self._application.points(subscription.wants, name)))
        return encoder.finish(self._metrics.resource())

    async def _compressed(
        self, data: bytes, codecs: tuple[Compression, ...]
    ) -> tuple[Compression, bytes]:
        if not codecs or codecs[0] is Compression.NONE:
            return Compression.NONE, data
        if len(data) >= LARGE:
            try:
                return codecs[0], await codec_threads.run(self._loop, compress, data, codecs[0])
            except NoThreadError:
                pass  # compress in the event loop instead
        return codecs[0], compress(data, codecs[0])

    async def _send(self, request: RequestOf[_ResponseT]) -> _ResponseT | None:
        """Send a request; without a response, inform the schedule and return None."""
        schedule = self.schedule
        broker = self._broker
        try:
            if broker is None or broker.closed or broker.connected(Purpose.TELEMETRY) is None:
                broker = self._broker = self._cluster.any_broker()
            return await broker.request(request, Purpose.TELEMETRY)
        except UnsupportedVersionError:
            schedule.on_unsupported()
        except KafkaError as error:
            log.debug("%s: no response to a metrics request: %s", self._cluster.client_id, error)
            self._broker = None
            schedule.on_unanswered(self._loop.time())
        return None
