"""Reads the usual answer to a fetch faster than the generated decoder, which reads all others.

Usual is: version 13 or newer (topics by id), no aborted transactions, no tagged fields. That is
what a consumer gets a thousand times a second that reads record by record, and the decoder was a
fifth of the way from the socket to the application. Whatever looks otherwise, or wrong, is left to
the decoder: it tells what is wrong, too.
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
"""First version that names topics by their ids, and with that, the last that changed what is read
here: up to 18 only tagged fields came."""
NEWEST: Final = 18


def read_fetch_response(frame: Buffer, version: int) -> FetchResponse:
    """An answer to a fetch.

    Args:
        frame: The bytes after the size.
        version: Of the request.

    Raises:
        KafkaProtocolError: The bytes are not one such answer and nothing else.
    """
    if OLDEST <= version <= NEWEST:
        response = read_usual(frame)
        if response is not None:
            return response
    return decode_response(frame, FetchResponse, version)[1]
