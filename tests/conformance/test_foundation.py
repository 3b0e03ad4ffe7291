"""Requests of clients without groups and transactions: produce, fetch, offsets, metadata, topics.

These intended differences are not compared:

- the embedded broker still serves what Kafka 4 dropped (Produce 0-2, Fetch 0-3, ListOffsets 0).
"""

import struct
from collections.abc import Sequence
from uuid import UUID

from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest
from aiokafka_lite.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aiokafka_lite.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
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
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.legacy import encode_message_set
from tests.conformance.conftest import Compare
from tests.conformance.requests import GOOD, NOW, changed, fetch, idempotent, produce
from tests.conformance.target import Target
from tests.unit.testing.raw import make_batch

Case = tuple[Request, int]


async def ask_all(target: Target, cases: Sequence[Case]) -> None:
    for request, version in cases:
        await target.ask(request, version)


async def test_rejected_produce_requests(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        name = await target.topic(2)
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
            make_batch((NOW + 7_200_000, b"k", b"v"), (NOW, b"k", b"")),
            make_batch((-1, b"k", b"v")),
            make_batch((NOW, None, bytes(2**20 + 1000))),
        ]
        zstd = make_batch((NOW, b"k", b"v" * 99), compression=Compression.ZSTD)
        cases: list[Case] = [(produce(name, batch, GOOD), 9) for batch in refused]
        cases += [(produce(name, GOOD, GOOD, GOOD), version) for version in range(3, 13)]
        cases += [(produce(name, zstd), version) for version in (6, 7)]
        cases += [(produce(name, GOOD, acks=acks), 9) for acks in (1, 2)]
        cases += [(produce(unknown, GOOD), 9) for unknown in ("no-such-topic", "a b")]
        await ask_all(target, cases)

    await compare(scenario)


async def test_sequences(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        name = await target.topic(2)
        written = [
            *((5, 1, 0), (6, 2, 0), (6, 2, 0), (6, 1, 0), (5, 1, 0), (9, 1, 0), (8, 1, 0)),
            *((0, 1, 1), (1, 1, 1), (9, 1, 0), (3, 1, 2), (0, 1, 2), (0, 1, 2)),
        ]
        await ask_all(target, [(produce(name, idempotent(*batch)), 9) for batch in written])

    await compare(scenario)


async def test_compacted_topic(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        configs = {"cleanup.policy": "compact"}
        name = await target.topic(1, **configs)
        await ask_all(target, [(produce(name, GOOD), 9), (produce(name, GOOD), 7)])

    await compare(scenario)


async def test_fetch(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        name = await target.topic(2)
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
        await ask_all(target, cases)

    await compare(scenario)


async def test_offsets(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        name = await target.topic(2)

        def look_up(timestamp: int, index: int = 0, epoch: int = -1, topic: str = name) -> Request:
            wanted = [ListOffsetsPartition(index, epoch, timestamp)]
            return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(topic, wanted)])

        def end_of(epoch: int, index: int = 0, current: int = -1, topic: str = name) -> Request:
            wanted = [OffsetForLeaderPartition(index, current, epoch)]
            return OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic(topic, wanted)])

        timestamps = (-1, -2, -3, -4, -5, -6, -7, 0, NOW, NOW + 4, NOW + 10**9)
        everywhere: list[Case] = [
            (look_up(timestamp), version)
            for timestamp in timestamps
            for version in (1, 4, 7, 8, 9, 11)
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
        await ask_all(target, everywhere + epochs + written + everywhere + unknown + epochs)

    await compare(scenario)


async def test_metadata_and_versions(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        name = await target.topic(2)

        def metadata(*names: str) -> Request:
            topics = [MetadataRequestTopic(name=asked) for asked in names]
            return MetadataRequest(topics, allow_auto_topic_creation=False)

        def by_id(name: str | None) -> Request:
            return MetadataRequest([MetadataRequestTopic(UUID(int=77), name)])

        cases: list[Case] = [(metadata(name), version) for version in range(4, 14)]
        cases += [
            (metadata(*names), 9) for names in ((), ("a b",), ("no-such",), ("",), (name, name))
        ]
        cases += [(by_id(None), 12), (by_id(""), 10)]
        for software in (("", ""), ("a", "1"), ("-a", "1"), ("a", "1 ")):
            cases += [(ApiVersionsRequest(*software), version) for version in (0, 3)]
        for meant in (("wrong", 0), ("wrong", -1), (None, 7)):
            cases.append((ApiVersionsRequest("a", "1", *meant), 5))
        await ask_all(target, cases)

    await compare(scenario)


async def test_creating_and_deleting(compare: Compare) -> None:
    async def scenario(target: Target) -> None:
        name = await target.topic(2)

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
        await ask_all(target, names + sizes + configs + replicas + rest)

    await compare(scenario)
