"""What the log says of something that is away: that it is, once a minute that it still is, and
that it is back.

An attempt fails every second while a broker is away, and a line for each would bury all others.
So one object stands for one broker (or for the cluster as a whole), counts, and says which of the
events deserve a line. Without a clock: time is an argument.
"""

from __future__ import annotations

from typing import Final

from aiokafka_lite.errors import KafkaConnectionError, KafkaError

REMIND_EVERY: Final = 60.0
"""Seconds between two lines about the same outage."""


class Outage:
    """Whether one thing is away, and since when.

    Args:
        failing: What cannot be done, such as "cannot connect to broker 1".
        working: What can be done again after it, such as "connected to broker 1".
    """

    __slots__ = ("_failing", "_failures", "_line_at", "_since", "_working")

    def __init__(self, failing: str, working: str) -> None:
        self._failing = failing
        self._working = working
        self._since: float | None = None  # the first failure of the outage; None: there is none
        self._failures = 0
        self._line_at = 0.0  # of the last line

    def on_failure(self, now: float, error: object) -> str | None:
        """It failed.

        Returns:
            A line for the log, or None if one was given lately.
        """
        self._failures += 1
        if self._since is None:
            self._since = self._line_at = now
            return f"{self._failing}: {error}"
        if now < self._line_at + REMIND_EVERY:
            return None
        self._line_at = now
        return f"{self._failing} for {now - self._since:.0f} s ({self._failures} attempts): {error}"

    def on_success(self, now: float) -> str | None:
        """It went well.

        Returns:
            A line for the log if it was away, with the time that it took.
        """
        if self._since is None:
            return None
        line = (
            f"{self._working} again after {now - self._since:.1f} s ({self._failures} failed "
            f"attempt{'s' if self._failures > 1 else ''})"
        )
        self._since = None
        self._failures = 0
        return line


def reason(error: KafkaError) -> str:
    """What an error says; its class is left out where that says nothing more."""
    return error.args[0] if type(error) is KafkaConnectionError and error.args else str(error)


class Repeated:
    """Events that may come many times a minute: the first is told, and then how many came."""

    __slots__ = ("_line_at", "_untold")

    def __init__(self) -> None:
        self._line_at: float | None = None
        self._untold = 0

    def on_event(self, now: float) -> int | None:
        """It happened.

        Returns:
            How often it did since the last line, this time included; None if one was given lately.
        """
        self._untold += 1
        if self._line_at is not None and now < self._line_at + REMIND_EVERY:
            return None
        self._line_at = now
        count, self._untold = self._untold, 0
        return count
