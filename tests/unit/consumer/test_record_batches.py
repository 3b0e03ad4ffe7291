"""Reading in bulk: the contents of batches, the positions after them, and what is given back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from importlib import import_module
from random import Random
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer, errors
from aiokafka_lite.consumer.buffering.bulk_types import ColumnBatch
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.partitions.positions import PartitionState
from aiokafka_lite.consumer.partitions.reset_policy import OffsetReset
from aiokafka_lite.consumer.record_batches import Batches
from aiokafka_lite.reading.heavy_batches import is_heavy
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.legacy import encode_message_set
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

from .conftest import MakeConsumer
from .makers import append, append_batch, batch, control_batch, numbered, until

TP0, TP1, TP2 = (TopicPartition("orders", p) for p in range(3))


def reader(cluster: FakeCluster, **options: Any) -> AIOKafkaConsumer:
    """A consumer of "orders" that starts at the end of a partition, unless sought."""
    topics = ["orders"] if "group_id" in options else []
    return AIOKafkaConsumer(
        *topics,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="latest",
        fetch_max_wait_ms=20,
        retry_backoff_ms=10,
        **options,
    )


def values_of(columns: ColumnBatch) -> list[bytes | None]:
    told = columns.columns
    starts = memoryview(told.value_starts).cast("i")
    lengths = memoryview(told.value_lengths).cast("i")
    data = memoryview(told.data)
    return [
        None if length < 0 else bytes(data[start : start + length])
        for start, length in zip(starts, lengths, strict=True)
    ]


async def test_every_record_once_in_order(cluster: FakeCluster, make: MakeConsumer) -> None:
    for partition in range(3):
        append(cluster, numbered(2500), partition)
        append(cluster, numbered(2500, 2500), partition)
    seen: dict[TopicPartition, list[int]] = {TP0: [], TP1: [], TP2: []}
    async with make("orders") as consumer, consumer.batches(max_records=1000) as batches:
        async for batch_ in batches:
            assert 1 <= len(batch_) <= 1000
            assert {r.partition for r in batch_} == {batch_.topic_partition.partition}
            assert batch_.start == batch_.records[0].offset
            assert batch_.offsets == {batch_.topic_partition: (batch_.records[-1].offset + 1, "")}
            assert await consumer.position(batch_.topic_partition) == batch_.next_offset
            seen[batch_.topic_partition] += [r.offset for r in batch_]
            if sum(map(len, seen.values())) == 15000:
                break
    assert seen == {tp: list(range(5000)) for tp in (TP0, TP1, TP2)}


async def test_next_offset_is_past_control_records(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(3))
    append_batch(cluster, control_batch(3), "orders", 0)
    async with make("orders") as consumer, consumer.batches() as batches:
        assert (await anext(batches)).offsets == {TP0: (4, "")}


@pytest.mark.parametrize("columns", [False, True])
async def test_returned_records_keep_the_leader_epoch(
    cluster: FakeCluster, make: MakeConsumer, columns: bool
) -> None:
    append(cluster, numbered(4))
    async with make("orders") as consumer:
        state = consumer._core.positions.state(TP0)
        with contextlib.suppress(ZeroDivisionError):
            async with consumer.batches(max_records=2, columns=columns) as batches:  # type: ignore[call-overload]  # both
                first = await anext(batches)
                second = await anext(batches)
                # The first one has the epoch of the lookup.
                assert (first.start_epoch, second.start_epoch) == (0, 0)
                raise ZeroDivisionError
        assert (state.position, state.position_epoch) == (2, 0)
        async with consumer.batches() as batches:
            assert (await anext(batches)).start == 2


@pytest.mark.parametrize("columns", [False, True])
async def test_what_is_committed_has_the_leaders_epoch(
    cluster: FakeCluster, make: MakeConsumer, columns: bool
) -> None:
    append(cluster, numbered(3))
    async with make("orders") as consumer, consumer.batches(columns=columns) as batches:
        batch_ = await anext(batches)
        (told,) = batch_.offsets.values()
        assert told.leader_epoch == batch_.leader_epoch == 0


@pytest.mark.parametrize("left_by", [ValueError, asyncio.CancelledError])
@pytest.mark.parametrize("columns", [False, True])
async def test_an_unprocessed_batch_is_given_back(
    cluster: FakeCluster, make: MakeConsumer, left_by: type[BaseException], columns: bool
) -> None:
    append(cluster, numbered(10))
    async with make("orders") as consumer:
        with pytest.raises(left_by):  # noqa: PT012 (what leaving the block does)
            async with consumer.batches(max_records=4, columns=columns) as batches:
                await anext(batches)
                second = await anext(batches)
                assert (second.start, second.next_offset) == (4, 8)
                raise left_by
        assert await consumer.position(TP0) == 4
        assert (await consumer.getone()).offset == 4


async def test_a_processed_batch_is_not_given_back(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10))
    async with make("orders") as consumer:
        async with consumer.batches(max_records=4) as batches:
            async for _ in batches:
                break
        assert await consumer.position(TP0) == 4
        with pytest.raises(ValueError, match="of the application"):  # noqa: PT012 (as above)
            async with consumer.batches(max_records=4) as batches:
                await anext(batches)
                consumer.seek(TP0, 9)  # the application's seek wins
                raise ValueError("of the application")
        assert await consumer.position(TP0) == 9


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("behind", ["a marker", "records of another reader"])
async def test_a_failed_batch_is_given_back_though_another_reader_went_on(
    cluster: FakeCluster, make: MakeConsumer, behind: str, columns: bool
) -> None:
    append(cluster, numbered(3))
    consumer = make("orders", group_id="store", auto_commit_interval_ms=1)
    async with consumer:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (what leaving the block does)
            async with consumer.batches(columns=columns) as batches:  # type: ignore[call-overload]  # both
                assert (await anext(batches)).start == 0
                if behind == "a marker":
                    append_batch(cluster, control_batch(), "orders", 0)
                else:
                    append(cluster, numbered(2, 3))
                    assert (await consumer.getone()).offset == 3
                waiting = [asyncio.ensure_future(consumer.getone()) for _ in range(2)]
                end = 4 if behind == "a marker" else 5
                state = consumer._core.positions.state(TP0)
                await until(lambda: state.position == end)
                for each in waiting:
                    each.cancel()
                await asyncio.wait(waiting)
                raise ZeroDivisionError
        assert await consumer.position(TP0) == 0
        assert [r.offset for r in (await consumer.getmany(timeout_ms=5000))[TP0]][:3] == [0, 1, 2]
        consumer.seek(TP0, 0)
    assert cluster.committed("store").get(TP0, 0) == 0


@pytest.mark.parametrize("columns", [False, True])
async def test_a_failed_batch_is_given_back_though_a_thread_decoded_an_aborted_one(
    cluster: FakeCluster, make: MakeConsumer, columns: bool
) -> None:
    append(cluster, numbered(3))
    consumer = make(
        "orders", group_id="store", isolation_level="read_committed", max_partition_fetch_bytes=250
    )
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id="tx",
        compression_type="gzip",
        max_batch_size=1_000_000,
        linger_ms=100,
    ) as producer:
        await producer.begin_transaction()
        noise = Random(1)
        for _ in range(200):
            await producer.send("orders", noise.randbytes(1000), partition=0)
        await producer.flush()
        await producer.abort_transaction()
    async with consumer:
        state = consumer._core.positions.state(TP0)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (what leaving the block does)
            async with consumer.batches(columns=columns) as batches:  # type: ignore[call-overload]  # both
                assert (await anext(batches)).next_offset == 3
                await until(lambda: state.position is not None and state.position > 200)
                raise ZeroDivisionError
        assert await consumer.position(TP0) == 0
    assert cluster.committed("store")[TP0] == 0


@pytest.fixture
async def old_broker() -> AsyncIterator[FakeCluster]:
    """A broker before KIP-320, where a truncated log shows as an offset out of range."""
    async with FakeCluster(topics={"orders": 3}, version="2.2") as cluster:
        yield cluster


@pytest.mark.parametrize("columns", [False, True])
async def test_a_failed_batch_is_given_back_after_a_reset_to_the_end_of_a_truncated_log(
    old_broker: FakeCluster, columns: bool
) -> None:
    cluster = old_broker
    append(cluster, numbered(6))
    append(cluster, numbered(2, 6))
    consumer = reader(cluster, group_id="store")
    async with consumer:
        state = consumer._core.positions.state(TP0)
        consumer.seek(TP0, 0)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (what leaving the block does)
            async with consumer.batches(max_records=4, columns=columns) as batches:  # type: ignore[call-overload]  # both
                await anext(batches)
                assert (await anext(batches)).start == 4
                cluster.truncate(*TP0, 6)
                await until(lambda: state.position == 6)
                raise ZeroDivisionError
        assert await consumer.position(TP0) == 4
        assert [r.offset for r in (await consumer.getmany(TP0, timeout_ms=5000))[TP0]] == [4, 5]
        consumer.seek(TP0, 4)
    assert cluster.committed("store")[TP0] == 4


async def test_an_auto_commit_after_a_policy_reset_leaves_out_the_batch_in_progress(
    old_broker: FakeCluster,
) -> None:
    cluster = old_broker
    append(cluster, numbered(6))
    append(cluster, numbered(2, 6))
    consumer = reader(cluster, group_id="store")
    async with consumer:
        state = consumer._core.positions.state(TP0)
        consumer.seek(TP0, 0)
        async with consumer.batches(max_records=4) as batches:
            await anext(batches)
            assert (await anext(batches)).start == 4
            cluster.truncate(*TP0, 6)
            await until(lambda: state.position == 6)
            await consumer.stop()
    assert cluster.committed("store")[TP0] == 4


async def test_a_failed_batch_that_retention_deleted_is_not_given_back(
    old_broker: FakeCluster,
) -> None:
    cluster = old_broker
    append(cluster, numbered(8))
    consumer = reader(cluster)
    consumer.assign([TP0])
    async with consumer:
        state = consumer._core.positions.state(TP0)
        consumer.seek(TP0, 0)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (what leaving the block does)
            async with consumer.batches(max_records=4) as batches:
                await anext(batches)
                assert (await anext(batches)).start == 4
                consumer.pause(TP0)
                append(cluster, numbered(10, 8))
                cluster.partition(*TP0).delete_before(12)
                consumer.resume(TP0)
                await until(lambda: state.position == 18)
                raise ZeroDivisionError
        assert await consumer.position(TP0) == 18


async def test_a_batch_that_fails_during_the_lookup_of_a_policy_reset_is_given_back(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(8))
    async with make("orders") as consumer:
        state = consumer._core.positions.state(TP0)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (what leaving the block does)
            async with consumer.batches(max_records=4) as batches:
                await anext(batches)
                assert (await anext(batches)).start == 4
                state.reset_by_policy(OffsetReset.LATEST, 8)
                raise ZeroDivisionError
        assert await consumer.position(TP0) == 4
        assert (await consumer.getone()).offset == 4


@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_failed_batch_of_a_deleted_topic_skips_no_record_of_the_recreated_one(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch, confirmed: bool
) -> None:
    append(cluster, numbered(10))
    async with make("orders", metadata_max_age_ms=50) as consumer:
        state = consumer._core.positions.state(TP0)
        may_confirm = asyncio.Event()
        confirm = consumer._core.validation._ask_for_ids

        async def ask(node: int, unsure: Collection[PartitionState]) -> None:
            await may_confirm.wait()
            await confirm(node, unsure)

        monkeypatch.setattr(consumer._core.validation, "_ask_for_ids", ask)
        if confirmed:
            may_confirm.set()
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 (what leaving the block does)
            async with consumer.batches(max_records=4) as batches:
                await anext(batches)
                assert (await anext(batches)).start == 4
                cluster.delete_topic("orders")
                cluster.create_topic("orders", 3)
                append(cluster, numbered(8, 100))
                await until(lambda: state.remade if confirmed else state.rival_id is not None)
                raise ZeroDivisionError
        may_confirm.set()
        buffered = numbered(2, 8) if confirmed else []  # those of the old topic, after the batch
        async with asyncio.timeout(30):
            values = [(await consumer.getone()).value for _ in range(len(buffered) + 8)]
        assert values == buffered + numbered(8, 100)


async def test_a_revoked_partition_is_left_alone(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(10))
    consumer = make()
    await consumer.start()
    consumer.assign([TP0])
    with pytest.raises(ValueError, match="of the application"):  # noqa: PT012 (as above)
        async with consumer.batches() as batches:
            await anext(batches)
            consumer.assign([TP1])
            raise ValueError("of the application")
    assert consumer.assignment() == {TP1}


async def test_cancelled_while_waiting_nothing_is_lost(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    async with make("orders") as consumer, consumer.batches() as batches:
        waiting = asyncio.ensure_future(anext(batches))
        await until(lambda: bool(consumer._core._waiters))
        waiting.cancel()
        await asyncio.wait([waiting])
        append(cluster, numbered(3))
        assert [r.value for r in await anext(batches)] == numbered(3)


async def test_stop_ends_the_iteration(cluster: FakeCluster, make: MakeConsumer) -> None:
    consumer = make("orders")
    await consumer.start()

    async def read() -> int:
        return len([each async for each in consumer.batches()])

    reading = asyncio.ensure_future(read())
    await until(lambda: bool(consumer._core._waiters))
    await consumer.stop()
    assert await reading == 0
    with pytest.raises(errors.ConsumerStoppedError):
        consumer.batches()


async def test_an_error_is_raised_after_the_records_before_it(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [b"1", b"2", b"three", b"4"])
    async with make("orders", value_deserializer=int) as consumer, consumer.batches() as batches:
        first = await anext(batches)
        assert [r.value for r in first] == [1, 2]
        assert first.next_offset == 2
        with pytest.raises(ValueError, match="invalid literal"):
            await anext(batches)
        consumer.seek(TP0, 3)
        assert [r.value for r in await anext(batches)] == [4]


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "7"])
async def test_max_records_is_checked(make: MakeConsumer, wrong: object) -> None:
    consumer = make("orders")
    with pytest.raises(ValueError, match="max_records"):
        consumer.batches(max_records=wrong)  # type: ignore[call-overload]  # wrong on purpose


async def test_max_poll_records_is_the_default(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(10))
    async with make("orders", max_poll_records=3) as consumer, consumer.batches() as batches:
        assert len(await anext(batches)) == 3


async def test_the_iterator_holds_the_consumer(cluster: FakeCluster, make: MakeConsumer) -> None:
    consumer = make("orders")
    batches: Batches[ColumnBatch] = consumer.batches(columns=True)
    assert batches._owner is consumer


# --- columns


async def test_columns_are_the_records(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, [b"a", None, b"ccc"])
    append(cluster, numbered(50))
    seen: list[bytes | None] = []
    async with make("orders") as consumer, consumer.batches(columns=True) as batches:
        async for each in batches:
            assert isinstance(each, ColumnBatch)
            offsets = list(memoryview(each.columns.offsets).cast("q"))
            assert offsets == list(range(each.start, each.next_offset))
            assert await consumer.position(TP0) == each.next_offset
            seen += values_of(each)
            if len(seen) == 53:
                break
    assert seen == [b"a", None, b"ccc", *numbered(50)]


async def test_columns_of_decoded_records(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(10))
    async with make("orders") as consumer:
        assert (await consumer.getone()).offset == 0
        async with consumer.batches(columns=True, max_records=4) as batches:
            first, second = await anext(batches), await anext(batches)
        assert (first.start, first.next_offset) == (1, 5)
        assert values_of(first) + values_of(second) == numbered(8, 1)
        assert (await consumer.getone()).offset == 9


async def test_columns_of_large_compressed_batches(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    from aiokafka_lite.record.compression import Compression

    noise = [i.to_bytes(4, "big") * 50 + bytes([i % 251]) * 3 for i in range(30_000)]
    data = batch(noise, compression=Compression.LZ4)
    assert len(data) >= import_module("aiokafka_lite.reading.heavy_batches").HEAVY_BATCH
    append_batch(cluster, data, "orders", 0)
    seen: list[bytes | None] = []
    async with make("orders") as consumer, consumer.batches(columns=True) as batches:
        async for each in batches:
            seen += values_of(each)
            if len(seen) == len(noise):
                break
    assert seen == noise


async def test_columns_have_no_deserializers(make: MakeConsumer) -> None:
    consumer = make("orders", value_deserializer=int)
    with pytest.raises(errors.KafkaConfigurationError, match="`columns=True`"):
        consumer.batches(columns=True)


async def test_a_corrupt_batch_is_raised_after_the_columns_before_it(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(3))
    corrupt = batch(numbered(2), 3)
    corrupt[-1] ^= 1
    append_batch(cluster, corrupt, "orders", 0)
    async with make("orders") as consumer, consumer.batches(columns=True) as batches:
        assert values_of(await anext(batches)) == numbered(3)
        with pytest.raises(errors.CorruptRecordException, match="offset 3"):
            await anext(batches)
        assert await consumer.position(TP0) == 3


async def test_blocks_share_the_work_by_partition(cluster: FakeCluster, make: MakeConsumer) -> None:
    for partition in range(3):
        append(cluster, numbered(300), partition)
    at_work: set[TopicPartition] = set()
    seen: dict[TopicPartition, list[int]] = {TP0: [], TP1: [], TP2: []}
    most = 0

    async def work() -> None:
        nonlocal most
        async with consumer.batches(max_records=7) as batches:
            async for batch_ in batches:
                assert batch_.topic_partition not in at_work
                at_work.add(batch_.topic_partition)
                most = max(most, len(at_work))
                await asyncio.sleep(0)
                seen[batch_.topic_partition] += [record.offset for record in batch_.records]
                await asyncio.sleep(0)
                at_work.remove(batch_.topic_partition)

    async with make("orders") as consumer:
        workers = [asyncio.ensure_future(work()) for _ in range(5)]
        await until(lambda: all(len(offsets) == 300 for offsets in seen.values()))
    await asyncio.gather(*workers)
    assert all(offsets == list(range(300)) for offsets in seen.values())
    assert most > 1


async def test_a_batch_given_back_by_one_block_is_delivered_to_another(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10))
    async with make("orders") as consumer, consumer.batches(max_records=4) as heir:
        with pytest.raises(ValueError, match="of the application"):  # noqa: PT012 (as above)
            async with consumer.batches(max_records=4) as batches:
                await anext(batches)
                await anext(batches)
                waiting = asyncio.ensure_future(anext(heir))
                await until(lambda: bool(consumer._core._waiters))
                raise ValueError("of the application")
        assert (await waiting).start == 4


async def test_a_finished_block_does_not_delay_others(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10))
    async with make("orders") as consumer, consumer.batches(max_records=4) as second:
        async with consumer.batches(max_records=4) as first:
            await anext(first)
            waiting = asyncio.ensure_future(anext(second))
            await until(lambda: bool(consumer._core._waiters))
        assert (await waiting).start == 4


async def test_a_seek_is_more_than_work(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(10))
    async with make("orders") as consumer, consumer.batches(max_records=4) as first:
        async with consumer.batches(max_records=4) as second:
            await anext(first)
            consumer.seek(TP0, 2)
            assert (await anext(second)).start == 2
            third = asyncio.ensure_future(anext(first))  # it does not process the second
            await until(lambda: bool(consumer._core._waiters))
        assert (await third).start == 6


async def test_the_clock_commits_no_work_of_another_block(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10), 0)
    append(cluster, numbered(10), 1)
    async with (
        make(
            "orders", group_id="store", enable_auto_commit=True, auto_commit_interval_ms=10
        ) as consumer,
        consumer.batches(max_records=4) as slow,
        consumer.batches(max_records=4) as quick,
    ):
        held = (await anext(slow)).topic_partition
        other = TP1 if held == TP0 else TP0

        async def read_all() -> None:
            async for _ in quick:
                pass

        reading = asyncio.ensure_future(read_all())
        await until(lambda: cluster.committed("store").get(other) == 10)
        assert cluster.committed("store").get(held, 0) == 0
        following = asyncio.ensure_future(anext(slow))
        await until(lambda: cluster.committed("store").get(held, 0) >= 4)
        for task in (reading, following):
            task.cancel()
        await asyncio.wait([reading, following])


@pytest.mark.parametrize("end", ["stop", "rebalance"])
async def test_the_final_commit_excludes_records_in_progress(
    cluster: FakeCluster, make: MakeConsumer, end: str
) -> None:
    append(cluster, numbered(10))

    def member() -> AIOKafkaConsumer:
        return make("orders", group_id="store", enable_auto_commit=True, fetch_max_wait_ms=10)

    consumer = member()
    await consumer.start()
    async with consumer.batches(max_records=4) as batches:
        await anext(batches)
        await anext(batches)
        if end == "stop":
            await consumer.stop()
        else:
            await member().start()
        await until(lambda: cluster.committed("store").get(TP0) == 4)
        if end == "stop":
            with pytest.raises(StopAsyncIteration):
                await anext(batches)


@pytest.mark.parametrize("end", ["stop", "rebalance", "clock"])
async def test_offsets_committed_within_a_batch_stay_committed(
    cluster: FakeCluster, make: MakeConsumer, end: str
) -> None:
    """By batch.offsets, as in the guide, with auto-commit enabled (the default)."""
    append(cluster, numbered(10))
    interval = 10 if end == "clock" else 60_000

    def member() -> AIOKafkaConsumer:
        return make("orders", group_id="store", auto_commit_interval_ms=interval)

    consumer = member()
    await consumer.start()
    async with consumer.batches(max_records=4) as batches, consumer.batches() as other:
        await consumer.commit((await anext(batches)).offsets)
        assert cluster.committed("store")[TP0] == 4
        if end == "stop":
            await consumer.stop()
        elif end == "rebalance":
            await member().start()
        else:
            following = asyncio.ensure_future(anext(other))
            append(cluster, numbered(3), 1)
            await following
            following = asyncio.ensure_future(anext(other))
            await until(lambda: cluster.committed("store").get(TP1) == 3)
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
        assert cluster.committed("store")[TP0] == 4


@pytest.mark.parametrize("by", ["unsubscribe", "assign"])
async def test_giving_up_a_partition_does_not_commit_the_batch_in_progress(
    cluster: FakeCluster, make: MakeConsumer, by: str
) -> None:
    append(cluster, numbered(10))
    consumer = make(*(["orders"] if by == "unsubscribe" else []), group_id="store")
    await consumer.start()
    if by == "assign":
        consumer.assign([TP0])
    with pytest.raises(ValueError, match="of the application"):  # noqa: PT012 (as above)
        async with consumer.batches(max_records=4) as batches:
            await anext(batches)
            await anext(batches)
            if by == "unsubscribe":
                consumer.unsubscribe()
            else:
                consumer.assign([TP1])
            raise ValueError("of the application")
    await consumer.stop()
    assert cluster.committed("store")[TP0] == 4


async def test_a_block_need_not_wait_for_the_heavy_sets_of_the_others(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    """Large compressed batches are decoded for only a few partitions at once."""
    random = Random(1)
    data = batch([random.randbytes(100) for _ in range(3000)], compression=Compression.GZIP)
    assert is_heavy(data)
    for partition in range(3):
        append_batch(cluster, bytearray(data), "orders", partition)
    async with make("orders") as consumer, contextlib.AsyncExitStack() as blocks:
        at_work = set()
        for _ in range(3):
            batches = await blocks.enter_async_context(consumer.batches(max_records=10))
            async with asyncio.timeout(10):
                at_work.add((await anext(batches)).topic_partition)
        assert at_work == {TP0, TP1, TP2}


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_sets_of_old_messages_are_heavy_sooner(magic: int, codec: Compression) -> None:
    """Each message costs more than a record, and one that is compressed wraps any number."""
    random = Random(1)

    def messages(size: int) -> bytes:
        return encode_message_set([(0, None, random.randbytes(size))], magic, codec)

    assert is_heavy(messages(20_000))
    assert not is_heavy(messages(10_000))
