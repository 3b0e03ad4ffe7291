"""A record to be sent to a topic."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["InputRecord"]


class InputRecord(NamedTuple):
    """The fields of a record in a format or a line of JSON.

    Attributes:
        key: The key, or None.
        value: The value, or None.
        headers: (name, value) pairs.
        partition: The partition; None lets the partitioner choose.
        timestamp: Milliseconds since the epoch; None is now.
    """

    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = []  # noqa: RUF012 (never changed)
    partition: int | None = None
    timestamp: int | None = None
