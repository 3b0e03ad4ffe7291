"""A separate disk for a broker's logs, which can be full.

It is a file system in memory whose size is changed while it is mounted, so that it is full at once,
without a file that fills it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tools.kafka import process

__all__ = ["SmallDisk", "missing"]

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def missing() -> str | None:
    """Why no disk can be mounted here; None if one can."""
    if sys.platform != "linux":
        return "mounting a small disk needs Linux"
    if os.geteuid() != 0:
        return "mounting a small disk needs root"
    if shutil.which("mount") is None:
        return "mounting a small disk needs `mount` on the PATH"
    return None


class SmallDisk:
    """Mounted at a folder for as long as the `with` lasts.

    Args:
        folder: An empty folder.
        size: Maximum bytes; memory is used only for stored data.
    """

    def __init__(self, folder: Path, size: int = 1 << 30) -> None:
        self.folder = folder
        self._size = size

    def __enter__(self) -> Self:
        process.unmount_at_exit(self.folder)
        self._mount(f"size={self._size}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Lazily: a process that still has a file open there does not hold it.
        subprocess.run(["umount", "-l", str(self.folder)], check=True)
        process.unmounted(self.folder)

    @property
    def free(self) -> int:
        """Remaining bytes."""
        told = os.statvfs(self.folder)
        return told.f_bavail * told.f_frsize

    def fill(self) -> None:
        """Shrink the disk to the size of its contents: each write fails with ENOSPC."""
        told = os.statvfs(self.folder)
        used = (told.f_blocks - told.f_bfree) * told.f_frsize
        # A write meanwhile would make the contents larger, and the request would fail.
        for more in range(0, 1 << 20, 16):
            try:
                self._mount(f"remount,size={max(_PAGE, used + more * _PAGE)}")
            except subprocess.CalledProcessError:
                continue
            return
        raise OSError(f"{self.folder} cannot be made smaller")

    def empty(self) -> None:
        """Restore its full size."""
        self._mount(f"remount,size={self._size}")

    def _mount(self, options: str) -> None:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)],
            check=True,
            capture_output=True,
        )
