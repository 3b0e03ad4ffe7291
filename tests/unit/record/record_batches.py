"""Builds batches with the twin, places them in a log, and changes single fields."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from aiokafka_lite.record._batch_python import BatchBuilder
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, rebase, write_crc

Headers = Sequence[tuple[str, bytes | None]]
Fields = tuple[int, bytes | None, bytes | None, Headers]  # timestamp, key, value, headers

T0 = 1_700_000_000_000  # ms


def peer(module: str) -> Any:
    """A module of aiokafka's codec; skips the test if the interop extra is not installed."""
    return pytest.importorskip(f"aiokafka.record.{module}")


def simple(count: int, *, size: int = 10) -> list[Fields]:
    return [(T0 + i, b"k%d" % i, b"v" * size, ()) for i in range(count)]


def batch(
    records: Iterable[Fields],
    base_offset: int = 0,
    codec: Compression = Compression.NONE,
    **sealing: object,
) -> bytearray:
    """One v2 batch as stored in a log at `base_offset`."""
    builder = BatchBuilder(16 * 1024 * 1024)
    for record in records:
        builder.append(*record)
    data = bytearray(builder.seal(codec, **sealing))
    rebase(data, 0, base_offset, 7)
    return data


def patched(data: bytes | bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and a correct CRC."""
    out = bytearray(data)
    BatchHeader.read(out)._replace(**fields).write(out)
    write_crc(out, 0, len(out))
    return out


def control(base_offset: int, producer_id: int, *, commit: bool) -> bytearray:
    """A transaction marker, as the coordinator writes it."""
    key = bytes([0, 0, 0, 1 if commit else 0])
    data = batch(
        [(T0, key, b"\x00\x00\x00\x00\x00\x00", ())],
        base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
    )
    return patched(data, attributes=BatchHeader.read(data).attributes | 0x20)


def with_records(payload: bytes, count: int, **fields: int) -> bytearray:
    """A batch with these raw bytes as records and a correct CRC."""
    data = bytearray(batch(simple(1))[:61])
    data += payload
    changes = {"batch_length": len(data) - 12, "record_count": count, "last_offset_delta": 1000}
    return patched(data, **{**changes, **fields})


def rows(columns):
    """The columns as (offset, timestamp, type, key, value, headers) tuples."""
    data = bytes(columns.data)
    offsets = memoryview(columns.offsets).cast("q")
    timestamps = memoryview(columns.timestamps).cast("q")
    kinds = memoryview(columns.timestamp_types).cast("b")
    spans = [
        (memoryview(starts).cast("i"), memoryview(lengths).cast("i"))
        for starts, lengths in (
            (columns.key_starts, columns.key_lengths),
            (columns.value_starts, columns.value_lengths),
        )
    ]
    for column in (offsets, timestamps, kinds, *spans[0], *spans[1]):
        assert len(column) == columns.count
    out = []
    for i in range(columns.count):
        key, value = (
            None if lengths[i] < 0 else data[starts[i] : starts[i] + lengths[i]]
            for starts, lengths in spans
        )
        headers = columns.headers.get(i, ())
        out.append((offsets[i], timestamps[i], kinds[i], key, value, headers))
    return out
