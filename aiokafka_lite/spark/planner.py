"""From what a user wrote to ranges of offsets: the questions, and what their answers mean.

Each method asks brokers, on the runtime's loop. What fails is asked again as
`fetchOffset.numRetries` says, by a new client. Brokers that were there before and cannot be
reached are waited for, whatever that says: a query must outlive a restart of its cluster, while
one that is told a wrong address fails at once.

Source: KafkaOffsetReaderAdmin of Spark's connector for which offsets are meant, and which of them
mean that records are lost.
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
"""What asking again would not change."""

BACK_WITHIN: Final = 60.0
"""Seconds that brokers are waited for: Java's `default.api.timeout.ms`."""


class Planner:
    """Finds out what a query reads.

    Args:
        options: The reader's.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._were_there = False  # brokers, at any time

    # --- a batch

    async def batch_ranges(self) -> list[OffsetRange]:
        """All that a batch reads.

        Raises:
            SourceStateError: The options do not tell offsets of the partitions there are, or a
                partition ends before it begins.
            KafkaConfigurationError: No record of a partition is as late as asked for.
            KafkaError: Brokers did not tell.
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
        """The first offset of a time or later, in milliseconds since the epoch; None where there
        is no such record.

        Raises:
            KafkaError: Brokers did not tell.
        """

        async def ask(view: ClusterView) -> dict[TopicPartition, int]:
            await view.partitions({tp.topic for tp in times})
            return await view.offsets(times, search=True)

        found = await self._asking(ask)
        return {tp: None if offset < 0 else offset for tp, offset in found.items()}

    # --- a stream

    async def initial(self) -> dict[TopicPartition, int]:
        """Where a new query begins.

        Raises:
            SourceStateError, KafkaConfigurationError, KafkaError: As of `batch_ranges`.
        """

        async def ask(view: ClusterView) -> dict[TopicPartition, int]:
            chosen = await self._chosen(view)
            return await self._resolved(view, self._options.starting, chosen, "start")

        return await self._asking(ask)

    async def latest(self, known: Offsets) -> dict[TopicPartition, int]:
        """The ends of all partitions, new ones included.

        Args:
            known: Where the query is. An end before that is not believed at once: a broker that
                has just become the leader may not know better (KAFKA-7703). Nor is it that a
                partition is gone: the broker that was asked may not know of it yet, and who went on
                without it would read it again from its beginning.

        Raises:
            KafkaError: Brokers did not tell.
        """

        async def ask(view: ClusterView) -> dict[TopicPartition, int]:
            for attempt in range(self._options.fetch_attempts):
                chosen = await self._chosen(view)
                ends = await view.offsets(dict.fromkeys(chosen, LATEST))
                behind = {tp: ends.get(tp) for tp in known if ends.get(tp, -1) < known[tp]}
                if not behind or attempt + 1 == self._options.fetch_attempts:
                    break
                logger.warning(
                    "Some partitions end before where the query is, or are gone: %s", behind
                )
                await asyncio.sleep(self._options.fetch_pause)
            return ends

        return await self._asking(ask)

    async def wait_for_more(self, than: Offsets, seconds: float, every: float) -> bool:
        """Wait until one of the partitions ends elsewhere, for some seconds at most.

        Args:
            every: Seconds between two questions.

        Returns:
            Whether one does, or cannot be asked about any more. Partitions that were added are not
            looked for.
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
                # Its topic was deleted, say. Who asks for everything anew is told what is wrong.
                logger.info("It is not known whether there is more: %s", error)
                return True

        return await self._asking(ask)

    async def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets of those partitions that (still) exist.

        Raises:
            KafkaError: Brokers did not tell.
        """
        if not partitions:
            return {}

        async def ask(view: ClusterView) -> dict[TopicPartition, int]:
            there = set(await self._chosen(view)).intersection(partitions)
            return await view.offsets(dict.fromkeys(sorted(there), EARLIEST))

        return await self._asking(ask)

    async def ranges(self, starts: Offsets, ends: Offsets) -> list[OffsetRange]:
        """What a micro-batch reads.

        Args:
            starts: Where the query is. Partitions that are missing begin at their first record.
            ends: Where the micro-batch ends. Partitions that are missing are gone.

        Raises:
            DataLossError: Records are gone, and `failOnDataLoss` is on.
            KafkaError: Brokers did not tell.
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

    # --- asking

    async def _asking(self, ask: Callable[[ClusterView], Awaitable[_T]]) -> _T:
        """Ask with a client; again, with another one, if that fails."""
        options = self._options
        loop = asyncio.get_running_loop()
        patient_until = loop.time() + (BACK_WITHIN if self._were_there else 0)
        failed = 0
        while True:
            try:
                async with lease(
                    "view", options.consumer, lambda: ClusterView(options.consumer)
                ) as view:
                    self._were_there = True
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
        """The offsets that a limit means."""
        match limit:
            case AtEnd(which):
                offsets = dict.fromkeys(chosen, which)
            case AtOffsets(told):
                offsets = _expanded(told, chosen)
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
    told: SpecificOffsets, chosen: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Offsets of exactly the partitions there are.

    Raises:
        SourceStateError: The user told those of others.
    """
    by_topic = {tp: told.topics[tp.topic] for tp in chosen if tp.topic in told.topics}
    offsets = {**by_topic, **told.partitions}
    empty = told.topics.keys() - {tp.topic for tp in by_topic}
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
    """The tasks that read ranges: as many as the options want.

    Returns:
        What depends on the ranges and the options alone.
    """
    pieces = split(
        ranges,
        min_partitions=options.min_partitions,
        max_records=options.max_records_per_partition,
    )
    cut = options.min_partitions is not None or options.max_records_per_partition is not None
    return grouped(pieces, max_tasks=options.max_tasks, one_each=cut)
