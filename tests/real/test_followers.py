"""Reading from a follower in the consumer's rack (KIP-392), or from the leader if it is down."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.structs import TopicPartition
from tools.kafka import KafkaCluster

pytestmark = pytest.mark.timeout(200)

P0 = TopicPartition("orders", 0)
NOWHERE = -1


@pytest.fixture(scope="module")
def racks() -> Iterator[KafkaCluster]:
    """Three brokers in different racks, which direct consumers to the replica in their rack."""
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    config = {"replica.selector.class": selector, "min.insync.replicas": 1}
    with KafkaCluster(nodes=3, heap="200m", config=config) as kafka:
        kafka.create_topic(P0.topic, 1, 3)
        yield kafka


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


async def test_fetch_from_the_follower_in_the_same_rack(racks: KafkaCluster) -> None:
    servers = racks.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        first = await producer.send_and_wait(P0.topic, b"0", partition=0)
        leader = producer.client.cluster.leader_for_partition(P0)
        follower = (leader + 1) % 3 if leader is not None else 0
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            client_rack=f"rack-{follower}",
            isolation_level="read_committed",
        )
        consumer.assign([P0])
        async with consumer:
            consumer.seek(P0, first.offset)
            state = consumer._core.positions.state(P0)
            written = 0

            async def there_and_back() -> None:
                nonlocal written
                written += 1
                await producer.send_and_wait(P0.topic, b"%d" % written, partition=0)
                record = await asyncio.wait_for(consumer.getone(), 30)
                assert (record.value, record.offset) == (b"%d" % written, first.offset + written)

            assert (await asyncio.wait_for(consumer.getone(), 30)).value == b"0"
            for _ in range(5):
                await there_and_back()
            await until(lambda: state.source.replica == follower)
            await asyncio.to_thread(racks.stop, follower)
            for _ in range(5):
                await there_and_back()
            # A leader that learns late of the stop may name the follower once more.
            await until(lambda: state.source.replica == NOWHERE)
            await asyncio.to_thread(racks.start, follower)
            async with asyncio.timeout(60):  # until it has caught up
                while state.source.replica != follower:
                    await there_and_back()
            await there_and_back()
