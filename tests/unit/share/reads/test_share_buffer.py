"""Acquired records on their way to the application."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafka_lite.errors import CorruptRecordException
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.share.reads.share_buffer import ShareBuffer
from aiokafka_lite.share.records._share_record_python import AcquiredRange
from aiokafka_lite.share.records.offset_states import LOST
from aiokafka_lite.share.records.record_marks import Marks
from aiokafka_lite.share.share_record import AcquiredPicker

LOCK = 30.0


def acquired(count: int) -> tuple[list[Any], Marks]:
    """This many locked records."""
    builder = BatchBuilder(16_384)
    for number in range(count):
        builder.append(number, None, b"%d" % number, [])
    deadline = asyncio.get_running_loop().time() + LOCK
    marks = Marks(0, bytearray(count), deadline)
    found = RecordSet(bytes(builder.seal()), "jobs", 0, 0).read(count)
    return AcquiredPicker([AcquiredRange(0, count - 1, 1)], [marks]).pick(found), marks


async def test_an_error_behind_an_expired_record_costs_no_record_before_it() -> None:
    lost: list[int] = []
    buffer = ShareBuffer(asyncio.get_running_loop(), lost.append)
    records, marks = acquired(4)
    marks.states[2] = LOST
    error = CorruptRecordException("torn")
    buffer.add([*records[:3], error, records[3]])
    assert buffer.take_many(10) == records[:2]
    assert lost == [1]
    with pytest.raises(CorruptRecordException):
        buffer.take_many(10)
    assert buffer.take_many(10) == records[3:]
    assert buffer.take_many(10) == []


async def test_a_read_of_one_record_passes_over_expired_ones() -> None:
    lost: list[int] = []
    buffer = ShareBuffer(asyncio.get_running_loop(), lost.append)
    records, marks = acquired(4)
    marks.states[0] = marks.states[1] = LOST
    error = CorruptRecordException("torn")
    buffer.add([*records[:2], error, *records[2:]])
    with pytest.raises(CorruptRecordException):
        buffer.take()
    assert lost == [2]
    assert [buffer.take() for _ in range(3)] == [*records[2:], None]
