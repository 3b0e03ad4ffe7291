"""Counts and rates as the command line takes them, for argparse."""

from __future__ import annotations

import argparse

__all__ = ["at_least_one", "rate"]


def at_least_one(text: str) -> int:
    """Return a whole number of at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} should be an integer of at least 1")
    return int(text)


def rate(text: str) -> float:
    """Return records per second."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of records a second")
    return found
