"""The ends and tasks of micro-batches: with PySpark's classes, but without Java."""

import json
import pickle
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="needs pyspark >= 4.2")

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from aiokafka_lite.spark import stream as module
from aiokafka_lite.spark.data_loss import DataLossError, SourceStateError
from aiokafka_lite.spark.options import ReadOptions
from aiokafka_lite.spark.partition_offsets import Journal, OffsetRange, from_journal
from aiokafka_lite.spark.runtime import close_idle
from aiokafka_lite.spark.source_reader import KafkaPartition
from aiokafka_lite.spark.stream import StreamReader
from aiokafka_lite.testing import FakeCluster

ALL = ReadAllAvailable()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_WAIT", 0.02)
    monkeypatch.setattr(module, "IDLE_EVERY", 0.005)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Topic `t`: ten records in partition 0, five in 1."""
    with FakeCluster(1, {"t": 2}) as cluster:
        write(cluster, 10, 5)
        yield cluster
        close_idle()


def write(cluster: FakeCluster, *counts: int, topic: str = "t") -> None:
    for partition, count in enumerate(counts):
        for _ in range(count):
            cluster.produce(topic, b"v", partition=partition)


def reader(cluster: FakeCluster, **told: str) -> StreamReader:
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "fetchOffset.retryIntervalMs": "10",
        "startingOffsets": "earliest",
    }
    if "subscribePattern" not in told:
        given["subscribe"] = "t"
    return StreamReader(ReadOptions.parse({**given, **told}, streaming=True))


def of(*offsets: int, topic: str = "t") -> Journal:
    return {topic: {str(number): offset for number, offset in enumerate(offsets)}}


def ranges(source: StreamReader, start: Journal, end: Journal) -> list[OffsetRange]:
    planned = source.partitions(journaled(start), journaled(end))
    found = []
    for each in planned:
        assert isinstance(each, KafkaPartition)
        found += pickle.loads(pickle.dumps(each)).ranges
    return sorted(found)


def journaled(offsets: Journal) -> Journal:
    """An offset as Spark returns it."""
    told: Journal = json.loads(json.dumps(offsets))
    return told


# The beginning


def test_the_end_of_the_first_micro_batch_contains_the_start(
    cluster: FakeCluster,
) -> None:
    source = reader(cluster, startingOffsets="latest")
    begin = source.initialOffset()
    first = source.latestOffset(begin, ALL)
    assert first == {**of(10, 5), "": {"t-0": 10, "t-1": 5}}
    assert ranges(source, begin, first) == []
    write(cluster, 0, 3)
    assert source.latestOffset(journaled(first), ALL) == of(10, 8)
    assert ranges(source, first, of(10, 8)) == [OffsetRange("t", 1, 5, 8)]


@pytest.mark.parametrize("starting", ["earliest", "latest", '{"t":{"0":-2,"1":-1}}'])
def test_a_crash_within_the_first_micro_batch_changes_nothing(
    cluster: FakeCluster, starting: str
) -> None:
    told = {"startingOffsets": starting, "maxOffsetsPerTrigger": "6"}
    source = reader(cluster, **told)
    first = source.latestOffset(source.initialOffset(), ReadMaxRows(6))
    planned = ranges(source, source.initialOffset(), first)
    cluster.delete_records("t", 0, 7)
    write(cluster, 5, 5)
    again = reader(cluster, **told)
    assert ranges(again, again.initialOffset(), first) == planned
    assert from_journal(again.latestOffset(journaled(first), ALL)) != from_journal(first)


def test_equal_offsets_have_equal_json(cluster: FakeCluster) -> None:
    source = reader(cluster)
    first = journaled(source.latestOffset(source.initialOffset(), ALL))
    assert "" in first
    assert json.dumps(source.latestOffset(first, ALL)) == json.dumps(first)


def test_a_query_may_begin_with_no_partition_at_all(cluster: FakeCluster) -> None:
    source = reader(cluster, subscribePattern="^later", startingOffsets="latest")
    begin = source.latestOffset(source.initialOffset(), ALL)
    assert begin != source.initialOffset()  # otherwise Spark would not store it
    assert ranges(source, source.initialOffset(), begin) == []
    assert source.latestOffset(begin, ALL) == begin
    cluster.create_topic("later", 1)
    write(cluster, 2, topic="later")
    then = source.latestOffset(begin, ALL)
    assert then == of(2, topic="later")
    assert ranges(source, begin, then) == [OffsetRange("later", 0, 0, 2)]  # all, not its latest


def test_a_query_whose_topics_were_all_deleted_has_begun(cluster: FakeCluster) -> None:
    """A recreated topic counts as new: it is read from its earliest record, not its latest."""
    told = {"subscribePattern": "t", "startingOffsets": "latest", "failOnDataLoss": "false"}
    source = reader(cluster, **told)
    first = source.latestOffset(source.initialOffset(), ALL)
    cluster.delete_topic("t")
    gone = source.latestOffset(journaled(first), ALL)
    assert from_journal(gone) == {}
    assert gone != source.initialOffset()
    assert ranges(source, first, gone) == []
    cluster.create_topic("t", 1)
    write(cluster, 7)
    for again in (source, reader(cluster, **told)):  # the same run, and one after a restart
        then = again.latestOffset(journaled(gone), ALL)
        assert then == of(7)
        assert ranges(again, gone, then) == [OffsetRange("t", 0, 0, 7)]


def test_an_empty_end_in_a_checkpoint_is_no_beginning(cluster: FakeCluster) -> None:
    """Written by an earlier release, or by Spark's own connector."""
    source = reader(cluster, startingOffsets="latest")
    end = source.latestOffset({}, ALL)
    assert end == of(10, 5)
    assert ranges(source, {}, end) == [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 5)]


def test_a_planned_first_batch_keeps_its_start(
    cluster: FakeCluster,
) -> None:
    """After an end of `{}`, an earlier release started over; an exactly-once sink may have
    written its plan."""
    planned: Journal = {**of(10, 5), "": {"t-0": 8, "t-1": 5}}
    assert ranges(reader(cluster), {}, planned) == [OffsetRange("t", 0, 8, 10)]


def test_a_checkpoint_of_another_source_is_refused(cluster: FakeCluster) -> None:
    source = reader(cluster)
    with pytest.raises(SourceStateError, match="has no start offsets"):
        source.partitions(source.initialOffset(), of(10, 5))


# Ends of micro-batches


def test_a_micro_batch_takes_everything_or_up_to_its_limit(cluster: FakeCluster) -> None:
    assert reader(cluster).getDefaultReadLimit() == ReadAllAvailable()
    assert reader(cluster).latestOffset(of(0, 0), ALL) == of(10, 5)
    source = reader(cluster, maxOffsetsPerTrigger="6")
    assert source.getDefaultReadLimit() == ReadMaxRows(6)
    assert source.latestOffset(of(0, 0), ReadMaxRows(6)) == of(4, 2)
    assert source.latestOffset(of(4, 2), ReadMaxRows(6)) == of(8, 4)
    assert source.latestOffset(of(8, 4), ReadMaxRows(6)) == of(10, 5)
    assert source.latestOffset(of(0, 0), ALL) == of(10, 5)  # Trigger.Once
    assert source.reportLatestOffset() == of(10, 5)


def test_a_new_partition_gives_its_share_from_its_first_record(cluster: FakeCluster) -> None:
    cluster.delete_records("t", 1, 1)
    source = reader(cluster, maxOffsetsPerTrigger="7", failOnDataLoss="false")
    end = source.latestOffset(of(0), ReadMaxRows(7))
    assert end == of(5, 3)
    assert ranges(source, of(0), end) == [OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 1, 3)]
    with pytest.raises(DataLossError, match="ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"):
        reader(cluster).partitions(of(0), end)


def test_too_little_waits_for_more_or_for_the_delay(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    source = reader(cluster, minOffsetsPerTrigger="4", maxTriggerDelay="60s")
    limit = source.getDefaultReadLimit()
    assert limit == ReadMinRows(4)
    assert source.latestOffset(of(0, 0), limit) == of(10, 5)
    write(cluster, 3)
    assert source.latestOffset(of(10, 5), limit) == of(10, 5)
    now += 59
    assert source.latestOffset(of(10, 5), limit) == of(10, 5)
    now += 1
    assert source.latestOffset(of(10, 5), limit) == of(13, 5)
    write(cluster, 2, 2)
    assert source.latestOffset(of(13, 5), limit) == of(15, 7)


def test_waiting_for_more_limits_the_query_rate(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(module, "sleep", pauses.append)
    source = reader(cluster, minOffsetsPerTrigger="4")
    limit = source.getDefaultReadLimit()
    assert source.latestOffset(of(0, 0), limit) == of(10, 5)
    assert pauses == []
    write(cluster, 3)
    assert source.latestOffset(of(10, 5), limit) == of(10, 5)
    assert pauses == [module.IDLE_WAIT]


def test_at_least_and_at_most(cluster: FakeCluster) -> None:
    source = reader(cluster, minOffsetsPerTrigger="4", maxOffsetsPerTrigger="6")
    limit = source.getDefaultReadLimit()
    assert limit == ReadMaxRows(6)
    assert source.latestOffset(of(0, 0), limit) == of(4, 2)
    assert source.latestOffset(of(8, 4), limit) == of(8, 4)  # three are available


def test_an_idle_query_waits_for_records(cluster: FakeCluster) -> None:
    source = reader(cluster)
    assert source.latestOffset(of(10, 5), ALL) == of(10, 5)
    assert source.reportLatestOffset() == of(10, 5)


# AvailableNow


def test_available_now_reads_what_existed_at_its_start(cluster: FakeCluster) -> None:
    source = reader(cluster, maxOffsetsPerTrigger="9")
    assert isinstance(source, SupportsTriggerAvailableNow)
    source.prepareForTriggerAvailableNow()
    limit = source.getDefaultReadLimit()
    end = source.latestOffset(source.initialOffset(), limit)
    ends = [end]
    while (end := source.latestOffset(ends[-1], limit)) != ends[-1]:
        write(cluster, 7, 7)  # not for this run
        assert ranges(source, ends[-1], end)
        ends.append(end)
    assert ends == [{**of(6, 3), "": {"t-0": 0, "t-1": 0}}, of(10, 5)]


def test_available_now_reads_a_final_batch_below_the_minimum(cluster: FakeCluster) -> None:
    source = reader(cluster, minOffsetsPerTrigger="100")
    source.prepareForTriggerAvailableNow()
    assert source.latestOffset(of(9, 5), source.getDefaultReadLimit()) == of(10, 5)


def test_changes_during_available_now_are_errors(cluster: FakeCluster) -> None:
    source = reader(cluster)
    source.prepareForTriggerAvailableNow()
    assert source.latestOffset(of(0, 0), ALL) == of(10, 5)
    with pytest.raises(SourceStateError, match="MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET"):
        source.partitions(of(0, 0), of(10, 5, 1))
    with pytest.raises(SourceStateError, match="END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION"):
        source.partitions(of(0, 0), of(11, 5))
    cluster.truncate("t", 0, 8)
    with pytest.raises(
        SourceStateError, match=r"THAN_LATEST_WITH_TRIGGER_AVAILABLENOW.* 10 after 8"
    ):
        source.partitions(of(0, 0), of(10, 5))


# Tasks


def test_the_same_tasks_every_time(cluster: FakeCluster) -> None:
    told = {"minPartitions": "5"}
    first = reader(cluster, **told).partitions(of(0, 0), of(10, 5))
    write(cluster, 50, 50)
    assert reader(cluster, **told).partitions(of(0, 0), of(10, 5)) == first
    assert len(first) == 5


def test_the_reader_can_be_pickled(cluster: FakeCluster) -> None:
    source = pickle.loads(pickle.dumps(reader(cluster, maxTasks="1")))
    (task,) = source.partitions(of(3, 0), of(10, 5))
    assert task == KafkaPartition((OffsetRange("t", 0, 3, 10), OffsetRange("t", 1, 0, 5)))
    assert sum(batch.num_rows for batch in source.read(task)) == 12
    source.commit(of(10, 5))
    source.stop()
