"""Decodes the common fetch response faster than the generated decoder, which decodes all others.

The common case: version 13 or newer (topics by id), no aborted transactions, no tagged fields. A
consumer of single records gets a thousand of these per second, and the generated decoder took a
fifth of the time from the socket to the application. Other or malformed responses are left to the
generated decoder, which also reports errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiokafka_lite._build import pick
from aiokafka_lite.protocol.framing import decode_response
from aiokafka_lite.protocol.messages.fetch import FetchResponse
from aiokafka_lite.protocol.primitives import Buffer

if TYPE_CHECKING:
    from aiokafka_lite.consumer.fetching._response_codec_python import read_usual
else:
    read_usual = pick(
        "aiokafka_lite.consumer.fetching._response_codec_native",
        "aiokafka_lite.consumer.fetching._response_codec_python",
    ).read_usual

OLDEST: Final = 13
"""First version that identifies topics by id. It is also the last that changed the fields read
here: versions up to 18 only added tagged fields."""
NEWEST: Final = 18


def read_fetch_response(frame: Buffer, version: int) -> FetchResponse:
    """Decode a fetch response.

    Args:
        frame: The bytes after the size.
        version: The version of the request.

    Raises:
        KafkaProtocolError: The bytes are not exactly one fetch response.
    """
    if OLDEST <= version <= NEWEST:
        response = read_usual(frame)
        if response is not None:
            return response
    return decode_response(frame, FetchResponse, version)[1]
