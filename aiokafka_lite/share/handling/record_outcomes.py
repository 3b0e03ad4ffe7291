"""Decides the outcome of records whose handlers did not return normally: rejected, released now
or later, or lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from aiokafka_lite._backoff import Backoff
from aiokafka_lite.share.handling.failure_log import FailureLog
from aiokafka_lite.share.handling.lock_keeper import LockKeeper
from aiokafka_lite.share.handling.postponed import Postponed
from aiokafka_lite.share.handling.run_options import RunOptions
from aiokafka_lite.share.handling.slot import Slot, Tally
from aiokafka_lite.share.handling.work import Work

__all__ = ["Outcomes"]

_W = TypeVar("_W", bound=Work)

RELEASE_MARGIN: Final = 1.0
"""Seconds that a postponed release precedes the end of its lock."""

LONGEST_DELAY: Final = 60.0
"""Maximum seconds that a release is postponed."""


class Outcomes(Generic[_W]):
    """Decides the outcome of a run's records, which are then no longer outstanding.

    Args:
        options: The run's options.
        locks: The run's locks.
        tally: The run's tally.
        failures: Logs them.
        end: Set once the run ends: releases are then no longer postponed.
        fail: Ends the run with an exception.

    Attributes:
        postponed: The records to be released later.
    """

    __slots__ = (
        "_delays",
        "_end",
        "_fail",
        "_failures",
        "_locks",
        "_loop",
        "_options",
        "_tally",
        "postponed",
    )

    def __init__(
        self,
        options: RunOptions,
        locks: LockKeeper[_W],
        tally: Tally,
        failures: FailureLog,
        end: asyncio.Event,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._locks = locks
        self._tally = tally
        self._failures = failures
        self._end = end
        self._fail = fail
        self._delays = Backoff(options.retry_delay, max(options.retry_delay, LONGEST_DELAY))
        self.postponed: Postponed[_W] = Postponed(self.release)

    def release(self, record: _W) -> None:
        """Release a record for another delivery, unless it is acknowledged."""
        if not record.settled:
            record.release()
        self._locks.forget(record)
        self._tally.done()

    def on_error(self, slot: Slot[_W], record: _W, error: Exception) -> None:
        """The handler raised: retry, reject, or end the run if it is not a valid handler."""
        if slot.misfit:  # every record would be rejected
            self.release(record)
            text = "`handler` should be a coroutine function that takes one record"
            self._fail(TypeError(f"{text}: {error}"))
            return
        now = self._loop.time()
        if record.settled:
            text = "the handler failed after it had acknowledged %s"
            self._failures.write(logging.ERROR, text, record, now, why=repr(error), trace=error)
            self._tally.done()
        elif isinstance(error, self._options.retry):
            text = "the handler failed; releasing %s for a retry"
            self._failures.write(logging.WARNING, text, record, now, why=repr(error))
            self._postpone(record, now)
        else:
            text = "the handler failed; rejected %s"
            self._failures.write(logging.ERROR, text, record, now, why=repr(error), trace=error)
            record.reject()
            self._locks.forget(record)
            self._tally.done()

    def on_cancelled(self, slot: Slot[_W], record: _W, *, closing: bool) -> None:
        """The handler was cancelled; `closing` if the run cancelled it because it ends."""
        now = self._loop.time()
        if slot.lost is not None:
            self.after_loss(slot, record, None)
        elif closing or record.settled:
            self.release(record)
        else:
            text = "the handler was cancelled; releasing %s for a retry"
            self._failures.write(logging.WARNING, text, record, now)
            self._postpone(record, now)

    def after_loss(self, slot: Slot[_W], record: _W, error: Exception | None) -> None:
        """The handler of a record whose lock is lost has ended; nothing can be acknowledged."""
        reason, slot.lost = slot.lost, None
        text = "cancelled the handler of %s"
        now = self._loop.time()
        self._failures.write(logging.WARNING, text, record, now, why=reason, trace=error)
        slot.take_back()
        self._locks.forget(record)
        self._tally.done()

    def _postpone(self, record: _W, now: float) -> None:
        """Release a failed record after the delay for its delivery count."""
        delay = self._delays.delay(record.delivery_count)
        if not self._options.renew_locks:
            delay = min(delay, record.lock_deadline - RELEASE_MARGIN - now)
        if delay <= 0 or self._end.is_set():
            self.release(record)
        else:
            self.postponed.add(record, now + delay)

    def forget(self, record: _W, reason: str) -> None:
        """A record lost its lock before its handler started."""
        now = self._loop.time()
        self._failures.write(logging.WARNING, "did not handle %s", record, now, why=reason)
        self._locks.forget(record)
        self._tally.done()
