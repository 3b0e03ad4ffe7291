"""Encodings of keys and values: hex, base64, and binary numbers by rpk's `unpack`."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable
from typing import Final

from aiokafka_lite.cli.failures import UsageError

__all__ = ["decoder", "encoder", "unpacker"]

_SIZES: Final = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8}


def encoder(modifier: str) -> Callable[[bytes], bytes]:
    """Return a function that writes bytes as the modifier specifies."""
    if modifier == "hex":
        return binascii.hexlify
    if modifier == "base64":
        return base64.b64encode
    if modifier == "base64raw":
        return lambda data: base64.b64encode(data).rstrip(b"=")
    if modifier.startswith("unpack["):
        return unpacker(modifier[len("unpack[") : -1])
    return bytes


def decoder(modifier: str) -> Callable[[bytes], bytes]:
    """Return the inverse function of `encoder`; it raises ValueError for invalid input."""
    if modifier == "hex":
        return binascii.unhexlify
    if modifier == "base64":
        return lambda data: base64.b64decode(data, validate=True)
    if modifier == "base64raw":
        return lambda data: base64.b64decode(data + b"=" * (-len(data) % 4), validate=True)
    return bytes


def unpacker(pattern: str) -> Callable[[bytes], bytes]:
    """Return a function that writes packed numbers as text.

    The pattern is a sequence of: `<` little-endian and `>` big-endian (the default) from here on;
    b B h H i I q Q signed and unsigned numbers of 1, 2, 4 and 8 bytes; c one character; x skips a
    byte; s the rest as text; $ the end. A blank is written as it is.

    The function raises ValueError for data that is too short, or too long for `$`.

    Raises:
        UsageError: The pattern is invalid.
    """
    for place, code in enumerate(pattern):
        if code not in "<>bBhHiIqQcxs$ " or (code == "s" and pattern[place + 1 :].strip(" $")):
            raise UsageError(f"unpack[{pattern}]: {code!r} at {place + 1} is invalid there")

    def unpack(data: bytes) -> bytes:
        out = bytearray()
        order, at = ">", 0
        for code in pattern:
            if code in "<>":
                order = code
            elif code == " ":
                out += b" "
            elif code == "$":
                if at < len(data):
                    raise ValueError(f"unpack[{pattern}]: {len(data) - at} bytes are left over")
            elif code == "s":
                out += data[at:]
                at = len(data)
            else:
                size = _SIZES.get(code, 1)
                if at + size > len(data):
                    raise ValueError(f"unpack[{pattern}]: the data ends after {len(data)} bytes")
                if code == "c":
                    out += data[at : at + 1]
                elif code != "x":
                    (number,) = struct.unpack_from(order + code, data, at)
                    out += b"%d" % number
                at += size
        return bytes(out)

    return unpack
