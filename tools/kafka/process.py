"""Child processes that never outlive this one, even if it is killed.

Each child leads its own session and process group, so that Ctrl-C on a test run does not stop a
broker during a test's cleanup. A child is ended by

- its owner, with `terminate` or `kill`, normally;
- `atexit`, if the owner did not;
- the guard, if this process was killed: a small process that holds the read end of a pipe. When the
  pipe closes, it kills the registered process groups, unmounts the registered mounts and removes
  the registered folders.

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
import os, shutil, signal, subprocess, sys
kinds = {"group": set(), "mount": set(), "folder": set()}
for line in sys.stdin:
    verb, _, what = line.rstrip("\\n").partition(" ")
    kind = kinds[verb.partition("-")[2]]
    (kind.add if verb.startswith("watch") else kind.discard)(what)
for group in kinds["group"]:
    try:
        os.killpg(int(group), signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended by itself
for mount in kinds["mount"]:
    subprocess.run(["umount", "-l", mount], stderr=subprocess.DEVNULL)
for folder in kinds["folder"]:
    shutil.rmtree(folder, ignore_errors=True)
"""


class Guard:
    """A process that cleans up after this one; started with the first child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0  # pid: a forked child does not own the guard

    def send(self, verb: str, what: int | Path) -> None:
        """Send a command: `watch-` or `forget-`, with `group`, `mount` or `folder`."""
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
    """Remove `folder` when this process ends, unless `remove` or `keep` is called before."""
    _guard.send("watch-folder", folder)


def remove(folder: Path) -> None:
    """Remove `folder` now."""
    shutil.rmtree(folder, ignore_errors=True)
    _guard.send("forget-folder", folder)


def unmount_at_exit(folder: Path) -> None:
    """Unmount what is mounted at `folder` when this process ends, unless `unmounted` is called."""
    _guard.send("watch-mount", folder)


def unmounted(folder: Path) -> None:
    """The mount at `folder` was removed."""
    _guard.send("forget-mount", folder)


def keep(folder: Path) -> None:
    """Keep `folder` when this process ends."""
    _guard.send("forget-folder", folder)


class Child:
    """A running program with its output in a file; its process group ends with this process.

    Args:
        command: The program and its arguments.
        log: File to which output and errors are appended.
        environment: Added to the environment of this process.
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
        _guard.send("watch-group", self.pid)

    @property
    def pid(self) -> int:
        """Process id, and the id of its group."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        return self._process.poll()

    def wait(self, timeout: float) -> int | None:
        """Wait for its exit status; after `timeout` seconds, kill it and return None."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        _guard.send("forget-group", self.pid)
        return status

    def pause(self) -> None:
        """Send SIGSTOP and wait until it has stopped; its sockets stay open."""
        self._signal(signal.SIGSTOP)
        # Until the signal arrives, a thread of a busy process may still answer a request.
        if hasattr(os, "waitid"):  # not on macOS
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Send SIGCONT."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL and wait until it has ended."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        _guard.send("forget-group", self.pid)

    def terminate(self, timeout: float) -> bool:
        """Send SIGTERM, then SIGKILL after `timeout` seconds; True if it was not killed."""
        self._signal(signal.SIGCONT)  # a stopped process does not handle SIGTERM
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self._signal(signal.SIGKILL)  # to the rest of its group
        _guard.send("forget-group", self.pid)
        return True

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass  # it has already ended

    def tail(self, lines: int = 40) -> str:
        """The last lines of its output, for an error message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
