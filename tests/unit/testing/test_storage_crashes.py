"""A cluster in a folder is killed between any two changes of its files, or during one:
acknowledged records are stored once, and each transaction as a whole or not at all."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.storage import append_file
from aiokafka_lite.testing.topics import Partition
from tests.unit.testing.raw import NOW_MS, make_batch
from tests.unit.testing.test_storage_of_rooms import StoredBroker
from tests.unit.testing.transactions.writer import Writer

Files = dict[str, bytes]


class View(NamedTuple):
    """The state that a client would find."""

    transaction: str
    committed: tuple[tuple[int, int], ...]  # (partition, offset) visible to read_committed
    ends: tuple[int, ...]  # of the logs
    offset: int  # committed by the group


class Disk:
    """Every state of a folder since `watch`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states: list[Files] = []

    def look(self) -> None:
        state = self.files()
        if not self.states or state != self.states[-1]:
            self.states.append(state)

    def files(self) -> Files:
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and path.name != "lock"
        }

    @contextmanager
    def watch(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Take a snapshot before and after each change of a file, and after each appended byte."""

        def watched(function: Callable[..., Any]) -> Callable[..., Any]:
            def run(*arguments: Any, **options: Any) -> Any:
                self.look()
                try:
                    return function(*arguments, **options)
                finally:
                    self.look()

            return run

        really_append = append_file.AppendFile.append

        def append(file: append_file.AppendFile, piece: bytes | memoryview) -> None:
            for byte in bytes(piece):
                really_append(file, bytes((byte,)))
                self.look()

        with monkeypatch.context() as patches:
            patches.setattr(append_file.AppendFile, "append", append)
            patches.setattr(Path, "replace", watched(Path.replace))
            patches.setattr(Path, "unlink", watched(Path.unlink))
            patches.setattr(shutil, "rmtree", watched(shutil.rmtree))
            self.look()
            yield
            self.look()


def view_of(broker: StoredBroker) -> View:
    writer = Writer(broker)
    committed, ends = [], []
    for partition in broker.state.topics["orders"].partitions:
        log, end = partition.log, partition.last_stable_offset
        aborted = partition.aborted_between(0, end)
        assert not aborted
        for batch in log.batches():
            header = BatchHeader.read(batch)
            if header.base_offset < end and not header.control and header.record_count:
                committed.append((partition.index, header.base_offset))
        ends.append(log.end_offset)
    found = broker.state.groups.offsets_of("g").find("orders", 0)
    return View(writer.state, tuple(committed), tuple(ends), -1 if found is None else found.offset)


class Crashes:
    """A broker, and copies of it that were killed between two views."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker = StoredBroker(tmp_path / "data")
        self._disk = Disk(tmp_path / "data")
        self._copy = tmp_path / "copy"
        self._monkeypatch = monkeypatch

    def during(self, change: Callable[[], object]) -> list[View]:
        """The distinct states after a crash at each moment of a change, in order."""
        with self._disk.watch(self._monkeypatch):
            change()
        views: list[View] = []
        for files in self._disk.states:
            for name, content in files.items():
                path = self._copy / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            again = StoredBroker(self._copy)
            view = view_of(again)
            if not views or views[-1] != view:
                views.append(view)
            again.storage.close()
            shutil.rmtree(self._copy)
        self._disk.states.clear()
        return views


@pytest.fixture
def crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crashes]:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # here only the process dies
    made = Crashes(tmp_path, monkeypatch)
    made.broker.state.add_partitions("orders", 2)
    yield made
    made.broker.storage.close()


def test_a_commit_is_whole_or_not_at_all(crashes: Crashes) -> None:
    broker = crashes.broker
    writer = Writer(broker)
    assert writer.init() == 0
    assert writer.produce(0, partition=0) == 0
    assert writer.produce(0, partition=1) == 0
    assert writer.commit_offsets("g", 7, version=5) == 0
    views = crashes.during(writer.end)
    assert {(view.committed, view.offset) for view in views} == {
        ((), -1),
        (((0, 0), (1, 0)), 7),
    }
    assert views[0].transaction == "Ongoing"
    assert views[-1].transaction == "CompleteCommit"


def test_an_abort_leaves_nothing(crashes: Crashes) -> None:
    writer = Writer(crashes.broker)
    assert writer.init() == 0
    assert writer.commit_offsets("g", 7, version=5) == 0
    views = crashes.during(lambda: writer.end(committed=False))
    assert [view.offset for view in views] == [-1] * len(views)
    assert views[-1].transaction == "CompleteAbort"


def test_what_was_produced_is_there_once(crashes: Crashes) -> None:
    writer = Writer(crashes.broker)
    assert writer.init() == 0
    for sequence in range(3):
        views = crashes.during(lambda number=sequence: writer.produce(number))
        assert {view.ends[0] for view in views} == {sequence, sequence + 1}
        assert views[-1].ends[0] == sequence + 1


def fill(broker: StoredBroker) -> Partition:
    partition = broker.state.topics["orders"].partitions[0]
    for key in (b"a", b"b", b"b"):
        batch = memoryview(make_batch((NOW_MS, key, None if key == b"b" else b"x")))
        partition.append(batch, BatchHeader.read(batch), -1, NOW_MS)
    return partition


def test_no_offset_is_given_twice_after_compaction(crashes: Crashes) -> None:
    state = crashes.broker.state
    partition = fill(crashes.broker)
    policy = {"cleanup.policy": "compact", "delete.retention.ms": "0"}
    state.configure_topic(partition.topic, policy)
    state.compact("orders")
    crashes.broker.clock.advance(1)
    views = crashes.during(lambda: state.compact("orders"))
    assert {view.ends[0] for view in views} == {3}
    assert views[-1].committed == ((0, 0),)  # no record is left at the log's end


def test_a_log_is_truncated_or_not(crashes: Crashes) -> None:
    partition = fill(crashes.broker)
    views = crashes.during(lambda: partition.truncate(1))
    assert [view.committed for view in views] == [((0, 0), (0, 1), (0, 2)), ((0, 0),)]
    assert [view.ends[0] for view in views] == [3, 1]


def test_records_are_deleted_or_not(crashes: Crashes) -> None:
    partition = fill(crashes.broker)
    views = crashes.during(lambda: partition.delete_before(2))
    assert [view.committed for view in views] == [((0, 0), (0, 1), (0, 2)), ((0, 2),)]
    assert {view.ends[0] for view in views} == {3}
