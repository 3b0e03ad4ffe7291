"""Share groups on a virtual clock: locks, faults, deletion and new leaders."""

import errno
from typing import Any

import pytest

from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from aiokafka_lite.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.configs.broker_configs import ANY_BROKER
from aiokafka_lite.testing.configs.config_store import ConfigResource
from aiokafka_lite.testing.topics import Topic
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch
from tests.unit.testing.remembering import Remembering

ACCEPT, RELEASE = 1, 2
LOCK_SECONDS = 30


class Worker:
    """One member of group "g", which reads partition 0 of "orders"."""

    def __init__(self, broker: SocketlessBroker, member_id: str = "m") -> None:
        self.broker = broker
        self.member_id = member_id
        self.session = 0

    def join(self) -> Any:
        request = ShareGroupHeartbeatRequest("g", self.member_id, 0, None, ["orders"])
        return self.broker.ask(request, 1)

    def fetch(self, node: int = 0) -> Any:
        topics = [FetchTopic(topic_of(self.broker).topic_id, [FetchPartition(0)])]
        request = ShareFetchRequest(
            *("g", self.member_id, self.session),
            max_records=100,
            batch_size=100,
            topics=topics,
        )
        answer = self.broker.ask(request, 2, node)
        self.session += not answer.error_code
        return answer

    def acquired(self, node: int = 0) -> list[tuple[int, int, int]]:
        answer = self.fetch(node)
        assert not answer.error_code
        return [
            (one.first_offset, one.last_offset, one.delivery_count)
            for topic in answer.responses
            for part in topic.partitions
            for one in part.acquired_records
        ]

    def acknowledge(self, first: int, last: int, kind: int) -> Any:
        part = AcknowledgePartition(0, [AcknowledgementBatch(first, last, [kind])])
        topics = [AcknowledgeTopic(topic_of(self.broker).topic_id, [part])]
        request = ShareAcknowledgeRequest("g", self.member_id, self.session, False, topics)
        answer = self.broker.ask(request, 2)
        self.session += not answer.error_code
        return answer


def topic_of(broker: SocketlessBroker) -> Topic:
    return broker.state.topics["orders"]


def append(broker: SocketlessBroker, count: int) -> None:
    batch = memoryview(make_batch(*[(NOW_MS, None, b"v")] * count))
    topic_of(broker).partitions[0].append(batch, BatchHeader.read(batch), -1, NOW_MS)


def configure(broker: SocketlessBroker, **configs: str) -> None:
    values = {name.replace("_", "."): value for name, value in configs.items()}
    broker.state.configure(ConfigResource.GROUP, "g", values)


@pytest.fixture
def worker(broker: SocketlessBroker) -> Worker:
    broker.state.create_topic("orders", 1)
    configure(broker, share_auto_offset_reset="earliest")
    made = Worker(broker)
    assert made.join().assignment.topic_partitions[0].partitions == [0]
    return made


def test_a_lock_that_expires_makes_its_records_available_again(
    broker: SocketlessBroker, worker: Worker
) -> None:
    append(broker, 3)
    assert worker.acquired() == [(0, 2, 1)]
    broker.clock.advance(LOCK_SECONDS - 1)
    assert worker.acquired() == []
    broker.clock.advance(1)
    assert worker.acquired() == [(0, 2, 2)]
    answer = worker.acknowledge(0, 2, ACCEPT)
    assert answer.responses[0].partitions[0].error_code == 0
    broker.clock.advance(LOCK_SECONDS)
    assert worker.acquired() == []


def test_a_full_disk_does_not_keep_records_locked(
    broker: SocketlessBroker, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(key: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    append(broker, 1)
    assert worker.acquired() == [(0, 0, 1)]
    broker.clock.advance(10)
    append(broker, 1)
    assert worker.acquired() == [(1, 1, 1)]
    with monkeypatch.context() as patched:
        patched.setattr(broker.state.share.states, "note", refuse)
        with pytest.raises(OSError, match="No space left"):
            broker.clock.advance(LOCK_SECONDS - 10)
    assert worker.acquired() == [(0, 0, 2)]
    broker.clock.advance(10)
    assert worker.acquired() == [(1, 1, 2)]
    with monkeypatch.context() as patched:
        patched.setattr(broker.state.share.states, "note", refuse)
        with pytest.raises(OSError, match="No space left"):
            worker.acknowledge(0, 0, RELEASE)
    worker.session += 1
    assert worker.acquired() == [(0, 0, 3)]


def test_records_whose_lock_expired_cannot_be_acknowledged(
    broker: SocketlessBroker, worker: Worker
) -> None:
    append(broker, 1)
    worker.acquired()
    broker.clock.advance(LOCK_SECONDS)
    answer = worker.acknowledge(0, 0, ACCEPT)
    assert answer.responses[0].partitions[0].error_code == 121


def test_another_member_gets_the_records_of_an_expired_lock(
    broker: SocketlessBroker, worker: Worker
) -> None:
    append(broker, 1)
    other = Worker(broker, "n")
    other.join()
    assert worker.acquired() == [(0, 0, 1)]
    assert other.acquired() == []
    broker.clock.advance(LOCK_SECONDS)
    assert other.acquired() == [(0, 0, 2)]


def test_a_closed_connection_releases_records(broker: SocketlessBroker, worker: Worker) -> None:
    append(broker, 1)
    worker.acquired()
    broker.dispatchers[0].on_disconnect(broker.session)
    assert worker.fetch().error_code == 122
    worker.session = 0
    assert worker.acquired() == [(0, 0, 2)]


def test_injected_errors(broker: SocketlessBroker, worker: Worker) -> None:
    append(broker, 1)
    broker.fail_next(ApiKey.SHARE_FETCH, 6)
    (part,) = worker.fetch().responses[0].partitions or [None]
    assert part.error_code == 6
    assert worker.acquired() == [(0, 0, 1)]
    broker.fail_next(ApiKey.SHARE_ACKNOWLEDGE, 6)
    (part,) = worker.acknowledge(0, 0, ACCEPT).responses[0].partitions
    assert part.error_code == 6
    (part,) = worker.acknowledge(0, 0, ACCEPT).responses[0].partitions
    assert part.error_code == 0
    broker.fail_next(ApiKey.SHARE_GROUP_HEARTBEAT, 25)
    assert worker.join().error_code == 25


def test_a_new_leader_forgets_locks_but_not_counts(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    broker.state.create_topic("orders", 1, 3)
    configure(broker, share_auto_offset_reset="earliest")
    worker = Worker(broker)
    node = broker.state.coordinators.node_of(0, "g").node_id  # type: ignore[arg-type]
    request = ShareGroupHeartbeatRequest("g", "m", 0, None, ["orders"])
    assert not broker.ask(request, 1, node).error_code
    append(broker, 2)
    assert worker.acquired(0) == [(0, 1, 1)]
    worker.acknowledge(0, 0, RELEASE)
    broker.state.on_node_down(0)
    leader = topic_of(broker).partitions[0].leader
    worker.session = 0
    assert worker.acquired(leader) == [(0, 0, 2), (1, 1, 1)]


def test_a_silent_member_is_removed(broker: SocketlessBroker, worker: Worker) -> None:
    append(broker, 1)
    broker.clock.advance(46)
    request = ShareGroupHeartbeatRequest("g", "m", 1)
    assert broker.ask(request, 1).error_code == 25


def test_disabled_share_groups(broker: SocketlessBroker) -> None:
    disabled = SocketlessBroker(features={"share.version": 0})
    request = ShareGroupHeartbeatRequest("g", "m", 0, None, ["orders"])
    assert disabled.ask(request, 1).error_code == 35
    assert disabled.ask(ShareFetchRequest("g", "m"), 2).error_code == 35
    assert disabled.ask(ShareAcknowledgeRequest("g", "m"), 2).error_code == 35
    assert not broker.ask(MetadataRequest([]), 9).topics


def test_dead_letters_are_written_after_the_last_delivery(
    broker: SocketlessBroker, worker: Worker
) -> None:
    broker.state.create_topic("dlq.orders", configs={"errors.deadletterqueue.group.enable": "true"})
    configure(
        broker,
        share_auto_offset_reset="earliest",
        share_delivery_count_limit="2",
        errors_deadletterqueue_topic_name="dlq.orders",
    )
    append(broker, 1)
    letters = broker.state.topics["dlq.orders"].partitions[0].log
    worker.acquired()
    broker.clock.advance(LOCK_SECONDS)
    assert letters.end_offset == 0
    assert worker.acquired() == [(0, 0, 2)]
    broker.clock.advance(LOCK_SECONDS)
    assert letters.end_offset == 1
    assert worker.acquired() == []


@pytest.mark.parametrize("exists", [False, True])
def test_a_full_disk_does_not_keep_undeliverable_records(
    broker: SocketlessBroker, worker: Worker, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    broker.state.configure(
        ConfigResource.BROKER,
        ANY_BROKER,
        {"errors.deadletterqueue.auto.create.topics.enable": "true"},
    )
    if exists:
        letters = {"errors.deadletterqueue.group.enable": "true"}
        broker.state.create_topic("dlq.orders", configs=letters)
    configure(
        broker,
        share_auto_offset_reset="earliest",
        share_delivery_count_limit="2",
        errors_deadletterqueue_topic_name="dlq.orders",
    )
    append(broker, 1)
    worker.acquired()
    broker.clock.advance(LOCK_SECONDS)
    append(broker, 1)
    assert worker.acquired() == [(0, 0, 2), (1, 1, 1)]
    woken: list[int] = []
    shared = broker.state.share.known_partition("g", topic_of(broker).topic_id, 0)
    assert shared is not None
    shared.watchers.add(lambda: woken.append(1))
    with monkeypatch.context() as patched:
        patched.setattr(broker.state.share.states, "note", refuse)
        patched.setattr(broker.state, "_keep", refuse)
        with pytest.raises(OSError, match="No space left"):
            broker.clock.advance(LOCK_SECONDS)
    assert woken
    assert shared.records.start_offset == 1
    assert worker.acquired() == [(1, 1, 2)]


def test_a_deleted_topic_has_no_records(broker: SocketlessBroker, worker: Worker) -> None:
    append(broker, 1)
    worker.acquired()
    share = broker.state.share
    assert list(share.records_of("g"))
    broker.state.delete_topic("orders")
    assert not list(share.records_of("g"))
    assert not share.states.of_group("g")
    broker.clock.advance(LOCK_SECONDS)


def test_a_restart_keeps_groups_offsets_and_delivery_counts() -> None:
    journal = Remembering()
    broker = SocketlessBroker(journal=journal)
    broker.state.create_topic("orders", 1)
    topic = topic_of(broker)
    configure(broker, share_auto_offset_reset="earliest")
    worker = Worker(broker)
    worker.join()
    append(broker, 3)
    worker.acquired()
    worker.acknowledge(0, 0, ACCEPT)
    worker.acknowledge(1, 1, RELEASE)

    again = SocketlessBroker(journal=journal)
    again.state.topics["orders"] = again.state.topics_by_id[topic.topic_id] = topic
    group = again.state.groups.get("g")
    assert group is not None
    assert (group.kind, group.state) == ("share", "Empty")
    returned = Worker(again)
    returned.join()
    assert returned.acquired() == [(1, 1, 2), (2, 2, 1)]


def test_partitions_added_later_begin_at_zero(broker: SocketlessBroker) -> None:
    topic_id = broker.state.create_topic("orders", 1).topic_id
    append(broker, 1)
    worker = Worker(broker)  # in a group that begins at the end
    epoch = worker.join().member_epoch
    share = broker.state.share
    broker.state.add_partitions("orders", 2)
    assert share.states.of_group("g") == {topic_id: {0}}
    broker.ask(ShareGroupHeartbeatRequest("g", "m", epoch), 1)
    assert share.states.of_group("g") == {topic_id: {0, 1}}
    assert [(index, one.start_offset) for _, index, one in share.records_of("g")] == [(1, 0)]
    assert worker.acquired() == []


@pytest.mark.parametrize("change", ["leader", "offset", "topic"])
def test_locks_of_a_replaced_share_partition_do_not_expire(
    broker: SocketlessBroker, worker: Worker, change: str
) -> None:
    append(broker, 2)
    worker.acquired()
    key = ("g", topic_of(broker).topic_id, 0)
    if change == "leader":
        topic_of(broker).partitions[0].lead(0)
    elif change == "offset":
        broker.state.share.states.initialize(key, 5, 1)
    else:
        broker.state.delete_topic("orders")
    broker.clock.advance(LOCK_SECONDS)  # ends
    assert broker.state.share.known_partition(*key) is None
