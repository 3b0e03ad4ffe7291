"""The offset grammar, one parser for every command."""

import pytest

from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.cli.offsets.offset_grammar import Bound, Kind, OffsetRange, parse_offset

NOW = 1_700_000_000_000
HOUR = 3_600_000
START, END = Bound(Kind.START), Bound(Kind.END)


def exact(number: int) -> Bound:
    return Bound(Kind.EXACT, number)


def at(milliseconds: int) -> Bound:
    return Bound(Kind.TIME, milliseconds)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", OffsetRange(START)),
        ("beginning", OffsetRange(START)),
        ("end", OffsetRange(END)),
        ("stored", OffsetRange(Bound(Kind.STORED))),
        ("10", OffsetRange(exact(10))),
        ("+10", OffsetRange(Bound(Kind.START, 10))),
        ("-10", OffsetRange(Bound(Kind.END, 10))),
        ("10:20", OffsetRange(exact(10), exact(20))),
        ("10:", OffsetRange(exact(10))),
        (":20", OffsetRange(START, exact(20))),
        (":end", OffsetRange(START, END)),
        ("-10:end", OffsetRange(Bound(Kind.END, 10), END)),
        ("start:+5", OffsetRange(START, Bound(Kind.START, 5))),
        ("s@1700000000000", OffsetRange(at(NOW))),
        ("e@1700000000000", OffsetRange(START, at(NOW))),
        ("@1700000000", OffsetRange(at(NOW))),
        ("@-1h", OffsetRange(at(NOW - HOUR))),
        ("@-1h30m:-30m", OffsetRange(at(NOW - HOUR * 3 // 2), at(NOW - HOUR // 2))),
        ("@:1700000000000", OffsetRange(START, at(NOW))),
        ("@-2d:end", OffsetRange(at(NOW - 48 * HOUR), END)),
        ("@2023-11-14", OffsetRange(at(1_699_920_000_000))),
        ("@2023-11-14T22:13:20", OffsetRange(at(NOW))),
        ("@2023-11-14T22:13:20Z:now", OffsetRange(at(NOW), at(NOW))),
        ("@2023-11-14 23:13:20.5+01:00", OffsetRange(at(NOW + 500))),
        ("@2023-11-14T22:13:2023-11-15T01:00", OffsetRange(at(NOW - 20_000), at(NOW + 10_000_000))),
    ],
)
def test_grammar(text: str, expected: OffsetRange) -> None:
    assert parse_offset(text, NOW) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "@", "@:", "ten", "1:2:3", "--5", "@12345", "@-1y", "@2023-13-01", "20:10"),
        *("9" * 20, "@-1h:-2h", "1:stored", "٣"),
    ],
)
def test_a_text_that_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_offset(text, NOW)
