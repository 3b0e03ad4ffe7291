"""The offsets that a query reads, from the embedded cluster, without Spark and Java."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from aiokafka_lite.errors import (
    KafkaConfigurationError,
    KafkaConnectionError,
    LeaderNotAvailableError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.spark import planner as module
from aiokafka_lite.spark.cluster_view import ClusterView
from aiokafka_lite.spark.data_loss import DataLossError, SourceStateError
from aiokafka_lite.spark.options import ReadOptions
from aiokafka_lite.spark.partition_offsets import OffsetRange
from aiokafka_lite.spark.planner import Planner, tasks
from aiokafka_lite.spark.runtime import call, close_idle
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import ApiKey, FakeCluster

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
SOON = {"fetchOffset.retryIntervalMs": "10"}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Topic `t`: ten records at 1,000 to 1,009 ms in partition 0, four in 1, none in 2."""
    with FakeCluster(2, {"t": 3, "other": 1}) as cluster:
        for offset in range(10):
            cluster.produce("t", b"v", partition=0, timestamp_ms=1000 + offset)
        for offset in range(4):
            cluster.produce("t", b"v", partition=1, timestamp_ms=1000 + offset)
        yield cluster
        close_idle()


def options(cluster: FakeCluster, streaming: bool, **told: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **SOON}
    if not {"assign", "subscribePattern"} & told.keys():
        given["subscribe"] = "t"
    return ReadOptions.parse({**given, **told}, streaming=streaming)


def batch(cluster: FakeCluster, **told: str) -> dict[tuple[str, int], tuple[int, int]]:
    ranges = call(Planner(options(cluster, False, **told)).batch_ranges())
    return {(each.topic, each.partition): (each.start, each.end) for each in ranges}


def stream(cluster: FakeCluster, **told: str) -> Planner:
    return Planner(options(cluster, True, **told))


# Batches


def test_a_batch_reads_everything_by_default(cluster: FakeCluster) -> None:
    cluster.delete_records("t", 0, 3)
    assert batch(cluster) == {T0: (3, 10), T1: (0, 4), T2: (0, 0)}


def test_only_some_partitions(cluster: FakeCluster) -> None:
    assert batch(cluster, assign='{"t":[1,9],"other":[0]}') == {("other", 0): (0, 0), T1: (0, 4)}
    assert set(batch(cluster, subscribePattern="th")) == {("other", 0)}
    assert batch(cluster, subscribePattern="none") == {}


def test_from_offsets_to_offsets(cluster: FakeCluster) -> None:
    assert batch(
        cluster,
        startingOffsets='{"t":{"0":4,"1":-2,"2":0}}',
        endingOffsets='{"t":{"0":6,"1":-1,"2":-1}}',
    ) == {T0: (4, 6), T1: (0, 4), T2: (0, 0)}
    assert batch(cluster, startingOffsets='{"t":"earliest"}')[T0] == (0, 10)


@pytest.mark.parametrize(
    "offsets", ['{"t":{"0":4,"1":1}}', '{"t":{"0":4,"1":1,"2":0,"3":0}}', '{"t":-2}', '{}',
                '{"t":"earliest","other":"earliest"}']
)  # fmt: skip
def test_offsets_have_to_be_of_all_partitions(cluster: FakeCluster, offsets: str) -> None:
    words = "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED|Expected e.g."
    with pytest.raises((SourceStateError, KafkaConfigurationError), match=words):
        batch(cluster, startingOffsets=offsets)


def test_from_a_time(cluster: FakeCluster) -> None:
    told = {"assign": '{"t":[0,1]}'}
    assert batch(cluster, startingTimestamp="1003", **told) == {T0: (3, 10), T1: (3, 4)}
    assert batch(cluster, endingTimestamp="1003", **told) == {T0: (0, 3), T1: (0, 3)}
    with pytest.raises(KafkaConfigurationError, match=r"No offset matched.* t-1 and timestamp 100"):
        batch(cluster, startingTimestamp="1004", **told)
    late = {"startingOffsetsByTimestampStrategy": "latest"}
    assert batch(cluster, startingTimestamp="1004", **told, **late) == {T0: (4, 10), T1: (4, 4)}


def test_times_have_to_be_of_all_partitions(cluster: FakeCluster) -> None:
    told = {"assign": '{"t":[0,1]}', "startingOffsetsByTimestamp": '{"t":{"0":1000,"1":1002}}'}
    assert batch(cluster, **told) == {T0: (0, 10), T1: (2, 4)}
    told["assign"] = '{"t":[0]}'
    with pytest.raises(SourceStateError, match="KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"):
        batch(cluster, **told)


def test_an_end_before_the_start_is_an_error(cluster: FakeCluster) -> None:
    with pytest.raises(SourceStateError, match="RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"):
        batch(cluster, startingOffsets='{"t":{"0":11,"1":0,"2":0}}')


def test_the_earliest_offset_is_resolved_by_the_task(cluster: FakeCluster) -> None:
    """As in Spark, which asks for it in the tasks."""

    def early(**told: str) -> list[bool]:
        planner = Planner(options(cluster, False, **told))
        return [each.from_earliest for each in call(planner.batch_ranges())]

    assert early() == [True, True, True]
    assert early(startingOffsets='{"t":{"0":0,"1":-2,"2":0}}') == [False, True, False]
    assert early(startingOffsets='{"t":"earliest"}') == [True, True, True]
    assert early(startingTimestamp="1000", startingOffsetsByTimestampStrategy="latest") == [
        False,
        False,
        False,
    ]
    cluster.delete_records("t", 0, 5)
    read = batch(cluster, endingOffsets='{"t":{"0":3,"1":-1,"2":-1}}')  # none of it remains
    assert {tp: end - start for tp, (start, end) in read.items() if end > start} == {T1: 4}


def test_read_committed_ends_at_the_last_stable_offset(cluster: FakeCluster) -> None:
    async def write() -> None:
        from aiokafka_lite import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id="open"
        )
        async with producer:
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"v", partition=1)
            seen.append(await asyncio.to_thread(batch, cluster))
            seen.append(await asyncio.to_thread(batch, cluster, **committed))
            await producer.abort_transaction()

    seen: list[Any] = []
    committed = {"kafka.isolation.level": "read_committed"}
    asyncio.run(write())
    assert [told[T1] for told in seen] == [(0, 5), (0, 4)]
    assert batch(cluster, **committed)[T1] == (0, 6)


# Failures


def test_a_topic_that_is_not_there(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="'none'"):
        batch(cluster, subscribe="none")
    assert "Error in attempt 2 of getting Kafka offsets" in caplog.text
    assert "attempt 3" not in caplog.text
    assert cluster.count(ApiKey.CREATE_TOPICS) == 0
    with pytest.raises(UnknownTopicOrPartitionError):
        batch(cluster, assign='{"none":[0]}')


def test_retriable_errors_are_retried(cluster: FakeCluster) -> None:
    cluster.control(
        ApiKey.METADATA, times=2, error=LeaderNotAvailableError, partitions=[("t", None)],
        when=lambda request: bool(request.topics),
    )  # fmt: skip
    assert batch(cluster)[T0] == (0, 10)


def test_fatal_errors_are_not_retried(cluster: FakeCluster) -> None:
    fault = cluster.control(
        ApiKey.METADATA, times=None, error=TopicAuthorizationFailedError,
        partitions=[("t", None)], when=lambda request: bool(request.topics),
    )  # fmt: skip
    with pytest.raises(TopicAuthorizationFailedError):
        batch(cluster)
    fault.remove()


def test_unreachable_brokers_are_an_error() -> None:
    nowhere = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t", **SOON}
    planner = Planner(ReadOptions.parse(nowhere, streaming=False))
    with pytest.raises(KafkaConnectionError):
        call(planner.batch_ranges())


def test_brokers_that_were_reachable_are_awaited(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def start(view: ClusterView) -> None:
        nonlocal tries
        tries += 1
        if tries < 7:
            raise KafkaConnectionError("nobody answers")
        await really_start(view)

    planner = stream(cluster)
    assert call(planner.latest({}))[T0] == 10
    close_idle()
    really_start = ClusterView.start
    monkeypatch.setattr(ClusterView, "start", start)
    assert call(planner.latest({}))[T0] == 10
    assert tries == 7  # and not the three of fetchOffset.numRetries
    close_idle()
    tries = 0
    monkeypatch.setattr(module, "BACK_WITHIN", 0)
    with pytest.raises(KafkaConnectionError, match="nobody answers"):
        call(planner.latest({}))
    assert tries == 3


# Streams


def test_initial_offsets_of_a_query(cluster: FakeCluster) -> None:
    assert call(stream(cluster).initial()) == {T0: 10, T1: 4, T2: 0}
    offsets = '{"t":{"0":99,"1":-1,"2":-2}}'  # beyond the end: accepted, as in Spark
    assert call(stream(cluster, startingOffsets=offsets).initial()) == {T0: 99, T1: 4, T2: 0}


def test_the_latest_offsets_know_new_partitions(cluster: FakeCluster) -> None:
    planner = stream(cluster)
    cluster.add_partitions("t", 4)
    latest = call(planner.latest({T0: 7}))
    assert latest == {T0: 10, T1: 4, T2: 0, TopicPartition("t", 3): 0}


def test_an_end_that_moved_back_is_checked_again(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    lists = cluster.count(ApiKey.LIST_OFFSETS)
    assert call(stream(cluster).latest({T0: 11}))[T0] == 10
    assert "Partitions are missing or end before the query's offsets" in caplog.text
    brokers = 2
    assert cluster.count(ApiKey.LIST_OFFSETS) - lists <= 3 * brokers


@pytest.mark.parametrize("told", [{"subscribePattern": "^(t|other)$"}, {"subscribe": "t,other"}])
def test_a_missing_partition_is_checked_again(cluster: FakeCluster, told: dict[str, str]) -> None:
    """Otherwise the query would continue without it, and later read it from its start again."""

    def behind(response: Any) -> None:
        topics = {topic.name: topic for topic in response.topics}
        del topics["t"].partitions[2:]
        if "subscribePattern" in told:
            response.topics = [topics["t"]]

    planner = stream(cluster, **told)
    everything = call(planner.latest({}))
    assert len(everything) == 4
    cluster.control(ApiKey.METADATA, times=1, after_handling=True, edit=behind)
    assert call(planner.latest(everything)) == everything
    cluster.delete_topic("other")
    if "subscribePattern" in told:
        assert set(call(planner.latest(everything))) == {T0, T1, T2}


def test_more_is_waited_for(cluster: FakeCluster) -> None:
    planner = stream(cluster)
    now = call(planner.latest({}))

    async def wait(seconds: float, then: Any) -> bool:
        waiting = asyncio.create_task(planner.wait_for_more(now, seconds, 0.01))
        await asyncio.to_thread(then)
        return await waiting

    assert call(wait(0.05, lambda: None)) is False
    assert call(wait(20, lambda: cluster.produce("t", b"v", partition=2))) is True
    assert call(planner.wait_for_more({}, 0.01, 0.01)) is False


def test_a_topic_that_is_deleted_is_not_waited_for(cluster: FakeCluster) -> None:
    """Reading of the pattern's other topics continues."""
    planner = stream(cluster, subscribePattern="^(t|other)$")
    now = call(planner.latest({}))
    cluster.delete_topic("other")
    call(planner.wait_for_more(now, 0.5, 0.01), timeout=10)
    assert call(planner.latest({})).keys() == {T0, T1, T2}
    cluster.control(ApiKey.LIST_OFFSETS, times=None, node=0, error=TopicAuthorizationFailedError)
    assert call(planner.wait_for_more({T0: 10}, 20, 0.01), timeout=10) is True


def test_ranges_of_a_micro_batch(cluster: FakeCluster) -> None:
    planner = stream(cluster)
    assert call(planner.ranges({T0: 2, T1: 4, T2: 0}, {T0: 9, T1: 4, T2: 0})) == [
        OffsetRange("t", 0, 2, 9)
    ]
    assert call(planner.ranges({T0: 2}, {T0: 3, T1: 1})) == [
        OffsetRange("t", 0, 2, 3),
        OffsetRange("t", 1, 0, 1),
    ]


LOST: list[tuple[str, dict[TopicPartition, int], dict[TopicPartition, int], list[OffsetRange]]] = [
    ("INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", {}, {TopicPartition("t", 9): 5}, []),
    (
        "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
        {},
        {T0: 9},
        [OffsetRange("t", 0, 3, 9)],
    ),
    ("PARTITIONS_DELETED", {T0: 5, TopicPartition("gone", 0): 3}, {T0: 5}, []),
    ("PARTITION_OFFSET_CHANGED", {T0: 9}, {T0: 8}, []),
]


@pytest.mark.parametrize(("condition", "starts", "ends", "left"), LOST)
def test_lost_records_follow_fail_on_data_loss(
    cluster: FakeCluster,
    caplog: pytest.LogCaptureFixture,
    condition: str,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    left: list[OffsetRange],
) -> None:
    cluster.delete_records("t", 0, 3)
    with pytest.raises(DataLossError, match=rf"KAFKA_DATA_LOSS.{condition}\].*failOnDataLoss"):
        call(stream(cluster).ranges(starts, ends))
    with caplog.at_level(logging.WARNING, logger="aiokafka_lite.spark"):
        assert call(stream(cluster, failOnDataLoss="false").ranges(starts, ends)) == left
    assert f"KAFKA_DATA_LOSS.{condition}" in caplog.text


def test_tasks_follow_the_options(cluster: FakeCluster) -> None:
    ranges = [OffsetRange("t", number, 0, 60_000) for number in range(3)]
    assert len(tasks(ranges, options(cluster, True))) == 3
    assert len(tasks(ranges, options(cluster, True, maxTasks="2"))) == 2
    assert len(tasks(ranges, options(cluster, True, minPartitions="9"))) == 9
    assert len(tasks(ranges, options(cluster, True, maxRecordsPerPartition="20000"))) == 9
    small = [OffsetRange("t", number, 0, 30) for number in range(3)]
    assert len(tasks(small, options(cluster, True))) == 1
    assert len(tasks(small, options(cluster, True, minPartitions="3"))) == 3
