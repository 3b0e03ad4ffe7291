"""Quotes a broker's text in errors.

A broker must not control the length of an error, its number of log lines, or its effect on a
terminal.
"""

from typing import Final

from aiokafka_lite.errors.base import printable

LONGEST_SHOWN: Final = 100
"""Default maximum number of characters that an error quotes."""


def shown(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Return a broker's text, truncated if it is long, with control characters escaped."""
    return printable(text if len(text) <= longest else f"{text[:longest]}...")
