"""The state of groups and transactions after their broker was killed: requests before and after."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from aiokafka_lite.errors import KafkaStorageError
from aiokafka_lite.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.apis import SERVED
from aiokafka_lite.testing.coordinator_table import CoordinatorType
from aiokafka_lite.testing.data_folder import PartitionFile, Storage
from aiokafka_lite.testing.groups.committed_offsets import CommittedOffset
from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.security.acl_table import AclFilter, AclTable, Operation, Resource
from aiokafka_lite.testing.server.request_exchange import Dispatcher
from aiokafka_lite.testing.state import ClusterState
from tests.unit.testing.groups.members import FakeMember, form
from tests.unit.testing.raw import SocketlessBroker
from tests.unit.testing.transactions.writer import Writer


class StoredBroker(SocketlessBroker):
    """A broker that is killed and restarted."""

    def __init__(self, folder: Path, nodes: int = 1) -> None:
        super().__init__()
        self.folder = folder
        self.node_ids = range(nodes)
        self.start()
        if "orders" not in self.state.topics:
            self.state.create_topic("orders", 1)

    def start(self) -> None:
        self.storage = Storage(self.folder)
        self.state = ClusterState(
            [Node(node_id, "127.0.0.1", None) for node_id in self.node_ids],
            clock=self.clock,
            random=Random(self.storage.run),
            storage=self.storage,
        )
        for node_id in self.node_ids:
            self.state.on_node_up(node_id)
        self.dispatchers = [
            Dispatcher(self.state, node_id, SERVED, self.control) for node_id in self.node_ids
        ]

    def die_and_come_back(self) -> None:
        self.storage.close()  # which writes nothing
        self.clock.close()
        self.start()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredBroker]:
    broker = StoredBroker(tmp_path)
    yield broker
    broker.storage.close()


def test_an_open_transaction_continues(stored: StoredBroker) -> None:
    writer = Writer(stored)
    assert writer.init() == 0
    assert writer.add(0) == [0]
    assert writer.produce(0) == 0
    assert writer.add_offsets("group") == 0
    assert writer.commit_offsets("group", 7) == 0
    stored.die_and_come_back()
    assert writer.state == "Ongoing"
    assert (writer.partition().last_stable_offset, writer.partition().log.end_offset) == (0, 1)
    assert writer.produce(0) == 0  # a retry
    assert writer.produce(1) == 0
    assert writer.partition().log.end_offset == 2
    assert writer.end() == 0
    assert writer.partition().last_stable_offset == 3
    assert writer.partition().aborted_between(0, 3) == []
    found = stored.state.groups.offsets_of("group").find("orders", 0)
    assert found is not None
    assert found.offset == 7
    stored.die_and_come_back()
    assert writer.state == "CompleteCommit"
    assert writer.partition().last_stable_offset == 3


def test_a_dangling_transaction_still_times_out(stored: StoredBroker) -> None:
    writer = Writer(stored)
    assert writer.init(timeout_ms=30_000) == 0
    assert writer.add(0) == [0]
    assert writer.produce(0) == 0
    stored.die_and_come_back()
    assert writer.partition().last_stable_offset == 0
    stored.clock.advance(40)
    assert writer.partition().last_stable_offset == 2
    assert writer.partition().aborted_between(0, 2) == [(writer.producer[0], 0)]
    stored.die_and_come_back()
    assert writer.partition().aborted_between(0, 2) == [(writer.producer[0], 0)]


def test_coordinator_epochs_never_fall(tmp_path: Path) -> None:
    broker = StoredBroker(tmp_path, nodes=2)
    writer = Writer(broker)

    def commit() -> None:
        assert writer.produce(0, node=0) == 0
        assert writer.end() == 0
        assert writer.state == "CompleteCommit"

    for node in (0, 1, 0):
        broker.state.coordinators.move(CoordinatorType.TRANSACTION, writer.name, node)
        writer.node = node
        assert writer.init() == 0
        commit()  # each with a marker of a later coordinator epoch
    broker.die_and_come_back()
    writer.node = broker.state.coordinators.node_of(CoordinatorType.TRANSACTION, "mine").node_id
    commit()
    broker.storage.close()


def test_a_marker_that_a_full_disk_keeps_out(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.state.add_partitions("orders", 2)
    writer = Writer(stored)
    assert writer.init() == 0
    assert [writer.produce(0, partition=index) for index in range(2)] == [0, 0]
    really_append = PartitionFile.append

    def append(file: PartitionFile, batch: memoryview) -> None:
        if file.path.name == "0.log":
            raise KafkaStorageError("No space left on device")
        really_append(file, batch)

    monkeypatch.setattr(PartitionFile, "append", append)
    assert writer.end() == 0
    assert writer.state == "PrepareCommit"
    assert writer.partition(1).last_stable_offset == 2  # the others have theirs
    monkeypatch.undo()
    stored.die_and_come_back()
    assert writer.state == "CompleteCommit"
    assert writer.partition(0).last_stable_offset == 2


def test_no_producer_id_is_given_twice(stored: StoredBroker) -> None:
    ids = set()
    for number in range(4):
        writer = Writer(stored, f"writer-{number}")
        assert writer.init() == 0
        ids.add(writer.producer[0])
        stored.die_and_come_back()
    assert len(ids) == 4


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file grows; each request that needs one fails, and a client would repeat it."""

    def refuse(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", refuse)
        with pytest.raises(OSError, match="No space left"):
            yield


def test_no_producer_id_is_given_twice_after_a_full_disk(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = [Writer(stored, f"writer-{number}") for number in range(3)]
    with full_disk(monkeypatch):
        writers[0].init()
    assert writers[0].init() == 0
    stored.die_and_come_back()
    assert [writer.init() for writer in writers[1:]] == [0, 0]
    assert len({writer.producer[0] for writer in writers}) == 3


def test_a_full_disk_keeps_out_partitions(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_disk(monkeypatch):
        stored.state.create_topic("more")
    assert "more" not in stored.state.topics
    with full_disk(monkeypatch):
        stored.state.add_partitions("orders", 2)
    assert len(stored.state.topics["orders"].partitions) == 1
    stored.state.add_partitions("orders", 2)
    stored.state.create_topic("more")
    stored.die_and_come_back()
    assert len(stored.state.topics["orders"].partitions) == 2
    assert "more" in stored.state.topics


def test_a_full_disk_keeps_out_the_begin_of_a_transaction(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(stored)
    assert writer.init(timeout_ms=30_000) == 0
    with full_disk(monkeypatch):
        writer.add(0)
    assert writer.state == "Empty"
    assert writer.add(0) == [0]
    assert writer.produce(0) == 0
    stored.die_and_come_back()
    assert writer.state == "Ongoing"
    stored.clock.advance(40)
    assert writer.partition().last_stable_offset == 2  # it timed out


def test_a_full_disk_only_delays_the_end_of_a_transaction(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(stored)
    assert writer.init() == 0
    assert writer.produce(0) == 0
    with full_disk(monkeypatch):
        writer.end()
    assert writer.state == "Ongoing"
    assert writer.end() == 0
    assert writer.state == "CompleteCommit"
    assert writer.partition().last_stable_offset == 2


def test_a_full_disk_only_delays_the_timeout_of_a_transaction(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(stored)
    assert writer.init(timeout_ms=30_000) == 0
    assert writer.produce(0) == 0
    with full_disk(monkeypatch):
        stored.clock.advance(31)
    assert writer.state == "Ongoing"
    stored.clock.advance(11)
    assert writer.state == "CompleteAbort"
    assert writer.partition().last_stable_offset == 2


def test_offsets_that_a_full_disk_keeps_out_are_committed_later(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = stored.state.groups.offsets_of("group")
    offsets.commit("orders", 0, CommittedOffset(1))
    offsets.commit_pending(5, "orders", 0, CommittedOffset(7))
    with full_disk(monkeypatch):
        offsets.on_marker(5, committed=True)
    offsets.on_marker(5, committed=True)
    for _ in range(2):
        found = stored.state.groups.offsets_of("group").find("orders", 0)
        assert found is not None
        assert found.offset == 7
        assert not stored.state.groups.offsets_of("group").has_pending("orders", 0)
        stored.die_and_come_back()


@pytest.mark.parametrize("removes", [False, True])
def test_a_full_disk_does_not_hide_a_change_of_acls(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch, removes: bool
) -> None:
    table = AclTable(stored.storage.journal)

    def change() -> None:
        if removes:
            table.remove(AclFilter())
        else:
            table.allow("User:alice", Operation.READ, Resource.TOPIC, "orders")

    if removes:
        table.allow("User:alice", Operation.READ, Resource.TOPIC, "orders")
    with full_disk(monkeypatch):
        change()
    change()
    stored.die_and_come_back()
    assert len(AclTable(stored.storage.journal).find(AclFilter())) == (not removes)


def test_a_full_disk_does_not_hide_other_changes(
    stored: StoredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = stored.state
    state.users.put("alice", "secret")
    offsets = state.groups.offsets_of("group")
    offsets.commit("orders", 0, CommittedOffset(1))
    state.groups.classic("other").offsets.commit("orders", 0, CommittedOffset(1))
    state.create_topic("more", 2)
    for change in (
        lambda: state.users.remove("alice"),
        lambda: state.features.update("group.version", 0),
        lambda: offsets.delete("orders", 0),
        lambda: state.groups.delete("other"),
        lambda: state.delete_topic("more"),
    ):
        with full_disk(monkeypatch):
            change()
        change()
    stored.die_and_come_back()
    assert stored.state.users.password_of("alice") is None
    assert stored.state.features.level("group.version") == 0
    assert stored.state.groups.offsets_of("group").all() == {}
    assert stored.state.groups.get("other") is None
    assert list(stored.state.topics) == ["orders"]


def test_a_full_disk_does_not_hide_a_reassignment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = StoredBroker(tmp_path, nodes=2)
    (partition,) = broker.state.topics["orders"].partitions
    with full_disk(monkeypatch):
        broker.state.reassign(partition, [1])
    partition.watchers.notify()
    broker.die_and_come_back()
    (partition,) = broker.state.topics["orders"].partitions
    assert partition.replicas == [1]
    broker.storage.close()


def test_configurations_and_partitions(stored: StoredBroker) -> None:
    state = stored.state
    state.configure_topic(state.topics["orders"], {"cleanup.policy": "compact"})
    state.add_partitions("orders", 3)
    stored.die_and_come_back()
    topic = stored.state.topics["orders"]
    assert topic.is_compacted
    assert len(topic.partitions) == 3


def test_committed_offsets_stay_and_members_do_not(stored: StoredBroker) -> None:
    partition = OffsetCommitRequestPartition(0, 5, committed_metadata="five")
    request = OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic("orders", partitions=[partition])]
    )
    (topic,) = stored.ask(request, 8).topics
    assert topic.partitions[0].error_code == 0
    form(FakeMember(stored))
    stored.die_and_come_back()
    found = stored.state.groups.offsets_of("g").find("orders", 0)
    assert found is not None
    assert (found.offset, found.metadata) == (5, "five")
    group = stored.state.groups.get("g")
    assert group is not None
    assert group.is_empty


def test_a_cluster_that_does_not_run_can_be_looked_at(tmp_path: Path) -> None:
    with FakeCluster(topics=["orders"], data_dir=tmp_path) as cluster:
        cluster.state.groups.classic("g").offsets.commit("orders", 0, CommittedOffset(3))
    assert cluster.committed("g") == {("orders", 0): 3}
    again = FakeCluster(data_dir=tmp_path)
    assert again.committed("g") == {("orders", 0): 3}  # before it starts
    with again:
        assert again.group("g").state == "Empty"
    with FakeCluster(data_dir=tmp_path) as last:
        pass
    assert last.committed("g") == {("orders", 0): 3}  # after its end
