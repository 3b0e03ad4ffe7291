"""A command in its own terminal, driven by its output."""

import codecs
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from typing import Any

from tests.unit.cli.commands import COMMAND, PATIENCE

# The new session has no terminal yet: the first one that is opened becomes its own.
_LAUNCHER = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    " tty = os.open(sys.argv[1], os.O_RDWR);"
    " [os.dup2(tty, each) for each in (0, 1, 2)]; os.execv(sys.argv[2], sys.argv[2:])"
)


class Terminal:
    """Starts a command in a pseudo-terminal.

    Args:
        arguments: Those of the command.
        environment: Its variables.
        size: Lines and columns.
    """

    def __init__(
        self, *arguments: str, environment: Mapping[str, str], size: tuple[int, int] = (24, 80)
    ) -> None:
        # The slave stays open here, or the master would end before the command opens it.
        self._master, self._slave = os.openpty()
        termios.tcsetwinsize(self._slave, size)
        self.output = ""
        self.final_modes: list[Any] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, os.ttyname(self._slave), *COMMAND, *arguments],
            env=dict(environment),
            start_new_session=True,
        )

    def until(self, text: str) -> None:
        """Read until the command has printed a text after what was read before."""
        deadline = time.monotonic() + PATIENCE
        seen = len(self.output)
        while text not in self.output[seen:]:
            assert time.monotonic() < deadline, self.output
            assert self._read(), self.output

    def type(self, text: str) -> None:
        """Type a text; "\\x03" is Ctrl-C."""
        os.write(self._master, text.encode())

    def resize(self, lines: int, columns: int) -> None:
        """Change the size, as dragging a window does."""
        termios.tcsetwinsize(self._slave, (lines, columns))

    def modes(self) -> list[Any]:
        """Return the modes of the terminal, such as its echo."""
        return termios.tcgetattr(self._slave)

    def end(self) -> int:
        """Read to the end, close the terminal, and return the exit status."""
        deadline = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < deadline, self.output
        status = self.process.wait(PATIENCE)
        self.final_modes = self.modes()
        os.close(self._master)
        os.close(self._slave)
        return status

    def _read(self) -> bool:
        """Read the available output; False once the command has ended and no output is left."""
        ended = self.process.poll() is not None
        if select.select([self._master], [], [], 0 if ended else 0.1)[0]:
            self.output += self._decoder.decode(os.read(self._master, 4096))
            return True
        return not ended
