"""Reads records in a format from a stream of chunks, in constant memory.

A reader keeps the beginning of a record whose end has not arrived. A text field ends at the literal
that follows it, at its size if `%K` or `%V` came before it, or at the end of the input. Input that
cannot be decoded fails one record; input that does not match the format ends the reading, because
the next record cannot be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol, TypeAlias

from aiokafka_lite.cli.failures import CommandError, UsageError
from aiokafka_lite.cli.formats.encodings import decoder
from aiokafka_lite.cli.formats.format_grammar import (
    NUMBER_VERBS,
    NUMBERS,
    Literal,
    Part,
    Verb,
    argument,
)
from aiokafka_lite.cli.formats.input_record import InputRecord

__all__ = [
    "FormatReader",
    "LineReader",
    "MalformedInput",
    "Reader",
    "ValueReader",
    "value_delimiter",
]

MOST: Final = 128 * 1024 * 1024
"""Maximum bytes of one record in the input, so that a missing delimiter does not exhaust the
memory."""

Item: TypeAlias = InputRecord | ValueError


class MalformedInput(CommandError):
    """The input does not match the format.

    Args:
        message: The problem, and the record that has it.
        before: The records of the same chunk that precede it.
    """

    def __init__(self, message: str, before: Sequence[Item]) -> None:
        super().__init__(message)
        self.before = before


class Reader(Protocol):
    """Converts chunks of input to records."""

    def feed(self, chunk: bytes) -> list[Item]:
        """Return the records that this chunk completes, and an error for each invalid one."""
        ...

    def finish(self) -> list[Item]:
        """Return the record that the end of the input completes."""
        ...


def value_delimiter(parts: Sequence[Part]) -> bytes | None:
    """Return the delimiter if a format is a value and a delimiter, otherwise None."""
    match parts:
        case [Verb("v", ""), Literal(delimiter)]:
            return delimiter
    return None


class ValueReader:
    """Splits input into values at a delimiter: the fast path, without an object per record."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the values that this chunk completes."""
        values = (self._rest + chunk).split(self._delimiter)
        self._rest = values.pop()
        _check_size(len(self._rest))
        return values

    def finish(self) -> list[bytes]:
        """Return the last value, if the input does not end with a delimiter."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


class LineReader:
    """Converts each line to a record. Empty lines are skipped if `skip_empty`.

    Args:
        parse: Converts a line without its end to a record, or raises ValueError.
        skip_empty: True for JSON lines.
    """

    def __init__(self, parse: Callable[[bytes], InputRecord], *, skip_empty: bool = False) -> None:
        self._parse = parse
        self._skip_empty = skip_empty
        self._lines = ValueReader(b"\n")

    def feed(self, chunk: bytes) -> list[Item]:
        """Return the records that this chunk completes."""
        return self._parsed(self._lines.feed(chunk))

    def finish(self) -> list[Item]:
        """Return the record of the last line, if it has no end."""
        return self._parsed(self._lines.finish())

    def _parsed(self, lines: list[bytes]) -> list[Item]:
        items: list[Item] = []
        for line in lines:
            if self._skip_empty and not line.strip():
                continue
            try:
                items.append(self._parse(line))
            except ValueError as error:
                items.append(error)
        return items


class _NeedMore(Exception):
    """The record is not complete yet."""


class _Fields:
    """The fields of one record that were read so far."""

    def __init__(self) -> None:
        self.key: bytes | None = None
        self.value: bytes | None = None
        self.headers: list[tuple[str, bytes | None]] = []
        self.partition: int | None = None
        self.timestamp: int | None = None
        self.sizes: dict[str, int] = {}
        self.error: ValueError | None = None


class FormatReader:
    """Reads any format.

    Args:
        parts: The format.

    Raises:
        UsageError: The format cannot be read: a field has neither a size nor a delimiter.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        if not parts:
            raise UsageError("the format is empty")
        self._parts = tuple(parts)
        _check_readable(self._parts)
        self._buffer = b""
        self._count = 0

    def feed(self, chunk: bytes) -> list[Item]:
        """Return the records that this chunk completes.

        Raises:
            MalformedInput: A record does not match the format.
        """
        return self._read(self._buffer + chunk, ended=False)

    def finish(self) -> list[Item]:
        """Return the last record, which the end of the input completes.

        Raises:
            MalformedInput: The input ends in the middle of a record.
        """
        return self._read(self._buffer, ended=True)

    def _read(self, data: bytes, *, ended: bool) -> list[Item]:
        items: list[Item] = []
        at = 0
        while at < len(data):
            fields = _Fields()
            try:
                end = self._record(data, at, fields, ended)
            except _NeedMore:
                if ended:
                    raise MalformedInput(
                        f"the input ends in the middle of record {self._count + 1}", items
                    ) from None
                break
            except ValueError as error:
                raise MalformedInput(
                    f"record {self._count + 1} of the input: {error}", items
                ) from None
            if end == at:
                raise MalformedInput("the format reads nothing", items)
            at = end
            self._count += 1
            items.append(fields.error or _record_of(fields))
        self._buffer = data[at:]
        _check_size(len(self._buffer))
        return items

    def _record(self, data: bytes, at: int, fields: _Fields, ended: bool) -> int:
        for place, part in enumerate(self._parts):
            following = self._parts[place + 1] if place + 1 < len(self._parts) else None
            at = _part(data, at, part, following, fields, ended)
        return at


def _record_of(fields: _Fields) -> InputRecord:
    return InputRecord(fields.key, fields.value, fields.headers, fields.partition, fields.timestamp)


def _check_size(size: int) -> None:
    if size > MOST:
        raise CommandError(
            f"a record of the input is longer than {MOST >> 20} MiB: is the format right?"
        )


def _check_readable(parts: Sequence[Part], sized: str = "") -> None:
    sizes = set(sized)
    for place, part in enumerate(parts):
        if isinstance(part, Literal):
            continue
        following = parts[place + 1] if place + 1 < len(parts) else None
        delimited = isinstance(following, Literal) or (following is None and not sized)
        if part.modifier.startswith("unpack["):
            raise UsageError(f"%{part.name}{{{part.modifier}}} can be written, but not read")
        if part.name in NUMBER_VERBS:
            sizes.add({"K": "k", "V": "v", "H": "h"}.get(part.name, ""))
            if part.modifier.startswith("strftime[") and not delimited:
                raise UsageError("%d{strftime[..]} needs a delimiter after it")
        elif part.name == "h" and part.inner:
            if "h" not in sizes:
                raise UsageError("%h{..} can be read only after %H, the number of headers")
            _check_readable(part.inner, sized=" ")
        elif not (delimited or part.name in sizes or part.modifier.isdecimal()):
            raise UsageError(
                f"%{part.name} can be read only with a size (%{part.name.upper()} before it) or"
                " with a delimiter after it"
            )


def _part(
    data: bytes, at: int, part: Part, following: Part | None, fields: _Fields, ended: bool
) -> int:
    if isinstance(part, Literal):
        return _literal(data, at, part.data, ended, last=following is None)
    if part.name in NUMBER_VERBS and not part.modifier.startswith("strftime["):
        number, at = _number(data, at, part, ended)
        _set_number(fields, part.name, number)
        return at
    if part.name == "h" and part.inner:
        return _headers(data, at, part, fields, ended)
    size = int(part.modifier) if part.modifier.isdecimal() else fields.sizes.get(part.name)
    raw, at = _text(data, at, size, following, ended)
    try:
        _set_text(fields, part, raw)
    except ValueError as error:
        fields.error = ValueError(f"%{part.name}: {error}")
    return at


def _literal(data: bytes, at: int, wanted: bytes, ended: bool, *, last: bool) -> int:
    found = data[at : at + len(wanted)]
    if found == wanted:
        return at + len(wanted)
    if wanted.startswith(found) and at + len(found) == len(data):
        if ended and last and not found:
            return at  # the last record may lack its final delimiter
        raise _NeedMore
    raise ValueError(f"expected {wanted!r} and found {found!r}")


def _text(
    data: bytes, at: int, size: int | None, following: Part | None, ended: bool
) -> tuple[bytes | None, int]:
    if size is not None:
        if size < 0:
            return None, at  # null
        if at + size > len(data):
            raise _NeedMore
        return data[at : at + size], at + size
    end = data.find(following.data, at) if isinstance(following, Literal) else -1
    if end < 0:
        if not ended:
            raise _NeedMore
        end = len(data)
    return data[at:end], end


def _number(data: bytes, at: int, part: Verb, ended: bool) -> tuple[int, int]:
    if part.modifier in NUMBERS or part.modifier.startswith("hex"):
        binary = NUMBERS.get(part.modifier)
        size = binary[0] if binary else int(part.modifier[3:]) // 4
        raw = data[at : at + size]
        if len(raw) < size:
            raise _NeedMore
        if binary is None:
            return _signed(int(raw, 16), 4 * size), at + size
        order = "big" if binary[1] == "big" else "little"
        return int.from_bytes(raw, order, signed=True), at + size  # type: ignore[arg-type]
    end = at + 1 if data[at : at + 1] == b"-" else at
    while end < len(data) and data[end] in b"0123456789":
        end += 1
    if end == len(data) and not ended:
        raise _NeedMore
    digits = data[at:end]
    if not digits or digits == b"-":
        raise ValueError(f"%{part.name}: expected a number and found {data[at : at + 10]!r}")
    return int(digits), end


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if bits == 64 and number >> 63 else number


def _set_number(fields: _Fields, name: str, number: int) -> None:
    if name in "KVH":
        if number < (0 if name == "H" else -1) or number > MOST:
            raise ValueError(f"%{name} is {number}")
        fields.sizes[name.lower()] = number
    elif name == "p":
        fields.partition = number
    elif name in "dT":
        fields.timestamp = number if number >= 0 else None


def _set_text(fields: _Fields, part: Verb, raw: bytes | None) -> None:
    if part.name == "d":
        moment = datetime.strptime((raw or b"").decode(), argument(part.modifier))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        fields.timestamp = round(moment.timestamp() * 1000)
        return
    modifier = "" if part.modifier.isdecimal() else part.modifier
    decoded = None if raw is None else decoder(modifier)(raw)
    if part.name == "k":
        fields.key = decoded
    elif part.name == "v":
        fields.value = decoded
    elif part.name == "h" and decoded:
        for pair in decoded.split(b","):
            name, equals, value = pair.partition(b"=")
            fields.headers.append((name.decode(), value if equals else None))


def _headers(data: bytes, at: int, part: Verb, fields: _Fields, ended: bool) -> int:
    for _ in range(fields.sizes["h"]):
        header = _Fields()
        for place, inner in enumerate(part.inner):
            following = part.inner[place + 1] if place + 1 < len(part.inner) else None
            # The last header is not the last field, so its delimiter has to be there.
            at = _part(data, at, inner, following, header, ended)
        if header.error is not None:
            fields.error = header.error
        fields.headers.append(((header.key or b"").decode(), header.value))
    return at
