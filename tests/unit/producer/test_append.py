"""Choosing a partition and appending, with only the core, in both builds."""

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.murmur2 import murmur2
from aiokafka_lite.record.record_set import RecordSet

pytestmark = pytest.mark.unhurried


@pytest.fixture
def make_core(room: dict[str, ModuleType]) -> Callable[..., Any]:
    """Makes cores whose batches hold 200 bytes each, as long as `core.memory` lasts."""
    accumulator = room["accumulator"]

    class Core(accumulator.AppendCore):  # type: ignore[misc, name-defined]  # chosen at run time
        memory = 1000

        def next_sticky(self, topic_queues: Any) -> Any:
            return topic_queues.move_on()

        def close_batch(self, queue: Any) -> None:
            queue.open = None

        def open_batch(self, queue: Any, timestamp: int, key: Any, value: Any, headers: Any) -> Any:
            if not self.memory:
                return None
            batch = accumulator.ProducerBatch(
                self.loop, queue.topic_partition, BatchBuilder(200), None, 0.0
            )
            ack = batch.append(timestamp, key, value, headers)
            self.memory -= 1
            queue.open = batch
            queue.waiting.append(batch)
            return ack

    def make(partitions: int = 4, available: list[int] | None = None, **options: Any) -> Any:
        names = ("key_serializer", "value_serializer", "partitioner")
        keys = options.get("ignore_keys", False)
        core = Core(asyncio.get_running_loop(), *(options.get(name) for name in names), keys)
        topic = accumulator.TopicQueues("orders", partitions, 0)
        topic.available = list(range(partitions)) if available is None else available
        core.topics["orders"] = topic
        core.Blocked, core.Ack = accumulator.Blocked, accumulator.Ack
        return core

    return make


def counts(core: Any) -> list[int]:
    return [sum(batch.count for batch in queue.waiting) for queue in core.topics["orders"].queues]


async def test_a_key_goes_where_java_sends_it(make_core: Any) -> None:
    for key in (b"", b"a", b"ab", b"abc", b"abcd", bytearray(b"abcde"), memoryview(b"\xff" * 9)):
        core = make_core(7)
        core.append("orders", b"v", key, None, None, None)
        assert counts(core).index(1) == (murmur2(bytes(key)) & 0x7FFFFFFF) % 7


async def test_keys_can_be_ignored(make_core: Any) -> None:
    core = make_core(4, ignore_keys=True)
    for key in (b"a", b"b", None, b"c"):
        core.append("orders", b"v", key, None, 1, None)
    (batch,) = [queue.waiting[0] for queue in core.topics["orders"].queues if queue.waiting]
    data = bytes(batch.builder.seal())
    assert [record.key for record in RecordSet(data, "t", 0, 0).read(9)] == [b"a", b"b", None, b"c"]


async def test_the_partition_of_a_key_does_not_depend_on_leaders(make_core: Any) -> None:
    core = make_core(4, available=[])
    core.append("orders", b"v", b"abc", None, None, None)
    assert counts(core).index(1) == (murmur2(b"abc") & 0x7FFFFFFF) % 4


async def test_keyless_records_fill_one_batch_then_move_on(make_core: Any) -> None:
    core = make_core(4, available=[0, 2])
    for _ in range(6):
        core.append("orders", b"x" * 100, None, None, 1, None)
    assert sorted(counts(core)) == [0, 0, 3, 3]
    assert counts(core)[1] == counts(core)[3] == 0, "they have no leader"


async def test_without_any_leader_they_still_have_somewhere_to_wait(make_core: Any) -> None:
    core = make_core(4, available=[])
    core.append("orders", b"x", None, None, 1, None)
    assert sum(counts(core)) == 1


async def test_a_batch_that_was_taken_away_is_completed_too(make_core: Any) -> None:
    core = make_core(2)
    core.append("orders", b"x", None, None, 1, None)
    first = counts(core).index(1)
    core.topics["orders"].queues[first].open = None  # the sender took it
    core.append("orders", b"x", None, None, 1, None)
    assert counts(core) == [1, 1]


async def test_an_unknown_topic_or_partition_blocks(make_core: Any) -> None:
    core = make_core(2)
    blocked = core.append("other", b"v", b"k", None, 5, [("a", b"b")])
    assert type(blocked) is core.Blocked
    assert (blocked.topic, blocked.queue, blocked.partition) == ("other", None, None)
    assert (blocked.key, blocked.value, blocked.timestamp) == (b"k", b"v", 5)
    blocked = core.append("orders", b"v", None, 2, None, None)
    assert (blocked.queue, blocked.partition) == (None, 2)


async def test_without_memory_a_record_blocks_and_tries_again(make_core: Any) -> None:
    serialized = []

    def serialize(value: bytes) -> bytes:
        serialized.append(value)
        return value * 2

    core = make_core(2, value_serializer=serialize)
    core.memory = 0
    blocked = core.append("orders", b"v", None, None, 5, None)
    assert type(blocked) is core.Blocked
    assert blocked.queue is not None
    assert blocked.partition is None, "a keyless record chooses again"
    core.memory = 1
    again = (blocked.topic, blocked.partition, blocked.timestamp)
    ack = core.append_serialized(*again, blocked.key, blocked.value, blocked.headers)
    assert type(ack) is core.Ack
    assert serialized == [b"v"]


@pytest.mark.parametrize(
    "arguments",
    [
        (b"orders", b"v", None, None, None, None),
        (None, b"v", None, None, None, None),
        ("orders", "v", None, None, None, None),
        ("orders", b"v", "k", None, None, None),
        ("orders", b"v", None, "0", None, None),
        ("orders", b"v", None, 1.0, None, None),
        ("orders", b"v", None, None, "0", None),
        ("orders", b"v", None, None, None, [("a", "b")]),
    ],
)
async def test_wrong_types_change_nothing(make_core: Any, arguments: Any) -> None:
    core = make_core(2)
    with pytest.raises(TypeError):
        core.append(*arguments)
    assert counts(core) == [0, 0]


async def test_wrong_values_change_nothing(make_core: Any) -> None:
    core = make_core(2, partitioner=lambda *_: 2)
    for arguments in (
        ("orders", b"v", None, -1, None, None),
        ("orders", b"v", None, 0, -5, None),
        ("orders", b"v", None, None, None, None),
    ):
        with pytest.raises(ValueError):
            core.append(*arguments)
    assert counts(core) == [0, 0]


async def test_a_partitioner_gets_copies_of_the_partition_lists(make_core: Any) -> None:
    def greedy(key: Any, everyone: list[int], available: list[int]) -> int:
        everyone.clear()
        return available.pop()

    core = make_core(3, partitioner=greedy)
    for _ in range(3):
        core.append("orders", b"v", None, None, None, None)
    assert counts(core) == [0, 0, 3]
    assert core.topics["orders"].available == [0, 1, 2]


async def test_a_refusal_is_raised_to_all(make_core: Any) -> None:
    core = make_core(2)
    core.refusal = RuntimeError("closed")
    with pytest.raises(RuntimeError, match="closed"):
        core.append("orders", b"v", None, None, None, None)


async def test_new_partitions_keep_the_existing_queues(make_core: Any) -> None:
    core = make_core(2)
    topic = core.topics["orders"]
    before = list(topic.queues)
    topic.grow(5)
    assert topic.queues[:2] == before
    assert [queue.topic_partition.partition for queue in topic.queues] == [0, 1, 2, 3, 4]
    topic.grow(3)
    assert len(topic.queues) == 5


@pytest.mark.parametrize("number", [-1, -(2**31), 2, 2**31 - 1])
async def test_an_available_partition_that_is_not_there_is_refused(
    make_core: Any, number: int
) -> None:
    core = make_core(2, available=[number])
    with pytest.raises(IndexError, match=f"no partition {number}"):
        core.topics["orders"].move_on()
