"""An unclean election: acknowledged and read records are lost, and others take their offsets.

Two of three brokers have the partition. One stops, records are written and read, the other stops as
well, and the first restarts: it is elected although it lacks the records, and gets new ones.
"""

import asyncio
from collections.abc import Iterator

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.errors import LogTruncationError
from aiokafka_lite.structs import TopicPartition
from tools.kafka import KafkaCluster

pytestmark = pytest.mark.timeout(200)

P0 = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def unclean() -> Iterator[KafkaCluster]:
    with KafkaCluster(
        nodes=3,
        heap="200m",
        config={"unclean.leader.election.enable": "true", "min.insync.replicas": 1},
    ) as kafka:
        kafka.create_topic(P0.topic, 1, 2)
        yield kafka


async def write(kafka: KafkaCluster, *values: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in values:
            await producer.send_and_wait(P0.topic, value.encode(), partition=0)


async def read(consumer: AIOKafkaConsumer, count: int) -> list[tuple[int, str]]:
    async with asyncio.timeout(60):
        records = [await consumer.getone() for _ in range(count)]
    return [(record.offset, (record.value or b"").decode()) for record in records]


def numbers(first: int, end: int, prefix: str) -> list[str]:
    return [f"{prefix}{i}" for i in range(first, end)]


async def test_truncation_after_an_unclean_election(unclean: KafkaCluster) -> None:
    def consumer(policy: str, group: str | None = None) -> AIOKafkaConsumer:
        made = AIOKafkaConsumer(
            bootstrap_servers=unclean.bootstrap_servers,
            auto_offset_reset=policy,
            group_id=group,
            enable_auto_commit=False,
        )
        made.assign([P0])
        return made

    await write(unclean, *numbers(0, 5, "old "))
    async with consumer("earliest", "committed") as resetting, consumer("none") as strict:
        strict.seek(P0, 0)
        for each in (resetting, strict):
            assert await read(each, 5) == list(enumerate(numbers(0, 5, "old ")))
        partition = resetting._core.cluster.metadata.partition(*P0)
        assert partition is not None
        leader = partition.leader
        (follower,) = set(partition.replicas) - {leader}
        await asyncio.to_thread(unclean.stop, follower)
        await write(unclean, *numbers(5, 10, "old "))
        for each in (resetting, strict):
            assert await read(each, 5) == list(enumerate(numbers(5, 10, "old "), 5))
        await resetting.commit()
        await asyncio.to_thread(unclean.stop, leader)
        await asyncio.to_thread(unclean.start, follower)
        new = numbers(5, 25, "new ")  # the log is longer than before: no offset is out of range
        await write(unclean, *new)
        assert await read(resetting, 20) == list(enumerate(new, 5))
        for _ in range(2):
            with pytest.raises(LogTruncationError) as caught:
                await read(strict, 1)
        assert caught.value.offsets == {P0: 10}
        assert caught.value.divergent_offsets == {P0: 5}
        strict.seek(P0, 5)
        assert await read(strict, 20) == list(enumerate(new, 5))
    # The earlier commit has its epoch, and is also checked against the log.
    async with consumer("latest", "committed") as late:
        assert await read(late, 20) == list(enumerate(new, 5))
