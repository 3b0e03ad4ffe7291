"""Reads the expiry date of a PEM certificate, which the `ssl` module does not show.

A broker that refuses an expired certificate rarely says so: Java sends "certificate unknown".

Source: RFC 5280, section 4.1 (the fields before `validity`), X.690 (DER).
"""

import binascii
import re
from datetime import UTC, datetime
from typing import Final

_BLOCK: Final = re.compile(
    r"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----(.*?)-----END", re.DOTALL
)
_SEQUENCE: Final = 0x30
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18


def expiry(pem: str) -> datetime | None:
    """Return when the first certificate of a PEM text expires.

    Returns:
        The date, in UTC; None if there is no certificate or its date cannot be read.
    """
    found = _BLOCK.search(pem)
    if found is None:
        return None
    try:
        data = memoryview(binascii.a2b_base64(found[1]))
        signed = _content(_content(data, _SEQUENCE), _SEQUENCE)
        if signed[0] == 0xA0:  # the version, which version 1 omits
            signed = _rest(signed)
        for _ in range(3):  # serial number, signature algorithm, issuer
            signed = _rest(signed)
        date = _rest(_content(signed, _SEQUENCE))  # the validity, without its beginning
        kind, text = date[0], bytes(_content(date, date[0])).decode("ascii")
        if kind == _UTC_TIME:
            text = ("19" if int(text[:2]) >= 50 else "20") + text
        elif kind != _GENERALIZED_TIME:
            return None
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (binascii.Error, IndexError, ValueError):
        return None


def _content(data: memoryview, tag: int) -> memoryview:
    """The content of the first element, which must have a tag."""
    begin, end = _bounds(data)
    if data[0] != tag:
        raise ValueError("another element was expected")
    return data[begin:end]


def _rest(data: memoryview) -> memoryview:
    """What follows the first element."""
    return data[_bounds(data)[1] :]


def _bounds(data: memoryview) -> tuple[int, int]:
    length, begin = data[1], 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(data[2:begin], "big")
    if begin + length > len(data):
        raise ValueError("the element is cut off")
    return begin, begin + length
