"""Corrupt responses that a client must survive, each with a name."""

from collections.abc import Callable
from typing import Final

from aiokafka_lite.protocol.framing import encode_response
from aiokafka_lite.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from aiokafka_lite.testing import tampering

__all__ = ["LIES", "NEEDS_PATIENCE"]

_OTHER_BODY: Final = bytes(
    encode_response(
        FindCoordinatorResponse(coordinators=[Coordinator("group", 1, "nowhere.example", 9092)]),
        4,
        7,
    )[8:]
)


def _claim_more(extra: int) -> tampering.Tampering:
    return lambda frame: tampering.claim_length(len(frame) - 4 + extra)(frame)


LIES: Final[dict[str, Callable[[bytearray], bytes | bytearray]]] = {
    "a negative length": tampering.claim_length(-1),
    "a length of nothing": tampering.claim_length(0),
    "a length of two gigabytes": tampering.claim_length(2**31 - 1),
    "a length that ends too early": _claim_more(-3),
    "a length that ends too late": _claim_more(20),
    "the next correlation id": tampering.shift_correlation_id(1),
    "the last correlation id": tampering.shift_correlation_id(-1),
    "a correlation id from nowhere": tampering.shift_correlation_id(-100_000),
    "no body": tampering.cut(0),
    "half a body": tampering.cut(5),
    "more than a body": tampering.pad(b"more"),
    "another API's body": tampering.replace_body(_OTHER_BODY),
    "a body of ones": tampering.replace_body(b"\xff" * 100),
    "a body of zeros": tampering.replace_body(bytes(100)),
}

NEEDS_PATIENCE: Final = ("a length that ends too late",)
"""They look like partial responses, so only the request timeout detects them."""
