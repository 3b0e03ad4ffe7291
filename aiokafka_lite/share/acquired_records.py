"""Turns one partition of a ShareFetch response into acquisitions and records. Sans-IO.

The broker returns whole batches, of which it may have acquired only a part: only acquired offsets
become records. Acquired offsets without a record in the batch (control records, compacted ones) are
gaps.

Non-obvious:
- Offsets after the last complete batch are released, not acknowledged as gaps: their records exist,
  but the response ends before them.
- While a thread decodes, the locks may be lost: then the offsets are no longer held as gaps, and
  their records are dropped.
- A corrupt batch is skipped as a whole; `on_undecodable` decides about its acquired offsets.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, cast

from aiokafka_lite.abc import RecordDeserializer
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.errors import (
    CorruptRecordException,
    KafkaError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.reading.heavy_batches import LOOP_LIMIT, is_heavy, read_in_thread
from aiokafka_lite.reading.undeserialized import attach_record, raised_error
from aiokafka_lite.record.compression import DEFAULT_LIMIT
from aiokafka_lite.record.header import HEADER_SIZE, LENGTH_AT, LENGTH_END, MAGIC_AT
from aiokafka_lite.record.message_set import MESSAGE_OVERHEAD
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.share.acquisition import Acquisition
from aiokafka_lite.share.records._share_record_python import AcquiredRange
from aiokafka_lite.share.records.offset_states import REJECT, RELEASE
from aiokafka_lite.share.share_record import AcquiredPicker, ShareRecord
from aiokafka_lite.structs import TopicPartition

__all__ = ["RAISE", "Decoding", "Deserializer", "Item"]

log: Final = logging.getLogger(__name__)

Deserializer: TypeAlias = Callable[[Any], Any]
Item: TypeAlias = ShareRecord[Any, Any] | BaseException
"""A record, or the error that a read raises in its place."""

RAISE: Final = "raise"
_KINDS: Final = {"reject": REJECT, "release": RELEASE}
_WORDS: Final = {"reject": "rejected", "release": "released"}

_CHUNK: Final = 4096
_HEAVY_CHUNK: Final = 2048  # a thread switch costs about 50 us
_APART: Final = 64
"""Minimum number of offsets between two acquired ranges for separate acquisitions. It bounds the
memory for offsets that were not acquired."""

_UNREADABLE: Final = (CorruptRecordException, RecordTooLargeError, UnsupportedCodecError)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How one consumer decodes records.

    Attributes:
        key_deserializer: Applied to each key, or None.
        value_deserializer: Applied to each value, or None.
        check_crcs: True to check the CRC of each batch.
        on_undecodable: "reject", "release" or "raise".
        log_name: Names the consumer in the log.
        refusal: Why the application may not acknowledge, or None.
    """

    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    check_crcs: bool = True
    on_undecodable: str = "reject"
    log_name: str = "share consumer"
    refusal: str | None = None

    def acquire(
        self, ranges: Sequence[AcquiredRange], make: Callable[[int, int], Acquisition]
    ) -> list[Acquisition]:
        """Make the acquisitions of ranges, which are ascending and disjoint.

        Args:
            ranges: The acquired offsets.
            make: Makes the acquisition of offsets from the first to the last.
        """
        acquisitions = []
        for cluster in _clusters(ranges):
            acquisition = make(cluster[0].first, cluster[-1].last)
            acquisition.refusal = self.refusal
            for first, last, _ in cluster:
                acquisition.acquire(first, last)
            acquisitions.append(acquisition)
        return acquisitions

    async def decode(
        self,
        loop: asyncio.AbstractEventLoop,
        data: Buffer,
        tp: TopicPartition,
        ranges: Sequence[AcquiredRange],
        acquisitions: Sequence[Acquisition],
    ) -> list[Item]:
        """Decode the acquired records of one partition; large compressed batches in a thread.

        Args:
            loop: The running event loop.
            data: The `records` field.
            tp: The partition.
            ranges: The acquired offsets.
            acquisitions: What `acquire` made of them. Those that are lost meanwhile have no items.

        Returns:
            In offset order the records, and the errors to raise.
        """
        items: list[Item] = []
        view = memoryview(data).cast("B")
        end = ranges[-1].last
        heavy = is_heavy(view)
        records = self._open(view, tp, ranges[0].first, heavy)
        picker = AcquiredPicker(ranges, acquisitions)
        while not records.exhausted and records.next_offset <= end:
            try:
                if heavy:
                    acquired = picker.pick(await read_in_thread(loop, records, _HEAVY_CHUNK))
                else:
                    acquired = picker.read(records, _CHUNK)
            except _UNREADABLE as error:
                if not heavy and records.raise_limit(DEFAULT_LIMIT):
                    heavy = True  # small, but large once decompressed
                    continue
                offset = records.next_offset
                records.close()
                found = _batch_at(view, offset)
                if found is None or not found.start:
                    last = end if found is None else min(found.last, end)
                    self._on_unreadable(acquisitions, tp, offset, last, error, items)
                    if found is None:
                        return items
                    offset, view = found.last + 1, view[found.end :]
                else:
                    # A batch before it may have failed, after its last record: read this one. If
                    # its own header was wrong, the offsets before this one are not gaps.
                    if found.base > offset:
                        last = min(found.base - 1, end)
                        self._on_unreadable(acquisitions, tp, offset, last, error, items)
                    view = view[found.start :]
                heavy = is_heavy(view)
                records = self._open(view, tp, offset, heavy)
                continue
            if self.key_deserializer is not None or self.value_deserializer is not None:
                for record in acquired:
                    self._deserialize(record, items)
            elif items:
                items.extend(acquired)
            else:
                items = cast(list[Item], acquired)
        if records.exhausted and records.next_offset <= end:
            self._on_missing(acquisitions, tp, records.next_offset, end)
        records.close()
        return items

    def _open(self, view: memoryview, tp: TopicPartition, offset: int, heavy: bool) -> RecordSet:
        topic, partition = tp
        limit = DEFAULT_LIMIT if heavy else LOOP_LIMIT
        return RecordSet(
            view,
            topic,
            partition,
            offset,
            check_crcs=self.check_crcs,
            decompressed_limit=limit,
        )

    def _deserialize(self, record: ShareRecord[Any, Any], items: list[Item]) -> None:
        part, key, value = "key", record.key, record.value
        try:
            if self.key_deserializer is not None:
                record.key = _deserialized(self.key_deserializer, record, key)
            if self.value_deserializer is not None:
                part = "value"
                record.value = _deserialized(self.value_deserializer, record, value)
        except (Exception, asyncio.CancelledError) as raised:
            error = raised_error(raised)
            record.key, record.value = key, value
            attach_record(error, part, record, "acknowledge() it by its offset")
            where = f"{record.topic}-{record.partition} offset {record.offset}"
            if self.on_undecodable == RAISE:
                items.append(error)
                return
            log.warning(
                "%s: %s %s: its %s cannot be deserialized: %r",
                self.log_name,
                _WORDS[self.on_undecodable],
                where,
                part,
                error,
                extra=log_extra(self.log_name, TopicPartition(record.topic, record.partition)),
            )
            kind = _KINDS[self.on_undecodable]
            record._marks.mark_undecided(record.offset, record.offset, kind)
        else:
            items.append(record)

    def _on_unreadable(
        self,
        acquisitions: Sequence[Acquisition],
        tp: TopicPartition,
        first: int,
        last: int,
        error: KafkaError,
        items: list[Item],
    ) -> None:
        """Decide about the acquired offsets of a batch that cannot be read."""
        acquisitions = _between(acquisitions, first, last)
        count = sum(acquisition.hold_gaps(first, last) for acquisition in acquisitions)
        if not count:
            return
        topic, partition = tp
        where = f"{topic}-{partition} offsets {first} to {last}"
        if self.on_undecodable == RAISE:
            error.add_note(f"while reading {where}; acknowledge() them by offset")
            items.append(error)
            return
        log.warning(
            "%s: %s %d records of %s, whose batch cannot be read: %s",
            self.log_name,
            _WORDS[self.on_undecodable],
            count,
            where,
            error,
            extra=log_extra(self.log_name, tp),
        )
        for acquisition in acquisitions:
            acquisition.mark_undecided(first, last, _KINDS[self.on_undecodable])

    def _on_missing(
        self, acquisitions: Sequence[Acquisition], tp: TopicPartition, first: int, last: int
    ) -> None:
        acquisitions = _between(acquisitions, first, last)
        count = sum(acquisition.hold_gaps(first, last) for acquisition in acquisitions)
        if not count:
            return
        for acquisition in acquisitions:
            acquisition.mark_undecided(first, last, RELEASE)
        log.warning(
            "%s: released %d acquired records of %s-%d from offset %d: the response ends before "
            "them",
            self.log_name,
            count,
            *tp,
            first,
            extra=log_extra(self.log_name, tp),
        )


def _clusters(ranges: Sequence[AcquiredRange]) -> list[list[AcquiredRange]]:
    """Group ranges that are near each other."""
    clusters: list[list[AcquiredRange]] = []
    for each in ranges:
        if clusters and each.first - clusters[-1][-1].last <= _APART:
            clusters[-1].append(each)
        else:
            clusters.append([each])
    return clusters


def _between(acquisitions: Sequence[Acquisition], first: int, last: int) -> Sequence[Acquisition]:
    """Return the acquisitions, which are ascending and disjoint, that have an offset of a range."""
    start = bisect_left(acquisitions, first, key=attrgetter("last"))
    return acquisitions[start : bisect_right(acquisitions, last, key=attrgetter("base"))]


class _Batch(NamedTuple):
    """A batch of a response: its first and last offset, and the bytes where it begins and ends.
    The first is 0 in v0 and v1, whose headers do not have it."""

    base: int
    last: int
    start: int
    end: int


def _batch_at(view: memoryview, offset: int) -> _Batch | None:
    """Find the batch that ends at or after an offset; None if the headers do not say."""
    at = 0
    while len(view) - at > MAGIC_AT:
        base, last = 0, int.from_bytes(view[at : at + 8], "big", signed=True)
        length = int.from_bytes(view[at + LENGTH_AT : at + LENGTH_END], "big", signed=True)
        size, smallest = LENGTH_END + length, LENGTH_END + MESSAGE_OVERHEAD
        if last < 0:
            return None
        if view[at + MAGIC_AT] > 1:  # in v0 and v1 the offset is that of the last message
            smallest = HEADER_SIZE
            if len(view) - at < smallest:
                return None
            delta = int.from_bytes(view[at + 23 : at + 27], "big", signed=True)
            if delta < 0:
                return None
            base, last = last, last + delta
        if size < smallest:
            return None
        following = view[at + size : at + size + MAGIC_AT + 1]
        if len(following) > MAGIC_AT and following[MAGIC_AT] > 1:
            # This header itself may be corrupt. Where the next batch begins, this one has ended.
            next_base = int.from_bytes(following[:8], "big", signed=True)
            last = next_base - 1 if next_base > base else last
        if last >= offset:
            return _Batch(base, last, at, at + size)
        at += size
    return None


def _deserialized(
    deserializer: Deserializer, record: ShareRecord[Any, Any], data: bytes | None
) -> Any:
    if isinstance(deserializer, RecordDeserializer):
        return deserializer.deserialize(record.topic, record.headers, data)
    return deserializer(data)
