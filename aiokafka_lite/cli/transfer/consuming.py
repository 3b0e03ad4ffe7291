"""Reads topics and writes their records to standard output, in constant memory.

Non-obvious:
- A range ends at an offset, not at a record: control records and compaction leave offsets without
  a record, so the position of a partition, not its last record, decides whether it is done.
- A group's offsets are committed after their records were written, and never those of records
  that were read but not written.
- When the group revokes a partition, its uncommitted offsets are dropped, including those of
  records that are being written: the next owner may have read further.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiokafka_lite.cli.connection.lookup import Lookup, open_lookup
from aiokafka_lite.cli.failures import FAILED, OK, UsageError, complain
from aiokafka_lite.cli.formats.writing import Record
from aiokafka_lite.cli.offsets.offset_grammar import Kind, OffsetRange
from aiokafka_lite.cli.offsets.resolve import EARLIEST, Resolved, resolve
from aiokafka_lite.cli.transfer.consume_plan import Plan
from aiokafka_lite.cli.transfer.discovery import Discovery
from aiokafka_lite.cli.transfer.missing_ends import MissingEnds
from aiokafka_lite.cli.transfer.record_output import RecordOutput
from aiokafka_lite.consumer.buffering.bulk_types import RecordBatch
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.record_batches import Batches
from aiokafka_lite.errors import CommitFailedError, IllegalStateError
from aiokafka_lite.structs import TopicPartition

__all__ = ["consume"]

LOOK_EVERY: Final = 0.1
"""Seconds without records after which the positions are compared with the ends."""
DISCOVER_EVERY: Final = 1.0
"""Seconds between two checks for partitions that were added to the followed topics."""


async def consume(plan: Plan) -> int:
    """Read and write until the range, the count or the input ends; return the exit status."""
    if plan.share_group is not None:
        from aiokafka_lite.cli.transfer.share_consuming import consume_share  # rarely used

        return await consume_share(plan)
    if plan.group is not None:
        return await _consume_as_member(plan)
    async with open_lookup(plan.arguments, plan.timeout) as lookup:
        topics = await lookup.matching(plan.topics) if plan.regex else list(plan.topics)
        found = await _chosen_partitions(plan, lookup, topics)
        ranges = await resolve(
            lookup, found, plan.offset, committed=plan.committed, to_end=plan.to_end
        )
        if plan.tail is not None:
            ranges = await _tails(plan, lookup, ranges)
        _notice_moved(plan, ranges)
        consumer = AIOKafkaConsumer(**plan.arguments)
        reading = _Reading(plan, consumer, ranges)
        if reading.is_over():
            await consumer.stop()
            return OK
        if reading.follows and (plan.regex or plan.partitions is None):
            reading.discovery = Discovery(lookup, plan, ranges)
        reading.watch_ends(lookup)
        consumer.assign(reading.open)
        for tp in reading.open:
            consumer.seek(tp, ranges[tp].start)
        async with consumer:
            return await reading.run()


async def _chosen_partitions(
    plan: Plan, lookup: Lookup, topics: Sequence[str]
) -> list[TopicPartition]:
    known = await lookup.partitions(topics)
    for topic in topics:
        missing = set(plan.partitions or ()) - set(known[topic])
        if missing:
            raise UsageError(
                f"-p {min(missing)}: topic {topic!r} has the partitions 0 to {max(known[topic])}"
            )
    return [
        TopicPartition(topic, number)
        for topic in topics
        for number in (known[topic] if plan.partitions is None else plan.partitions)
    ]


def _notice_moved(plan: Plan, ranges: dict[TopicPartition, Resolved]) -> None:
    if plan.quiet:
        return
    for tp, each in ranges.items():
        if each.wanted is not None:
            complain(
                "consume",
                f"{tp.topic}/{tp.partition} has no offset {each.wanted}; reading begins at"
                f" {each.start}",
            )


async def _consume_as_member(plan: Plan) -> int:
    if not plan.regex:
        async with open_lookup(plan.arguments, plan.timeout) as lookup:
            await lookup.partitions(plan.topics)  # so that a typo is an error now, not a long wait
    consumer = AIOKafkaConsumer(**plan.arguments)
    reading = _Reading(plan, consumer, {})
    listener = reading.listener()
    if plan.regex:
        consumer.subscribe(pattern=f"(?:{'|'.join(plan.topics)})$", listener=listener)
    else:
        consumer.subscribe(list(plan.topics), listener=listener)
    async with consumer:
        return await reading.run()


async def _tails(
    plan: Plan, lookup: Lookup, ranges: dict[TopicPartition, Resolved]
) -> dict[TopicPartition, Resolved]:
    """Find where the last records of each partition begin, walking back over gaps.

    Only offsets are kept: memory does not grow with the records.
    """
    wanted = plan.tail or 0
    first = await lookup.offsets(dict.fromkeys(ranges, EARLIEST))
    ends = await resolve(
        lookup, list(ranges), OffsetRange(plan.offset.start), committed=plan.committed, to_end=True
    )
    found: dict[TopicPartition, Resolved] = {}
    async with AIOKafkaConsumer(**plan.arguments) as consumer:
        for tp, each in ranges.items():
            end = ends[tp].end or 0
            window = wanted
            while True:
                begin = max(end - window, first[tp])
                offsets = await _offsets_between(consumer, tp, begin, end, wanted)
                if len(offsets) == wanted or begin == first[tp]:
                    break
                window *= 4
            found[tp] = Resolved(offsets[0] if offsets else end, each.end)
    return found


async def _offsets_between(
    consumer: AIOKafkaConsumer, tp: TopicPartition, begin: int, end: int, most: int
) -> deque[int]:
    offsets: deque[int] = deque(maxlen=most)
    if begin >= end:
        return offsets
    consumer.assign([tp])
    consumer.seek(tp, begin)
    while await consumer.position(tp) < end:
        for records in (await consumer.getmany(timeout_ms=LOOK_EVERY * 1000)).values():
            offsets.extend(record.offset for record in records if record.offset < end)
    return offsets


class _Reading:
    """One run: reads, filters, writes, commits.

    Attributes:
        open: The partitions that are not done. Empty with a group, which has no ends.
        follows: True if at least one partition has no end.
        discovery: Finds partitions that are added; None if a group assigns them, or if none count.
    """

    def __init__(
        self, plan: Plan, consumer: AIOKafkaConsumer, ranges: dict[TopicPartition, Resolved]
    ) -> None:
        self._plan = plan
        self._consumer = consumer
        self._ends = {tp: each.end for tp, each in ranges.items() if each.end is not None}
        self.follows = plan.group is not None or len(self._ends) < len(ranges)
        self.discovery: Discovery | None = None
        self._missing: MissingEnds | None = None
        self.open = {tp for tp, each in ranges.items() if each.end is None or each.start < each.end}
        self._left = plan.count
        self._output = RecordOutput(plan.write)
        self._loop = asyncio.get_running_loop()
        self._written: dict[TopicPartition, Any] = {}  # to commit
        self._writing: TopicPartition | None = None  # None if the group revoked it meanwhile
        self._uncommitted = 0

    def is_over(self) -> bool:
        """True if every partition is done, or enough records were written."""
        return self._left == 0 or not (self.open or self.follows)

    def watch_ends(self, lookup: Lookup) -> None:
        """End with an error if an existing end is deleted; wait for an end that does not exist
        yet."""
        end = self._plan.offset.end
        if self._ends and (self._plan.to_end or end is None or end.kind is not Kind.EXACT):
            every, now = self._plan.timeout, self._loop.time()
            self._missing = MissingEnds(lookup, self._ends, every, now)

    def listener(self) -> Any:
        """The listener that commits before the group revokes partitions."""
        from aiokafka_lite.abc import ConsumerRebalanceListener

        reading = self

        class Listener(ConsumerRebalanceListener):
            async def on_partitions_revoked(self, revoked: Any) -> None:
                why: object = "the group took the partition away"
                try:
                    await reading.commit(set(revoked))
                except (CommitFailedError, IllegalStateError) as error:
                    why = error
                finally:
                    reading.forget(set(revoked), why)

            async def on_partitions_lost(self, lost: Any) -> None:
                reading.forget(set(lost), "the group removed this reader")

            async def on_partitions_assigned(self, assigned: Any) -> None:
                pass

        return Listener()

    async def run(self) -> int:
        """Read until the run is complete."""
        last = committed_at = looked_at = self._loop.time()
        try:
            async with self._output.stdout.until_closed(), self._consumer.batches() as batches:
                while not self.is_over():
                    batch = await self._next(batches)
                    now = self._loop.time()
                    if batch is not None:
                        await self._take(batch)
                        last = now
                        if self._missing is not None:
                            self._missing.on_records(self._loop.time())
                    elif self._plan.idle is not None and now - last >= self._plan.idle:
                        break
                    await self._close_finished()
                    if self._missing is not None and batch is None and self.open:
                        await self._missing.look(self.open, now)
                    if self.discovery is not None and now - looked_at >= DISCOVER_EVERY:
                        self._read_also(await self.discovery.added())
                        looked_at = now
                    if now - committed_at >= 1.0:
                        await self.commit_meanwhile()
                        committed_at = now
        finally:
            await self.commit()
        return FAILED if self._output.failures or self._uncommitted else OK

    async def commit_meanwhile(self) -> None:
        """Commit, unless the group is rebalancing: then `forget` or the next commit decides."""
        with contextlib.suppress(CommitFailedError, IllegalStateError):
            await self.commit()

    def forget(self, partitions: set[TopicPartition], why: object) -> None:
        """Drop the offsets of partitions that another reader may own now."""
        for tp in sorted(partitions):
            unfinished = tp == self._writing
            if unfinished:
                self._writing = None
            written = self._written.pop(tp, None) is not None
            if (unfinished or written) and self._plan.commit:
                self._uncommitted += 1
                complain(
                    "consume",
                    f"{tp.topic}/{tp.partition}: records that were written could not be committed,"
                    f" and the group delivers them again: {why}",
                )

    async def commit(self, only: set[TopicPartition] | None = None) -> None:
        """Commit the offsets of written records, of these partitions or of all."""
        if self._plan.group is None or not self._plan.commit:
            return
        chosen = {tp: at for tp, at in self._written.items() if only is None or tp in only}
        if chosen:
            await self._consumer.commit(chosen)
        for tp, at in chosen.items():  # only now: a cancelled commit is repeated at the end
            if self._written.get(tp) is at:
                del self._written[tp]

    async def _next(self, batches: Batches[RecordBatch]) -> RecordBatch | None:
        busy = self._ends or self._plan.idle or self._plan.group
        if not (busy or self.discovery):
            return await anext(batches)
        try:
            async with asyncio.timeout(LOOK_EVERY if busy else DISCOVER_EVERY):
                return await anext(batches)
        except TimeoutError:
            return None

    async def _take(self, batch: RecordBatch) -> None:
        tp = batch.topic_partition
        records: list[Record] = batch.records
        end = self._ends.get(tp)
        if end is not None and batch.next_offset > end:
            records = [record for record in records if record.offset < end]
        if self._plan.keep is not None:
            records = self._plan.keep(records)
        offsets = batch.offsets
        if self._left is not None:
            if len(records) >= self._left:
                records = records[: self._left]
                offsets = _up_to(offsets, tp, records[-1].offset + 1)
            self._left -= len(records)
        self._writing = tp
        try:
            if records:
                await self._output.write(records)
        finally:
            is_ours, self._writing = self._writing is not None, None
        if is_ours:
            self._written.update(offsets)
        if end is not None and batch.next_offset >= end:
            self._close(tp)

    def _read_also(self, added: Mapping[TopicPartition, int]) -> None:
        """Read partitions that were added, from these offsets."""
        if added:
            self.open |= added.keys()
            self._consumer.assign(self.open)
            for tp, offset in added.items():
                self._consumer.seek(tp, offset)

    async def _close_finished(self) -> None:
        """Close partitions whose position passed their end over offsets without a record."""
        # The position in a topic that was deleted meanwhile would be looked up forever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_EVERY):
                for tp in [tp for tp in self.open if tp in self._ends]:
                    if await self._consumer.position(tp) >= self._ends[tp]:
                        self._close(tp)

    def _close(self, tp: TopicPartition) -> None:
        if tp in self.open:
            self.open.discard(tp)
            self._consumer.pause(tp)


def _up_to(offsets: Any, tp: TopicPartition, offset: int) -> dict[TopicPartition, Any]:
    at = offsets[tp]
    return {tp: at if at.offset == offset else type(at)(offset, "", at.leader_epoch)}
