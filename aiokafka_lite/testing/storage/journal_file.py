"""The journal in a file: a line of JSON for each note, the newest of a key counts.

    ["aiokafka_lite embedded broker",2]             first line: whose file it is, and its format
    ["topic",["orders"],{"id":"...",...}] 1f0c33a2  a note: kind, key, value; and its CRC-32
    ["topic",["orders"],null] 90bd8c7e              the key is forgotten

A note is in the file (the system's cache of it, that is) when `note` returns, so that a process
that dies loses none. An end that was written in part, or that the disk had not got when the
machine died, is dropped when the file is read. What is outdated goes when the file is opened, and
when too much of it has gathered.
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
OUTDATED_KEPT: Final = 10_000  # lines; more than that, and than are in force, are worth a rewrite


class DataFolderError(ValueError):
    """A folder that a cluster cannot be kept in; the text tells why."""


class FileJournal(Journal):
    """Owns its file until `close`.

    Args:
        path: Made if it is not there.
        fsync: Wait with every note until the disk has it, so that none is lost with the machine.

    Raises:
        DataFolderError: The file is not a journal, or one of another format, or damaged.
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
        self._file = self._rewrite()

    def note(self, kind: str, key: Key, value: Value | None) -> None:
        with self._noting:
            if self._closed:
                raise KafkaStorageError("nothing can be noted any more: the cluster is stopped")
            self._take(kind, key, value)
            self._file.append(_line(kind, key, value))
            self._lines += 1
            if self._lines > OUTDATED_KEPT + 2 * sum(map(len, self._kinds.values())):
                outdated, self._file = self._file, self._rewrite()
                outdated.close()

    def entries(self, kind: str) -> Iterator[tuple[Key, Value]]:
        return iter(list(self._kinds.get(kind, {}).items()))

    def close(self) -> None:
        """Let go of the file. May be called again; nothing can be noted any more."""
        with self._noting:
            self._closed = True
            self._file.close()

    def _take(self, kind: str, key: Key, value: Value | None) -> None:
        entries = self._kinds.setdefault(kind, {})
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value

    def _read(self, data: bytes) -> None:
        lines = data.split(b"\n")[:-1]  # what follows the last line's end was written in part
        if not lines:
            return  # the first line was never written whole, so nothing was noted
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
            logger.warning("%s: cut before line %d, which is damaged", self._path, damaged)

    def _check_first(self, line: bytes) -> None:
        try:
            whose, version = json.loads(line)
        except (ValueError, TypeError) as error:
            raise DataFolderError(f"{self._path} is no journal of an embedded broker") from error
        if whose != OURS:
            raise DataFolderError(f"{self._path} is no journal of an embedded broker")
        if version != FORMAT:
            raise DataFolderError(
                f"{self._path} has format {version}, and this release of aiokafka_lite reads only"
                f" format {FORMAT}"
            )

    def _rewrite(self) -> AppendFile:
        """Put a file with only what is in force in place of the old one."""
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
