"""Control batches that end a transaction: a single record whose key is COMMIT or ABORT.

Source: Kafka's `EndTransactionMarker` and `ControlRecordType`.
"""

from struct import Struct
from typing import Final

from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import ATTRIBUTES_AT, CONTROL, write_crc
from aiokafka_lite.testing.log.conversion import records_of
from aiokafka_lite.testing.log.open_transactions import EndMarker

__all__ = ["marker_batch", "read_marker"]

KEY: Final = Struct(">hh")  # version, type
VALUE: Final = Struct(">hi")  # version, coordinator epoch
VERSION: Final = 0
ABORT: Final = 0
COMMIT: Final = 1
LARGEST_MARKER: Final = 256  # bytes; a marker is 78

_ATTRIBUTES: Final = Struct(">h")


def marker_batch(
    producer_id: int, producer_epoch: int, marker: EndMarker, timestamp_ms: int
) -> memoryview:
    """Return the marker batch that a coordinator makes a partition's leader append."""
    builder = BatchBuilder(LARGEST_MARKER)
    key = KEY.pack(VERSION, COMMIT if marker.committed else ABORT)
    builder.append(timestamp_ms, key, VALUE.pack(VERSION, marker.coordinator_epoch), ())
    batch = bytearray(
        builder.seal(
            Compression.NONE,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=-1,
            transactional=True,
        )
    )
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes | CONTROL)
    write_crc(batch, 0, len(batch))
    return memoryview(batch)


def read_marker(batch: memoryview) -> EndMarker | None:
    """Read the marker of a control batch; None if it is empty or of another type."""
    plain = bytearray(batch)  # record readers skip control batches
    (attributes,) = _ATTRIBUTES.unpack_from(plain, ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(plain, ATTRIBUTES_AT, attributes & ~CONTROL)
    write_crc(plain, 0, len(plain))
    for record in records_of(plain, 0):
        if record.key is None or record.value is None:
            return None
        _, kind = KEY.unpack_from(record.key)
        if kind not in (ABORT, COMMIT):
            return None
        _, coordinator_epoch = VALUE.unpack_from(record.value)
        return EndMarker(kind == COMMIT, coordinator_epoch)
    return None
