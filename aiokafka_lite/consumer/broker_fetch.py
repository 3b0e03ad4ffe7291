"""The fetches of one broker: one task, and at most one fetch in flight.

Non-obvious:

- Only a `BrokerFetch` and its task change what is in flight; what happens to partitions meanwhile
  is told by their generation.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection
from copy import copy
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Node
from aiokafka_lite.consumer.answers import Answers
from aiokafka_lite.consumer.body import ResponseBody
from aiokafka_lite.consumer.buffer import FetchBuffer
from aiokafka_lite.consumer.fetch_session import Answer, FetchSession
from aiokafka_lite.consumer.options import ConsumerOptions
from aiokafka_lite.consumer.positions import PartitionState
from aiokafka_lite.consumer.waiters import Waiters
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.messages.fetch import FetchRequest, FetchResponse

log = logging.getLogger(__name__)

RESPONSE_LIMIT_FROM: Final = 3
"""First version in which a response has a limit (KIP-74, Kafka 0.10.1). Below it only the share of
each partition has one, and a record larger than that share comes cut off."""

LEAST_RESPONSE: Final = 64 * 1024
"""A response is never asked to be smaller than this, however many brokers share the memory."""


class FetchOwner(Protocol):
    """What the fetches of one broker need of their owner, the fetcher."""

    cluster: Cluster
    buffer: FetchBuffer
    waiters: Waiters
    options: ConsumerOptions
    tasks: TaskOwner
    answers: Answers
    topic_ids: dict[str, UUID]
    loop: asyncio.AbstractEventLoop

    @property
    def share(self) -> int:
        """Bytes that one broker may have buffered and on their way."""

    def update(self, state: PartitionState) -> None:
        """Something about a partition changed."""


class BrokerFetch:
    """The fetches of one broker.

    Args:
        fetcher: Its owner.
        node: Which broker.

    Attributes:
        line: Partitions to ask for, the first to be served in front.
        held: Partitions with undecoded records that the application wants.
        bytes: Of the bodies that came from here and are still held.
    """

    def __init__(self, fetcher: FetchOwner, node: int) -> None:
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
                if fetcher.answers.take(answer, self._node, self._version, body):
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
