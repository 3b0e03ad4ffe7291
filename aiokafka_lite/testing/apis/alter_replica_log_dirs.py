"""AlterReplicaLogDirs, v0-v2: move replicas to another directory (KIP-113); there is only one."""

from aiokafka_lite.errors import (
    BrokerResponseError,
    LogDirNotFound,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource


def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            results.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(
                    index, _error_code(directory.path, topic.name, index, context)
                )
                for index in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(name, partitions) for name, partitions in results.items()
        ]
    )


def _error_code(path: str, name: str, index: int, context: RequestContext) -> int:
    topic = context.state.topics.get(name)
    try:
        context.check(name, index)
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        if path != context.state.broker_config("log.dir"):
            raise LogDirNotFound(f"log directory {path} does not exist")
        here = topic is not None and 0 <= index < len(topic.partitions)
        if topic is None or not here or context.node_id not in topic.partitions[index].replicas:
            raise UnknownTopicOrPartitionError(f"this broker has no replica of {name}-{index}")
    except BrokerResponseError as error:
        return error.errno
    return 0
