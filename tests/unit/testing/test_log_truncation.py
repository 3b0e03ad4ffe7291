"""A client detects that records it read were lost in an unclean leader election (KIP-320)."""

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from aiokafka_lite.testing import FakeCluster


def write(producer: Producer, *values: bytes) -> None:
    """Each record in its own batch."""
    for value in values:
        producer.produce("orders", value)
        assert producer.flush(20) == 0


def next_of(consumer: Consumer) -> Message:
    message = consumer.poll(30)
    assert message is not None
    return message


def test_librdkafka_detects_a_truncation() -> None:
    with FakeCluster(topics={"orders": 1}) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
        write(producer, *(b"%d" % number for number in range(10)))
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "readers",
                "auto.offset.reset": "error",
                "topic.metadata.refresh.interval.ms": 200,
            }
        )
        consumer.assign([TopicPartition("orders", 0, 0)])
        try:
            assert [next_of(consumer).value() for _ in range(10)][-1] == b"9"
            assert cluster.truncate("orders", 0, 5) == 5
            write(producer, *(b"new %d" % number for number in range(8)))
            error = next_of(consumer).error()
            assert error is not None
            assert error.code() == KafkaError._AUTO_OFFSET_RESET
            assert "offset 10 (leader epoch 0): broker end offset is 5" in error.str()
        finally:
            consumer.close()
