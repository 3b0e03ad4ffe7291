"""Decides when a leader link sends its next request: waiting marks, and pauses after failures.
Sans-IO."""

from __future__ import annotations

from math import inf
from typing import Final

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.net.throttle import LONGEST_THROTTLE

__all__ = ["LINGER", "Pace"]

LINGER: Final = 0.005
"""Seconds that marks may wait for a fetch to carry them."""


class Pace:
    """The times of one link.

    Args:
        backoff: Pauses after failures.

    Attributes:
        due: Loop time when marks must be sent; infinite without any.
        resume_at: Loop time when the pause ends.
    """

    __slots__ = ("_backoff", "_failures", "due", "resume_at")

    def __init__(self, backoff: Backoff) -> None:
        self.due = inf
        self.resume_at = 0.0
        self._backoff = backoff
        self._failures = 0  # in a row

    def on_marked(self, now: float) -> bool:
        """There are marks to send; returns True if there were none before."""
        if self.due != inf:
            return False
        self.due = now + LINGER
        return True

    def on_taken(self, waiting: bool, now: float) -> None:
        """A request took marks; `waiting` if it left others. Their due time does not change: a
        quick succession of fetches must not delay them."""
        self.due = min(self.due, now + LINGER) if waiting else inf

    def send_now(self, now: float) -> None:
        """Marks must not wait for a fetch."""
        self.due = min(self.due, now)

    def on_success(self) -> None:
        """An exchange succeeded."""
        self._failures = 0

    def on_session_gone(self, now: float, *, wait: bool) -> None:
        """The session must be opened again: the first time at once, unless `wait`."""
        if wait or self._failures:
            self.pause(now)
        else:
            self._failures = 1  # the next one waits

    def pause(self, now: float) -> None:
        """Pause, longer after each consecutive failure."""
        self._failures += 1
        self._pause_until(now + self._backoff.delay(self._failures))

    def on_throttled(self, milliseconds: int, now: float) -> None:
        """The broker reads nothing for a while (KIP-219).

        The connection would hold a fetch for that time, which would count toward the duration of
        the locks that the fetch acquires.
        """
        if milliseconds > 0:
            self._pause_until(now + min(milliseconds / 1000, LONGEST_THROTTLE))

    def _pause_until(self, when: float) -> None:
        self.resume_at = max(self.resume_at, when)
