"""Reading in bulk: `async with consumer.batches() as batches: async for batch in batches`.

A batch contains the buffered records of one partition, up to a limit: one call returns thousands
of records, without an await per record, and the offset to commit once they are processed.

A batch counts as processed when the next one is requested, or when the block ends without an
exception. A batch whose processing raised (or was cancelled) is given back: the position returns to
its first record, so that neither the next read nor an auto-commit, including the one on `stop`,
skips it. The position may have moved meanwhile: over offsets without a record, or because another
task called `getone`, which a block does not prevent. The records that task read after the batch are
then read again: a record may be read twice, but none is lost. Only a seek, the loss of the
partition, or a log that no longer has the batch (retention, a recreated topic) prevents this.

Blocks in several tasks are workers: while one processes a batch of a partition, no other receives
records of that partition, so a partition's batches are processed in order. An auto-commit does not
commit any part of a batch in progress: neither the periodic one, nor the last one, when the
partition is revoked or another task stops the consumer. Offsets of such a batch that the
application commits itself stay committed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from aiokafka_lite.consumer.buffering.bulk_types import ArrowBatch, ColumnBatch, RecordBatch
from aiokafka_lite.consumer.core import ConsumerCore
from aiokafka_lite.consumer.partitions.positions import AtWork, PartitionState
from aiokafka_lite.errors import ConsumerStoppedError

__all__ = ["BULK", "Batches"]

BULK: Final = 2048
"""Default number of records per batch: enough to make the cost per batch negligible, few enough to
stay in the processor's cache and to block the event loop for less than a millisecond."""

Batch = TypeVar("Batch", bound=RecordBatch[Any, Any] | ColumnBatch | ArrowBatch)


class Batches(Generic[Batch]):
    """The asynchronous iterator and context manager that `AIOKafkaConsumer.batches` returns.

    Several may read at once, in parallel with other reads: each record goes to one of them.
    Without `async with`, no batch counts as in progress: other readers may receive the records
    after it.

    Args:
        core: The consumer's parts.
        take: Returns the next batch of at most that many records, or None.
        limit: Maximum records of one batch.
        owner: Kept alive during the iteration.
    """

    __slots__ = ("_core", "_given", "_inside", "_limit", "_owner", "_take", "_work")

    def __init__(
        self, core: ConsumerCore, take: Callable[[int], Batch | None], limit: int, owner: object
    ) -> None:
        self._core = core
        self._take = take
        self._limit = limit
        self._owner = owner
        # The batch in progress; its partition's state and generation when it was taken.
        self._given: tuple[Batch, PartitionState, int] | None = None
        self._inside = False
        self._work: AtWork | None = None  # that batch, within a block

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
            if self._work is not None:
                generation = self._work.generation
            self._core.positioning.give_back(state, generation, batch.start, batch.start_epoch)
        self._end_work()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        """Return the next batch, waiting for it; the previous one counts as processed.

        Raises:
            StopAsyncIteration: The consumer was stopped.
            KafkaError: As for `AIOKafkaConsumer.getone`.

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
                self._work = state.begin_work(batch.start, batch.start_epoch)
        return batch

    def _end_work(self) -> None:
        """Mark the batch as processed or given back: any reader may receive what follows."""
        given, self._given = self._given, None
        work, self._work = self._work, None
        if given is not None and work is not None:
            given[1].end_work(work)
            self._core.reader.on_free()
