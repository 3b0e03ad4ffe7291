"""Transactions on old brokers, where the client adds partitions and bumps epochs.

`make test-brokers` runs these.
"""

import asyncio
from collections.abc import Iterator

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition, exactly_once
from aiokafka_lite.errors import MessageSizeTooLargeError, ProducerFenced, UnsupportedVersionError
from tools.kafka import KafkaCluster, KafkaNotAvailable
from tools.kafka.releases import OLD_RELEASES

PARTITIONS = 3
LIMIT = 2_000  # maximum batch size of the topic in bytes

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=["3.9.2", *OLD_RELEASES])
def old(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    try:
        with KafkaCluster(request.param, heap="256m") as cluster:
            yield cluster
    except KafkaNotAvailable as error:
        pytest.skip(f"no real Kafka: {error}")


def producer_of(cluster: KafkaCluster, name: str) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name)


async def committed(cluster: KafkaCluster, topic: str) -> list[bytes]:
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found = []
    async with (
        AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer,
        AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as other,
    ):
        consumer.assign(places)
        # The log ends: the last stable offsets may be those before the last markers.
        ends = await other.end_offsets(places)
        while any([await consumer.position(place) < ends[place] for place in places]):
            for records in (await consumer.getmany(timeout_ms=100)).values():
                found += [record.value for record in records if record.value is not None]
    return sorted(found)


async def test_transactions(old: KafkaCluster) -> None:
    if old.release.number < (0, 11):
        producer = producer_of(old, "payments")
        with pytest.raises(UnsupportedVersionError):
            await producer.start()
        await producer.stop()
        return
    old.create_topic("orders", PARTITIONS, config={"max.message.bytes": LIMIT})
    place = TopicPartition("orders", 0)
    async with producer_of(old, "payments") as producer:
        for number in range(4):
            await producer.begin_transaction()
            for partition in range(PARTITIONS):
                await producer.send("orders", b"%d-%d" % (number, partition), partition=partition)
            await producer.send_offsets_to_transaction({place: number}, "readers")
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        async with AIOKafkaConsumer(
            bootstrap_servers=old.bootstrap_servers, group_id="readers", enable_auto_commit=False
        ) as consumer:
            consumer.assign([place])
            assert await consumer.committed(place) == 2
        wanted = [b"%d-%d" % (number, partition) for number in (0, 2) for partition in range(3)]
        assert await committed(old, "orders") == wanted

        await producer.begin_transaction()
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait("orders", b"x" * LIMIT, partition=0)
        if old.release.number < (2, 5):  # without KIP-360 the epoch cannot be bumped
            with pytest.raises(UnsupportedVersionError, match="create a new producer") as caught:
                await producer.abort_transaction()
            assert isinstance(caught.value.__cause__, MessageSizeTooLargeError)
        else:
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("orders", b"after", partition=0)
            wanted.append(b"after")

        async with producer_of(old, "payments") as successor:
            with pytest.raises((ProducerFenced, UnsupportedVersionError)):
                async with producer.transaction():
                    await producer.send("orders", b"of the zombie")
            async with successor.transaction():
                await successor.send("orders", b"of the successor")
            wanted.append(b"of the successor")
    assert await committed(old, "orders") == sorted(wanted)


async def test_successor_aborts_an_open_transaction(old: KafkaCluster) -> None:
    if old.release.number < (0, 11):
        pytest.skip("it knows no transactions")
    old.create_topic("bills", PARTITIONS)
    place = TopicPartition("bills", 0)
    producer = producer_of(old, "cashier")
    await producer.start()
    await producer.begin_transaction()
    for partition in range(PARTITIONS):
        await producer.send_and_wait("bills", b"left open", partition=partition)
    await producer.send_offsets_to_transaction({place: 7}, "auditors")
    producer._sender.abort()  # as with SIGKILL: nothing is sent
    async with producer_of(old, "cashier") as successor, successor.transaction():
        await successor.send("bills", b"kept", partition=0)
        await successor.send_offsets_to_transaction({place: 8}, "auditors")
    await producer.stop()
    assert await committed(old, "bills") == [b"kept"]
    async with AIOKafkaConsumer(
        bootstrap_servers=old.bootstrap_servers, group_id="auditors", enable_auto_commit=False
    ) as consumer:
        consumer.assign([place])
        async with asyncio.timeout(30):  # brokers before 2.5 do not wait for the marker
            while await consumer.committed(place) != 8:
                await asyncio.sleep(0.05)


async def test_exactly_once(old: KafkaCluster) -> None:
    if old.release.number < (0, 11):
        pytest.skip("it knows no transactions")
    old.create_topic("raw", PARTITIONS)
    old.create_topic("cooked", PARTITIONS)
    async with AIOKafkaProducer(bootstrap_servers=old.bootstrap_servers) as feeder:
        for number in range(30):
            await feeder.send("raw", b"%02d" % number, partition=number % PARTITIONS)
        await feeder.flush()
    consumer = AIOKafkaConsumer(
        "raw",
        bootstrap_servers=old.bootstrap_servers,
        group_id="kitchen",
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    done = stumbled = 0

    async def cook(producer: AIOKafkaProducer, most: int) -> None:
        nonlocal done, stumbled
        async with exactly_once(consumer, producer, max_records=7) as batches:
            async for batch in batches:
                for record in batch:
                    await producer.send("cooked", record.value, partition=record.partition)
                if not stumbled:
                    stumbled += 1
                    raise ZeroDivisionError
                done += len(batch)
                if done >= most:
                    break

    async with consumer, producer_of(old, "cook") as producer:
        with pytest.raises(ZeroDivisionError):
            await cook(producer, 30)
        if old.release.number < (2, 5):  # without KIP-447 the coordinator cannot fence members
            with pytest.raises(UnsupportedVersionError, match=r"Kafka 2\.5"):
                await cook(producer, 30)
            return
        await cook(producer, 15)
        async with producer_of(old, "cook") as successor:
            await cook(successor, 30)
    assert await committed(old, "cooked") == [b"%02d" % number for number in range(30)]
