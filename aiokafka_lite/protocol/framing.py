"""Encodes and decodes whole frames, sans-IO: header and body of a request or response.

On the wire a frame follows its size, an int32. The `encode_*` functions write that size, too, so
that their result can be sent unchanged. The `decode_*` functions take a frame without it, as the
receiver extracts it from the stream.

The header version follows from API and version: a flexible request has header 2, any other header
1, and only ControlledShutdown 0 has header 0. A flexible response has header 1, any other header 0.
The ApiVersions response always has header 0, because a client reads it before it knows the broker's
versions (KIP-511).
"""

from __future__ import annotations

from abc import abstractmethod
from struct import Struct as Layout
from typing import ClassVar, overload

from aiokafka_lite.errors import KafkaProtocolError, UnsupportedVersionError
from aiokafka_lite.protocol.api_modules import API_MODULES
from aiokafka_lite.protocol.message import Message, Request, RequestOf, Response, ResponseT
from aiokafka_lite.protocol.messages.request_header import RequestHeader
from aiokafka_lite.protocol.primitives import INT32, Buffer, Reader, write_nullable_string
from aiokafka_lite.protocol.registry import request_class, response_class

_CONTROLLED_SHUTDOWN = 7
_API_VERSIONS = 18

_SIZE_AND_HEADER = Layout(">ihhi")
_KEY_AND_VERSION = Layout(">hh")


def request_header_version(api_key: int, version: int) -> int:
    """Return a request's header version; an unknown newer version counts as the newest known."""
    if api_key == _CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version >= request_class(api_key).flexible_from else 1


def response_header_version(api_key: int, version: int) -> int:
    """Return a response's header version."""
    if api_key == _API_VERSIONS:
        return 0
    return 1 if version >= response_class(api_key).flexible_from else 0


def encode_request(
    request: RequestOf[Response], version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    """Encode a request, ready to be sent.

    Args:
        request: The body.
        version: Version of the API to encode it in.
        correlation_id: Number that the response repeats.
        client_id: Name of this client in the broker's logs, quotas and metrics.

    Returns:
        Size, header and body.

    Raises:
        UnsupportedVersionError: This client does not support the version, or a field is set that
            the version does not have.
    """
    out = _begin_request(request, version, correlation_id, client_id)
    request.encode(out, version)
    INT32.pack_into(out, 0, len(out) - 4)
    return out


class RequestInPieces:
    """A request that encodes its frame in pieces, without copying large data, and decodes its own
    response. For hot paths, as an alternative to `RequestOf`. No ABC: its `isinstance` is slow."""

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
        """Return the bytes of `encode_request` in pieces; some are views of the caller's data."""

    @abstractmethod
    def read_response(self, frame: Buffer, version: int) -> object:
        """Decode the response, whose correlation id is already checked.

        Raises:
            KafkaProtocolError: As for `decode_response`.
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
    """Encode a response, ready to be sent: size, header and body.

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
    """Decode a request's header; return it with a reader positioned at the body.

    A broker needs only the header if it does not support the version: it must answer an
    ApiVersions request of any version.

    Raises:
        KafkaProtocolError: The bytes are not a request header, or the API is unknown.
    """
    api_key, version = Reader(frame).unpack(_KEY_AND_VERSION)
    if api_key not in API_MODULES:
        raise KafkaProtocolError(f"a request of the unknown API {api_key}")
    if version < 0:
        raise KafkaProtocolError(f"a request of version {version}")
    reader = Reader(frame)
    return RequestHeader.decode(reader, request_header_version(api_key, version)), reader


def decode_request(frame: Buffer) -> tuple[RequestHeader, Request]:
    """Decode a whole request.

    Raises:
        KafkaProtocolError: The bytes are not exactly one request.
        UnsupportedVersionError: The API is known, but its version is not supported.
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
    """Decode a whole response.

    Args:
        frame: The bytes after the size.
        api: The API: the response's class, the request's class or the API key.
        version: Version of the request.

    Returns:
        The correlation id, and the body.

    Raises:
        KafkaProtocolError: The bytes are not exactly one such response.
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
    """Return a response's correlation id, the first field of every response.

    Raises:
        KafkaProtocolError: The frame is too short to hold one.
    """
    return Reader(frame).int32()


def check_version(message: type[Message] | Message | RequestOf[Response], version: int) -> None:
    """Raise for a version of `message` that this client does not support."""
    if not message.min_version <= version <= message.max_version:
        raise UnsupportedVersionError(
            f"this client does not support {message.name} version {version}, only "
            f"{message.min_version} to {message.max_version}"
        )
