"""`auto_offset_reset`: where to start without a position, or when it is out of range.

"earliest", "latest", "none", or "by_duration:<ISO-8601 duration>", which starts at the first record
that is at most that old (KIP-1106).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from aiokafka_lite.errors import KafkaConfigurationError

_BY_DURATION: Final = "by_duration"

# The format of Java's Duration.parse: days, hours, minutes, and seconds with a fraction.
_DURATION: Final = re.compile(
    r"(?P<sign>[-+])?P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)

_LONGEST_MS: Final = 2**63 - 1

END_WANTED: Final = -1


class OffsetReset(Enum):
    """The policies without an argument."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"

    def __str__(self) -> str:
        return self.value


class ResetByDuration(NamedTuple):
    """Start at the first record that is at most this old; at the end if there is none.

    Attributes:
        milliseconds: The maximum age, relative to the lookup of the position.
        end: The end of the partition, from which to start if a further search finds no record;
            `END_WANTED` to look it up; None to search first.
    """

    milliseconds: int
    end: int | None = None

    def __str__(self) -> str:
        return f"{self.milliseconds} ms ago"


ResetPolicy: TypeAlias = OffsetReset | ResetByDuration


def reset_policy(text: object) -> ResetPolicy:
    """Parse `auto_offset_reset`.

    Raises:
        KafkaConfigurationError: The text names no policy.
    """
    if isinstance(text, str):
        for plain in OffsetReset:
            if text == plain.value:
                return plain
        kind, _, duration = text.partition(":")
        if kind == _BY_DURATION:
            return ResetByDuration(_duration_ms(duration))
    raise KafkaConfigurationError(
        "`auto_offset_reset` should be 'earliest', 'latest' or 'none', or a duration such as "
        f"'by_duration:PT1H', not {text!r}"
    )


def _duration_ms(text: str) -> int:
    """Parse an ISO-8601 duration into milliseconds, truncated as in Java."""
    found = _DURATION.fullmatch(text)
    parts = ("days", "hours", "minutes", "seconds")
    if found is None or found["time"] in ("T", "t") or not any(found[part] for part in parts):
        raise KafkaConfigurationError(
            "`auto_offset_reset='by_duration:...'` needs an ISO-8601 duration such as 'P1D' or "
            f"'PT1H30M', not {text!r}"
        )
    days, hours, minutes, seconds = (int(found[part] or 0) for part in parts)
    nanoseconds = int((found["fraction"] or "").ljust(9, "0"))
    if (found["seconds"] or "").startswith("-"):
        nanoseconds = -nanoseconds
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 10**9 + nanoseconds
    if found["sign"] == "-":
        total = -total
    if total < 0:
        raise KafkaConfigurationError(
            f"`auto_offset_reset`: the duration {text!r} is negative, but should be 0 or more"
        )
    return min(total // 10**6, _LONGEST_MS)
