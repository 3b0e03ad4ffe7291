"""Records and batches for the consumer's tests, and functions that store them in the broker."""

import asyncio
from collections.abc import Callable, Sequence

import crc32c

from aiokafka_lite.consumer.consumer_options import ConsumerOptions, IsolationLevel, OffsetReset
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, rebase
from aiokafka_lite.testing import FakeCluster

_ATTRIBUTES_AT = 21
_CRC_AT = 17
_CONTROL = 0x20

SESSION_OPTIONS = ConsumerOptions(
    key_deserializer=None,
    value_deserializer=None,
    fetch_max_wait=0.5,
    fetch_max_bytes=1000,
    fetch_min_bytes=7,
    max_partition_fetch_bytes=100,
    request_timeout=40.0,
    retry_backoff=0.1,
    auto_offset_reset=OffsetReset.LATEST,
    check_crcs=True,
    quiet_partition_wait=0.2,
    max_poll_records=None,
    exclude_internal_topics=True,
    isolation_level=IsolationLevel.READ_COMMITTED,
    client_rack="r1",
    buffer_memory=1000,
)


def batch(
    values: Sequence[bytes | None],
    base_offset: int = 0,
    *,
    timestamp: int = 1000,
    compression: Compression = Compression.NONE,
) -> bytearray:
    """A v2 batch; the timestamp grows by one per record."""
    builder = BatchBuilder(16 * 1024 * 1024)
    for i, value in enumerate(values):
        builder.append(timestamp + i, b"k%d" % i, value, ())
    sealed = bytearray(builder.seal(compression))
    rebase(memoryview(sealed), 0, base_offset, 0)
    return sealed


def control_batch(base_offset: int = 0) -> bytearray:
    """An abort marker, as a transaction writes it."""
    builder = BatchBuilder(1024)
    builder.append(1000, b"\0\0\0\0", b"\0\0\0\0\0\0", ())
    sealed = bytearray(
        builder.seal(producer_id=1, producer_epoch=0, base_sequence=-1, transactional=True)
    )
    sealed[_ATTRIBUTES_AT + 1] |= _CONTROL
    sealed[_CRC_AT : _CRC_AT + 4] = crc32c.crc32c(bytes(sealed[_ATTRIBUTES_AT:])).to_bytes(4)
    rebase(memoryview(sealed), 0, base_offset, 0)
    return sealed


def append_batch(cluster: FakeCluster, data: bytearray, topic: str, partition: int) -> None:
    """Append a batch to a partition's log, unchanged."""
    view = memoryview(data)
    where = cluster.partition(topic, partition)
    where.log.append(view, BatchHeader.read(view, 0), where.leader_epoch)
    where.watchers.notify()


def append(
    cluster: FakeCluster,
    values: Sequence[bytes | None],
    partition: int = 0,
    topic: str = "orders",
    **options: int,
) -> None:
    """Append records to a partition's log, in one batch."""
    append_batch(cluster, batch(values, **options), topic, partition)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"v%d" % i for i in range(start, start + count)]


async def until(condition: Callable[[], bool]) -> None:
    """Poll until a condition is true."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.002)
