"""Whole frames, sans-IO: header and body of a request or response, each way.

On the wire a frame is preceded by its size, an int32. The `encode_*` functions write that size
too, so that what they return can be sent as it is; the `decode_*` functions take a frame without
it, as the receiving side cuts it out of the stream.

The version of the header follows from API and version: a flexible request has header 2, any other
header 1, and only ControlledShutdown 0 has header 0. A flexible response has header 1, any other
header 0; ApiVersions' response always has header 0, since a client reads it before it knows
what the broker speaks (KIP-511).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from struct import Struct as Layout
from typing import ClassVar, overload

from aiokafka_lite.errors import KafkaProtocolError, UnsupportedVersionError
from aiokafka_lite.protocol.api_keys import API_MODULES, ApiKey
from aiokafka_lite.protocol.message import Message, Request, RequestOf, Response, ResponseT
from aiokafka_lite.protocol.messages.request_header import RequestHeader
from aiokafka_lite.protocol.primitives import INT32, Buffer, Reader, write_nullable_string
from aiokafka_lite.protocol.registry import request_class, response_class

_SIZE_AND_HEADER = Layout(">ihhi")
_KEY_AND_VERSION = Layout(">hh")


def request_header_version(api_key: int, version: int) -> int:
    """The header's version of a request; for versions beyond those known, that of the newest."""
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version >= request_class(api_key).flexible_from else 1


def response_header_version(api_key: int, version: int) -> int:
    """The header's version of a response."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if version >= response_class(api_key).flexible_from else 0


def encode_request(
    request: RequestOf[Response], version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    """One request, ready to be sent.

    Args:
        request: Its body.
        version: Version of the API to write it in.
        correlation_id: Comes back in the response.
        client_id: Names this client in the broker's logs, quotas and metrics.

    Returns:
        Size, header and body.

    Raises:
        UnsupportedVersionError: This client does not speak the version, or a field is set that it
            does not have.
    """
    out = _begin_request(request, version, correlation_id, client_id)
    request.encode(out, version)
    INT32.pack_into(out, 0, len(out) - 4)
    return out


class RequestInPieces(ABC):
    """A request that writes its frame around large data, without copying it, and reads its response
    itself: for hot paths. A `RequestOf` beside."""

    name: ClassVar[str]
    api_key: ClassVar[int]
    min_version: ClassVar[int]
    max_version: ClassVar[int]
    flexible_from: ClassVar[int]

    __slots__ = ()

    @abstractmethod
    def encode_frame(
        self, version: int, correlation_id: int, client_id: str | None
    ) -> list[Buffer]:
        """What `encode_request` returns, in pieces: some are views of data that is not ours."""

    @abstractmethod
    def read_response(self, frame: Buffer, version: int) -> object:
        """What the response says; its correlation id was looked at.

        Raises:
            KafkaProtocolError: As of `decode_response`.
        """


def _begin_request(
    request: RequestOf[Response],
    version: int,
    correlation_id: int,
    client_id: str | None,
) -> bytearray:
    """Room for the size, and the header."""
    api_key = request.api_key
    check_version(request, version)
    out = bytearray(_SIZE_AND_HEADER.pack(0, api_key, version, correlation_id))
    header_version = request_header_version(api_key, version)
    if header_version > 0:
        write_nullable_string(out, client_id, False)
    if header_version > 1:
        out.append(0)
    return out


def encode_response(response: Response, version: int, correlation_id: int) -> bytearray:
    """One response, ready to be sent: size, header and body.

    Raises:
        UnsupportedVersionError: As for `encode_request`.
    """
    check_version(response, version)
    out = bytearray(4)
    out += INT32.pack(correlation_id)
    if response_header_version(response.api_key, version) > 0:
        out.append(0)
    response.encode(out, version)
    INT32.pack_into(out, 0, len(out) - 4)
    return out


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, Reader]:
    """A request's header, and a reader that stands at its body.

    A broker needs this alone when the version is not one it speaks: an ApiVersions request of any
    version must be answered.

    Raises:
        KafkaProtocolError: The bytes are no request header, or of an API unknown here.
    """
    api_key, version = Reader(frame).unpack(_KEY_AND_VERSION)
    if api_key not in API_MODULES:
        raise KafkaProtocolError(f"a request of the unknown API {api_key}")
    if version < 0:
        raise KafkaProtocolError(f"a request of version {version}")
    reader = Reader(frame)
    return RequestHeader.decode(reader, request_header_version(api_key, version)), reader


def decode_request(frame: Buffer) -> tuple[RequestHeader, Request]:
    """A whole request.

    Raises:
        KafkaProtocolError: The bytes are not one request and nothing else.
        UnsupportedVersionError: Of a known API, but in a version not spoken here.
    """
    header, reader = decode_request_header(frame)
    message = request_class(header.request_api_key)
    version = header.request_api_version
    check_version(message, version)
    request = message.decode(reader, version)
    reader.expect_end()
    return header, request


@overload
def decode_response(frame: Buffer, api: type[ResponseT], version: int) -> tuple[int, ResponseT]: ...
@overload
def decode_response(
    frame: Buffer, api: type[Request] | int, version: int
) -> tuple[int, Response]: ...
def decode_response(frame: Buffer, api: type[Message] | int, version: int) -> tuple[int, Message]:
    """A whole response.

    Args:
        frame: The bytes after the size.
        api: What it answers: the response's class, the request's class or the API's number.
        version: Version of the request.

    Returns:
        The correlation id, and the body.

    Raises:
        KafkaProtocolError: The bytes are not one such response and nothing else.
    """
    if isinstance(api, int):
        message: type[Message] = response_class(api)
    else:
        message = api.response if issubclass(api, Request) else api
    check_version(message, version)
    reader = Reader(frame)
    correlation_id = reader.int32()
    if response_header_version(message.api_key, version) > 0:
        reader.tagged_fields()
    response = message.decode(reader, version)
    reader.expect_end()
    return correlation_id, response


def peek_correlation_id(frame: Buffer) -> int:
    """Which request a response answers; it comes first in every response.

    Raises:
        KafkaProtocolError: The frame is too short to hold one.
    """
    return Reader(frame).int32()


def check_version(message: type[Message] | Message | RequestOf[Response], version: int) -> None:
    """Refuse a version of `message` that this client does not speak."""
    if not message.min_version <= version <= message.max_version:
        raise UnsupportedVersionError(
            f"{message.name} version {version} is not spoken by this client, "
            f"which has {message.min_version} to {message.max_version}"
        )
