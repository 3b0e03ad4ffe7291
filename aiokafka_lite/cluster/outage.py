"""Limits the log lines about an outage: one at its start, one a minute, and one at its end.

Attempts fail every second while a broker is down, and a line for each would hide all other lines.
One object represents one broker (or the cluster as a whole), counts the attempts, and returns a
line for those worth logging. It has no clock: time is an argument.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from aiokafka_lite.errors import KafkaConnectionError, KafkaError

REMIND_EVERY: Final = 60.0
"""Seconds between two lines about the same outage."""

MOST_KINDS: Final = 1000
"""Kinds of failures that are counted separately."""


class Outage:
    """The outage of one broker or cluster.

    Args:
        failing: Text while it fails, such as "cannot connect to broker 1".
        working: Text after it recovers, such as "connected to broker 1".
    """

    __slots__ = ("_failing", "_failures", "_line_at", "_since", "_working")

    def __init__(self, failing: str, working: str) -> None:
        self._failing = failing
        self._working = working
        self._since: float | None = None  # the first failure of the outage; None: there is none
        self._failures = 0
        self._line_at = 0.0  # of the last line

    def on_failure(self, now: float, error: object) -> str | None:
        """Record a failure.

        Returns:
            A log line, or None if one was returned in the last minute.
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
        """Record a success.

        Returns:
            A log line with the duration if this ends an outage, or None.
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
    """The text of an error, without the class name if that adds nothing."""
    return error.args[0] if type(error) is KafkaConnectionError and error.args else str(error)


class Repeated:
    """Limits log lines about a frequent event: the first one, then a count once a minute."""

    __slots__ = ("_line_at", "_unreported")

    def __init__(self) -> None:
        self._line_at: float | None = None
        self._unreported = 0

    def on_event(self, now: float) -> int | None:
        """Record an event.

        Returns:
            The number of events since the last line, including this one; None if the last line is
            less than a minute old.
        """
        self._unreported += 1
        if self._line_at is not None and now < self._line_at + REMIND_EVERY:
            return None
        self._line_at = now
        count, self._unreported = self._unreported, 0
        return count


class RepeatedKinds:
    """Limits log lines about frequent events of several kinds, each as `Repeated` does."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[Hashable, Repeated] = {}

    def on_event(self, kind: Hashable, now: float) -> str | None:
        """Record an event.

        Args:
            kind: What happened; each kind is counted separately.
            now: Seconds of any monotonic clock.

        Returns:
            The text to append to the log line, such as " (7 times since the last report)" or "".
            None: log no line, because the last one of this kind is less than a minute old.
        """
        if len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()
        count = self._kinds.setdefault(kind, Repeated()).on_event(now)
        if count is None:
            return None
        return f" ({count} times since the last report)" if count > 1 else ""


class RepeatedFailures:
    """Limits log lines about calls of the application's objects that may fail for every record."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds = RepeatedKinds()

    def on_failure(
        self, owner: object, method: str, error: BaseException, now: float
    ) -> str | None:
        """Record a failure.

        Args:
            owner: The object, which lives as long as this one.
            method: The name of the method that failed.
            error: What it raised; each class of errors is counted separately.
            now: Seconds of any monotonic clock.

        Returns:
            As `RepeatedKinds.on_event`.
        """
        return self._kinds.on_event((id(owner), method, type(error)), now)
