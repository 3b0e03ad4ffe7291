"""Quotes a broker's text in errors: a broker does not choose how long an error is."""

from typing import Final

LONGEST_SHOWN: Final = 100
"""Default maximum number of characters that an error quotes."""


def shown(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Return a broker's text, truncated if it is long."""
    return text if len(text) <= longest else f"{text[:longest]}..."
