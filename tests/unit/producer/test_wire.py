"""What is written and read for every batch says what the generated messages say."""

import pytest

from aiokafka_lite.producer.wire import BatchesRequest
from aiokafka_lite.protocol.framing import encode_request, encode_request_in_pieces
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

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
