"""One broker's outbox: its partitions that have something to send, and the requests in flight.

When something may be sent, the next iteration of the event loop puts one batch of every ready
partition into a request, without any await. It sends requests until nothing is ready or
`max_in_flight_requests_per_connection` are in flight. The outbox's task only maintains the
connection: it sleeps until the connection is lost or the socket is full. No request has a task or a
future.

Non-obvious:
- An iteration of the event loop costs an idle service a fifth of its latency. So there are only
  two between a send and its outcome: one that collects other records of the same request, and one
  that reads the response. The latter also wakes the waiters, after it has processed the response.
- A failure is reported in its own iteration, because a connection may fail its requests at any
  time, even inside a call of the outbox.
- One request carries many partitions because the cost is per request, not per byte. It holds at
  most one batch of a partition (brokers refuse more) and at most `max_request_size` bytes, except
  for a single larger batch.
- A partition goes to the back of the queue only after it was served. A partition whose batch did
  not fit into a request stays first for the next one.
- `ready` may contain partitions that no longer have anything to send, or that moved to another
  broker: `sendable` is checked when their turn comes. So the cost depends on events, not on the
  number of partitions.
- Once a request is sent, the kernel or the connection has a copy of its batches. So a batch may be
  resolved, and its buffer reused, while its request is still in flight.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.silent_brokers import SILENCE
from aiokafka_lite.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    UnsupportedVersionError,
)
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.producer.batching.accumulator import Accumulator, PartitionQueue, ProducerBatch
from aiokafka_lite.producer.producer_metrics import ProducerMetrics
from aiokafka_lite.producer.producer_options import ProducerOptions
from aiokafka_lite.producer.sending.outcomes import Outcomes
from aiokafka_lite.producer.sending.produce_codec import FIRST_VERSION, AllStored
from aiokafka_lite.producer.sending.produce_request import Part, Requests
from aiokafka_lite.protocol.framing import RequestInPieces
from aiokafka_lite.protocol.messages.produce import ProduceRequest, ProduceResponse

__all__ = ["Outbox", "Owner"]

log = logging.getLogger(__name__)


class Owner(Protocol):
    """Creates the outboxes, and decides how they react to a broker without a connection."""

    def on_unreachable(self, outbox: "Outbox", error: KafkaError) -> None:
        """There is no connection to the broker."""

    def on_mistake(self, outbox: "Outbox", error: BaseException) -> None:
        """The outbox failed because of a bug."""


class Outbox:
    """Sends the batches of one broker's partitions.

    Args:
        node_id: The broker's node id.
        cluster: Provides the broker's connections.
        accumulator: Provides the batches.
        options: The producer's options.
        name: The producer's name, for log lines.
        outcomes: Decides the outcome of the batches.
        metrics: The producer's metrics.
        owner: Notified when the broker cannot be reached.
    """

    def __init__(
        self,
        node_id: int,
        cluster: Cluster,
        accumulator: Accumulator,
        options: ProducerOptions,
        name: str,
        outcomes: Outcomes,
        metrics: ProducerMetrics,
        owner: Owner,
    ) -> None:
        self.node_id = node_id
        self.ready: deque[PartitionQueue] = deque()
        self.in_flight = 0  # requests
        self.trouble: KafkaError | None = None  # the last error that prevented a connection
        self._cluster = cluster
        self._accumulator = accumulator
        self._options = options
        self._name = name
        self._outcomes = outcomes
        self._metrics = metrics
        self._owner = owner
        self.loop = accumulator.loop
        self._requests = Requests(node_id, cluster, options, accumulator.identity)
        self._timeout = options.request_timeout
        self._expects_response = options.acks != 0
        self._connection: Connection | None = None  # the last one that was found
        self._max_in_flight = options.max_in_flight
        self._alone = False  # the last request carried a single record
        self._waker: asyncio.Future[None] | None = None  # the task sleeps on it
        self._pass_is_due = False
        self._paused_until = 0.0  # loop time; requested by the broker (throttle_time_ms)
        self._moved_at = 0.0  # loop time of the last request, or of the first to be ready since

    def offer(self, queue: PartitionQueue) -> None:
        """A partition may have something to send."""
        if not queue.listed:
            if not self.ready:
                self._moved_at = self.loop.time()
            queue.listed = True
            self.ready.append(queue)
        self.wake()

    @property
    def connected(self) -> bool:
        """True if there is an open connection."""
        return self._connection is not None and not self._connection.closed

    @property
    def throttled(self) -> bool:
        """True if the broker requested a pause that is not over."""
        return self._paused_until > self.loop.time()

    def stalled_for(self, now: float) -> float:
        """Return the seconds for which partitions were ready but nothing was sent."""
        return now - self._moved_at if self.ready else 0.0

    def leave_if_silent(self, queue: PartitionQueue) -> None:
        """Close the connection if the broker does not respond, because another broker now leads
        this partition.

        A broker that has lost a partition, for example with its disk, may hold a request for it for
        `request_timeout_ms`. The batches are numbered, so none is stored twice.
        """
        connection = self._connection
        if connection is None or connection.closed:
            return
        silent_for = connection.silent_for(self.loop.time())
        if silent_for is not None and silent_for >= SILENCE:
            topic, partition = queue.topic_partition
            text = (
                f"broker {self.node_id} has not answered for {silent_for:.1f} s, and no longer "
                f"leads {topic}-{partition}"
            )
            log.info("%s: %s", self._name, text, extra=log_extra(self._name, broker=self.node_id))
            connection.close(KafkaConnectionError(text))

    def withdraw(self, queue: PartitionQueue) -> None:
        """Remove a partition that another broker now leads."""
        if queue.listed:
            self.ready.remove(queue)
            queue.listed = False

    def wake(self) -> None:
        """Try to send in the next iteration of the loop, if anything may be sent."""
        if not self._pass_is_due and self._may_send:
            self._pass_is_due = True
            self.loop.call_soon(self._pass)

    def offer_at_once(self, queue: PartitionQueue) -> None:
        """Offer a partition whose batch was just opened; the caller's state must be consistent.

        If the last request carried a single record, this one is probably alone too. It is then sent
        at once, instead of waiting for other records.
        """
        if self._alone and not self.in_flight and not self._pass_is_due:
            waited = bool(self.ready)
            queue.listed = True
            self.ready.append(queue)
            self._look()
            if self.ready and not waited:
                self._moved_at = self.loop.time()
        else:
            self.offer(queue)

    @property
    def _may_send(self) -> bool:
        return (
            bool(self.ready)
            and self.in_flight < self._max_in_flight
            and (not self._paused_until or self.loop.time() >= self._paused_until)
        )

    def _pass(self) -> None:
        """Send what may be sent, or wake the task to restore the connection."""
        self._pass_is_due = False
        self._look()

    def _look(self) -> None:
        if not self._may_send:
            return
        connection = self._connection
        if connection is not None and connection.writable:
            try:
                self._send_ready(connection)
            except Exception as error:
                self.on_mistake(error)
        elif self._waker is not None and not self._waker.done():
            self._waker.set_result(None)
        # otherwise the task is connecting, and sends when it is done

    async def run(self) -> None:
        """Connect whenever there is something to send, until cancelled."""
        while True:
            self._waker = self.loop.create_future()
            self.wake()
            await self._waker
            self._waker = None
            try:
                broker = self._cluster.broker(self.node_id)
                connection = broker.connected(Purpose.PRODUCE)
                if connection is None:
                    connection = await broker.connection(Purpose.PRODUCE)
                self._connection = connection
                self.trouble = None
                if not connection.writable:
                    await connection.drain()
            except KafkaError as error:
                self.trouble = error
                self._owner.on_unreachable(self, error)
                if not isinstance(error, KafkaConnectionError):
                    # The attempt may have failed at once, for example because the broker is no
                    # longer in the metadata. The next refresh then moves its partitions.
                    await asyncio.sleep(self._options.retry_backoff.delay(1))
                continue
            self._look()  # checks again: the broker may have requested a pause meanwhile

    async def drain(self) -> None:
        """Flush the connection with acks=0, after the last request.

        With acks=0, no response confirms the requests, and data that TLS buffers is certain to be
        written only once the connection is closed.
        """
        if self._expects_response:
            return
        try:
            connection = self._cluster.broker(self.node_id).connected(Purpose.PRODUCE)
            if connection is not None:
                await connection.drain()
                connection.close()
                await connection.wait_closed()
        except KafkaError as error:
            log.debug(
                "%s: broker %d disconnected before all requests were written: %s",
                self._name,
                self.node_id,
                error,
            )

    def _send_ready(self, connection: Connection) -> None:
        """Send all that may be sent now."""
        now = self.loop.time()
        while self.ready and self.in_flight < self._max_in_flight:
            parts, unsendable = self._accumulator.collect(self.ready, now)
            for queue, batch, error in unsendable:
                self._outcomes.on_unsendable(queue, batch, error)
            if parts:
                self._post(connection, parts, now)

    def _post(self, connection: Connection, parts: Sequence[Part], now: float) -> None:
        """Send one request."""
        try:
            version = self._requests.version_for(connection)
        except UnsupportedVersionError as error:
            self._outcomes.on_failed(parts, error)
            return
        request: RequestInPieces | ProduceRequest
        if version >= FIRST_VERSION:
            version, request = self._requests.make(version, parts)
        else:
            request, parts, refused = self._requests.make_old(version, parts)
            for part, why in refused:
                self._outcomes.on_failed([part], why)
            if not parts:
                return
        connection.send_for(
            self._note_sent(parts, now),
            request,
            version,
            timeout=self._timeout,
            expect_response=self._expects_response,
        )
        if self._expects_response:
            self._cluster.expect_answer()

    def _note_sent(self, parts: Sequence[Part], now: float) -> "_Sent":
        self._metrics.on_request(parts, now)
        self._alone = len(parts) == 1 and parts[0][1].count == 1
        self.in_flight += 1
        self._moved_at = now
        return _Sent(self, parts, now)

    def on_response(
        self, parts: Sequence[Part], sent_at: float, response: ProduceResponse | AllStored
    ) -> None:
        """A request was answered: process the whole response, then wake the waiters."""
        self.in_flight -= 1
        woken: list[ProducerBatch] = []
        now = self.loop.time()
        try:
            throttle_ms = response[0] if isinstance(response, tuple) else response.throttle_time_ms
            self._outcomes.on_response(self.node_id, parts, response, woken)
            self._metrics.on_response(now - sent_at, throttle_ms / 1000, now)
            if throttle_ms > 0:
                self._pause(throttle_ms / 1000)
            if self.ready:
                self.wake()
        finally:
            if woken:
                self._wake_all(woken)  # even if a bug raised an exception above

    def on_mistake(self, error: BaseException) -> None:
        """Report a bug: nothing more can be sent."""
        self._owner.on_mistake(self, error)

    def on_failure(self, parts: Sequence[Part], error: BaseException) -> None:
        """A request failed and will not be answered."""
        self.in_flight -= 1
        if not isinstance(error, KafkaError):
            error = KafkaProtocolError(
                f"the Produce response of broker {self.node_id} cannot be decoded: {error!r}"
            )
        self._outcomes.on_failed(parts, error)
        self.wake()

    def on_written(self, parts: Sequence[Part]) -> None:
        """A request without an answer was written to the socket."""
        self.in_flight -= 1
        self._outcomes.on_written(parts)
        self.wake()

    def _wake_all(self, woken: Sequence[ProducerBatch]) -> None:
        """Wake the waiters of these batches, as an iteration of the loop would."""
        for batch in woken:
            try:
                batch.wake()
            except (SystemExit, KeyboardInterrupt) as error:
                # It stops the loop, but not here, where the connection is processing frames.
                self.loop.call_soon(_raise, error)

    def _pause(self, seconds: float) -> None:
        """Send nothing for a while: the broker throttles this client (KIP-219)."""
        # A broker mutes the connection for the time it returns. For longer than a request's
        # timeout, all requests in flight would time out, so a longer time is a broker bug.
        seconds = min(seconds, self._options.request_timeout)
        if self._connection is not None:
            self._connection.on_throttled(seconds)
        until = self.loop.time() + seconds
        if until > self._paused_until:
            self._paused_until = until
            self.loop.call_at(until, self._on_resumed, until)

    def _on_resumed(self, until: float) -> None:
        """The pause is over. This does not check the clock: the timer may fire a little early."""
        if self._paused_until == until:
            self._paused_until = 0.0
        self.wake()


class _Sent:
    """A request in flight, to which the connection passes the response."""

    __slots__ = ("_outbox", "_parts", "_sent_at")

    def __init__(self, outbox: Outbox, parts: Sequence[Part], sent_at: float) -> None:
        self._outbox = outbox
        self._parts = parts
        self._sent_at = sent_at  # loop time

    def done(self) -> bool:
        return False  # its response is always wanted

    def set_result(self, response: ProduceResponse | AllStored | None, /) -> None:
        outbox = self._outbox
        if response is None:  # perhaps inside the call that sends it
            outbox.loop.call_soon(outbox.on_written, self._parts)
            return
        try:
            outbox.on_response(self._parts, self._sent_at, response)
        except Exception as error:  # a bug here must not close the connection
            outbox.on_mistake(error)

    def set_exception(self, exception: BaseException, /) -> None:
        outbox = self._outbox
        outbox.loop.call_soon(outbox.on_failure, self._parts, exception)

    def exception(self) -> None:
        """Do nothing: the failure is always reported."""


def _raise(error: BaseException) -> None:
    raise error
