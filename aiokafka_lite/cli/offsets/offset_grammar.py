"""The offset grammar: start, end, 100, +10, -10, 100:200, :end, @2026-11-23T10:00:00, @-1h:-30m.

One parser for every command that takes an offset. A range ends before its second offset. A time is
10 digits (seconds), 13 digits (milliseconds), an ISO date or date and time (UTC without a zone), or
a duration before now. kcat's `beginning`, `stored`, `s@MS` and `e@MS` mean the same as there.
"""

from __future__ import annotations

import re
import time
from enum import Enum
from typing import Final, NamedTuple

from aiokafka_lite.cli.connection.durations import parse_duration
from aiokafka_lite.cli.failures import UsageError

__all__ = ["Bound", "Kind", "OffsetRange", "parse_offset", "parse_time"]

INT64: Final = 2**63 - 1


class Kind(Enum):
    """The reference point of a bound."""

    START = "start"  # number records after the first one
    END = "end"  # number records before the end (0: the end)
    EXACT = "exact"
    TIME = "time"  # the first record at or after this many ms
    STORED = "stored"  # the group's committed offset


class Bound(NamedTuple):
    """One end of a range.

    Attributes:
        kind: Its reference point.
        number: Records, an offset, or milliseconds since the epoch, according to `kind`.
    """

    kind: Kind
    number: int = 0


class OffsetRange(NamedTuple):
    """Where to begin, and where to stop.

    Attributes:
        start: The first offset.
        end: The offset before which reading stops; None to follow the topic.
    """

    start: Bound
    end: Bound | None = None


_START: Final = Bound(Kind.START)
_END: Final = Bound(Kind.END)
_WORDS: Final = {
    "start": _START,
    "beginning": _START,
    "earliest": _START,
    "end": _END,
    "latest": _END,
    "stored": Bound(Kind.STORED),
}
# An ISO time contains colons, so it has to be recognized before a range is split.
_TIME: Final = (
    r"(?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d{13}|\d{10}|-[0-9.a-z]+|now|end)"
)
_TIMES: Final = rf"({_TIME})?(:)?({_TIME})?"


def parse_offset(text: str, now_ms: int | None = None) -> OffsetRange:
    """Parse an offset or a range.

    Args:
        text: What the user wrote.
        now_ms: The present, for times that are relative to it.

    Raises:
        UsageError: It is neither; the message shows the grammar.
    """
    now = int(time.time() * 1000) if now_ms is None else now_ms
    text = text.strip()
    found: OffsetRange | None
    if text[:2] in ("s@", "e@") and text[2:].isdecimal():
        bound = Bound(Kind.TIME, int(text[2:]))
        found = OffsetRange(bound) if text[0] == "s" else OffsetRange(_START, bound)
    elif text.startswith("@"):
        found = _times(text[1:], now)
    else:
        found = _numbers(text)
    if found is None:
        raise UsageError(
            f"{text!r} is not an offset: write start, end, an offset N, +N after the start, -N"
            " before the end, a range N:M or :end, or a time @2026-11-23T10:00, @-1h, @T1:T2"
        )
    return found


def parse_time(text: str, now_ms: int | None = None) -> int | None:
    """Return milliseconds since the epoch, or None if the text is not a time."""
    now = int(time.time() * 1000) if now_ms is None else now_ms
    if text == "now":
        return now
    if text.isdecimal() and len(text) in (10, 13):
        return int(text) * (1000 if len(text) == 10 else 1)
    if text.startswith("-"):
        ago = parse_duration(text[1:])
        return None if ago is None else max(now - int(ago * 1000), 0)
    from datetime import UTC, datetime  # rarely used

    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    milliseconds = round(when.timestamp() * 1000)
    return milliseconds if milliseconds >= 0 else None


def _numbers(text: str) -> OffsetRange | None:
    first, colon, second = text.partition(":")
    if not colon:
        start = _bound(first)
        return None if start is None else OffsetRange(start)
    start = _bound(first) if first else _START
    end = _bound(second) if second else None
    if start is None or (second and end is None) or not (first or second):
        return None
    if end is not None and end.kind is Kind.STORED:
        return None
    if end is not None and end.kind is start.kind is Kind.EXACT and end.number < start.number:
        raise UsageError(f"{text!r} ends before it begins")
    return OffsetRange(start, end)


def _bound(text: str) -> Bound | None:
    if text in _WORDS:
        return _WORDS[text]
    match = re.fullmatch(r"([+-]?)([0-9]{1,19})", text)
    if match is None or int(match[2]) > INT64:
        return None
    kind = {"": Kind.EXACT, "+": Kind.START, "-": Kind.END}[match[1]]
    return Bound(kind, int(match[2]))


def _times(text: str, now: int) -> OffsetRange | None:
    match = re.fullmatch(_TIMES, text)
    if match is None or not (match[1] or match[3]):
        return None
    start = _time_bound(match[1], now) if match[1] else _START
    end = _time_bound(match[3], now) if match[3] else None
    if start is None or (match[3] and end is None):
        return None
    if end is not None and end.kind is start.kind is Kind.TIME and end.number < start.number:
        raise UsageError(f"'@{text}' ends before it begins")
    return OffsetRange(start, end)


def _time_bound(text: str, now: int) -> Bound | None:
    if text == "end":
        return _END
    moment = parse_time(text, now)
    return None if moment is None else Bound(Kind.TIME, moment)
