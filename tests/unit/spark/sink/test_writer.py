"""A task of the sink, on the embedded cluster: with pyspark's classes, but without Java."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any
from zlib import crc32

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="needs pyspark >= 4.2")
pytest.importorskip("pyarrow", reason="the spark extra is not installed")

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite._build import NATIVE
from aiokafka_lite.spark import notices, runtime
from aiokafka_lite.spark.sink import writer
from aiokafka_lite.spark.sink.exactly_once import Place, ReplayError
from aiokafka_lite.spark.write_options import WriteOptions
from aiokafka_lite.testing import FakeCluster

QUERY = "0b5d2c1e-6f0c-4a44-9a53-1f4b9c1d7a11"
RUN = "7c1f4d2a-3b9e-4d8e-8f61-52d0a9c3e402"  # names of tests must be the same in each process
STREAMING = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": "7"}


class Task:
    """The part of Spark's task context that the sink uses."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def getLocalProperty(self, name: str) -> str | None:
        return self._properties.get(name)

    def partitionId(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("group", "run"),
    [
        ({"spark.jobGroup.id": RUN}, RUN),
        ({}, ""),
        # `foreachBatch` may set one, the same in each run, so other runs' writes are unknown.
        ({"spark.jobGroup.id": "nightly"}, ""),
    ],
)
def test_a_task_knows_its_epoch_and_run(
    monkeypatch: pytest.MonkeyPatch, group: dict[str, str], run: str
) -> None:
    monkeypatch.setattr(writer, "_task", lambda: Task({**STREAMING, **group}))
    assert writer._streaming_place("till") == Place("till", QUERY, 7, 3, run)


def test_a_task_of_no_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_task", lambda: Task({"spark.jobGroup.id": RUN}))
    assert writer._streaming_place("till") is None


# Exactly once, under a name


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1, {"orders": 1, "bills": 1}) as cluster:
        yield cluster
        runtime.close_idle()


BY_COLUMN = StructType([StructField("value", BinaryType()), StructField("topic", StringType())])
BY_OPTION = StructType([StructField("value", BinaryType())])


def written(
    monkeypatch: pytest.MonkeyPatch,
    cluster: FakeCluster,
    *values: bytes,
    topic: str | None = "orders",
    topics: list[str] | None = None,
    within: Mapping[str, str] | None = None,
    **options: str,
) -> writer.TaskWritten:
    """Return the message of a single task of a named batch write, which has all rows."""
    monkeypatch.setattr(writer, "_task", lambda: Task(within or {}))
    told = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "deliveryGuarantee": "exactly_once",
        "writeId": "nightly",
        **options,
    }
    if topic is not None:
        told["topic"] = topic
    schema = BY_OPTION if topics is None else BY_COLUMN
    columns = [pa.array(values, pa.binary())]
    if topics is not None:
        columns.append(pa.array(topics, pa.string()))
    batch = pa.record_batch(columns, names=[field.name for field in schema.fields])
    message = writer.writer(told, schema).write(iter([batch]))
    assert isinstance(message, writer._Message)
    return message.written


def stored(cluster: FakeCluster, topic: str) -> list[Any]:
    async def read() -> list[Any]:
        tp, found = TopicPartition(topic, 0), []
        async with AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.assign([tp])
            end = (await consumer.end_offsets([tp]))[tp]
            while await consumer.position(tp) < end:
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    found += [record.value for record in records]
        return found

    return asyncio.run(asyncio.wait_for(read(), 20))


@pytest.mark.parametrize("within", [{}, STREAMING], ids=["batch", "foreachBatch"])
def test_one_write_id_for_two_topics_writes_both(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, within: dict[str, str]
) -> None:
    for topic in ("orders", "bills"):
        for skipped in (False, True):
            done = written(monkeypatch, cluster, b"a", b"b", topic=topic, within=within)
            assert (done.rows, done.skipped, done.topic) == (2, skipped, topic)
    assert stored(cluster, "orders") == stored(cluster, "bills") == [b"a", b"b"]


def test_two_writes_by_column_under_one_write_id_are_refused(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> None:
    """The same values to other topics: not the same write."""
    written(monkeypatch, cluster, b"a", b"b", topic=None, topics=["orders", "orders"])
    with pytest.raises(ReplayError, match="use another writeId for each write"):
        written(monkeypatch, cluster, b"a", b"b", topic=None, topics=["orders", "bills"])
    assert (stored(cluster, "orders"), stored(cluster, "bills")) == ([b"a", b"b"], [])


def test_a_write_by_column_may_begin_with_another_topic_when_it_is_repeated(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> None:
    """Spark does not guarantee the order of rows after a shuffle."""
    written(monkeypatch, cluster, b"a", b"b", topic=None, topics=["orders", "bills"])
    again = written(monkeypatch, cluster, b"b", b"a", topic=None, topics=["bills", "orders"])
    assert again.skipped
    assert (stored(cluster, "orders"), stored(cluster, "bills")) == ([b"a"], [b"b"])


def test_prefix_and_write_id_of_two_writes_do_not_mix(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> None:
    for prefix, write_id in (("p", "a-1"), ("p-a", "1")):
        done = written(monkeypatch, cluster, b"v", transactionalIdPrefix=prefix, writeId=write_id)
        assert not done.skipped
    assert stored(cluster, "orders") == [b"v", b"v"]


def streamed(
    cluster: FakeCluster, epoch: int, *values: bytes, topic: str = "orders", run: str = RUN
) -> writer.TaskWritten:
    """Return the message of a task of a stream's own sink."""
    told = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topic": topic,
        "deliveryGuarantee": "exactly_once",
    }
    options = WriteOptions.parse(told, BY_OPTION, streaming=True)
    batch = pa.record_batch([pa.array(values, pa.binary())], names=["value"])
    place = Place(options.prefix, QUERY, epoch, 0, run)
    return writer._write_exactly_once(options, place, iter([batch]))


def test_an_epoch_that_is_replayed_to_another_topic_is_refused(cluster: FakeCluster) -> None:
    streamed(cluster, 0, b"a")
    with pytest.raises(ReplayError, match=r"to topic 'orders', .* to topic 'bills'"):
        streamed(cluster, 0, b"a", topic="bills")
    streamed(cluster, 1, b"b", topic="bills")  # a separate epoch may go there
    assert (stored(cluster, "orders"), stored(cluster, "bills")) == ([b"a"], [b"b"])


@pytest.mark.parametrize("topic", ["orders", "bills"])
def test_an_epoch_that_a_release_before_wrote_is_not_written_again(
    cluster: FakeCluster, topic: str
) -> None:
    """Its mark has a digest of keys and values alone."""
    group = f"aiokafka-lite-spark-{QUERY}-0"
    digest = crc32(b"a") + crc32(b"b")
    text = f'{{"v":1,"epoch":4,"rows":2,"digest":"{digest:016x}","run":"before"}}'

    async def mark() -> None:
        async with (
            AIOKafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers, transactional_id=group
            ) as producer,
            producer.transaction(),
        ):
            marks = {TopicPartition("orders", 0): (5, text)}
            await producer.send_offsets_to_transaction(marks, group)

    asyncio.run(mark())
    if topic == "bills":
        with pytest.raises(ReplayError, match="to topic 'orders', but"):
            streamed(cluster, 4, b"a", b"b", topic=topic)
    else:
        assert streamed(cluster, 4, b"a", b"b").skipped
        with pytest.raises(ReplayError, match="differ from them"):
            streamed(cluster, 4, b"a", b"c")
    assert stored(cluster, topic) == []


def test_a_copied_checkpoint_that_runs_beside_its_original(cluster: FakeCluster) -> None:
    """Both are the same query to the sink: an epoch is written by the first of them, and the other
    skips it or fails."""
    copy = "c0ffee00-0000-4000-8000-000000000000"
    streamed(cluster, 0, b"a")
    assert streamed(cluster, 0, b"a", run=copy).skipped
    streamed(cluster, 1, b"b", run=copy)
    with pytest.raises(ReplayError, match="differ from them"):
        streamed(cluster, 1, b"b", b"c")
    streamed(cluster, 2, b"d", run=copy)
    with pytest.raises(ReplayError, match="the checkpoint was reset"):
        streamed(cluster, 1, b"b", b"c")
    assert stored(cluster, "orders") == [b"a", b"b", b"d"]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_the_driver_warns_of_tasks_that_ran_the_pure_python_modules(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    cluster: FakeCluster,
    guarantee: str,
) -> None:
    monkeypatch.setattr(notices, "_said", {})
    told = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "topic": "orders",
        "deliveryGuarantee": guarantee,
    }
    sink = writer.writer(told, BY_OPTION)
    messages: list[Any] = [
        writer._Message(writer.TaskWritten(None, 0, native=native)) for native in (True, False)
    ]
    sink.commit(messages)
    assert "1 of 2 tasks that wrote to Kafka ran the pure-Python modules" in caplog.text


def test_a_task_says_which_build_it_ran(
    monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster
) -> None:
    assert written(monkeypatch, cluster, b"a").native == NATIVE


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "writes them again"),
        ({"deliveryGuarantee": "exactly_once", "writeId": "nightly"}, "skips them"),
        # Each attempt of the application has its own id.
        ({"deliveryGuarantee": "exactly_once"}, "writes them again"),
    ],
)
def test_a_failed_write_tells_what_another_one_does(
    caplog: pytest.LogCaptureFixture, cluster: FakeCluster, options: dict[str, str], what: str
) -> None:
    told = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": "orders", **options}
    writer.writer(told, BY_OPTION).abort([writer._Message(writer.TaskWritten(None, 5))])
    assert f"5 rows of 1 tasks are in Kafka, and a retry {what}" in caplog.text
