"""Functions for `FakeCluster.control(..., tamper=...)` that corrupt an encoded response.

A tampering receives the whole frame, starting with its 4-byte length, and returns the bytes to
send in its place.
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
    """Add `by` to the correlation id, so that the response matches another request."""

    def tamper(frame: bytearray) -> bytearray:
        (correlation_id,) = _INT32.unpack_from(frame, _CORRELATION_ID_AT)
        _INT32.pack_into(frame, _CORRELATION_ID_AT, correlation_id + by)
        return frame

    return tamper


def claim_length(length: int) -> Tampering:
    """Set the frame's length prefix to `length`, regardless of the frame's size."""

    def tamper(frame: bytearray) -> bytearray:
        _INT32.pack_into(frame, 0, length)
        return frame

    return tamper


def cut(at: int) -> Tampering:
    """Truncate the body at byte `at` and adjust the length prefix."""

    def tamper(frame: bytearray) -> bytearray:
        return _with_length(frame[: _BODY_AT + at])

    return tamper


def pad(extra: bytes) -> Tampering:
    """Append extra bytes to the body and adjust the length prefix."""

    def tamper(frame: bytearray) -> bytearray:
        return _with_length(frame + extra)

    return tamper


def replace_body(body: bytes) -> Tampering:
    """Replace all bytes after the correlation id and adjust the length prefix."""

    def tamper(frame: bytearray) -> bytearray:
        return _with_length(frame[:_BODY_AT] + body)

    return tamper


def _with_length(frame: bytearray) -> bytearray:
    _INT32.pack_into(frame, 0, len(frame) - _INT32.size)
    return frame
