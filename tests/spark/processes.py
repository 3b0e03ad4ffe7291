"""The processes of a session: its JVM, and the Python workers that the JVM forks."""

import os
import signal
from pathlib import Path
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")

# Spark gives a Python process ten seconds to start and call back, and has no setting for more. That
# is too short on a busy machine, so tests repeat the command, as a user would do.
TOO_SLOW = "Python worker failed to connect back"
TRIES = 3


def jvm() -> int:
    """Process id of this process's JVM."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    pid: int = gateway.proc.pid
    return pid


def workers(root: int) -> list[int]:
    """Process ids of the Python workers below `root`: children of pyspark's daemon."""
    parents = _parents()
    daemons = {pid for pid, parent in parents.items() if parent in (root, *_shells(root, parents))}
    return [pid for pid, parent in parents.items() if parent in daemons and _is_python(pid)]


def below(root: int) -> list[int]:
    """Process ids of all descendants of `root`."""
    parents, found = _parents(), [root]
    for pid in found:  # which grows
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def stream_sources(root: int) -> list[int]:
    """Process ids of the streams' Python sources below `root`: one per query."""
    return [pid for pid in below(root) if b"python_streaming_source_runner" in _command(pid)]


def _parents() -> dict[int, int]:
    """The parent of each existing process."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return parents


def _shells(root: int, parents: dict[int, int]) -> list[int]:
    """spark-submit's own wrapper, where the JVM is a child of what pyspark started."""
    return [pid for pid, parent in parents.items() if parent == root and not _is_python(pid)]


def _is_python(pid: int) -> bool:
    return b"python" in _command(pid).partition(b"\0")[0]


def _command(pid: int) -> bytes:
    """A process's command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def is_there(pid: int) -> bool:
    """Return True if the process is running; a zombie is not."""
    return _command(pid) != b""


def resident(pid: int) -> int:
    """Bytes of a process's private memory; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(fields[1]) - int(fields[2])) * PAGE


def kill(pid: int) -> bool:
    """SIGKILL one of this session's processes; False if it has already ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
