"""Decodes batches in a thread that would block the event loop."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite._threads import NoThreadError, codec_threads
from aiokafka_lite.record.compression import Bytes
from aiokafka_lite.record.header import ATTRIBUTES_AT, CODEC_MASK, MAGIC_AT, BatchHeader
from aiokafka_lite.record.record_set import RecordSet

__all__ = ["HEAVY_BATCH", "HEAVY_MESSAGES", "LOOP_LIMIT", "is_heavy", "read_in_thread"]

HEAVY_BATCH: Final = 128 * 1024
"""Compressed bytes from which a batch is decompressed in a thread. gzip decompresses about half a
gigabyte per second, so a smaller batch normally takes the event loop a millisecond or two."""

LOOP_LIMIT: Final = 2 * 1024 * 1024
"""Maximum bytes of a batch that is decompressed in the event loop, which takes up to four
milliseconds. A batch that exceeds it, however small its compressed form, is left to a thread."""

HEAVY_MESSAGES: Final = 16 * 1024
"""Bytes from which a v0 or v1 message set is decoded in a thread: a message costs many times as
much as a record of a v2 batch, and a compressed one may wrap a thousand times its size."""


def is_heavy(records: Bytes) -> bool:
    """True if decoding would block the event loop: the first batch, taken as typical, is
    compressed and large, or of an old format."""
    if len(records) < min(HEAVY_BATCH, HEAVY_MESSAGES):
        return False
    if records[MAGIC_AT] == 2 and not records[ATTRIBUTES_AT + 1] & CODEC_MASK:
        return False
    header = BatchHeader.read(records, 0)
    if header.magic < 2:
        return len(records) >= HEAVY_MESSAGES
    return header.codec != 0 and header.batch_length >= HEAVY_BATCH


async def read_in_thread(
    loop: asyncio.AbstractEventLoop, records: RecordSet, limit: int
) -> list[ConsumerRecord[Any, Any]]:
    """Read the next records of a set in a thread, or in this one if the system has no thread left.

    Args:
        loop: The running event loop.
        records: The set; the caller must not use it until the result is available.
        limit: Maximum records.

    Raises:
        KafkaError: As `RecordSet.read` does.
    """
    try:
        return await codec_threads.run(loop, records.read, limit)
    except NoThreadError:
        return records.read(limit)  # slow is better than not at all
