"""`auto_offset_reset`: valid values, and starting from a time (KIP-1106)."""

import time

import pytest

from aiokafka_lite.consumer.partitions.reset_policy import (
    OffsetReset,
    ResetByDuration,
    reset_policy,
)
from aiokafka_lite.errors import KafkaConfigurationError, UnsupportedVersionError
from aiokafka_lite.protocol.messages.list_offsets import ListOffsetsResponse
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, numbered

P0, P1 = (TopicPartition("orders", i) for i in range(2))
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


@pytest.mark.parametrize("policy", list(OffsetReset))
def test_names(policy: OffsetReset) -> None:
    assert reset_policy(policy.value) is policy


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", HOUR),
        ("P1D", DAY),
        ("P2DT3H4M5S", 2 * DAY + 3 * HOUR + 4 * MINUTE + 5000),
        ("PT20.345S", 20_345),
        ("PT20,5S", 20_500),
        ("PT0.0009S", 0),
        ("PT5.S", 5000),
        ("pt15m", 15 * MINUTE),
        ("PT0S", 0),
        ("+PT1M", MINUTE),
        ("P1DT-6H", DAY - 6 * HOUR),
        ("-PT-6H", 6 * HOUR),
        ("PT1M-0.5S", MINUTE - 500),
        ("P999999999999999D", 2**63 - 1),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, milliseconds: int) -> None:
    assert reset_policy(f"by_duration:{text}") == ResetByDuration(milliseconds)


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1H", "PT1", "PT1H ", "P1Y", "P1W", "PT.5S", "PT1.5H", "PT１S"]
)
def test_no_durations(text: str) -> None:
    with pytest.raises(KafkaConfigurationError, match="ISO-8601 duration such as 'P1D'"):
        reset_policy(f"by_duration:{text}")


@pytest.mark.parametrize("text", ["-PT1H", "PT-1S", "P1DT-25H", "PT-0.5S"])
def test_nothing_starts_in_the_future(text: str) -> None:
    with pytest.raises(KafkaConfigurationError, match="is negative"):
        reset_policy(f"by_duration:{text}")


@pytest.mark.parametrize("text", ["newest", "EARLIEST", "by_time:PT1H", "", None, 3])
def test_no_policies(text: object) -> None:
    with pytest.raises(ValueError, match="'earliest', 'latest' or 'none', or a duration such as"):
        reset_policy(text)


def test_by_duration_without_a_duration_is_refused() -> None:
    with pytest.raises(KafkaConfigurationError, match="needs an ISO-8601 duration"):
        reset_policy("by_duration")


async def test_it_starts_with_the_first_record_that_is_young_enough(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    now = int(time.time() * 1000)
    for age in (3 * DAY, 2 * HOUR, 30 * MINUTE):
        append(cluster, numbered(2), timestamp=now - age)
    append(cluster, numbered(4), partition=1, timestamp=now - 2 * HOUR)
    async with make(auto_offset_reset="by_duration:PT1H") as consumer:
        consumer.assign([P0, P1])
        assert await consumer.position(P0) == 4
        assert await consumer.position(P1) == 4  # none is that recent: from the next one on
        consumer.seek(P0, 99)
        assert (await consumer.getone()).offset == 4
        await consumer.seek_to_beginning(P0)
        assert await consumer.position(P0) == 0


async def test_records_written_during_the_lookups_are_not_skipped(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    """After a search without a result, and before the end of the partition is known."""
    append(cluster, numbered(3), timestamp=int(time.time() * 1000) - 2 * HOUR)
    asked = 0

    def edit(response: ListOffsetsResponse) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            append(cluster, numbered(2, 3), timestamp=int(time.time() * 1000))

    cluster.control(ApiKey.LIST_OFFSETS, times=None, edit=edit)
    async with make(auto_offset_reset="by_duration:PT1H") as consumer:
        consumer.assign([P0])
        assert await consumer.position(P0) == 3
        assert (await consumer.getone()).value == b"v3"


async def test_longer_than_time_is(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(2))
    async with make(auto_offset_reset="by_duration:P999999999D") as consumer:
        consumer.assign([P0])
        assert await consumer.position(P0) == 0


async def test_a_broker_that_cannot_search_by_time(make: MakeConsumer) -> None:
    async with FakeCluster(
        topics={"orders": 1}, api_versions={ApiKey.LIST_OFFSETS: (0, 0)}
    ) as cluster:
        append(cluster, numbered(2))
        async with make(
            auto_offset_reset="by_duration:PT1H", bootstrap_servers=cluster.bootstrap_servers
        ) as consumer:
            consumer.assign([P0])
            with pytest.raises(UnsupportedVersionError):
                await consumer.getone()
