"""The application's side of the buffer: returns one record, or lists of them, waiting if necessary.

Non-obvious:

- Taking is synchronous and comes last: there is no await between the moment a record leaves the
  buffer and the moment the caller receives it. So a cancelled or timed-out read loses no record.
- Reads let the event loop run after every `LOOP_BREATH` seconds without a pause: an application
  that never suspends starves neither the network nor its other tasks. This costs a few nanoseconds
  per record.
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
"""Records decoded at once for reads of single records: enough to make the cost of a call
negligible, few enough to stay in the cache."""

DESERIALIZED_CHUNK: Final = 32
"""The same with deserializers: they may be slow, and a chunk of them blocks the event loop."""

LOOP_BREATH: Final = 0.002
"""Seconds of reading without a pause after which reads let the event loop run once."""

Taken = TypeVar("Taken")


class ReadWatch(Protocol):
    """The observer of reads: the consumer's group. Called once per chunk, not once per record."""

    @property
    def in_listener(self) -> bool:
        """True if the current task is calling a rebalance listener: a read would wait forever."""

    def on_read(self, waiting: bool) -> None:
        """The application requests records.

        Args:
            waiting: True if a read waits for records, until the next call.
        """

    def raise_failure(self) -> None:
        """Raise the error that lets every read fail, if any."""


class Reader:
    """Returns buffered records to the application.

    Args:
        positions: The assigned partitions.
        buffer: The source of records.
        waiters: Registers and wakes waiting reads.
        deserializes: True if decoding a chunk runs code of the application.
        ahead: True if reads of single records may decode further ones.
        check_home: Raises in another event loop than the consumer's.
        watch: Notified of reads, or None.
    """

    def __init__(
        self,
        positions: Positions,
        buffer: FetchBuffer,
        waiters: Waiters,
        *,
        deserializes: bool,
        ahead: bool = True,
        check_home: Callable[[], None],
        watch: ReadWatch | None = None,
    ) -> None:
        self.stopped = False
        self.begun = False  # set by `start`; before it, a read would wait forever
        self.error: KafkaError | None = None
        """The error of the whole consumer, which every read raises. Written by its owner."""
        self._watch = watch
        self._positions = positions
        self._buffer = buffer
        self._waiters = waiters
        self._check_home = check_home
        self._chunk = (DESERIALIZED_CHUNK if deserializes else CHUNK) if ahead else 1

    def stop(self) -> None:
        """End all pending and future reads."""
        self.stopped = True
        self._buffer.delivery.current = EMPTY
        self._waiters.wake()

    def fail(self, error: KafkaError | None) -> None:
        """Let every read raise `error`, until it is set to None."""
        self.error = error
        if error is not None:
            self._waiters.wake()

    def on_forked(self, error: KafkaError) -> None:
        """Let every read in a forked child raise `error`; touch no resource of the parent."""
        self.error = error
        self._watch = None
        self._buffer.delivery.current = EMPTY

    async def next_record(self, among: Collection[TopicPartition] = ()) -> Record:
        """Return the next record of any partition, or of the given ones.

        Raises:
            ConsumerStoppedError: The consumer was stopped, before the call or while it waited.
            KafkaError: The consumer, or the next partition in line, has failed.

        Cancellation: safe at every point; nothing is lost.
        """
        delivery = self._buffer.delivery
        await self._begin()
        while True:
            chunk = self._buffer.next_chunk(self._chunk, self._states(among) if among else None)
            if chunk is None:
                await self._wait(among, None)
                self._check_state()
                continue
            if among:
                return chunk.take_many(1)[0]
            delivery.current = chunk
            record = delivery.take()
            if record is not None:
                return record
            await self._begin()  # decoding took long, or another task kept reading

    async def next_or_end(self) -> Record:
        """`next_record` for an iteration, which ends when the consumer is stopped.

        Raises:
            StopAsyncIteration: The consumer was stopped.
        """
        try:
            return await self.next_record()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    async def next_lists(
        self, among: Collection[TopicPartition], limit: int | None, timeout: float
    ) -> dict[TopicPartition, list[Record]]:
        """Return lists of records by partition: those buffered, or the first within `timeout`.

        Args:
            among: The partitions to read; empty for all.
            limit: Maximum records in total, or None.
            timeout: Seconds to wait for the first record.

        Returns:
            At most one response's records of each partition; empty if none arrived in time, or if
            the consumer was stopped meanwhile.

        Raises:
            ConsumerStoppedError: The consumer was stopped before the call.
            KafkaError: As for `next_record`.

        Cancellation: safe at every point; nothing is lost.
        """
        loop = asyncio.get_running_loop()
        await self._begin()
        deadline: float | None = None
        while not self.stopped:
            self._check_state()
            lists = self._buffer.take_lists(limit or ALL, self._states(among) if among else None)
            if lists:
                return lists
            if deadline is None:
                # Even without a timeout, wait for one iteration of the event loop: this registers
                # the requested partitions, in case others hold the memory.
                deadline = loop.time() + max(timeout, 0)
            elif loop.time() >= deadline:
                break
            await self._wait(among, deadline)
        return {}

    async def until_taken(self, take: Callable[[], Taken | None]) -> Taken:
        """Return the result of `take`, waiting until it is not None.

        Raises:
            ConsumerStoppedError: The consumer was stopped, before the call or while it waited.
            KafkaError: As for `next_record`.

        Cancellation: safe at every point; nothing is lost.
        """
        await self._begin()
        while (taken := take()) is None:
            await self._wait((), None)
            self._check_state()
        return taken

    def on_free(self) -> None:
        """Wake all reads: a partition that one reader held is available again."""
        self._waiters.wake()

    def check_begun(self) -> None:
        """Raise IllegalStateError before `start`: a read would wait forever."""
        if not self.begun:
            raise IllegalStateError("The consumer is not started: call `start()` first")

    def _check(self) -> None:
        """Raise pending errors, or begin a read."""
        self._check_state()
        if self._watch is not None:
            self._watch.on_read(bool(self._waiters))

    def _check_state(self) -> None:
        """Raise pending errors. For a read that has started, or returns from `_wait`."""
        if self.stopped:
            raise ConsumerStoppedError()
        self._check_home()
        if not self.begun:
            self.check_begun()
        if self._watch is not None and self._watch.in_listener:
            raise IllegalStateError(
                "A rebalance listener cannot read from the consumer: the partitions in transit "
                "deliver no records until the listener returns. Read after it has returned, or "
                "in another task that it does not await"
            )
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self._watch is not None:
            self._watch.raise_failure()

    def _states(self, among: Collection[TopicPartition]) -> set[PartitionState]:
        states = (self._positions.get(tp) for tp in among)
        return {state for state in states if state is not None}

    async def _begin(self) -> None:
        """Raise pending errors, and let the event loop run if reads have blocked it for long. A
        read that finds nothing waits anyway."""
        try:
            self._check()
        except Exception:
            if monotonic() >= self._buffer.delivery.until:
                await self._yield_to_loop()  # yield even if every read raises
            raise
        if monotonic() >= self._buffer.delivery.until and self._buffer.waiting:
            await self._yield_to_loop()
            self._check()

    async def _yield_to_loop(self) -> None:
        await asyncio.sleep(0)
        self._buffer.delivery.until = monotonic() + LOOP_BREATH

    async def _wait(self, among: Collection[TopicPartition], deadline: float | None) -> None:
        try:
            await self._waiters.wait(among, deadline)
        finally:
            if self._watch is not None:
                self._watch.on_read(bool(self._waiters))
        self._buffer.delivery.until = monotonic() + LOOP_BREATH
