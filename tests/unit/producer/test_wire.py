"""What is written and read for every batch says what the generated messages say."""

import random

import pytest

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.producer.wire import BatchesRequest, BatchesResponse
from aiokafka_lite.protocol.framing import (
    decode_response,
    encode_request,
    encode_request_in_pieces,
    encode_response,
)
from aiokafka_lite.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aiokafka_lite.structs import TopicPartition

BATCHES: list[dict[str, list[tuple[int, bytes | memoryview]]]] = [
    {"orders": [(0, b"batch")]},
    {"orders": [(5, memoryview(b"x" * 300)), (70_000, b"y" * 20_000)], "t\u00e9s": [(1, b"z")]},
    {f"topic-{n}": [(n, b"b" * n)] for n in range(1, 200)},
]


@pytest.mark.parametrize("batches", BATCHES)
@pytest.mark.parametrize("version", range(9, 13))
@pytest.mark.parametrize("client_id", ["me", None])
def test_pieces_are_a_produce_request(
    batches: dict[str, list[tuple[int, bytes | memoryview]]], version: int, client_id: str | None
) -> None:
    whole = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(*each) for each in of])
            for name, of in batches.items()
        ],
    )
    request = BatchesRequest(-1, 30_000, batches)
    expected = encode_request(whole, version, 7, client_id)
    pieces = encode_request_in_pieces(request, version, 7, client_id)
    assert b"".join(pieces) == expected
    assert encode_request(request, version, 7, client_id) == expected
    given = [records for of in batches.values() for _, records in of]
    assert [piece for piece in pieces if any(piece is records for records in given)] == given


def stored(partitions: int = 3, **fields: object) -> ProduceResponse:
    """A response that says that everything was stored, but for what `fields` say of the last."""
    answers = [PartitionProduceResponse(n, 0, 1000 + n, -1, 7) for n in range(partitions)]
    for name, value in fields.items():
        setattr(answers[-1], name, value)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(name="orders", partition_responses=answers),
            TopicProduceResponse(name="t\u00e9s", partition_responses=[]),
        ],
        throttle_time_ms=12,
    )


def read(response: ProduceResponse, version: int) -> BatchesResponse:
    frame = encode_response(response, version, 7)[4:]
    return decode_response(frame, BatchesResponse, version)[1]


@pytest.mark.parametrize("version", range(9, 13))
def test_what_was_stored_is_read_in_one_pass(version: int) -> None:
    found = read(stored(), version)
    assert found.stored == {("orders", n): (1000 + n, -1, 7) for n in range(3)}
    assert found.throttle_time_ms == 12
    assert found.stored[TopicPartition("orders", 2)].base_offset == 1002


@pytest.mark.parametrize("version", range(9, 13))
@pytest.mark.parametrize(
    "fields",
    [
        {"error_code": 6},
        {"error_message": ""},
        {"error_message": "why"},
        {"record_errors": [BatchIndexAndErrorMessage(1, "it")]},
        {"unknown_tagged_fields": {9: b"x"}},
        {"partitions": 200},
    ],
)
def test_any_other_answer_is_read_as_ever(version: int, fields: dict[str, object]) -> None:
    response = stored(**fields)  # type: ignore[arg-type]  # of every kind
    found = read(response, version)
    assert found.stored is None
    assert (found.responses, found.throttle_time_ms) == (response.responses, 12)


def test_no_answer_that_is_cut_short_or_changed_is_read_otherwise() -> None:
    version = 11
    whole = bytes(encode_response(stored(), version, 7)[4:])
    frames = [whole[:end] for end in range(5, len(whole))] + [whole + b"\0"]
    chance = random.Random(3)
    for _ in range(3000):
        changed = bytearray(whole)
        changed[chance.randrange(5, len(changed))] = chance.randrange(256)
        frames.append(bytes(changed))
    for frame in frames:
        try:
            expected: ProduceResponse | None = decode_response(frame, ProduceResponse, version)[1]
        except KafkaProtocolError:
            expected = None
        try:
            found: BatchesResponse | None = decode_response(frame, BatchesResponse, version)[1]
        except KafkaProtocolError:
            found = None
        assert (found is None) == (expected is None)
        if found is None or expected is None:
            continue
        assert found.throttle_time_ms == expected.throttle_time_ms
        if found.stored is None:
            assert found.responses == expected.responses
        else:
            assert found.stored == {
                (topic.name, answer.index): (
                    answer.base_offset,
                    answer.log_append_time_ms,
                    answer.log_start_offset,
                )
                for topic in expected.responses
                for answer in topic.partition_responses
            }
