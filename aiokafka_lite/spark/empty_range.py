"""Checks whether the rest of a range contains no records although its offsets exist.

A log may end in offsets whose records were removed by compaction or that are only transaction
markers. A consumer then waits forever, and cannot distinguish this from a slow broker. So this
module fetches the partition alone from its leader: the response cannot be empty because another
partition filled it, only because there are no records, because of a quota, or because tiered
storage did not deliver them in time.

Source: KIP-405 and KIP-1018: `DelayedRemoteFetch` responds without records and without an error
after `remote.fetch.max.wait.ms`, whatever the client's `max_wait_ms`.
"""

from __future__ import annotations

from typing import Final

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.retry import LeaderOf, call
from aiokafka_lite.consumer.consumer_options import IsolationLevel
from aiokafka_lite.errors import OffsetOutOfRangeError, UnsupportedVersionError, for_code
from aiokafka_lite.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from aiokafka_lite.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["holds_nothing"]

_BY_NAME_UNTIL: Final = 12
"""Last version that identifies topics by name."""

_STABLE_FROM: Final = 4
_MAX_WAIT_MS: Final = 1000

_MAX_BYTES: Final = 64 * 1024
"""A larger batch is returned anyway (KIP-74), and its existence is all that matters."""

_EARLIEST_LOCAL: Final = -4
_LOCAL_FROM: Final = 8
"""First version of ListOffsets with that offset; brokers without it have no tiered storage."""

_CONSUMER: Final = -1


async def holds_nothing(
    cluster: Cluster, tp: TopicPartition, offset: int, isolation: IsolationLevel, deadline: float
) -> int:
    """Return the offset up to which a partition contains no readable record.

    Args:
        offset: The offset to start at.
        isolation: The isolation level, which may limit reading to the last stable offset.
        deadline: In event loop time.

    Returns:
        The end of the readable offsets if they contain no record; `offset` if they do or may.

    Raises:
        KafkaTimeoutError: No leader responded in time.
        KafkaError: The leader returned an error that is not retriable.
    """
    answers: list[PartitionData] = []

    def build(version: int) -> FetchRequest:
        asked = FetchPartition(
            partition=tp.partition, fetch_offset=offset, partition_max_bytes=_MAX_BYTES
        )
        return FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            isolation_level=isolation.value if version >= _STABLE_FROM else 0,
            topics=[FetchTopic(topic=tp.topic, partitions=[asked])],
        )

    def check(response: FetchResponse) -> None:
        answers.clear()
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code and for_code(data.error_code) is not OffsetOutOfRangeError:
                    raise for_code(data.error_code)(tp.topic)
                answers.append(data)

    response = await call(
        cluster,
        PerVersion(FetchRequest, build),
        LeaderOf(*tp),
        deadline,
        check=check,
        latest=_BY_NAME_UNTIL,
    )
    if response.throttle_time_ms or len(answers) != 1:
        return offset
    data = answers[0]
    if data.error_code or data.records:
        return offset
    stable = isolation is IsolationLevel.READ_COMMITTED and data.last_stable_offset >= 0
    end = data.last_stable_offset if stable else data.high_watermark
    if end <= offset or await _is_tiered(cluster, tp, offset, deadline):
        return offset
    return end


async def _is_tiered(cluster: Cluster, tp: TopicPartition, offset: int, deadline: float) -> bool:
    """Return True if an offset is no longer on the leader's own disk: a slow tiered storage looks
    like a log without records."""
    starts: list[int] = []

    def check(response: ListOffsetsResponse) -> None:
        starts.clear()
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise for_code(each.error_code)(tp.topic)
                starts.append(each.offset)

    asked = ListOffsetsPartition(partition_index=tp.partition, timestamp=_EARLIEST_LOCAL)
    request = ListOffsetsRequest(
        replica_id=_CONSUMER, topics=[ListOffsetsTopic(name=tp.topic, partitions=[asked])]
    )
    try:
        await call(cluster, request, LeaderOf(*tp), deadline, check=check, oldest=_LOCAL_FROM)
    except UnsupportedVersionError:
        return False
    return len(starts) != 1 or offset < starts[0]
