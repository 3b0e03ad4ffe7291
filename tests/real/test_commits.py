"""Commits in groups on a real Kafka, as other clients read them."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.consumer.consumer import AIOKafkaConsumer as Face
from aiokafka_lite.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyPartitionAssignor,
)
from aiokafka_lite.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    IllegalGenerationError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownTopicIdError,
)
from aiokafka_lite.structs import OffsetAndMetadata, TopicPartition
from tests.real.test_consumer import numbered, take, write
from tests.real.visibility import seen
from tests.unit.consumer.makers import until
from tools.kafka import RealKafka

confluent_kafka = pytest.importorskip("confluent_kafka")
confluent_admin = pytest.importorskip("confluent_kafka.admin")
aiokafka = pytest.importorskip("aiokafka")
pytest.importorskip("aiokafka.admin")

TopicFactory = Callable[..., str]
Join = Callable[..., Any]

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {},
    "cooperative": {"partition_assignment_strategy": [CooperativeStickyPartitionAssignor]},
    "modern": {"group_protocol": "consumer"},
}
PARTITIONS = 4


@pytest.fixture
def group() -> str:
    return f"commits-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def name(kafka: RealKafka, topic: TopicFactory) -> str:
    """A topic with 200 records in its first partition."""
    name = topic(PARTITIONS)
    write(kafka, name, numbered(200))
    return name


@pytest.fixture(params=list(PROTOCOLS))
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def join(kafka: RealKafka, group: str, name: str, protocol: str) -> AsyncIterator[Join]:
    """Starts members of the group and stops them after the test."""
    made: list[AIOKafkaConsumer] = []

    async def join(*topics: str, **options: Any) -> AIOKafkaConsumer:
        defaults = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
        }
        consumer = AIOKafkaConsumer(
            *(topics or (name,)), **{**defaults, **PROTOCOLS[protocol], **options}
        )
        made.append(consumer)
        await consumer.start()
        return consumer

    yield join
    await asyncio.gather(*(consumer.stop() for consumer in made))


async def told_to_aiokafka(kafka: RealKafka, group: str, tp: TopicPartition) -> tuple[int, str]:
    """A group's commit as read by aiokafka."""
    client = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    await client.start()
    try:
        offsets = await client.list_consumer_group_offsets(group)
    finally:
        await client.close()
    return tuple(offsets[aiokafka.TopicPartition(*tp)])


def told_to_librdkafka(kafka: RealKafka, group: str, tp: TopicPartition) -> tuple[int, int]:
    """A group's commit as read by confluent-kafka: the offset and the leader epoch."""
    client = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group}
    )
    try:
        (told,) = client.committed([confluent_kafka.TopicPartition(*tp)], timeout=30)
    finally:
        client.close()
    return told.offset, told.leader_epoch


async def test_next_consumer_begins_at_the_committed_offset(
    kafka: RealKafka, join: Join, group: str, name: str
) -> None:
    first = TopicPartition(name, 0)
    member = await join()
    assert len(member.assignment()) == PARTITIONS  # the start waits for it
    assert await member.seek_to_committed() == {
        TopicPartition(name, number): None for number in range(PARTITIONS)
    }
    assert [record.value for record in await take(member, 30)] == numbered(30)
    await member.commit()
    assert await member.committed(first) == 30
    assert await asyncio.to_thread(told_to_librdkafka, kafka, group, first) == (30, 0)
    await member.commit({first: (20, "words")})
    assert await told_to_aiokafka(kafka, group, first) == (20, "words")
    await member.commit({first: OffsetAndMetadata(25, "", leader_epoch=0)})
    assert (await member.seek_to_committed(first)) == {first: 25}
    assert (await take(member, 1))[0].offset == 25
    await member.stop()
    successor = await join()
    assert (await take(successor, 1))[0].offset == 25
    with pytest.raises(OffsetMetadataTooLargeError):
        await successor.commit({first: (1, "x" * 5000)})
    assert await successor.committed(TopicPartition(name, 99)) is None
    assert await successor.committed(TopicPartition(f"no-{name}", 0)) is None


async def test_auto_commit_commits_processed_records(join: Join, name: str) -> None:
    first = TopicPartition(name, 0)
    member: Face = await join(enable_auto_commit=True, auto_commit_interval_ms=50)
    assert member._core.group is not None
    commits = member._core.group.commits
    for offset in range(0, 10, 2):
        assert (await member.getone(first)).offset == offset
        await until(lambda: commits.due)
        assert (await member.committed(first) or 0) <= offset
        assert (await member.getone(first)).offset == offset + 1
        before = commits.counters.commits
        await until(lambda before=before: commits.counters.commits > before)
        assert await member.committed(first) == offset + 1
    await member.stop()  # and all returned records at the end
    successor = await join()
    assert (await take(successor, 1))[0].offset == 10


async def test_partition_changes_owner_without_gap_or_repetition(
    join: Join, kafka: RealKafka, name: str
) -> None:
    """With auto-commit every record is read once while members join and leave without crashes."""
    for partition in range(1, PARTITIONS):
        await asyncio.to_thread(write, kafka, name, numbered(200), partition=partition)
    seen: list[tuple[int, int]] = []

    async def read(member: AIOKafkaConsumer) -> None:
        async for record in member:
            seen.append((record.partition, record.offset))
            await asyncio.sleep(0.002)

    readers: list[asyncio.Task[None]] = []
    members: list[AIOKafkaConsumer] = []
    for _ in range(3):
        member = await join(enable_auto_commit=True, auto_commit_interval_ms=20)
        members.append(member)
        readers.append(asyncio.ensure_future(read(member)))
    await members[0].stop()
    async with asyncio.timeout(60):
        while len(set(seen)) < 200 * PARTITIONS:
            await asyncio.sleep(0.05)
    for member in members:
        await member.stop()
    await asyncio.gather(*readers)
    assert sorted(seen) == [(p, offset) for p in range(PARTITIONS) for offset in range(200)]


async def test_commits_during_rebalances(join: Join, protocol: str, name: str) -> None:
    """A commit for owned partitions fails only during a rebalance, and never with the consumer
    protocol, whose members retry with the current epoch."""
    options = {} if protocol == "modern" else {"heartbeat_interval_ms": 500}
    member = await join(**options)
    failures: list[BaseException | None] = []
    committed = 0
    ended = asyncio.Event()

    async def commit() -> None:
        nonlocal committed
        while not ended.is_set():
            for tp in member.assignment():
                try:
                    await member.commit({tp: 1})
                    committed += 1
                except CommitFailedError as error:
                    if tp in member.assignment():  # otherwise it was revoked since
                        failures.append(error.__cause__)
            await asyncio.sleep(0.001)

    task = asyncio.ensure_future(commit())
    others = [await join(**options) for _ in range(2)]
    for other in others:
        await other.stop()
    ended.set()
    await task
    assert committed
    if protocol == "modern":
        # A partition being revoked may belong to another member once the epoch is known.
        assert len(failures) <= 2 * PARTITIONS
    else:
        # All members have joined, and the response is in flight.
        under_way = (RebalanceInProgressError, IllegalGenerationError)
        allowed = (*under_way, UnknownMemberIdError)
        assert all(isinstance(cause, allowed) for cause in failures), failures


async def test_non_member_cannot_commit_into_an_active_group(
    kafka: RealKafka, join: Join, group: str, name: str
) -> None:
    await join()
    first = TopicPartition(name, 0)
    async with AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, group_id=group, enable_auto_commit=False
    ) as stranger:
        stranger.assign([first])
        with pytest.raises(CommitFailedError) as raised:
            await stranger.commit({first: 5})
        assert isinstance(raised.value.__cause__, UnknownMemberIdError)
        assert await stranger.committed(first) is None


async def test_commits_of_manually_assigned_partitions(
    kafka: RealKafka, group: str, name: str
) -> None:
    first = TopicPartition(name, 0)

    def reader() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
        )
        consumer.assign([first])
        return consumer

    async with reader() as consumer:
        assert len(await take(consumer, 12)) == 12
    async with reader() as consumer:
        assert (await take(consumer, 1))[0].offset == 12


async def test_offset_fetch_waits_for_an_open_transaction(
    kafka: RealKafka, join: Join, group: str, name: str
) -> None:
    """Fetching offsets that an open transaction may change waits for its outcome (KIP-447)."""
    first = TopicPartition(name, 0)
    member = await join()
    await member.commit({first: 5})
    await member.stop()
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=f"t-{group}"
    )
    await producer.start()
    reader = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group)
    reader.assign([first])
    await reader.start()
    try:
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({aiokafka.TopicPartition(name, 0): 9}, group)
        asked = asyncio.ensure_future(reader.committed(first))
        done, _ = await asyncio.wait([asked], timeout=0.5)
        assert not done
        await producer.commit_transaction()
        assert await asked == 9
    finally:
        await reader.stop()
        await producer.stop()


async def test_commit_of_a_replaced_static_member_is_fenced(join: Join, protocol: str) -> None:
    if protocol == "modern":
        pytest.skip("the coordinator keeps the second one out while the first is there")
    # Its commit has to be the first to hear of the other one, not a heartbeat.
    rare = {"session_timeout_ms": 60_000, "heartbeat_interval_ms": 20_000}
    first = await join(group_instance_id="i", **rare)
    tp = min(first.assignment())
    await first.commit({tp: 1})
    await join(group_instance_id="i", **rare)
    with pytest.raises(FencedInstanceIdError):
        await first.commit({tp: 2})


async def test_recreated_topic_gets_no_offset_of_the_old_one(
    kafka: RealKafka, group: str, topic: TopicFactory
) -> None:
    """This uses the topic's id, which old brokers do not have."""
    admin = confluent_admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for _ in range(5):
        first = TopicPartition(topic(1), 0)
        async with AIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers,
            group_id=group,
            enable_auto_commit=False,
            metadata_max_age_ms=300_000,
            request_timeout_ms=15_000,
        ) as consumer:
            consumer.assign([first])
            consumer.pause(first)  # before a fetch, which would reveal that the topic was recreated
            await consumer.commit({first: 5})
            # Its lookup could refresh the metadata, which reveals it, too.
            await consumer.position(first)
            topics = consumer._core.cluster.metadata.topics
            await asyncio.to_thread(_make_again, admin, first.topic)
            if consumer._core.cluster.metadata.topics[first.topic] != topics[first.topic]:
                continue  # the metadata was refreshed for another reason
            with pytest.raises(UnknownTopicIdError):
                await consumer.commit({first: 6})
            assert await consumer.committed(first) is None
            return
    pytest.fail("the metadata was refreshed in each of 5 attempts")


def _make_again(admin: Any, name: str) -> None:
    """Delete and create a topic; the broker shows the new one."""
    asked = confluent_kafka.TopicCollection([name])

    def topic_id() -> str | None:
        try:
            return str(admin.describe_topics(asked)[name].result(30).topic_id)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return None

    before = topic_id()
    admin.delete_topics([name])[name].result(30)
    while True:
        try:
            admin.create_topics([confluent_admin.NewTopic(name, 1, 1)])[name].result(30)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise  # otherwise it is still being deleted
        else:
            break
    seen(lambda: topic_id() in (None, before), False)
