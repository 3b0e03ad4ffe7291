"""Reading in bulk: `async with consumer.batches() as batches: async for batch in batches`.

A batch is what the buffer holds of one partition, up to a limit: one call of ours for thousands of
records, no await a record, and with it the offset to commit once it is processed.

A batch counts as processed when the next one is requested, or when the block ends without an
exception. A batch whose processing raised (or was cancelled) is given back: the position returns to
its first record, so that neither the next read nor an auto-commit, the one at the stop included,
passes over it. The position may have moved meanwhile: over offsets that hold no record, or because
another task called `getone`, which no block holds up. What that task read behind the batch is then
read again: a record read twice, not one lost. Only a seek, a reset or the loss of the partition
stands in the way.

Blocks in several tasks are workers: while one is at work on a batch of a partition, no other is
given any of that, so a partition's batches are processed in order. Nor does an auto-commit reach
into a batch that a block is at work on: neither that of the clock, nor the last one, when the
partition goes or another task stops the consumer. What the application commits of such a batch
itself stays committed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from aiokafka_lite.consumer.buffering.bulk_types import ColumnBatch, RecordBatch
from aiokafka_lite.consumer.core import ConsumerCore
from aiokafka_lite.consumer.partitions.positions import AtWork, PartitionState
from aiokafka_lite.errors import ConsumerStoppedError

__all__ = ["Batches"]

Batch = TypeVar("Batch", bound=RecordBatch | ColumnBatch)


class Batches(Generic[Batch]):
    """The iterator behind `AIOKafkaConsumer.batches`, and the block around it.

    Several may be read at once, beside other reads: each record goes to one of them. Without the
    block around it an iterator is at work on nothing: others may be given what follows its batch.

    Args:
        core: The consumer's parts.
        take: Hands out the next batch of up to so many records, or None.
        limit: Most records of one batch.
        owner: Kept alive for as long as somebody iterates.
    """

    __slots__ = ("_core", "_given", "_inside", "_limit", "_owner", "_take", "_work")

    def __init__(
        self, core: ConsumerCore, take: Callable[[int], Batch | None], limit: int, owner: object
    ) -> None:
        self._core = core
        self._take = take
        self._limit = limit
        self._owner = owner
        # The batch the application is at; its partition's state and generation when it was taken.
        self._given: tuple[Batch, PartitionState, int] | None = None
        self._inside = False
        self._work: AtWork | None = None  # the same as its partition's `at_work`

    async def __aenter__(self) -> Self:
        self._inside = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inside = False
        if error is not None and self._given is not None:
            batch, state, generation = self._given
            self._core.give_back(state, generation, batch.start, batch.start_epoch)
        self._end_work()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """The next batch, waiting for it; what came before it is processed.

        Raises:
            StopAsyncIteration: The consumer was stopped.
            KafkaError: As of `AIOKafkaConsumer.getone`.

        Cancellation: safe; no record is lost.
        """
        self._end_work()
        try:
            return await self._core.reader.until_taken(self._next)
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    def _next(self) -> Batch | None:
        batch = self._take(self._limit)
        if batch is not None:
            state = self._core.positions.state(batch.topic_partition)
            self._given = (batch, state, state.generation)
            if self._inside:
                state.at_work = self._work = AtWork(batch.start, batch.start_epoch)
        return batch

    def _end_work(self) -> None:
        """The batch is processed, or given back: what follows may be given to anybody."""
        given, self._given = self._given, None
        work, self._work = self._work, None
        if given is not None and work is not None and given[1].at_work is work:
            given[1].at_work = None
        if work is not None:
            self._core.reader.on_free()
