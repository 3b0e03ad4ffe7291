"""Which batches are due or may be sent, and in which order: the accumulator, in both builds."""

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite.cluster.metadata import Partition
from aiokafka_lite.errors import KafkaTimeoutError, MessageSizeTooLargeError
from aiokafka_lite.record.header import BatchHeader

OPTIONS: dict[str, Any] = {
    "acks": "all",
    "enable_idempotence": None,
    "linger_ms": 0,
    "max_batch_size": 300,
    "max_request_size": 2000,
    "request_timeout_ms": 1000,
    "delivery_timeout_ms": 30_000,
    "max_block_ms": 1000,
    "buffer_memory": 3000,
    "max_in_flight_requests_per_connection": 5,
    "retry_backoff_ms": 10,
    "compression_type": None,
    "compression_level": None,
    "key_serializer": None,
    "value_serializer": None,
    "partitioner": None,
    "partitioner_ignore_keys": False,
    "partitioner_adaptive_partitioning_enable": True,
    "partitioner_availability_timeout_ms": 0,
    "partitioner_rack_aware": False,
    "client_rack": None,
}


class Bench:
    """An accumulator with two partitions, its pool, and its callbacks' calls."""

    def __init__(self, room: dict[str, ModuleType], **changes: Any) -> None:
        options = room["producer_options"].ProducerOptions(**{**OPTIONS, **changes})
        self.options = options
        self.pool = room["buffer_memory"].MemoryPool(
            options.buffer_memory, options.max_batch_size, str
        )
        self.identity = room["idempotence"].ProducerIdentity(options.idempotent)
        self.identity.on_assigned(7, 0)
        self.ready: list[Any] = []
        self.lingering: list[float] = []
        self.held = 0
        self.accumulator = room["accumulator"].Accumulator(
            asyncio.get_running_loop(),
            options,
            self.pool,
            self.identity,
            self.ready.append,
            self.ready.append,
            self.lingering.append,
            self._on_held,
        )
        topic = self.accumulator.adopt("t", {n: Partition(n, leader=0) for n in range(2)})
        self.queue, self.other = topic.queues

    def _on_held(self) -> None:
        self.held += 1

    def send(self, size: int = 10, partition: int = 0) -> Any:
        return self.accumulator.append("t", b"x" * size, None, partition, 1, None)

    def dispatch(self) -> Any:
        """Do what an outbox does with the first batch, if it may."""
        if not self.accumulator.sendable(self.queue, self.now):
            return None
        self.accumulator.seal(self.queue)
        return self.accumulator.take(self.queue)

    def come_back(self, batch: Any) -> None:
        self.accumulator.land(self.queue, batch)
        self.accumulator.put_back(self.queue, batch)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()


@pytest.fixture
def bench(room: dict[str, ModuleType]) -> Callable[..., Bench]:
    return lambda **changes: Bench(room, **changes)


async def test_without_linger_a_batch_is_ready_with_its_first_record(bench: Any) -> None:
    it = bench()
    it.send()
    assert it.ready == [it.queue]
    assert it.accumulator.sendable(it.queue, it.now)
    it.send()
    assert it.ready == [it.queue], "told once a batch"
    assert it.dispatch().count == 2


async def test_a_lingering_batch_is_not_sendable_before_its_time(bench: Any) -> None:
    it = bench(linger_ms=5000)
    it.send()
    (due_at,) = it.lingering
    assert it.ready == []
    assert not it.accumulator.sendable(it.queue, it.now)
    assert it.accumulator.on_lingered(due_at - 1) == due_at
    assert not it.accumulator.sendable(it.queue, it.now)
    assert it.accumulator.on_lingered(due_at) is None
    assert it.ready == [it.queue]
    assert it.accumulator.sendable(it.queue, it.now)


async def test_a_full_batch_does_not_linger(bench: Any) -> None:
    it = bench(linger_ms=5000)
    it.send(150)
    it.send(150)
    assert it.queue in it.ready
    assert it.dispatch() is not None
    assert it.dispatch() is None, "the second one lingers"


async def test_no_batch_lingers_while_a_send_waits_for_memory(bench: Any) -> None:
    it = bench(linger_ms=5000, buffer_memory=600)
    it.send(200)
    it.send(200, partition=1)
    blocked = it.send(200)
    assert blocked.queue is it.queue
    assert not it.accumulator.sendable(it.other, it.now)
    it.accumulator.hurry()
    assert it.accumulator.sendable(it.queue, it.now)
    assert it.accumulator.sendable(it.other, it.now)


async def test_memory_for_a_blocked_record_is_given_back_if_not_needed(bench: Any) -> None:
    it = bench()
    memory = it.pool.try_take(it.pool.poolable_size)
    it.send(10)
    used = it.pool.used
    blocked = it.accumulator.append("unknown", b"x", None, 0, 1, None)
    again = it.accumulator.append_again(blocked, memory)
    assert again.queue is None, "still unknown"
    assert it.pool.used == used - it.pool.poolable_size


async def test_a_record_that_never_fits_is_refused(bench: Any) -> None:
    it = bench()
    with pytest.raises(MessageSizeTooLargeError, match="max_request_size"):
        it.send(2000)
    it = bench(max_request_size=100_000)
    with pytest.raises(MessageSizeTooLargeError, match="buffer_memory"):
        it.send(5000)
    assert it.pool.used == 0
    assert not it.accumulator.active


async def test_batches_are_numbered_in_order_and_only_once(bench: Any) -> None:
    it = bench()
    for _ in range(6):
        it.send(100)
    first = it.dispatch()
    assert it.dispatch() is None, "one at a time until the broker knows the producer"
    it.queue.sequences.on_stored((7, 0), 0)
    second = it.dispatch()
    headers = [BatchHeader.read(batch.payload) for batch in (first, second)]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [
        (7, 0, 0),
        (7, 0, 2),
    ]
    it.come_back(first)
    it.come_back(second)
    assert it.dispatch() is first
    assert BatchHeader.read(first.payload) == headers[0]
    assert it.dispatch() is None, "what is sent again goes alone"


async def test_a_new_epoch_renumbers_waiting_batches(bench: Any) -> None:
    it = bench()
    for _ in range(4):
        it.send(100)
    first = it.dispatch()
    it.queue.sequences.on_stored((7, 0), 0)
    second = it.dispatch()
    it.queue.sequences.on_refused()
    it.come_back(first)
    assert it.dispatch() is None, "the other is still in flight"
    it.come_back(second)
    for expected, batch in ((0, first), (2, second)):
        assert it.dispatch() is batch
        header = BatchHeader.read(batch.payload)
        assert (header.producer_epoch, header.base_sequence) == (1, expected)
        it.accumulator.land(it.queue, batch)


async def test_put_back_batches_keep_their_order_before_fresh_ones(bench: Any) -> None:
    it = bench()
    for _ in range(8):
        it.send(150)
    batches = [it.dispatch()]
    it.queue.sequences.on_stored((7, 0), 0)
    batches += [it.dispatch() for _ in range(3)]
    fresh = list(it.queue.waiting)
    for batch in batches:
        it.come_back(batch)
    assert list(it.queue.waiting) == batches + fresh


@pytest.mark.parametrize(("acks", "window"), [("all", 1), (1, 1), (0, 5)])
async def test_without_numbers_one_is_in_flight_but_where_nothing_is_sent_again(
    bench: Any, acks: Any, window: int
) -> None:
    it = bench(acks=acks, enable_idempotence=False)
    for _ in range(8):
        it.send(150)
    taken = [batch for batch in (it.dispatch() for _ in range(8)) if batch is not None]
    assert len(taken) == window


async def test_nothing_is_sent_before_there_is_a_producer_id(bench: Any) -> None:
    it = bench()
    it.send()
    it.identity.renew()
    assert it.dispatch() is None
    it.identity.on_assigned(8, 0)
    assert it.dispatch().producer == (8, 0)


async def test_a_muted_partition_waits(bench: Any) -> None:
    it = bench()
    it.send()
    it.queue.muted_until = it.now + 10
    assert it.dispatch() is None
    assert it.accumulator.sendable(it.queue, it.queue.muted_until)


async def test_a_timer_is_requested_whenever_a_batch_is_held_without_one(bench: Any) -> None:
    it = bench(linger_ms=5000)
    assert it.held == 0
    it.send()
    it.send(partition=1)
    assert it.held == 1, "once, even though the batches linger"
    assert it.accumulator.watched
    it.accumulator.on_lingered(it.now + 10)
    batch = it.dispatch()
    it.accumulator.land(it.queue, batch)
    it.accumulator.fail(it.other, it.other.waiting[0], KafkaTimeoutError())
    assert not it.accumulator.active
    it.accumulator.watched = False  # as its timer does now
    it.accumulator.put_back(it.queue, batch)
    assert it.held == 2
    it.accumulator.land(it.queue, it.dispatch())
    it.accumulator.watched = False
    it.queue.listed = True  # as in the outbox of a broker that cannot be reached
    it.send()
    assert it.held == 3


async def test_an_open_batch_takes_no_records_after_half_of_its_time(bench: Any) -> None:
    it = bench(delivery_timeout_ms=10_000)
    it.send()
    old = it.queue.open
    it.accumulator.close_old(it.now + 4.9)
    assert it.queue.open is old
    it.accumulator.close_old(it.now + 5.1)
    assert it.queue.open is None
    it.send()
    young = it.queue.open
    assert list(it.queue.waiting) == [old, young], "in order"
    assert it.dispatch() is old
    assert old.count == 1


@pytest.mark.parametrize(
    "options", [{"linger_ms": 8000}, {"buffer_memory": 500}], ids=["lingering", "memory is short"]
)
async def test_an_open_batch_stays_open(bench: Any, options: dict[str, Any]) -> None:
    it = bench(delivery_timeout_ms=10_000, **options)
    it.send()
    batch = it.queue.open
    it.accumulator.close_old(it.now + 6)
    assert it.queue.open is batch


async def test_overdue_batches_are_found_oldest_first(bench: Any) -> None:
    it = bench()
    for _ in range(4):
        it.send(150)
    flying = it.dispatch()
    assert it.accumulator.overdue(it.now) == []
    late = it.accumulator.overdue(it.now + 30)
    assert late[0][1] is flying
    assert len(late) == 4
    for queue, batch in late:
        it.accumulator.fail(queue, batch, KafkaTimeoutError("late"))
    assert it.pool.used == 0
    assert it.accumulator.active == {it.queue}, "one is still in flight"
    assert it.accumulator.overdue(it.now + 30) == []
    it.accumulator.land(it.queue, flying)
    assert not it.accumulator.active


async def test_topics_are_added_grow_and_are_forgotten(bench: Any) -> None:
    it = bench()
    topic = it.accumulator.adopt("t", {n: Partition(n, leader=n - 1) for n in range(4)})
    assert topic.queues[0] is it.queue
    assert len(topic.queues) == 4
    assert topic.available == [1, 2, 3]
    it.send()
    it.accumulator.forget("t")
    assert "t" in it.accumulator.topics, "something is queued for it"
    batch = it.dispatch()
    it.accumulator.land(it.queue, batch)
    it.accumulator.acknowledge(it.queue, batch, 0, -1, 0)
    again = it.accumulator.adopt("t", {0: Partition(0, leader=1)})
    assert len(again.queues) == 1, "made again with fewer partitions"
    grown = it.accumulator.adopt("t", {n: Partition(n, leader=1) for n in range(4)})
    while grown.move_on() is not grown.queues[3]:
        pass
    it.send(partition=3)
    shrunk = it.accumulator.adopt("t", {n: Partition(n, leader=1) for n in range(2)})
    assert shrunk is grown, "something is queued for it"
    assert shrunk.sticky in shrunk.queues[:2]
    it.accumulator.fail(shrunk.queues[3], shrunk.queues[3].waiting[0], KafkaTimeoutError())
    it.accumulator.forget("t")
    assert not it.accumulator.topics


@pytest.mark.parametrize("partitioned", [False, True])
async def test_no_record_is_put_into_a_removed_partition(bench: Any, partitioned: bool) -> None:
    offered: list[list[int]] = []

    def choose(key: bytes, everyone: list[int], available: list[int]) -> int:
        offered.append(everyone)
        return everyone[-1]

    it = bench(partitioner=choose if partitioned else None, buffer_memory=30_000)
    it.accumulator.adopt("t", {n: Partition(n, leader=1) for n in range(8)})
    it.send(partition=7)
    topic = it.accumulator.adopt("t", {n: Partition(n, leader=-1) for n in range(2)})
    assert len(topic.queues) == 8, "something is queued for it"
    for number in range(20):
        it.accumulator.append("t", b"v", b"%d" % number, None, None, None)
        it.accumulator.append("t", bytes(200), None, None, None, None)
    assert [len(queue.waiting) for queue in topic.queues[2:]] == [0, 0, 0, 0, 0, 1]
    assert offered == ([[0, 1]] * 40 if partitioned else [])
    topic = it.accumulator.adopt("t", {n: Partition(n, leader=1) for n in range(8)})
    for number in range(50):
        it.accumulator.append("t", b"v", b"%d" % number, None, None, None)
    assert topic.queues[7].waiting[-1].count > 1, "the topic has it again"


async def test_batches_with_equal_timestamps_are_put_back_in_order(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    tick = loop.time()
    monkeypatch.setattr(loop, "time", lambda: tick)  # as uvloop's, within a millisecond
    it = bench()
    for _ in range(3):
        it.send(200)
    first, second, third = it.queue.waiting
    it.come_back(it.dispatch())
    it.queue.sequences.on_stored(first.producer, first.base_sequence)
    in_flight = it.accumulator.take(it.queue), *(it.accumulator.take(it.queue) for _ in range(2))
    for batch in in_flight:
        it.come_back(batch)
    assert list(it.queue.waiting) == [first, second, third]
    it.come_back(it.accumulator.take(it.queue))
    assert list(it.queue.waiting) == [first, second, third]


async def test_an_overdue_batch_is_seen_behind_a_younger_one_in_flight(bench: Any) -> None:
    it = bench()
    it.send(200)
    it.send(200)
    old = it.accumulator.take(it.queue)
    young = it.accumulator.take(it.queue)
    it.come_back(old)
    now = (old.created + young.created) / 2 + it.options.delivery_timeout
    assert [batch for _, batch in it.accumulator.overdue(now)] == [old]


async def test_sequence_numbers_continue_after_a_topic_was_forgotten(bench: Any) -> None:
    it = bench()
    it.send()
    batch = it.dispatch()
    it.accumulator.land(it.queue, batch)
    it.accumulator.acknowledge(it.queue, batch, 0, -1, 0)
    it.accumulator.forget("t")
    assert not it.accumulator.topics
    it.queue, _ = it.accumulator.adopt("t", {n: Partition(n, leader=0) for n in range(2)}).queues
    it.send()
    assert it.dispatch().base_sequence == 1


async def test_a_batch_that_may_be_stored_keeps_its_number_though_the_id_changes(
    bench: Any,
) -> None:
    it = bench()
    it.send(200)
    it.send(200)
    batch = it.dispatch()
    batch.may_be_stored = True
    it.come_back(batch)
    it.identity.renew()  # for another partition's sake
    it.identity.on_assigned(8, 0)
    again = it.dispatch()
    assert (again, again.producer, again.base_sequence) == (batch, (7, 0), 0)
    assert it.dispatch() is None, "the next one waits: its numbering is another"
    it.accumulator.land(it.queue, batch)
    it.accumulator.acknowledge(it.queue, batch, 0, -1, 0)
    following = it.dispatch()
    assert (following.producer, following.base_sequence) == ((8, 0), 0)
