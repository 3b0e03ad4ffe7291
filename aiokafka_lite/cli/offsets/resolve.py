"""Resolves offset ranges to offsets of partitions, in the same way for every command that takes
a range."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from aiokafka_lite.cli.connection.lookup import Lookup
from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.cli.offsets.offset_grammar import Bound, Kind, OffsetRange
from aiokafka_lite.structs import TopicPartition

__all__ = ["Resolved", "resolve"]

LATEST: Final = -1
EARLIEST: Final = -2


class Resolved(NamedTuple):
    """A range in one partition.

    Attributes:
        start: The first offset to read.
        end: The offset before which to stop; None to follow the partition.
        wanted: The requested offset, if the partition does not have it; otherwise None.
    """

    start: int
    end: int | None
    wanted: int | None = None


async def resolve(
    lookup: Lookup,
    partitions: Collection[TopicPartition],
    wanted: OffsetRange,
    *,
    committed: bool = False,
    to_end: bool = False,
) -> dict[TopicPartition, Resolved]:
    """Look up where a range begins and ends in each partition.

    An offset outside of a partition is moved to its nearest end; `Resolved.wanted` keeps it.

    Args:
        lookup: Asks the cluster.
        partitions: The partitions.
        wanted: The range.
        committed: The end is the last stable offset.
        to_end: A range stops at the current end, if not before.

    Raises:
        UsageError: The range is `stored`, which only a group has.
    """
    if wanted.start.kind is Kind.STORED:
        raise UsageError("the offset 'stored' needs a group: add --group NAME")
    end = Bound(Kind.END) if wanted.end is None and to_end else wanted.end
    first = await lookup.offsets(dict.fromkeys(partitions, EARLIEST))
    last = await lookup.offsets(dict.fromkeys(partitions, LATEST), committed=committed)
    # Records of open transactions are beyond the last stable offset, and a start may be among them:
    # records before it are not requested, even if they are committed later.
    most = await lookup.offsets(dict.fromkeys(partitions, LATEST)) if committed else last
    latest = last if wanted.start.kind is Kind.END else most
    starts = await _offsets(lookup, wanted.start, first, latest)
    ends = None if end is None else await _offsets(lookup, end, first, last)
    found = {}
    for tp in partitions:
        start = min(max(starts[tp], first[tp]), most[tp])
        moved = starts[tp] if start != starts[tp] and wanted.start.kind is Kind.EXACT else None
        if end is None or ends is None:
            stop = None
        elif end.kind is Kind.EXACT and not to_end:
            stop = ends[tp]  # it may lie in the future
        else:
            stop = min(max(ends[tp], first[tp]), last[tp])
        found[tp] = Resolved(start, stop, moved)
    return found


async def _offsets(
    lookup: Lookup,
    bound: Bound,
    first: dict[TopicPartition, int],
    last: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    number = bound.number
    if bound.kind is Kind.START:
        return {tp: offset + number for tp, offset in first.items()}
    if bound.kind is Kind.END:
        return {tp: offset - number for tp, offset in last.items()}
    if bound.kind is Kind.EXACT:
        return dict.fromkeys(first, number)
    found = await lookup.offsets(dict.fromkeys(first, number))
    return {tp: last[tp] if offset < 0 else offset for tp, offset in found.items()}
