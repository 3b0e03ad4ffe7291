"""Large compressed batches of a share group are decoded off the event loop."""

from __future__ import annotations

import asyncio

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite._threads import codec_threads
from aiokafka_lite.reading import heavy_batches
from aiokafka_lite.share import acquired_records

PATIENCE = 60.0


async def fill(cluster, count: int, size: int, partition: int = 0) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        compression_type="lz4",
        linger_ms=1000,
        max_batch_size=2**20,
    ) as producer:
        acks = [
            await producer.send("jobs", b"%d " % number + bytes(size), partition=partition)
            for number in range(count)
        ]
        await producer.flush()
        await asyncio.gather(*acks)


async def test_a_thread_decodes_what_would_block_the_loop(cluster, make, monkeypatch) -> None:
    await fill(cluster, 20, 10_000)
    ran: list[object] = []
    run = codec_threads.run

    def spy(loop, function, *arguments):
        ran.append(function)
        return run(loop, function, *arguments)

    monkeypatch.setattr(codec_threads, "run", spy)
    monkeypatch.setattr(acquired_records, "LOOP_LIMIT", 50_000)  # 200 KB, compressed to less
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        seen = []
        while len(seen) < 20:
            for record in await consumer.getmany(timeout_ms=1000):
                seen.append(int(record.value.split()[0]))
                assert record.delivery_count == 1
                record.accept()
    assert seen == list(range(20))
    assert ran


async def test_locks_that_are_lost_while_a_thread_decodes_deliver_nothing(
    cluster, make, monkeypatch
) -> None:
    await fill(cluster, 20, 10_000)
    monkeypatch.setattr(acquired_records, "LOOP_LIMIT", 50_000)
    decoding, lost = asyncio.Event(), asyncio.Event()
    read = heavy_batches.read_in_thread

    async def wait(loop, records, limit):
        decoding.set()
        await lost.wait()
        return await read(loop, records, limit)

    monkeypatch.setattr(acquired_records, "read_in_thread", wait)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        reading = asyncio.create_task(consumer.getone())
        await decoding.wait()
        [connection] = [
            link._exchanges._connection.current
            for link in consumer._core._leaders._links.values()
            if link.pending.holds
        ]
        connection.close()
        lost.set()
        record = await reading
        assert (record.offset, record.delivery_count) == (0, 2)
        assert await record.accept() is None


async def test_partitions_that_follow_in_a_response_are_lost_with_the_connection(
    cluster, make, monkeypatch
) -> None:
    cluster.move_leader("jobs", 1, 0)
    for partition in range(2):
        await fill(cluster, 20, 10_000, partition)
    monkeypatch.setattr(acquired_records, "LOOP_LIMIT", 50_000)
    read = heavy_batches.read_in_thread
    cut = False

    async def wait(loop, records, limit):
        nonlocal cut
        if not cut:
            cut = True
            consumer._core._leaders._links[0]._exchanges._connection.current.close()
        return await read(loop, records, limit)

    monkeypatch.setattr(acquired_records, "read_in_thread", wait)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        seen = set()
        while len(seen) < 40:
            for record in await consumer.getmany(timeout_ms=1000):
                assert record.lock_deadline > 0
                assert await record.accept() is None
                seen.add((record.partition, record.offset))
    assert cut
