"""The fast codec of produce requests agrees with the generated messages, in both builds."""

import random
from collections import Counter
from operator import itemgetter
from types import ModuleType
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid5

import pytest

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.framing import decode_response, encode_request, encode_response
from aiokafka_lite.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.structs import TopicPartition

Batches = dict[str, list[tuple[int, bytes | memoryview]]]

BATCHES: list[Batches] = [
    {"orders": [(0, b"batch")]},
    {"orders": [(5, memoryview(b"x" * 300)), (70_000, b"y" * 20_000)], "t\u00e9s": [(1, b"z")]},
    {f"topic-{n}": [(n, b"b" * n)] for n in range(1, 200)},
    {"long" * 60: [(n, b"b" * n) for n in range(1, 200)]},
    {"orders": [(2**31 - 1, b"")]},
    {},
]
VERSIONS = range(9, 14)
IDS = {"orders": UUID(int=7 << 120 | 1), "t\u00e9s": UUID(int=2)}


@pytest.fixture
def wire(room: dict[str, ModuleType]) -> ModuleType:
    return room["produce_codec"]


def id_of(topic: str) -> UUID:
    return IDS.get(topic) or uuid5(NAMESPACE_DNS, topic)


def part(
    room: dict[str, ModuleType], topic: str, partition: int, payload: bytes | memoryview
) -> tuple[Any, Any]:
    where = TopicPartition(topic, partition)
    batch = room["accumulator"].ProducerBatch(None, where, BatchBuilder(100), None, 0.0)
    batch.payload, batch.size = payload, len(payload)
    return room["accumulator"].PartitionQueue(where), batch


def in_turn(parts: list[Any]) -> list[Any]:
    """The first of each topic, the second of each, ...: the codec groups them again."""
    seen: Counter[str] = Counter()
    turns = []
    for each in parts:
        topic = each[0].topic_partition.topic
        turns.append(seen[topic])
        seen[topic] += 1
    return [each for _, each in sorted(zip(turns, parts, strict=True), key=itemgetter(0))]


@pytest.mark.parametrize("batches", BATCHES)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("client_id", ["m\u00e9", "x" * 3000, "", None])
def test_pieces_are_a_produce_request(
    room: dict[str, ModuleType], batches: Batches, version: int, client_id: str | None
) -> None:
    by_id, wire = version >= 13, room["produce_codec"]
    whole = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name="" if by_id else name,
                topic_id=id_of(name) if by_id else UUID(int=0),
                partition_data=[PartitionProduceData(*each) for each in of],
            )
            for name, of in batches.items()
        ],
    )
    names = {name: id_of(name).bytes if by_id else wire.compact(name) for name in batches}
    parts = in_turn([part(room, name, *each) for name, of in batches.items() for each in of])
    request = wire.BatchesRequest(-1, 30_000, parts, names)
    pieces = request.encode_frame(version, 0x01020304, client_id)
    assert b"".join(pieces) == encode_request(whole, version, 0x01020304, client_id)
    given = [records for of in batches.values() for _, records in of]
    assert [piece for piece in pieces if any(piece is records for records in given)] == given


def stored(version: int, partitions: int = 3, **fields: object) -> ProduceResponse:
    """A response in which everything was stored, except for the `fields` of the last partition."""
    answers = [PartitionProduceResponse(n, 0, 1000 + n, -1, 7) for n in range(partitions)]
    for name, value in fields.items():
        setattr(answers[-1], name, value)
    told = {"orders": answers, "t\u00e9s": []}
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="" if version >= 13 else name,
                topic_id=IDS[name] if version >= 13 else UUID(int=0),
                partition_responses=of,
            )
            for name, of in told.items()
        ],
        throttle_time_ms=12,
    )


def read(wire: ModuleType, response: ProduceResponse, version: int) -> Any:
    return read_frame(wire, bytes(encode_response(response, version, 7)[4:]), version)


def read_frame(wire: ModuleType, frame: bytes, version: int) -> Any:
    names = {IDS[name].bytes: name for name in IDS} if version >= 13 else None
    return wire.BatchesRequest(-1, 1, [], {}, names).read_response(frame, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_all_stored_response_is_read_in_one_pass(wire: ModuleType, version: int) -> None:
    found = read(wire, stored(version), version)
    assert found == (12, {("orders", n): (1000 + n, -1, 7) for n in range(3)})
    assert found[1][TopicPartition("orders", 2)][0] == 1002


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "fields",
    [
        {"error_code": 6},
        {"error_code": -1},
        {"error_code": 256},
        {"error_message": ""},
        {"error_message": "why"},
        {"record_errors": [BatchIndexAndErrorMessage(1, "it")]},
        {"unknown_tagged_fields": {9: b"x"}},
        {"partitions": 200},
    ],
)
def test_any_other_response_is_read_by_the_generated_decoder(
    wire: ModuleType, version: int, fields: dict[str, object]
) -> None:
    response = stored(version, **fields)  # type: ignore[arg-type]  # of every kind
    found = read(wire, response, version)
    assert isinstance(found, ProduceResponse)
    assert found.throttle_time_ms == 12
    assert [topic.name for topic in found.responses] == ["orders", "t\u00e9s"]
    assert [topic.partition_responses for topic in found.responses] == [
        topic.partition_responses for topic in response.responses
    ]


def test_a_response_for_an_unrequested_topic_has_no_name(wire: ModuleType) -> None:
    response = stored(13)
    response.responses[0].topic_id = UUID(int=99)
    found = read(wire, response, 13)
    assert [topic.name for topic in found.responses] == ["", "t\u00e9s"]


@pytest.mark.parametrize("version", [11, 13])
def test_no_answer_that_is_cut_short_or_changed_is_read_otherwise(
    wire: ModuleType, version: int
) -> None:
    whole = bytes(encode_response(stored(version), version, 7)[4:])
    frames = [whole[:end] for end in range(4, len(whole))] + [whole + b"\0"]
    chance = random.Random(3)
    for _ in range(3000):
        changed = bytearray(whole)
        changed[chance.randrange(4, len(changed))] = chance.randrange(256)
        frames.append(bytes(changed))
    names = {IDS[name].bytes: name for name in IDS}
    for frame in frames:
        try:
            expected: ProduceResponse | None = decode_response(frame, ProduceResponse, version)[1]
        except KafkaProtocolError:
            expected = None
        try:
            found = read_frame(wire, frame, version)
        except KafkaProtocolError:
            found = None
        assert (found is None) == (expected is None)
        if found is None or expected is None:
            continue
        if version >= 13:
            for topic in expected.responses:
                topic.name = names.get(topic.topic_id.bytes, "")
        if isinstance(found, ProduceResponse):
            assert found.throttle_time_ms == expected.throttle_time_ms
            assert found.responses == expected.responses
        else:
            throttle_time_ms, where = found
            assert throttle_time_ms == expected.throttle_time_ms
            assert where == {
                (topic.name, answer.index): (
                    answer.base_offset,
                    answer.log_append_time_ms,
                    answer.log_start_offset,
                )
                for topic in expected.responses
                for answer in topic.partition_responses
            }
