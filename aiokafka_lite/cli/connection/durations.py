"""Durations as the command line takes them: 10s, 500ms, 5m, 1h30m, 2d."""

from __future__ import annotations

import argparse
import re
from typing import Final

__all__ = ["duration", "parse_duration"]

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART: Final = r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)"


def parse_duration(text: str) -> float | None:
    """Return seconds, or None if the text is not a duration. A number without a unit is seconds."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(rf"(?:{_PART})+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))


def duration(text: str) -> float:
    """Return seconds, for argparse."""
    seconds = parse_duration(text)
    if seconds is None or seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 10s, 500ms or 5m")
    return seconds
