"""A RecordSet that dies in a garbage cycle, together with the memoryview it reads from."""

import gc
import sys

import pytest

from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.record_set import RecordSet


class Holder:
    """Something that can be part of a cycle."""


def test_a_cycle_of_a_record_set_and_its_view_is_collected_quietly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    builder = BatchBuilder(1000)
    builder.append(1, b"key", b"value", ())
    body = bytearray(builder.seal())
    for _ in range(10):
        # The collector clears in order of age: the view first, while the set still reads from it.
        view = memoryview(body)
        records = RecordSet(view, "topic", 0, 0)
        holder = Holder()
        holder.parts = [view, records, holder]  # type: ignore[attr-defined]
        del view, records, holder
    gc.collect()
    assert complaints == []
    body.append(0)  # raises BufferError if a buffer of it were still held
