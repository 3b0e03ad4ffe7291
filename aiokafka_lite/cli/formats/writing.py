"""Writes records in a format. A format is compiled once into a function that takes a list of
records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from aiokafka_lite.cli.formats.encodings import encoder
from aiokafka_lite.cli.formats.format_grammar import NUMBERS, Literal, Part, Verb, argument
from aiokafka_lite.structs import ConsumerRecord

__all__ = ["Record", "RecordWriter", "delivery_count", "format_writer"]

Record: TypeAlias = ConsumerRecord[bytes, bytes]
RecordWriter: TypeAlias = Callable[[Sequence[Record]], bytes]
"""Writes consecutive records of one partition."""

_Field: TypeAlias = Callable[[Record], bytes]

_TIMESTAMP_TYPES: Final = {0: b"CreateTime", 1: b"LogAppendTime"}


def format_writer(parts: Sequence[Part]) -> RecordWriter:
    """Return a function that writes records; null keys and values are written as nothing.

    The function raises ValueError if a modifier cannot write a field, naming the record.
    """
    match parts:
        case [Verb("v", "")]:
            return lambda records: b"".join([record.value or b"" for record in records])
        case [Verb("v", ""), Literal(end)]:
            # The format of most reads: no call per record.
            return lambda records: (
                end.join([record.value or b"" for record in records]) + end if records else b""
            )
    count = _Count()
    fields = [_field(part, count) for part in parts]
    if len(fields) == 1:
        only = fields[0]
        return lambda records: b"".join([_named(record, only) for record in records])

    def write(records: Sequence[Record]) -> bytes:
        out: list[bytes] = []
        written = count.value
        for record in records:
            try:
                out += [field(record) for field in fields]
            except (ValueError, OverflowError) as error:
                count.value = written  # the caller writes the others again
                raise _where(record, error) from error
        return b"".join(out)

    return write


class _Count:
    """The number of the record that is being written, for %i."""

    def __init__(self) -> None:
        self.value = 0

    def next(self, _: Record) -> int:
        self.value += 1
        return self.value


def _named(record: Record, field: _Field) -> bytes:
    try:
        return field(record)
    except (ValueError, OverflowError) as error:
        raise _where(record, error) from error


def _where(record: Record, error: Exception) -> ValueError:
    return ValueError(f"{record.topic}/{record.partition} at offset {record.offset}: {error}")


def _field(part: Part, count: _Count) -> _Field:
    if isinstance(part, Literal):
        data = part.data
        return lambda _: data
    match part.name:
        case "k":
            encode_key = encoder(part.modifier)
            return lambda record: b"" if record.key is None else encode_key(record.key)
        case "v":
            encode = encoder(part.modifier)
            return lambda record: b"" if record.value is None else encode(record.value)
        case "t":
            encode_topic = encoder(part.modifier)
            return lambda record: encode_topic(record.topic.encode())
        case "h":
            return _headers(part)
        case "a":
            return lambda record: _TIMESTAMP_TYPES.get(record.timestamp_type, b"NoTimestamp")
        case "d" if part.modifier.startswith("strftime["):
            return _strftime(argument(part.modifier))
    write = _number(part.modifier)
    getter = _NUMBERS_OF[part.name] if part.name != "i" else count.next
    return lambda record: write(getter(record))


def delivery_count(record: Record) -> int:
    """Return how often a share group has delivered a record; 0 without a share group."""
    count: int = getattr(record, "delivery_count", 0)
    return count


_NUMBERS_OF: Final[dict[str, Callable[[Record], int]]] = {
    "K": lambda record: -1 if record.key is None else len(record.key),
    "V": lambda record: -1 if record.value is None else len(record.value),
    "H": lambda record: len(record.headers),
    "p": lambda record: record.partition,
    "o": lambda record: record.offset,
    "e": lambda record: record.leader_epoch,
    "d": lambda record: record.timestamp,
    "T": lambda record: record.timestamp,
    "D": delivery_count,
}


def _number(modifier: str) -> Callable[[int], bytes]:
    if modifier in NUMBERS:
        size, order = NUMBERS[modifier]
        return lambda number: (number & (1 << 8 * size) - 1).to_bytes(
            size, "big" if order == "big" else "little"
        )
    if modifier.startswith("hex"):
        bits = int(modifier[3:])
        return lambda number: b"%0*x" % (bits // 4, number & (1 << bits) - 1)
    return lambda number: b"%d" % number


def _strftime(pattern: str) -> _Field:
    from datetime import UTC, datetime  # rarely used

    def write(record: Record) -> bytes:
        if record.timestamp < 0:
            return b""
        moment = datetime.fromtimestamp(record.timestamp / 1000, UTC)
        return moment.strftime(pattern).encode()

    return write


def _headers(part: Verb) -> _Field:
    if not part.inner:
        return lambda record: b",".join(
            name.encode() + b"=" + (value or b"") for name, value in record.headers
        )
    fields = [_header_field(each) for each in part.inner]
    return lambda record: b"".join(
        field(name.encode(), value) for name, value in record.headers for field in fields
    )


def _header_field(part: Part) -> Callable[[bytes, bytes | None], bytes]:
    if isinstance(part, Literal):
        data = part.data
        return lambda name, value: data
    if part.name in "KV":
        write = _number(part.modifier)
        if part.name == "K":
            return lambda name, value: write(len(name))
        return lambda name, value: write(-1 if value is None else len(value))
    encode = encoder(part.modifier)
    if part.name == "k":
        return lambda name, value: encode(name)
    return lambda name, value: b"" if value is None else encode(value)
