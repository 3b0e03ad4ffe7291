"""Detects that an end will never be reached: its topic was deleted, or its log was truncated.

Non-obvious:
- A broker that lags behind may briefly lack a topic, so only the second check counts.
- While a partition has no leader, its end is unknown: reading waits for the leader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aiokafka_lite.cli.connection.lookup import Lookup
from aiokafka_lite.cli.failures import CommandError
from aiokafka_lite.cli.offsets.resolve import LATEST
from aiokafka_lite.errors import (
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["MissingEnds"]


class MissingEnds:
    """Checks the ends that a reader waits for.

    Args:
        lookup: Open as long as the reader.
        ends: The offsets before which reading stops. The log had them when reading began.
        every: Seconds without records after which to check, and between two checks.
        now: The loop's time.
    """

    def __init__(
        self, lookup: Lookup, ends: Mapping[TopicPartition, int], every: float, now: float
    ) -> None:
        self._lookup = lookup
        self._ends = dict(ends)
        self._every = every
        self._since = now
        self._suspected = False

    def on_records(self, now: float) -> None:
        """Records arrived: reset the check."""
        self._since = now
        self._suspected = False

    async def look(self, partitions: Collection[TopicPartition], now: float) -> None:
        """Check that these partitions still have their ends, if a check is due.

        Raises:
            CommandError: A partition no longer has its end.
        """
        if now - self._since < self._every:
            return
        self._since = now
        try:
            await self._look(partitions)
        except CommandError:
            if self._suspected:
                raise
            self._suspected = True
        except KafkaError as error:
            if not (error.retriable or isinstance(error, KafkaTimeoutError)):
                raise
        else:
            self._suspected = False

    async def _look(self, partitions: Collection[TopicPartition]) -> None:
        known = await self._lookup.partitions(sorted({tp.topic for tp in partitions}))
        described = self._lookup.cluster.metadata.topics
        for tp in partitions:
            # The metadata keeps the partitions of a topic that was known.
            if described[tp.topic].error in (UnknownTopicOrPartitionError, UnknownTopicIdError):
                raise CommandError(f"topic {tp.topic!r} no longer exists")
            if tp.partition not in known[tp.topic]:
                raise CommandError(f"topic {tp.topic!r} no longer has partition {tp.partition}")
        last = await self._lookup.offsets(dict.fromkeys(partitions, LATEST))
        for tp in partitions:
            if last[tp] < self._ends[tp]:
                raise CommandError(
                    f"{tp.topic}/{tp.partition} ends at offset {last[tp]} now, and not at"
                    f" {self._ends[tp]}: the topic was recreated, or its log was truncated"
                )
