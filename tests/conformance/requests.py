"""Requests and batches that several scenarios send."""

import time
from typing import Final

from aiokafka_lite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.record.header import BatchHeader, write_crc
from tests.unit.testing.raw import make_batch

__all__ = ["GOOD", "NOW", "changed", "fetch", "idempotent", "produce"]

NOW: Final = time.time_ns() // 1_000_000
GOOD: Final = make_batch((NOW, b"k", b"v"), (NOW + 5, None, b"w"))


def produce(topic: str, *records: bytes, acks: int = -1) -> ProduceRequest:
    """A batch, or bytes in its place, for each partition from 0 on.

    A broker waits for replicas longer than one of them may pause.
    """
    data = [PartitionProduceData(index, batch) for index, batch in enumerate(records)]
    return ProduceRequest(
        acks=acks, timeout_ms=20_000, topic_data=[TopicProduceData(topic, partition_data=data)]
    )


def fetch(
    topic: str,
    *offsets: int,
    limit: int = 2**20,
    epoch: int = -1,
    fetched_epoch: int = -1,
    session: tuple[int, int] = (0, -1),
    max_bytes: int = 2**31 - 1,
    isolation: int = 0,
) -> FetchRequest:
    """From an offset in each partition from 0 on, without waiting."""
    wanted = [
        FetchPartition(index, epoch, offset, fetched_epoch, partition_max_bytes=limit)
        for index, offset in enumerate(offsets)
    ]
    return FetchRequest(
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic, partitions=wanted)],
    )


def changed(**fields: int) -> bytes:
    """A valid batch with other header fields and a correct checksum."""
    batch = bytearray(GOOD)
    BatchHeader.read(batch)._replace(**fields).write(batch)
    write_crc(batch, 0, len(batch))
    return bytes(batch)


def idempotent(sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    """A batch of producer 1000."""
    records = [(NOW, b"k", b"v")] * count
    return make_batch(*records, producer_id=1000, producer_epoch=epoch, base_sequence=sequence)
