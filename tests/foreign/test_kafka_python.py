"""kafka-python 3 against the embedded broker."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Any

import pytest

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

kafka = pytest.importorskip("kafka")
admin_api = pytest.importorskip("kafka.admin")
codecs = pytest.importorskip("kafka.codec")
errors = pytest.importorskip("kafka.errors")

# It leaves sockets to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("collected"),
]

ORDERS = [kafka.TopicPartition("orders", index) for index in range(PARTITIONS)]


@pytest.fixture
def collected() -> Iterator[None]:
    """Collects garbage while the test's warnings are still ignored."""
    yield
    gc.collect()


@contextmanager
def producer_of(cluster: FakeCluster, **options: Any) -> Iterator[Any]:
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, **{"retry_backoff_ms": 20, **options}
    )
    with closing(producer):
        yield producer


@contextmanager
def consumer_of(cluster: FakeCluster, *topics: str, **options: Any) -> Iterator[Any]:
    defaults = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "fetch_max_wait_ms": 20,
        "retry_backoff_ms": 20,
        "heartbeat_interval_ms": 100,
        "consumer_timeout_ms": 20_000,
    }
    consumer = kafka.KafkaConsumer(
        *topics, bootstrap_servers=cluster.bootstrap_servers, **{**defaults, **options}
    )
    with closing(consumer):
        yield consumer


@contextmanager
def admin_of(cluster: FakeCluster) -> Iterator[Any]:
    with closing(kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        yield admin


def produce(cluster: FakeCluster, topic: str, **options: Any) -> list[int]:
    """Send all entries; return the offsets of their acknowledgements."""
    with producer_of(cluster, **options) as producer:
        sent = [
            producer.send(
                topic,
                entry.value,
                entry.key,
                partition=entry.partition,
                headers=entry.headers,
                timestamp_ms=entry.timestamp,
            )
            for entry in entries()
        ]
        return [future.get(20).offset for future in sent]


def send(cluster: FakeCluster, topic: str, values: Iterable[int]) -> None:
    """Spread values over the partitions of a topic."""
    with producer_of(cluster) as producer:
        for value in values:
            producer.send(topic, b"%d" % value, partition=value % PARTITIONS)


def read(consumer: Any, count: int) -> list[Any]:
    """The next `count` records of a consumer."""
    found = [record for _, record in zip(range(count), consumer, strict=False)]
    assert len(found) == count
    return found


def read_all(cluster: FakeCluster, topic: str) -> dict[int, list[Read]]:
    """All entries of a topic, by partition."""
    logs: dict[int, list[Read]] = {index: [] for index in range(PARTITIONS)}
    tps = [kafka.TopicPartition(topic, index) for index in range(PARTITIONS)]
    with consumer_of(cluster) as consumer:
        consumer.assign(tps)
        for r in read(consumer, COUNT):
            logs[r.partition].append((r.offset, r.timestamp, r.key, r.value, list(r.headers)))
        assert consumer.end_offsets(tps) == dict.fromkeys(tps, COUNT // PARTITIONS)
        assert consumer.offsets_for_times({tps[1]: 1031})[tps[1]].offset == 10
    return logs


@pytest.mark.parametrize("codec", CODECS)
def test_round_trip(codec: str | None) -> None:
    if codec == "snappy" and not codecs.has_snappy():
        pytest.skip("kafka-python has no snappy here")
    with FakeCluster(2, {"orders": PARTITIONS}) as cluster:
        assert produce(cluster, "orders", compression_type=codec) == EXPECTED_OFFSETS
        assert read_all(cluster, "orders") == expected()


def test_round_trip_over_a_killed_broker() -> None:
    with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        with producer_of(cluster) as producer:
            for value in range(30):
                producer.send("orders", b"%d" % value, partition=value % PARTITIONS)
            cluster.kill(0)
            for value in range(30, 60):
                producer.send("orders", b"%d" % value, partition=value % PARTITIONS)
        cluster.restart(0)
        cluster.kill(1)
        with consumer_of(cluster) as consumer:
            consumer.assign(ORDERS)
            assert sorted(int(record.value) for record in read(consumer, 60)) == list(range(60))


class Worker:
    """A member of a group in its own thread; it commits each record that it reads."""

    def __init__(self, cluster: FakeCluster, seen: list[int], **options: Any) -> None:
        self._stop = Event()
        self._seen = seen
        self._cluster = cluster
        self._options = options
        self.assigned: set[Any] = set()
        self._thread = Thread(target=self._work)

    def _work(self) -> None:
        with consumer_of(self._cluster, "orders", group_id="workers", **self._options) as consumer:
            while not self._stop.is_set():
                # A shorter poll may end while it joins; kafka-python 3.0 never gets its partitions
                # then.
                for records in consumer.poll(timeout_ms=500).values():
                    self._seen += [int(record.value) for record in records]
                    consumer.commit()
                self.assigned = set(consumer.assignment())
        self.assigned = set()

    def __enter__(self) -> "Worker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def test_no_record_is_lost_while_members_join_and_leave() -> None:
    with FakeCluster(3, {"orders": PARTITIONS}) as cluster:
        seen: list[int] = []
        send(cluster, "orders", range(30))
        with Worker(cluster, seen) as first:
            await_true(lambda: len(seen) == 30)
            with Worker(cluster, seen) as second:
                await_true(
                    lambda: (
                        first.assigned
                        and second.assigned
                        and len(first.assigned | second.assigned) == PARTITIONS
                        and not first.assigned & second.assigned
                    )
                )
                send(cluster, "orders", range(30, 60))
                await_true(lambda: len(set(seen)) == 60)
            await_true(lambda: len(first.assigned) == PARTITIONS)
            send(cluster, "orders", range(60, 90))
            await_true(lambda: len(set(seen)) == 90)
        assert set(seen) == set(range(90))


def test_group_resumes_at_its_committed_offsets() -> None:
    with FakeCluster(1, {"orders": PARTITIONS}) as cluster:
        send(cluster, "orders", range(30))
        with consumer_of(cluster, "orders", group_id="workers") as consumer:
            read(consumer, 30)
            consumer.commit()
        send(cluster, "orders", range(30, 36))
        with consumer_of(cluster, "orders", group_id="workers") as consumer:
            values = sorted(int(record.value) for record in read(consumer, 6))
            assert values == list(range(30, 36))
            assert [consumer.committed(tp) for tp in ORDERS] == [10] * PARTITIONS


def values_of(cluster: FakeCluster, count: int, isolation: str = "read_committed") -> list[bytes]:
    """The values of partition 0, up to a count."""
    with consumer_of(cluster, isolation_level=isolation) as consumer:
        consumer.assign(ORDERS[:1])
        return [record.value for record in read(consumer, count)]


def test_transactions_are_committed_and_aborted() -> None:
    with FakeCluster(3, {"orders": 1}) as cluster:
        with producer_of(cluster, transactional_id="till") as producer:
            producer.init_transactions()
            for number in range(4):
                producer.begin_transaction()
                for record in range(3):
                    producer.send("orders", b"%d.%d" % (number, record))
                if number % 2:
                    producer.flush()
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
        committed = [b"0.0", b"0.1", b"0.2", b"2.0", b"2.1", b"2.2"]
        assert values_of(cluster, 6) == committed
        assert len(values_of(cluster, 12, "read_uncommitted")) == 12


def test_offsets_are_committed_within_transactions() -> None:
    with FakeCluster(1, {"orders": PARTITIONS, "bills": 1}) as cluster:
        send(cluster, "orders", range(30))
        with producer_of(cluster, transactional_id="till") as producer:
            producer.init_transactions()
            for commits, offset in ((False, None), (True, 10)):
                with consumer_of(cluster, "orders", group_id="workers") as consumer:
                    producer.begin_transaction()
                    for record in read(consumer, 30):
                        producer.send("bills", record.value)
                    positions = {
                        tp: kafka.OffsetAndMetadata(consumer.position(tp), "", -1) for tp in ORDERS
                    }
                    producer.send_offsets_to_transaction(positions, "workers")
                    if commits:
                        producer.commit_transaction()
                    else:
                        producer.abort_transaction()
                    assert {consumer.committed(tp) for tp in ORDERS} == {offset}


def test_topics_and_their_configurations() -> None:
    with FakeCluster(3, auto_create_topics=False) as cluster, admin_of(cluster) as admin:
        admin.create_topics([admin_api.NewTopic("orders", 2, 3)])
        with pytest.raises(errors.TopicAlreadyExistsError):
            admin.create_topics([admin_api.NewTopic("orders", 2, 3)])
        admin.create_partitions({"orders": admin_api.NewPartitions(4)})
        (described,) = admin.describe_topics(["orders"])
        assert len(described["partitions"]) == 4
        resource = admin_api.ConfigResource(
            admin_api.ConfigResourceType.TOPIC, "orders", {"retention.ms": "5000"}
        )
        admin.alter_configs([resource])
        assert "5000" in repr(admin.describe_configs([resource]))
        assert len(admin.describe_cluster()["brokers"]) == 3
        admin.delete_topics(["orders"])
        await_true(lambda: "orders" not in repr(admin.list_topics()))


def test_groups_and_their_offsets() -> None:
    with FakeCluster(3, {"orders": PARTITIONS}) as cluster, admin_of(cluster) as admin:
        send(cluster, "orders", range(30))
        with consumer_of(cluster, "orders", group_id="workers") as consumer:
            read(consumer, 30)
            consumer.commit()
            assert "workers" in repr(admin.list_groups())
            assert "Stable" in repr(admin.describe_groups(["workers"]))
        offsets = admin.list_group_offsets("workers")["workers"]
        assert [offsets[tp].offset for tp in ORDERS] == [10] * PARTITIONS
        admin.delete_groups(["workers"])
        assert "workers" not in repr(admin.list_groups())


def test_records_are_deleted() -> None:
    with FakeCluster(2, {"orders": PARTITIONS}) as cluster, admin_of(cluster) as admin:
        produce(cluster, "orders")
        admin.delete_records({ORDERS[1]: 40})
        with consumer_of(cluster) as consumer:
            assert consumer.beginning_offsets(ORDERS[1:2]) == {ORDERS[1]: 40}
