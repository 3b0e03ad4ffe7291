"""One of the slots of `run`: a long-lived task that handles one record after the other."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from aiokafka_lite.share.handling.work import Work

__all__ = ["Slot"]

_W = TypeVar("_W", bound=Work)


class Slot(Generic[_W]):
    """One handler at a time.

    Attributes:
        task: Runs the handlers.
        record: The record in its handler; None between two.
        waiter: Resolved to wake an idle slot.
        lost: Why the lock of `record` is lost; its handler was cancelled.
    """

    __slots__ = ("lost", "record", "task", "waiter")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.record: _W | None = None
        self.waiter: asyncio.Future[None] | None = None
        self.lost: str | None = None

    def take_back(self) -> None:
        """Undo the cancellation of the task, which continues."""
        task = self.task
        while task is not None and task.cancelling():
            task.uncancel()
