"""Reads files and standard input in chunks, in constant memory.

The event loop waits for a pipe, a terminal or a socket, so Ctrl-C and acknowledgements are handled
while no input arrives. A regular file is read directly: a chunk takes less than a millisecond.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from aiokafka_lite.cli.failures import CommandError

__all__ = ["CHUNK", "read_chunks", "read_line", "read_text"]

CHUNK: Final = 64 * 1024
"""Bytes of one read: the capacity of a pipe. The memory of larger chunks is mapped again each
time."""


async def read_chunks(
    files: Sequence[str], until: asyncio.Future[Any] | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the contents of the files, one after the other; "-" or no file is stdin.

    An empty chunk marks the end of each file.

    Args:
        files: The names of the files.
        until: Once it is done, this stops waiting for input.

    Raises:
        CommandError: A file cannot be read.
    """
    for name in files or ["-"]:
        descriptor = sys.stdin.fileno() if name == "-" else _open(name)
        try:
            async for chunk in _read(descriptor, name, until):
                yield chunk
        finally:
            if name != "-":
                os.close(descriptor)
        yield b""


async def read_line() -> bytes:
    """Read one line from stdin, or all up to its end; what follows the line is lost.

    Raises:
        CommandError: stdin cannot be read.
    """
    line = b""
    async with aclosing(read_chunks(["-"])) as chunks:
        async for chunk in chunks:
            line += chunk
            if b"\n" in chunk:
                break
    return line


async def read_text(name: str) -> str:
    """Read a whole file of UTF-8 text; "-" is stdin.

    Raises:
        CommandError: The file cannot be read, or is not UTF-8.
    """
    data = b"".join([chunk async for chunk in read_chunks([name])])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{_title(name)}: not UTF-8: {error}") from error


def _open(name: str) -> int:
    try:
        # Without O_NONBLOCK, opening a FIFO blocks the event loop until a writer opens it, too.
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from error


async def _read(
    descriptor: int, name: str, until: asyncio.Future[Any] | None
) -> AsyncIterator[bytes]:
    waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    while True:
        if waits:
            waits = await _readable(descriptor, until)
            if until is not None and until.done():
                return
        try:
            chunk = os.read(descriptor, CHUNK)
        except BlockingIOError:
            continue  # another process made this open file non-blocking
        except OSError as error:
            raise CommandError(f"{_title(name)}: {error.strerror}") from error
        if not chunk:
            return
        yield chunk


def _title(name: str) -> str:
    return "stdin" if name == "-" else name


async def _readable(descriptor: int, until: asyncio.Future[Any] | None) -> bool:
    """Wait until a read does not block, or `until` is done; False if such a file never blocks."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except OSError:
        return False  # such as /dev/null, which epoll rejects
    except NotImplementedError:
        return False  # Windows, whose event loop waits for sockets only
    if until is not None:
        until.add_done_callback(on_done := lambda _: ready.set())
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
        if until is not None:
            until.remove_done_callback(on_done)
    return True
