"""ElectLeaders, v0-v2: elect the preferred replica, or any running one, as the leader.

v1 adds unclean elections (KIP-460). They lose no records here, because every leader has the one
log; use `FakeCluster.truncate` to lose some.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from aiokafka_lite.errors import (
    BrokerResponseError,
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    PreferredLeaderNotAvailableError,
)
from aiokafka_lite.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import CLUSTER_NAME, Operation, Resource
from aiokafka_lite.testing.topics import NO_LEADER
from aiokafka_lite.testing.wording import wording

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_REFUSED_AS_A_WHOLE_SINCE: Final = 1


def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    asked = request.topic_partitions
    try:
        context.check()
        context.authorize(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        if request.election_type not in (_PREFERRED, _UNCLEAN):
            raise InvalidRequestError(f"Unknown election type {request.election_type}")
    except BrokerResponseError as error:
        return ElectLeadersResponse(
            error_code=error.errno if context.version >= _REFUSED_AS_A_WHOLE_SINCE else 0,
            replica_election_results=[
                ReplicaElectionResult(
                    topic.topic,
                    [
                        PartitionResult(index, error.errno, wording(error))
                        for index in topic.partitions
                    ],
                )
                for topic in asked or ()
            ],
        )
    unclean = request.election_type == _UNCLEAN
    if asked is not None:
        wanted: Iterable[tuple[str, list[int]]] = (
            (topic.topic, topic.partitions) for topic in asked
        )
    else:
        wanted = [
            (topic.name, list(range(len(topic.partitions))))
            for topic in context.state.topics.values()
        ]
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                name,
                list(_elect(name, indexes, context, unclean=unclean, report_all=asked is not None)),
            )
            for name, indexes in wanted
        ]
    )


def _elect(
    name: str, indexes: list[int], context: RequestContext, *, unclean: bool, report_all: bool
) -> Iterator[PartitionResult]:
    """Yield the results of a topic; without `report_all`, omit those that needed no election."""
    for index in indexes:
        try:
            context.check(name, index)
            _elect_one(name, index, context, unclean=unclean)
        except BrokerResponseError as error:
            if report_all or not isinstance(error, ElectionNotNeededError):
                yield PartitionResult(index, error.errno, wording(error))
        else:
            yield PartitionResult(index, error_message=None)


def _elect_one(name: str, index: int, context: RequestContext, *, unclean: bool) -> None:
    partition = context.topic(name).partition(index)
    alive = {node.node_id for node in context.state.alive}
    preferred = partition.replicas[0]
    if partition.leader != NO_LEADER and (unclean or partition.leader == preferred):
        raise ElectionNotNeededError(f"{partition} needs no election: it has the elected leader")
    if not unclean:
        if preferred not in alive or preferred not in partition.isr:
            raise PreferredLeaderNotAvailableError(
                f"preferred leader {preferred} of {partition} is not available"
            )
        partition.lead(preferred)
        return
    candidates = [replica for replica in partition.replicas if replica in alive]
    if not candidates:
        raise EligibleLeadersNotAvailableError(f"no replica of {partition} is online")
    partition.isr = candidates
    partition.lead(candidates[0])
