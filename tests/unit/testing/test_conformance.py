"""The same raw requests to the embedded broker and to a real Kafka: the answers are the same.

Compared is everything but what has to differ: addresses, ids, wordings. Where the two may differ,
the case is left out, and that is a decision:

- the embedded broker still serves what Kafka 4 dropped (Produce 0-2, Fetch 0-3, ListOffsets 0);
- it creates a topic at once that metadata is asked for, without an error first;
- it appends both of two batches for one partition in one request, where Kafka takes the last;
- it does not correct a largest timestamp that is not that of the records.
"""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

from aiokafka_lite.protocol.message import Request, Struct
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aiokafka_lite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokafka_lite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lite.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, write_crc
from aiokafka_lite.record.legacy import encode_message_set
from aiokafka_lite.testing import FakeCluster
from tests.conftest import TopicFactory
from tests.unit.testing.raw import RawClient, make_batch
from tools.kafka import RealKafka

pytestmark = pytest.mark.asyncio(loop_factories=["asyncio"])  # once is enough

Case = tuple[Request, int]

NOW = time.time_ns() // 1_000_000
GOOD = make_batch((NOW, b"k", b"v"), (NOW + 5, None, b"w"))
DIFFERENT = {
    *("topic_id", "cluster_id", "session_id", "node_id", "leader_id", "controller_id"),
    *("brokers", "replica_nodes", "isr_nodes", "node_endpoints", "host", "port", "rack"),
    *("error_message", "batch_index_error_message", "throttle_time_ms", "configs"),
    *("topic_config_error_code", "api_keys", "supported_features", "finalized_features"),
    *("finalized_features_epoch", "log_append_time_ms"),
}


def facts(value: object) -> object:
    """What has to be the same in two answers; lists in any order, records by their size."""
    if isinstance(value, Struct):
        return [
            (name, facts(getattr(value, name))) for name in value.__slots__ if name not in DIFFERENT
        ]
    if isinstance(value, list):
        return sorted((facts(item) for item in value), key=repr)
    return len(value) if isinstance(value, bytes | memoryview) else value


async def compare(kafka: RealKafka, fake: FakeCluster, cases: Sequence[Case]) -> None:
    real = await RawClient.connect(kafka.bootstrap_servers.split(",")[0])
    ours = await RawClient.connect(fake.address(0))
    try:
        for number, (request, version) in enumerate(cases):
            expected = facts(await real.ask(request, version))
            found = facts(await ours.ask(request, version))
            assert found == expected, f"case {number}: {request!r} in version {version}"
    finally:
        await real.close()
        await ours.close()


@pytest.fixture
async def name(kafka: RealKafka, topic: TopicFactory) -> str:
    """A topic of two partitions on the real Kafka, ready for use."""
    return await settled(kafka, topic(2), 2)


@pytest.fixture
async def fake(name: str) -> AsyncIterator[FakeCluster]:
    async with FakeCluster(topics={name: 2}, check_records=True) as cluster:
        yield cluster


async def settled(kafka: RealKafka, topic: str, partitions: int) -> str:
    """Wait until the leaders serve what metadata tells already; the topic's name."""
    client = await RawClient.connect(kafka.bootstrap_servers.split(",")[0])
    wanted = [ListOffsetsPartition(index, timestamp=-1) for index in range(partitions)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, wanted)])
    try:
        async with asyncio.timeout(20):
            while True:
                (answer,) = (await client.ask(request, 5)).topics
                if not any(partition.error_code for partition in answer.partitions):
                    return topic
                await asyncio.sleep(0.02)
    finally:
        await client.close()


def produce(topic: str, *records: bytes, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index, batch) for index, batch in enumerate(records)]
    return ProduceRequest(
        acks=acks, timeout_ms=3000, topic_data=[TopicProduceData(topic, partition_data=data)]
    )


def fetch(
    topic: str,
    *offsets: int,
    limit: int = 2**20,
    epoch: int = -1,
    fetched_epoch: int = -1,
    session: tuple[int, int] = (0, -1),
    max_bytes: int = 2**31 - 1,
    isolation: int = 0,
) -> FetchRequest:
    wanted = [
        FetchPartition(index, epoch, offset, fetched_epoch, partition_max_bytes=limit)
        for index, offset in enumerate(offsets)
    ]
    return FetchRequest(
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic, partitions=wanted)],
    )


def changed(**fields: int) -> bytes:
    """A good batch with other header fields and the right checksum."""
    batch = bytearray(GOOD)
    BatchHeader.read(batch)._replace(**fields).write(batch)
    write_crc(batch, 0, len(batch))
    return bytes(batch)


def idempotent(sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    records = [(NOW, b"k", b"v")] * count
    return make_batch(*records, producer_id=1000, producer_epoch=epoch, base_sequence=sequence)


async def test_what_produce_refuses(kafka: RealKafka, fake: FakeCluster, name: str) -> None:
    transactional = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0}
    refused = [
        b"",
        GOOD + GOOD,
        GOOD[:-1] + b"?",
        GOOD[:-1],
        GOOD + GOOD[:30],
        GOOD[:8] + struct.pack(">i", 3) + GOOD[12:],
        GOOD[:8] + struct.pack(">i", -1) + GOOD[12:],
        GOOD[:16] + b"\x03" + GOOD[17:],
        bytes(61),
        encode_message_set([(NOW, b"k", b"v")], 1),
        changed(base_offset=5),
        changed(record_count=0),
        changed(record_count=3),
        changed(record_count=3, last_offset_delta=2),
        changed(last_offset_delta=0),
        changed(attributes=0x20),
        changed(attributes=5),
        changed(producer_id=4, producer_epoch=0),
        make_batch((NOW, b"k", b"v"), **transactional, transactional=True),
        make_batch((NOW + 3_700_000, b"k", b"v"), (NOW, b"k", b"")),
        make_batch((-1, b"k", b"v")),
        make_batch((NOW, None, bytes(2**20 + 1000))),
    ]
    zstd = make_batch((NOW, b"k", b"v" * 99), compression=Compression.ZSTD)
    cases: list[Case] = [(produce(name, batch, GOOD), 9) for batch in refused]
    cases += [(produce(name, GOOD, GOOD, GOOD), version) for version in range(3, 13)]
    cases += [(produce(name, zstd), version) for version in (6, 7)]
    cases += [(produce(name, GOOD, acks=acks), 9) for acks in (1, 2)]
    cases += [(produce(unknown, GOOD), 9) for unknown in ("no-such-topic", "a b")]
    await compare(kafka, fake, cases)


async def test_sequences(kafka: RealKafka, fake: FakeCluster, name: str) -> None:
    written = [
        *((5, 1, 0), (6, 2, 0), (6, 2, 0), (6, 1, 0), (5, 1, 0), (9, 1, 0), (8, 1, 0)),
        *((0, 1, 1), (1, 1, 1), (9, 1, 0), (3, 1, 2), (0, 1, 2), (0, 1, 2)),
    ]
    await compare(kafka, fake, [(produce(name, idempotent(*batch)), 9) for batch in written])


async def test_compacted_topic(kafka: RealKafka, fake: FakeCluster, topic: TopicFactory) -> None:
    configs = {"cleanup.policy": "compact"}
    compacted = await settled(kafka, topic(1, **configs), 1)
    fake.create_topic(compacted, 1, configs=configs)
    await compare(kafka, fake, [(produce(compacted, GOOD), 9), (produce(compacted, GOOD), 7)])


async def test_fetch(kafka: RealKafka, fake: FakeCluster, name: str) -> None:
    cases: list[Case] = [(produce(name, GOOD, GOOD), 9)] * 5
    cases += [(fetch(name, 1, 0), version) for version in range(4, 13)]
    cases += [(fetch(name, 0, 0, limit=limit), 11) for limit in (0, 1, 70, 80, 200, 300)]
    cases += [(fetch(name, 0, 0, max_bytes=size), 11) for size in (0, 1, 80, 160, 500, 1000)]
    cases += [
        (fetch(name, 999, -1), 11),
        (fetch(name, 0, 0, 0), 11),
        (fetch("no-such-topic", 0), 11),
        (fetch(name, 0, 0, isolation=1), 11),
        (fetch(name, 0, epoch=5), 11),
        (fetch(name, 2, fetched_epoch=0), 12),
        (fetch(name, 2, fetched_epoch=5), 12),
        (fetch(name, 0, session=(5, 1)), 11),
        (fetch(name, 0, session=(5, -1)), 11),
    ]
    await compare(kafka, fake, cases)


async def test_offsets(kafka: RealKafka, fake: FakeCluster, name: str) -> None:
    def look_up(timestamp: int, index: int = 0, epoch: int = -1, topic: str = name) -> Request:
        wanted = [ListOffsetsPartition(index, epoch, timestamp)]
        return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, wanted)])

    def end_of(epoch: int, index: int = 0, current: int = -1, topic: str = name) -> Request:
        wanted = [OffsetForLeaderPartition(index, current, epoch)]
        return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, wanted)])

    timestamps = (-1, -2, -3, -4, -5, -6, -7, 0, NOW, NOW + 4, NOW + 10**9)
    everywhere: list[Case] = [
        (look_up(timestamp), version) for timestamp in timestamps for version in (1, 4, 7, 8, 9, 11)
    ]
    unknown: list[Case] = [
        (look_up(-1, topic="no-such-topic"), 5),
        (look_up(-1, index=9), 5),
        (look_up(-1, epoch=9), 5),
    ]
    epochs: list[Case] = [(end_of(epoch), 3) for epoch in (-1, 0, 1, 5)]
    epochs += [
        (end_of(0, current=5), 3),
        (end_of(0, index=8), 3),
        (end_of(0, topic="no-such-topic"), 4),
    ]
    written: list[Case] = [(produce(name, GOOD), 9)] * 3
    await compare(kafka, fake, everywhere + epochs + written + everywhere + unknown + epochs)


async def test_metadata_and_versions(kafka: RealKafka, fake: FakeCluster, name: str) -> None:
    def metadata(*names: str) -> Request:
        topics = [MetadataRequestTopic(name=asked) for asked in names]
        return MetadataRequest(topics, allow_auto_topic_creation=False)

    def by_id(name: str | None) -> Request:
        return MetadataRequest([MetadataRequestTopic(UUID(int=77), name)])

    cases: list[Case] = [(metadata(name), version) for version in range(4, 14)]
    cases += [(metadata(*names), 9) for names in ((), ("a b",), ("no-such",), ("",), (name, name))]
    cases += [(by_id(None), 12), (by_id(""), 10)]
    for software in (("", ""), ("a", "1"), ("-a", "1"), ("a", "1 ")):
        cases += [(ApiVersionsRequest(*software), version) for version in (0, 3)]
    for meant in (("wrong", 0), ("wrong", -1), (None, 7)):
        cases.append((ApiVersionsRequest("a", "1", *meant), 5))
    await compare(kafka, fake, cases)


async def test_creating_and_deleting(kafka: RealKafka, fake: FakeCluster, name: str) -> None:
    def create(
        topic: str = f"{name}-new",
        partitions: int = 1,
        factor: int = 1,
        config: tuple[str, str | None] | None = None,
        replicas: Sequence[tuple[int, list[int]]] = (),
    ) -> Case:
        configs = [] if config is None else [CreatableTopicConfig(*config)]
        assignments = [CreatableReplicaAssignment(*entry) for entry in replicas]
        wanted = CreatableTopic(topic, partitions, factor, assignments, configs)
        return CreateTopicsRequest([wanted], validate_only=True), 5

    names = [create(topic) for topic in (name, "", ".", "a b", "x" * 250, f"{name}.b")]
    sizes = [create(partitions=count) for count in (0, -2, 3)]
    sizes += [create(factor=factor) for factor in (0, -2, 9)]
    configs = [
        create(config=config)
        for config in (
            ("no.such", "1"),
            ("cleanup.policy", "burn"),
            ("max.message.bytes", "x"),
            ("max.message.bytes", None),
            ("min.insync.replicas", "0"),
            ("retention.ms", "5"),
        )
    ]
    replicas = [
        create(partitions=-1, factor=-1, replicas=replicas)
        for replicas in ([(1, [0])], [(0, [0, 0])], [(0, [])], [(0, [7])])
    ]
    twice = CreateTopicsRequest([CreatableTopic("dd", 1, 1)] * 2)
    states = [DeleteTopicState(), DeleteTopicState(name, UUID(int=5))]
    states += [DeleteTopicState(topic_id=UUID(int=5)), DeleteTopicState("no-such-topic")]
    rest: list[Case] = [
        create(replicas=[(0, [0])]),
        (twice, 5),
        (DeleteTopicsRequest(topics=states, timeout_ms=9000), 6),
        (DeleteTopicsRequest(topic_names=[name, name], timeout_ms=9000), 5),
        (DeleteTopicsRequest(topic_names=[name], timeout_ms=9000), 5),
    ]
    await compare(kafka, fake, names + sizes + configs + replicas + rest)
