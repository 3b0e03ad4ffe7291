"""Child processes that never outlive this one, however it ends.

Each child leads a session and process group of its own, so a Ctrl-C meant for the test run does
not take a broker down half-way through a test's clean-up. What ends it:

- `terminate`/`kill` of its owner, in the ordinary case;
- `atexit`, when the owner never got to it;
- the guard, when this process was killed: one small process that holds the read end of a pipe
  and kills what it was told about, and removes what it was told of, when the pipe closes.

Only process ids that this process started are ever signalled.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_GUARD = """
import os, shutil, signal, sys
groups, folders = set(), set()
for line in sys.stdin:
    verb, _, what = line.rstrip("\\n").partition(" ")
    kind = groups if verb.endswith("group") else folders
    (kind.add if verb.startswith("watch") else kind.discard)(what)
for group in groups:
    try:
        os.killpg(int(group), signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended by itself
for folder in folders:
    shutil.rmtree(folder, ignore_errors=True)
"""


class Guard:
    """The process that cleans up after this one; started with the first child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0  # pid: a forked copy of this process owns no guard

    def tell(self, verb: str, what: int | Path) -> None:
        """`watch-group` or `forget-group` a process group; `-folder` a folder."""
        with self._lock:
            if self._process is None or self._owner != os.getpid():
                self._process = subprocess.Popen(
                    [sys.executable, "-S", "-c", _GUARD],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    text=True,
                    bufsize=1,
                    start_new_session=True,
                )
                self._owner = os.getpid()
                atexit.register(self._end)
            assert self._process.stdin is not None
            self._process.stdin.write(f"{verb} {what}\n")
            self._process.stdin.flush()

    def _end(self) -> None:
        process = self._process
        if process is not None and self._owner == os.getpid():
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)


_guard = Guard()


def remove_at_exit(folder: Path) -> None:
    """Have `folder` removed if this process ends without having removed it."""
    _guard.tell("watch-folder", folder)


def remove(folder: Path) -> None:
    """Remove `folder` now."""
    shutil.rmtree(folder, ignore_errors=True)
    _guard.tell("forget-folder", folder)


def keep(folder: Path) -> None:
    """Leave `folder` where it is, even at the end."""
    _guard.tell("forget-folder", folder)


class Child:
    """One running program, its output in a file, its group ended with this process.

    Args:
        command: The program and its arguments.
        log: Output and errors are appended to this file.
        environment: Added to this process's own.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        _guard.tell("watch-group", self.pid)

    @property
    def pid(self) -> int:
        """Process id, and the id of its group."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._process.poll()

    def wait(self, timeout: float) -> int | None:
        """Its exit status once it ends; killed and None when `timeout` seconds were too few."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        _guard.tell("forget-group", self.pid)
        return status

    def pause(self) -> None:
        """SIGSTOP: it keeps its sockets and answers nothing, once this returns."""
        self._signal(signal.SIGSTOP)
        # The signal is only on its way: a thread of a busy process may still answer a request.
        if hasattr(os, "waitid"):  # not on macOS
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        _guard.tell("forget-group", self.pid)

    def terminate(self, timeout: float) -> bool:
        """SIGTERM, then SIGKILL after `timeout` seconds; True when it ended by itself."""
        self._signal(signal.SIGCONT)  # a stopped process does not see a SIGTERM
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._signal(signal.SIGKILL)  # whatever its group still holds
        _guard.tell("forget-group", self.pid)
        return True

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass  # it has ended, which is what any of these signals may find

    def tail(self, lines: int = 40) -> str:
        """The last lines of its output, for an error message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
