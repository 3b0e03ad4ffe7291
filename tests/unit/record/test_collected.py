"""A RecordSet and the garbage collector: it is collected in a cycle with the memoryview it reads
from, or closed by a finalizer while it is read."""

import gc
import sys
from collections.abc import Callable

import pytest

from aiokafka_lite.record._record_set_python import RecordSet as Twin
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.columnar.columns import read_columns
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.legacy import encode_message_set
from aiokafka_lite.record.record_set import RecordSet


class Holder:
    """An object that can be part of a cycle."""


def test_cycle_of_a_record_set_and_its_view_is_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    builder = BatchBuilder(1000)
    builder.append(1, b"key", b"value", ())
    body = bytearray(builder.seal())
    for _ in range(10):
        # The collector clears the oldest object first: the view, while the set still reads from it.
        view = memoryview(body)
        records = RecordSet(view, "topic", 0, 0)
        holder = Holder()
        holder.parts = [view, records, holder]  # type: ignore[attr-defined]
        del view, records, holder
    gc.collect()
    assert complaints == []
    body.append(0)  # raises BufferError if a buffer of it were still held


def new_batch(codec: Compression) -> bytes:
    builder = BatchBuilder(10_000)
    for index in range(20):
        builder.append(1, b"key", b"%d" % index, [("name", b"value")] * (index % 2))
    return bytes(builder.seal(codec))


OLD = bytes(encode_message_set([(1, b"key", b"%d" % i) for i in range(20)], 1))


@pytest.mark.skipif(RecordSet is Twin, reason="the twin cannot crash: it raises")
@pytest.mark.parametrize("read", [RecordSet.read, read_columns])
@pytest.mark.parametrize(
    "data", [OLD, new_batch(Compression.NONE), new_batch(Compression.GZIP)], ids=["v1", "v2", "gz"]
)
def test_finalizer_may_close_a_record_set_at_any_time(
    data: bytes, read: Callable[[RecordSet, int], object]
) -> None:
    """The test passes if nothing crashes."""
    thresholds = gc.get_threshold()
    for moment in range(30):
        body = bytearray(data)
        records = RecordSet(memoryview(body), "topic", 0, 0)
        left = [moment]

        def collected(
            phase: str, _: object, records: RecordSet = records, left: list[int] = left
        ) -> None:
            left[0] -= phase == "start"
            if left[0] < 0:
                records.close()

        gc.callbacks.append(collected)
        gc.set_threshold(1, 1, 1)
        try:
            read(records, 15)
            read(records, 15)
        finally:
            gc.set_threshold(*thresholds)
            gc.callbacks.remove(collected)
        records.close()
        body.append(0)  # raises BufferError if a buffer of it were still held
