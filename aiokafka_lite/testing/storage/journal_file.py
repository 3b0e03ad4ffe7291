"""The journal in a file: one JSON line per entry; the latest entry of a key wins.

    ["aiokafka_lite embedded broker",2]             first line: the program and its format
    ["topic",["orders"],{"id":"...",...}] 1f0c33a2  an entry: kind, key, value; then its CRC-32
    ["topic",["orders"],null] 90bd8c7e              the key is deleted

When `note` returns, the entry is in the file (in the OS cache), so a crashed process loses none.
Reading drops a partial end, left by an interrupted write or a machine crash. Outdated entries are
removed when the file is opened, and when too many have accumulated.
"""

import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from aiokafka_lite.errors import KafkaStorageError
from aiokafka_lite.testing.storage.append_file import AppendFile, replace_file
from aiokafka_lite.testing.storage.journal import Journal, Key, Value

__all__ = ["DataFolderError", "FileJournal"]

logger: Final = logging.getLogger(__name__)

OURS: Final = "aiokafka_lite embedded broker"
FORMAT: Final = 2
OUTDATED_KEPT: Final = 10_000  # lines; rewrite beyond this and the number of live ones


class DataFolderError(ValueError):
    """A folder cannot store a cluster; the message gives the reason."""


class FileJournal(Journal):
    """Owns its file until `close`.

    Args:
        path: Created if missing.
        fsync: Sync every entry to disk, so that a machine crash loses none.

    Raises:
        DataFolderError: The file is not a journal, has another format, or is damaged.
    """

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        self._path = path
        self._fsync = fsync
        self._kinds: dict[str, dict[Key, Value]] = {}
        self._lines = 0  # in the file
        self._closed = False
        self._noting = threading.Lock()  # a test changes ACLs from its own thread
        if path.exists():
            self._read(path.read_bytes())
        self._file: AppendFile | None = self._rewrite()  # None: the next entry opens it

    def note(self, kind: str, key: Key, value: Value | None) -> None:
        with self._noting:
            if self._closed:
                raise KafkaStorageError("cannot write to the journal: the cluster is stopped")
            if self._file is None:
                self._file = AppendFile(self._path, fsync=self._fsync)
            self._file.append(_line(kind, key, value))
            self._take(kind, key, value)  # not before: a rewrite would store a failed entry
            self._lines += 1
            if self._lines > OUTDATED_KEPT + 2 * sum(map(len, self._kinds.values())):
                self._leave_out_outdated(self._file)

    def entries(self, kind: str) -> Iterator[tuple[Key, Value]]:
        return iter(list(self._kinds.get(kind, {}).items()))

    def close(self) -> None:
        """Close the file. Idempotent; no entry can be recorded after this."""
        with self._noting:
            self._closed = True
            if self._file is not None:
                self._file.close()

    def _leave_out_outdated(self, file: AppendFile) -> None:
        try:
            self._file = self._rewrite()
        except OSError as error:  # the entry is stored nevertheless
            logger.warning("%s: cannot remove outdated entries: %s", self._path, error)
            self._file = None  # the path may name the old file or the new one
        file.close()

    def _take(self, kind: str, key: Key, value: Value | None) -> None:
        entries = self._kinds.setdefault(kind, {})
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value

    def _read(self, data: bytes) -> None:
        lines = data.split(b"\n")[:-1]  # drops a partial last line
        if not lines:
            return  # even the first line is incomplete, so there are no entries
        self._check_first(lines[0])
        damaged = 0
        for number, line in enumerate(lines[1:], 2):
            text, _, crc = line.rpartition(b" ")
            if crc != _crc(text):
                damaged = damaged or number
            elif damaged:
                raise DataFolderError(f"{self._path}: line {damaged} is damaged")
            else:
                kind, key, value = json.loads(text)
                self._take(kind, tuple(key), value)
        if damaged:
            logger.warning("%s: truncated before line %d, which is damaged", self._path, damaged)

    def _check_first(self, line: bytes) -> None:
        try:
            whose, version = json.loads(line)
        except (ValueError, TypeError) as error:
            raise DataFolderError(f"{self._path} is not an embedded broker's journal") from error
        if whose != OURS:
            raise DataFolderError(f"{self._path} is not an embedded broker's journal")
        if version != FORMAT:
            raise DataFolderError(
                f"{self._path} has format {version}, but this release of aiokafka_lite only reads"
                f" format {FORMAT}"
            )

    def _rewrite(self) -> AppendFile:
        """Replace the file with one that contains only live entries."""
        notes = [
            _line(kind, key, value)
            for kind, entries in self._kinds.items()
            for key, value in entries.items()
        ]
        self._lines = len(notes)
        replace_file(
            self._path, [json.dumps([OURS, FORMAT], separators=(",", ":")).encode() + b"\n", *notes]
        )
        return AppendFile(self._path, fsync=self._fsync)


def _line(kind: str, key: Key, value: Value | None) -> bytes:
    said: list[Any] = [kind, key, value]
    text = json.dumps(said, separators=(",", ":")).encode()
    return b"%s %s\n" % (text, _crc(text))


def _crc(text: bytes) -> bytes:
    return b"%08x" % crc32(text)
