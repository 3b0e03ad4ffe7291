"""The processes of a session: its JVM, and the Python workers that this forks."""

import os
import signal
from pathlib import Path
from typing import Any

PAGE = os.sysconf("SC_PAGE_SIZE")


def jvm() -> int:
    """Process id of this process's JVM."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    pid: int = gateway.proc.pid
    return pid


def workers(root: int) -> list[int]:
    """Process ids of the Python workers below ``root``: children of pyspark's daemon."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    daemons = {pid for pid, parent in parents.items() if parent in (root, *_shells(root, parents))}
    return [pid for pid, parent in parents.items() if parent in daemons and _is_python(pid)]


def _shells(root: int, parents: dict[int, int]) -> list[int]:
    """spark-submit's own wrapper, where the JVM is a child of what pyspark started."""
    return [pid for pid, parent in parents.items() if parent == root and not _is_python(pid)]


def _is_python(pid: int) -> bool:
    try:
        return b"python" in Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def resident(pid: int) -> int:
    """Bytes of memory of one process that are its own; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(fields[1]) - int(fields[2])) * PAGE


def kill(pid: int) -> bool:
    """SIGKILL one of our own; False when it has ended before."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
