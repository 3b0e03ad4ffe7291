"""The fetches of one broker: one task, and at most one fetch in flight.

Non-obvious:

- Only a `BrokerFetch` and its task change the fetch in flight; the generations of partitions show
  whether they changed meanwhile.
- The cost of a fetch depends only on what changed since the previous one: nothing here iterates
  over `line`, except to begin a session, after a failure, or when the memory is used up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable
from copy import copy
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.metadata import LeaderHint, Node
from aiokafka_lite.cluster.pace import Pace
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.buffering.waiters import Waiters
from aiokafka_lite.consumer.consumer_options import ConsumerOptions
from aiokafka_lite.consumer.fetching.fetch_session import SESSION_ERRORS, FetchSession
from aiokafka_lite.consumer.fetching.in_flight_fetch import FetchFlight, UnreadFetch
from aiokafka_lite.consumer.fetching.loop_budget import LoopBudget
from aiokafka_lite.consumer.fetching.partition_response import Answers
from aiokafka_lite.consumer.fetching.response_codec import read_fetch_response
from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.consumer.partitions.response_body import ResponseBody
from aiokafka_lite.errors import FetchSessionTopicIdError, KafkaError, KafkaProtocolError
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.net.throttle import LONGEST_THROTTLE
from aiokafka_lite.protocol.messages.fetch import FetchRequest, FetchResponse, LeaderIdAndEpoch
from aiokafka_lite.structs import TopicPartition

log = logging.getLogger(__name__)

RESPONSE_LIMIT_FROM: Final = 3
"""First version that limits the whole response (KIP-74, Kafka 0.10.1). Older versions limit only
each partition, and truncate a record that exceeds this limit."""

LEAST_RESPONSE: Final = 64 * 1024
"""Minimum bytes to request in a response, however many brokers share the memory."""

FEW_BYTES: Final = 16 * 1024
"""Up to this size, waiting reads get the records before the next fetch is sent, within the call
that received them: for a single record, a system call or a loop iteration may cost more than
everything else. For larger responses this would delay the next fetch."""

FIRST_WAIT: Final = 0.01
"""Seconds that a fetch may wait for records while other partitions of its broker have no position
yet; each further one waits twice as long. A partition can be fetched only after the response, so a
fetch that waits `fetch_max_wait_ms` would delay the first records of a consumer by that time."""


PartitionHint: TypeAlias = tuple[TopicPartition, LeaderIdAndEpoch]
"""The leader of a partition as named by another broker."""


class FetchOwner(Protocol):
    """The part of the fetcher that the fetches of one broker need."""

    cluster: Cluster
    buffer: FetchBuffer
    waiters: Waiters
    options: ConsumerOptions
    tasks: TaskOwner
    answers: Answers
    budget: LoopBudget
    connecting: Pace
    topic_ids: dict[str, UUID]
    loop: asyncio.AbstractEventLoop

    @property
    def share(self) -> int:
        """Maximum bytes of one broker that are buffered or in flight."""

    def update(self, state: PartitionState) -> None:
        """A partition changed: reconsider its fetch."""

    def leave_replica(self, state: PartitionState) -> None:
        """A follower failed: fetch the partition from its leader."""


class BrokerFetch:
    """The fetches of one broker.

    Args:
        fetcher: Its owner.
        node: The broker's node id.

    Attributes:
        partitions: The partitions placed at this broker, fetched or not.
        line: Partitions to fetch, in the order to serve them.
        held: Partitions with undecoded records that are not paused.
        bytes: Bytes of this broker's response bodies that are still held.
    """

    def __init__(self, fetcher: FetchOwner, node: int) -> None:
        self.partitions: set[PartitionState] = set()
        self.line: OrderedDict[PartitionState, None] = OrderedDict()
        self.held: set[PartitionState] = set()
        self.bytes = 0
        self._fetcher = fetcher
        self._options = fetcher.options
        self._response_bytes = fetcher.options.response_bytes
        self._node = node
        self._loop = fetcher.loop
        self._session = FetchSession(fetcher.options)
        self._connection: Connection | None = None
        self._latest = 0  # newest version of Fetch that both sides support
        self._in_flight: FetchFlight | None = None
        self._failure: BaseException | None = None  # the task handles it next
        self._without_position: set[PartitionState] = set()  # to fetch once it is found
        self._short_wait = FIRST_WAIT  # of the next fetch, while there are such partitions
        self._partial = False  # True if the fetch in flight is a partial one
        self._not_before = 0.0  # loop time until which it is throttled or backs off
        self._quiet_until = 0.0  # loop time; no partial fetch before: the last returned nothing
        self._failures = 0
        self._sent_at = 0.0  # monotonic, of the fetch in flight or the last one
        self._answered_at = 0  # milliseconds since the epoch
        self._last_bytes = 0  # of the last response
        self._applying = False  # True while a response is applied and waiting reads take from it
        self._closed = False
        self._queued = False  # True while the task's next send is scheduled for a later iteration
        self._changed = asyncio.Event()
        self._task = fetcher.tasks.spawn(self._run(), f"fetch from broker {node}")

    def close(self) -> None:
        """End the task; a pending response is dropped."""
        self._closed = True
        if self._in_flight is not None:
            self._in_flight.cancel()
        self._task.cancel()

    async def end_session(self) -> None:
        """End the broker's fetch session; call it after `close`.

        Raises:
            KafkaError: The request failed; the broker will evict the session.
        """
        connection = self._connection
        request = self._session.last_request()
        if request is None or connection is None or connection.closed:
            return
        if connection.in_flight:
            # The broker answers in order, and may hold the fetch in flight for long.
            broker = self._fetcher.cluster.broker(self._node)
            connection = await broker.connection(Purpose.GENERAL)
        await connection.request(request, connection.version_of(FetchRequest))

    # --- its partitions

    def sort(self, state: PartitionState, *, wanted: bool) -> None:
        """Update a changed partition.

        Args:
            wanted: True to fetch it.
        """
        if state.fetched.records is not None and not state.paused:
            self.held.add(state)
        else:
            self.held.discard(state)
        if not wanted:
            self.line.pop(state, None)
        elif state not in self.line:
            self.line[state] = None
        if not wanted and state.fetch_offset is None and state.error is None and not state.paused:
            self._without_position.add(state)
        else:
            self._without_position.discard(state)
        self._session.on_change(state)

    def drop(self, state: PartitionState) -> None:
        """Stop fetching a partition, which moved to another broker or was lost."""
        self.line.pop(state, None)
        self.held.discard(state)
        self._without_position.discard(state)
        self._session.on_change(state)
        self.wake()

    def polled_at(self, state: PartitionState) -> int | None:
        """Return when the broker last responded for a partition, in milliseconds since the epoch.
        In a session, a response omits unchanged partitions, but counts for them too."""
        polled_at = state.source.polled_at
        if polled_at is not None and self._session.remembers(state):
            return max(polled_at, self._answered_at)
        return polled_at

    @property
    def failing(self) -> bool:
        """True if the last fetch failed with its connection and none was made since."""
        return self._failures > 0 and self._connection is None

    # --- the task

    def wake(self) -> None:
        """Wake the task in the next loop iteration. Not needed while a fetch is in flight or about
        to be sent, because its response wakes the task."""
        if self._in_flight is None and not self._applying:
            self._changed.set()

    def send(self) -> None:
        """Send the next fetch now if possible, otherwise wake the task."""
        if self._in_flight is not None or self._applying:
            return
        if not self._maybe_send(self._loop.time()):
            self._changed.set()

    async def _run(self) -> None:
        while True:
            failure, self._failure = self._failure, None
            if failure is not None:
                self._handle_failure(failure)
                continue
            now = self._loop.time()
            if self._in_flight is None and not self._applying and not self._queued:
                self._queued = True
                self._fetcher.budget.run(self._send_in_turn)
            if self._failure is None:
                await self._wait(now)

    def _send_in_turn(self) -> None:
        """Send the next fetch, or wake the task if that is not possible."""
        self._queued = False
        self._send_or_fail()

    async def _wait(self, now: float) -> None:
        """Wait until a connection is made, a pause is over, or `wake` is called.

        Args:
            now: The loop time before `_maybe_send` refused. With a later time, a pause that ended
                in between would have no timer, and the wait might never end.
        """
        self._changed.clear()
        until: float | None = None
        if self.line and self._in_flight is None:
            if now < self._not_before:
                until = self._not_before
            elif self._connection is None or self._connection.closed:
                await self._connect()
                return
            elif self.held:
                until = self._quiet_until if now < self._quiet_until else None
        try:
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        except TimeoutError:
            pass  # the pause is over

    async def _connect(self) -> None:
        delay = self._fetcher.connecting.next_delay(self._loop.time())
        if delay:
            await asyncio.sleep(delay)
        try:
            broker = self._fetcher.cluster.broker(self._node)
            connection = await broker.connection(Purpose.FETCH)
            self._latest = connection.version_of(FetchRequest)
        except KafkaError as error:
            self._on_failure(error)
            return
        self._connection = connection

    def _on_failure(self, error: KafkaError) -> None:
        """The broker is unreachable or rejects fetches: back off, and refresh the metadata."""
        self._failures += 1
        self._not_before = self._loop.time() + self._fetcher.cluster.retry_backoff.delay(
            self._failures
        )
        # An outage is reported by the broker's connections; this is the first of its failures.
        level = logging.INFO if self._failures == 1 else logging.DEBUG
        log.log(
            level,
            "%s: Fetching from broker %s failed: %s",
            self._options.log_name,
            self._node,
            error,
            extra=log_extra(self._options.log_name, broker=self._node),
        )
        for state in [state for state in self.line if state.source.replica == self._node]:
            self._fetcher.leave_replica(state)
        if not error.retriable:
            for state in self.line:
                self._fetcher.buffer.fail(state, copy(error), stays=False)
            for state in list(self.line):
                self._fetcher.update(state)
            self._fetcher.waiters.wake()
        self._fetcher.cluster.request_update()

    def _maybe_send(self, now: float) -> bool:
        """Send the next fetch, if there is one and it can be sent now. Never waits.

        Args:
            now: The loop time.
        """
        connection = self._connection
        if self._in_flight is not None or not self.line or connection is None or connection.closed:
            return False
        if now < self._not_before or (self.held and now < self._quiet_until):
            return False
        wanted, max_bytes = self._plan()
        if not wanted:
            return False
        self._partial = bool(self.held)
        max_wait = 0.0 if self._partial else self._max_wait()
        latest = self._latest
        if latest < RESPONSE_LIMIT_FROM:
            most = max(max_bytes // self._options.max_partition_fetch_bytes, 1)
            wanted = list(islice(wanted, most))
        session = self._session
        ask = session.next_request if wanted is self.line else session.next_request_apart
        request = ask(
            wanted, self._fetcher.topic_ids, latest, max_wait=max_wait, max_bytes=max_bytes
        )
        self._sent_at = time.monotonic()
        self._in_flight = flight = FetchFlight(
            request, self._on_answer, self._on_lost, self._fetcher.budget.is_used_up
        )
        try:
            connection.send_for(
                flight,
                flight,
                session.version,
                timeout=self._options.request_timeout + max_wait,
            )
        except BaseException:
            self._in_flight = None
            raise
        self._fetcher.cluster.expect_answer()
        return True

    def _max_wait(self) -> float:
        """Return the seconds that the next fetch may wait for records."""
        longest = self._options.fetch_max_wait
        if not self._without_position:
            self._short_wait = FIRST_WAIT
            return longest
        wait = min(self._short_wait, longest)
        self._short_wait = 2 * wait
        return wait

    def _plan(self) -> tuple[Collection[PartitionState], int]:
        """Return the partitions to request (all in line, or some) and the bytes, within the memory
        limit."""
        share = self._fetcher.share
        max_bytes = max(min(self._response_bytes, share // 2), LEAST_RESPONSE)
        max_bytes = min(max_bytes, self._response_bytes)
        if self.bytes == 0 or self.bytes + max_bytes <= share:
            return self.line, max_bytes
        buffer = self._fetcher.buffer
        waiters = [w for w in self._fetcher.waiters.awaited() if not buffer.is_decoding(w)]
        if not waiters:
            return (), 0
        buffer.evict_paused()
        if self.bytes + max_bytes <= share:
            return self.line, max_bytes
        awaited = [state for state in self.line if any(not w or state.tp in w for w in waiters)]
        return awaited, min(max_bytes, self._options.max_partition_fetch_bytes)

    def _on_answer(self, response: FetchResponse | UnreadFetch) -> None:
        """Process a response now or, in a burst, in a later iteration of the event loop.

        Until then, it counts as in flight. Never raises.
        """
        self._fetcher.budget.run(partial(self._apply, response))

    def _apply(self, response: FetchResponse | UnreadFetch) -> None:
        self._in_flight = None
        if self._closed:
            return
        if isinstance(response, UnreadFetch):
            try:
                response = read_fetch_response(*response)
            except Exception as error:
                self._on_unreadable(error)
                return
        self._applying = True
        filled: list[PartitionState] = []
        try:
            self._on_response(response, filled)
        except Exception as error:
            self._applying = False
            self._update_filled(filled)
            self._on_lost(error)
            return
        self._failures = 0
        waiters = self._fetcher.waiters
        waited = bool(filled) and bool(waiters)
        few = self._last_bytes <= FEW_BYTES
        if waited and few:
            waiters.wake_now()
        self._update_filled(filled)
        if waited and not few:
            # Waiting reads are woken first, but run only after the next fetch was sent.
            self._applying = False
            waiters.wake()
            self._loop.call_soon(self._continue)
        else:
            self._continue()

    def _on_unreadable(self, error: Exception) -> None:
        """Close the connection after an undecodable response, as the connection does by itself
        outside a burst."""
        connection = self._connection
        text = f"{connection}: the response to Fetch cannot be read: {error}"
        if connection is not None:
            connection.close(KafkaProtocolError(text))
        failure = KafkaProtocolError(text)
        failure.__cause__ = error
        self._on_lost(failure)

    def _update_filled(self, filled: Iterable[PartitionState]) -> None:
        """Update the partitions that received data."""
        for state in filled:
            if state.fetched.records is not None:  # otherwise `on_drained` has updated it
                self._fetcher.update(state)

    def _continue(self) -> None:
        self._applying = False
        self._send_or_fail()

    def _send_or_fail(self) -> None:
        if self._closed:
            return
        try:
            self.send()
        except Exception as error:
            self._on_lost(error)  # in the task, which is supervised

    def _on_lost(self, error: BaseException) -> None:
        """No response will arrive, or it cannot be applied."""
        self._in_flight = None
        self._failure = error
        self._changed.set()

    def _handle_failure(self, failure: BaseException) -> None:
        """Handle a failed fetch; any error that is not a KafkaError is a bug and ends the task."""
        if isinstance(failure, SESSION_ERRORS):
            self._on_session_rejected(failure)
        elif isinstance(failure, KafkaError):
            self._session.on_failure()
            self._connection = None
            self._on_failure(failure)
        else:
            raise failure

    def _on_session_rejected(self, error: KafkaError) -> None:
        """The broker rejected the session: begin a new one at once, unless it rejects that one too,
        or its topic ids differ from those in the metadata: then back off."""
        if self._failures or isinstance(error, FetchSessionTopicIdError):
            self._on_failure(error)
        else:
            self._failures = 1
            log.debug(
                "%s: Broker %s rejected the fetch session: %s; starting a new one",
                self._options.log_name,
                self._node,
                error,
            )

    def _on_response(self, response: FetchResponse, filled: list[PartitionState]) -> None:
        """Pass the response to the buffer.

        Args:
            filled: Receives the partitions that now have data for the application. The caller
                updates them, after waiting reads may have taken the data.
        """
        answers = self._session.take_answers(response)
        size = 0
        for answer in answers:
            if answer.data.records is not None:
                size += len(answer.data.records)
        body = ResponseBody(size, self._on_released)
        self.bytes += size
        self._last_bytes = size
        fetcher = self._fetcher
        hints: list[PartitionHint] = [
            (answer.asked.state.tp, answer.data.current_leader)
            for answer in answers
            if answer.data.current_leader.leader_id >= 0
        ]
        try:
            if hints:
                # Hints first: then the errors of the moved partitions need no retry.
                self._on_leader_hints(hints, response)
            for answer in answers:
                state = answer.asked.state
                if fetcher.answers.take(answer, self._node, self._session.version, body):
                    filled.append(state)
                    if state in self.line:
                        self.line.move_to_end(state)
        finally:
            if body.parts == 0:
                self._on_released(size)
        self._answered_at = int(time.time() * 1000)
        throttle, instant = response.throttle_time_ms / 1000, time.monotonic()
        fetcher.buffer.metrics.on_fetch(size, instant - self._sent_at, throttle, instant)
        if throttle:
            pause = min(throttle, LONGEST_THROTTLE)
            self._not_before = self._loop.time() + pause
        if self._partial and not filled:
            self._quiet_until = self._loop.time() + self._options.quiet_partition_wait

    def _on_leader_hints(self, hints: Iterable[PartitionHint], response: FetchResponse) -> None:
        """Apply the leaders that the response contains (KIP-951)."""
        nodes = {
            each.node_id: Node(each.node_id, each.host, each.port, each.rack)
            for each in response.node_endpoints
        }
        self._fetcher.cluster.apply_leader_hints(
            LeaderHint(*tp, hint.leader_id, hint.leader_epoch, nodes.get(hint.leader_id))
            for tp, hint in hints
        )

    def _on_released(self, size: int) -> None:
        self.bytes -= size
        self.wake()  # the partition that held it may belong to another broker by now
