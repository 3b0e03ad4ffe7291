"""The application's side of the buffer: one record, or lists of them, waiting where need be.

Non-obvious:

- Taking is synchronous and comes last: between the moment a record leaves the buffer and the
  moment the caller has it there is no await. So a cancelled or timed-out read loses nothing.
- The event loop is let run after every `LOOP_BREATH` seconds of reading without a pause: an
  application that never suspends starves neither the network nor its other tasks. That costs a
  few nanoseconds a record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from time import monotonic
from typing import Final, Protocol, TypeVar

from aiokafka_lite.consumer.buffering.fetch_buffer import ALL, FetchBuffer
from aiokafka_lite.consumer.buffering.waiters import Waiters
from aiokafka_lite.consumer.partitions.delivery import EMPTY, Record
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.errors import ConsumerStoppedError, IllegalStateError, KafkaError
from aiokafka_lite.structs import TopicPartition

CHUNK: Final = 256
"""Records decoded at once for reading one by one: enough to forget the cost of a call, few enough
to stay in the cache."""

DESERIALIZED_CHUNK: Final = 32
"""The same where deserializers run: they may be slow, and the loop waits for a chunk of them."""

LOOP_BREATH: Final = 0.002
"""Seconds of reading without a pause after which the event loop is let run once."""

Taken = TypeVar("Taken")


class ReadWatch(Protocol):
    """Who wants to know that the application reads: its group."""

    def on_read(self, waiting: bool) -> None:
        """Records are asked for.

        Args:
            waiting: Somebody waits for them, until the next call.
        """

    def raise_failure(self) -> None:
        """Raise what lets every read fail, if anything does."""


class Reader:
    """Hands buffered records to the application.

    Args:
        positions: The assigned partitions.
        buffer: Where records come from.
        waiters: Where this waits, and who wakes it.
        deserializes: Whether decoding a chunk runs code of the application.
        check_home: Raises in another event loop than the consumer's.
    """

    def __init__(
        self,
        positions: Positions,
        buffer: FetchBuffer,
        waiters: Waiters,
        *,
        deserializes: bool,
        check_home: Callable[[], None],
    ) -> None:
        self.stopped = False
        self.begun = False  # by the start of the consumer; before it, nothing would ever come
        self.error: KafkaError | None = None
        """What every read raises: something about the whole consumer. Written by its owner."""
        self.watch: ReadWatch | None = None
        """Called on each way through here: once a chunk, not once a record."""
        self.in_listener: Callable[[], bool] | None = None
        """Whether the task that runs is telling a rebalance listener, which would wait for ever.
        Asked as often."""
        self._positions = positions
        self._buffer = buffer
        self._waiters = waiters
        self._check_home = check_home
        self._chunk = DESERIALIZED_CHUNK if deserializes else CHUNK

    def stop(self) -> None:
        """End all reads: pending ones and those to come."""
        self.stopped = True
        self._buffer.delivery.current = EMPTY
        self._waiters.wake()

    def fail(self, error: KafkaError | None) -> None:
        """Let every read raise `error`, until None takes it back."""
        self.error = error
        if error is not None:
            self._waiters.wake()

    async def next_record(self, among: Collection[TopicPartition] = ()) -> Record:
        """The next record of any, or of the given partitions.

        Raises:
            ConsumerStoppedError: Stopped, before or while waiting.
            KafkaError: Of the consumer, or of the partition whose turn it is.

        Cancellation: safe at every point; nothing is lost.
        """
        delivery = self._buffer.delivery
        await self._begin()
        while True:
            chunk = self._buffer.next_chunk(self._chunk, self._states(among) if among else None)
            if chunk is None:
                await self._wait(among, None)
                self._check()
                continue
            if among:
                return chunk.take_many(1)[0]
            delivery.current = chunk
            record = delivery.take()
            if record is not None:
                return record
            await self._begin()  # decoding took long, or somebody else has read all the time

    async def next_or_end(self) -> Record:
        """`next_record` for an iteration, which ends silently when the consumer is stopped.

        Raises:
            StopAsyncIteration: Stopped.
        """
        try:
            return await self.next_record()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    async def next_lists(
        self, among: Collection[TopicPartition], limit: int | None, timeout: float
    ) -> dict[TopicPartition, list[Record]]:
        """Lists of records by partition: what is buffered, or the first to come within `timeout`.

        Args:
            among: The partitions wanted; empty for all.
            limit: Most records altogether, or None.
            timeout: Seconds to wait for the first record.

        Returns:
            At most one response's records of each partition; empty if none came in time, or if
            the consumer was stopped meanwhile.

        Raises:
            ConsumerStoppedError: Stopped before.
            KafkaError: As in `next_record`.

        Cancellation: safe at every point; nothing is lost.
        """
        loop = asyncio.get_running_loop()
        await self._begin()
        deadline: float | None = None
        while not self.stopped:
            self._check()
            lists = self._buffer.take_lists(limit or ALL, self._states(among) if among else None)
            if lists:
                return lists
            if deadline is None:
                # Who polls without waiting waits for one pass of the loop all the same: so it is
                # known what is wanted, should others hold the memory.
                deadline = loop.time() + max(timeout, 0)
            elif loop.time() >= deadline:
                break
            await self._wait(among, deadline)
        return {}

    async def until_taken(self, take: Callable[[], Taken | None]) -> Taken:
        """What `take` hands out of the buffer, waiting until it gives something.

        Raises:
            ConsumerStoppedError: Stopped, before or while waiting.
            KafkaError: As in `next_record`.

        Cancellation: safe at every point; nothing is lost.
        """
        await self._begin()
        while (taken := take()) is None:
            await self._wait((), None)
            self._check()
        return taken

    def on_free(self) -> None:
        """What one reader kept from others may be read by all: let them look."""
        self._waiters.wake()

    def check_begun(self) -> None:
        """Raises IllegalStateError before the start: who read then would wait for ever."""
        if not self.begun:
            raise IllegalStateError("The consumer is not started")

    def _check(self) -> None:
        if self.stopped:
            raise ConsumerStoppedError()
        self._check_home()
        if not self.begun:
            self.check_begun()
        if self.in_listener is not None and self.in_listener():
            raise IllegalStateError(
                "A rebalance listener cannot read from the consumer: no record is handed out of "
                "the partitions that come or go before the listener returns. Read after it "
                "returned, or in another task that it does not wait for"
            )
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self.watch is not None:
            self.watch.raise_failure()
            self.watch.on_read(bool(self._waiters))

    def _states(self, among: Collection[TopicPartition]) -> set[PartitionState]:
        states = (self._positions.get(tp) for tp in among)
        return {state for state in states if state is not None}

    async def _begin(self) -> None:
        """Before something is taken: raise what there is to raise, and let the loop run if reading
        has kept it from that for long. A read that will find nothing waits anyway."""
        try:
            self._check()
        except Exception:
            if monotonic() >= self._buffer.delivery.until:
                await self._breathe()  # who reads on and on, whatever is raised, starves nobody
            raise
        if monotonic() >= self._buffer.delivery.until and self._buffer.waiting:
            await self._breathe()
            self._check()

    async def _breathe(self) -> None:
        await asyncio.sleep(0)
        self._buffer.delivery.until = monotonic() + LOOP_BREATH

    async def _wait(self, among: Collection[TopicPartition], deadline: float | None) -> None:
        try:
            await self._waiters.wait(among, deadline)
        finally:
            if self.watch is not None:
                self.watch.on_read(bool(self._waiters))
        self._buffer.delivery.until = monotonic() + LOOP_BREATH
