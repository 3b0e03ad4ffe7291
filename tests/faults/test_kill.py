"""Brokers are killed (SIGKILL) and restart while records flow; acknowledged records are stored.

Every value carries its number. The producer notes where each acknowledged record was stored; a
consumer reads along the whole time. At the end the topic is read to its end and compared: each
acknowledged record has the offset from its ack and the same bytes, and the consumer that ran
throughout has seen every record too, in order within a partition.

CHAOS_MINUTES (default 0.1) is how long records flow; CHAOS_SEED seeds the schedule of kills.
"""

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import KafkaError
from tools.kafka import KafkaCluster

SECONDS = 60 * float(os.environ.get("CHAOS_MINUTES", "0.1"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
PARTITIONS = 6
SENDERS = 20
ENOUGH = 1000  # records acknowledged; a busy machine takes longer for them

CLUSTERS = [
    pytest.param(1, id="one broker"),
    pytest.param(3, id="three brokers", marks=pytest.mark.long),
]

pytestmark = [pytest.mark.real, pytest.mark.timeout(SECONDS + 150)]


@pytest.fixture(scope="module", params=CLUSTERS)
def mortal(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A separate cluster: the shared ones must not die during other tests."""
    with KafkaCluster(
        nodes=request.param, config={"min.insync.replicas": min(2, request.param)}
    ) as k:
        yield k


class Sent:
    """What the producer learned: where acknowledged records are, and which may be anywhere."""

    def __init__(self) -> None:
        self.acked: dict[tuple[int, int], bytes] = {}  # (partition, offset) -> value
        self.failed: list[KafkaError] = []
        self.next_number = 0

    def value(self) -> bytes:
        self.next_number += 1
        return b"%012d" % self.next_number + b"." * 88


async def send_until(
    stop: asyncio.Event, producer: AIOKafkaProducer, topic: str, sent: Sent
) -> None:
    while not stop.is_set():
        value = sent.value()
        try:
            done = await producer.send_and_wait(topic, value)
        except KafkaError as error:
            sent.failed.append(error)
            continue
        assert done is not None
        place = (done.partition, done.offset)
        assert place not in sent.acked, f"two records were acknowledged at {place}"
        sent.acked[place] = value
        await asyncio.sleep(0)


async def kill_in_turn(cluster: KafkaCluster, sent: Sent, stop: asyncio.Event) -> int:
    """SIGKILL and restart one node after the other until the time is up and enough was sent;
    return the number of kills."""
    schedule = random.Random(SEED)
    deaths = 0
    ends = asyncio.get_running_loop().time() + SECONDS
    while asyncio.get_running_loop().time() < ends or len(sent.acked) < ENOUGH:
        await asyncio.sleep(schedule.uniform(1, 3))
        node = schedule.choice(sorted(cluster.node_ids))
        await asyncio.to_thread(cluster.kill, node)
        deaths += 1
        await asyncio.sleep(schedule.uniform(0.2, 3))
        await asyncio.to_thread(cluster.start, node)
    stop.set()
    return deaths


async def read_along(topic: str, bootstrap: str, seen: dict[int, dict[int, bytes]]) -> None:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer:
        async for record in consumer:
            of_partition = seen[record.partition]
            assert record.offset == len(of_partition), f"a gap or a repetition: {record}"
            assert record.value is not None
            of_partition[record.offset] = record.value


async def read_all(topic: str, bootstrap: str) -> dict[tuple[int, int], bytes]:
    everything: dict[tuple[int, int], bytes] = {}
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer:
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while True:
            positions = {tp: await consumer.position(tp) for tp in partitions}
            if all(positions[tp] >= ends[tp] for tp in partitions):
                return everything
            for batch in (await consumer.getmany(timeout_ms=1000)).values():
                for record in batch:
                    assert record.value is not None
                    everything[record.partition, record.offset] = record.value


async def test_no_acknowledged_record_is_lost(mortal: KafkaCluster) -> None:
    bootstrap = mortal.bootstrap_servers
    topic = "mortal"
    mortal.create_topic(topic, PARTITIONS)
    sent, stop = Sent(), asyncio.Event()
    seen: dict[int, dict[int, bytes]] = defaultdict(dict)
    reader = asyncio.create_task(read_along(topic, bootstrap, seen))
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", request_timeout_ms=5000)
    async with producer:
        async with asyncio.TaskGroup() as group:
            killer = group.create_task(kill_in_turn(mortal, sent, stop))
            for _ in range(SENDERS):
                group.create_task(send_until(stop, producer, topic, sent))
        await producer.flush()

    stored = await read_all(topic, bootstrap)
    print(
        f"{killer.result()} deaths, {len(sent.acked)} acknowledged, {len(stored)} stored, "
        f"{len(sent.failed)} failed: {sorted({type(e).__name__ for e in sent.failed})}"
    )
    assert killer.result() > 0
    missing = {place: value for place, value in sent.acked.items() if stored.get(place) != value}
    assert not missing, f"{len(missing)} of {len(sent.acked)} acknowledged records are not there"
    repeated = len(stored) - len(set(stored.values()))
    assert repeated == 0, f"{repeated} records were stored twice"

    async with asyncio.timeout(30):
        while sum(map(len, seen.values())) < len(stored) and not reader.done():
            await asyncio.sleep(0.05)
    assert not reader.done(), f"the reader ended: {reader.exception()!r}"
    reader.cancel()
    await asyncio.wait([reader])
    assert {(p, o): v for p, records in seen.items() for o, v in records.items()} == stored
