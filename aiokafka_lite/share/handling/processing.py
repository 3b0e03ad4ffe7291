"""`async with record.process()`: the outcome of a block becomes the record's acknowledgement."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Final, Generic, Literal, TypeVar

from aiokafka_lite.errors import IllegalStateError, InvalidRecordStateError
from aiokafka_lite.share.handling.failure_log import FailureLog
from aiokafka_lite.share.handling.lock_keeper import LockKeeper
from aiokafka_lite.share.handling.work import Work, describe

__all__ = ["Processing"]

log = logging.getLogger(__name__)

_W = TypeVar("_W", bound=Work)

_failures: Final = FailureLog(log, "process()")


class Processing(Generic[_W]):
    """The context manager that `process` returns; it can be used once.

    Args:
        record: The acquired record.
        retry: Exceptions after which the record is released.
    """

    __slots__ = ("_cancelling", "_locks", "_loop", "_lost", "_record", "_retry", "_task")

    def __init__(self, record: _W, retry: tuple[type[Exception], ...]) -> None:
        self._record = record
        self._retry = retry
        self._loop = asyncio.get_running_loop()
        self._locks: LockKeeper[_W] = LockKeeper(self._locked, self._lose)
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0  # requests to cancel the task before the block
        self._lost: str | None = None

    async def __aenter__(self) -> _W:
        record, now = self._record, self._loop.time()
        if self._task is not None:
            raise IllegalStateError("process() was entered twice: call it again for each block")
        if record.settled:
            raise IllegalStateError(f"{describe(record)} is acknowledged already")
        self._task = asyncio.current_task()
        if self._task is None:
            raise RuntimeError("process() should be used inside a task")
        if record.lock_deadline <= now:
            raise InvalidRecordStateError(f"the lock of {describe(record)} is lost or expired")
        self._cancelling = self._task.cancelling()
        self._locks.on_acquired(record, now)
        return record

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[True] | None:
        record, task, lost = self._record, self._task, self._lost
        self._locks.close()
        self._task = None
        if lost is not None and task is not None:
            ours = task.uncancel() <= self._cancelling
            if kind is None or (ours and issubclass(kind, asyncio.CancelledError)):
                raise InvalidRecordStateError(
                    f"{describe(record)}: {lost}. Another member may process the record"
                ) from error
            return None
        if record.settled:
            return None
        if error is None:
            record.accept()
        elif isinstance(error, self._retry):
            record.release()
            text = "the block failed; released %s for a retry"
            _failures.write(logging.WARNING, text, record, self._loop.time(), why=repr(error))
            return True
        elif isinstance(error, Exception):
            record.reject()
        else:  # cancelled, or the process ends
            record.release()
        return None

    def _locked(self) -> list[_W]:
        """The record, while its lock must be kept."""
        if self._task is None or self._lost is not None or self._record.settled:
            return []
        return [self._record]

    def _lose(self, record: _W, reason: str) -> None:
        if self._task is not None:
            self._lost = reason
            self._task.cancel(f"{describe(record)}: {reason}")
