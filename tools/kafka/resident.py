"""A JVM that stays alive and runs one Java program after the other.

Most of the time of a short program is the start of its JVM: reading a topic takes 0.8 s of CPU in a
new one, and hundredths of a second in one that has read before. The programs must not keep static
state or exit the JVM.
"""

from __future__ import annotations

import atexit
import os
import select
import struct
import subprocess
import threading
import time
from collections.abc import Sequence


class ResidentEnded(RuntimeError):
    """The JVM ended, or did not answer in time and was killed."""


class Resident:
    """One JVM, started by the first call. It ends with this process, even if that is killed.

    Args:
        command: The command that starts `Resident` (java/Resident.java) with the programs on its
            class path.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # pid: a forked child starts its own JVM
        self._lock = threading.Lock()

    def call(self, program: str, arguments: Sequence[str], timeout: float) -> tuple[bool, str]:
        """Run a main class; wait for earlier calls to end.

        Args:
            program: The class.
            arguments: Its arguments.
            timeout: Seconds that it may take.

        Returns:
            True and its output, or False and the trace of its exception.

        Raises:
            ResidentEnded: The JVM ended during the call, or the timeout expired. The next call
                starts a new JVM.
        """
        words = [word.encode() for word in (program, *arguments)]
        request = struct.pack(">i", len(words))
        request += b"".join(struct.pack(">i", len(word)) + word for word in words)
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            try:
                process.stdin.write(request)
                process.stdin.flush()
                deadline = time.monotonic() + timeout
                status, size = struct.unpack(">ii", self._read(process, 8, deadline))
                return status == 0, self._read(process, size, deadline).decode()
            except BaseException as error:
                self._end(process)
                if isinstance(error, OSError):
                    raise ResidentEnded("the JVM ended") from error
                raise

    def close(self) -> None:
        """End the JVM; the next call starts a new one."""
        with self._lock:
            if self._process is not None:
                self._end(self._process)

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the JVM; start it if it is not running."""
        process = self._process
        if process is not None and self._owner == os.getpid():
            if process.poll() is None:
                return process
            self._end(process)
        self._owner = os.getpid()
        self._process = process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C does not reach it; the end of its input ends it
        )
        atexit.register(self._end, process)
        return process

    @staticmethod
    def _read(process: subprocess.Popen[bytes], size: int, deadline: float) -> bytes:
        assert process.stdout is not None
        number = process.stdout.fileno()
        found = bytearray()
        while len(found) < size:
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([number], [], [], wait)[0]:
                raise ResidentEnded("the JVM did not answer in time and was killed")
            data = os.read(number, min(size - len(found), 1 << 20))
            if not data:
                raise ResidentEnded("the JVM ended")
            found += data
        return bytes(found)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the JVM, which has nothing to finish between calls."""
        if self._owner != os.getpid():
            return
        atexit.unregister(self._end)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # part of a request that the JVM did not read
        self._process = None
