"""Share sessions, their connections, and the errors in responses."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from aiokafka_lite.errors import InvalidRecordError
from aiokafka_lite.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokafka_lite.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from aiokafka_lite.protocol.messages.share_fetch import (
    AcknowledgementBatch as FetchedBatch,
)
from aiokafka_lite.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from aiokafka_lite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, write_crc
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.client_session import Session
from aiokafka_lite.testing.configs.config_store import ConfigResource
from aiokafka_lite.testing.context import Delayed
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch

ACCEPT, RELEASE = 1, 2
NOT_LEADER, UNKNOWN_PARTITION, UNKNOWN_TOPIC_ID, SERVER_ERROR = 6, 3, 100, -1
INVALID_EPOCH, NO_SESSION, INVALID_REQUEST = 123, 122, 42

Connect = Callable[[str], Any]
Ranges = Sequence[tuple[int, int, int]]


class Member:
    """A member of group "g", which reads "orders", and its connection."""

    def __init__(self, broker: SocketlessBroker, name: str, connection: int, node: int = 0) -> None:
        self.broker = broker
        self.name = name
        self.node = node
        self.connection = Session(connection)
        self.epoch = 0

    def join(self) -> None:
        self.broker.ask(ShareGroupHeartbeatRequest("g", self.name, 0, None, ["orders"]), 1)

    def request(
        self, *partitions: int, acks: dict[int, Ranges] | None = None, **fields: Any
    ) -> ShareFetchRequest:
        named: dict[int, Ranges] = {**dict.fromkeys(partitions, ()), **(acks or {})}
        parts = [
            FetchPartition(
                index, [FetchedBatch(first, last, [kind]) for first, last, kind in ranges]
            )
            for index, ranges in named.items()
        ]
        topic_id = self.broker.state.topics["orders"].topic_id
        fields = {"max_bytes": 2**20, "max_records": 100, "batch_size": 100, **fields}
        request = ShareFetchRequest(
            "g", self.name, self.epoch, topics=[FetchTopic(topic_id, parts)], **fields
        )
        self.epoch = request.share_session_epoch + 1
        return request

    def begin(self, *partitions: int, **fields: Any) -> Any:
        """The response, or a wait for it."""
        self.broker.session = self.connection
        return self.broker.begin(self.request(*partitions, **fields), 2, self.node)

    def fetch(self, *partitions: int, **fields: Any) -> Any:
        self.broker.session = self.connection
        return self.broker.ask(self.request(*partitions, **fields), 2, self.node)

    def acquired(self, *partitions: int, **fields: Any) -> list[tuple[int, int, int]]:
        return acquired_in(self.fetch(*partitions, **fields))

    def acknowledge(self, acks: dict[int, Ranges], epoch: int | None = None) -> Any:
        parts = [
            AcknowledgePartition(
                index, [AcknowledgementBatch(first, last, [kind]) for first, last, kind in ranges]
            )
            for index, ranges in acks.items()
        ]
        topics = [AcknowledgeTopic(self.broker.state.topics["orders"].topic_id, parts)]
        sent = self.epoch if epoch is None else epoch
        self.epoch = sent + 1
        request = ShareAcknowledgeRequest("g", self.name, sent, False, topics if parts else [])
        self.broker.session = self.connection
        return self.broker.ask(request, 2, self.node)

    def disconnect(self) -> None:
        self.broker.dispatchers[self.node].on_disconnect(self.connection)


def acquired_in(answer: Any) -> list[tuple[int, int, int]]:
    assert not answer.error_code, answer
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        for one in part.acquired_records
    ]


def errors_in(answer: Any) -> dict[int, int]:
    """The error of each partition."""
    return {
        part.partition_index: part.error_code
        for topic in answer.responses
        for part in topic.partitions
    }


def append(broker: SocketlessBroker, *counts: int, partition: int = 0) -> None:
    for count in counts:
        batch = memoryview(make_batch(*[(NOW_MS, None, b"v")] * count))
        log = broker.state.topics["orders"].partitions[partition]
        log.append(batch, BatchHeader.read(batch), -1, NOW_MS)


def prepare(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 2)
    configs = {"share.auto.offset.reset": "earliest"}
    broker.state.configure(ConfigResource.GROUP, "g", configs)


@pytest.fixture
def a(broker: SocketlessBroker) -> Member:
    prepare(broker)
    made = Member(broker, "a", 1)
    made.join()
    return made


# Waiting


def test_a_request_that_overtakes_a_waiting_fetch_takes_its_epoch(
    broker: SocketlessBroker, a: Member
) -> None:
    a.fetch(0)
    append(broker, 1)
    assert a.acquired() == [(0, 0, 1)]
    waiting = a.begin(acks={0: [(0, 0, ACCEPT)]}, max_wait_ms=1000, min_bytes=1)
    assert isinstance(waiting, Delayed)
    assert a.acknowledge({}).error_code == 0
    append(broker, 1)
    answer: Any = waiting.take_if_ready()
    assert answer.error_code == INVALID_EPOCH
    (part,) = answer.responses[0].partitions
    assert (part.acknowledge_error_code, part.acquired_records) == (0, [])
    assert a.acquired() == []  # the first fetch has acquired the record
    assert errors_in(a.acknowledge({0: [(1, 1, ACCEPT)]})) == {0: 0}


def test_a_fetch_waits_although_one_of_its_partitions_has_an_error(
    broker: SocketlessBroker, a: Member
) -> None:
    waiting = a.begin(0, 9, max_wait_ms=1000, min_bytes=1)
    assert isinstance(waiting, Delayed)
    append(broker, 1)
    answer = waiting.take_if_ready()
    assert answer is not None
    assert errors_in(answer) == {0: 0, 9: UNKNOWN_PARTITION}
    answer = a.fetch(forgotten_topics_data=[], max_wait_ms=0)
    assert errors_in(answer) == {9: UNKNOWN_PARTITION}


def test_a_fetch_whose_partitions_all_have_errors_does_not_wait(a: Member) -> None:
    assert errors_in(a.fetch(8, 9, max_wait_ms=1000)) == dict.fromkeys((8, 9), UNKNOWN_PARTITION)


@pytest.mark.parametrize("size", ["max_bytes", "max_records"])
def test_a_fetch_of_nothing_does_not_wait(broker: SocketlessBroker, a: Member, size: str) -> None:
    append(broker, 1)
    answer = a.fetch(0, max_wait_ms=1000, min_bytes=1, **{size: 0})
    assert errors_in(answer) == {}
    assert a.acquired() == [(0, 0, 1)]


def test_a_leader_that_moves_does_not_end_a_wait(three_brokers: SocketlessBroker) -> None:
    prepare(three_brokers)
    partition = three_brokers.state.topics["orders"].partitions[0]
    member = Member(three_brokers, "a", 1, partition.leader)
    join(three_brokers, member.name)
    waiting = member.begin(0, max_wait_ms=1000, min_bytes=1)
    assert isinstance(waiting, Delayed)
    partition.lead((partition.leader + 1) % 3)
    assert waiting.take_if_ready() is None
    assert errors_in(waiting.take_now()) == {}
    (part,) = member.fetch().responses[0].partitions
    assert part.error_code == NOT_LEADER
    assert part.current_leader.leader_id == partition.leader


def join(broker: SocketlessBroker, member_id: str) -> None:
    """Join via the broker that coordinates the group."""
    request = ShareGroupHeartbeatRequest("g", member_id, 0, None, ["orders"])
    codes = [broker.ask(request, 1, node).error_code for node in range(len(broker.dispatchers))]
    assert codes.count(0) == 1, codes


def test_acknowledgements_at_a_broker_that_does_not_lead(three_brokers: SocketlessBroker) -> None:
    prepare(three_brokers)
    join(three_brokers, "a")
    leader = three_brokers.state.topics["orders"].partitions[0].leader
    append(three_brokers, 1)
    member = Member(three_brokers, "a", 1, leader)
    assert member.acquired(0) == [(0, 0, 1)]
    lost = Member(three_brokers, "a", 2, (leader + 1) % 3)
    assert errors_in(lost.fetch(0)) == {0: NOT_LEADER}
    answer = lost.acknowledge({0: [(0, 0, ACCEPT)]})
    assert errors_in(answer) == {0: UNKNOWN_PARTITION}
    answer = lost.fetch(acks={0: [(0, 0, ACCEPT)]})
    (part,) = answer.responses[0].partitions
    assert (part.error_code, part.acknowledge_error_code) == (NOT_LEADER, UNKNOWN_PARTITION)
    assert errors_in(member.acknowledge({0: [(0, 0, ACCEPT)]})) == {0: 0}


# States and logs


def test_a_group_that_no_member_has_joined_has_no_state(broker: SocketlessBroker) -> None:
    prepare(broker)
    stranger = Member(broker, "a", 1)
    assert errors_in(stranger.fetch(0)) == {}  # the leader has not loaded the state yet
    waiting = stranger.begin(max_wait_ms=1000)
    assert isinstance(waiting, Delayed)
    assert waiting.take_if_ready() is None
    assert errors_in(waiting.take_now()) == {0: SERVER_ERROR}
    assert errors_in(stranger.acknowledge({0: [(0, 0, ACCEPT)]})) == {0: UNKNOWN_PARTITION}


def test_a_fetch_below_the_log_start_gets_no_records(broker: SocketlessBroker, a: Member) -> None:
    a.fetch(0)
    append(broker, 3, 3)
    wanted = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 4)])
    broker.ask(DeleteRecordsRequest([wanted], 1000), 2)
    assert a.acquired(max_wait_ms=1000, min_bytes=1) == []  # without a wait
    assert a.acquired() == [(4, 5, 1)]


def test_a_topic_deleted_while_a_session_names_it(broker: SocketlessBroker, a: Member) -> None:
    append(broker, 1)
    a.fetch(0)
    named = a.request(acks={0: [(0, 0, ACCEPT)]})
    broker.state.delete_topic("orders")
    (part,) = broker.ask(named, 2).responses[0].partitions
    assert (part.error_code, part.acknowledge_error_code) == (UNKNOWN_PARTITION, UNKNOWN_TOPIC_ID)


def test_partitions_without_acknowledgements_follow_those_with_some(
    broker: SocketlessBroker, a: Member
) -> None:
    append(broker, 2)
    a.fetch(0, 1)
    assert errors_in(a.acknowledge({0: [(0, 0, ACCEPT)], 1: [], 7: []})) == {
        0: 0,
        1: 0,
        7: UNKNOWN_PARTITION,
    }
    assert errors_in(a.acknowledge({0: [], 1: []})) == {}
    assert errors_in(a.acknowledge({0: [(1, 0, ACCEPT)], 1: []})) == {0: INVALID_REQUEST}


# Connections


def test_a_connection_remembers_the_session_that_it_opened_last(
    broker: SocketlessBroker, a: Member
) -> None:
    b, c = Member(broker, "b", 1), Member(broker, "c", 2)
    append(broker, 2, 2)
    c.fetch(0, max_records=0)
    assert a.acquired(0, max_records=2) == [(0, 1, 1)]
    assert b.acquired(0, max_records=2) == [(2, 3, 1)]
    a.disconnect()
    assert c.acquired() == [(2, 3, 2)]
    assert b.acknowledge({}).error_code == NO_SESSION
    assert errors_in(a.acknowledge({0: [(0, 1, ACCEPT)]})) == {0: 0}


def test_a_connection_forgets_its_last_session_after_closing_another(
    broker: SocketlessBroker, a: Member
) -> None:
    b, c = Member(broker, "b", 1), Member(broker, "c", 2)
    append(broker, 2)
    c.fetch(0, max_records=0)
    a.fetch(0, max_records=0)
    assert b.acquired(0) == [(0, 1, 1)]
    a.acknowledge({}, epoch=-1)
    b.disconnect()
    assert c.acquired() == []
    assert errors_in(b.acknowledge({0: [(0, 1, ACCEPT)]})) == {0: 0}


def test_a_broker_without_sessions_forgets_a_groups_acquisitions(
    broker: SocketlessBroker, a: Member
) -> None:
    append(broker, 1)
    assert a.acquired(0) == [(0, 0, 1)]
    topic_id = broker.state.topics["orders"].topic_id
    a.fetch(forgotten_topics_data=[ForgottenTopic(topic_id, [0])])
    a.disconnect()  # the session does not contain the partition, so that nothing is released
    again = Member(broker, "a", 3)
    assert again.acquired(0) == [(0, 0, 1)]


def share_fetch(cluster: FakeCluster, member_id: str, epoch: int, wait_ms: int) -> Any:
    topic_id = cluster.state.topics["orders"].topic_id
    return ShareFetchRequest(
        *("workers", member_id, epoch, wait_ms, 1),
        max_records=10,
        batch_size=10,
        topics=[FetchTopic(topic_id, [FetchPartition(0)])],
    )


async def two_members(cluster: FakeCluster, connect: Connect) -> tuple[Any, Any]:
    """Connections with open sessions of the members a and b."""
    cluster.configure_group("workers", {"share.auto.offset.reset": "earliest"})
    clients = (await connect(cluster.address(0)), await connect(cluster.address(0)))
    for client, name in zip(clients, "ab", strict=True):
        await client.ask(ShareGroupHeartbeatRequest("workers", name, 0, None, ["orders"]), 1)
        await client.ask(share_fetch(cluster, name, 0, 0), 2)
    return clients


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_waiting_fetch_outlives_its_connection(
    cluster: FakeCluster, connect: Connect
) -> None:
    place = TopicPartition("orders", 0)
    a, b = await two_members(cluster, connect)
    seen = cluster.count(ApiKey.SHARE_FETCH)
    a.send(share_fetch(cluster, "a", 1, 60_000), 2)
    await until(lambda: cluster.count(ApiKey.SHARE_FETCH) > seen)
    await a.close()
    await until(lambda: len(cluster._servers[0].connections) == 1)
    sessions = cluster.state.share.sessions[0]
    assert len(sessions) == 2
    cluster.produce("orders", b"tea", partition=0)
    await until(lambda: len(sessions) == 1)
    assert cluster.share_group("workers").delivery_counts == {place: {0: 1}}
    answer = await b.ask(share_fetch(cluster, "b", 1, 0), 2)
    assert acquired_in(answer) == [(0, 0, 2)]


async def test_an_abandoned_fetch_times_out(cluster: FakeCluster, connect: Connect) -> None:
    a, _ = await two_members(cluster, connect)
    seen = cluster.count(ApiKey.SHARE_FETCH)
    a.send(share_fetch(cluster, "a", 1, 200), 2)
    await until(lambda: cluster.count(ApiKey.SHARE_FETCH) > seen)
    await a.close()
    sessions = cluster.state.share.sessions[0]
    await until(lambda: len(sessions) == 1)
    partition = cluster.state.topics["orders"].partitions[0]
    assert not len(partition.watchers)


async def test_a_killed_broker_ends_abandoned_fetches(
    cluster: FakeCluster, connect: Connect
) -> None:
    a, _ = await two_members(cluster, connect)
    seen = cluster.count(ApiKey.SHARE_FETCH)
    a.send(share_fetch(cluster, "a", 1, 60_000), 2)
    await until(lambda: cluster.count(ApiKey.SHARE_FETCH) > seen)
    partition = cluster.state.topics["orders"].partitions[0]
    assert len(partition.watchers)
    await a.close()
    await until(lambda: len(cluster._servers[0].connections) == 1)
    cluster.kill(0)
    assert not len(partition.watchers)
    assert not len(cluster.state.share.sessions[0])


# Hostile clients


def test_a_negative_size_is_an_error_of_each_partition(broker: SocketlessBroker, a: Member) -> None:
    append(broker, 1)
    answer = a.fetch(0, 1, max_bytes=-1, max_wait_ms=1000)
    assert errors_in(answer) == dict.fromkeys((0, 1), SERVER_ERROR)
    assert a.acquired() == [(0, 0, 1)]


@pytest.mark.parametrize("acks", [(0, 2**63 - 1), (-(2**63), 2**63 - 1), (2**63 - 1, 2**63 - 1)])
def test_ranges_beyond_the_log(broker: SocketlessBroker, a: Member, acks: tuple[int, int]) -> None:
    append(broker, 3)
    assert a.acquired(0) == [(0, 2, 1)]
    assert errors_in(a.acknowledge({0: [(*acks, ACCEPT)]})) == {0: INVALID_REQUEST}
    assert errors_in(a.acknowledge({0: [(0, 2, ACCEPT)]})) == {0: 0}


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_batch_that_claims_more_records_than_it_can_contain(
    broker: SocketlessBroker, a: Member, compression: Compression
) -> None:
    batch = bytearray(make_batch((NOW_MS, None, b"v"), compression=compression))
    claimed = 30_000_000
    header = BatchHeader.read(batch)._replace(last_offset_delta=claimed - 1, record_count=claimed)
    header.write(batch)
    write_crc(batch, 0, len(batch))
    partition = broker.state.topics["orders"].partitions[0]
    with pytest.raises(InvalidRecordError, match="cannot contain 30000000 records"):
        partition.append(memoryview(batch), header, -1, NOW_MS)
    assert a.acquired(0) == []
