"""Zigzag varints, the integers in a v2 record; for code that rewrites stored records."""

__all__ = ["read_varint", "write_varint"]


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer at `at` and its end, in data that was checked when stored."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def write_varint(out: bytearray, number: int) -> None:
    """Append an integer of up to 64 bits."""
    rest = (number << 1) ^ (number >> 63)
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
