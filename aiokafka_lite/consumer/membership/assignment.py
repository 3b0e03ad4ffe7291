"""The assigned partitions: their changes, and which of them deliver records.

A partition's records are withheld for two reasons: the application paused it, or it is in transit
(the rebalance listener is being called about it). The application does not see the second: a pause
or resume of a partition in transit takes effect once it has arrived.

Non-obvious: every change is synchronous. Buffered records and requests of removed partitions are
discarded when `replace` returns, and no record of a withheld one is delivered after `withhold`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.buffering.waiters import Waiters
from aiokafka_lite.consumer.fetching.fetcher import Fetcher
from aiokafka_lite.consumer.offsets.position_resolver import PositionResolver
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.group.assignment_lease import LeaseBook
from aiokafka_lite.structs import TopicPartition


class Assignment:
    """The assigned partitions of one consumer; updates the buffer, the fetcher and the resolver.

    Attributes:
        active: True while assigned partitions are fetched: from `start` to `stop`.

    Args:
        cluster: Its metadata contains the leaders.
        positions: Only this class adds and removes their partitions.
        buffer: Discards the records of removed partitions.
        fetcher: Fetches the assigned partitions.
        resolver: Looks up where to begin.
        waiters: Woken when there may be more records to take.
        leases: Broken for each removed partition.
    """

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        buffer: FetchBuffer,
        fetcher: Fetcher,
        resolver: PositionResolver,
        waiters: Waiters,
        leases: LeaseBook,
    ) -> None:
        self.active = False
        self._leases = leases
        self._cluster = cluster
        self._positions = positions
        self._buffer = buffer
        self._fetcher = fetcher
        self._resolver = resolver
        self._waiters = waiters
        self._in_transit: dict[PartitionState, bool] = {}  # True if the application paused it

    @property
    def partitions(self) -> set[TopicPartition]:
        """A new set of the assigned partitions."""
        return self._positions.partitions()

    @property
    def paused(self) -> set[TopicPartition]:
        """A new set of the partitions that the application paused."""
        return {state.tp for state in self._positions if self._in_transit.get(state, state.paused)}

    def is_in_transit(self, tp: TopicPartition) -> bool:
        """True if a rebalance withholds a partition."""
        return self._positions.get(tp) in self._in_transit

    def replace(
        self, partitions: Iterable[TopicPartition], *, withhold: Collection[TopicPartition] = ()
    ) -> None:
        """Replace the assignment. Partitions that stay keep their position and their pause.

        Args:
            withhold: Added partitions that are in transit until `release`.
        """
        came, gone = self._positions.assign(partitions)
        if gone:
            self._leases.on_given_up([state.tp for state in gone])
        for state in gone:
            self._in_transit.pop(state, None)
            self._buffer.forget(state)
            self._fetcher.remove(state)
        for state in came:
            if state.tp in withhold:
                self._in_transit[state] = False
                self._buffer.pause(state)
        if not self.active:
            return
        if came:
            self._fetcher.on_metadata(self._cluster.metadata)
        if came or gone:
            self._resolver.wake()
            self._resolver.announce()

    def extend(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions before `active` is set; assigned partitions keep their state."""
        self._positions.extend(partitions)

    def withhold(self, partitions: Collection[TopicPartition]) -> None:
        """Deliver no more records of these partitions, which are in transit."""
        for state in self._of(partitions):
            self._in_transit.setdefault(state, state.paused)
            self._buffer.pause(state)
            self._fetcher.update(state)

    def release(self, partitions: Collection[TopicPartition]) -> None:
        """End the transit: read the partitions that the application has not paused meanwhile."""
        for state in self._of(partitions):
            if self._in_transit.pop(state, True):
                continue
            self.resume(state)

    def pause(self, state: PartitionState) -> None:
        """Pause a partition for the application: deliver and fetch no more of it."""
        if state in self._in_transit:
            self._in_transit[state] = True
            return
        self._buffer.pause(state)
        self._fetcher.update(state)

    def resume(self, state: PartitionState) -> None:
        """Undo `pause`."""
        if state in self._in_transit:
            self._in_transit[state] = False
            return
        self._buffer.resume(state)
        self._fetcher.update(state)
        self._waiters.wake()

    def _of(self, partitions: Collection[TopicPartition]) -> list[PartitionState]:
        """The states of the still assigned ones: the application may have unsubscribed."""
        states = (self._positions.get(tp) for tp in partitions)
        return [state for state in states if state is not None]
