"""Reads single keys from the terminal, and always restores the terminal's state."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["keys_from_terminal"]

_LOCAL: Final = 3  # the index of the local modes in what tcgetattr returns
_CONTROL: Final = 6  # and that of the control characters
# An arrow or a function key: one sequence, whose characters are not separate keys.
_SEQUENCES: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?")


@contextmanager
def keys_from_terminal(on_key: Callable[[str], None]) -> Iterator[None]:
    """Call `on_key` for each key that is pressed within the block; without a terminal, for none.

    Keys are neither echoed nor collected into lines. Ctrl-C interrupts as usual; Ctrl-Z does
    nothing, because a suspended program would leave the shell with a terminal without echo.
    """
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()

    def on_readable() -> None:
        try:
            pressed = os.read(descriptor, 64)
        except BlockingIOError:
            return
        except OSError:  # the terminal was closed
            pressed = b""
        if not pressed:
            loop.remove_reader(descriptor)
            on_key("")
            return
        for key in _SEQUENCES.sub("", pressed.decode(errors="replace")):
            on_key(key)

    before = termios.tcgetattr(descriptor)
    modes = termios.tcgetattr(descriptor)
    modes[_LOCAL] &= ~(termios.ICANON | termios.ECHO)
    modes[_CONTROL][termios.VMIN] = 1
    modes[_CONTROL][termios.VTIME] = 0
    modes[_CONTROL][termios.VSUSP] = b"\0"
    termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
    loop.add_reader(descriptor, on_readable)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
