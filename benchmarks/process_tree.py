"""Measures the CPU of a process tree, because Spark works in a JVM and its Python workers."""

from __future__ import annotations

import os
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(root: int | None = None) -> float:
    """Return the user and system seconds of `root` (default: this process) and its descendants.

    Processes that have ended count once their parent has waited for them.
    """
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
        fields = stat.rpartition(")")[2].split()  # from the state, the third in proc(5)
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    top = os.getpid() if root is None else root
    return sum(ticks[pid] for pid in ticks if _is_below(pid, top, parents)) / TICK


def _is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid not in (root, 0):
        pid = parents.get(pid, 0)
    return pid == root
