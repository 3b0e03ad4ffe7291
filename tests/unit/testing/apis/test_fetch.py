"""Fetch in every version: limits, waiting, epochs, old formats."""

from typing import Any

import pytest

from aiokafka_lite.errors import for_code
from aiokafka_lite.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing.context import Delayed
from aiokafka_lite.testing.topics import Partition
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch


def request_for(
    broker: SocketlessBroker,
    version: int,
    *offsets: int,
    partition_max_bytes: int = 2**20,
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    """Fetch from topic "orders": `offsets[i]` is the fetch offset of partition i."""
    topic = broker.state.topics.get("orders")
    return FetchRequest(
        topics=[
            FetchTopic(
                topic="orders" if version < 13 else "",
                topic_id=topic.topic_id if topic is not None and version >= 13 else ZERO_UUID,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                        current_leader_epoch=current_leader_epoch,
                        last_fetched_epoch=last_fetched_epoch,
                    )
                    for index, offset in enumerate(offsets)
                ],
            )
        ],
        **fields,
    )


def partitions_of(response: Any) -> list[Any]:
    found: list[Any] = response.responses[0].partitions
    return found


def fill(partition: Partition, count: int, *, compression: Compression = Compression.NONE) -> int:
    """Append `count` equal batches of two records; return the size of each."""
    batch = make_batch((NOW_MS, b"k", b"v" * 90), (NOW_MS, None, b"w"), compression=compression)
    for _ in range(count):
        partition.append(memoryview(batch), BatchHeader.read(batch), -1, NOW_MS)
    return len(batch)


def offsets_read(data: Any, offset: int) -> list[int]:
    return [r.offset for r in RecordSet(data.records, "orders", 0, offset).read(10**6)]


@pytest.mark.parametrize("version", range(19))
def test_every_version_delivers_the_records(broker: SocketlessBroker, version: int) -> None:
    topic = broker.state.create_topic("orders", 2)
    fill(topic.partitions[0], 3)
    first, second = partitions_of(broker.ask(request_for(broker, version, 1, 0), version))
    assert (first.error_code, first.high_watermark) == (0, 6)
    records = RecordSet(first.records, "orders", 0, 1).read(100)
    assert [record.offset for record in records] == [1, 2, 3, 4, 5]
    assert [record.value for record in records[:2]] == [b"w", b"v" * 90]
    assert [record.timestamp for record in records] == [NOW_MS if version >= 2 else -1] * 5
    if version >= 4:
        assert first.last_stable_offset == 6
    if version >= 5:
        assert first.log_start_offset == 0
    assert (second.error_code, second.high_watermark, bytes(second.records)) == (0, 0, b"")


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("codec", list(Compression))
def test_old_formats_of_compressed_batches(
    broker: SocketlessBroker, version: int, codec: Compression
) -> None:
    topic = broker.state.create_topic("orders", 1)
    fill(topic.partitions[0], 2, compression=codec)
    data = partitions_of(broker.ask(request_for(broker, version, 1), version))[0]
    if codec is Compression.ZSTD:
        assert for_code(data.error_code).message == "UNSUPPORTED_COMPRESSION_TYPE"
    else:
        assert offsets_read(data, 1) == [1, 2, 3]


def test_partition_limit_cuts_a_batch_but_never_the_first(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 1)
    size = fill(topic.partitions[0], 5)

    def read(limit: int) -> int:
        request = request_for(broker, 11, 0, partition_max_bytes=limit)
        return len(partitions_of(broker.ask(request, 11))[0].records)

    assert [read(limit) for limit in (0, 1, size, size + 9, 2**20)] == [
        size,
        size,
        size,
        size + 9,
        5 * size,
    ]


def test_total_limit_is_spent_in_request_order(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 3)
    size = fill(topic.partitions[0], 2)
    for partition in topic.partitions[1:]:
        fill(partition, 2)

    def read(limit: int) -> list[int]:
        response = broker.ask(request_for(broker, 11, 0, 0, 0, max_bytes=limit), 11)
        return [len(data.records) for data in partitions_of(response)]

    assert read(1) == [size, 0, 0]
    assert read(3 * size) == [2 * size, size, 0]
    assert read(3 * size - 1) == [2 * size, 0, 0]  # does not fit completely: held back


def test_before_version_3_the_first_message_may_be_cut(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 1)
    fill(topic.partitions[0], 1)
    request = request_for(broker, 2, 0, partition_max_bytes=40)
    data = partitions_of(broker.ask(request, 2))[0]
    assert len(data.records) == 40
    assert offsets_read(data, 0) == []


@pytest.mark.parametrize("offset", [-1, 1, 7])
def test_out_of_range(broker: SocketlessBroker, offset: int) -> None:
    topic = broker.state.create_topic("orders", 1)
    fill(topic.partitions[0], 3)
    topic.partitions[0].log.delete_before(2)
    data = partitions_of(broker.ask(request_for(broker, 11, offset), 11))[0]
    assert (data.error_code, data.high_watermark, bytes(data.records)) == (1, -1, b"")


def test_unknown_topic_and_partition(broker: SocketlessBroker) -> None:
    assert partitions_of(broker.ask(request_for(broker, 11, 0), 11))[0].error_code == 3
    topic = broker.state.create_topic("orders", 1)
    answers = partitions_of(broker.ask(request_for(broker, 11, 0, 0), 11))
    assert [data.error_code for data in answers] == [0, 3]
    request = request_for(broker, 13, 0)
    broker.state.delete_topic(topic.name)
    assert partitions_of(broker.ask(request, 13))[0].error_code == 100


def test_leader_and_epochs(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    partition = broker.state.create_topic("orders", 1).partitions[0]
    partition.lead(2)

    def error(epoch: int, node: int = 2) -> int:
        request = request_for(broker, 16, 0, current_leader_epoch=epoch)
        return int(partitions_of(broker.ask(request, 16, node))[0].error_code)

    assert [error(epoch) for epoch in (-1, 0, 1, 2)] == [0, 74, 0, 75]
    partition.replicas = [2, 1]
    response = broker.ask(request_for(broker, 16, 0, current_leader_epoch=1), 16, node=0)
    data = partitions_of(response)[0]
    assert data.error_code == 6
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 1)
    assert [node.node_id for node in response.node_endpoints] == [2]


def test_followers_serve_since_version_11(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    fill(broker.state.create_topic("orders", 1).partitions[0], 1)

    def error(version: int, epoch: int = -1) -> int:
        request = request_for(broker, version, 0, current_leader_epoch=epoch)
        return int(partitions_of(broker.ask(request, version, 1))[0].error_code)

    assert [error(version) for version in (10, 11, 12)] == [6, 0, 0]
    assert [error(12, epoch) for epoch in (0, 1)] == [0, 75]


def rack_aware(version: int, rack: str, offset: int = 0) -> int:
    """The replica preferred by a leader in rack "a", of followers in "b" and "b"."""
    broker = SocketlessBroker(3, broker_configs=RACK_AWARE)
    for node_id, name in enumerate("abb"):
        broker.state.nodes[node_id].rack = name
    partition = broker.state.create_topic("orders", 1).partitions[0]
    fill(partition, 1)
    partition.log.delete_before(1)
    request = request_for(broker, version, offset, rack_id=rack, max_wait_ms=999, min_bytes=999)
    answer = broker.begin(request, version)
    if isinstance(answer, Delayed):
        answer = answer.take_now()
    (data,) = partitions_of(answer)
    if data.preferred_read_replica >= 0:
        assert (data.error_code, bytes(data.records), data.high_watermark) == (0, b"", 2)
    return int(data.preferred_read_replica)


RACK_AWARE = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}


def test_a_replica_in_the_clients_rack_is_preferred() -> None:
    assert [rack_aware(11, rack, 1) for rack in ("", "a", "b", "c")] == [-1, -1, 2, -1]
    assert rack_aware(11, "b", 0) == -1  # no replica has that offset any longer


def test_without_a_selector_the_leader_is_read(three_brokers: SocketlessBroker) -> None:
    three_brokers.state.nodes[1].rack = "b"
    three_brokers.state.create_topic("orders", 1)
    request = request_for(three_brokers, 11, 0, rack_id="b")
    assert partitions_of(three_brokers.ask(request, 11))[0].preferred_read_replica == -1


def test_a_diverging_last_fetched_epoch_reports_truncation(broker: SocketlessBroker) -> None:
    partition = broker.state.create_topic("orders", 1).partitions[0]
    fill(partition, 3)
    request = request_for(broker, 12, 6, last_fetched_epoch=0, max_wait_ms=999, min_bytes=1)
    waiting = broker.begin(request, 12)
    assert isinstance(waiting, Delayed)
    assert partition.truncate(3) == 2
    told = waiting.take_if_ready()
    assert told is not None
    (data,) = partitions_of(told)
    assert (data.error_code, bytes(data.records)) == (0, b"")
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 2)
    without = broker.ask(request_for(broker, 12, 6), 12)
    assert partitions_of(without)[0].error_code == 1


def test_diverging_epoch(broker: SocketlessBroker) -> None:
    partition = broker.state.create_topic("orders", 1).partitions[0]
    fill(partition, 1)
    partition.lead(0)
    partition.lead(0)
    fill(partition, 1)

    def diverging(epoch: int, offset: int) -> tuple[int, int]:
        request = request_for(broker, 12, offset, last_fetched_epoch=epoch, max_wait_ms=9999)
        data = partitions_of(broker.ask(request, 12))[0]
        assert data.error_code == 0
        return (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)

    assert diverging(0, 2) == (-1, -1)
    assert diverging(2, 3) == (-1, -1)
    assert diverging(0, 3) == (0, 2)
    assert diverging(1, 3) == (0, 2)
    unknown = broker.ask(request_for(broker, 12, 3, last_fetched_epoch=7), 12)
    assert partitions_of(unknown)[0].error_code == 1


def test_read_committed_lists_no_aborted_transaction(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1)
    for level, expected in ((0, None), (1, [])):
        response = broker.ask(request_for(broker, 11, 0, isolation_level=level), 11)
        assert partitions_of(response)[0].aborted_transactions == expected


def test_a_fetch_waits_for_min_bytes(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 2)
    size = fill(topic.partitions[0], 1)
    request = request_for(broker, 11, 0, 0, max_wait_ms=500, min_bytes=size + 1)
    waiting = broker.begin(request, 11)
    assert isinstance(waiting, Delayed)
    assert waiting.timeout == 0.5
    assert waiting.take_if_ready() is None
    woken = []
    waiting.watched[0].add(lambda: woken.append(1))
    fill(topic.partitions[1], 1)
    assert woken == [1]
    ready = waiting.take_if_ready()
    assert ready is not None
    assert [len(data.records) for data in partitions_of(ready)] == [size, size]


def test_a_fetch_returns_available_records_at_its_timeout(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 1)
    size = fill(topic.partitions[0], 1)
    waiting = broker.begin(request_for(broker, 11, 0, max_wait_ms=500, min_bytes=9999), 11)
    assert isinstance(waiting, Delayed)
    assert [len(data.records) for data in partitions_of(waiting.take_now())] == [size]


def test_errors_end_the_wait(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 1)
    request = request_for(broker, 11, 0, max_wait_ms=500, min_bytes=1)
    waiting = broker.begin(request, 11)
    assert isinstance(waiting, Delayed)
    broker.state.delete_topic(topic.name)
    ready = waiting.take_if_ready()
    assert ready is not None
    assert partitions_of(ready)[0].error_code == 3


def test_zstd_topics_need_fetch_10(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1, configs={"compression.type": "zstd"})
    errors = [
        partitions_of(broker.ask(request_for(broker, version, 0), version))[0].error_code
        for version in (9, 10)
    ]
    assert errors == [76, 0]
