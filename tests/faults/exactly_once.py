"""Workers of one group that read, process and write in transactions; their input, and the check of
their output."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from aiokafka_lite import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRecord,
    TopicPartition,
    exactly_once,
)
from aiokafka_lite.errors import KafkaError, ProducerFenced

INPUT, OUTPUT, GROUP = "input", "output", "workers"
PARTITIONS = 4
PLACES = [TopicPartition(INPUT, number) for number in range(PARTITIONS)]
SESSION = 1.0  # seconds


class Worker:
    """A member that is killed and restarted with one transactional id.

    Args:
        bootstrap: Of the cluster.
        number: Its own.
        seed: The seed of all random choices.
        protocol: Of the group.
        pace: Seconds that one of the embedded cluster's stands for.
    """

    def __init__(
        self, bootstrap: str, number: int, seed: int, protocol: str, pace: float = 1.0
    ) -> None:
        self.bootstrap = bootstrap
        self.name = f"worker-{number}"
        self.random = Random(f"{seed} {number}")
        self.protocol = protocol
        self.pace = pace
        self.events: Counter[str] = Counter()

    async def run(self, end: asyncio.Event, calm: asyncio.Event) -> None:
        while not end.is_set():
            self.events["lives"] += 1
            try:
                await self._live(end, calm)
            except KafkaError as error:
                self.events[f"ended by {type(error).__name__}"] += 1

    async def _live(self, end: asyncio.Event, calm: asyncio.Event) -> None:
        timeouts: dict[str, Any] = {}
        if self.protocol == "classic":
            session = SESSION * self.pace * 1000
            timeouts = {"session_timeout_ms": session, "heartbeat_interval_ms": session / 5}
        consumer = AIOKafkaConsumer(
            INPUT,
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            group_protocol=self.protocol,
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            request_timeout_ms=int(2_000 * self.pace),
            retry_backoff_ms=10,
            max_poll_records=20,
            max_poll_interval_ms=int(SESSION * self.pace * 1000),  # who sleeps for longer is out
            **timeouts,
        )
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.name,
            request_timeout_ms=400 * self.pace,
            delivery_timeout_ms=3_000 * self.pace,
            retry_backoff_ms=10,
            max_block_ms=10_000 * self.pace,
        )
        try:
            await producer.start()
            await consumer.start()
            if self.random.random() < 0.5:
                await self._work(consumer, producer, end, calm)
            else:
                await self._work_by_helper(consumer, producer, end, calm)
        finally:
            if self.random.random() < 0.3:
                producer._sender.abort()  # as with SIGKILL: nothing is sent
            await producer.stop(timeout=1)
            await consumer.stop()

    async def _work(
        self,
        consumer: AIOKafkaConsumer,
        producer: AIOKafkaProducer,
        end: asyncio.Event,
        calm: asyncio.Event,
    ) -> None:
        life = self.random.randint(3, 40)
        while not end.is_set() and (life > 0 or calm.is_set()):
            batches = await consumer.getmany(timeout_ms=100)
            if not batches:
                continue
            life -= 1
            try:
                async with producer.transaction():
                    group = consumer.group_metadata()
                    for tp, records in batches.items():
                        for record in records:
                            await producer.send(OUTPUT, record.value, partition=tp.partition)
                    await self._doze(calm)
                    offsets = {tp: records[-1].offset + 1 for tp, records in batches.items()}
                    await producer.send_offsets_to_transaction(offsets, group)
                self.events["committed"] += 1
            except ProducerFenced:
                raise
            except KafkaError as error:
                self.events[type(error).__name__] += 1
                await go_back(consumer, batches)

    async def _work_by_helper(
        self,
        consumer: AIOKafkaConsumer,
        producer: AIOKafkaProducer,
        end: asyncio.Event,
        calm: asyncio.Event,
    ) -> None:
        life = self.random.randint(3, 40)

        async def stop_at_the_end() -> None:
            await end.wait()
            await consumer.stop()

        ending = asyncio.create_task(stop_at_the_end())
        try:
            async with exactly_once(consumer, producer, max_records=20) as batches:
                async for batch in batches:
                    for part in batch.parts:
                        partition = part.topic_partition.partition
                        for record in part:
                            await producer.send(OUTPUT, record.value, partition=partition)
                    await self._doze(calm)
                    self.events["by exactly_once()"] += 1
                    life -= 1
                    if life <= 0 and not calm.is_set():
                        break
        finally:
            ending.cancel()
            await asyncio.wait([ending])

    async def _doze(self, calm: asyncio.Event) -> None:
        """Sleep from time to time, long enough that others may own its partitions afterwards."""
        if self.random.random() < 0.05 and not calm.is_set():
            self.events["slept"] += 1
            await asyncio.sleep(SESSION * self.pace * 1.5)


async def go_back(
    consumer: AIOKafkaConsumer, batches: Mapping[TopicPartition, Sequence[ConsumerRecord[Any, Any]]]
) -> None:
    """Read the same records again: from the committed offsets, or from the start if there are
    none."""
    if not consumer.assignment():
        return
    for tp, offset in (await consumer.seek_to_committed()).items():
        if offset is None and tp in batches and tp in consumer.assignment():
            consumer.seek(tp, batches[tp][0].offset)


async def write(bootstrap: str, seconds: float) -> Counter[int]:
    """Write numbered inputs for a while; return the number per partition."""
    written: Counter[int] = Counter()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        while loop.time() < deadline:
            acks = []
            for number in range(PARTITIONS):
                for _ in range(5):
                    value = b"%d" % written[number]
                    acks.append(await producer.send(INPUT, value, partition=number))
                    written[number] += 1
            await asyncio.gather(*acks)
            await asyncio.sleep(0.02)
    return written


async def left(bootstrap: str, places: list[TopicPartition]) -> bool:
    """True if some input is not processed yet."""
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=GROUP, enable_auto_commit=False
    ) as consumer:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        return any([await consumer.committed(place) != ends[place] for place in places])


async def read(bootstrap: str) -> dict[int, list[int]]:
    """The committed outputs, in order."""
    places = [TopicPartition(OUTPUT, number) for number in range(PARTITIONS)]
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign(places)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as other:
            ends = await other.end_offsets(places)  # of all records, committed or not
        async with asyncio.timeout(30):
            while any([await consumer.position(place) < ends[place] for place in places]):
                for place, records in (await consumer.getmany(timeout_ms=50)).items():
                    found[place.partition] += [int(record.value or b"") for record in records]
    return found


async def play_out(
    bootstrap: str, workers: list[Worker], seconds: float, at_peace: asyncio.Event
) -> Counter[int]:
    """Feed the workers, then let them finish without faults; return the number of inputs."""
    calm, end = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(worker.run(end, calm))
        written = await write(bootstrap, seconds)
        at_peace.set()
        calm.set()
        async with asyncio.timeout(90):
            while await left(bootstrap, PLACES):
                await asyncio.sleep(0.2)
        end.set()
    for worker in workers:  # abort the open transaction, as a successor does
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=worker.name):
            pass
    return written
