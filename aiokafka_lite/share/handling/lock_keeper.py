"""Renews the acquisition locks of records that are being processed, by one timer for all of them.

It scans the records at the times that `LockWatch` returns: about twice per lock duration as long as
renewals succeed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, Generic, TypeVar

from aiokafka_lite.errors import InvalidRecordStateError, KafkaError
from aiokafka_lite.share.handling.lock_watch import Due, LockWatch
from aiokafka_lite.share.handling.work import Renewal, Work

__all__ = ["LockKeeper"]

_W = TypeVar("_W", bound=Work)

_SPACING: Final = 0.02  # seconds between two scans, at least


class LockKeeper(Generic[_W]):
    """Keeps locks until `close`.

    Args:
        records: Returns the records that are being processed, or wait for it.
        on_lost: Called with a record and the reason once its lock is lost. After that, `records`
            must not return the record.
        renews: False to report expired locks only.
    """

    __slots__ = ("_fires_at", "_loop", "_on_lost", "_records", "_timer", "_watch")

    def __init__(
        self,
        records: Callable[[], Collection[_W]],
        on_lost: Callable[[_W, str], None],
        *,
        renews: bool = True,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._records = records
        self._on_lost = on_lost
        self._watch = LockWatch(renews=renews)
        self._timer: asyncio.TimerHandle | None = None
        self._fires_at = 0.0  # not `_timer.when()`: uvloop's handle of a past time has none

    def on_acquired(self, record: _W, now: float) -> None:
        """Records were just acquired; this is the first of them."""
        self._watch.on_acquired(record)
        when = self._watch.next_check(record, now)
        if self._timer is None or self._fires_at > when:
            self._scan_at(when)

    def forget(self, record: _W) -> None:
        """The record no longer needs a lock."""
        self._watch.forget(record)

    def check_soon(self) -> None:
        """Scan in the next pass of the event loop: some locks may be lost."""
        self._scan_at(self._loop.time())

    def close(self) -> None:
        """Stop renewing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _scan_at(self, when: float) -> None:
        self.close()
        self._fires_at = when
        self._timer = self._loop.call_at(when, self._scan)

    def _scan(self) -> None:
        self._timer = None
        now = self._loop.time()
        for record in list(self._records()):
            action = self._watch.next_action(record, now)
            if action is Due.EXPIRED:
                self._on_lost(record, "its lock is lost or expired")
            elif action is Due.RENEWAL:
                self._renew(record)
        checks = [self._watch.next_check(record, now) for record in self._records()]
        if checks and self._timer is None:
            self._scan_at(max(min(checks), now + _SPACING))

    def _renew(self, record: _W) -> None:
        self._watch.on_renewing(record)
        try:
            renewal = record.renew()
        except KafkaError as error:
            self._on_outcome(record, error)
        else:
            renewal.add_done_callback(partial(self._on_done, record))

    def _on_done(self, record: _W, renewal: Renewal) -> None:
        self._on_outcome(record, renewal.exception())

    def _on_outcome(self, record: _W, error: BaseException | None) -> None:
        if error is None:
            self._watch.on_renewed(record)
            return
        if not isinstance(error, InvalidRecordStateError):
            # The lock is held until its deadline, and another attempt may succeed.
            self._watch.on_failed(record, self._loop.time())
            if self._timer is not None:
                self.check_soon()
            return
        self._watch.on_renewed(record)
        if any(each is record for each in self._records()):
            self._on_lost(record, f"its lock was not renewed: {error}")
