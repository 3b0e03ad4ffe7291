"""Changes of positions by the application: seek, give back, reset."""

from __future__ import annotations

from collections.abc import Callable, Collection

from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.consumer_options import OffsetReset
from aiokafka_lite.consumer.fetching.fetcher import Fetcher
from aiokafka_lite.consumer.offsets.position_resolver import PositionResolver
from aiokafka_lite.consumer.partitions.fetch_source import UNKNOWN_EPOCH
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions, error_of
from aiokafka_lite.structs import TopicPartition


class Positioning:
    """Changes the positions of one consumer.

    Args:
        positions: The state of each assigned partition.
        buffer: The fetched records, which a change discards.
        resolver: Looks up positions by the reset policy.
        fetcher: Fetches from the new positions.
        on_resolved: Called when a position is known.
        deadline: Returns the deadline of a call that sends requests, in loop time.
        check_running: Raises an error unless the consumer is started and not closed.
    """

    def __init__(
        self,
        positions: Positions,
        buffer: FetchBuffer,
        resolver: PositionResolver,
        fetcher: Fetcher,
        *,
        on_resolved: Callable[[PartitionState], None],
        deadline: Callable[[], float],
        check_running: Callable[[], None],
    ) -> None:
        self._positions = positions
        self._buffer = buffer
        self._resolver = resolver
        self._fetcher = fetcher
        self._on_resolved = on_resolved
        self._deadline = deadline
        self._check_running = check_running

    def seek(self, state: PartitionState, offset: int, epoch: int | None = None) -> None:
        """Continue reading at an offset.

        Args:
            epoch: Leader epoch of the record before it, if known.
        """
        self._buffer.forget(state)
        state.seek(offset, UNKNOWN_EPOCH if epoch is None else epoch)
        self._on_moved(state)

    def _on_moved(self, state: PartitionState) -> None:
        self._on_resolved(state)
        self._resolver.announce()

    def give_back(self, state: PartitionState, generation: int, offset: int, epoch: int) -> None:
        """Return to the first record of a batch, even if later records have been read since:
        otherwise, the batch would be skipped.

        Nothing changes if the partition was revoked, if the application chose another position
        since, if the log was truncated before the batch, if retention deleted it, or if the topic
        was recreated. While a lookup by the reset policy is pending, the partition returns to the
        batch: if the log does not have it either, the policy applies again.

        Args:
            generation: The state's, when the batch was taken.
            offset: The position before the batch.
            epoch: Leader epoch of the record before it, or UNKNOWN_EPOCH.
        """
        if self._positions.is_current(state, generation) and not state.remade:
            position = state.position
            if position is None or position > offset:
                self._buffer.forget(state)
                state.give_back(offset, epoch)
                self._on_moved(state)

    async def reset(self, states: Collection[PartitionState], policy: OffsetReset) -> None:
        """Continue reading at one end of the partitions; returns when their positions are known.

        Raises:
            KafkaTimeoutError: A position was not known in time; the lookup continues.
            KafkaError: A broker returned an error for a partition.
        """
        self._check_running()
        for state in states:
            self._buffer.forget(state)
            state.ask_reset(policy)
            self._fetcher.update(state)
        self._resolver.wake()
        await self._resolver.wait(states, self._deadline())
        self._check_running()
        for state in states:
            if state.error is not None:
                raise state.error

    async def position(self, tp: TopicPartition) -> int:
        """Return the position of an assigned partition, waiting until it is known."""
        deadline = self._deadline()
        while True:
            state = self._positions.state(tp)
            if state.position is not None:
                return state.position
            if state.error is not None:
                error = error_of(state)
                if not state.error_stays:  # this call has raised it, so the lookup is repeated
                    self._buffer.forget(state)
                    self._resolver.wake()
                raise error.with_traceback(None)
            self._check_running()
            await self._resolver.wait([state], deadline)
