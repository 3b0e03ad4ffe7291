"""Writes standard output without blocking the event loop, so that a slow reader of a pipe delays no
heartbeat.

A regular file is written directly. Everything else is written by a thread, one chunk at a time, and
the caller waits for it: the bytes are written when `write` returns.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiokafka_lite._threads import ThreadPool
from aiokafka_lite.cli.failures import ClosedPipe

__all__ = ["Stdout"]

_threads: Final = ThreadPool("aiokafka_lite-stdout", 1)

LAST_WORD: Final = 0.5
"""Seconds that a cancelled write may take to end."""


class Stdout:
    """Standard output as bytes."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._descriptor = sys.stdout.fileno()
        mode = os.fstat(self._descriptor).st_mode
        null = stat.S_ISCHR(mode) and os.path.samestat(
            os.fstat(self._descriptor), os.stat(os.devnull)
        )
        self._direct = stat.S_ISREG(mode) or null
        self._is_pipe = stat.S_ISFIFO(mode)

    @asynccontextmanager
    async def until_closed(self) -> AsyncIterator[None]:
        """End the block with ClosedPipe as soon as the reader of a pipe goes away.

        Without this, `consume TOPIC | head -1` would notice at its next record, if ever.
        """
        task = asyncio.current_task()
        if not self._is_pipe or task is None:
            yield
            return
        closed = False

        def on_closed() -> None:
            nonlocal closed
            closed = True
            loop.remove_reader(self._descriptor)
            task.cancel()

        loop = asyncio.get_running_loop()
        # The writing end of a pipe becomes "readable" only when its other end is closed.
        loop.add_reader(self._descriptor, on_closed)
        try:
            yield
        except asyncio.CancelledError:
            if closed and task.uncancel() == 0:
                raise ClosedPipe from None
            raise
        finally:
            loop.remove_reader(self._descriptor)

    async def write(self, data: bytes) -> None:
        """Write all the bytes.

        Raises:
            ClosedPipe: The reader closed the pipe.
            OSError: The disk is full, for example.

        Cancellation: if the write ends within `LAST_WORD` seconds, this returns, and the next await
        is cancelled, so the caller knows that the bytes were written. Otherwise, only a part may be
        written.
        """
        if self._direct:
            self._write(data)
        elif data:
            writing = _threads.run(asyncio.get_running_loop(), self._write, data)
            try:
                await asyncio.shield(writing)
            except asyncio.CancelledError:
                if not await _ends_soon(writing):
                    raise

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BrokenPipeError:
                raise ClosedPipe from None
            except BlockingIOError:  # another process made this open file non-blocking
                select.select([], [self._descriptor], [])


async def _ends_soon(writing: asyncio.Future[None]) -> bool:
    """Wait for a write whose task was cancelled; True if it ended, and the task is cancelled later.

    Raises:
        ClosedPipe, OSError: The write failed.
    """
    task = asyncio.current_task()
    if task is None:
        return False
    await asyncio.wait([writing], timeout=LAST_WORD)
    if not writing.done():
        writing.add_done_callback(_ignore_result)
        return False
    writing.result()
    task.uncancel()
    task.cancel()  # raised by the caller's next await
    return True


def _ignore_result(writing: asyncio.Future[None]) -> None:
    """Retrieve the error of a write that nothing waits for, such as ClosedPipe."""
    if not writing.cancelled():
        writing.exception()
