"""The implementation of `send_columns`: appends the rows and waits for memory and metadata.

Only a producer that sends columns imports this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiokafka_lite.producer.batching.accumulator import Accumulator
from aiokafka_lite.producer.batching.buffer_memory import MemoryPool
from aiokafka_lite.producer.batching.row_appending import HEADER_SIZE, RowAppending, Wants
from aiokafka_lite.producer.columns_ack import ColumnsAck
from aiokafka_lite.record.columnar.column_arguments import columns_to_send

__all__ = ["ColumnSending"]


class ColumnSending:
    """Sends columns. It keeps no state between calls."""

    async def send(
        self,
        accumulator: Accumulator,
        pool: MemoryPool,
        topic: str,
        partition: int | None,
        columns: tuple[object, object, object],
        learn: Callable[[int | None], Awaitable[None]],
        deadline: Callable[[], float],
        *,
        ignore_keys: bool,
    ) -> ColumnsAck:
        """Append all rows; return their ack.

        Args:
            accumulator: The producer's batches.
            pool: The memory of the batches.
            topic: The topic.
            partition: The partition of all rows; None to choose one for each row.
            columns: The values, the keys and the timestamps, unchecked.
            learn: Waits until the topic, and a partition if one is given, is known.
            deadline: Returns the loop time until which to wait for memory.
            ignore_keys: True if the keys do not choose the partition.

        Raises:
            Exception: As in `send_columns`; its `sent` is the ack of the appended rows.
        """
        checked = columns_to_send(*columns)
        rows = checked.rows
        if rows.count:
            accumulator.memory_for(HEADER_SIZE + rows.largest)
        keyed = checked.keyed and not ignore_keys
        appending = RowAppending(accumulator, topic, rows, partition, keyed)
        memory = None
        try:
            while (wants := appending.go_on(memory)) is not Wants.NOTHING:
                memory = None
                if wants is Wants.TURN:
                    await asyncio.sleep(0)
                elif wants is Wants.TOPIC:
                    await learn(appending.partition)
                else:
                    accumulator.hurry()
                    memory = await pool.take(appending.memory, deadline())
        except BaseException as error:
            error.sent = ColumnsAck(topic, appending.runs)  # type: ignore[attr-defined]  # documented by `send_columns`
            raise
        return ColumnsAck(topic, appending.runs)
