"""confluent-kafka (librdkafka) against the embedded broker."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from tests.foreign.work import (
    CODECS,
    COUNT,
    EXPECTED_OFFSETS,
    PARTITIONS,
    Read,
    await_true,
    entries,
    expected,
)

confluent_kafka = pytest.importorskip("confluent_kafka")
admin_api = pytest.importorskip("confluent_kafka.admin")

PROTOCOLS = ["classic", "consumer"]
QUICK_HEARTBEATS = {
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
PATIENCE = 20.0  # seconds


def producer_of(cluster: FakeCluster, **settings: object) -> Any:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "linger.ms": 5,
            "retry.backoff.ms": 20,
            **named,
        }
    )


def produce(cluster: FakeCluster, topic: str, **settings: object) -> list[int]:
    """Send all entries; return the offsets of their acknowledgements."""
    producer = producer_of(cluster, enable_idempotence=True, **settings)
    offsets = [-1] * COUNT

    def delivered(index: int) -> Callable[[object, Any], None]:
        def note(error: object, message: Any) -> None:
            assert error is None, error
            offsets[index] = message.offset()

        return note

    for index, entry in enumerate(entries()):
        producer.produce(
            topic,
            entry.value,
            entry.key,
            entry.partition,
            headers=entry.headers,
            timestamp=entry.timestamp,
            on_delivery=delivered(index),
        )
    assert producer.flush(PATIENCE) == 0
    return offsets


def send(cluster: FakeCluster, topic: str, values: Iterable[int]) -> None:
    """Spread values over the partitions of a topic."""
    producer = producer_of(cluster)
    for value in values:
        producer.produce(topic, b"%d" % value, partition=value % PARTITIONS)
    assert producer.flush(PATIENCE) == 0


@contextmanager
def consumer_of(cluster: FakeCluster, group: str = "unused", **settings: object) -> Iterator[Any]:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    if named.get("group.protocol") != "consumer":
        named = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 100, **named}
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "retry.backoff.ms": 20,
            **named,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Any, count: int) -> list[Any]:
    """The next `count` messages of a consumer."""
    found: list[Any] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=PATIENCE)
        assert messages, f"only {len(found)} of {count} records in {PATIENCE} s"
        for message in messages:
            assert message.error() is None, message.error()
        found += messages
    return found


def read_all(cluster: FakeCluster, topic: str) -> dict[int, list[Read]]:
    """All entries of a topic, by partition."""
    logs: dict[int, list[Read]] = {index: [] for index in range(PARTITIONS)}
    with consumer_of(cluster) as consumer:
        beginning = confluent_kafka.OFFSET_BEGINNING
        consumer.assign(
            [confluent_kafka.TopicPartition(topic, index, beginning) for index in range(PARTITIONS)]
        )
        for m in read(consumer, COUNT):
            log = logs[m.partition()]
            log.append((m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers() or []))
        tp = confluent_kafka.TopicPartition(topic, 0)
        assert consumer.get_watermark_offsets(tp, timeout=PATIENCE) == (0, COUNT // PARTITIONS)
    return logs


# Producing and reading by assignment


@pytest.mark.parametrize("codec", CODECS)
def test_round_trip(codec: str | None) -> None:
    with FakeCluster(2, {"orders": PARTITIONS}) as cluster:
        assert produce(cluster, "orders", compression_type=codec or "none") == EXPECTED_OFFSETS
        assert read_all(cluster, "orders") == expected()
        assert cluster.count(ApiKey.INIT_PRODUCER_ID) == 1


def test_round_trip_over_a_killed_broker() -> None:
    with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        cluster.kill(0)
        assert produce(cluster, "orders") == EXPECTED_OFFSETS
        cluster.restart(0)
        cluster.kill(1)
        assert read_all(cluster, "orders") == expected()


def test_producing_survives_a_killed_broker() -> None:
    with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        fault = cluster.control(ApiKey.PRODUCE, drop=True, node=0)
        producer = producer_of(cluster, enable_idempotence=True, socket_timeout_ms=2000)
        for value in range(90):
            producer.produce("orders", b"%d" % value, partition=value % PARTITIONS)
            producer.poll(0)
        await_true(lambda: fault.hits)
        cluster.kill(0)
        assert producer.flush(PATIENCE) == 0
        with consumer_of(cluster) as consumer:
            consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
            values = [int(message.value()) for message in read(consumer, 30)]
        assert values == list(range(0, 90, PARTITIONS))


# Groups


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_record_is_lost_or_repeated_while_members_join_and_leave(protocol: str) -> None:
    with FakeCluster(3, {"orders": PARTITIONS}, broker_configs=QUICK_HEARTBEATS) as cluster:
        seen: list[int] = []

        def poll(*consumers: Any) -> None:
            for consumer in consumers:
                for message in consumer.consume(100, timeout=0.02):
                    assert message.error() is None, message.error()
                    seen.append(int(message.value()))
                    consumer.commit(message, asynchronous=False)

        def shared(*consumers: Any) -> bool:
            poll(*consumers)
            parts = [{tp.partition for tp in consumer.assignment()} for consumer in consumers]
            return sum(map(len, parts)) == PARTITIONS == len(set().union(*parts)) and all(parts)

        send(cluster, "orders", range(30))
        with consumer_of(cluster, "workers", group_protocol=protocol) as first:
            first.subscribe(["orders"])
            await_true(lambda: shared(first))
            await_true(lambda: poll(first) or len(seen) == 30)
            with consumer_of(cluster, "workers", group_protocol=protocol) as second:
                second.subscribe(["orders"])
                await_true(lambda: shared(first, second))
                send(cluster, "orders", range(30, 60))
                await_true(lambda: poll(first, second) or len(seen) >= 60)
            await_true(lambda: shared(first))
            send(cluster, "orders", range(60, 90))
            await_true(lambda: poll(first) or len(seen) >= 90)
        assert sorted(seen) == list(range(90))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_group_resumes_at_its_committed_offsets(protocol: str) -> None:
    with FakeCluster(1, {"orders": PARTITIONS}) as cluster:
        send(cluster, "orders", range(30))
        with consumer_of(cluster, "workers", group_protocol=protocol) as consumer:
            consumer.subscribe(["orders"])
            read(consumer, 30)
            consumer.commit(asynchronous=False)
        send(cluster, "orders", range(30, 36))
        with consumer_of(cluster, "workers", group_protocol=protocol) as consumer:
            consumer.subscribe(["orders"])
            assert sorted(int(m.value()) for m in read(consumer, 6)) == list(range(30, 36))
            tps = [confluent_kafka.TopicPartition("orders", index) for index in range(PARTITIONS)]
            committed = consumer.committed(tps, timeout=PATIENCE)
            assert [tp.offset for tp in committed] == [10] * PARTITIONS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_static_member_returns_without_a_rebalance(protocol: str) -> None:
    with FakeCluster(1, {"orders": PARTITIONS}) as cluster:
        settings = {"group_protocol": protocol, "group_instance_id": "desk-1"}
        for _ in range(2):
            with consumer_of(cluster, "workers", **settings) as consumer:
                consumer.subscribe(["orders"])
                send(cluster, "orders", range(3))
                read(consumer, 3)
                consumer.commit(asynchronous=False)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_group_survives_its_coordinator(protocol: str) -> None:
    with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        send(cluster, "orders", range(30))
        with consumer_of(cluster, "workers", group_protocol=protocol) as consumer:
            consumer.subscribe(["orders"])
            read(consumer, 30)
            consumer.commit(asynchronous=False)
            cluster.kill(cluster.state.coordinators.node_of(0, "workers").node_id)
            send(cluster, "orders", range(30, 60))
            assert {int(m.value()) for m in read(consumer, 30)} == set(range(30, 60))
            consumer.commit(asynchronous=False)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_assignors_of_librdkafka(strategy: str) -> None:
    with FakeCluster(1, {"orders": PARTITIONS, "bills": 2}) as cluster:
        settings = {"partition_assignment_strategy": strategy}
        with (
            consumer_of(cluster, "workers", **settings) as first,
            consumer_of(cluster, "workers", **settings) as second,
        ):
            for consumer in (first, second):
                consumer.subscribe(["orders", "bills"])

            def shared() -> bool:
                parts = []
                for consumer in (first, second):
                    consumer.poll(0.02)
                    parts.append({(tp.topic, tp.partition) for tp in consumer.assignment()})
                return all(parts) and sum(map(len, parts)) == 5 == len(set().union(*parts))

            await_true(shared)


@pytest.mark.parametrize("version", ["3.9", "2.8", "1.1", "0.10.2"])
def test_group_on_an_older_release(version: str) -> None:
    with FakeCluster(2, {"orders": PARTITIONS}, version=version) as cluster:
        send(cluster, "orders", range(30))
        for first, count in ((0, 30), (30, 6)):
            send(cluster, "orders", range(max(first, 30), first + count))
            with consumer_of(cluster, "workers") as consumer:
                consumer.subscribe(["orders"])
                found = sorted(int(m.value()) for m in read(consumer, count))
                assert found == list(range(first, first + count))
                consumer.commit(asynchronous=False)


# Transactions


def values_of(cluster: FakeCluster, count: int, isolation: str = "read_committed") -> list[bytes]:
    """The values of partition 0, up to a count."""
    with consumer_of(cluster, isolation_level=isolation) as consumer:
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        return [message.value() for message in read(consumer, count)]


@pytest.mark.parametrize("version", [None, "3.9", "2.8", "0.11"])
def test_transactions_are_committed_and_aborted(version: str | None) -> None:
    with FakeCluster(3, {"orders": 1}, version=version) as cluster:
        producer = producer_of(cluster, transactional_id="till")
        producer.init_transactions(PATIENCE)
        for number in range(4):
            producer.begin_transaction()
            for record in range(3):
                producer.produce("orders", b"%d.%d" % (number, record))
            if number % 2:
                producer.flush(PATIENCE)
                producer.abort_transaction(PATIENCE)
            else:
                producer.commit_transaction(PATIENCE)
        assert values_of(cluster, 6) == [b"0.0", b"0.1", b"0.2", b"2.0", b"2.1", b"2.2"]
        assert len(values_of(cluster, 12, "read_uncommitted")) == 12


def test_open_transaction_is_hidden_and_aborted_by_its_successor() -> None:
    with FakeCluster(1, {"orders": 1}) as cluster:
        first = producer_of(cluster, transactional_id="till")
        first.init_transactions(PATIENCE)
        first.begin_transaction()
        first.produce("orders", b"open")
        first.flush(PATIENCE)
        send(cluster, "orders", [0])  # plain, but behind it
        with consumer_of(cluster, isolation_level="read_committed") as consumer:
            consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
            assert consumer.poll(0.3) is None
            second = producer_of(cluster, transactional_id="till")
            second.init_transactions(PATIENCE)
            assert [message.value() for message in read(consumer, 1)] == [b"0"]
        first.produce("orders", b"fenced")
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            first.commit_transaction(PATIENCE)
        assert caught.value.args[0].code() == confluent_kafka.KafkaError._FENCED


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_are_committed_within_transactions(protocol: str) -> None:
    with FakeCluster(1, {"orders": PARTITIONS, "bills": 1}) as cluster:
        send(cluster, "orders", range(30))
        producer = producer_of(cluster, transactional_id="till")
        producer.init_transactions(PATIENCE)
        tps = [confluent_kafka.TopicPartition("orders", index) for index in range(PARTITIONS)]
        for commits, offset in ((False, -1001), (True, 10)):
            with consumer_of(cluster, "workers", group_protocol=protocol) as consumer:
                consumer.subscribe(["orders"])
                producer.begin_transaction()
                for message in read(consumer, 30):
                    producer.produce("bills", message.value())
                producer.send_offsets_to_transaction(
                    consumer.position(consumer.assignment()),
                    consumer.consumer_group_metadata(),
                    PATIENCE,
                )
                if commits:
                    producer.commit_transaction(PATIENCE)
                else:
                    producer.abort_transaction(PATIENCE)
                committed = consumer.committed(tps, timeout=PATIENCE)
                assert {tp.offset for tp in committed} == {offset}


# Admin


def admin_of(cluster: FakeCluster) -> Any:
    return admin_api.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def done(futures: dict[Any, Any]) -> dict[Any, Any]:
    return {key: future.result(PATIENCE) for key, future in futures.items()}


def test_topics_and_their_configurations() -> None:
    with FakeCluster(3, auto_create_topics=False) as cluster:
        admin = admin_of(cluster)
        new = admin_api.NewTopic("orders", 2, 3, config={"retention.ms": "5000"})
        done(admin.create_topics([new]))
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            done(admin.create_topics([new]))
        assert caught.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS
        done(admin.create_partitions([admin_api.NewPartitions("orders", 4)]))
        await_true(lambda: len(admin.list_topics("orders").topics["orders"].partitions) == 4)
        described = done(admin.describe_topics(confluent_kafka.TopicCollection(["orders"])))
        assert [len(each.isr) for each in described["orders"].partitions] == [3] * 4

        resource = admin_api.ConfigResource(admin_api.ResourceType.TOPIC, "orders")
        (configs,) = done(admin.describe_configs([resource])).values()
        assert configs["retention.ms"].value == "5000"
        change = admin_api.ConfigResource(
            admin_api.ResourceType.TOPIC,
            "orders",
            incremental_configs=[
                admin_api.ConfigEntry(
                    "cleanup.policy",
                    "compact",
                    incremental_operation=admin_api.AlterConfigOpType.SET,
                )
            ],
        )
        done(admin.incremental_alter_configs([change]))
        (configs,) = done(admin.describe_configs([resource])).values()
        assert configs["cleanup.policy"].value == "compact"
        assert configs["retention.ms"].value == "5000"
        done(admin.delete_topics(["orders"]))
        await_true(lambda: "orders" not in admin.list_topics().topics)
        assert len(admin.describe_cluster().result(PATIENCE).nodes) == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_groups_and_their_offsets(protocol: str) -> None:
    with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        admin = admin_of(cluster)
        send(cluster, "orders", range(30))
        with consumer_of(cluster, "workers", group_protocol=protocol) as consumer:
            consumer.subscribe(["orders"])
            read(consumer, 30)
            consumer.commit(asynchronous=False)
            (group,) = done(admin.describe_consumer_groups(["workers"])).values()
            assert group.state is confluent_kafka.ConsumerGroupState.STABLE
            assert group.type.name.lower() == protocol
            (member,) = group.members
            assert len(member.assignment.topic_partitions) == PARTITIONS
            listed = admin.list_consumer_groups().result(PATIENCE).valid
            assert [(each.group_id, each.type.name.lower()) for each in listed] == [
                ("workers", protocol)
            ]
            with pytest.raises(confluent_kafka.KafkaException) as caught:
                done(admin.delete_consumer_groups(["workers"]))
            assert caught.value.args[0].code() == confluent_kafka.KafkaError.NON_EMPTY_GROUP
        wanted = [confluent_kafka.ConsumerGroupTopicPartitions("workers")]
        (offsets,) = done(admin.list_consumer_group_offsets(wanted)).values()
        assert sorted(tp.offset for tp in offsets.topic_partitions) == [10] * PARTITIONS
        moved = confluent_kafka.TopicPartition("orders", 1, 4)
        done(
            admin.alter_consumer_group_offsets(
                [confluent_kafka.ConsumerGroupTopicPartitions("workers", [moved])]
            )
        )
        with consumer_of(cluster, "workers", group_protocol=protocol) as consumer:
            consumer.subscribe(["orders"])
            assert {message.partition() for message in read(consumer, 6)} == {1}
        done(admin.delete_consumer_groups(["workers"]))
        assert admin.list_consumer_groups().result(PATIENCE).valid == []


def test_records_are_deleted_and_offsets_found() -> None:
    with FakeCluster(2, {"orders": PARTITIONS}) as cluster:
        admin = admin_of(cluster)
        produce(cluster, "orders")
        low = done(admin.delete_records([confluent_kafka.TopicPartition("orders", 1, 40)]))
        assert [deleted.low_watermark for deleted in low.values()] == [40]
        tp = confluent_kafka.TopicPartition("orders", 1)
        spec = admin_api.OffsetSpec
        for wanted, offset in (
            (spec.earliest(), 40),
            (spec.latest(), 100),
            (spec.for_timestamp(1181), 60),
            (spec.max_timestamp(), 99),
        ):
            (found,) = done(admin.list_offsets({tp: wanted})).values()
            assert found.offset == offset
