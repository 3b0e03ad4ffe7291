"""An application reads in every way, and changes its subscription, while logs grow, are truncated
at their start and compacted, and brokers misbehave: each partition is read in order, no existing
record is skipped, and none is handed out twice.

SEEDS (default 6) is the number of walks.
"""

import asyncio
import contextlib
import os
import random
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import pytest

from aiokafka_lite.consumer.buffering import thread_decoding
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.fetching import broker_fetch
from aiokafka_lite.errors import KafkaError
from aiokafka_lite.net import buffers, frames
from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.reading import heavy_batches
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.columnar.columns import Columns
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import rebase
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.seeds import seeds
from tests.unit.consumer.makers import append_batch, control_batch

SEEDS = int(os.environ.get("SEEDS", "6"))
STEPS = 250
PARTITIONS = 4
BROKERS = 2
ERRORS = [2, 3, 5, 6, 9, 56, 70, 71, 72, 74, 75, 76, 78, 100, 103, -1]
"""Codes for a partition of a fetch, except OFFSET_OUT_OF_RANGE, which moves the position."""


class Hiccup(Exception):
    """Raised by a deserializer, or by the application within a block of batches."""


class Model:
    """The expected reads of one partition.

    Attributes:
        position: Offset of the next record, or one before it.
        written: By offset, every value that was written.
        there: By offset, those that are still in the log.
    """

    def __init__(self) -> None:
        self.position = 0
        self.written: dict[int, bytes] = {}
        self.there: set[int] = set()

    def passes_over(self, until: int) -> list[int]:
        """Records that a position at `until` would have skipped."""
        return sorted(each for each in self.there if self.position <= each < until)

    def see(self, offset: int, value: object) -> None:
        """This record was handed out."""
        assert offset >= self.position, f"{offset} after {self.position}"
        assert self.passes_over(offset) == []
        assert value == self.written[offset]
        self.position = offset + 1

    @property
    def left(self) -> bool:
        return bool(self.there) and max(self.there) >= self.position


class Walk:
    """One consumer of four partitions on two brokers."""

    def __init__(self, cluster: FakeCluster, chance: random.Random) -> None:
        self.cluster = cluster
        self.chance = chance
        self.tps = [TopicPartition("orders", index) for index in range(PARTITIONS)]
        self.models = {tp: Model() for tp in self.tps}
        self.assigned = set(self.tps)
        self.calm = False
        self.count = 0
        self.kept: list[tuple[Columns, list[tuple[int, bytes]]]] = []
        self.consumer: AIOKafkaConsumer
        self.raw = True  # whether columns can be read
        self.acts: dict[Callable[[], Awaitable[None] | None], float] = {
            self.write: 6,
            self.read: 20,
            self.insist: 3,
            self.seek: 3,
            self.seek_to_end: 0.5,
            self.pause: 3,
            self.resume: 3,
            self.assign: 1,
            self.evict: 2,
            self.lead: 1.5,
            self.kill: 0.5,
            self.strike: 3,
            self.lose_session: 1,
            self.delete: 1,
            self.compact: 1,
            self.rest: 3,
        }

    def deserialize(self, value: bytes | None) -> bytes | None:
        if not self.calm and self.chance.random() < 0.01:
            raise Hiccup
        return value

    async def step(self) -> None:
        (act,) = self.chance.choices(list(self.acts), list(self.acts.values()))
        done = act()
        if done is not None:
            await done
        self.check()

    def check(self) -> None:
        for tp in self.assigned:
            position = self.consumer._core.positions.state(tp).position
            if position is not None:
                assert position >= self.models[tp].position
                assert self.models[tp].passes_over(position) == []
        assert self.consumer.assignment() == self.assigned

    # --- what happens to the logs

    def write(self) -> None:
        tp = self.chance.choice(self.tps)
        log = self.cluster.partition(*tp).log
        if self.chance.random() < 0.1:
            append_batch(self.cluster, control_batch(), *tp)
            return
        builder = BatchBuilder(1 << 20)
        model = self.models[tp]
        for _ in range(self.chance.choice([1, 1, 3, 20, 60])):
            self.count += 1
            value = b"%d " % self.count + bytes(self.chance.choice([0, 10, 300]))
            offset = log.end_offset + builder.count
            builder.append(1000, b"%d" % self.chance.randrange(40), value, ())
            model.written[offset] = value
            model.there.add(offset)
        codec = self.chance.choice([Compression.NONE, Compression.NONE, Compression.LZ4])
        sealed = bytearray(builder.seal(codec))
        rebase(memoryview(sealed), 0, 0, 0)
        append_batch(self.cluster, sealed, *tp)

    def delete(self) -> None:
        tp = self.chance.choice(self.tps)
        log = self.cluster.partition(*tp).log
        before = self.chance.randint(log.start_offset, log.end_offset)
        self.cluster.delete_records(*tp, before)
        self.models[tp].there = {each for each in self.models[tp].there if each >= before}

    def compact(self) -> None:
        self.cluster.compact("orders")
        for tp in self.tps:
            log = self.cluster.partition(*tp).log
            data = b"".join(bytes(batch) for batch in log.batches())
            kept = RecordSet(data, "orders", 0, log.start_offset).read(10**6)
            self.models[tp].there &= {record.offset for record in kept}

    # --- what happens to the brokers

    def lead(self) -> None:
        self.cluster.move_leader(*self.chance.choice(self.tps), self.chance.randrange(BROKERS))

    async def kill(self) -> None:
        node = self.chance.randrange(BROKERS)
        self.cluster.kill(node)
        await self.rest()
        await self.cluster.restart(node)

    def lose_session(self) -> None:
        self.cluster.state.fetch_sessions[self.chance.randrange(BROKERS)].clear()

    def strike(self) -> None:
        times = self.chance.choice([1, 1, 3])
        control = self.cluster.control
        match self.chance.randrange(7):
            case 0:
                control(ApiKey.FETCH, times=times, error=self.chance.choice(ERRORS))
            case 1:
                tp = self.chance.choice(self.tps)
                error = self.chance.choice(ERRORS)
                control(ApiKey.FETCH, times=times, error=error, partitions=[tp])
            case 2:
                control(ApiKey.FETCH, after_handling=True, disconnect=True)
            case 3:
                control(ApiKey.FETCH, times=times, delay=0.01)
            case 4:
                control(ApiKey.LIST_OFFSETS, error=self.chance.choice([5, 6, 74, 78]))
            case 5:
                control(ApiKey.OFFSET_FOR_LEADER_EPOCH, error=self.chance.choice([6, 74, 76]))
            case 6:
                self.cluster.disconnect(self.chance.randrange(BROKERS))

    # --- what the application does

    def seek(self) -> None:
        for tp in self.some():
            model = self.models[tp]
            model.position = self.chance.randint(0, self.cluster.partition(*tp).log.end_offset)
            self.consumer.seek(tp, model.position)

    async def seek_to_end(self) -> None:
        for tp in self.some(1):
            self.models[tp].position = 0  # it may be anywhere, until it is known
            there, self.models[tp].there = self.models[tp].there, set()
            with contextlib.suppress(KafkaError):  # the position is still looked up
                await self.consumer.seek_to_end(tp)
            try:
                self.models[tp].position = await self.consumer.position(tp)
            finally:
                self.models[tp].there = there

    def pause(self) -> None:
        self.consumer.pause(*self.some())

    def resume(self) -> None:
        self.consumer.resume(*self.some())

    def assign(self) -> None:
        gone = self.assigned - set(self.some(3))
        self.assigned -= gone
        self.consumer.assign(self.assigned)
        if self.chance.random() < 0.5:
            return
        came = set(self.tps) - self.assigned
        self.assigned = set(self.tps)
        self.consumer.assign(self.tps)
        for tp in came:
            self.models[tp].position = 0

    def evict(self) -> None:
        self.consumer._core.buffer.evict_paused()

    async def rest(self) -> None:
        await asyncio.sleep(self.chance.choice([0, 0, 0.001, 0.01, 0.03]))

    def some(self, count: int | None = None) -> list[TopicPartition]:
        among = sorted(self.assigned)
        if count is None:
            count = self.chance.randint(1, 2)
        return self.chance.sample(among, min(count, len(among)))

    async def read(self) -> None:
        """One or two read for a while."""
        reads = [self.getone, self.getone_of, self.getmany, self.getmany_of, self.iterate]
        chosen = self.chance.sample(reads, 2)
        if self.chance.random() < 0.7:
            alone = [*reads, self.batches] + [self.columns] * self.raw
            chosen = [self.chance.choice(alone)]
        readers = [asyncio.ensure_future(each()) for each in chosen]
        for reader in readers:
            for _ in range(self.chance.choice([0, 1, 2, 3, 5, 20, 200])):
                if reader.done():
                    break
                await asyncio.sleep(0)
            if self.chance.random() < 0.3:
                await asyncio.wait([reader], timeout=0.01)
            reader.cancel()
        await asyncio.wait(readers)
        for reader in readers:
            if not reader.cancelled() and (error := reader.exception()) is not None:
                self.expect(error)

    async def insist(self) -> None:
        """A reader that waits for one partition with records gets the next one in a single wait."""
        paused = self.consumer.paused()
        there = [tp for tp in self.some(PARTITIONS) if self.models[tp].left and tp not in paused]
        if there:
            async with asyncio.timeout(10):
                while True:
                    try:
                        self.see([await self.consumer.getone(there[0])])
                    except (Hiccup, KafkaError) as error:
                        self.expect(error)
                    else:
                        return

    def expect(self, error: BaseException) -> None:
        """Accept an error that may be raised; any other one is a bug."""
        if not isinstance(error, Hiccup) and getattr(error, "errno", None) not in ERRORS:
            raise error

    def see(self, records: Iterable[Any]) -> None:
        for record in records:
            tp = TopicPartition(record.topic, record.partition)
            assert tp in self.assigned
            assert tp not in self.consumer.paused()
            self.models[tp].see(record.offset, record.value)

    async def getone(self) -> None:
        for _ in range(self.chance.choice([1, 1, 30])):
            self.see([await self.consumer.getone()])

    async def getone_of(self) -> None:
        among = self.some()
        if among:
            record = await self.consumer.getone(*among)
            assert TopicPartition(record.topic, record.partition) in among
            self.see([record])

    async def getmany(self) -> None:
        limit = self.chance.choice([None, 1, 5, 40])
        timeout = self.chance.choice([0, 0, 5])
        for lists in (await self.consumer.getmany(timeout_ms=timeout, max_records=limit)).values():
            self.see(lists)

    async def getmany_of(self) -> None:
        among = self.some()
        if among:
            lists = await self.consumer.getmany(*among, timeout_ms=3, max_records=7)
            for records in lists.values():
                self.see(records)

    async def iterate(self) -> None:
        left = self.chance.choice([1, 10, 100])
        async for record in self.consumer:
            self.see([record])
            left -= 1
            if not left:
                break

    async def batches(self) -> None:
        limit = self.chance.choice([1, 8, 50])
        async with self.consumer.batches(max_records=limit) as batches:
            async for batch in batches:
                model = self.models[batch.topic_partition]
                before = model.position
                self.see(batch.records)
                if self.chance.random() < 0.3:
                    model.position = before
                    raise Hiccup
                if self.chance.random() < 0.3:
                    model.position = before
                    await asyncio.sleep(0.001)  # cancelled here, it is given back as well
                    self.see(batch.records)
                    break

    async def columns(self) -> None:
        async with self.consumer.batches(max_records=20, columns=True) as batches:
            async for batch in batches:
                model = self.models[batch.topic_partition]
                rows = list(rows_of(batch.columns))
                for offset, value in rows:
                    model.see(offset, value)
                self.kept.append((batch.columns, rows))
                break

    # --- the end

    async def end(self) -> None:
        self.calm = True
        self.cluster._control.faults.clear()
        self.assign_all()
        for _ in range(5):
            self.write()
        while any(model.left for model in self.models.values()):
            try:
                record = await self.consumer.getone()
            except (Hiccup, KafkaError) as error:
                self.expect(error)
            else:
                self.see([record])
            self.check()

    def assign_all(self) -> None:
        came = set(self.tps) - self.assigned
        self.assigned = set(self.tps)
        self.consumer.assign(self.tps)
        self.consumer.resume(*self.tps)
        for tp in came:
            self.models[tp].position = 0


def rows_of(columns: Columns) -> Iterator[tuple[int, bytes]]:
    """Offsets and values."""
    starts, lengths = array("i", columns.value_starts), array("i", columns.value_lengths)
    for offset, start, length in zip(array("q", columns.offsets), starts, lengths, strict=True):
        yield offset, bytes(columns.data[start : start + length])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", seeds(SEEDS))
async def test_each_record_is_read_once_and_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(frames, "FIRST_SCRATCH", 512)
    monkeypatch.setattr(frames, "LARGEST_SCRATCH", 512)
    monkeypatch.setattr(buffers, "SMALLEST", 512)  # so that memory is reused repeatedly
    monkeypatch.setattr(broker_fetch, "LEAST_RESPONSE", 1000)
    monkeypatch.setattr(
        heavy_batches, "HEAVY_BATCH", chance.choice([200, 2000, heavy_batches.HEAVY_BATCH])
    )
    monkeypatch.setattr(thread_decoding, "HEAVY_CHUNK", 7)
    async with FakeCluster(brokers=BROKERS, seed=seed) as cluster:
        cluster.create_topic("orders", PARTITIONS, 2, {"cleanup.policy": "compact,delete"})
        walk = Walk(cluster, chance)
        options: dict[str, Any] = {}
        if chance.random() < 0.4:
            options["value_deserializer"] = walk.deserialize
            walk.raw = False
        walk.consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=5,
            retry_backoff_ms=1,
            consumer_timeout_ms=2,
            request_timeout_ms=3000,
            max_partition_fetch_bytes=chance.choice([500, 4000]),
            buffer_memory=chance.choice([3000, 20_000, 1 << 20]),
            isolation_level=chance.choice(["read_committed", "read_uncommitted"]),
            **options,
        )
        walk.consumer._core.reader._chunk = chance.choice([3, 32])
        walk.consumer.assign(walk.tps)
        async with walk.consumer:
            for _ in range(STEPS):
                await walk.step()
            async with asyncio.timeout(20):
                await walk.end()
            for columns, rows in walk.kept:
                assert list(rows_of(columns)) == rows
        cluster.raise_failures()
