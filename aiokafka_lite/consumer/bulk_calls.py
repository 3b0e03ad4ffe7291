"""The methods of `AIOKafkaConsumer` that are not in aiokafka: bulk reads and metrics.

A base class of `AIOKafkaConsumer`, separate only to keep both readable.
"""

from __future__ import annotations

from functools import partial
from time import monotonic, time
from typing import Final, Literal, overload

from aiokafka_lite._arguments import flag, is_int
from aiokafka_lite.consumer.buffering.bulk_types import ColumnBatch, RecordBatch
from aiokafka_lite.consumer.consumer_metrics import partition_metrics
from aiokafka_lite.consumer.record_batches import Batches
from aiokafka_lite.consumer.subscription_calls import SubscriptionCalls
from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.structs import TopicPartition

BULK: Final = 2048
"""Default number of records per batch: enough to make the cost per batch negligible, few enough to
stay in the processor's cache and to block the event loop for less than a millisecond."""


class BulkCalls(SubscriptionCalls):
    """Bulk reads and metrics."""

    @overload
    def batches(
        self, *, max_records: int | None = None, columns: Literal[False] = False
    ) -> Batches[RecordBatch]: ...

    @overload
    def batches(
        self, *, max_records: int | None = None, columns: Literal[True]
    ) -> Batches[ColumnBatch]: ...

    def batches(
        self, *, max_records: int | None = None, columns: bool = False
    ) -> Batches[RecordBatch] | Batches[ColumnBatch]:
        """Read in bulk: lists of one partition's records, without an await per record. Not in
        aiokafka.

            async with consumer.batches() as batches:
                async for batch in batches:
                    store(batch.records)
                    await consumer.commit(batch.offsets)

        A batch whose processing raises (within the block) is given back: its partition is read
        again from that batch, and no commit skips it. Blocks in several tasks share the work:
        while one processes a batch, no other receives records of that partition.

        Args:
            max_records: Maximum records of one batch; `max_poll_records` or 2,048 by default.
            columns: Return columns (numbers and ranges of bytes) instead of records, for Arrow and
                similar formats; only without deserializers and interceptors.

        Raises:
            ValueError: `max_records` is not a positive integer.
            KafkaConfigurationError: `columns` is set, but the consumer has deserializers or
                interceptors.
            ConsumerStoppedError: The consumer was stopped before the call.
        """
        self._check_running()
        core = self._core
        if max_records is not None and not (is_int(max_records) and max_records >= 1):
            raise ValueError("`max_records` must be a positive Integer")
        limit = max_records or core.options.max_poll_records or BULK
        if not flag("columns", columns):
            return Batches(core, core.buffer.take_batch, limit, self)
        if core.options.deserializes:
            raise KafkaConfigurationError(
                "`columns=True` returns undecoded bytes: it cannot be combined with deserializers "
                "or interceptors"
            )
        return Batches(core, core.buffer.take_columns, limit, self)

    def metrics(self) -> dict[str, float | None]:
        """Return the consumer's metrics under Kafka's names; see docs/consumer.md. Not in aiokafka.

        Averages and rates cover the last 30 to 60 seconds; times are milliseconds. An average, a
        maximum or a minimum is None if nothing was measured (Java returns NaN), so the dict is
        valid JSON. Group metrics are present only with a group.
        """
        core = self._core
        group = core.group
        return core.buffer.metrics.snapshot(
            core.positions,
            monotonic(),
            knows_ends=partial(core.fetcher.knows_ends, now=time()),
            buffered=core.buffer.bytes,
            budget=core.options.buffer_memory,
            group=None
            if group is None
            else (group.driver.membership.counters, group.commits.counters),
            loop_time=core.loop.time(),
        )

    def partition_metrics(self) -> dict[TopicPartition, dict[str, float | None]]:
        """Return `records-lag` and `records-lead` of each assigned partition. Not in aiokafka.

        The lag counts to the end of the readable records, the lead from the first record, both as
        the last fetch reported them. They are None if no fetch was answered within the last 30
        seconds, and while the broker is unreachable, rather than outdated.
        """
        core = self._core
        return partition_metrics(core.positions, partial(core.fetcher.knows_ends, now=time()))
