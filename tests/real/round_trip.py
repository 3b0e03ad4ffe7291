"""Sends, reads and compares (by hash) records with all features of Kafka.

Both packages have aiokafka's API, so the same code uses both.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tools.kafka.canonical import PartitionDigest
from tools.kafka.java import Digest

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
AT_ONCE = 20_000  # records sent before their acks are awaited

Header = tuple[str, bytes | None]
Parts = tuple[int, bytes | None, bytes | None, list[Header], int]


def records(
    count: int, partitions: int, seed: int, *, headers: bool = True, timestamps: bool = True
) -> Iterator[Parts]:
    """`count` seeded (partition, key, value, headers, timestamp ms or -1).

    Null, empty and long keys and values; repeated, null and empty headers; decreasing timestamps.
    About half of a value's bytes compress.
    """
    draw = random.Random(seed)
    noise = draw.randbytes(4096)
    for number in range(count):
        kind = draw.randrange(64)
        key = None if kind < 8 else b"" if kind == 8 else b"key-%d" % draw.randrange(1000)
        size = draw.randrange(3000) if kind == 9 else draw.randrange(120)
        value: bytes | None = noise[kind : kind + size // 2] + b"%d," % number * (size // 16)
        if kind == 10:
            value = None
        some: list[Header] = []
        if headers and kind < 16:
            some = [("trace", b"%d" % number), ("trace", None), ("\u00e9", b""), ("", b"x")][
                : kind % 5
            ]
        stamp = 1_700_000_000_000 + number * 3 - draw.randrange(10_000) if timestamps else -1
        yield number % partitions, key, value, some, stamp


async def send_all(producer: Any, topic: str, sent: Iterator[Parts]) -> dict[int, Digest]:
    """Send every record; return the digest of the acknowledged records by partition."""
    stored: dict[int, list[tuple[int, Parts]]] = defaultdict(list)

    async def settle(under_way: list[tuple[Parts, Any]]) -> None:
        for record, ack in under_way:
            done = await ack
            assert done.partition == record[0]
            assert record[4] in (-1, done.timestamp)
            stored[done.partition].append((done.offset, record))

    under_way: list[tuple[Parts, Any]] = []
    for record in sent:
        partition, key, value, headers, stamp = record
        ack = await producer.send(
            topic,
            value,
            key,
            partition=partition,
            headers=headers or None,
            timestamp_ms=None if stamp < 0 else stamp,
        )
        under_way.append((record, ack))
        if len(under_way) >= AT_ONCE:
            await settle(under_way)
            under_way = []
    await settle(under_way)
    digests = {}
    for partition, placed in sorted(stored.items()):
        digest = PartitionDigest()
        for offset, (_, key, value, headers, stamp) in sorted(placed, key=lambda one: one[0]):
            digest.add(offset, stamp, 0 if stamp >= 0 else -1, key, value, headers)
        digests[partition] = Digest(digest.count, digest.hexdigest())
    return digests


async def read_digests(
    consumer: Any, topic_partitions: list[Any], count: int, *, timestamps: bool = True
) -> dict[int, Digest]:
    """Read `count` records of the partitions from their start; return their digests.

    Without `timestamps`, timestamps count as missing, because message format 0 has none.
    """
    consumer.assign(topic_partitions)
    digests = {tp.partition: PartitionDigest() for tp in topic_partitions}
    seen = 0
    async with asyncio.timeout(60 + count / 5_000):
        while seen < count:
            for tp, batch in (await consumer.getmany(timeout_ms=1000)).items():
                add = digests[tp.partition].add
                for record in batch:
                    stamp = record.timestamp if timestamps else -1
                    kind = record.timestamp_type if timestamps else -1
                    add(record.offset, stamp, kind, record.key, record.value, record.headers)
                seen += len(batch)
    assert seen == count, f"{seen} records came, {count} were sent"
    return {p: Digest(d.count, d.hexdigest()) for p, d in digests.items() if d.count}
