"""Log lines about failed records, limited: a failing dependency must not fill the log."""

import logging
from typing import Final

from aiokafka_lite.share.handling.work import Work, describe

__all__ = ["FailureLog", "LogLimit"]

_LINES: Final = 5  # of each kind per interval
_INTERVAL: Final = 10.0  # seconds


class LogLimit:
    """Admits a number of lines per interval and counts the others. Sans-IO."""

    __slots__ = ("_left", "_suppressed", "_until")

    def __init__(self) -> None:
        self._until = float("-inf")
        self._left = 0
        self._suppressed = 0

    def admit(self, now: float) -> str | None:
        """Return a note on the lines suppressed before this one, often ""; None to suppress it."""
        if now >= self._until:
            self._until = now + _INTERVAL
            self._left = _LINES
        if self._left <= 0:
            self._suppressed += 1
            return None
        self._left -= 1
        count, self._suppressed = self._suppressed, 0
        return f" ({count} similar lines were suppressed)" if count else ""


class FailureLog:
    """Writes the lines of one consumer's records.

    Args:
        log: Where.
        name: Of the consumer.
    """

    __slots__ = ("_limits", "_log", "_name")

    def __init__(self, log: logging.Logger, name: str) -> None:
        self._log = log
        self._name = name
        self._limits: dict[str, LogLimit] = {}  # by the text

    def write(
        self,
        level: int,
        text: str,
        record: Work,
        now: float,
        *,
        why: object = None,
        trace: BaseException | None = None,
    ) -> None:
        """Write a line unless there were too many with this text.

        Args:
            text: With one `%s` for the record.
            now: Seconds.
            why: Follows the text.
            trace: Whose traceback follows the line.
        """
        note = self._limits.setdefault(text, LogLimit()).admit(now)
        if note is not None:
            line = text % describe(record)
            reason = "" if why is None else f": {why}"
            self._log.log(level, "%s: %s%s%s", self._name, line, reason, note, exc_info=trace)
