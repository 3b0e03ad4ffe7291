"""Pipelines run to their end: the bundled ones against Kafka, and how a stream is ended."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.spark.pipeline import (
    Pipeline,
    PythonFunction,
    Sink,
    Source,
    load,
    run,
    start,
    stopping,
)
from aiokafka_lite.spark.pipeline.stopping import end_after_batch
from aiokafka_lite.spark.progress import Progress
from tools.kafka import RealKafka

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE = 60.0  # seconds
Headers = tuple[tuple[str, bytes | None], ...]
Record = tuple[bytes | None, bytes | None, Headers]


def written(kafka: RealKafka, topic: str, partitions: Sequence[Sequence[Record]]) -> None:
    async def write() -> None:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for partition, records in enumerate(partitions):
                for key, value, headers in records:
                    await producer.send(topic, value, key, partition, headers=list(headers))
            await producer.flush()

    asyncio.run(asyncio.wait_for(write(), PATIENCE))


def read_back(kafka: RealKafka, topic: str, partitions: int) -> list[list[Record]]:
    async def read() -> list[list[Record]]:
        found = defaultdict(list)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        async with (
            consumer,
            AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as other,
        ):
            all_of_it = [TopicPartition(topic, number) for number in range(partitions)]
            consumer.assign(all_of_it)
            # The log ends: the last stable offsets may be those before the last markers.
            ends = await other.end_offsets(all_of_it)
            while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                for tp, records in (await consumer.getmany(timeout_ms=200)).items():
                    found[tp.partition] += [(r.key, r.value, tuple(r.headers)) for r in records]
        return [found[number] for number in range(partitions)]

    return asyncio.run(asyncio.wait_for(read(), PATIENCE))


@pytest.mark.long
def test_archived_records_are_replayed_unchanged(
    spark: SparkSession, kafka: RealKafka, topic: Callable[..., str], tmp_path: Path
):
    source, target = topic(3), topic(3)
    records: list[list[Record]] = [
        [
            (
                None if number % 5 == 0 else b"key-%d" % (number % 7),
                None if number % 11 == 3 else b"%d/%d" % (partition, number),
                () if number % 2 else (("h", b"%d" % number), ("empty", None)),
            )
            for number in range(200 * partition + 50)
        ]
        for partition in range(3)
    ]
    written(kafka, source, records)
    common = {"bootstrap": kafka.bootstrap_servers, "path": str(tmp_path / "archive")}
    archive = load(
        "archive", {**common, "from": source, "checkpoint": str(tmp_path / "checkpoint")}
    )
    assert run(archive, spark=spark, once=True).rows == 750
    again = run(archive, spark=spark, once=True)
    assert (again.rows, again.batches, again.ended) == (0, 0, "all read")
    replay = load("replay", {**common, "from": source, "to": target})
    summary = run(replay, spark=spark)
    assert (summary.rows, summary.ended) == (750, "all written")
    assert read_back(kafka, target, 3) == records


def test_transform_goes_from_topic_to_topic(
    spark: SparkSession, kafka: RealKafka, topic: Callable[..., str], tmp_path: Path
):
    source, target = topic(2), topic(1)
    orders = [
        {"order_id": f"o-{n}", "item": "tea", "price": 0.5 * n, "quantity": n % 3}
        for n in range(30)
    ]
    records: list[Record] = [(None, json.dumps(order).encode(), ()) for order in orders]
    written(kafka, source, [[*records[:10], (None, b"{broken", ())], records[10:]])
    pipeline = load(
        "transform",
        {
            "bootstrap": kafka.bootstrap_servers,
            "from": source,
            "to": target,
            "checkpoint": str(tmp_path / "checkpoint"),
        },
    )
    assert run(pipeline, spark=spark, once=True).rows == 31
    (found,) = read_back(kafka, target, 1)
    totals = {key: json.loads(value or b"null")["total"] for key, value, _ in found}
    assert totals == {
        str(order["order_id"]).encode(): float(order["price"]) * int(order["quantity"])
        for order in orders
        if order["quantity"]
    }
    assert len(found) == len(totals)


def test_progress_contains_the_lag_of_the_stream(
    spark: SparkSession, kafka: RealKafka, topic: Callable[..., str], tmp_path: Path
):
    name = topic(1)
    written(kafka, name, [[(None, b"%d" % number, ()) for number in range(25)]])
    source = Source(
        "kafka_lite",
        {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "subscribe": name,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "10",
        },
    )
    pipeline = Pipeline("behind", source, Sink("noop", checkpoint=str(tmp_path / "checkpoint")))
    told: list[Progress] = []
    summary = run(pipeline, spark=spark, once=True, report=told.append)
    assert (summary.rows, summary.batches) == (25, 3)
    lags = [(batch.rows, batch.lag.total if batch.lag else None) for batch in told if batch.rows]
    assert lags == [(10, 15), (10, 5), (5, 0)]
    assert "final lag 0" in str(summary)


ENDLESS = Source("rate-micro-batch", {"rowsPerBatch": "1000", "numPartitions": "2"})
"""A source that always has more records: batches follow each other without a pause."""


def batches(checkpoint: Path, log: str) -> list[str]:
    return sorted(path.name for path in (checkpoint / log).iterdir() if path.name.isdecimal())


def test_a_stopped_stream_ends_after_its_batch(spark: SparkSession, tmp_path: Path):
    checkpoint = tmp_path / "checkpoint"
    pipeline = Pipeline("endless", ENDLESS, Sink("noop", checkpoint=str(checkpoint)))
    stop = threading.Event()

    def report(progress: Progress) -> None:
        if progress.batch_id >= 2:
            stop.set()

    summary = run(pipeline, spark=spark, stop=stop, report=report)
    assert summary.ended == "stopped"
    assert summary.batches >= 3
    # Every batch that had begun was committed: none will run twice.
    assert batches(checkpoint, "offsets") == batches(checkpoint, "commits")
    assert not spark.streams.active
    # The next run continues after it.
    stop.clear()
    first: list[Progress] = []

    def stop_at_once(progress: Progress) -> None:
        first.append(progress)
        stop.set()

    run(pipeline, spark=spark, stop=stop, report=stop_at_once)
    assert summary.last is not None
    assert first[0].batch_id == summary.last.batch_id + 1


class OverConnect:
    """A query without its JVM object, as Spark Connect's are."""

    def __init__(self, query: object) -> None:
        self._query = query

    def __getattr__(self, name: str) -> object:
        if name == "_jsq":
            raise AttributeError(name)
        return getattr(self._query, name)


def test_without_the_jvm_it_is_ended_between_two_batches(spark: SparkSession, tmp_path: Path):
    checkpoint = tmp_path / "checkpoint"
    slow = Sink("noop", checkpoint=str(checkpoint), trigger="60 seconds")
    query = start(Pipeline("slow", ENDLESS, slow), spark)
    try:
        wait_for_batch(query)
        end_after_batch(OverConnect(query))  # type: ignore[arg-type]
        assert not query.isActive
        assert batches(checkpoint, "offsets") == batches(checkpoint, "commits")
    finally:
        query.stop()


def wait_for_batch(query: StreamingQuery, number: int = 0) -> None:
    deadline = time.monotonic() + 2 * PATIENCE
    while (progress := query.lastProgress) is None or progress["batchId"] < number:
        assert time.monotonic() < deadline
        query.awaitTermination(1)


FAST = Source("rate-micro-batch", {"rowsPerBatch": "1", "numPartitions": "1"})


def test_no_batch_of_a_fast_stream_is_interrupted(spark: SparkSession, tmp_path: Path):
    for attempt in range(4):
        checkpoint = tmp_path / str(attempt)
        query = start(Pipeline("fast", FAST, Sink("noop", checkpoint=str(checkpoint))), spark)
        try:
            wait_for_batch(query, 1)
            end_after_batch(query)
            assert not query.isActive
        finally:
            query.stop()
        assert batches(checkpoint, "offsets") == batches(checkpoint, "commits")


def test_a_look_at_a_stream_costs_the_same_after_many_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from py4j.clientserver import ClientServerConnection

    me, costs, calls = threading.get_ident(), list[int](), 0
    send, look = ClientServerConnection.send_command, stopping._Loop.end_if_it_writes

    def counted(connection: ClientServerConnection, *args: object) -> object:
        nonlocal calls
        calls += threading.get_ident() == me
        return send(connection, *args)

    def measured(loop: stopping._Loop) -> bool:
        before = calls
        asked = look(loop)
        if asked:
            costs.append(calls - before)
        return asked

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    monkeypatch.setattr(stopping._Loop, "end_if_it_writes", measured)
    for after in (1, 25):
        checkpoint = tmp_path / str(after)
        query = start(Pipeline("fast", FAST, Sink("noop", checkpoint=str(checkpoint))), spark)
        try:
            wait_for_batch(query, after)
            end_after_batch(query)
        finally:
            query.stop()
    early, late = costs
    assert 0 < early == late


@pytest.mark.parametrize("changed", ["the stack trace", "the methods"])
def test_a_changed_spark_ends_a_stream_between_two_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
):
    from py4j.protocol import Py4JError

    def gone(loop: stopping._Loop) -> str:
        raise Py4JError("Method getStackTrace does not exist")

    if changed == "the methods":
        monkeypatch.setattr(stopping._Loop, "_stack", gone)
    else:
        monkeypatch.setattr(stopping, "WRITES", ".noSuchMethod(")
        monkeypatch.setattr(stopping, "MISSED", 2)
    query = start(Pipeline("changed", FAST, Sink("noop", checkpoint=str(tmp_path))), spark)
    try:
        wait_for_batch(query)
        end_after_batch(query)
        assert not query.isActive
    finally:
        query.stop()


def test_one_in_a_hurry_does_not_wait(spark: SparkSession, tmp_path: Path):
    query = start(Pipeline("hurried", ENDLESS, Sink("noop", checkpoint=str(tmp_path))), spark)
    hurry = threading.Event()
    hurry.set()
    end_after_batch(query, hurry)
    assert not query.isActive


def slow(records: DataFrame, begun: str) -> DataFrame:
    """A step that takes an hour."""

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        Path(begun).touch()
        threading.Event().wait(3600)
        yield from batches

    return records.mapInArrow(step, records.schema)


def test_a_bounded_one_in_a_hurry_does_not_wait_either(spark: SparkSession, tmp_path: Path):
    source, begun = tmp_path / "source", tmp_path / "begun"
    spark.range(1).write.parquet(str(source))
    pipeline = Pipeline(
        "slow",
        Source("parquet", {"path": str(source)}, bounded=True),
        Sink("noop"),
        (PythonFunction(f"{__name__}:slow", {"begun": str(begun)}),),
    )
    hurry = threading.Event()

    def hurry_once_it_writes() -> None:
        deadline = time.monotonic() + PATIENCE
        while not begun.exists() and time.monotonic() < deadline:
            threading.Event().wait(0.05)
        hurry.set()

    threading.Thread(target=hurry_once_it_writes, daemon=True).start()
    with pytest.raises(Exception, match="cancelled"):
        run(pipeline, spark=spark, hurry=hurry)
    assert begun.exists()
    assert not spark.sparkContext.getJobTags()
    assert run(replace(pipeline, steps=()), spark=spark, hurry=threading.Event()).rows == 1


def test_a_failure_is_raised_and_leaves_no_query_behind(spark: SparkSession, tmp_path: Path):
    from pyspark.errors import StreamingQueryException

    from aiokafka_lite.spark.pipeline import Sql

    pipeline = Pipeline(
        "failing",
        ENDLESS,
        Sink("noop", checkpoint=str(tmp_path / "checkpoint")),
        (Sql("SELECT raise_error('no more') FROM records"),),
    )
    with pytest.raises(StreamingQueryException, match="no more"):
        run(pipeline, spark=spark)
    assert not spark.streams.active


@pytest.mark.long
def test_a_listener_may_be_used_by_itself_and_for_one_query(spark: SparkSession, tmp_path: Path):
    from aiokafka_lite.spark.progress_listener import ProgressListener

    every, one = list[Progress](), list[Progress]()
    broken = ProgressListener(lambda progress: every.append(progress) or 1 / 0)  # type: ignore[func-returns-value]
    listeners = [broken, ProgressListener(one.append, query="mine")]
    for listener in listeners:
        spark.streams.addListener(listener)
    try:
        for name in ("mine", "other"):
            stop = threading.Event()
            sink = Sink("noop", checkpoint=str(tmp_path / name))
            run(
                Pipeline(name, ENDLESS, sink),
                spark=spark,
                stop=stop,
                report=lambda _, e=stop: e.set(),
            )
    finally:
        for listener in listeners:
            spark.streams.removeListener(listener)
    assert {progress.query for progress in every} >= {"mine", "other"}
    assert {progress.query for progress in one} == {"mine"}
