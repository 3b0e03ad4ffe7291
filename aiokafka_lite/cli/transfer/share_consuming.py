"""`consume --share-group`: reads as a member of a share group, and acknowledges written records.

Non-obvious:
- Records are acknowledged after they were written to stdout, never before. A written record may be
  delivered again if its lock expired meanwhile; this is reported.
- `--ack release` marks nothing: closing the consumer releases the records. If each were released at
  once, the group would deliver it to this reader again, until it reached the limit of deliveries.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import groupby
from typing import Any, Final

from aiokafka_lite.cli.connection.lookup import open_lookup
from aiokafka_lite.cli.failures import FAILED, OK, complain
from aiokafka_lite.cli.transfer.consume_plan import Plan
from aiokafka_lite.cli.transfer.record_output import RecordOutput
from aiokafka_lite.share.batch_acknowledgement import BatchAcknowledgement
from aiokafka_lite.share.share_consumer import AIOKafkaShareConsumer
from aiokafka_lite.share.share_record import ShareRecord, ShareRecords

__all__ = ["consume_share"]

PENDING: Final = 20
"""Maximum number of reads whose acknowledgements have no result yet."""
LOOK_EVERY: Final = 1.0
"""Seconds that a read waits for records."""

_Acknowledge = Callable[[ShareRecords], BatchAcknowledgement]
_WAYS: Final[dict[str, _Acknowledge | None]] = {
    "accept": ShareRecords.accept,
    "reject": ShareRecords.reject,
    "release": None,
}


async def consume_share(plan: Plan) -> int:
    """Read and write until the count or the idle time ends it; return the exit status."""
    async with open_lookup(plan.arguments, plan.timeout) as lookup:
        await lookup.partitions(plan.topics)  # so that a typo is an error now, not a long wait
    consumer = AIOKafkaShareConsumer(*plan.topics, **plan.arguments)
    reading = _Reading(plan, consumer)
    try:
        async with consumer:
            await reading.run()
    finally:
        reading.report_results()  # closing the consumer sent the last acknowledgements
    return FAILED if reading.failed else OK


class _Reading:
    """One run: reads, writes, acknowledges."""

    def __init__(self, plan: Plan, consumer: AIOKafkaShareConsumer) -> None:
        self._plan = plan
        self._consumer = consumer
        self._acknowledge = _WAYS[plan.ack]
        self._output = RecordOutput(plan.write)
        self._pending: deque[tuple[ShareRecord[Any, Any], BatchAcknowledgement]] = deque()
        self._lost = 0

    @property
    def failed(self) -> bool:
        """True if a record was not written, or an acknowledgement failed."""
        return bool(self._output.failures or self._lost)

    async def run(self) -> None:
        """Read until the run is complete, and wait for the results of the acknowledgements."""
        loop = asyncio.get_running_loop()
        left, idle = self._plan.count, self._plan.idle
        wait = LOOK_EVERY if idle is None else min(idle, LOOK_EVERY)
        last = loop.time()
        async with self._output.stdout.until_closed():
            while left is None or left > 0:
                records = await self._consumer.getmany(timeout_ms=wait * 1000, max_records=left)
                if records:
                    last = loop.time()
                    await self._take(records)
                elif idle is not None and loop.time() - last >= idle:
                    break
                if left is not None:
                    left -= len(records)
                if len(self._pending) >= PENDING:
                    await self._consumer.flush()
                self.report_results()
            await self._consumer.flush()

    async def _take(self, records: ShareRecords) -> None:
        for _, some in groupby(records, lambda record: (record.topic, record.partition)):
            written = ShareRecords(await self._output.write(list(some)))
            if written and self._acknowledge is not None:
                self._pending.append((written[0], self._acknowledge(written)))

    def report_results(self) -> None:
        """Report failed acknowledgements among those that have a result."""
        while self._pending and self._pending[0][1].done():
            first, acknowledgement = self._pending.popleft()
            failures = list(acknowledgement.failures.values())
            if failures:
                self._lost += len(failures)
                complain(
                    "consume",
                    f"{first.topic}/{first.partition}, from offset {first.offset}:"
                    f" {len(failures)} records were written, but could not be acknowledged, and"
                    f" the group may deliver them again: {failures[0]}",
                )
