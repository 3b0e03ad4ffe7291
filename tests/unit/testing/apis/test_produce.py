"""Produce in every version: stored batches, responses, errors."""

import pytest

from aiokafka_lite.errors import for_code
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.protocol.primitives import ZERO_UUID
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, write_crc
from aiokafka_lite.record.legacy import encode_message_set
from aiokafka_lite.testing.configs.broker_configs import ANY_BROKER
from aiokafka_lite.testing.configs.config_store import ConfigResource
from aiokafka_lite.testing.context import CloseConnection
from aiokafka_lite.testing.log.conversion import records_of
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch

CODECS = [codec for codec in Compression if codec]


def request_for(
    broker: SocketlessBroker, version: int, *records: bytes | None, acks: int = -1, **fields: object
) -> ProduceRequest:
    """One topic; the first of `records` is for partition 0, and so on."""
    topic = broker.state.topics.get("orders")
    topic_id = topic.topic_id if topic is not None and version >= 13 else ZERO_UUID
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="orders" if version < 13 else "",
                topic_id=topic_id,
                partition_data=[
                    PartitionProduceData(index=index, records=data)
                    for index, data in enumerate(records)
                ],
            )
        ],
        **fields,  # type: ignore[arg-type]  # a test passes what the class takes
    )


def produce(broker: SocketlessBroker, version: int, *records: bytes | None, node: int = 0) -> list:
    response = broker.ask(request_for(broker, version, *records), version, node)
    return response.responses[0].partition_responses


@pytest.mark.parametrize("version", range(3, 14))
def test_batches_get_offsets_each_partition_for_itself(
    broker: SocketlessBroker, version: int
) -> None:
    broker.state.create_topic("orders", 2)
    two = make_batch((1, b"a", b"b"), (2, b"c", b"d"))
    first, second = produce(broker, version, two, make_batch())
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset) == (0, 0)
    assert produce(broker, version, two)[0].base_offset == 2
    log = broker.state.topics["orders"].partitions[0].log
    stored = records_of(log.read(2, 2**31), 2)
    assert [(r.offset, r.key, r.value) for r in stored] == [(2, b"a", b"b"), (3, b"c", b"d")]


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY])
def test_message_sets_become_batches(
    broker: SocketlessBroker, version: int, codec: Compression
) -> None:
    broker.state.create_topic("orders", 1)
    magic = 0 if version < 2 else 1
    messages = [(5, b"k", b"v"), (6, None, b"w"), (4, b"", None)]
    answer = produce(broker, version, encode_message_set(messages, magic, codec))[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)
    stored = broker.state.topics["orders"].partitions[0].log.read(0, 2**31)
    assert BatchHeader.read(stored).codec == codec
    times = [5, 6, 4] if magic else [-1, -1, -1]
    assert [(r.timestamp, r.key, r.value) for r in records_of(stored, 0)] == [
        (time, key, value) for time, (_, key, value) in zip(times, messages, strict=True)
    ]


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY])
def test_compressed_message_sets_of_other_clients_become_batches(
    broker: SocketlessBroker, codec: Compression
) -> None:
    """librdkafka, kafka-python and aiokafka write the offset 0 around all their messages."""
    broker.state.create_topic("orders", 1)
    messages = [(5, b"k", b"v"), (6, None, b"w"), (4, b"", None)]
    message_set = encode_message_set(messages, 1, codec)
    answer = produce(broker, 2, bytes(8) + message_set[8:])[0]  # no CRC covers the offset
    assert (answer.error_code, answer.base_offset) == (0, 0)
    stored = broker.state.topics["orders"].partitions[0].log.read(0, 2**31)
    assert [(r.timestamp, r.key, r.value) for r in records_of(stored, 0)] == messages


def test_log_append_time(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1, configs={"message.timestamp.type": "LogAppendTime"})
    assert produce(broker, 9, make_batch((5, None, b"")))[0].log_append_time_ms == NOW_MS
    stored = broker.state.topics["orders"].partitions[0].log.read(0, 2**31)
    assert [record.timestamp for record in records_of(stored, 0)] == [NOW_MS]


def test_create_time_is_answered_by_none(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1)
    assert produce(broker, 9, make_batch())[0].log_append_time_ms == -1


def test_a_retried_batch_is_stored_once(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1)
    batches = [
        make_batch(producer_id=0, producer_epoch=0, base_sequence=sequence) for sequence in range(3)
    ]
    assert [produce(broker, 9, batch)[0].base_offset for batch in batches] == [0, 1, 2]
    again = produce(broker, 9, batches[1])[0]
    assert (again.error_code, again.base_offset) == (0, 1)
    assert broker.state.topics["orders"].partitions[0].log.end_offset == 3
    gap = make_batch(producer_id=0, producer_epoch=0, base_sequence=4)
    assert for_code(produce(broker, 9, gap)[0].error_code).message == "OUT_OF_ORDER_SEQUENCE_NUMBER"


@pytest.mark.parametrize(
    ("version", "records", "error"),
    [
        (9, None, "INVALID_RECORD"),
        (9, make_batch() * 2, "INVALID_RECORD"),
        (9, make_batch()[:-1] + b"?", "CORRUPT_MESSAGE"),
        (6, make_batch(compression=Compression.ZSTD), "UNSUPPORTED_COMPRESSION_TYPE"),
        (9, make_batch((1, None, bytes(2000))), "MESSAGE_TOO_LARGE"),
        (1, b"", "INVALID_RECORD"),
        (1, make_batch(), "INVALID_RECORD"),
        (1, encode_message_set([(1, None, b"v")], 0)[:-1] + b"?", "CORRUPT_MESSAGE"),
    ],
)  # fmt: skip
def test_invalid_batches_are_rejected_and_not_stored(
    broker: SocketlessBroker, version: int, records: bytes | None, error: str
) -> None:
    topic = broker.state.create_topic("orders", 2, configs={"max.message.bytes": "1000"})
    good = make_batch() if version >= 3 else encode_message_set([(1, None, b"v")], 0)
    bad, fine = produce(broker, version, records, good)
    assert for_code(bad.error_code).message == error
    assert bad.base_offset == -1
    assert fine.error_code == 0
    assert [partition.log.end_offset for partition in topic.partitions] == [0, 1]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"\0" * 61, "CORRUPT_MESSAGE"),
        (
            make_batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        ),
    ],
)
def test_the_whole_request_is_refused(broker: SocketlessBroker, records: bytes, error: str) -> None:
    topic = broker.state.create_topic("orders", 2)
    answers = produce(broker, 9, make_batch(), records)
    assert [for_code(answer.error_code).message for answer in answers] == [error, error]
    assert topic.partitions[0].log.end_offset == 0


def test_error_responses_contain_the_log_start_offset(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 1)
    topic.partitions[0].log.start_offset = topic.partitions[0].log.end_offset = 5
    invalid = make_batch(producer_id=1, producer_epoch=0, base_sequence=-2)
    corrupt = make_batch()[:-1] + b"?"
    starts = [produce(broker, 9, batch)[0].log_start_offset for batch in (invalid, corrupt, b"")]
    assert starts == [5, -1, -1]


def test_an_unknown_topic(broker: SocketlessBroker) -> None:
    assert produce(broker, 9, make_batch())[0].error_code == 3


def test_an_unknown_topic_id(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 1)
    request = request_for(broker, 13, make_batch())
    broker.state.delete_topic(topic.name)
    response = broker.ask(request, 13)
    answer = response.responses[0].partition_responses[0]
    assert for_code(answer.error_code).message == "UNKNOWN_TOPIC_ID"
    assert response.responses[0].topic_id == topic.topic_id


def test_an_unknown_partition(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1)
    answers = produce(broker, 9, make_batch(), make_batch())
    assert [answer.error_code for answer in answers] == [0, 3]


@pytest.mark.parametrize("version", [9, 12])
def test_another_broker_leads(three_brokers: SocketlessBroker, version: int) -> None:
    three_brokers.state.create_topic("orders", 3)
    request = request_for(three_brokers, version, make_batch(), make_batch(), make_batch())
    response = three_brokers.ask(request, version, node=1)
    answers = response.responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [6, 0, 6]
    leaders = [answer.current_leader.leader_id for answer in answers]
    endpoints = [(node.node_id, node.port) for node in response.node_endpoints]
    if version >= 10:
        assert leaders == [0, -1, 2]
        assert endpoints == [(0, 9092), (2, 9094)]
    else:
        assert (leaders, endpoints) == ([-1, -1, -1], [])


def test_acks(broker: SocketlessBroker) -> None:
    topic = broker.state.create_topic("orders", 1)
    assert broker.begin(request_for(broker, 9, make_batch(), acks=0), 9) is None
    assert topic.partitions[0].log.end_offset == 1
    with pytest.raises(CloseConnection):
        broker.begin(request_for(broker, 9, b"", acks=0), 9)
    answer = broker.ask(request_for(broker, 9, make_batch(), acks=2), 9)
    assert answer.responses[0].partition_responses[0].error_code == 21
    assert topic.partitions[0].log.end_offset == 1


def test_acks_all_needs_replicas_in_sync(three_brokers: SocketlessBroker) -> None:
    broker = three_brokers
    broker.state.create_topic("orders", 1, configs={"min.insync.replicas": "2"})
    assert produce(broker, 9, make_batch())[0].error_code == 0
    broker.state.on_node_down(1)
    broker.state.on_node_down(2)
    assert produce(broker, 9, make_batch())[0].error_code == 19
    one = broker.ask(request_for(broker, 9, make_batch(), acks=1), 9)
    assert one.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize(
    ("release", "error"), [(None, 0), ("4.0", 0), ("3.7", 0), ("3.6", 19), ("2.8", 19)]
)
def test_min_insync_replicas_above_the_replication_factor(release: str | None, error: int) -> None:
    broker = SocketlessBroker(3, version=release)
    configs = {"min.insync.replicas": "3"}
    broker.state.create_topic("orders", assignments={0: [0, 1]}, configs=configs)
    assert produce(broker, 8, make_batch())[0].error_code == error
    broker.state.on_node_down(1)
    assert produce(broker, 8, make_batch())[0].error_code == 19  # one of two is in sync


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_stay_as_they_are(broker: SocketlessBroker, codec: Compression) -> None:
    broker.state.create_topic("orders", 1)
    batch = make_batch(*((NOW_MS, b"k", b"v" * 50) for _ in range(20)), compression=codec)
    assert produce(broker, 9, batch)[0].error_code == 0
    stored = bytes(broker.state.topics["orders"].partitions[0].log.read(0, 2**31))
    assert stored[16:] == batch[16:]


def refused(
    broker: SocketlessBroker, batch: bytes, version: int = 9
) -> tuple[str, list[tuple[int, str]]]:
    answer = produce(broker, version, batch)[0]
    assert answer.base_offset == -1
    errors = [
        (error.batch_index, error.batch_index_error_message) for error in answer.record_errors
    ]
    return for_code(answer.error_code).message, errors


def test_compacted_topics_need_keys(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1, configs={"cleanup.policy": "compact"})
    batch = make_batch((NOW_MS, b"k", b"v"), (NOW_MS, None, b"w"), (NOW_MS, None, b"x"))
    error, records = refused(broker, batch)
    assert error == "INVALID_RECORD"
    assert [index for index, _ in records] == [1, 2]
    assert refused(broker, batch, version=7)[1] == []
    assert produce(broker, 9, make_batch((NOW_MS, b"k", None)))[0].error_code == 0


def test_timestamps_out_of_range(broker: SocketlessBroker) -> None:
    hour = 3_600_000
    batch = make_batch((NOW_MS, None, b"v"), (NOW_MS + hour + 1, None, b"w"))
    topic = broker.state.create_topic("orders", 1)
    error, records = refused(broker, batch)
    assert (error, [index for index, _ in records]) == ("INVALID_TIMESTAMP", [1])
    assert produce(broker, 9, make_batch((NOW_MS + hour, None, b"v")))[0].error_code == 0
    topic.configure({"message.timestamp.type": "LogAppendTime"})
    assert produce(broker, 9, batch)[0].error_code == 0
    topic.configure({"message.timestamp.before.max.ms": "10"})
    batch = make_batch((NOW_MS - 10, None, b"v"), (NOW_MS - 11, None, b"w"), (-1, None, b"x"))
    assert refused(broker, batch)[0] == "INVALID_TIMESTAMP"
    topic.configure({})
    assert produce(broker, 9, batch)[0].error_code == 0
    of_brokers = {"log.message.timestamp.before.max.ms": "10"}
    broker.state.configure(ConfigResource.BROKER, ANY_BROKER, of_brokers)
    assert refused(broker, batch)[0] == "INVALID_TIMESTAMP"


def test_records_are_checked_if_requested(broker: SocketlessBroker) -> None:
    batch = bytearray(make_batch((1, b"k", b"v" * 40)))
    batch[61] -= 10  # the first record's length
    write_crc(batch, 0, len(batch))
    broker.state.create_topic("orders", 1)
    assert produce(broker, 9, bytes(batch))[0].error_code == 0
    broker.state.delete_topic("orders")
    broker.state.check_records = True
    broker.state.create_topic("orders", 1)
    assert refused(broker, bytes(batch)) == ("INVALID_RECORD", [])
    assert produce(broker, 9, make_batch())[0].error_code == 0
