"""Decodes sets of large compressed batches in threads, without blocking the event loop.

`background_decode` decides which partition's set is next.
"""

from __future__ import annotations

import asyncio

from aiokafka_lite._tasks import TaskOwner
from aiokafka_lite.consumer.buffering.fetch_buffer import FetchBuffer
from aiokafka_lite.consumer.buffering.record_reader import CHUNK
from aiokafka_lite.consumer.buffering.waiters import Waiters
from aiokafka_lite.consumer.partitions.delivery import Record
from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.reading.heavy_batches import read_in_thread
from aiokafka_lite.record.record_set import RecordSet

HEAVY_CHUNK = 2048
"""Records decoded at once in a thread: a thread switch costs about 50 us."""


class ThreadDecoding:
    """Decodes for one consumer, a task for each set.

    Args:
        loop: The event loop of the consumer.
        buffer: Receives the records.
        waiters: Woken when there are records.
        tasks: Owns the tasks.
        deserializes: True if keys or values are deserialized, which costs time for each record.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffer: FetchBuffer,
        waiters: Waiters,
        tasks: TaskOwner,
        *,
        deserializes: bool,
    ) -> None:
        self._loop = loop
        self._buffer = buffer
        self._waiters = waiters
        self._tasks = tasks
        self._deserializes = deserializes

    def begin(self, state: PartitionState, records: RecordSet) -> None:
        """Decode the next records of a partition's set."""
        self._tasks.spawn(self._decode(state, records), f"decode {state}")

    async def _decode(self, state: PartitionState, records: RecordSet) -> None:
        limit = CHUNK if self._deserializes else HEAVY_CHUNK
        decoded: list[Record] | KafkaError
        try:
            decoded = await read_in_thread(self._loop, records, limit)
        except KafkaError as error:
            decoded = error
        except Exception:
            if state.fetched.records is records:
                raise
            return  # the set was closed while the thread read it, so any error may occur
        self._buffer.install(state, records, decoded)
        self._waiters.wake()
