"""Fetching ahead of the application: one task and at most one fetch in flight a broker.

Which partitions a fetch asks for (seed 0): those without undecoded records. Two rules live
together here, that one and "the next fetch leaves before the application has seen the records":

- Whole fetch: no partition of the broker holds records. It may wait at the broker for
  ``fetch_max_wait_ms``: the application has nothing to do anyway.
- Partial fetch: some hold records (the application is at them), the others are asked for meanwhile.
  It does not wait at the broker, or a partition that is drained during the wait could not be asked
  for. When one brings nothing, the next partial one leaves after ``consumer_timeout_ms`` at the
  latest, and a whole one as soon as the records are drained.

So in a backlog there is always a response being consumed and one on its way, a single busy
partition among many idle ones costs one fetch a response, and a slow application does not keep
its other partitions waiting.

Memory: each broker has an equal share of ``buffer_memory``; a response is asked for only if it
fits what is left of the share. If the application waits with nothing to take, what is buffered is
not what it waits for: data of paused partitions is given up, and then a fetch for what it waits
for may exceed the share.

Non-obvious:

- `Fetcher._sort` is the one place that decides where a partition stands; it runs whenever the
  position, the buffered data, the pause or the leader of the partition changed. After `update` the
  broker's task sends in the next pass of the loop, so that many changes make one fetch. After
  `on_drained` the fetch is sent within the call: it is on its way before the application sees the
  last records of the response before, even if the application never suspends.
- A partition that brought data goes to the end of its broker's line; a response is filled in the
  order of the line, so none starves.
- Only `_BrokerFetch` and its task change what is in flight; what happens to partitions meanwhile
  is told by their generation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from copy import copy
from itertools import islice
from uuid import UUID

from aiokafka_lite import errors
from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Metadata, Node
from aiokafka_lite.consumer.body import ResponseBody
from aiokafka_lite.consumer.buffer import FetchBuffer
from aiokafka_lite.consumer.fetch_session import Answer, FetchSession
from aiokafka_lite.consumer.options import ConsumerOptions, IsolationLevel, OffsetReset
from aiokafka_lite.consumer.positions import NOWHERE, PartitionState, Positions
from aiokafka_lite.consumer.waiters import Waiters
from aiokafka_lite.errors import BrokerResponseError, KafkaError, for_code
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from aiokafka_lite.record.compression import Bytes
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.record.record_set import RecordSet

log = logging.getLogger(__name__)

RESPONSE_LIMIT_FROM = 3
"""First version in which a response has a limit (KIP-74, Kafka 0.10.1). Below it only the share of
each partition has one, and a record larger than that share comes cut off."""

HEAVY_BATCH = 128 * 1024
"""Compressed bytes from which on a batch is decompressed in a thread: gzip gives about 0.5 GB a
second, so that a smaller one takes a millisecond or two of the event loop at most."""

LEAST_RESPONSE = 64 * 1024
"""A response is never asked to be smaller than this, however many brokers share the memory."""


class Fetcher:
    """Keeps the buffer filled from the leaders of the assigned partitions.

    Args:
        cluster: Whose brokers to ask.
        positions: The assigned partitions.
        buffer: Where the answers go.
        waiters: Who waits for them.
        options: The consumer's.
        tasks: Owner of the tasks.
        metadata_max_age: Seconds for which a follower told by a leader is believed.
        resolve_positions: Called when partitions need their position looked up.
        loop: The event loop it lives in.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        buffer: FetchBuffer,
        waiters: Waiters,
        options: ConsumerOptions,
        tasks: TaskOwner,
        *,
        metadata_max_age: float,
        resolve_positions: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.cluster = cluster
        self.positions = positions
        self.buffer = buffer
        self.waiters = waiters
        self.options = options
        self.tasks = tasks
        self.topic_ids: dict[str, UUID] = {}
        """Of the assigned topics, as the newest metadata tells them."""
        self._metadata_max_age = metadata_max_age
        self._resolve_positions = resolve_positions
        self._brokers: dict[int, _BrokerFetch] = {}
        self.loop = loop

    @property
    def share(self) -> int:
        """Bytes that one broker may have buffered and on their way."""
        return self.options.buffer_memory // max(len(self._brokers), 1)

    def close(self) -> None:
        """End all fetching, at once."""
        for broker in self._brokers.values():
            broker.close()
        self._brokers.clear()

    # --- where the partitions stand

    def on_metadata(self, metadata: Metadata) -> None:
        """Follow the leaders. O(assigned partitions), but only when metadata changed."""
        self.topic_ids = {}
        for state in self.positions:
            topic = metadata.topics.get(state.tp.topic)
            if topic is not None and topic.topic_id is not None:
                self.topic_ids[topic.name] = topic.topic_id
            self.place(state, metadata)
        used = {state.node for state in self.positions}
        for node, broker in list(self._brokers.items()):
            if node not in used:
                del self._brokers[node]
                broker.close()

    def place(self, state: PartitionState, metadata: Metadata) -> None:
        """Fetch a partition from its leader, or from the follower the leader told us to prefer."""
        known = metadata.partition(*state.tp)
        node = NOWHERE
        if known is not None:
            state.leader_epoch = known.leader_epoch
            if known.leader in metadata.brokers:
                node = known.leader
            if state.replica in metadata.brokers and self.loop.time() < state.replica_until:
                node = state.replica
        if node != state.node:
            self.remove(state)
            state.node = node
            state.retry_at = 0.0  # another broker: no reason to wait
        if node != NOWHERE and node not in self._brokers:
            self._brokers[node] = _BrokerFetch(self, node)
        self.update(state)

    def remove(self, state: PartitionState) -> None:
        """Ask no more for a partition where it stands now."""
        broker = self._brokers.get(state.node)
        state.node = NOWHERE
        if broker is not None:
            broker.line.pop(state, None)
            broker.held.discard(state)
            broker.wake()

    def update(self, state: PartitionState) -> None:
        """Something about a partition changed: fetch it, or not, from the next loop pass on."""
        broker = self._sort(state)
        if broker is not None:
            broker.wake()

    def on_drained(self, states: Iterable[PartitionState]) -> None:
        """The buffer has decoded what it had of these: fetch them, at once."""
        for broker in {self._sort(state) for state in states}:
            if broker is not None:
                broker.send()

    def _sort(self, state: PartitionState) -> _BrokerFetch | None:
        """Put a partition where it belongs.

        Returns:
            The broker it is fetched from.
        """
        broker = self._brokers.get(state.node)
        if broker is None:
            return None
        if state.records is not None and not state.paused:
            broker.held.add(state)
        else:
            broker.held.discard(state)
        if not state.fetchable or self.loop.time() < state.retry_at:
            broker.line.pop(state, None)
        elif state not in broker.line:
            broker.line[state] = None
        return broker

    def on_starved(self) -> None:
        """The application waits and nothing is buffered for it."""
        for broker in self._brokers.values():
            broker.wake()

    # --- what brokers answer

    def on_answer(self, answer: Answer, node: int, version: int, body: ResponseBody) -> bool:
        """One partition's part of a response.

        Returns:
            Whether the application has something to read from it.
        """
        state, generation, offset = answer.asked
        if not self.positions.is_current(state, generation):
            return False  # it was sought or lost meanwhile
        if state.node != node or state.records is not None or state.fetch_offset != offset:
            return False  # it moved to another broker, which was asked the same, or is to be
        data = answer.data
        if data.error_code:
            return self._on_error(state, node, offset, for_code(data.error_code))
        if data.high_watermark >= 0:  # -1 is "not known"
            state.highwater = data.high_watermark
        state.last_stable_offset = self._stable(data, version)
        state.log_start_offset = data.log_start_offset if version >= 5 else None
        state.polled_at = int(time.time() * 1000)
        if data.preferred_read_replica not in (NOWHERE, node):
            state.replica = data.preferred_read_replica
            state.replica_until = self.loop.time() + self._metadata_max_age
            self.place(state, self.cluster.metadata)
        if not data.records:
            return False
        records = RecordSet(
            data.records,
            state.tp.topic,
            state.tp.partition,
            offset,
            check_crcs=self.options.check_crcs,
            aborted=self._aborted(data),
        )
        self.buffer.add(state, records, body, heavy=is_heavy(data.records))
        self.update(state)
        return True

    def _stable(self, data: PartitionData, version: int) -> int | None:
        """The last stable offset; what is told unasked does not count (as in aiokafka)."""
        if version < 4:
            return None
        committed = self.options.isolation_level is IsolationLevel.READ_COMMITTED
        return data.last_stable_offset if committed else -1

    def _aborted(self, data: PartitionData) -> list[tuple[int, int]]:
        """Aborted transactions as (producer id, first offset); none unless read_committed."""
        if self.options.isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return []
        return [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]

    def _on_error(
        self, state: PartitionState, node: int, offset: int, kind: type[BrokerResponseError]
    ) -> bool:
        from_follower = node == state.replica
        state.replica = NOWHERE
        if kind is errors.OffsetOutOfRangeError and not from_follower:
            policy = self.options.auto_offset_reset
            if policy is not OffsetReset.NONE and state.chunk is not None:
                # What is decoded is handed out first; whether the reset is due is seen after it.
                state.waits_for_chunk = True
                self.update(state)
                return False
            if policy is not OffsetReset.NONE:
                log.info("Offset %s of %s is out of range: reset to %s", offset, state.tp, policy)
                state.ask_reset(policy)
                self.update(state)
                self._resolve_positions()
                return False
            self._fail(state, kind({state.tp: offset}), stays=True)
            return True
        if from_follower or (kind.retriable and kind is not errors.CorruptRecordException):
            log.info("Fetching %s from broker %s: %s; trying again", state.tp, node, kind.__name__)
            # An epoch that the broker does not know yet is newer than what metadata it would tell.
            self._retry_later(state, refresh=kind is not errors.UnknownLeaderEpochError)
            return False
        if kind is errors.UnknownError:
            log.warning("Fetching %s from broker %s: unknown server error", state.tp, node)
            self._retry_later(state, refresh=False)
            return False
        about: object = f"fetching {state.tp} at offset {offset}"
        if kind is errors.TopicAuthorizationFailedError:
            about = state.tp.topic
        self._pause_for_retry(state)
        self._fail(state, kind(about), stays=False)
        return True

    def _fail(self, state: PartitionState, error: KafkaError, *, stays: bool) -> None:
        self.buffer.fail(state, error, stays=stays)
        self.update(state)

    def _retry_later(self, state: PartitionState, *, refresh: bool = True) -> None:
        """Leave a partition alone for a moment, and ask where its leader is."""
        self._pause_for_retry(state)
        if refresh:
            self.cluster.request_update()
        self.place(state, self.cluster.metadata)

    def _pause_for_retry(self, state: PartitionState) -> None:
        delay = self.cluster.retry_backoff.delay(1)
        state.retry_at = self.loop.time() + delay
        self.loop.call_later(delay, self._end_pause, state, state.retry_at)

    def _end_pause(self, state: PartitionState, until: float) -> None:
        """The timer says when a pause is over: the clock may tick too coarsely to agree with it,
        and nobody would look again."""
        if state.retry_at == until:
            state.retry_at = 0.0
        self.update(state)


def is_heavy(records: Bytes) -> bool:
    """Whether decoding would hold up the event loop: the first batch, by which the others are
    judged, is compressed and large."""
    if len(records) < HEAVY_BATCH:
        return False
    header = BatchHeader.read(records, 0)
    return header.magic == 2 and header.codec != 0 and header.batch_length >= HEAVY_BATCH


class _BrokerFetch:
    """The fetches of one broker.

    Attributes:
        line: Partitions to ask for, the first to be served in front.
        held: Partitions with undecoded records that the application wants.
        bytes: Of the bodies that came from here and are still held.
    """

    def __init__(self, fetcher: Fetcher, node: int) -> None:
        self.line: OrderedDict[PartitionState, None] = OrderedDict()
        self.held: set[PartitionState] = set()
        self.bytes = 0
        self._fetcher = fetcher
        self._options = fetcher.options
        self._node = node
        self._loop = fetcher.loop
        self._session = FetchSession(fetcher.options)
        self._connection: Connection | None = None
        self._in_flight: asyncio.Future[FetchResponse] | None = None
        self._version = 0  # of the fetch in flight
        self._partial = False  # whether the fetch in flight is a partial one
        self._not_before = 0.0  # throttled, or backing off after a failure, until then
        self._quiet_until = 0.0  # no partial fetch before then: the last one brought nothing
        self._failures = 0
        self._changed = asyncio.Event()
        self._task = fetcher.tasks.spawn(self._run(), f"fetch from broker {node}")

    def close(self) -> None:
        """End the task; an answer still to come is dropped."""
        self._task.cancel()

    def wake(self) -> None:
        """Something changed: let the task look, in the next pass of the loop."""
        self._changed.set()

    def send(self) -> None:
        """Something changed: send the next fetch now if it can leave, else let the task look."""
        self._maybe_send()
        self._changed.set()

    async def _run(self) -> None:
        while True:
            if self._in_flight is not None:
                await self._receive(self._in_flight)
            elif not self._maybe_send():
                await self._wait()

    async def _wait(self) -> None:
        """Until something may have changed: a connection made, a pause over, or `wake`."""
        self._changed.clear()
        now = self._loop.time()
        until: float | None = None
        if self.line:
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
        try:
            broker = self._fetcher.cluster.broker(self._node)
            connection = await broker.connection(Purpose.FETCH)
            connection.version_of(FetchRequest)
        except KafkaError as error:
            self._on_failure(error)
            return
        if connection is not self._connection:
            self._connection = connection
            self._session = FetchSession(self._options)

    def _on_failure(self, error: KafkaError) -> None:
        """The broker cannot be reached, or refuses fetches: back off, and look for the leaders."""
        self._failures += 1
        self._not_before = self._loop.time() + self._fetcher.cluster.retry_backoff.delay(
            self._failures
        )
        log.info("Fetching from broker %s: %s", self._node, error)
        if not error.retriable:
            for state in self.line:
                self._fetcher.buffer.fail(state, copy(error), stays=False)
            for state in list(self.line):
                self._fetcher.update(state)
            self._fetcher.waiters.wake()
        self._fetcher.cluster.request_update()

    def _maybe_send(self) -> bool:
        """Send the next fetch, if there is one and it can leave now. Never waits."""
        connection = self._connection
        if self._in_flight is not None or not self.line or connection is None or connection.closed:
            return False
        now = self._loop.time()
        if now < self._not_before or (self.held and now < self._quiet_until):
            return False
        wanted, max_bytes = self._plan()
        if not wanted:
            return False
        ids = self._fetcher.topic_ids
        latest = connection.version_of(FetchRequest)
        self._version = self._session.version(latest, wanted, ids)
        if self._version < RESPONSE_LIMIT_FROM:
            most = max(max_bytes // self._options.max_partition_fetch_bytes, 1)
            wanted = list(islice(wanted, most))
        self._partial = bool(self.held)
        max_wait = 0.0 if self._partial else self._options.fetch_max_wait
        request = self._session.next_request(
            wanted, ids, self._version, max_wait=max_wait, max_bytes=max_bytes
        )
        self._in_flight = connection.send(
            request, self._version, timeout=self._options.request_timeout + max_wait
        )
        return True

    def _plan(self) -> tuple[Collection[PartitionState], int]:
        """Which partitions to ask for, and how many bytes, as the memory allows."""
        share = self._fetcher.share
        max_bytes = max(min(self._options.response_bytes, share // 2), LEAST_RESPONSE)
        max_bytes = min(max_bytes, self._options.response_bytes)
        if self.bytes == 0 or self.bytes + max_bytes <= share:
            return self.line, max_bytes
        if not self._fetcher.waiters:
            return (), 0
        self._fetcher.buffer.evict_paused()
        if self.bytes + max_bytes <= share:
            return self.line, max_bytes
        awaited = [state for state in self.line if self._fetcher.waiters.want(state)]
        return awaited, min(max_bytes, self._options.max_partition_fetch_bytes)

    async def _receive(self, in_flight: asyncio.Future[FetchResponse]) -> None:
        try:
            response = await in_flight
            woken = self._on_response(response)
            del response  # or its views would keep the memory from being used again
        except KafkaError as error:
            self._connection = None
            self._on_failure(error)
            return
        finally:
            self._in_flight = None
        self._failures = 0
        if woken:
            # The application goes first: what it drains now belongs into the next fetch.
            await asyncio.sleep(0)

    def _on_response(self, response: FetchResponse) -> bool:
        """Give the response to the buffer.

        Returns:
            Whether somebody who waited was woken.
        """
        size = sum(
            len(data.records)
            for topic in response.responses
            for data in topic.partitions
            if data.records is not None
        )
        body = ResponseBody(size, self._on_released)
        self.bytes += size
        fed = False
        fetcher = self._fetcher
        try:
            for answer in self._session.take_answers(response, self._version):
                if fetcher.on_answer(answer, self._node, self._version, body):
                    fed = True
                    if answer.asked.state in self.line:
                        self.line.move_to_end(answer.asked.state)
                if answer.data.current_leader.leader_id >= 0:
                    self._on_leader_hint(answer, response)
        finally:
            if body.parts == 0:
                self._on_released(size)
        if response.throttle_time_ms:
            self._not_before = self._loop.time() + response.throttle_time_ms / 1000
        if self._partial and not fed:
            self._quiet_until = self._loop.time() + self._options.quiet_partition_wait
        return fed and fetcher.waiters.wake()

    def _on_leader_hint(self, answer: Answer, response: FetchResponse) -> None:
        """Believe the leader that the broker names in passing (KIP-951)."""
        hint = answer.data.current_leader
        node = next(
            (
                Node(each.node_id, each.host, each.port, each.rack)
                for each in response.node_endpoints
                if each.node_id == hint.leader_id
            ),
            None,
        )
        topic, partition = answer.asked.state.tp
        self._fetcher.cluster.apply_leader_hint(
            topic, partition, hint.leader_id, hint.leader_epoch, node
        )

    def _on_released(self, size: int) -> None:
        self.bytes -= size
        self.wake()  # whoever held it may be another broker's by now
