"""Ranges of offsets as record batches, from the embedded broker."""

import asyncio
import threading
import time
from contextlib import closing

import pytest

pa = pytest.importorskip("pyarrow")

from aiokafka_lite import AIOKafkaProducer  # noqa: E402
from aiokafka_lite.admin import OffsetSpec  # noqa: E402
from aiokafka_lite.errors import (  # noqa: E402
    CorruptRecordException,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.protocol.api_keys import ApiKey  # noqa: E402
from aiokafka_lite.record.compression import Compression  # noqa: E402
from aiokafka_lite.spark import range_consumer, runtime, task_reading  # noqa: E402
from aiokafka_lite.spark.data_loss import DataLossError  # noqa: E402
from aiokafka_lite.spark.partition_offsets import OffsetRange, split  # noqa: E402
from aiokafka_lite.spark.task_reading import ReadSettings, read_ranges  # noqa: E402


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(range_consumer, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(range_consumer, "SURE_SECONDS", 0.5)
    monkeypatch.setattr(range_consumer, "ANSWER_SECONDS", 0.5)
    yield
    runtime.close_idle()


def settings(cluster, **changes):
    arguments = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 10,
        **changes.pop("arguments", {}),
    }
    return ReadSettings(arguments, **{"poll_timeout": 20.0, **changes})


def read(cluster, *ranges, **changes):
    """The rows as dicts, by partition and offset."""
    batches = list(
        read_ranges([OffsetRange(*each) for each in ranges], settings(cluster, **changes))
    )
    rows = [row for batch in batches for row in batch.to_pylist()]
    for batch in batches:
        batch.validate(full=True)
    return rows


def offsets(rows):
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def produce(cluster, topic, *transactions, **arguments):
    """Each transaction is (values, True to commit)."""

    async def run():
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **arguments)
        async with producer:
            for values, commit in transactions:
                await producer.begin_transaction()
                for value in values:
                    await producer.send(topic, value, partition=0)
                await producer.flush()
                await (producer.commit_transaction if commit else producer.abort_transaction)()

    asyncio.run(run())


def test_exactly_the_records_of_the_ranges_are_read(kafka_broker, kafka_topic_factory):
    tea, coffee = kafka_topic_factory(3), kafka_topic_factory(1)
    for i in range(300):
        for topic, partition in ((tea, 0), (tea, 1), (tea, 2), (coffee, 0)):
            kafka_broker.produce(topic, b"%d" % i, key=b"%d" % partition, partition=partition)
    ranges = [(tea, 0, 0, 300), (tea, 2, 17, 290), (coffee, 0, 299, 300), (tea, 1, 5, 5)]
    rows = read(kafka_broker, *ranges)
    assert sorted(offsets(rows)) == sorted(
        (topic, partition, offset)
        for topic, partition, start, end in ranges
        for offset in range(start, end)
    )
    assert all(
        (row["key"], row["value"]) == (b"%d" % row["partition"], b"%d" % row["offset"])
        for row in rows
    )
    for topic, partition, _, _ in ranges:
        mine = [
            row["offset"] for row in rows if (row["topic"], row["partition"]) == (topic, partition)
        ]
        assert mine == sorted(mine)


def test_nothing_to_read(kafka_broker):
    assert read(kafka_broker) == []
    assert read(kafka_broker, ("no-such-topic", 0, 7, 7)) == []


def test_several_ranges_of_one_partition(kafka_broker, kafka_topic):
    for i in range(100):
        kafka_broker.produce(kafka_topic, b"%d" % i)
    rows = read(kafka_broker, (kafka_topic, 0, 50, 60), (kafka_topic, 0, 10, 50))
    assert [row["offset"] for row in rows] == list(range(10, 60))
    rows = read(kafka_broker, (kafka_topic, 0, 90, 95), (kafka_topic, 0, 3, 4))
    assert [row["offset"] for row in rows] == [3, *range(90, 95)]


def test_nulls_and_headers(kafka_broker, kafka_topic):
    kafka_broker.produce(
        kafka_topic, None, key=b"k", headers=[("a", b"1"), ("ä", None), ("a", b"")]
    )
    kafka_broker.produce(kafka_topic, b"", key=None)
    rows = read(kafka_broker, (kafka_topic, 0, 0, 2), include_headers=True)
    assert [(row["key"], row["value"], row["headers"]) for row in rows] == [
        (
            b"k",
            None,
            [
                {"key": "a", "value": b"1"},
                {"key": "ä", "value": None},
                {"key": "a", "value": b""},
            ],
        ),
        (None, b"", None),
    ]
    assert "headers" not in read(kafka_broker, (kafka_topic, 0, 0, 1))[0]


def test_batches_respect_their_size_limits(kafka_broker, kafka_topic):
    for _ in range(100):
        kafka_broker.produce(kafka_topic, b"x" * 100)
    whole = OffsetRange(kafka_topic, 0, 0, 100)
    by_rows = settings(kafka_broker, rows_per_batch=30)
    assert [batch.num_rows for batch in read_ranges([whole], by_rows)] == [30, 30, 30, 10]
    by_bytes = settings(kafka_broker, bytes_per_batch=1000)
    assert [batch.num_rows for batch in read_ranges([whole], by_bytes)] == [10] * 10
    one_by_one = settings(kafka_broker, bytes_per_batch=1)
    assert [batch.num_rows for batch in read_ranges([whole], one_by_one)] == [1] * 100


def test_selected_columns_keep_the_requested_order(kafka_broker, kafka_topic):
    kafka_broker.produce(kafka_topic, b"v")
    (row,) = read(kafka_broker, (kafka_topic, 0, 0, 1), columns=("offset", "value"))
    assert row == {"offset": 0, "value": b"v"}
    assert list(row) == ["offset", "value"]


@pytest.mark.parametrize("compression", [each.name.lower() for each in Compression if each])
def test_large_compressed_batches(kafka_broker, kafka_topic, compression):
    import random

    values = [random.Random(i).randbytes(2000) for i in range(400)]

    async def run():
        async with AIOKafkaProducer(
            bootstrap_servers=kafka_broker.bootstrap_servers,
            compression_type=compression,
            max_batch_size=2**20,
            linger_ms=100,
        ) as producer:
            for value in values:
                await producer.send(kafka_topic, value)

    asyncio.run(run())
    rows = read(kafka_broker, (kafka_topic, 0, 0, 400))
    assert [row["value"] for row in rows] == values
    assert [row["offset"] for row in read(kafka_broker, (kafka_topic, 0, 100, 350))] == list(
        range(100, 350)
    )


def test_aborted_transactions_and_markers(kafka_broker, kafka_topic):
    produce(
        kafka_broker,
        kafka_topic,
        ([b"a", b"b"], True),  # 0, 1, and the marker at 2
        ([b"c", b"d"], False),  # 3, 4, 5
        ([b"e"], True),  # 6, 7
        ([b"f"], False),  # 8, 9
        transactional_id="tx",
    )
    committed = {"arguments": {"isolation_level": "read_committed"}}
    whole = (kafka_topic, 0, 0, 10)
    assert [row["value"] for row in read(kafka_broker, whole, **committed)] == [b"a", b"b", b"e"]
    assert [row["value"] for row in read(kafka_broker, whole)] == [
        *map(bytes, b"a b c d e f".split())
    ]
    assert read(kafka_broker, (kafka_topic, 0, 3, 6), **committed) == []
    assert read(kafka_broker, (kafka_topic, 0, 2, 3)) == []  # a marker alone
    assert [row["value"] for row in read(kafka_broker, (kafka_topic, 0, 4, 7))] == [b"d", b"e"]


def test_records_of_an_open_transaction_are_awaited(kafka_broker, kafka_topic):
    """It is not lost, although no committed record has these offsets yet."""
    committed = {"arguments": {"isolation_level": "read_committed"}, "fail_on_data_loss": False}

    async def run():
        producer = AIOKafkaProducer(
            bootstrap_servers=kafka_broker.bootstrap_servers, transactional_id="open"
        )
        async with producer:
            await producer.begin_transaction()
            for i in range(5):
                await producer.send(kafka_topic, b"%d" % i, partition=0)
            await producer.flush()
            with pytest.raises(KafkaTimeoutError, match="although some exist"):
                await asyncio.to_thread(
                    read, kafka_broker, (kafka_topic, 0, 0, 5), poll_timeout=1.5, **committed
                )
            reading = asyncio.create_task(
                asyncio.to_thread(read, kafka_broker, (kafka_topic, 0, 0, 5), **committed)
            )
            asked = kafka_broker.count(ApiKey.LIST_OFFSETS)
            # Until the brokers have been queried often enough.
            while kafka_broker.count(ApiKey.LIST_OFFSETS) < asked + 10 and not reading.done():
                await asyncio.sleep(0.01)
            await producer.commit_transaction()
            return await reading

    assert [row["offset"] for row in asyncio.run(run())] == list(range(5))


def test_compacted_logs_are_read(kafka_broker, kafka_topic_factory):
    topic = kafka_topic_factory(1, {"cleanup.policy": "compact"})
    for i in range(50):
        kafka_broker.produce(topic, b"%d" % i, key=b"%d" % (i % 7))
    kafka_broker.compact(topic)
    left = [row["offset"] for row in read(kafka_broker, (topic, 0, 0, 50))]
    assert 7 <= len(left) < 50
    assert left[-1] == 49
    for start, end in ((0, 10), (3, 44), (45, 50), (44, 45), (0, 1)):
        rows = read(kafka_broker, (topic, 0, start, end))
        assert [row["offset"] for row in rows] == [each for each in left if start <= each < end]


def test_a_log_that_ends_in_offsets_without_records(kafka_broker, kafka_topic):
    """As after compaction has removed the newest records of an older segment."""
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)

    def nothing_after_5(response):
        for topic in response.responses:
            for data in topic.partitions:
                if hidden:
                    data.records = b""

    hidden = True
    with closing(
        read_ranges([OffsetRange(kafka_topic, 0, 6, 10)], settings(kafka_broker))
    ) as batches:
        fault = kafka_broker.control(
            ApiKey.FETCH, times=None, after_handling=True, edit=nothing_after_5
        )
        assert list(batches) == []
    assert fault.hits >= 2  # a fetch, and the query of this partition alone
    fault.remove()


def hide_records(cluster):
    """Let offsets exist without records from here on."""

    def edit(response):
        for topic in response.responses:
            for data in topic.partitions:
                data.records = b""

    cluster.control(ApiKey.FETCH, times=None, after_handling=True, edit=edit)


def test_a_short_poll_timeout_does_not_fail_at_offsets_without_records(kafka_broker, kafka_topic):
    """Its default was 512 ms in early releases of Spark, and some jobs still set it."""
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)
    hide_records(kafka_broker)
    assert read(kafka_broker, (kafka_topic, 0, 6, 10), poll_timeout=0.1) == []


def test_several_ranges_without_records_share_no_timeout(kafka_broker, kafka_topic):
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)
    hide_records(kafka_broker)
    ranges = [(kafka_topic, 0, i, i + 1) for i in range(0, 10, 2)]
    assert read(kafka_broker, *ranges, poll_timeout=0.6) == []


def test_a_short_poll_timeout_does_not_fail_at_deleted_records(kafka_broker, kafka_topic, caplog):
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)
    kafka_broker.delete_records(kafka_topic, 0, 6)
    rows = read(kafka_broker, (kafka_topic, 0, 2, 10), fail_on_data_loss=False, poll_timeout=0.1)
    assert [row["offset"] for row in rows] == [6, 7, 8, 9]
    assert "offsets [2, 6)" in caplog.text


def test_an_empty_throttled_response_does_not_mean_an_empty_range(kafka_broker, kafka_topic):
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)

    def throttled(response):
        response.throttle_time_ms = 1
        for topic in response.responses:
            for data in topic.partitions:
                data.records = b""

    kafka_broker.control(ApiKey.FETCH, times=8, after_handling=True, edit=throttled)
    assert len(read(kafka_broker, (kafka_topic, 0, 0, 10))) == 10


def test_slow_tiered_storage_does_not_mean_an_empty_range(kafka_broker, kafka_topic):
    """A broker returns no records and no error if tiered storage does not deliver them in time."""
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)

    def without_records(response):
        for topic in response.responses:
            for data in topic.partitions:
                data.records = b""

    def local_from_8(response):
        response.topics[0].partitions[0].offset = 8

    def is_of_local(request):
        return request.topics[0].partitions[0].timestamp == OffsetSpec.EARLIEST_LOCAL

    slow = kafka_broker.control(ApiKey.FETCH, times=None, after_handling=True, edit=without_records)
    question = kafka_broker.control(
        ApiKey.LIST_OFFSETS, times=None, when=is_of_local, after_handling=True, edit=local_from_8
    )
    delivering = threading.Timer(1.5, slow.remove)
    delivering.start()
    rows = read(kafka_broker, (kafka_topic, 0, 0, 10))
    delivering.join()
    assert [row["offset"] for row in rows] == list(range(10))
    assert question.hits


def test_offsets_lost_before_the_start(kafka_broker, kafka_topic, caplog):
    for i in range(20):
        kafka_broker.produce(kafka_topic, b"%d" % i)
    kafka_broker.delete_records(kafka_topic, 0, 8)
    with pytest.raises(DataLossError, match=rf"\[3, 8\) of {kafka_topic}-0 are gone") as info:
        read(kafka_broker, (kafka_topic, 0, 3, 20))
    assert "COULD_NOT_READ_OFFSET_RANGE" in str(info.value)
    rows = read(kafka_broker, (kafka_topic, 0, 3, 20), fail_on_data_loss=False)
    assert [row["offset"] for row in rows] == list(range(8, 20))
    assert "[3, 8)" in caplog.text
    assert read(kafka_broker, (kafka_topic, 0, 3, 8), fail_on_data_loss=False) == []
    with pytest.raises(DataLossError):
        read(kafka_broker, (kafka_topic, 0, 3, 7))


def test_the_earliest_record_is_the_earliest_when_it_is_read(kafka_broker, kafka_topic, caplog):
    """Hours may pass between the plan of a large batch and its last task."""
    for i in range(20):
        kafka_broker.produce(kafka_topic, b"%d" % i)
    first, second = split([OffsetRange(kafka_topic, 0, 0, 20, True)], max_records=10)
    kafka_broker.delete_records(kafka_topic, 0, 8)
    (batch,) = read_ranges([first], settings(kafka_broker))
    assert batch.column("offset").to_pylist() == [8, 9]
    kafka_broker.delete_records(kafka_topic, 0, 12)
    assert list(read_ranges([first], settings(kafka_broker))) == []
    assert "KAFKA_DATA_LOSS" not in caplog.text
    with pytest.raises(DataLossError, match=r"\[10, 12\)"):  # which belong to the second
        list(read_ranges([second], settings(kafka_broker)))


def test_records_deleted_by_retention_while_reading(kafka_broker, kafka_topic):
    for _ in range(600):
        kafka_broker.produce(kafka_topic, b"x" * 1000)
    small = {
        "rows_per_batch": 10,
        "arguments": {"max_partition_fetch_bytes": 20_000},
        "fail_on_data_loss": False,
    }
    got = []
    with closing(
        read_ranges([OffsetRange(kafka_topic, 0, 0, 600)], settings(kafka_broker, **small))
    ) as batches:
        got += next(batches).column("offset").to_pylist()
        kafka_broker.delete_records(kafka_topic, 0, 500)
        for batch in batches:
            got += batch.column("offset").to_pylist()
    gone = [offset for offset in range(600) if offset not in got]
    assert got == sorted(got)
    assert 300 < len(gone) < 500
    assert gone == list(range(gone[0], 500))  # one gap, up to the new start of the log


def test_a_log_that_ends_before_the_range(kafka_broker, kafka_topic, caplog):
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)
    for start in (4, 10, 15):
        with pytest.raises(DataLossError, match=rf"{max(start, 10)}, 20\) of {kafka_topic}-0"):
            read(kafka_broker, (kafka_topic, 0, start, 20))
        rows = read(kafka_broker, (kafka_topic, 0, start, 20), fail_on_data_loss=False)
        assert [row["offset"] for row in rows] == list(range(start, 10))
        assert "do not exist" in caplog.text


def test_a_deleted_topic(kafka_broker, kafka_topic):
    kafka_broker.produce(kafka_topic, b"1")
    kafka_broker.delete_topic(kafka_topic)
    quick = {"arguments": {"request_timeout_ms": 500}}
    with pytest.raises(DataLossError, match="the partition does not exist"):
        read(kafka_broker, (kafka_topic, 0, 0, 1), **quick)
    assert read(kafka_broker, (kafka_topic, 0, 0, 1), fail_on_data_loss=False, **quick) == []


def remake(cluster, topic, count):
    """Delete and recreate a topic, with other records.

    No client sees an intermediate state: a reader's result depends on whether the new log is longer
    than the part read of the old one.
    """
    for node_id in cluster.state.nodes:
        cluster.pause(node_id)
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 1)
    for i in range(count):
        cluster.produce(topic, b"new %d" % i)
    for node_id in cluster.state.nodes:
        cluster.resume(node_id)


def test_a_topic_recreated_between_two_tasks(kafka_broker, kafka_topic):
    """Their client still has the old topic's metadata; the second task was planned on the new
    one."""
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"old %d" % i)
    assert len(read(kafka_broker, (kafka_topic, 0, 0, 10))) == 10
    remake(kafka_broker, kafka_topic, 20)
    rows = read(kafka_broker, (kafka_topic, 0, 5, 20))
    assert [row["value"] for row in rows] == [b"new %d" % i for i in range(5, 20)]
    remake(kafka_broker, kafka_topic, 3)
    with pytest.raises(DataLossError, match=r"\[5, 20\) of .* do not exist"):
        read(kafka_broker, (kafka_topic, 0, 5, 20))


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_recreated_while_reading(kafka_broker, kafka_topic, fail):
    for _ in range(200):
        kafka_broker.produce(kafka_topic, b"x" * 1000)
    small = {"rows_per_batch": 10, "arguments": {"max_partition_fetch_bytes": 20_000}}
    told = settings(kafka_broker, fail_on_data_loss=fail, **small)
    with closing(read_ranges([OffsetRange(kafka_topic, 0, 0, 200)], told)) as batches:
        got = next(batches).column("value").to_pylist()
        remake(kafka_broker, kafka_topic, 200)
        if fail:
            with pytest.raises(DataLossError, match="was truncated before offset"):
                list(batches)
            return
        for batch in batches:
            got += batch.column("value").to_pylist()
    assert len(got) == 200
    assert got[-1] == b"new 199"


def test_deleting_a_completely_read_topic_has_no_effect(
    kafka_broker, kafka_topic_factory, monkeypatch
):
    seen, asked = kafka_topic_factory(1), []
    other = kafka_topic_factory(1)
    real = range_consumer.RangeConsumer._on_out_of_range
    monkeypatch.setattr(range_consumer, "SURE_SECONDS", 20.0)  # the rest arrives later
    monkeypatch.setattr(
        range_consumer.RangeConsumer,
        "_on_out_of_range",
        lambda self, error: asked.append(error) or real(self, error),
    )
    for i in range(5):
        kafka_broker.produce(seen, b"%d" % i)
        kafka_broker.produce(other, b"%d" % i)
    quick = settings(kafka_broker, rows_per_batch=1, arguments={"metadata_max_age_ms": 50})
    ranges = [OffsetRange(seen, 0, 0, 5), OffsetRange(other, 0, 0, 10)]
    with closing(read_ranges(ranges, quick)) as batches:
        assert sum(next(batches).num_rows for _ in range(10)) == 10
        remake(kafka_broker, seen, 5)
        metadata = kafka_broker.count(ApiKey.METADATA)
        deadline = time.monotonic() + 20
        while kafka_broker.count(ApiKey.METADATA) < metadata + 4:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for i in range(5):
            kafka_broker.produce(other, b"%d" % i)
        assert sum(batch.num_rows for batch in batches) == 5
    assert len(asked) <= 2


def test_a_broker_that_is_down_for_a_while(kafka_broker, kafka_topic):
    """Longer than the time after which a reader checks why no records arrive."""
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)
    assert len(read(kafka_broker, (kafka_topic, 0, 0, 10))) == 10
    kafka_broker.kill(0)
    restart = threading.Timer(2.0, lambda: kafka_broker.restart(0))
    restart.start()
    for fail in (True, False):
        rows = read(kafka_broker, (kafka_topic, 0, 0, 10), fail_on_data_loss=fail)
        assert len(rows) == 10
    restart.join()


def test_a_log_whose_end_is_late(kafka_broker, kafka_topic):
    """The high watermark of a new leader may briefly lag behind."""
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)

    def behind(response):
        for topic in response.topics:
            for partition in topic.partitions:
                partition.offset = min(partition.offset, 3)

    def empty(response):
        for topic in response.responses:
            for data in topic.partitions:
                data.records = b""

    late = kafka_broker.control(ApiKey.LIST_OFFSETS, times=2, after_handling=True, edit=behind)
    kafka_broker.control(
        ApiKey.FETCH,
        times=None,
        after_handling=True,
        edit=empty,
        when=lambda request: late.hits < 2,
    )
    rows = read(kafka_broker, (kafka_topic, 0, 3, 10), fail_on_data_loss=False)
    assert [row["offset"] for row in rows] == list(range(3, 10))


def test_missing_records_time_out(kafka_broker, kafka_topic):
    kafka_broker.produce(kafka_topic, b"1")

    def nothing(response):
        response.throttle_time_ms = 1
        for topic in response.responses:
            for data in topic.partitions:
                data.records = b""

    kafka_broker.control(ApiKey.FETCH, times=None, after_handling=True, edit=nothing)
    with pytest.raises(KafkaTimeoutError, match=rf"{kafka_topic}-0 at offset 0 of \[0, 1\)"):
        read(kafka_broker, (kafka_topic, 0, 0, 1), poll_timeout=0.5)


def test_partition_errors_name_their_place(kafka_broker, kafka_topic):
    for i in range(10):
        kafka_broker.produce(kafka_topic, b"%d" % i)

    def flip(response):
        for topic in response.responses:
            for data in topic.partitions:
                data.records = bytes(data.records[:-1]) + b"\xff"

    kafka_broker.control(ApiKey.FETCH, times=None, after_handling=True, edit=flip)
    with pytest.raises(CorruptRecordException) as info:
        read(kafka_broker, (kafka_topic, 0, 2, 10))
    assert f"{kafka_topic}-0 at offset" in "".join(info.value.__notes__)


def test_an_unauthorized_topic(kafka_broker, kafka_topic):
    kafka_broker.produce(kafka_topic, b"1")
    kafka_broker.control(ApiKey.FETCH, times=None, error=TopicAuthorizationFailedError)
    with pytest.raises(TopicAuthorizationFailedError, match=kafka_topic):
        read(kafka_broker, (kafka_topic, 0, 0, 1))


def test_consecutive_tasks_share_a_client(kafka_broker, kafka_topic_factory):
    topic = kafka_topic_factory(4)
    for partition in range(4):
        for i in range(50):
            kafka_broker.produce(topic, b"%d" % i, partition=partition)
    for start in range(0, 50, 10):
        for partition in range(4):
            rows = read(kafka_broker, (topic, partition, start, start + 10))
            assert [row["offset"] for row in rows] == list(range(start, start + 10))
    clients = {
        request.client_id for request in kafka_broker.requests if request.api_key == ApiKey.FETCH
    }
    assert len(clients) == 1
    assert kafka_broker.count(ApiKey.API_VERSIONS) <= 4  # the connections of one client


def test_no_fetch_waits_at_the_broker_after_a_task(kafka_broker, kafka_topic, monkeypatch):
    """Otherwise the next task's request would wait behind it."""
    monkeypatch.setattr(range_consumer, "QUIET_SECONDS", 30.0)
    for i in range(100):
        kafka_broker.produce(kafka_topic, b"%d" % i)
    for _ in range(5):
        read(kafka_broker, (kafka_topic, 0, 0, 100))
        read(kafka_broker, (kafka_topic, 0, 20, 40))
    assert kafka_broker.count(ApiKey.FETCH) == 10


def test_short_ranges_use_small_fetches(kafka_broker, kafka_topic):
    for _ in range(3000):
        kafka_broker.produce(kafka_topic, b"x" * 100)
    for start, end in ((0, 3), (0, 100), (0, 3000)):
        assert len(read(kafka_broker, (kafka_topic, 0, start, end))) == end - start
    asked = [
        partition.partition_max_bytes
        for request in kafka_broker.requests
        if request.api_key == ApiKey.FETCH
        for topic in request.body.topics
        for partition in topic.partitions
    ]
    assert asked == sorted(asked)
    assert set(asked) == {64 * 1024, 400 * 1024, 1024 * 1024}


def test_a_task_that_stops_early_returns_its_client(kafka_broker, kafka_topic):
    for _ in range(500):
        kafka_broker.produce(kafka_topic, b"x" * 1000)
    for _ in range(3):
        batches = read_ranges(
            [OffsetRange(kafka_topic, 0, 0, 500)], settings(kafka_broker, rows_per_batch=10)
        )
        assert next(batches).num_rows == 10
        batches.close()
    assert len(read(kafka_broker, (kafka_topic, 0, 0, 500))) == 500
    assert kafka_broker.count(ApiKey.API_VERSIONS) <= 4


def test_a_slow_task_bounds_the_buffered_batches(kafka_broker, kafka_topic):
    for _ in range(2000):
        kafka_broker.produce(kafka_topic, b"x" * 1000)
    slow = settings(
        kafka_broker,
        rows_per_batch=10,
        arguments={"max_partition_fetch_bytes": 20_000, "buffer_memory": 100_000},
    )
    with closing(read_ranges([OffsetRange(kafka_topic, 0, 0, 2000)], slow)) as batches:
        next(batches)
        fetches = -1
        while fetches != kafka_broker.count(ApiKey.FETCH):
            fetches = kafka_broker.count(ApiKey.FETCH)
            threading.Event().wait(0.1)
        assert fetches < 12  # of a hundred
        assert sum(batch.num_rows for batch in batches) == 1990


def test_settings_can_be_pickled():
    import pickle

    made = ReadSettings({"bootstrap_servers": "x"}, columns=("key",))
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.column_names == ("key",)
    assert task_reading.AHEAD == 2
