"""A cluster in a folder: the state after a restart, however the last run ended."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from aiokafka_lite.errors import KafkaStorageError
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing import data_folder as storage
from aiokafka_lite.testing.data_folder import Storage
from tests.seeds import seeds
from tests.unit.testing.raw import NOW_MS, make_batch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def log_file(folder: Path, topic: str, partition: int = 0) -> Path:
    (found,) = folder.glob(f"topics/{topic}.*/{partition}.log")
    return found


def values(cluster: FakeCluster, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in cluster.records(topic)]


def test_topics_and_records_come_back(folder: Path) -> None:
    with FakeCluster(brokers=3, topics={"orders": 2}, data_dir=folder) as first:
        first.create_topic("more", 1, configs={"cleanup.policy": "compact"})
        first.add_partitions("more", 3)
        for number in range(50):
            first.produce("orders", b"%d" % number, b"k%d" % number, compression=Compression.GZIP)
        before = first.records("orders")
        ids = {topic.name: topic.topic_id for topic in first.state.topics.values()}
        replicas = [partition.replicas for partition in first.state.topics["more"].partitions]
        epoch = first.partition("orders", 0).leader_epoch
        cluster_id = first.cluster_id
    with FakeCluster(brokers=3, topics={"orders": 2, "new": 1}, data_dir=folder) as second:
        assert second.records("orders") == before
        assert second.cluster_id == cluster_id
        topics = second.state.topics
        assert {name: topics[name].topic_id for name in ids} == ids
        assert topics["new"].topic_id not in ids.values()
        assert topics["more"].is_compacted
        assert [partition.replicas for partition in topics["more"].partitions] == replicas
        assert second.partition("orders", 0).leader_epoch > epoch
        assert (
            second.produce("orders", b"next", partition=0) == len(second.records("orders", 0)) - 1
        )


def test_the_file_is_the_log_byte_for_byte(folder: Path) -> None:
    with FakeCluster(topics=["orders"], data_dir=folder) as cluster:
        for number in range(1000):
            cluster.produce("orders", b"%0100d" % number)
        log = cluster.partition("orders", 0).log
        assert log_file(folder, "orders").read_bytes() == bytes(log.read(0, 2**30))


def test_a_deleted_topic_leaves_nothing(folder: Path) -> None:
    with FakeCluster(topics=["orders", "other"], data_dir=folder) as cluster:
        cluster.produce("orders", b"old")
        cluster.delete_topic("orders")
        assert [path.name.split(".")[0] for path in folder.glob("topics/*")] == []
        cluster.create_topic("orders")
        cluster.produce("orders", b"new")
    with FakeCluster(data_dir=folder) as cluster:
        assert values(cluster) == [b"new"]
        assert set(cluster.state.topics) == {"orders", "other"}


@pytest.mark.parametrize("damage", ["cut", "flipped", "garbage", "zeros"])
def test_a_partial_batch_at_the_end_is_removed(folder: Path, damage: str) -> None:
    with FakeCluster(topics=["orders"], data_dir=folder) as cluster:
        for value in (b"one", b"two", b"three"):
            cluster.produce("orders", value)
    file = log_file(folder, "orders")
    whole = file.read_bytes()
    file.write_bytes(
        {
            "cut": whole[:-1],
            "flipped": whole[:-1] + bytes([whole[-1] ^ 1]),
            "garbage": whole + b"\x01" * 100,
            "zeros": whole + bytes(100),
        }[damage]
    )
    left = [b"one", b"two"] if damage in ("cut", "flipped") else [b"one", b"two", b"three"]
    for _ in range(2):
        with FakeCluster(data_dir=folder) as cluster:
            assert values(cluster) == left
            left.append(b"again")
            assert cluster.produce("orders", b"again") == len(left) - 1


def test_producers_are_known_again(folder: Path) -> None:
    def append(cluster: FakeCluster, sequence: int) -> int:
        batch = memoryview(make_batch(producer_id=7, producer_epoch=1, base_sequence=sequence))
        partition = cluster.partition("orders", 0)
        return partition.append(batch, BatchHeader.read(batch), -1, NOW_MS).base_offset

    with FakeCluster(topics=["orders"], data_dir=folder) as cluster:
        assert [append(cluster, sequence) for sequence in range(3)] == [0, 1, 2]
    with FakeCluster(data_dir=folder) as cluster:
        assert append(cluster, 2) == 2  # a retry, as it was acknowledged
        assert append(cluster, 3) == 3


def test_deleted_records_stay_deleted(folder: Path) -> None:
    with FakeCluster(topics=["orders"], data_dir=folder) as cluster:
        for number in range(5):
            cluster.produce("orders", b"%d" % number)
        cluster.delete_records("orders", 0, before=3)
    size = log_file(folder, "orders").stat().st_size
    with FakeCluster(data_dir=folder) as cluster:
        assert values(cluster) == [b"3", b"4"]
        assert log_file(folder, "orders").stat().st_size < size
        cluster.delete_records("orders", 0, before=5)
    with FakeCluster(data_dir=folder) as cluster:
        assert values(cluster) == []
        assert cluster.produce("orders", b"5") == 5


def test_truncated_and_rewritten_logs(folder: Path) -> None:
    with FakeCluster(topics=["orders"], data_dir=folder) as cluster:
        for number in range(5):
            cluster.produce("orders", b"%d" % number)
        partition = cluster.partition("orders", 0)
        partition.truncate(3)
        cluster.produce("orders", b"x")
        epochs = partition.log.epochs
        partition.log.rewrite([bytes(batch) for batch in partition.log.batches()][1:3])
        assert values(cluster) == [b"1", b"2"]
    with FakeCluster(data_dir=folder) as cluster:
        assert values(cluster) == [b"1", b"2"]
        log = cluster.partition("orders", 0).log
        assert (log.start_offset, log.end_offset) == (0, 4)  # it ends where it ended
        assert log.epochs[-1][0] > epochs[-1][0]
        assert cluster.produce("orders", b"y") == 4


def test_leader_epochs_never_fall(folder: Path) -> None:
    with FakeCluster(brokers=2, topics=["orders"], data_dir=folder) as cluster:
        for node in (1, 0, 1):
            cluster.move_leader("orders", 0, node)
        epoch = cluster.partition("orders", 0).leader_epoch
    with FakeCluster(brokers=2, data_dir=folder) as cluster:
        assert cluster.partition("orders", 0).leader_epoch > epoch


def test_only_one_cluster_at_a_time(folder: Path) -> None:
    with (
        FakeCluster(data_dir=folder),
        pytest.raises(ValueError, match=f"is in use by another cluster, in process {os.getpid()}$"),
    ):
        FakeCluster(data_dir=folder)
    with FakeCluster(data_dir=folder) as cluster:
        assert cluster.cluster_id


def test_fewer_brokers_than_before(folder: Path) -> None:
    with FakeCluster(brokers=3, topics=["orders"], data_dir=folder):
        pass
    with pytest.raises(ValueError, match="cluster with at least 2 brokers"):
        FakeCluster(data_dir=folder)
    with FakeCluster(brokers=4, data_dir=folder) as cluster:  # and the failed attempt left no lock
        assert "orders" in cluster.state.topics


def test_a_foreign_folder_is_an_error(folder: Path) -> None:
    folder.mkdir()
    (folder / "letters").write_text("dear")
    with pytest.raises(ValueError, match="is neither empty nor the data folder"):
        FakeCluster(data_dir=folder)
    assert os.listdir(folder) == ["letters"]


def test_a_disk_that_is_full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeCluster(topics=["orders"], data_dir=folder) as cluster:
        cluster.produce("orders", b"one")
        size = log_file(folder, "orders").stat().st_size
        really_write: Callable[[int, memoryview], int] = os.write

        def write_half(descriptor: int, data: memoryview) -> int:
            if len(data) < 60:
                raise OSError(errno.ENOSPC, "No space left on device")
            return really_write(descriptor, data[: len(data) // 2])

        monkeypatch.setattr(os, "write", write_half)
        with pytest.raises(KafkaStorageError, match="No space left"):
            cluster.produce("orders", b"two")
        monkeypatch.undo()
        assert log_file(folder, "orders").stat().st_size == size
        with pytest.raises(KafkaStorageError, match="an earlier write failed"):
            cluster.produce("orders", b"three")
        # Rejected batches are not in memory either: a retried batch would be read several times.
        assert values(cluster) == [b"one"]
        assert cluster.partition("orders", 0).log.end_offset == 1
    with FakeCluster(data_dir=folder) as cluster:
        assert values(cluster) == [b"one"]
        assert cluster.produce("orders", b"two") == 1


def test_a_write_that_is_interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeCluster(topics=["orders", "more"], data_dir=folder) as cluster:
        cluster.produce("orders", b"one")
        cluster.produce("more", b"one")
        really_write: Callable[[int, memoryview], int] = os.write

        def write(part: int) -> Callable[[int, memoryview], int]:
            def interrupt(descriptor: int, data: memoryview) -> int:
                really_write(descriptor, data[: len(data) // part])
                raise KeyboardInterrupt

            return interrupt

        for topic, part in (("orders", 2), ("more", 1)):
            with monkeypatch.context() as patched:
                patched.setattr(os, "write", write(part))
                with pytest.raises(KeyboardInterrupt):
                    cluster.produce(topic, b"two")
            with pytest.raises(KafkaStorageError, match="an earlier write was interrupted"):
                cluster.produce(topic, b"three")
    with FakeCluster(data_dir=folder) as cluster:
        for topic in ("orders", "more"):
            assert values(cluster, topic) == [b"one"]
            assert cluster.produce(topic, b"two") == 1


def test_few_files_are_open_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "OPEN_AT_ONCE", 3)
    before = len(os.listdir("/proc/self/fd"))
    cluster = FakeCluster(topics={"orders": 10}, data_dir=folder)
    with cluster:
        running = len(os.listdir("/proc/self/fd"))
        for number in range(30):
            cluster.produce("orders", b"%d" % number, partition=number % 10)
        assert len(os.listdir("/proc/self/fd")) <= running + 3
    assert len(os.listdir("/proc/self/fd")) == before
    with FakeCluster(data_dir=folder) as cluster:
        assert sorted(map(int, filter(None, values(cluster)))) == [*range(30)]


def test_every_file_is_closed(folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with FakeCluster(topics={"orders": 3}, data_dir=folder, fsync=True) as cluster:
            for partition in range(3):
                cluster.produce("orders", b"x", partition=partition)
    assert len(os.listdir("/proc/self/fd")) == before


def test_names_reach_the_disk_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    really_sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        really_sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with FakeCluster(topics=["orders"], data_dir=folder, fsync=True) as cluster:
        assert synced[:2] == [folder / "meta.new", folder]
        synced.clear()
        cluster.produce("orders", b"x")
        file = log_file(folder, "orders")
        assert synced[:4] == [folder, folder / "topics", file.parent, file]
        synced.clear()
        cluster.produce("orders", b"y")
        assert synced == [file]
        synced.clear()
        cluster.truncate("orders", 0, 1)
        assert synced[:2] == [file.with_suffix(".new"), file.parent]


def test_a_folder_that_another_crash_left_behind(folder: Path) -> None:
    with FakeCluster(topics=["orders"], data_dir=folder):
        pass
    (folder / "topics" / "gone.00ff").mkdir(parents=True)
    (folder / "meta.new").write_text("half a li")
    storage = Storage(folder)
    storage.close()
    with FakeCluster(data_dir=folder) as cluster:
        assert list(cluster.state.topics) == ["orders"]
    assert not (folder / "topics" / "gone.00ff").exists()


def test_a_first_start_that_a_crash_ended(folder: Path) -> None:
    folder.mkdir()
    (folder / "lock").write_text("1\n")
    (folder / "meta.new").write_text("half a li")
    with FakeCluster(topics=["orders"], data_dir=folder) as cluster:
        assert list(cluster.state.topics) == ["orders"]


def test_a_stopped_cluster_does_not_write_to_the_folder(folder: Path) -> None:
    with FakeCluster(topics=["orders"], data_dir=folder) as first:
        first.produce("orders", b"one")
    with FakeCluster(data_dir=folder) as second:
        with pytest.raises(KafkaStorageError, match="the cluster is stopped"):
            first.produce("orders", b"two")
        with pytest.raises(KafkaStorageError, match="the cluster is stopped"):
            first.delete_records("orders", 0, 1)
        with pytest.raises(KafkaStorageError, match="the cluster is stopped"):
            first.truncate("orders", 0, 0)
        with pytest.raises(KafkaStorageError, match="the cluster is stopped"):
            first.create_topic("more")
        assert second.produce("orders", b"two") == 1
    with FakeCluster(data_dir=folder) as cluster:
        assert values(cluster) == [b"one", b"two"]


def test_a_log_rejects_writes_after_a_failed_rewrite(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeCluster(topics=["orders"], data_dir=folder) as cluster:
        for value in (b"one", b"two"):
            cluster.produce("orders", value)

        def refuse(path: Path, pieces: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(storage, "replace_file", refuse)
        with pytest.raises(KafkaStorageError, match="No space left"):
            cluster.truncate("orders", 0, 1)
        monkeypatch.undo()
        with pytest.raises(KafkaStorageError, match="an earlier write failed"):
            cluster.produce("orders", b"three")  # it would not follow what the file holds
    with FakeCluster(data_dir=folder) as cluster:
        assert values(cluster) == [b"one", b"two"]


def test_a_cluster_stops_despite_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = len(os.listdir("/proc/self/fd"))
    cluster = FakeCluster(brokers=2, topics={"orders": 2}, data_dir=folder)
    with pytest.raises(OSError, match="No space left"), cluster:
        monkeypatch.setattr(os, "write", refuse)
    monkeypatch.undo()
    assert len(os.listdir("/proc/self/fd")) == before
    with FakeCluster(brokers=2, data_dir=folder) as again:
        assert list(again.state.topics) == ["orders"]


@pytest.mark.parametrize("seed", seeds(4))
def test_any_sequence_of_changes(folder: Path, seed: int) -> None:
    """An in-memory cluster and one that restarts repeatedly get the same operations."""
    random = Random(seed)
    compacted = {"cleanup.policy": "compact"}
    memory = FakeCluster()
    memory.create_topic("orders", 2, configs=compacted)
    stored = FakeCluster(data_dir=folder)
    stored.create_topic("orders", 2, configs=compacted)
    for step in range(200):
        partition = random.randrange(2)
        log = memory.partition("orders", partition).log
        near_end = log.end_offset - random.randrange(4)
        match random.choices(
            ["produce", "truncate", "delete", "compact", "restart"], (20, 2, 2, 1, 3)
        ):
            case ["produce"]:
                codec = random.choice(list(Compression))
                key, value = b"%d" % random.randrange(9), b"%d" % step
                for cluster in (memory, stored):
                    cluster.produce("orders", value, key, partition=partition, compression=codec)
            case ["truncate"]:
                for cluster in (memory, stored):
                    cluster.truncate("orders", partition, near_end)
            case ["delete"]:
                for cluster in (memory, stored):
                    cluster.delete_records("orders", partition, near_end - 3)
            case ["compact"]:
                for cluster in (memory, stored):
                    cluster.compact("orders")
            case ["restart"]:
                stored._close_storage()  # without a clean shutdown
                stored = FakeCluster(data_dir=folder)
        for index in range(2):
            one, other = (each.partition("orders", index).log for each in (memory, stored))
            assert (one.start_offset, one.end_offset) == (other.start_offset, other.end_offset)
        assert [(r.partition, r.offset, r.key, r.value) for r in memory.records("orders")] == [
            (r.partition, r.offset, r.key, r.value) for r in stored.records("orders")
        ]
    stored._close_storage()
