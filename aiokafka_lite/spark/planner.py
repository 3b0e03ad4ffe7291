"""Resolves a query's options to offset ranges by querying the brokers.

Each method queries brokers in the runtime's loop. A failed query is retried with a new client,
according to `fetchOffset.numRetries`. If brokers that were reachable before become unreachable,
the planner waits regardless of that option: a query must survive a restart of its cluster, while
one with a wrong address fails immediately.

Source: KafkaOffsetReaderAdmin of Spark's connector, for the meaning of offsets and the detection
of lost records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeVar

from aiokafka_lite.errors import (
    AuthenticationFailedError,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.spark.cluster_view import ClusterView
from aiokafka_lite.spark.data_loss import SourceStateError, report_data_loss
from aiokafka_lite.spark.limits import AtEnd, AtOffsets, AtTime, AtTimes, Limit, is_earliest
from aiokafka_lite.spark.options import ReadOptions
from aiokafka_lite.spark.partition_offsets import (
    EARLIEST,
    LATEST,
    OffsetRange,
    Offsets,
    SpecificOffsets,
    grouped,
    listed,
    split,
)
from aiokafka_lite.spark.runtime import lease
from aiokafka_lite.structs import TopicPartition

__all__ = ["Planner", "tasks"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_LASTING = (AuthenticationFailedError, KafkaConfigurationError, TopicAuthorizationFailedError)
"""Errors that are not retriable."""

BACK_WITHIN: Final = 60.0
"""Seconds to wait for unreachable brokers: Java's `default.api.timeout.ms`."""


class Planner:
    """Plans the offset ranges of a query.

    Args:
        options: The reader's options.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._were_reachable = False  # True once brokers were reachable

    # --- a batch

    async def batch_ranges(self) -> list[OffsetRange]:
        """Return all ranges of a batch.

        Raises:
            SourceStateError: The options' offsets do not match the existing partitions, or a
                partition ends before it begins.
            KafkaConfigurationError: A partition has no record at or after the requested time.
            KafkaError: The brokers did not return the offsets.
        """
        starts, ends = await self._asking(self._both_ends)
        starting = self._options.starting
        ranges = [
            OffsetRange(*tp, start, ends[tp], is_earliest(starting, tp))
            for tp, start in starts.items()
        ]
        for each in ranges:
            if each.size < 0 and not each.from_earliest:
                raise SourceStateError(
                    "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
                    f"The resolved start offset {each.start} is greater than the resolved end "
                    f"offset {each.end} for topic {each.topic} partition {each.partition}.",
                )
        return ranges

    async def from_time(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after a time, in milliseconds since the epoch; None if
        there is no such record.

        Raises:
            KafkaError: The brokers did not return the offsets.
        """

        async def ask(view: ClusterView) -> dict[TopicPartition, int]:
            await view.partitions({tp.topic for tp in times})
            return await view.offsets(times, search=True)

        found = await self._asking(ask)
        return {tp: None if offset < 0 else offset for tp, offset in found.items()}

    # --- a stream

    async def initial(self) -> dict[TopicPartition, int]:
        """Return the start offsets of a new query.

        Raises:
            SourceStateError, KafkaConfigurationError, KafkaError: See `batch_ranges`.
        """

        async def ask(view: ClusterView) -> dict[TopicPartition, int]:
            chosen = await self._chosen(view)
            return await self._resolved(view, self._options.starting, chosen, "start")

        return await self._asking(ask)

    async def latest(self, known: Offsets) -> dict[TopicPartition, int]:
        """Return the end offsets of all partitions, including new ones.

        Args:
            known: The query's offsets. An end before them is checked again, because a new leader
                may return an old one (KAFKA-7703). A missing partition is checked again, too: the
                queried broker may not know it yet, and a query that dropped it would later read it
                again from its beginning.

        Raises:
            KafkaError: The brokers did not return the offsets.
        """

        async def ask(view: ClusterView) -> dict[TopicPartition, int]:
            for attempt in range(self._options.fetch_attempts):
                chosen = await self._chosen(view)
                ends = await view.offsets(dict.fromkeys(chosen, LATEST))
                behind = {tp: ends.get(tp) for tp in known if ends.get(tp, -1) < known[tp]}
                if not behind or attempt + 1 == self._options.fetch_attempts:
                    break
                logger.warning(
                    "Partitions are missing or end before the query's offsets: %s", behind
                )
                await asyncio.sleep(self._options.fetch_pause)
            return ends

        return await self._asking(ask)

    async def wait_for_more(self, than: Offsets, seconds: float, every: float) -> bool:
        """Wait until the end offset of a partition changes, up to a timeout in seconds.

        Args:
            every: Seconds between two queries.

        Returns:
            True if an end has changed or can no longer be queried. New partitions are not
            detected.
        """
        if not than:
            await asyncio.sleep(seconds)
            return False

        async def ask(view: ClusterView) -> bool:
            try:
                async with asyncio.timeout(seconds):
                    while True:
                        await asyncio.sleep(every)
                        if await view.offsets(dict.fromkeys(than, LATEST)) != than:
                            return True
            except TimeoutError:
                return False
            except KafkaError as error:
                # Its topic may be deleted. The next full query raises the error.
                logger.info("Could not check for new records: %s", error)
                return True

        return await self._asking(ask)

    async def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of the partitions that (still) exist.

        Raises:
            KafkaError: The brokers did not return the offsets.
        """
        if not partitions:
            return {}

        async def ask(view: ClusterView) -> dict[TopicPartition, int]:
            there = set(await self._chosen(view)).intersection(partitions)
            return await view.offsets(dict.fromkeys(sorted(there), EARLIEST))

        return await self._asking(ask)

    async def ranges(self, starts: Offsets, ends: Offsets) -> list[OffsetRange]:
        """Return the ranges of a micro-batch.

        Args:
            starts: Offsets of the query. Missing partitions begin at their first record.
            ends: End offsets of the micro-batch. Missing partitions are deleted.

        Raises:
            DataLossError: Records are lost and `failOnDataLoss` is true.
            KafkaError: The brokers did not return the offsets.
        """
        fail = self._options.fail_on_data_loss
        added = ends.keys() - starts.keys()
        begun = {**starts, **await self.earliest(added)}
        if unknown := added - begun.keys():
            report_data_loss(
                fail,
                "INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS",
                f"Cannot find initial offsets for partitions {listed(unknown)}. They may have "
                "been deleted.",
            )
        for tp in sorted(added & begun.keys()):
            if begun[tp]:
                report_data_loss(
                    fail,
                    "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    f"Added partition {listed([tp])} starts from {begun[tp]} instead of 0.",
                )
        if gone := starts.keys() - ends.keys():
            report_data_loss(
                fail, "PARTITIONS_DELETED", f"Partitions {listed(gone)} have been deleted."
            )
        ranges = [OffsetRange(*tp, begun[tp], end) for tp, end in ends.items() if tp in begun]
        for each in ranges:
            if each.size < 0:
                report_data_loss(
                    fail,
                    "PARTITION_OFFSET_CHANGED",
                    f"Partition {listed([each.topic_partition])} offset was changed from "
                    f"{each.start} to {each.end}. This could either be a user error that the "
                    "start offset is set too high and this is the first batch, or the kafka "
                    "topic-partition is broken, and some data may have been missed.",
                )
        return [each for each in ranges if each.size > 0]

    # --- queries

    async def _asking(self, ask: Callable[[ClusterView], Awaitable[_T]]) -> _T:
        """Run a query with a client; on failure, retry with a new one."""
        options = self._options
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + (BACK_WITHIN if self._were_reachable else 0)
        failed = 0
        while True:
            try:
                async with lease(
                    "view", options.consumer, lambda: ClusterView(options.consumer)
                ) as view:
                    self._were_reachable = True
                    return await ask(view)
            except KafkaError as error:
                away = isinstance(error, KafkaConnectionError) and loop.time() < patient_until
                lasting = isinstance(error, (*_LASTING, SourceStateError))
                failed += not away
                if lasting or failed >= options.fetch_attempts:
                    raise
                logger.warning("Error in attempt %d of getting Kafka offsets: %s", failed, error)
            await asyncio.sleep(options.fetch_pause)

    async def _chosen(self, view: ClusterView) -> list[TopicPartition]:
        selection = self._options.selection
        return selection.chosen(await view.partitions(selection.names))

    async def _both_ends(
        self, view: ClusterView
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        chosen = await self._chosen(view)
        starts = await self._resolved(view, self._options.starting, chosen, "start")
        return starts, await self._resolved(view, self._options.ending, chosen, "end")

    async def _resolved(
        self, view: ClusterView, limit: Limit, chosen: Collection[TopicPartition], position: str
    ) -> dict[TopicPartition, int]:
        """Resolve a limit to offsets."""
        match limit:
            case AtEnd(which):
                offsets = dict.fromkeys(chosen, which)
            case AtOffsets(given):
                offsets = _expanded(given, chosen)
            case AtTime(time, or_latest):
                offsets = await _found(view, dict.fromkeys(chosen, time), or_latest)
            case AtTimes(times, or_latest):
                if times.keys() != set(chosen):
                    raise SourceStateError(
                        "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
                        f"Partitions specified for Kafka timestamp based {position} offsets don't "
                        "match what are assigned. Maybe topic partitions are created or deleted "
                        "while the query is running, or you didn't specify all the partitions. "
                        f"Specified: {listed(times)} Assigned: {listed(chosen)}",
                    )
                offsets = await _found(view, times, or_latest)
        ends = {tp: offset for tp, offset in offsets.items() if offset < 0}
        if ends:
            offsets |= await view.offsets(ends)
        return {tp: offsets[tp] for tp in sorted(offsets)}


async def _found(
    view: ClusterView, times: Mapping[TopicPartition, int], or_latest: bool
) -> dict[TopicPartition, int]:
    found = await view.offsets(times, search=True) if times else {}
    for tp, offset in found.items():
        if offset < 0 and not or_latest:
            raise KafkaConfigurationError(
                f"No offset matched from request of topic-partition {listed([tp])} and timestamp "
                f"{times[tp]}."
            )
    return {tp: LATEST if offset < 0 else offset for tp, offset in found.items()}


def _expanded(
    given: SpecificOffsets, chosen: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the offsets of exactly the existing partitions.

    Raises:
        SourceStateError: The option's offsets are of other partitions.
    """
    by_topic = {tp: given.topics[tp.topic] for tp in chosen if tp.topic in given.topics}
    offsets = {**by_topic, **given.partitions}
    empty = given.topics.keys() - {tp.topic for tp in by_topic}
    if empty or offsets.keys() != set(chosen):
        specified = ", ".join([listed(offsets), *sorted(empty)])
        raise SourceStateError(
            "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
            "Partitions specified for Kafka start offsets don't match what are assigned. Maybe "
            "topic partitions are created or deleted while the query is running. Use -1 for "
            f"latest, -2 for earliest. Specified: {specified} Assigned: {listed(chosen)}",
        )
    return offsets


def tasks(ranges: Collection[OffsetRange], options: ReadOptions) -> list[tuple[OffsetRange, ...]]:
    """Split ranges into the number of tasks that the options request.

    Returns:
        Tasks that depend only on the ranges and the options.
    """
    pieces = split(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    cut = options.min_partitions is not None or options.max_records_per_partition is not None
    return grouped(pieces, max_tasks=options.max_tasks, one_each=cut)
