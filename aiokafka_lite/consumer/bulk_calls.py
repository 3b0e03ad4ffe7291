"""The part of the public face that aiokafka lacks: reading in bulk, and metrics.

A base class of `AIOKafkaConsumer`, apart only to keep both readable.
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
"""Records of a batch by default: enough to forget the cost of a batch, few enough to stay in the
processor's cache and to keep the event loop waiting for less than a millisecond."""


class BulkCalls(SubscriptionCalls):
    """Batches and metrics."""

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
        """Read in bulk: lists of one partition's records, without an await a record. (ours)

            async with consumer.batches() as batches:
                async for batch in batches:
                    store(batch.records)
                    await consumer.commit(batch.offsets)

        A batch whose processing raises (within the block) is given back: it is the next to be
        read of its partition, and no commit passes over it. Blocks in several tasks share the
        work: while one is at work on a batch, no other gets any of that partition.

        Args:
            max_records: Most records of one batch; `max_poll_records` or 2,048 by default.
            columns: Give columns (numbers and ranges of bytes) instead of records, for Arrow and
                the like; without deserializers and interceptors only.

        Raises:
            ValueError: `max_records` is no positive integer.
            KafkaConfigurationError: Columns of a consumer that has deserializers or interceptors.
            ConsumerStoppedError: Stopped before.
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
                "`columns` hold the bytes as they were read: a consumer with deserializers or "
                "interceptors has none"
            )
        return Batches(core, core.buffer.take_columns, limit, self)

    def metrics(self) -> dict[str, float | None]:
        """What happened lately, under Kafka's names; see docs/consumer.md. (ours)

        Averages and rates are of the last half minute to minute, times in milliseconds. An average,
        a maximum or a minimum is None if nothing was measured yet (Java's is NaN), so the dict is
        valid JSON. Those of the group are there with a group only.
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
        """By assigned partition, `records-lag` (to the end that may be read, as the last fetch
        reported it) and `records-lead` (from the first record there is). (ours)

        They are None where no fetch was answered within the last 30 seconds, and while the broker
        cannot be reached: not a lag that was right once.
        """
        core = self._core
        return partition_metrics(core.positions, partial(core.fetcher.knows_ends, now=time()))
