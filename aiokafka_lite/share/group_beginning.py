"""Determines where a new share group starts to read, and warns if it skips existing records.

The brokers initialize the share partitions of a group with the first fetch, at the end of the
partition unless the group's configuration differs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from aiokafka_lite.cluster.cluster import Cluster
from aiokafka_lite.cluster.coordinators import CoordinatorKind
from aiokafka_lite.cluster.log_name import log_extra
from aiokafka_lite.cluster.retry import ANY, CoordinatorOf, call
from aiokafka_lite.errors import KafkaError, for_code
from aiokafka_lite.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from aiokafka_lite.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)
from aiokafka_lite.structs import TopicPartition

__all__ = ["begins_at_latest"]

log: Final = logging.getLogger(__name__)

_GROUP: Final = 32  # the resource type
_RESET: Final = "share.auto.offset.reset"
_LATEST: Final = "latest"


async def begins_at_latest(
    cluster: Cluster,
    group_id: str,
    partitions: Collection[TopicPartition],
    deadline: float,
    log_name: str,
    *,
    warns: bool = True,
) -> bool:
    """Return True if the group is new to any of the partitions and may start at its end.

    Logs a warning if it is new to all partitions and starts at their ends. A client without
    permission to describe the group's configuration gets no warning.

    Args:
        cluster: Connected.
        group_id: The share group.
        partitions: The assigned partitions.
        deadline: Loop time.
        log_name: Names the consumer in the log.
        warns: True to log the warning.
    """
    new: set[TopicPartition] = set()
    try:
        # Brokers store the start offset of a partition with its first acknowledgement, so a group
        # that is not new may lack some.
        new = await _uninitialized(cluster, group_id, partitions, deadline)
        if not new:
            return False
        if await _reset(cluster, group_id, deadline) != _LATEST:
            return False
    except KafkaError as error:
        log.debug("%s: cannot find out where the group begins: %r", log_name, error)
        return bool(new)
    if len(new) < len(partitions) or not warns:
        return True
    first, more = min(new), len(new) - 1
    log.warning(
        "%s: the group is new to %s-%d%s, and %s is 'latest': it skips all existing records. "
        "Set the group's %s to 'earliest' to process them",
        log_name,
        *first,
        f" and {more} more partitions" if more else "",
        _RESET,
        _RESET,
        extra=log_extra(log_name),
    )
    return True


async def _uninitialized(
    cluster: Cluster, group_id: str, partitions: Collection[TopicPartition], deadline: float
) -> set[TopicPartition]:
    """The partitions without a stored start offset."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    if not topics:
        return set()
    request = DescribeShareGroupOffsetsRequest(
        [
            DescribeShareGroupOffsetsRequestGroup(
                group_id,
                [
                    DescribeShareGroupOffsetsRequestTopic(name, numbers)
                    for name, numbers in topics.items()
                ],
            )
        ]
    )

    def check(response: DescribeShareGroupOffsetsResponse) -> None:
        for group in response.groups:
            if group.error_code:
                raise for_code(group.error_code)(group.error_message or group_id)

    route = CoordinatorOf(group_id, CoordinatorKind.GROUP)
    response = await call(cluster, request, route, deadline, check=check)
    return {
        TopicPartition(topic.topic_name, each.partition_index)
        for group in response.groups
        for topic in group.topics
        for each in topic.partitions
        if not each.error_code and each.start_offset < 0
    } & set(partitions)


async def _reset(cluster: Cluster, group_id: str, deadline: float) -> str | None:
    """The group's `share.auto.offset.reset`, or None if the response lacks it."""
    request = DescribeConfigsRequest([DescribeConfigsResource(_GROUP, group_id, [_RESET])])

    def check(response: DescribeConfigsResponse) -> None:
        for result in response.results:
            if result.error_code:
                raise for_code(result.error_code)(result.error_message or group_id)

    response = await call(cluster, request, ANY, deadline, check=check)
    for result in response.results:
        for config in result.configs:
            if config.name == _RESET:
                return config.value
    return None
