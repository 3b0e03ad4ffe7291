"""DescribeLogDirs, v0-v5: one directory with the logs of which this broker has a replica.

v3 adds an error for the whole request, v4 the disk size (KIP-827), v5 whether the directory is
cordoned (KIP-1066), which it never is here.
"""

from collections.abc import Iterator
from typing import Final

from aiokafka_lite.errors import BrokerResponseError
from aiokafka_lite.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource

_DISK_BYTES: Final = 2**40
"""A constant size, because there may be no disk; large enough for any client."""


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    try:
        context.check()
        context.authorize(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    except BrokerResponseError as error:
        return DescribeLogDirsResponse(error_code=error.errno)
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    topics = list(_topics(wanted, context))
    used = sum(partition.partition_size for topic in topics for partition in topic.partitions)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=context.state.broker_config("log.dir"),
                topics=topics,
                total_bytes=_DISK_BYTES,
                usable_bytes=_DISK_BYTES - used,
            )
        ]
    )


def _topics(
    wanted: set[tuple[str, int]] | None, context: RequestContext
) -> Iterator[DescribeLogDirsTopic]:
    for topic in context.state.topics.values():
        partitions = [
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.available_bytes(partition.log.start_offset),
            )
            for partition in topic.partitions
            if context.node_id in partition.replicas
            and (wanted is None or (topic.name, partition.index) in wanted)
        ]
        if partitions:
            yield DescribeLogDirsTopic(name=topic.name, partitions=partitions)
