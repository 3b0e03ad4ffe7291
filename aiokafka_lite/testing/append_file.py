"""A file that only grows, by pieces that are in it whole or not at all while the process lives."""

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["AppendFile", "write_file"]


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a whole file, on the disk when this returns: it is to take the place of another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


class AppendFile:
    """Owns its descriptor until ``close``. What is appended is in the system's cache at once.

    Args:
        path: made, with its folder, if it is not there.
        fsync: wait with every piece until the disk has it.
    """

    __slots__ = ("_descriptor", "_fsync", "_size")

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fsync = fsync
        self._descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def append(self, piece: bytes | memoryview) -> None:
        """Put a piece at the end.

        Raises:
            OSError: there is no room for all of it, so nothing of it is left in the file.
        """
        left = memoryview(piece)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
            if self._fsync:
                os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(piece)

    def close(self) -> None:
        """Let go of the file. May be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
