"""A partition's log is written, truncated, moved to other leaders, deleted and recreated at random
while a consumer reads: at the end it has read, at each offset, the record that is there.

SEEDS (default 8) is the number of walks.
"""

import asyncio
import os
import random

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.errors import LogTruncationError, OffsetOutOfRangeError
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.seeds import seeds
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append

pytestmark = pytest.mark.unhurried

P0 = TopicPartition("orders", 0)
STEPS = 60
SEEDS = int(os.environ.get("SEEDS", "8"))


class Walk:
    """One partition, one consumer, and the last record that it read at each offset."""

    def __init__(self, cluster: FakeCluster, consumer: AIOKafkaConsumer, seed: int) -> None:
        self.cluster = cluster
        self.consumer = consumer
        self.seen: dict[int, bytes | None] = {}
        self.random = random.Random(seed)
        self.written = 0

    async def step(self) -> None:
        acts = {
            self.write: 8,
            self.read: 8,
            self.cut: 3,
            self.lead: 2,
            self.pause: 1,
            self.resume: 2,
            self.give_up: 1,
            self.refresh: 1,
            self.make_again: 0.5,
        }
        (act,) = self.random.choices(list(acts), list(acts.values()))
        await act()

    async def write(self) -> None:
        count = self.random.choice([1, 3, 400])
        append(self.cluster, [b"%d" % i for i in range(self.written, self.written + count)])
        self.written += count

    async def read(self, timeout_ms: int = 5) -> None:
        limit = self.random.choice([1, 2, 300, 1000])
        try:
            lists = await self.consumer.getmany(timeout_ms=timeout_ms, max_records=limit)
        except OffsetOutOfRangeError as error:  # without a policy: begin where the logs diverge
            divergent = error.divergent_offsets if isinstance(error, LogTruncationError) else {}
            self.consumer.seek(P0, divergent.get(P0, 0))
            return
        for record in lists.get(P0, ()):
            self.seen[record.offset] = record.value

    async def cut(self) -> None:
        log = self.cluster.partition(*P0).log
        back = self.random.choice([0, 1, 2, 500])
        self.cluster.truncate(*P0, max(log.end_offset - back, log.start_offset))
        for _ in range(self.random.choice([0, 0, 1, 3])):  # it may soon be longer than before
            await self.write()

    async def lead(self) -> None:
        self.cluster.move_leader(*P0, self.random.randrange(3))

    async def pause(self) -> None:
        self.consumer.pause(P0)

    async def resume(self) -> None:
        self.consumer.resume(P0)

    async def give_up(self) -> None:
        self.consumer._core.buffer.evict_paused()

    async def refresh(self) -> None:
        cluster = self.consumer._core.cluster
        await cluster.refresh(asyncio.get_running_loop().time() + 5)

    async def make_again(self) -> None:
        self.cluster.delete_topic("orders")
        self.cluster.create_topic("orders", 1)

    async def end(self) -> None:
        """Read until the very last record has arrived."""
        await self.resume()
        await self.write()
        last = b"%d" % (self.written - 1)
        async with asyncio.timeout(20):
            while last not in self.seen.values():
                await self.read(timeout_ms=50)

    def stored(self) -> dict[int, bytes | None]:
        log = self.cluster.partition(*P0).log
        data = b"".join(bytes(batch) for batch in log.batches())
        records = RecordSet(data, "orders", 0, log.start_offset).read(10**6)
        return {record.offset: record.value for record in records}


@pytest.mark.parametrize("policy", ["earliest", "none"])
@pytest.mark.parametrize("seed", seeds(SEEDS))
async def test_all_records_left_in_a_truncated_log_are_read(
    make: MakeConsumer, seed: int, policy: str
) -> None:
    async with FakeCluster(brokers=3, topics={"orders": 1}) as cluster:
        consumer = make(
            bootstrap_servers=cluster.bootstrap_servers,
            fetch_max_wait_ms=5,
            retry_backoff_ms=1,
            auto_offset_reset=policy,
        )
        consumer.assign([P0])
        consumer.seek(P0, 0)
        await consumer.start()
        walk = Walk(cluster, consumer, seed)
        for _ in range(STEPS):
            await walk.step()
        await walk.end()
        stored = walk.stored()
        assert {offset: walk.seen.get(offset) for offset in stored} == stored
