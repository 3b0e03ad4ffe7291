"""Jumps of the wall clock of single processes; their monotonic clock is not affected.

A small library, preloaded by the process, adds the value in a file to its wall clock. It needs a C
compiler and Linux's dynamic linker.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tools.kafka.jars import cache_dir, lock

__all__ = ["WallClock", "missing"]

_SOURCE = Path(__file__).with_suffix(".c")
_COMPILER = "cc"


def missing() -> str | None:
    """Why wall clocks cannot be shifted on this machine; None if they can."""
    if sys.platform != "linux":
        return "shifting a clock needs Linux"
    if shutil.which(_COMPILER) is None:
        return "shifting a clock needs a C compiler (no `cc` on the PATH)"
    return None


class WallClock:
    """The wall clock of the processes that run with its `environment`.

    Args:
        path: The file that holds the shift; created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(bytes(8))

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process whose clock this is, and its children's."""
        return {"LD_PRELOAD": str(_library()), "CLOCK_SHIFT_FILE": str(self._path)}

    def jump_to(self, seconds: float) -> None:
        """Set the clock this many seconds ahead of the machine's, or behind it."""
        shift = int(seconds * 1e9).to_bytes(8, sys.byteorder, signed=True)
        with self._path.open("r+b") as file:  # of the same inode, which processes have mapped
            file.write(shift)


def _library() -> Path:
    source = _SOURCE.read_bytes()
    target = cache_dir() / f"clock_shift-{hashlib.sha256(source).hexdigest()[:10]}.so"
    with lock("clock_shift"):
        if not target.is_file():
            half = target.with_suffix(".half")
            command = [_COMPILER, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(half)]
            subprocess.run([*command, str(_SOURCE), "-ldl"], check=True)
            half.rename(target)
    return target
