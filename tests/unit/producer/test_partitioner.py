"""aiokafka's import path of the default partitioner."""

from collections import Counter

import pytest

from aiokafka_lite.partitioner import DefaultPartitioner, RoundRobinPartitioner, murmur2


@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        # org.apache.kafka.common.utils.UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_java_s(key: bytes, hash_: int) -> None:
    assert murmur2(key) == hash_ & 0xFFFFFFFF
    chosen = DefaultPartitioner()(key, [0, 1, 2, 3, 4], [])
    assert chosen == (hash_ & 0x7FFFFFFF) % 5


def test_without_a_key_any_partition_with_a_leader() -> None:
    chosen = Counter(DefaultPartitioner()(None, [0, 1, 2], [1, 2]) for _ in range(200))
    assert set(chosen) == {1, 2}
    assert DefaultPartitioner()(None, [0], []) == 0


def test_round_robin_gives_each_partition_the_same() -> None:
    partitioner = RoundRobinPartitioner()
    assert [partitioner(b"same", [0, 1, 2], [0, 2]) for _ in range(4)] == [0, 2, 0, 2]
    assert [partitioner(None, [0, 1, 2], []) for _ in range(3)] == [1, 2, 0]
