"""Whether what is left of a range holds no record at all, though its offsets are there.

A log may end in offsets whose records compaction has removed, or that are markers of transactions
only. Then nothing comes, however long one waits, and that is no different from a slow broker: so
the leader is asked about this partition alone. Its answer cannot be empty because another
partition took all the room, only because there is nothing, or because of a quota.
"""

from __future__ import annotations

from typing import Final

from aiokafka_lite.cluster.broker import PerVersion
from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.retry import LeaderOf, call
from aiokafka_lite.consumer.consumer_options import IsolationLevel
from aiokafka_lite.errors import OffsetOutOfRangeError, for_code
from aiokafka_lite.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["holds_nothing"]

_BY_NAME_UNTIL: Final = 12
"""Last version that names topics by their names."""

_STABLE_FROM: Final = 4
_MAX_WAIT_MS: Final = 1000
"""Twice as long as a broker waits for its remote storage, by default, before it answers nothing."""

_MAX_BYTES: Final = 64 * 1024
"""A larger batch comes all the same (KIP-74): it is enough to see that there is one."""


async def holds_nothing(
    cluster: Cluster, tp: TopicPartition, offset: int, isolation: IsolationLevel, deadline: float
) -> int:
    """Up to where a partition holds no record that may be read.

    Args:
        offset: Where to begin.
        isolation: Whether it is read up to the last stable offset only.
        deadline: In loop time.

    Returns:
        The end of what may be read, if there is nothing between; `offset` if there is, or may be.

    Raises:
        KafkaTimeoutError: No leader answered in time.
        KafkaError: The leader's lasting refusal.
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
    return max(data.last_stable_offset if stable else data.high_watermark, offset)
