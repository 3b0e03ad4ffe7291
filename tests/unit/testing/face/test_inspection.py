"""Records are written and inspected without a client."""

import pytest

from aiokafka_lite.errors import MessageSizeTooLargeError
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.murmur2 import murmur2
from aiokafka_lite.testing import FakeCluster, VirtualClock


async def test_produced_records_are_returned() -> None:
    clock = VirtualClock()
    async with FakeCluster(topics={"orders": 3, "other": 1}, clock=clock) as cluster:
        assert cluster.produce("orders", b"one", partition=2) == 0
        assert cluster.produce("orders", b"two", partition=2, headers=[("h", b"x")]) == 1
        assert cluster.produce("orders", None, b"gone", compression=Compression.GZIP) == 0
        assert cluster.produce("other", b"zero", timestamp_ms=5) == 0
        of_key = (murmur2(b"gone") & 0x7FFFFFFF) % 3
        assert of_key == 1
        found = cluster.records("orders")
        assert [
            (record.partition, record.offset, record.key, record.value) for record in found
        ] == [
            (of_key, 0, b"gone", None),
            (2, 0, None, b"one"),
            (2, 1, None, b"two"),
        ]
        assert {record.timestamp for record in found} == {clock.now_ms()}
        assert list(found[2].headers) == [("h", b"x")]
        assert [record.timestamp for record in cluster.records("other")] == [5]
        assert cluster.records("orders", 0) == []
        cluster.delete_records("orders", 2, before=1)
        assert [record.value for record in cluster.records("orders", 2)] == [b"two"]


async def test_more_records_than_one_segment_holds() -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        for number in range(500):
            cluster.produce("orders", b"%0100d" % number)
        assert [int(record.value or b"") for record in cluster.records("orders")] == [*range(500)]


async def test_unknown_topics_and_partitions_are_errors() -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        cluster.create_topic("small", configs={"max.message.bytes": "100"})
        with pytest.raises(MessageSizeTooLargeError):
            cluster.produce("small", bytes(100))
        with pytest.raises(
            ValueError, match="topic 'order' does not exist; existing topics: orders, small"
        ):
            cluster.produce("order", b"x")
        with pytest.raises(
            ValueError, match="topic 'orders' has no partition 1; it has 1 in total"
        ):
            cluster.produce("orders", b"x", partition=1)
        with pytest.raises(ValueError, match="does not exist"):
            cluster.records("order")
