"""Stores a cluster in a folder, so that it survives its process.

    lock                                  locked while a cluster uses the folder
    meta                                  the journal: topics, offsets, transactions, users, ...
    topics/orders.<topic id>/0.log        partition 0: its record batches back to back, as in Kafka

Everything is written before it is acknowledged, so SIGKILL loses no acknowledged data. A partially
written batch is removed at the next start, as in Kafka's recovery. A truncated or compacted log is
written to a new file, which replaces the old one. Without `fsync`, a power failure may lose data
that was not yet on disk.
"""

import fcntl
import logging
import os
import shutil
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias
from uuid import UUID

from aiokafka_lite.errors import KafkaStorageError
from aiokafka_lite.record.header import HEADER_SIZE, MAGIC_AT, BatchHeader, crc_matches
from aiokafka_lite.testing.log.partition_log import LogStore
from aiokafka_lite.testing.storage.append_file import AppendFile, replace_file
from aiokafka_lite.testing.storage.journal_file import DataFolderError, FileJournal
from aiokafka_lite.testing.topics import Partition, Topic

__all__ = ["Storage"]

logger: Final = logging.getLogger(__name__)

MakeTopic: TypeAlias = Callable[[str, UUID, Mapping[str, str]], Topic]
"""(name, id, own configurations) -> a topic without partitions."""

OPEN_AT_ONCE: Final = 256
"""Maximum number of open files: a process may have only 1024 open, including sockets."""
READABLE: Final = 120  # characters of a topic name in its folder's name, which may have 255


class Storage:
    """Owns the folder until `close`.

    Args:
        folder: A cluster's data folder; created if missing.
        fsync: Sync every write to disk.

    Attributes:
        journal: Stores the state of the cluster's components.
        run: Number of earlier clusters on this folder.

    Raises:
        DataFolderError: The folder is in use, contains other files, or has another format.
    """

    def __init__(self, folder: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self.folder = Path(folder)
        self._fsync = fsync
        self._files: dict[tuple[str, int], PartitionFile] = {}
        self._opened: deque[PartitionFile] = deque()  # oldest first
        self.folder.mkdir(parents=True, exist_ok=True)
        strangers = {path.name for path in self.folder.iterdir()} - {
            "lock",
            "lost+found",
            "meta.new",
        }
        if strangers and "meta" not in strangers:
            raise DataFolderError(
                f"{self.folder} is neither empty nor the data folder of a cluster"
            )
        self._lock = self._take_lock()
        try:
            self.journal = FileJournal(self.folder / "meta", fsync=fsync)
        except BaseException:
            os.close(self._lock)
            raise
        self.run = next((int(value["run"]) + 1 for _, value in self.journal.entries("run")), 0)
        self.journal.note("run", (), {"run": self.run})

    def close(self) -> None:
        """Close every file and unlock the folder. Idempotent."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._opened.clear()
        self.journal.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def cluster_id(self, fresh: str) -> str:
        """Return the stored cluster id, or `fresh` on the first run."""
        for _, value in self.journal.entries("cluster"):
            return str(value["id"])
        self.journal.note("cluster", (), {"id": fresh})
        return fresh

    # Topics

    def load_topics(self, make: MakeTopic, nodes: Container[int]) -> Iterator[Topic]:
        """Yield every stored topic with the contents of its partitions.

        Args:
            make: Creates a topic.
            nodes: The node ids of the cluster's brokers.

        Raises:
            DataFolderError: A replica is on a broker that the cluster does not have.
        """
        self._sweep()
        kept = {(key[0], key[1]): value for key, value in self.journal.entries("partition")}
        for (name,), entry in self.journal.entries("topic"):
            topic_id = UUID(entry["id"])
            topic = make(str(name), topic_id, entry["configs"])
            for index, first_replicas in enumerate(entry["replicas"]):
                known = kept.get((topic_id.hex, index), {})
                replicas = known.get("replicas", first_replicas)
                missing = [node for node in replicas if node not in nodes]
                if missing:
                    raise DataFolderError(
                        f"{self.folder} has replicas of {name} on broker {missing[0]}: start the"
                        f" cluster with at least {missing[0] + 1} brokers"
                    )
                self._load(
                    topic.add_partition(replicas),
                    known.get("start", 0),
                    known.get("end", 0),
                    known.get("epoch", -1),
                )
            yield topic

    def keep_topic(self, topic: Topic) -> None:
        """Store a topic that is new, or has more partitions or other configurations."""
        self.journal.note(
            "topic",
            (topic.name,),
            {
                "id": topic.topic_id.hex,
                "configs": topic.configs,
                "replicas": [list(partition.replicas) for partition in topic.partitions],
            },
        )
        for partition in topic.partitions:
            if (topic.topic_id.hex, partition.index) not in self._files:
                file = self._file(partition)
                partition.log.load((), 0, 0, file)
                partition.log.begin_epoch(partition.leader_epoch)

    def forget_topic(self, topic: Topic) -> None:
        """Delete the stored data of a topic."""
        self.journal.note("topic", (topic.name,), None)
        for partition in topic.partitions:
            file = self._files.pop((topic.topic_id.hex, partition.index), None)
            if file is not None:  # or an attempt that failed has deleted it
                file.delete()
        self._sweep()

    def _load(self, partition: Partition, start: int, end: int, epoch: int) -> None:
        file = self._file(partition)
        log = partition.log
        log.load(file.recover(start, end), start, end, file)
        newest = max(epoch, log.epochs[-1][0] if log.epochs else -1)
        partition.leader_epoch = newest + 1  # a restarted leader starts a new epoch
        log.begin_epoch(partition.leader_epoch)
        partition.restore_producers()

    def _file(self, partition: Partition) -> "PartitionFile":
        topic = partition.topic
        path = self._folder_of(topic) / f"{partition.index}.log"
        file = PartitionFile(path, partition, self.journal, self._open)
        self._files[topic.topic_id.hex, partition.index] = file
        return file

    def _open(self, file: "PartitionFile") -> AppendFile:
        """Open a partition's file for appending; close another if too many are open."""
        while len(self._opened) >= OPEN_AT_ONCE:
            self._opened.popleft().close_file()
        opened = AppendFile(file.path, fsync=self._fsync)
        self._opened.append(file)
        return opened

    def _folder_of(self, topic: Topic) -> Path:
        return self.folder / "topics" / f"{topic.name[:READABLE]}.{topic.topic_id.hex}"

    def _sweep(self) -> None:
        """Remove the folders of topics that do not exist."""
        known = {entry["id"] for _, entry in self.journal.entries("topic")}
        for folder in (self.folder / "topics").glob("*.*"):
            if folder.name.rpartition(".")[2] not in known:
                shutil.rmtree(folder)

    def _take_lock(self) -> int:
        descriptor = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise DataFolderError(
                f"{self.folder} is in use by another cluster, in process {holder}"
            ) from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, b"%d\n" % os.getpid())
        return descriptor


class PartitionFile(LogStore):
    """Stores one partition: its batches in a file, the rest in the journal.

    Args:
        path: The file, which may not exist yet.
        partition: The partition.
        journal: The cluster's journal.
        open_file: Opens the file for appending; `close_file` may close it at any time.
    """

    def __init__(
        self,
        path: Path,
        partition: Partition,
        journal: FileJournal,
        open_file: "Callable[[PartitionFile], AppendFile]",
    ) -> None:
        self.path = path
        self._partition = partition
        self._journal = journal
        self._open_file = open_file
        self._file: AppendFile | None = None
        self._refusal: str | None = None  # why writes are no longer possible
        self._noted: tuple[int, list[int]] | None = None  # leader epoch and replicas
        self._start = self._end = 0
        partition.watchers.add(self._look)

    def recover(self, start_offset: int, end_offset: int) -> list[memoryview]:
        """Return the complete batches from the log start on; truncate a partial end of the file.

        Args:
            start_offset: The stored log start offset.
            end_offset: The stored minimum log end offset.
        """
        self._start, self._end = start_offset, end_offset
        if not self.path.exists():
            return []
        data = memoryview(self.path.read_bytes())
        batches = list(_whole_batches(data))
        size = sum(map(len, batches))
        if size < len(data):
            logger.warning(
                "%s: truncated to %d of %d bytes; the rest is damaged", self.path, size, len(data)
            )
            os.truncate(self.path, size)
        kept = [batch for batch in batches if BatchHeader.read(batch).last_offset >= start_offset]
        if len(kept) < len(batches):
            self._write_anew(kept)
        return kept

    def append(self, batch: memoryview) -> None:
        """Write a batch, before it is acknowledged.

        Raises:
            KafkaStorageError: This write or an earlier one failed. A restart continues after the
                last batch that was written.
        """
        with self._writing():
            if self._file is None:
                self._file = self._open_file(self)
            self._file.append(batch)

    def rewrite(self, batches: Iterable[memoryview], start_offset: int, end_offset: int) -> None:
        with self._writing():
            self._write_anew(batches)
        self._start, self._end = start_offset, end_offset
        self._note()

    def move_start(self, offset: int) -> None:
        self._start = offset
        self._end = max(self._end, offset)
        self._note()

    def close(self, why: str = "the cluster is stopped") -> None:
        """Stop writing: another cluster may use the folder from now on."""
        self._refusal = why
        self._partition.watchers.remove(self._look)
        self.close_file()

    def delete(self) -> None:
        """Delete the partition and its file."""
        self.close("its topic is deleted")
        self._journal.note("partition", self._key, None)
        self.path.unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Reject all writes after a failed one, because the file would have a gap, or the batch
        that an interrupted one has written."""
        if self._refusal is not None:
            raise KafkaStorageError(f"Cannot write {self._partition}: {self._refusal}")
        try:
            yield
        except OSError as error:
            self._refusal = f"an earlier write failed: {error}"
            raise KafkaStorageError(f"Writing {self._partition} failed: {error}") from error
        except BaseException:
            self._refusal = "an earlier write was interrupted"
            raise

    @property
    def _key(self) -> tuple[str, int]:
        return (self._partition.topic.topic_id.hex, self._partition.index)

    def _look(self) -> None:
        """Store a new leader or new replicas after a change; ignore appends."""
        partition = self._partition
        if self._noted != (partition.leader_epoch, partition.replicas):
            self._note()

    def _note(self) -> None:
        epoch, replicas = self._partition.leader_epoch, list(self._partition.replicas)
        self._journal.note(
            "partition",
            self._key,
            {"epoch": epoch, "replicas": replicas, "start": self._start, "end": self._end},
        )
        self._noted = (epoch, replicas)

    def _write_anew(self, batches: Iterable[memoryview]) -> None:
        self.close_file()
        replace_file(self.path, batches)

    def close_file(self) -> None:
        """Close the file until the next append."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _whole_batches(data: memoryview) -> Iterator[memoryview]:
    """Yield the batches of a file up to the first damaged one."""
    position, next_offset = 0, 0
    while len(data) - position >= HEADER_SIZE and data[position + MAGIC_AT] == 2:
        header = BatchHeader.read(data, position)
        end = position + header.size
        if header.size < HEADER_SIZE or end > len(data) or header.base_offset < next_offset:
            return
        if not crc_matches(data, position, header.size):
            return
        yield data[position:end]
        position, next_offset = end, header.last_offset + 1
