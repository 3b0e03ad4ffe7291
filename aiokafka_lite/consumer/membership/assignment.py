"""The partitions that are read now: each change of them, and which of them hand out records.

Two reasons keep a partition's records back: the application paused it, or the group has it in
transit (its listener is being told that it came or goes). The second is no business of the
application's: a pause or resume of a partition in transit counts once it has arrived.

Non-obvious: every change is synchronous. What was buffered or asked for of partitions that go is
gone when `replace` returns, and nothing of a withheld one is handed out after `withhold`.
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
    """The assigned partitions of one consumer, between those who read, fetch and look up.

    Attributes:
        active: Whether brokers are asked for what is assigned: from the start to the end.

    Args:
        cluster: Whose metadata tells the leaders.
        positions: Written here only, as to which partitions there are.
        buffer: Lets go of what is gone.
        fetcher: Asks for what is there.
        resolver: Looks up where to begin.
        waiters: Woken when there may be more to take.
        leases: Broken for each partition that goes.
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
        self._in_transit: dict[PartitionState, bool] = {}  # and whether the application paused it

    @property
    def partitions(self) -> set[TopicPartition]:
        """What is assigned, a new set."""
        return self._positions.partitions()

    @property
    def paused(self) -> set[TopicPartition]:
        """What the application has paused, a new set."""
        return {state.tp for state in self._positions if self._in_transit.get(state, state.paused)}

    def is_in_transit(self, tp: TopicPartition) -> bool:
        """Whether the group holds a partition back."""
        return self._positions.get(tp) in self._in_transit

    def replace(
        self, partitions: Iterable[TopicPartition], *, withhold: Collection[TopicPartition] = ()
    ) -> None:
        """These are the partitions now. Those that stay keep their position and their pause.

        Args:
            withhold: Of those that come, what is in transit until `release`.
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

    def withhold(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing more of these: the group takes them."""
        for state in self._of(partitions):
            self._in_transit.setdefault(state, state.paused)
            self._buffer.pause(state)
            self._fetcher.update(state)

    def release(self, partitions: Collection[TopicPartition]) -> None:
        """They have arrived: read what the application has not paused meanwhile."""
        for state in self._of(partitions):
            if self._in_transit.pop(state, True):
                continue
            self.resume(state)

    def pause(self, state: PartitionState) -> None:
        """Hand out and fetch nothing more of a partition: the application's wish."""
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
        """The states of those that are still assigned: the application may have unsubscribed."""
        states = (self._positions.get(tp) for tp in partitions)
        return [state for state in states if state is not None]
