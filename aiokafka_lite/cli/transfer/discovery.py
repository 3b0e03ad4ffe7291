"""Finds partitions and topics that are added while `consume` follows topics.

Non-obvious:
- An added partition is read from its first record, because all of its records are new. But a time
  of `-o` applies there, too, because producers may send old timestamps.
"""

from __future__ import annotations

from collections.abc import Collection

from aiokafka_lite.cli.connection.lookup import Lookup
from aiokafka_lite.cli.offsets.offset_grammar import Bound, Kind, OffsetRange
from aiokafka_lite.cli.offsets.resolve import resolve
from aiokafka_lite.cli.transfer.consume_plan import Plan
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.structs import TopicPartition

__all__ = ["Discovery"]


class Discovery:
    """Tracks the partitions that are followed.

    Args:
        lookup: Open as long as topics are followed. Its metadata is refreshed in the background.
        plan: Has the topics, or the patterns for their names.
        known: The partitions that are read already.
    """

    def __init__(self, lookup: Lookup, plan: Plan, known: Collection[TopicPartition]) -> None:
        self._lookup = lookup
        self._plan = plan
        self._known = set(known)
        is_time = plan.offset.start.kind is Kind.TIME
        self._start = plan.offset.start if is_time else Bound(Kind.START)
        if plan.regex:
            lookup.cluster.set_topics(None)

    async def added(self) -> dict[TopicPartition, int]:
        """Return partitions that were added since the last call, and where to begin in each.

        It sends requests only if there are any. If their offsets cannot be looked up for now, the
        next call tries again.

        Raises:
            KafkaError: The offsets cannot be looked up, and trying again would not help.
        """
        topics = self._lookup.cluster.metadata.topics
        plan = self._plan
        names = self._lookup.known_matching(plan.topics) if plan.regex else plan.topics
        new = {
            tp
            for name in names
            if name in topics
            for number in topics[name].partitions
            if (tp := TopicPartition(name, number)) not in self._known
            and (plan.partitions is None or number in plan.partitions)
        }
        if not new:
            return {}
        try:
            found = await resolve(
                self._lookup, new, OffsetRange(self._start), committed=plan.committed
            )
        except KafkaError as error:
            if not error.retriable:
                raise
            return {}
        self._known |= new
        return {tp: each.start for tp, each in found.items()}
