"""Where consecutive records of one batch were stored."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from aiokafka_lite.structs import StoredRun

if TYPE_CHECKING:
    from aiokafka_lite.producer.batching.accumulator import ProducerBatch

__all__ = ["stored_runs"]


def stored_runs(batch: ProducerBatch, index: int, count: int) -> list[StoredRun]:
    """Return the places of records of a resolved batch: one, or several if it was split.

    Args:
        batch: The batch.
        index: The first record's index in it.
        count: Number of records.

    Raises:
        KafkaError: The batch, or a piece of it with one of the records, failed.
    """
    pieces = batch.pieces
    if pieces is None:
        metadata = batch.ack(index, -1).result()  # raises the batch's error
        offset = -1 if metadata is None else metadata.offset  # None: acks=0
        return [StoredRun(batch.topic_partition.partition, offset, count)]
    found = []
    start = 0
    for piece in pieces:
        first, last = max(start, index), min(piece.end, index + count)
        if first < last:
            if piece.error is not None:
                raise copy.copy(piece.error)
            base = piece.base_offset
            offset = base + first - start if base >= 0 else -1
            found.append(StoredRun(batch.topic_partition.partition, offset, last - first))
        start = piece.end
    return found
