"""Prefetches records: one task and at most one fetch in flight per broker.

A fetch requests the partitions without undecoded records. This rule is combined with a second one:
the next fetch is sent before the application has processed the records.

- Whole fetch: no partition of the broker holds records. It may wait at the broker for
  `fetch_max_wait_ms`, because the application has no records to process anyway.
- Partial fetch: some partitions hold records, and the others are fetched meanwhile. It does not
  wait at the broker, because a partition that is drained during the wait could not be fetched. If
  one returns nothing, the next partial fetch is sent after `consumer_timeout_ms` at the latest,
  and a whole one as soon as the records are drained.

So with a backlog, one response is always being consumed and one is in flight; a single busy
partition among many idle ones costs one fetch per response; and a slow application does not delay
its other partitions.

Memory: each broker has an equal share of `buffer_memory`; a response is requested only if it fits
the rest of the share. If the application waits with nothing to take, it waits for other partitions
than the buffered ones: the data of paused partitions is dropped, and then a fetch for the awaited
partitions may exceed the share.

Non-obvious:

- `Fetcher._sort` alone decides the status of a partition; it runs whenever the position, the
  buffered data, the pause or the leader of the partition changed. After `update` the broker's task
  sends in the next iteration of the event loop, so that many changes make one fetch. After
  `on_drained` the fetch is sent within the call: before the application sees the last records of
  the previous response, even if the application never suspends.
- A partition that returned data goes to the end of its broker's line; a response is filled in the
  order of the line, so none starves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import compress, islice
from math import inf
from operator import is_not
from typing import Final
from uuid import UUID

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.metadata import EMPTY, Metadata, Partition
from aiokafka_lite.cluster.pace import Pace
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.buffering.waiters import Waiters
from aiokafka_lite.consumer.consumer_options import ConsumerOptions
from aiokafka_lite.consumer.fetching.broker_fetch import BrokerFetch
from aiokafka_lite.consumer.fetching.loop_budget import LoopBudget
from aiokafka_lite.consumer.fetching.partition_response import Answers
from aiokafka_lite.consumer.partitions.fetch_source import NOWHERE
from aiokafka_lite.consumer.partitions.positions import Ends, PartitionState, Positions
from aiokafka_lite.errors import KafkaError

log = logging.getLogger(__name__)

ENDS_KNOWN_FOR: Final = 30.0
"""Seconds for which the start and end offsets of a fetch response count as current. An idle
partition gets a response every `fetch_max_wait_ms`; Kafka's metrics window is as long."""

PLACED_AT_ONCE: Final = 256
"""Number of partitions placed in one iteration of the event loop, which takes about 2 ms."""

LEAVE_WITHIN: Final = 0.5
"""Maximum seconds to end a fetch session: this only saves the broker some memory."""


class Fetcher:
    """Keeps the buffer filled from the leaders of the assigned partitions.

    Args:
        cluster: The cluster of the brokers to fetch from.
        positions: The assigned partitions.
        buffer: Receives the responses.
        waiters: The reads that wait for them.
        options: The consumer's options.
        tasks: Owner of the tasks.
        metadata_max_age: Seconds for which to fetch from a follower that a leader named.
        resolve_positions: Called when partitions need a position lookup.
        on_placed: Called with partitions that were placed, by `on_metadata` or after it returned.
        loop: The event loop of the consumer.
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
        on_placed: Callable[[Collection[PartitionState]], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._on_placed = on_placed
        self.cluster = cluster
        self.positions = positions
        self.buffer = buffer
        self.waiters = waiters
        self.options = options
        self.tasks = tasks
        self.topic_ids: dict[str, UUID] = {}
        """Ids of the assigned topics in the newest metadata."""
        self.loop = loop
        self.budget = LoopBudget(loop)
        self.connecting = Pace()
        self.answers = Answers(
            self,
            positions,
            buffer,
            options,
            metadata_max_age=metadata_max_age,
            resolve_positions=resolve_positions,
        )
        self._brokers: dict[int, BrokerFetch] = {}
        self._followed = EMPTY
        """The metadata that partitions follow, except the unsettled ones and those in `_due`."""
        self._due: dict[PartitionState, None] = {}  # to be placed again
        self._scheduled = False  # True while a callback is scheduled that places more of them
        self._pauses_end = 0.0  # loop time, of the latest pause
        self._paused: dict[float, list[PartitionState]] = {}  # keyed by the end of the pause
        self._closed = False

    @property
    def metadata(self) -> Metadata:
        """The newest metadata."""
        return self.cluster.metadata

    @property
    def share(self) -> int:
        """Bytes of one broker that may be buffered and in flight."""
        return self.options.buffer_memory // max(len(self._brokers), 1)

    @property
    def retry_delay(self) -> float:
        """Seconds to wait before a retry."""
        return self.cluster.retry_backoff.delay(1)

    def close(self) -> None:
        """Stop all fetches at once, permanently."""
        self._closed = True
        for broker in self._brokers.values():
            broker.close()
        self._brokers.clear()

    async def end_sessions(self, deadline: float) -> None:
        """Stop all fetches at once, and end the sessions at reachable brokers.

        Args:
            deadline: In loop time; this takes at most `LEAVE_WITHIN` seconds in any case.
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
            log.debug(
                "%s: A fetch session was not closed, and stays until its broker evicts it: %r",
                self.options.log_name,
                error,
            )

    # --- which broker each partition is fetched from

    def on_metadata(self, metadata: Metadata) -> None:
        """Place partitions at their leaders. O(assigned topics + changed partitions).

        If the leaders of more than `PLACED_AT_ONCE` partitions changed, the others follow in later
        iterations of the event loop; until then, they are fetched as if the metadata had not
        arrived yet. `on_placed` is called with each part, also with the first.
        """
        urgent: list[PartitionState] = []
        if self._followed is EMPTY:
            self._due.update(self.positions.unsettled)  # all partitions
        else:
            changed, urgent = self._changed(metadata)
            self._due.update(changed)
        self.topic_ids = {
            name: topic.topic_id
            for name in self.positions.by_topic
            if (topic := metadata.topics.get(name)) is not None and topic.topic_id is not None
        }
        self._followed = metadata
        self._place_some(metadata, urgent)

    def _place_some(self, metadata: Metadata, urgent: Collection[PartitionState] = ()) -> None:
        """Place the next partitions that are due; a callback places the rest.

        Args:
            urgent: Those that must be placed now.
        """
        some = dict.fromkeys(urgent)
        some.update(dict.fromkeys(islice(self._due, PLACED_AT_ONCE)))
        for state in some:
            # Here, not in `place`: if a response placed it, it still has to go to `on_placed`.
            self._due.pop(state, None)
            self.place(state, metadata)
        if not self._due:
            self._leave_unused_brokers()
        elif not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._place_more)
        self._on_placed(some)

    def _place_more(self) -> None:
        self._scheduled = False
        if not self._closed:
            self._place_some(self.metadata)

    def _leave_unused_brokers(self) -> None:
        for node, broker in list(self._brokers.items()):
            if not broker.partitions:
                del self._brokers[node]
                broker.close()
                deadline = self.loop.time() + LEAVE_WITHIN
                self.tasks.spawn(self._end_session(broker, deadline), f"leave broker {node}")

    @property
    def placing(self) -> bool:
        """True if partitions will be placed in a later iteration of the event loop."""
        return bool(self._due)

    def _changed(
        self, metadata: Metadata
    ) -> tuple[dict[PartitionState, None], list[PartitionState]]:
        """Return the partitions whose placement or state may change with this metadata.

        Returns:
            All of them; and those whose topic has another id or is gone. These must not be fetched
            before they are placed: the offsets of the old topic are not valid in the new one.
        """
        before = self._followed
        now = self.loop.time()
        urgent: list[PartitionState] = []
        changed = {
            state: None
            for state in self.positions.unsettled
            # A follower's lease ends with the first metadata after its expiry.
            if state.source.node == NOWHERE
            or state.source.replica != state.source.node
            or now >= state.source.replica_until
            or state.rival_id is not None
            or state.topic_id is None
        }
        for name, states in self.positions.by_topic.items():
            topic, old = metadata.topics.get(name), before.topics.get(name)
            if topic is old:
                continue
            if topic is None or old is None or topic.topic_id != old.topic_id:
                changed.update(dict.fromkeys(states.values()))
                urgent += [state for state in states.values() if state.source.node != NOWHERE]
                continue
            for partition in _differing(topic.partitions, old.partitions):
                if partition in states:
                    changed[states[partition]] = None
        for node in before.brokers.keys() - metadata.brokers.keys():
            broker = self._brokers.get(node)
            if broker is not None:
                changed.update(dict.fromkeys(broker.partitions))
        return changed, urgent

    def place(self, state: PartitionState, metadata: Metadata) -> None:
        """Fetch a partition from its leader, or from the leader's preferred follower."""
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
            if (
                state.source.replica in metadata.brokers
                and self.loop.time() < state.source.replica_until
            ):
                node = state.source.replica
            else:  # until the leader names a follower again, which has then caught up
                state.source.replica = NOWHERE
        if node != state.source.node:
            self._leave(state)
            state.source.node = node
            state.source.retry_at = 0.0  # another broker: no reason to wait
        if node != NOWHERE and node not in self._brokers and not self._closed:
            self._brokers[node] = BrokerFetch(self, node)
        if (broker := self._brokers.get(node)) is not None:
            broker.partitions.add(state)
        uncertain = state.rival_id is not None or (
            topic is not None and state.topic_id != topic.topic_id
        )
        if node == NOWHERE or state.source.replica != NOWHERE or uncertain:
            self.positions.unsettled[state] = None
        else:
            self.positions.unsettled.pop(state, None)
        self.update(state)

    def place_if_due(self, state: PartitionState) -> None:
        """Place a partition now that would be placed in a later iteration of the event loop."""
        if state in self._due:  # where it stays, for `on_placed`
            self.place(state, self.metadata)

    def remove(self, state: PartitionState) -> None:
        """Stop fetching a partition that is no longer assigned."""
        self._due.pop(state, None)
        self._leave(state)

    def _leave(self, state: PartitionState) -> None:
        """Stop fetching a partition from its current broker."""
        broker = self._brokers.get(state.source.node)
        state.source.node = NOWHERE
        if state.tp in self.positions:
            self.positions.unsettled[state] = None
        if broker is not None:
            broker.partitions.discard(state)
            broker.drop(state)

    def leave_replica(self, state: PartitionState) -> None:
        """A follower failed: fetch from the leader, if there is one."""
        self.answers.leave_replica(state)
        self.place(state, self.metadata)

    def update(self, state: PartitionState) -> None:
        """A partition changed: reconsider its fetch in the next iteration of the event loop."""
        broker = self._sort(state)
        if broker is not None:
            broker.wake()

    def on_drained(self, states: Iterable[PartitionState]) -> None:
        """The buffer has decoded all records of these partitions: fetch them at once."""
        brokers = dict.fromkeys(map(self._sort, states))
        for broker in brokers:
            if broker is not None:
                broker.send()

    def _sort(self, state: PartitionState) -> BrokerFetch | None:
        """Update the status of a partition at its broker.

        Returns:
            The broker that the partition is fetched from.
        """
        broker = self._brokers.get(state.source.node)
        if broker is None:
            return None
        in_time = not state.source.retry_at or self.loop.time() >= state.source.retry_at
        broker.sort(state, wanted=in_time and state.fetchable)
        return broker

    def on_starved(self) -> None:
        """The application waits, and no record is buffered for it."""
        for broker in self._brokers.values():
            broker.wake()

    def polled_at(self, state: PartitionState) -> int | None:
        """Return when the broker last responded for a partition, even without new data;
        milliseconds since the epoch, or None before the first response."""
        broker = self._brokers.get(state.source.node)
        return state.source.polled_at if broker is None else broker.polled_at(state)

    def ends(self, states: Iterable[PartitionState], now: float) -> Iterator[Ends]:
        """Return what is known of the start and the end of partitions.

        One call for all of them, because a consumer may have thousands.

        Args:
            now: Seconds since the epoch.
        """
        reachable = {node: each for node, each in self._brokers.items() if not each.failing}
        for state in states:
            source = state.source
            broker = reachable.get(source.node)
            if broker is None:
                yield state, False, None, inf
                continue
            polled_at = broker.polled_at(state)
            fetch_age = inf if polled_at is None else now - polled_at / 1000
            listed_age = now - source.listed_at
            if fetch_age < 0:  # the clock was set back
                fetch_age = inf
            if listed_age < 0:
                listed_age = inf
            end: int | None = None
            if listed_age < fetch_age:
                age = listed_age
                if age < ENDS_KNOWN_FOR:
                    end = source.listed_end
            else:
                age = fetch_age
                if age < ENDS_KNOWN_FOR:
                    stable = source.last_stable_offset
                    end = source.highwater if stable is None or stable < 0 else stable
            yield state, fetch_age < ENDS_KNOWN_FOR, end, age

    # --- pauses

    def retry_later(self, state: PartitionState, *, refresh: bool = True) -> None:
        """Pause the fetches of a partition, and refresh the metadata for its leader."""
        self.pause_for_retry(state)
        if refresh:
            self.cluster.request_update()
        self.place(state, self.cluster.metadata)

    def pause_for_retry(self, state: PartitionState) -> None:
        """Pause the fetches of a partition. All partitions that fail in one response share a pause:
        otherwise the first would be fetched alone, and the others would wait until that fetch
        returns."""
        now = self.loop.time()
        if self._pauses_end - now < self.options.retry_backoff / 2:
            self._pauses_end = now + self.retry_delay
        state.source.retry_at = until = self._pauses_end
        paused = self._paused.get(until)
        if paused is None:
            paused = self._paused[until] = []
            self.loop.call_at(until, self._end_pauses, until)
        paused.append(state)

    def _end_pauses(self, until: float) -> None:
        """End the pauses whose timer fired, without comparing times.

        A coarse clock may still be behind, and the partitions would not be checked again.
        """
        for state in self._paused.pop(until):
            if state.source.retry_at == until:  # otherwise it has moved, or is paused again
                state.source.retry_at = 0.0
                self.update(state)


def _differing(reported: Mapping[int, Partition], known: Mapping[int, Partition]) -> Iterable[int]:
    """Return the partitions of a topic that are different objects in two snapshots."""
    if list(reported) == list(known):  # compare in C, without a Python loop
        return compress(reported, map(is_not, reported.values(), known.values()))
    return [each for each in reported.keys() | known if reported.get(each) is not known.get(each)]
