"""Delivery of records to `async for`: the native module if it was compiled, otherwise its twin."""

from typing import TYPE_CHECKING

from aiokafka_lite._build import pick
from aiokafka_lite.consumer.partitions._delivery_python import Record

if TYPE_CHECKING:
    from aiokafka_lite.consumer.partitions._delivery_python import (
        EMPTY,
        Chunk,
        Delivery,
        RecordStream,
    )
else:
    _picked = pick(
        "aiokafka_lite.consumer.partitions._delivery_native",
        "aiokafka_lite.consumer.partitions._delivery_python",
    )
    EMPTY = _picked.EMPTY
    Chunk = _picked.Chunk
    Delivery = _picked.Delivery
    RecordStream = _picked.RecordStream

__all__ = ["EMPTY", "Chunk", "Delivery", "Record", "RecordStream"]
