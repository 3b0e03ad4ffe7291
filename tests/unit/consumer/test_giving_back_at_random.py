"""Several tasks read one consumer in every way concurrently, including blocks of batches that fail
or are cancelled, while transactions commit and abort, logs are compacted and truncated at their
start, and leaders move. Neither a read nor an auto-commit skips a record, and none is read twice
except those after a batch that was given back.

SEEDS (default 6) is the number of walks.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaProducer, OffsetAndMetadata, TopicPartition
from aiokafka_lite.consumer.buffering import thread_decoding
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.reading import heavy_batches
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import rebase
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing import ApiKey, FakeCluster
from tests.unit.consumer.makers import append_batch
from tests.unit.consumer.test_reading_at_random import rows_of

SEEDS = int(os.environ.get("SEEDS", "6"))
STEPS = 200
PARTITIONS = 3
BROKERS = 2


class Hiccup(Exception):
    """Raised by the application within a block."""


class Model:
    """The expected reads of one partition.

    Attributes:
        low: No record before this offset may be read.
        floor: No record from this offset on may be skipped. Above `low` only after the partition
            was assigned again: it may begin anywhere between the two.
        work: The start of the batch that a block is processing, or None.
        choice: Incremented when the application seeks or unassigns the partition: an earlier batch
            is not given back.
        written: By offset, every value that may be read, or could before it was deleted: buffered
            records are still handed out.
        there: The offsets of those that are still in the log.
    """

    def __init__(self) -> None:
        self.low = self.floor = 0
        self.work: int | None = None
        self.choice = 0
        self.written: dict[int, bytes] = {}
        self.there: set[int] = set()

    def passes_over(self, begin: int, end: int) -> list[int]:
        return sorted(each for each in self.there if begin <= each < end)

    def see(self, offset: int, value: bytes | None) -> None:
        """This record was handed out."""
        assert offset >= self.low
        assert value == self.written[offset]
        assert self.passes_over(self.floor, offset) == []
        self.low = self.floor = offset + 1

    def choose(self, low: int, floor: int) -> None:
        self.choice += 1
        self.work = None
        self.low, self.floor = low, floor


class Walk:
    """One consumer, the tasks that read from it, and three transactions."""

    def __init__(self, cluster: FakeCluster, chance: random.Random) -> None:
        self.cluster = cluster
        self.chance = chance
        self.tps = [TopicPartition("orders", index) for index in range(PARTITIONS)]
        self.models = {tp: Model() for tp in self.tps}
        self.assigned = set(self.tps)
        self.calm = False
        self.count = 0
        self.given_back = 0
        self.auto_commits = 0
        self.highest_commit = dict.fromkeys(self.tps, 0)
        self.consumer: AIOKafkaConsumer
        self.producers: list[AIOKafkaProducer] = []
        self.open: dict[AIOKafkaProducer, list[tuple[TopicPartition, int]]] = {}
        self.readers: dict[int, asyncio.Task[None]] = {}
        self.acts: dict[Callable[[], Awaitable[None] | None], float] = {
            self.write: 4,
            self.write_in_transaction: 6,
            self.decide: 5,
            self.start_or_cancel_reader: 12,
            self.seek: 2,
            self.pause: 1,
            self.resume: 3,
            self.assign: 1,
            self.lead: 1,
            self.delete: 0.3,
            self.compact: 1,
            self.delay_a_commit: 6,
            self.rest: 12,
        }

    async def step(self) -> None:
        (act,) = self.chance.choices(list(self.acts), list(self.acts.values()))
        done = act()
        if done is not None:
            await done
        self.check()

    def check(self) -> None:
        for reader in self.readers.values():
            if reader.done() and not reader.cancelled() and (error := reader.exception()):
                raise error
        for tp in self.assigned:
            position = self.consumer._core.positions.state(tp).position
            if position is not None:
                self.check_passed(tp, self.models[tp].floor, position)

    def bound(self, tp: TopicPartition) -> int:
        """The end of auto-commits: before the batch that a block is processing, unless that was
        deleted, and the position reset."""
        model = self.models[tp]
        if model.work is None or model.work < self.cluster.partition(*tp).log.start_offset:
            return model.floor
        return min(model.work, model.floor)

    def check_passed(self, tp: TopicPartition, begin: int, end: int) -> None:
        passed = self.models[tp].passes_over(begin, end)
        assert not passed, f"{tp} stands at {end}, {passed} were passed over"

    def watch_commits(self) -> None:
        """Check every offset that is about to be committed automatically."""
        group = self.consumer._core.group
        assert group is not None
        commits = group.commits
        given = commits.given

        def checked(
            partitions: Collection[TopicPartition] | None = None,
            *,
            settled: bool = True,
            at_work: bool = True,
        ) -> dict[TopicPartition, OffsetAndMetadata]:
            offsets = given(partitions, settled=settled, at_work=at_work)
            assert not at_work
            for tp, committed in offsets.items():
                self.check_passed(tp, self.bound(tp), committed.offset)
                self.highest_commit[tp] = max(self.highest_commit[tp], committed.offset)
                self.auto_commits += 1
            return offsets

        commits.given = checked  # type: ignore[method-assign]  # a spy

    # --- what happens to the logs

    def value(self) -> bytes:
        self.count += 1
        return b"%d " % self.count + self.chance.randbytes(self.chance.choice([0, 10, 300]))

    def write(self) -> None:
        tp = self.chance.choice(self.tps)
        log, model = self.cluster.partition(*tp).log, self.models[tp]
        builder = BatchBuilder(1 << 20)
        for _ in range(self.chance.choice([1, 3, 20])):
            value, offset = self.value(), log.end_offset + builder.count
            builder.append(1000, b"%d" % self.chance.randrange(40), value, ())
            model.written[offset] = value
            model.there.add(offset)
        sealed = bytearray(builder.seal(self.chance.choice([Compression.NONE, Compression.GZIP])))
        rebase(memoryview(sealed), 0, 0, 0)
        append_batch(self.cluster, sealed, *tp)

    async def write_in_transaction(self) -> None:
        producer = self.chance.choice(self.producers)
        if producer not in self.open:
            await producer.begin_transaction()
            self.open[producer] = []
        tp = self.chance.choice(self.tps)
        values = [self.value() for _ in range(self.chance.choice([1, 5, 30]))]
        key = b"%d" % self.chance.randrange(40)
        acks = [await producer.send(*tp[:1], each, key, partition=tp.partition) for each in values]
        model = self.models[tp]
        for value, ack in zip(values, acks, strict=True):
            offset = (await ack).offset
            model.written[offset] = value
            model.there.add(offset)
            self.open[producer].append((tp, offset))

    async def decide(self) -> None:
        if self.open:
            producer = self.chance.choice(list(self.open))
            records = self.open.pop(producer)
            if self.chance.random() < 0.5:
                await producer.commit_transaction()
            else:
                for tp, offset in records:
                    self.models[tp].there.discard(offset)
                    del self.models[tp].written[offset]
                await producer.abort_transaction()

    def delete(self) -> None:
        tp = self.chance.choice(self.tps)
        log = self.cluster.partition(*tp).log
        before = self.chance.randint(log.start_offset, log.end_offset)
        if any(at == tp and offset < before for own in self.open.values() for at, offset in own):
            return  # an open transaction is not deleted
        self.cluster.delete_records(*tp, before)
        self.models[tp].there = {each for each in self.models[tp].there if each >= before}

    def compact(self) -> None:
        if self.open:
            return
        self.cluster.compact("orders")
        for tp in self.tps:
            log = self.cluster.partition(*tp).log
            data = b"".join(bytes(batch) for batch in log.batches())
            kept = RecordSet(data, "orders", 0, log.start_offset).read(10**6)
            self.models[tp].there &= {record.offset for record in kept}

    def lead(self) -> None:
        self.cluster.move_leader(*self.chance.choice(self.tps), self.chance.randrange(BROKERS))

    def delay_a_commit(self) -> None:
        delay, handled = self.chance.choice([0.005, 0.02]), self.chance.random() < 0.5
        self.cluster.control(ApiKey.OFFSET_COMMIT, delay=delay, after_handling=handled)

    # --- what the application does

    def seek(self) -> None:
        for tp in self.some(1):
            offset = self.chance.randint(0, self.cluster.partition(*tp).log.end_offset)
            self.consumer.seek(tp, offset)
            self.models[tp].choose(offset, offset)

    def pause(self) -> None:
        self.consumer.pause(*self.some(1))

    def resume(self) -> None:
        self.consumer.resume(*self.assigned)

    def assign(self) -> None:
        gone = set(self.some(1))
        floors = {tp: self.floor_after_assignment(tp) for tp in gone}
        self.consumer.assign(self.assigned - gone)
        self.consumer.assign(self.assigned)
        for tp, floor in floors.items():
            self.models[tp].choose(0, floor)

    def floor_after_assignment(self, tp: TopicPartition) -> int:
        """The highest offset at which a partition may begin once it is assigned again: its
        position, or its last commit if it had none because the log had lost the offset sought."""
        state = self.consumer._core.positions.state(tp)
        if state.position is None and not state.resumes:
            return max(self.bound(tp), self.highest_commit[tp])
        return self.bound(tp)

    async def rest(self) -> None:
        await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.003]))

    def some(self, count: int) -> list[TopicPartition]:
        return self.chance.sample(sorted(self.assigned), count)

    # --- the tasks that read

    async def start_or_cancel_reader(self) -> None:
        place = self.chance.randrange(5)
        before = self.readers.pop(place, None)
        if before is not None and not before.done():
            before.cancel()
            await asyncio.wait([before])
            self.check()
        kinds: list[Callable[[], Coroutine[Any, Any, None]]] = [self.blocks, self.blocks]
        kinds += [self.blocks_of_columns, self.getone, self.getone_of, self.getmany, self.iterate]
        self.readers[place] = asyncio.create_task(self.chance.choice(kinds)())

    def see(self, records: Iterable[Any]) -> None:
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            self.models[tp].see(record.offset, record.value)

    async def getone(self) -> None:
        for _ in range(self.chance.choice([1, 10])):
            self.see([await self.consumer.getone()])
            await self.rest()

    async def getone_of(self) -> None:
        (tp,) = self.some(1)
        for _ in range(5):
            self.see([await self.consumer.getone(tp)])
            await self.rest()

    async def getmany(self) -> None:
        for _ in range(5):
            for records in (await self.consumer.getmany(timeout_ms=3, max_records=7)).values():
                self.see(records)
            await self.rest()

    async def iterate(self) -> None:
        left = self.chance.choice([1, 30])
        async for record in self.consumer:
            self.see([record])
            await self.rest()
            left -= 1
            if not left:
                break

    async def blocks(self) -> None:
        while True:
            with contextlib.suppress(Hiccup):
                limit = self.chance.choice([1, 8, 50])
                async with self.consumer.batches(max_records=limit) as batches:
                    async for batch in batches:
                        rows = [(record.offset, record.value) for record in batch.records]
                        async with self.at_work(batch.topic_partition, batch.start, rows):
                            await self.process()

    async def blocks_of_columns(self) -> None:
        while True:
            with contextlib.suppress(Hiccup):
                async with self.consumer.batches(max_records=20, columns=True) as batches:
                    async for batch in batches:
                        rows = list(rows_of(batch.columns))
                        async with self.at_work(batch.topic_partition, batch.start, rows):
                            await self.process()

    async def process(self) -> None:
        for _ in range(self.chance.choice([0, 1, 3, 10])):
            await self.rest()
        if not self.calm and self.chance.random() < 0.4:
            raise Hiccup

    @contextlib.asynccontextmanager
    async def at_work(
        self, tp: TopicPartition, start: int, rows: Iterable[tuple[int, bytes | None]]
    ) -> AsyncIterator[None]:
        """The model of a batch while a block is processing it. The step that leaves this also
        leaves the block, or requests the next batch."""
        model = self.models[tp]
        if model.work is not None:
            # Only if that batch was deleted while its block was processing it, and the position
            # reset.
            log = self.cluster.partition(*tp).log
            assert model.work < log.start_offset <= start, "two blocks work on one partition"
            model.choose(model.low, model.floor)
        choice = model.choice
        for offset, value in rows:
            model.see(offset, value)
        model.work = start
        try:
            yield
        except BaseException:
            if model.choice == choice:
                self.given_back += 1
                model.low = model.floor = start
            raise
        finally:
            if model.choice == choice:
                model.work = None

    # --- the end

    async def end(self) -> None:
        self.calm = True
        self.resume()
        while self.open:
            await self.decide()
        for reader in self.readers.values():
            reader.cancel()
        if self.readers:
            await asyncio.wait(self.readers.values())
        self.check()
        self.readers = {0: asyncio.create_task(self.blocks())}
        while any(
            model.there and max(model.there) >= self.bound(tp) for tp, model in self.models.items()
        ):
            await asyncio.sleep(0.002)
            self.check()
        self.readers[0].cancel()
        await asyncio.wait(self.readers.values())
        await self.consumer.stop()
        for tp, offset in self.cluster.committed("walkers").items():
            self.check_passed(TopicPartition(*tp), self.bound(TopicPartition(*tp)), offset)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_failed_batches_are_read_again_whatever_else_reads(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(heavy_batches, "HEAVY_BATCH", chance.choice([200, 2000]))
    monkeypatch.setattr(thread_decoding, "HEAVY_CHUNK", 7)
    async with (
        FakeCluster(brokers=BROKERS, seed=seed) as cluster,
        contextlib.AsyncExitStack() as stack,
    ):
        cluster.create_topic("orders", PARTITIONS, 2, {"cleanup.policy": "compact,delete"})
        walk = Walk(cluster, chance)
        for index in range(3):
            producer = AIOKafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers,
                transactional_id=f"walk-{index}",
                compression_type=chance.choice([None, "gzip"]),
                retry_backoff_ms=1,
            )
            walk.producers.append(await stack.enter_async_context(producer))
        walk.consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="walkers",
            auto_commit_interval_ms=2,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=5,
            retry_backoff_ms=1,
            max_partition_fetch_bytes=chance.choice([500, 4000]),
            isolation_level="read_committed",
        )
        walk.watch_commits()
        walk.consumer.assign(walk.tps)
        async with walk.consumer:
            try:
                walk.readers = {place: asyncio.create_task(walk.blocks()) for place in range(2)}
                for _ in range(STEPS):
                    await walk.step()
                async with asyncio.timeout(20):
                    await walk.end()
            finally:
                for reader in walk.readers.values():
                    reader.cancel()
                await asyncio.gather(*walk.readers.values(), return_exceptions=True)
        assert walk.given_back
        assert walk.auto_commits
        cluster.raise_failures()
