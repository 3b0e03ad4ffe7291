"""Reads files and standard input in chunks, in constant memory.

The event loop waits for a pipe, a terminal or a socket, so Ctrl-C and acknowledgements are handled
while no input arrives. A regular file is read directly: a chunk takes less than a millisecond.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiokafka_lite.cli.failures import CommandError

__all__ = ["CHUNK", "read_chunks"]

CHUNK: Final = 64 * 1024
"""Bytes of one read: what a pipe holds. Larger chunks are mapped anew each time."""


async def read_chunks(files: Sequence[str]) -> AsyncIterator[bytes]:
    """Yield the contents of the files, one after the other; "-" or no file is stdin.

    An empty chunk marks the end of each file.

    Raises:
        CommandError: A file cannot be read.
    """
    for name in files or ["-"]:
        descriptor = sys.stdin.fileno() if name == "-" else _open(name)
        try:
            async for chunk in _read(descriptor, name):
                yield chunk
        finally:
            if name != "-":
                os.close(descriptor)
        yield b""


def _open(name: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from error


async def _read(descriptor: int, name: str) -> AsyncIterator[bytes]:
    waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    while True:
        if waits:
            waits = await _readable(descriptor)
        try:
            chunk = os.read(descriptor, CHUNK)
        except BlockingIOError:
            continue  # another process made this open file non-blocking
        except OSError as error:
            raise CommandError(f"{'stdin' if name == '-' else name}: {error.strerror}") from error
        if not chunk:
            return
        yield chunk


async def _readable(descriptor: int) -> bool:
    """Wait until a read does not block; False if this kind of file never blocks."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except (PermissionError, OSError):
        return False  # such as /dev/null, which epoll refuses
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return True
