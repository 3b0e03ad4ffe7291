"""The offset grammar, one parser for every command, and what it means in a partition."""

from collections.abc import Mapping
from typing import Any

import pytest

from aiokafka_lite import TopicPartition
from aiokafka_lite.cli.failures import UsageError
from aiokafka_lite.cli.offsets.offset_grammar import Bound, Kind, OffsetRange, parse_offset
from aiokafka_lite.cli.offsets.resolve import LATEST, Resolved, resolve

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


ORDERS = TopicPartition("orders", 0)


class FakeLookup:
    """A partition with the offsets 10 to 99, of which a transaction is open from 50 on.

    A record's offset is also its timestamp.
    """

    async def offsets(
        self, times: Mapping[TopicPartition, int], *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        [at] = times.values()
        if at == LATEST:
            return {ORDERS: 50 if committed else 100}
        return {ORDERS: max(at, 10) if at < 100 else -1}


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (exact(70), 70),
        (exact(120), 100),
        (at(70), 70),
        (at(500), 100),
        (Bound(Kind.START, 70), 80),
        (END, 50),
        (Bound(Kind.END, 5), 45),
    ],
)
async def test_start_within_an_open_transaction_is_kept(start: Bound, expected: int) -> None:
    lookup: Any = FakeLookup()
    found = await resolve(lookup, [ORDERS], OffsetRange(start), committed=True)
    assert (found[ORDERS].start, found[ORDERS].end) == (expected, None)


async def test_end_in_the_future_is_the_present_end_if_that_is_wanted() -> None:
    lookup: Any = FakeLookup()
    wanted = OffsetRange(START, exact(1000))
    assert await resolve(lookup, [ORDERS], wanted) == {ORDERS: Resolved(10, 1000)}
    assert await resolve(lookup, [ORDERS], wanted, to_end=True) == {ORDERS: Resolved(10, 100)}
    early = OffsetRange(START, exact(20))
    assert await resolve(lookup, [ORDERS], early, to_end=True) == {ORDERS: Resolved(10, 20)}
