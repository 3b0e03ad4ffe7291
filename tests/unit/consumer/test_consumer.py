"""The public API against the embedded broker: reading, seeking, stopping."""

import asyncio
import gc
import json
import pickle
import time
import warnings
from random import Random
from typing import Any

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import (
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    KafkaConnectionError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.reading.heavy_batches import is_heavy
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.structs import OffsetAndTimestamp, TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import (
    append,
    append_batch,
    batch,
    control_batch,
    numbered,
    until,
)

P0, P1, P2 = (TopicPartition("orders", i) for i in range(3))


async def take(consumer: AIOKafkaConsumer, count: int, *tps: TopicPartition) -> list[Any]:
    async with asyncio.timeout(10):
        return [await consumer.getone(*tps) for _ in range(count)]


def values(records: list[Any]) -> list[bytes]:
    return [record.value for record in records]


# --- reading


async def test_async_for_reads_every_partition_in_order(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    for partition in range(3):
        for start in range(0, 1000, 100):
            append(cluster, numbered(100, start), partition)
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    async with make("orders") as consumer:
        assert consumer.assignment() == {P0, P1, P2}
        assert consumer.subscription() == {"orders"}
        async for record in consumer:
            seen[record.partition].append(record.offset)
            tp = TopicPartition(record.topic, record.partition)
            assert await consumer.position(tp) == record.offset + 1
            if sum(map(len, seen.values())) == 3000:
                break
    assert all(each == list(range(1000)) for each in seen.values())


async def test_a_record_as_the_broker_has_it(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, [b"value", None], partition=1, timestamp=1234)
    async with make("orders") as consumer:
        first, second = await take(consumer, 2)
    assert (first.topic, first.partition, first.offset) == ("orders", 1, 0)
    assert (first.key, first.value, first.headers) == (b"k0", b"value", ())
    assert (first.timestamp, first.timestamp_type) == (1234, 0)
    assert (first.serialized_key_size, first.serialized_value_size) == (2, 5)
    assert (second.value, second.serialized_value_size) == (None, -1)


async def test_getmany(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(5), 0)
    append(cluster, numbered(5), 1)
    async with make("orders") as consumer:
        taken: dict[TopicPartition, list[Any]] = {}
        while sum(map(len, taken.values())) < 10:
            lists = await consumer.getmany(timeout_ms=1000, max_records=3)
            assert 1 <= sum(map(len, lists.values())) <= 3
            for tp, records in lists.items():
                taken.setdefault(tp, []).extend(records)
        assert values(taken[P0]) == values(taken[P1]) == numbered(5)
        assert await consumer.getmany() == {}
        assert await consumer.getmany(timeout_ms=20) == {}
        with pytest.raises(ValueError, match="`max_records` must be a positive Integer"):
            await consumer.getmany(max_records=0)


async def test_max_poll_records(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(5))
    async with make("orders", max_poll_records=2) as consumer:
        lists = await consumer.getmany(timeout_ms=1000)
        assert values(lists[P0]) == numbered(2)
        lists = await consumer.getmany(timeout_ms=1000, max_records=100)
        assert values(lists[P0]) == numbered(3, 2)


async def test_only_some_partitions(cluster: FakeCluster, make: MakeConsumer) -> None:
    for partition in range(3):
        append(cluster, numbered(3), partition)
    async with make("orders") as consumer:
        assert [r.partition for r in await take(consumer, 3, P1)] == [1, 1, 1]
        lists = await consumer.getmany(P2, timeout_ms=1000)
        assert set(lists) == {P2}
        with pytest.raises(TypeError):
            await consumer.getone("orders")
        with pytest.raises(TypeError):
            await consumer.getmany(0)


async def test_one_partition_is_read_while_the_buffer_is_full_of_others(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    for _ in range(20):
        append(cluster, [bytes(10_000)] * 10, 0)
        append(cluster, [bytes(10_000)] * 10, 1)
    for start in range(0, 200, 10):
        append(cluster, numbered(10, start), 2)
    async with make("orders", buffer_memory=200_000, max_partition_fetch_bytes=100_000) as consumer:
        assert values(await take(consumer, 200, P2)) == numbered(200)


async def test_a_late_partition_is_fetched_although_the_buffer_is_full(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    for _ in range(20):
        append(cluster, [bytes(5000)] * 10, 0)
        append(cluster, [bytes(5000)] * 10, 1)
        append(cluster, [bytes(5000)] * 10, 2)
    async with make("orders", buffer_memory=120_000, max_partition_fetch_bytes=60_000) as consumer:
        states = {tp: consumer._core.positions.state(tp) for tp in (P0, P1, P2)}
        await until(lambda: sum(s.fetched.records is not None for s in states.values()) == 2)
        await asyncio.sleep(0.05)  # no read waits: the third one is not fetched
        (late,) = (tp for tp, state in states.items() if state.fetched.records is None)
        assert len(await take(consumer, 100, late)) == 100
        # Paused data is dropped in favour of waiting readers.
        consumer.pause(*(tp for tp in states if tp != late))
        assert len(await take(consumer, 100)) == 100
        assert consumer._core.buffer.bytes <= 110_000


async def test_cancelling_a_read_loses_nothing(cluster: FakeCluster, make: MakeConsumer) -> None:
    seen: list[bytes] = []
    async with make("orders") as consumer:

        async def write() -> None:
            for i in range(60):
                append(cluster, [b"v%d" % i])
                await asyncio.sleep(0.002)

        writing = asyncio.ensure_future(write())
        patience = 0.0
        async with asyncio.timeout(20):
            while len(seen) < 60:
                patience = (patience + 0.0005) % 0.004
                try:
                    if len(seen) % 2:
                        record = await asyncio.wait_for(consumer.getone(), patience)
                        seen.append(record.value)
                    else:
                        lists = await asyncio.wait_for(
                            consumer.getmany(timeout_ms=1000, max_records=1), patience
                        )
                        seen += values(lists.get(P0, []))
                except TimeoutError:
                    continue
        await writing
    assert seen == numbered(60)


async def test_two_tasks_share_the_records(cluster: FakeCluster, make: MakeConsumer) -> None:
    for partition in range(3):
        append(cluster, numbered(200), partition)
    seen: list[tuple[int, int]] = []
    async with make("orders") as consumer:

        async def read() -> None:
            async for record in consumer:
                seen.append((record.partition, record.offset))
                await asyncio.sleep(0)
                if len(seen) >= 600:
                    await consumer.stop()

        await asyncio.gather(read(), read())
    assert len(seen) == len(set(seen)) == 600


async def test_a_body_that_never_suspends_does_not_starve_the_loop(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    for _ in range(100):
        append(cluster, numbered(200))
    async with make("orders") as consumer:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        await take(consumer, 1)
        ticking = asyncio.ensure_future(tick())
        read = 1
        async for _ in consumer:
            read += 1
            busy_until = time.monotonic() + 0.0005
            while time.monotonic() < busy_until:
                pass
            if ticks >= 3 or read == 20_000:
                break
        assert read < 20_000
        ticking.cancel()


async def test_deserializers(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, [b"[1]", b"oops", b"[3]"])
    async with make("orders", value_deserializer=json.loads) as consumer:
        assert values(await take(consumer, 1)) == [[1]]
        for _ in range(2):
            with pytest.raises(json.JSONDecodeError) as caught:
                await take(consumer, 1)
            assert "orders-0 offset 1" in caught.value.__notes__[0]
        consumer.seek(P0, await consumer.position(P0) + 1)
        assert values(await take(consumer, 1)) == [[3]]


async def test_large_compressed_batches(cluster: FakeCluster, make: MakeConsumer) -> None:
    random = Random(1)
    expected = [random.randbytes(100) for _ in range(9000)]
    for start in range(0, 9000, 3000):
        data = batch(expected[start : start + 3000], compression=Compression.GZIP)
        assert is_heavy(data)
        append_batch(cluster, data, "orders", 1)
    async with make("orders") as consumer:
        assert values(await take(consumer, 5000)) == expected[:5000]
        consumer.seek(P1, 10)
        assert values(await take(consumer, 10)) == expected[10:20]
        consumer.seek(P1, 20)
        taken: list[bytes] = []
        while len(taken) < 8980:
            lists = await consumer.getmany(timeout_ms=5000, max_records=1000)
            taken += values(lists[P1])
        assert taken == expected[20:]


# --- where to start


async def test_latest_is_where_the_log_ends_when_start_returns(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    async with make("orders", auto_offset_reset="latest") as consumer:
        append(cluster, [b"new"])
        assert values(await take(consumer, 1)) == [b"new"]


async def test_without_a_policy_the_application_must_seek(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    async with make(auto_offset_reset="none") as consumer:
        consumer.assign([P0])
        for _ in range(2):
            with pytest.raises(NoOffsetForPartitionError):
                await take(consumer, 1)
        with pytest.raises(NoOffsetForPartitionError):
            await consumer.getmany(timeout_ms=1000)
        with pytest.raises(NoOffsetForPartitionError):
            await consumer.position(P0)
        consumer.seek(P0, 3)
        assert values(await take(consumer, 2)) == numbered(2, 3)
        consumer.seek(P0, 100)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError) as caught:
                await take(consumer, 1)
            assert caught.value.args == ({P0: 100},)
        assert await consumer.seek_to_beginning(P0)
        assert values(await take(consumer, 5)) == numbered(5)


@pytest.mark.parametrize("paused", [False, True])
async def test_a_position_whose_lookup_failed_is_looked_up_again(
    cluster: FakeCluster, make: MakeConsumer, paused: bool
) -> None:
    """Although nothing reads, which would raise the error, too."""
    append(cluster, numbered(5))
    consumer = make()
    await consumer.start()
    cluster.control(ApiKey.LIST_OFFSETS, error=TopicAuthorizationFailedError.errno)
    consumer.assign([P0])
    if paused:
        consumer.pause(P0)
    with pytest.raises(TopicAuthorizationFailedError):
        await consumer.position(P0)
    assert await consumer.position(P0) == 0
    consumer.resume(P0)
    assert (await consumer.getone()).offset == 0


async def test_an_assignment_may_be_sought_at_once(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    consumer = make(auto_offset_reset="none")
    consumer.assign([P0])
    consumer.seek(P0, 2)
    async with consumer:
        assert values(await take(consumer, 3)) == numbered(3, 2)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", [b"v7"]), ("latest", [b"new"])])
async def test_a_position_out_of_range_is_reset(
    cluster: FakeCluster, make: MakeConsumer, policy: str, expected: list[bytes]
) -> None:
    append(cluster, numbered(10))
    async with make(auto_offset_reset=policy) as consumer:
        consumer.assign([P0])
        consumer.seek(P0, 3)
        await take(consumer, 1)
        cluster.delete_records("orders", 0, 7)
        consumer.seek(P0, 4)
        # The first fetch is refused; the position is then one end of the log.
        state = consumer._core.positions.state(P0)
        await until(lambda: state.position not in (None, 4))
        append(cluster, [b"new"])
        assert values(await take(consumer, 1)) == expected


# --- seeking, pausing


async def test_a_seek_discards_buffered_records(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(100))
    seen = []
    async with make("orders") as consumer:
        async for record in consumer:
            seen.append(record.offset)
            if seen == [0, 1, 2]:
                consumer.seek(P0, 50)
                assert await consumer.position(P0) == 50
            if record.offset == 52:
                consumer.seek(P0, 1)
            if len(seen) == 8:
                break
    assert seen == [0, 1, 2, 50, 51, 52, 1, 2]


async def test_a_stale_response_never_reaches_the_application(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10))
    fault = cluster.control(ApiKey.FETCH, after_handling=True, delay=0.1)
    async with make("orders") as consumer:
        async with asyncio.timeout(5):
            await fault.struck()
        consumer.seek(P0, 8)
        assert values(await take(consumer, 2)) == numbered(2, 8)


@pytest.mark.parametrize(
    ("offset", "kind"), [(-1, ValueError), (1.5, ValueError), ("1", ValueError), (True, ValueError)]
)
async def test_seek_refuses(make: MakeConsumer, offset: Any, kind: type[Exception]) -> None:
    consumer = make()
    consumer.assign([P0])
    with pytest.raises(kind):
        consumer.seek(P0, offset)
    with pytest.raises(IllegalStateError):
        consumer.seek(P1, 0)


async def test_seek_to_the_ends(cluster: FakeCluster, make: MakeConsumer) -> None:
    for partition in range(3):
        append(cluster, numbered(5), partition)
    async with make("orders") as consumer:
        await take(consumer, 4)
        assert await consumer.seek_to_end()
        assert [await consumer.position(tp) for tp in (P0, P1, P2)] == [5, 5, 5]
        assert await consumer.seek_to_beginning(P1)
        assert [await consumer.position(tp) for tp in (P0, P1, P2)] == [5, 0, 5]
        assert [r.partition for r in await take(consumer, 5)] == [1] * 5
        with pytest.raises(TypeError):
            await consumer.seek_to_end("orders")  # type: ignore[arg-type]  # that is the test
        with pytest.raises(IllegalStateError):
            await consumer.seek_to_end(TopicPartition("other", 0))
        consumer.unsubscribe()
        with pytest.raises(IllegalStateError, match="No partitions are currently assigned"):
            await consumer.seek_to_beginning()


async def test_pause_hides_buffered_records_and_resume_returns_them(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10), 0)
    append(cluster, numbered(3), 1)
    async with make("orders") as consumer:
        await take(consumer, 2, P0)
        consumer.pause(P0)
        assert consumer.paused() == {P0}
        assert [r.partition for r in await take(consumer, 3)] == [1, 1, 1]
        assert await consumer.getmany(timeout_ms=60) == {}
        assert await consumer.getmany(P0, timeout_ms=0) == {}
        assert await consumer.position(P0) == 2
        waiting = asyncio.ensure_future(consumer.getone())
        await asyncio.sleep(0.01)
        consumer.resume(P0)
        assert consumer.paused() == set()
        assert (await asyncio.wait_for(waiting, 5)).offset == 2
        assert values(await take(consumer, 7)) == numbered(7, 3)
        with pytest.raises(TypeError):
            consumer.pause("orders")  # type: ignore[arg-type]  # that is the test
        with pytest.raises(IllegalStateError):
            consumer.resume(TopicPartition("other", 0))


async def test_pause_within_the_loop(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(10), 0)
    append(cluster, numbered(10), 1)
    seen: dict[int, int] = {0: 0, 1: 0}
    async with make("orders") as consumer:
        async for record in consumer:
            seen[record.partition] += 1
            if seen[record.partition] == 3:
                consumer.pause(TopicPartition("orders", record.partition))
            if seen == {0: 3, 1: 3}:
                break
        assert await consumer.getmany(timeout_ms=60) == {}


# --- queries


async def test_offsets(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(10), timestamp=1000)
    cluster.delete_records("orders", 0, 4)
    async with make(request_timeout_ms=300) as consumer:
        assert await consumer.beginning_offsets([P0, P1]) == {P0: 4, P1: 0}
        assert await consumer.end_offsets([P0, P1]) == {P0: 10, P1: 0}
        assert await consumer.beginning_offsets([]) == {}
        times = {P0: 1006, P1: 0}
        assert await consumer.offsets_for_times(times) == {
            P0: OffsetAndTimestamp(6, 1006),
            P1: None,
        }
        found = (await consumer.offsets_for_times({P0: 1006}))[P0]
        assert found is not None
        assert found.leader_epoch == 0
        assert pickle.loads(pickle.dumps(found)).leader_epoch == 0
        assert await consumer.offsets_for_times({P0: 5000}) == {P0: None}
        assert await consumer.offsets_for_times({}) == {}
        with pytest.raises(ValueError, match="cannot be negative"):
            await consumer.offsets_for_times({P0: -1})
        with pytest.raises(KafkaTimeoutError, match="orders-7"):
            await consumer.end_offsets([P0, TopicPartition("orders", 7)])
        assert await consumer.topics() == {"orders"}
        assert consumer.partitions_for_topic("orders") == {0, 1, 2}
        assert consumer.partitions_for_topic("unheard") is None


async def test_offsets_of_the_last_fetch_are_available(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(3))
    consumer = make("orders")
    with pytest.raises(IllegalStateError):
        consumer.highwater(P0)
    consumer.subscribe(["orders"])
    async with consumer:
        await take(consumer, 1)
        assert consumer.highwater(P0) == 3
        assert consumer.last_stable_offset(P0) == -1
        polled = consumer.last_poll_timestamp(P0)
        assert polled is not None
        await take(consumer, 2)
        # Empty fetches report it, too.
        await until(lambda: consumer.last_poll_timestamp(P0) != polled)
        await until(lambda: consumer.highwater(P1) is not None)
        assert consumer.highwater(P1) == 0


async def test_nothing_is_committed_without_a_group(make: MakeConsumer) -> None:
    consumer = make()
    consumer.assign([P0])
    for call in (consumer.commit(), consumer.committed(P0), consumer.seek_to_committed()):
        with pytest.raises(IllegalOperation, match="Requires group_id"):
            await call


async def test_the_position_moves_past_control_records(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append_batch(cluster, control_batch(), "orders", 0)
    async with make("orders", max_partition_fetch_bytes=1) as consumer:
        assert await consumer.getmany(timeout_ms=100) == {}
        assert await consumer.position(P0) == 1
        append(cluster, [b"behind"])
        assert values(await take(consumer, 1)) == [b"behind"]


async def test_a_single_record_larger_than_every_limit(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [bytes(1_000_000)])
    append(cluster, [b"next"])
    async with make(
        "orders", max_partition_fetch_bytes=100, fetch_max_bytes=1000, buffer_memory=1000
    ) as consumer:
        assert [len(v) for v in values(await take(consumer, 2))] == [1_000_000, 4]


# --- what is read


async def test_a_later_subscription_replaces_the_first(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    cluster.create_topic("other", 1)
    append(cluster, [b"a"])
    append(cluster, [b"b"], topic="other")
    async with make("orders") as consumer:
        assert values(await take(consumer, 1)) == [b"a"]
        consumer.subscribe(["other"])
        assert values(await take(consumer, 1)) == [b"b"]
        assert consumer.assignment() == {TopicPartition("other", 0)}
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        assert consumer.subscription() == frozenset()
        consumer.assign([P0])
        assert values(await take(consumer, 1)) == [b"a"]
        with pytest.raises(IllegalStateError):
            consumer.subscribe(["other"])


async def test_assign_keeps_the_positions_of_kept_partitions(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(4), 0)
    append(cluster, numbered(2), 1)
    consumer = make()
    consumer.assign([P0])
    async with consumer:
        assert values(await take(consumer, 2)) == numbered(2)
        consumer.assign([P1, P0])
        rest = await take(consumer, 4)
        assert sorted((r.partition, r.offset) for r in rest) == [(0, 2), (0, 3), (1, 0), (1, 1)]


async def test_new_partitions_are_found(cluster: FakeCluster, make: MakeConsumer) -> None:
    async with make("orders", metadata_max_age_ms=50) as consumer:
        cluster.add_partitions("orders", 5)
        append(cluster, [b"first"], partition=4)
        record = (await take(consumer, 1))[0]
        assert (record.partition, record.offset) == (4, 0)
        assert len(consumer.assignment()) == 5


async def test_a_pattern_finds_topics_that_come_later(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    consumer = make(metadata_max_age_ms=50)
    consumer.subscribe(pattern="ord")
    async with consumer:
        assert consumer.assignment() == {P0, P1, P2}
        cluster.create_topic("ordinary", 1)
        cluster.create_topic("disorder", 1)
        append(cluster, [b"x"], topic="ordinary")
        assert (await take(consumer, 1))[0].topic == "ordinary"
        assert consumer.subscription() == {"orders", "ordinary"}


async def test_subscribing_creates_a_topic(cluster: FakeCluster, make: MakeConsumer) -> None:
    async with make("fresh") as consumer:
        assert consumer.assignment() == {TopicPartition("fresh", 0)}


# --- starting and stopping


async def test_start_refuses_unauthorized_topics(cluster: FakeCluster, make: MakeConsumer) -> None:
    cluster.control(ApiKey.METADATA, error=29, partitions=[("orders", None)], times=None)
    consumer = make("orders")
    with pytest.raises(TopicAuthorizationFailedError, match="orders"):
        await consumer.start()
    await consumer.stop()


async def test_start_refuses_a_topic_that_is_not_there(make: MakeConsumer) -> None:
    consumer = make("absent", allow_auto_create_topics=False, request_timeout_ms=200)
    with pytest.raises(UnknownTopicOrPartitionError):
        await consumer.start()
    await consumer.stop()


async def test_a_failed_start_leaves_no_connection(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    consumer = make("absent", allow_auto_create_topics=False, request_timeout_ms=100)
    core = consumer._core
    with pytest.raises(UnknownTopicOrPartitionError):
        await consumer.start()
    assert core.cluster.closed
    assert not consumer._core.cluster.started
    with pytest.raises(IllegalStateError, match="not started"):
        await consumer.getone()


async def test_start_without_a_broker_and_stop_after_it() -> None:
    consumer = AIOKafkaConsumer("orders", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaConnectionError):
        await consumer.start()
    await consumer.stop()
    await consumer.stop()
    with pytest.raises(IllegalStateError):
        await consumer.start()


async def test_start_twice(make: MakeConsumer) -> None:
    async with make("orders") as consumer:
        with pytest.raises(IllegalStateError, match="already started"):
            await consumer.start()


async def test_stop_ends_every_read(make: MakeConsumer) -> None:
    consumer = make("orders")
    await consumer.start()

    async def iterate() -> str:
        async for _ in consumer:
            pass
        return "ended"

    one = asyncio.ensure_future(consumer.getone())
    many = asyncio.ensure_future(consumer.getmany(timeout_ms=60_000))
    loop = asyncio.ensure_future(iterate())
    await asyncio.sleep(0.02)
    await consumer.stop()
    assert many.done()
    assert many.result() == {}
    with pytest.raises(ConsumerStoppedError):
        await one
    assert await loop == "ended"
    with pytest.raises(ConsumerStoppedError):
        await consumer.getone()
    with pytest.raises(ConsumerStoppedError):
        await consumer.getmany(timeout_ms=0)
    with pytest.raises(ConsumerStoppedError):
        async for _ in consumer:
            pass


async def test_stop_inside_the_loop_ends_the_iteration(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(100))
    seen = 0
    async with make("orders") as consumer:
        async for _ in consumer:
            seen += 1
            if seen == 3:
                await consumer.stop()
    assert seen == 3


async def test_stop_does_not_wait_for_a_mute_broker(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    fault = cluster.control(ApiKey.FETCH, drop=True)
    consumer = make("orders")
    await consumer.start()
    async with asyncio.timeout(4):
        await fault.struck()
        await consumer.stop()


async def test_nothing_is_left_behind(cluster: FakeCluster, make: MakeConsumer) -> None:
    async with make("orders"):
        pass
    left = [task.get_name() for task in asyncio.all_tasks() if "consumer" in task.get_name()]
    assert left == []


async def test_a_dropped_consumer_warns_and_its_tasks_end(cluster: FakeCluster) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers)
    await consumer.start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert [str(each.message)[:25] for each in caught] == ["Unclosed AIOKafkaConsumer"]
    assert caught[0].category is ResourceWarning
    assert told[0]["message"] == "Unclosed AIOKafkaConsumer"
    told.clear()
    await until(lambda: not any("consumer" in t.get_name() for t in asyncio.all_tasks()))


async def test_an_unstarted_consumer_warns_too() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    consumer = AIOKafkaConsumer()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    assert [str(each.message)[:25] for each in caught] == ["Unclosed AIOKafkaConsumer"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stopped = AIOKafkaConsumer()
        await stopped.stop()
        del stopped
        gc.collect()


async def test_cancelling_start_leaves_nothing(cluster: FakeCluster, make: MakeConsumer) -> None:
    cluster.control(ApiKey.METADATA, drop=True, times=None)
    consumer = make("orders")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(consumer.start(), 0.05)
    await consumer.stop()
