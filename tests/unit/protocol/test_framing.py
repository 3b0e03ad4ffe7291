"""Whole frames: sizes, header versions and errors."""

from collections.abc import Callable

import pytest

from aiokafka_lite.errors import KafkaProtocolError, UnsupportedVersionError
from aiokafka_lite.protocol import framing
from aiokafka_lite.protocol.message import Request, Response
from aiokafka_lite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokafka_lite.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from aiokafka_lite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.protocol.registry import API_MODULES, ApiKey, request_class, response_class


def test_encoding_of_a_known_request() -> None:
    frame = framing.encode_request(ApiVersionsRequest(), 0, 5, "me")
    assert frame.hex() == "0000000c" + "0012" + "0000" + "00000005" + "00026d65"


@pytest.mark.parametrize(
    ("request_", "version", "header", "head"),
    [
        (ControlledShutdownRequest(), 0, 0, "0007000000000001"),
        (ControlledShutdownRequest(), 1, 1, "00070001000000010001" + "63"),
        (MetadataRequest(), 8, 1, "00030008000000010001" + "63"),
        (MetadataRequest(), 9, 2, "00030009000000010001" + "6300"),
        (ApiVersionsRequest(), 3, 2, "00120003000000010001" + "6300"),
    ],
)
def test_request_header_versions(request_: Request, version: int, header: int, head: str) -> None:
    frame = framing.encode_request(request_, version, 1, "c")
    assert framing.request_header_version(request_.api_key, version) == header
    assert frame[4:].hex().startswith(head)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header_read, decoded = framing.decode_request(frame[4:])
    assert decoded == request_
    assert header_read.correlation_id == 1
    assert header_read.request_api_version == version
    assert header_read.client_id == ("c" if header else "")


@pytest.mark.parametrize(
    ("response", "version", "head"),
    [
        (MetadataResponse(), 8, "00000009"),
        (MetadataResponse(), 9, "0000000900"),
        (ApiVersionsResponse(), 3, "000000090000"),
    ],
)
def test_response_header_versions(response: Response, version: int, head: str) -> None:
    frame = framing.encode_response(response, version, 9)
    assert frame[4:].hex().startswith(head)
    header = framing.response_header_version(response.api_key, version)
    assert header == (1 if version == 9 else 0)
    for api in (type(response), request_class(response.api_key), response.api_key):
        assert framing.decode_response(frame[4:], api, version) == (9, response)
    assert framing.peek_correlation_id(frame[4:]) == 9


def test_missing_client_id_is_null() -> None:
    frame = framing.encode_request(MetadataRequest(), 1, 1, None)
    header, _ = framing.decode_request(frame[4:])
    assert header.client_id is None


@pytest.mark.parametrize("api_key", list(API_MODULES))
def test_default_messages_round_trip_in_every_version(api_key: int) -> None:
    asked, answered = request_class(api_key), response_class(api_key)
    assert asked.response is answered
    assert (asked.name, asked.api_key) == (answered.name, api_key)
    for version in range(asked.min_version, asked.max_version + 1):
        frame = framing.encode_request(asked(), version, 77, "client")
        assert framing.decode_request(frame[4:])[1] == asked()
        frame = framing.encode_response(answered(), version, 77)
        assert framing.decode_response(frame[4:], answered, version) == (77, answered())


def test_trailing_bytes_raise() -> None:
    request = framing.encode_request(MetadataRequest(), 1, 1, None)[4:]
    with pytest.raises(KafkaProtocolError, match="1 bytes left over"):
        framing.decode_request(request + b"\0")
    response = framing.encode_response(MetadataResponse(), 1, 1)[4:]
    with pytest.raises(KafkaProtocolError, match="1 bytes left over"):
        framing.decode_response(response + b"\0", MetadataResponse, 1)


def test_truncated_frames_raise() -> None:
    request = bytes(framing.encode_request(MetadataRequest(), 12, 1, "me")[4:])
    for size in range(len(request)):
        with pytest.raises(KafkaProtocolError):
            framing.decode_request(request[:size])
    response = bytes(framing.encode_response(MetadataResponse(), 12, 1)[4:])
    for size in range(len(response)):
        with pytest.raises(KafkaProtocolError):
            framing.decode_response(response[:size], MetadataResponse, 12)


def test_unsupported_versions_raise() -> None:
    with pytest.raises(UnsupportedVersionError, match="Metadata version 99"):
        framing.encode_request(MetadataRequest(), 99, 1, None)
    with pytest.raises(UnsupportedVersionError, match="Metadata version -1"):
        framing.encode_response(MetadataResponse(), -1, 1)
    with pytest.raises(UnsupportedVersionError, match="Metadata version 99"):
        framing.decode_response(b"\0\0\0\1", MetadataResponse, 99)


def test_header_of_a_newer_request_version_is_decoded() -> None:
    """A broker needs it to answer ApiVersions with error 35 (KIP-511)."""
    frame = bytearray(framing.encode_request(ApiVersionsRequest(), 3, 8, "new")[4:])
    frame[2:4] = (300).to_bytes(2, "big")
    header, _ = framing.decode_request_header(frame)
    assert (header.request_api_version, header.correlation_id, header.client_id) == (300, 8, "new")
    with pytest.raises(UnsupportedVersionError, match="ApiVersions version 300"):
        framing.decode_request(frame)


@pytest.mark.parametrize("head", ["7fff0000", "00030000", "0003ffff", "fffe0000", ""])
def test_invalid_request_frames_raise(head: str) -> None:
    with pytest.raises(KafkaProtocolError):
        framing.decode_request(bytes.fromhex(head))


def test_unknown_apis_raise() -> None:
    assert ApiKey.VOTE not in API_MODULES, "spoken among controllers only"
    with pytest.raises(UnsupportedVersionError, match="does not support VOTE"):
        request_class(ApiKey.VOTE)
    with pytest.raises(UnsupportedVersionError, match="API 999"):
        response_class(999)


def test_records_of_a_frame_are_slices_of_it() -> None:
    request = ProduceRequest(
        topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"batch")])]
    )
    frame = framing.encode_request(request, 9, 1, None)
    _, decoded = framing.decode_request(memoryview(frame)[4:])
    assert isinstance(decoded, ProduceRequest)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_decoded(kind: Callable[[bytearray], Buffer]) -> None:
    frame = kind(framing.encode_response(MetadataResponse(cluster_id="c"), 12, 5)[4:])
    _, response = framing.decode_response(frame, MetadataResponse, 12)
    assert response.cluster_id == "c"
