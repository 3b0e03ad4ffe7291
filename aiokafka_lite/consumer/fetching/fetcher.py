"""Fetching ahead of the application: one task and at most one fetch in flight a broker.

Which partitions a fetch asks for (seed 0): those without undecoded records. Two rules live
together here, that one and "the next fetch leaves before the application has seen the records":

- Whole fetch: no partition of the broker holds records. It may wait at the broker for
  `fetch_max_wait_ms`: the application has nothing to do anyway.
- Partial fetch: some hold records (the application is at them), the others are asked for meanwhile.
  It does not wait at the broker, or a partition that is drained during the wait could not be asked
  for. When one brings nothing, the next partial one leaves after `consumer_timeout_ms` at the
  latest, and a whole one as soon as the records are drained.

So in a backlog there is always a response being consumed and one on its way, a single busy
partition among many idle ones costs one fetch a response, and a slow application does not keep
its other partitions waiting.

Memory: each broker has an equal share of `buffer_memory`; a response is asked for only if it
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
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import Metadata
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.buffering.waiters import Waiters
from aiokafka_lite.consumer.consumer_options import ConsumerOptions
from aiokafka_lite.consumer.fetching.broker_fetch import BrokerFetch
from aiokafka_lite.consumer.fetching.partition_response import Answers
from aiokafka_lite.consumer.partitions.positions import NOWHERE, PartitionState, Positions
from aiokafka_lite.errors import KafkaError

log = logging.getLogger(__name__)

ENDS_KNOWN_FOR: Final = 30.0
"""Seconds for which the answer to a fetch is taken for where a partition begins and ends. An idle
partition is answered every `fetch_max_wait_ms`; Kafka's own window for metrics is as long."""

LEAVE_WITHIN: Final = 0.5
"""Seconds that the end of a fetch session may take: it only saves the broker some memory."""


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
        self.loop = loop
        self.answers = Answers(
            self,
            positions,
            buffer,
            options,
            metadata_max_age=metadata_max_age,
            resolve_positions=resolve_positions,
        )
        self._brokers: dict[int, BrokerFetch] = {}
        self._pauses_end = 0.0  # loop time, of the pause begun last
        self._closed = False

    @property
    def metadata(self) -> Metadata:
        """The newest."""
        return self.cluster.metadata

    @property
    def share(self) -> int:
        """Bytes that one broker may have buffered and on their way."""
        return self.options.buffer_memory // max(len(self._brokers), 1)

    @property
    def retry_delay(self) -> float:
        """Seconds after which to try again what failed."""
        return self.cluster.retry_backoff.delay(1)

    def close(self) -> None:
        """End all fetching, at once and for good."""
        self._closed = True
        for broker in self._brokers.values():
            broker.close()
        self._brokers.clear()

    async def end_sessions(self, deadline: float) -> None:
        """End all fetching at once, and tell the brokers, as far as they listen.

        Args:
            deadline: In loop time; after `LEAVE_WITHIN` seconds it is over in any case.
        """
        brokers = list(self._brokers.values())
        self.close()
        if brokers:
            deadline = min(deadline, self.loop.time() + LEAVE_WITHIN)
            await asyncio.gather(*(self._end_session(broker, deadline) for broker in brokers))

    async def _end_session(self, broker: BrokerFetch, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await broker.end_session()
        except (KafkaError, TimeoutError) as error:
            log.debug("A broker keeps its fetch session until it evicts it: %r", error)

    # --- where the partitions stand

    def on_metadata(self, metadata: Metadata) -> None:
        """Follow the leaders. O(assigned partitions), but only when metadata changed."""
        self.topic_ids = {}
        for state in self.positions:
            self.place(state, metadata)
        used = {state.node for state in self.positions}
        for node, broker in list(self._brokers.items()):
            if node not in used:
                del self._brokers[node]
                broker.close()
                deadline = self.loop.time() + LEAVE_WITHIN
                self.tasks.spawn(self._end_session(broker, deadline), f"leave broker {node}")

    def place(self, state: PartitionState, metadata: Metadata) -> None:
        """Fetch a partition from its leader, or from the follower the leader told us to prefer."""
        topic = metadata.topics.get(state.tp.topic)
        if topic is None or topic.topic_id is None:
            self.topic_ids.pop(state.tp.topic, None)
        else:
            self.topic_ids[topic.name] = topic.topic_id
        known = metadata.partition(*state.tp)
        node = NOWHERE
        state.follow(metadata)
        if known is not None:
            if known.leader in metadata.brokers:
                node = known.leader
            if state.replica in metadata.brokers and self.loop.time() < state.replica_until:
                node = state.replica
            else:  # until the leader names a follower again, which by then has caught up
                state.replica = NOWHERE
        if node != state.node:
            self.remove(state)
            state.node = node
            state.retry_at = 0.0  # another broker: no reason to wait
        if node != NOWHERE and node not in self._brokers and not self._closed:
            self._brokers[node] = BrokerFetch(self, node)
        self.update(state)

    def remove(self, state: PartitionState) -> None:
        """Ask no more for a partition where it stands now."""
        broker = self._brokers.get(state.node)
        state.node = NOWHERE
        if broker is not None:
            broker.drop(state)

    def leave_replica(self, state: PartitionState) -> None:
        """A follower failed: fetch from the leader, as far as there is one."""
        self.answers.leave_replica(state)
        self.place(state, self.metadata)

    def update(self, state: PartitionState) -> None:
        """Something about a partition changed: fetch it, or not, from the next loop pass on."""
        broker = self._sort(state)
        if broker is not None:
            broker.wake()

    def on_drained(self, states: Iterable[PartitionState]) -> None:
        """The buffer has decoded what it had of these: fetch them, at once."""
        brokers = dict.fromkeys(map(self._sort, states))
        for broker in brokers:
            if broker is not None:
                broker.send()

    def _sort(self, state: PartitionState) -> BrokerFetch | None:
        """Put a partition where it belongs.

        Returns:
            The broker it is fetched from.
        """
        broker = self._brokers.get(state.node)
        if broker is None:
            return None
        in_time = not state.retry_at or self.loop.time() >= state.retry_at
        broker.sort(state, wanted=in_time and state.fetchable)
        return broker

    def on_starved(self) -> None:
        """The application waits and nothing is buffered for it."""
        for broker in self._brokers.values():
            broker.wake()

    def polled_at(self, state: PartitionState) -> int | None:
        """When its broker last answered about a partition, if only that nothing is new there;
        milliseconds since the epoch, or None before the first answer."""
        broker = self._brokers.get(state.node)
        return state.polled_at if broker is None else broker.polled_at(state)

    def knows_ends(self, state: PartitionState, now: float) -> bool:
        """Whether what the last answer said of the ends of a partition may still be told: the
        broker answered lately, and can be reached as far as is known.

        Args:
            now: Seconds since the epoch.
        """
        broker = self._brokers.get(state.node)
        if broker is None or broker.failing:
            return False
        told = broker.polled_at(state)
        return told is not None and now - told / 1000 < ENDS_KNOWN_FOR

    # --- pauses

    def retry_later(self, state: PartitionState, *, refresh: bool = True) -> None:
        """Leave a partition alone for a moment, and ask where its leader is."""
        self.pause_for_retry(state)
        if refresh:
            self.cluster.request_update()
        self.place(state, self.cluster.metadata)

    def pause_for_retry(self, state: PartitionState) -> None:
        """Leave a partition alone for a moment. One moment for all that a response refuses: the
        first of them to be asked for again would leave without the others, and have them wait for
        as long as it waits at the broker."""
        now = self.loop.time()
        if self._pauses_end - now < self.options.retry_backoff / 2:
            self._pauses_end = now + self.retry_delay
        state.retry_at = self._pauses_end
        self.loop.call_at(state.retry_at, self._end_pause, state, state.retry_at)

    def _end_pause(self, state: PartitionState, until: float) -> None:
        """The timer says when a pause is over: the clock may tick too coarsely to agree with it,
        and nobody would look again."""
        if state.retry_at == until:
            state.retry_at = 0.0
        self.update(state)
