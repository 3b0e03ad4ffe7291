"""The journal's file: the newest value of each key is restored, and anything else is ignored."""

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite.testing.storage import journal_file
from aiokafka_lite.testing.storage.journal_file import DataFolderError, FileJournal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta"


def noted(path: Path, kind: str = "offset") -> list[tuple[object, Any]]:
    journal = FileJournal(path)
    try:
        return list(journal.entries(kind))
    finally:
        journal.close()


def note_some(path: Path) -> None:
    journal = FileJournal(path)
    journal.note("offset", ("a", 0), {"offset": 1})
    journal.note("offset", ("b", 1), {"offset": 2, "metadata": "ü\n"})
    journal.note("user", ("alice",), {"password": "x"})
    journal.note("offset", ("a", 0), {"offset": 3})
    journal.note("offset", ("c", 0), {"offset": 4})
    journal.note("offset", ("c", 0), None)
    journal.note("offset", ("never", 0), None)
    journal.close()


def test_the_newest_values_come_back_in_order(path: Path) -> None:
    note_some(path)
    for _ in range(2):
        assert noted(path) == [
            (("a", 0), {"offset": 3}),
            (("b", 1), {"offset": 2, "metadata": "ü\n"}),
        ]
        assert noted(path, "user") == [(("alice",), {"password": "x"})]
    assert noted(path, "acl") == []
    assert path.read_bytes().count(b"\n") == 4  # opening drops outdated entries


def test_entries_may_be_changed_while_they_are_read(path: Path) -> None:
    note_some(path)
    journal = FileJournal(path)
    for key, _ in journal.entries("offset"):
        journal.note("offset", key, None)
    assert list(journal.entries("offset")) == []
    journal.close()


@pytest.mark.parametrize("lost", [1, 5, 20])
def test_a_torn_last_line_is_dropped(path: Path, lost: int) -> None:
    note_some(path)
    journal = FileJournal(path)
    journal.note("offset", ("a", 0), {"offset": 5, "metadata": "a good deal of it"})
    journal.close()
    path.write_bytes(path.read_bytes()[:-lost])
    assert noted(path)[0] == (("a", 0), {"offset": 3})
    assert noted(path)[0] == (("a", 0), {"offset": 3})


@pytest.mark.parametrize("garbage", [bytes(100) + b"\n", b"\n\n\n", b"half a li\n[] 00000000\n"])
def test_an_end_that_never_reached_the_disk_is_dropped(path: Path, garbage: bytes) -> None:
    note_some(path)
    path.write_bytes(path.read_bytes() + garbage)
    assert len(noted(path)) == 2
    assert garbage not in path.read_bytes()


def test_a_damaged_line_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # hundreds take too long
    note_some(path)
    noted(path)
    whole = path.read_bytes()
    first_end, last_begin = whole.index(b"\n"), whole.rindex(b"\n", 0, -1)
    for at in range(first_end + 1, len(whole)):
        path.write_bytes(whole[:at] + bytes((whole[at] ^ 1,)) + whole[at + 1 :])
        if at < last_begin:
            with pytest.raises(DataFolderError, match="is damaged"):
                FileJournal(path)
        else:  # it looks like a truncated end
            assert len(noted(path)) + len(noted(path, "user")) == 2 - (at == last_begin)


def test_a_first_line_that_was_never_whole(path: Path) -> None:
    path.write_bytes(b'["aiokaf')
    assert noted(path) == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'["aiokafka_lite embedded broker", 1]\n', "has format 1, but .* only reads format 2"),
        (b'["another tool", 1]\n', "is not an embedded broker.s journal"),
        (b"PK\x03\x04\n", "is not an embedded broker.s journal"),
        (b"{}\n", "is not an embedded broker.s journal"),
        (
            b'["aiokafka_lite embedded broker",2]\nnonsense\n["a",[],null] 7696601b\n',
            "line 2 is damaged",
        ),
    ],
)
def test_foreign_files_are_errors(path: Path, content: bytes, why: str) -> None:
    path.write_bytes(content)
    with pytest.raises(DataFolderError, match=why):
        FileJournal(path)
    assert path.read_bytes() == content


def test_outdated_entries_are_removed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_file, "OUTDATED_KEPT", 10)
    journal = FileJournal(path)
    for number in range(1000):
        journal.note("offset", ("a", number % 3), {"offset": number})
        assert path.read_bytes().count(b"\n") <= 1 + 10 + 2 * 3 + 1
    journal.close()
    assert [value for _, value in noted(path)] == [{"offset": n} for n in (999, 997, 998)]


def test_threads_note_one_after_the_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(journal_file, "OUTDATED_KEPT", 5)
    journal = FileJournal(path)

    def note(kind: str) -> None:
        for number in range(500):
            journal.note(kind, (number % 3,), {"number": number})

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor() as threads:
            assert list(threads.map(note, ["acl", "offset", "user"])) == [None] * 3
    finally:
        sys.setswitchinterval(interval)
        journal.close()
    for kind in ("acl", "offset", "user"):
        assert sorted(value["number"] for _, value in noted(path, kind)) == [497, 498, 499]


def test_an_entry_that_could_not_be_written_does_not_come_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_file, "OUTDATED_KEPT", 5)
    journal = FileJournal(path)
    journal.note("offset", ("a", 0), {"offset": 1})
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full_disk)
        with pytest.raises(OSError, match="No space left"):
            journal.note("offset", ("a", 0), {"offset": 2})
    assert list(journal.entries("offset")) == [(("a", 0), {"offset": 1})]
    for number in range(20):  # the file is rewritten meanwhile
        journal.note("user", ("alice",), {"password": str(number)})
    journal.close()
    assert noted(path) == [(("a", 0), {"offset": 1})]


@pytest.mark.parametrize("step", ["replace_file", "AppendFile"])
def test_a_rewrite_that_fails_loses_no_later_entry(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(journal_file, "OUTDATED_KEPT", 5)
    journal = FileJournal(path)
    with monkeypatch.context() as patched:
        patched.setattr(journal_file, step, full_disk)
        for number in range(8):
            journal.note("offset", ("a", 0), {"offset": number})
    journal.note("offset", ("a", 0), {"offset": 8})
    journal.close()
    assert noted(path) == [(("a", 0), {"offset": 8})]


def full_disk(*arguments: object, **named: object) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")
