"""`lag`: how far a group is behind the end of its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from aiokafka_lite._arguments import as_partitions, wire_string
from aiokafka_lite.admin.core.dispatcher import Dispatcher
from aiokafka_lite.admin.core.results import Results
from aiokafka_lite.admin.topics.records import OffsetInfo, OffsetSpec, list_offsets
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.group.offsets.store import OffsetStore
from aiokafka_lite.structs import TopicPartition

__all__ = ["PartitionLag", "lag"]

_Offsets: TypeAlias = Results[TopicPartition, OffsetInfo]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is behind in a partition.

    Attributes:
        committed: The committed offset; None if the group committed none.
        log_start: The first offset that the partition still has.
        log_end: The offset after the last record that the isolation level shows.
    """

    committed: int | None
    log_start: int
    log_end: int

    @property
    def lag(self) -> int:
        """Records that the group has not committed yet, and that are still there."""
        position = self.log_start if self.committed is None else self.committed
        return max(0, self.log_end - max(position, self.log_start))


async def lag(
    dispatcher: Dispatcher,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    timeout_ms: float | None,
    *,
    isolation_level: str,
) -> Results[TopicPartition, PartitionLag]:
    """See `AIOKafkaAdminClient.lag`."""
    deadline = dispatcher.deadline(timeout_ms)
    wanted = None if partitions is None else as_partitions(partitions)
    store = OffsetStore(dispatcher.cluster, wire_string("group_id", group_id))
    committed = await store.fetch(wanted, require_stable=True, deadline=deadline)
    of = list(dict.fromkeys(committed if wanted is None else wanted))

    async def ends(spec: OffsetSpec) -> _Offsets:
        return await list_offsets(
            dispatcher,
            dict.fromkeys(of, spec),
            dispatcher.remaining_ms(deadline),
            isolation_level=isolation_level,
        )

    first, last = await _both(ends(OffsetSpec.EARLIEST), ends(OffsetSpec.LATEST))
    found: dict[TopicPartition, PartitionLag | KafkaError] = {}
    for tp in of:
        start, end = first[tp], last[tp]
        if isinstance(start, KafkaError):
            found[tp] = start
        elif isinstance(end, KafkaError):
            found[tp] = end
        else:
            known = committed.get(tp)
            offset = None if known is None else known.offset
            found[tp] = PartitionLag(offset, start.offset or 0, end.offset or 0)
    return Results(found)


async def _both(one: Awaitable[_Offsets], two: Awaitable[_Offsets]) -> tuple[_Offsets, _Offsets]:
    """Await both, even if one fails, so that nothing continues after the call."""
    first, last = await asyncio.gather(one, two, return_exceptions=True)
    if isinstance(first, BaseException):
        raise first
    if isinstance(last, BaseException):
        raise last
    return first, last
