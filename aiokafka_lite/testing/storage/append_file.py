"""An append-only file; each append is atomic while the process lives."""

import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["AppendFile", "replace_file"]


def replace_file(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Create or replace a file atomically; it is on disk when this returns."""
    _make_folder(path.parent, fsync=True)
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    _sync_names(path.parent)


def _make_folder(folder: Path, *, fsync: bool) -> None:
    if not folder.exists():
        _make_folder(folder.parent, fsync=fsync)
        folder.mkdir(exist_ok=True)
        if fsync:
            _sync_names(folder.parent)


def _sync_names(folder: Path) -> None:
    """Sync the folder: a file may be on disk without its directory entry."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class AppendFile:
    """Owns its descriptor until `close`. Appended data is in the OS cache immediately.

    Args:
        path: Created, with its folder, if missing.
        fsync: Sync every append to disk.
    """

    __slots__ = ("_descriptor", "_fsync", "_size")

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        _make_folder(path.parent, fsync=fsync)
        is_new = not path.exists()
        self._fsync = fsync
        self._descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        self._size = os.fstat(self._descriptor).st_size
        if fsync and is_new:
            _sync_names(path.parent)

    def append(self, piece: bytes | memoryview) -> None:
        """Append a piece.

        Raises:
            OSError: The piece does not fit; the file contains none of it.
        """
        left = memoryview(piece)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
            if self._fsync:
                os.fsync(self._descriptor)
        except BaseException:  # an interrupted write may have left a part, too
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(piece)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
