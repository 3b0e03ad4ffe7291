"""Ready-made lies for `FakeCluster.control(..., tamper=...)`: each changes a response's bytes.

A tampering gets the whole frame as it would be sent, its 4-byte length first, and returns what is
sent in its place.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias

__all__ = ["Tampering", "claim_length", "cut", "pad", "replace_body", "shift_correlation_id"]

Tampering: TypeAlias = Callable[[bytearray], bytes | bytearray]

_INT32: Final = Struct(">i")
_CORRELATION_ID_AT: Final = 4
_BODY_AT: Final = 8


def shift_correlation_id(by: int = 1) -> Tampering:
    """Answer another request than the one that was sent."""

    def tamper(frame: bytearray) -> bytearray:
        (correlation_id,) = _INT32.unpack_from(frame, _CORRELATION_ID_AT)
        _INT32.pack_into(frame, _CORRELATION_ID_AT, correlation_id + by)
        return frame

    return tamper


def claim_length(length: int) -> Tampering:
    """Say that the frame has `length` bytes, whatever it has."""

    def tamper(frame: bytearray) -> bytearray:
        _INT32.pack_into(frame, 0, length)
        return frame

    return tamper


def cut(at: int) -> Tampering:
    """Leave out the body from byte `at` on; the length is honest about it."""

    def tamper(frame: bytearray) -> bytearray:
        return _with_length(frame[: _BODY_AT + at])

    return tamper


def pad(extra: bytes) -> Tampering:
    """Append bytes that do not belong there; the length counts them."""

    def tamper(frame: bytearray) -> bytearray:
        return _with_length(frame + extra)

    return tamper


def replace_body(body: bytes) -> Tampering:
    """Send other bytes after the correlation id; the length is right."""

    def tamper(frame: bytearray) -> bytearray:
        return _with_length(frame[:_BODY_AT] + body)

    return tamper


def _with_length(frame: bytearray) -> bytearray:
    _INT32.pack_into(frame, 0, len(frame) - _INT32.size)
    return frame
