"""The parts of share requests and responses that ShareFetch and ShareAcknowledge have in common."""

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar
from uuid import UUID

from aiokafka_lite.errors import (
    BrokerResponseError,
    FencedLeaderEpochError,
    InvalidRequestError,
    NotLeaderForPartitionError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.security.acl_table import Operation, Resource
from aiokafka_lite.testing.share.acknowledging import AcknowledgedRange, AcknowledgeType
from aiokafka_lite.testing.share.share_sessions import PartitionKey, SessionKey
from aiokafka_lite.testing.topics import Partition

__all__ = [
    "AcknowledgeResults",
    "Leader",
    "by_topic",
    "checked_key",
    "checked_ranges",
    "find_leader",
    "led_partition",
]

P = TypeVar("P")

Leader = tuple[int, int]
"""Node id and leader epoch of a partition's current leader."""

AcknowledgeResults = dict[PartitionKey, BrokerResponseError | None]
"""The error of each partition's acknowledgements, or None."""

HINTED = (NotLeaderForPartitionError, FencedLeaderEpochError)


class RequestedBatch(Protocol):
    """The acknowledgements of adjacent offsets in a request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def checked_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """Return the session's key.

    Raises:
        InvalidRequestError: The group or the member is missing.
    """
    if not group_id or not member_id:
        raise InvalidRequestError("a share request must contain its group id and member id")
    return SessionKey(group_id, member_id)


def checked_ranges(
    batches: Iterable[RequestedBatch], *, may_renew: bool
) -> list[AcknowledgedRange]:
    """Return the acknowledgements of a partition.

    Raises:
        InvalidRequestError: They do not ascend, or have invalid types.
    """
    ranges: list[AcknowledgedRange] = []
    before = -1
    most = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
    for one in batches:
        first, last, types = one.first_offset, one.last_offset, one.acknowledge_types
        if first > last or first < before:
            raise InvalidRequestError("the offsets of acknowledgements must ascend")
        if not types or len(types) not in (1, last - first + 1):
            raise InvalidRequestError("acknowledgements need one type, or one for each offset")
        if any(not AcknowledgeType.GAP <= kind <= most for kind in types):
            raise InvalidRequestError("an acknowledgement has an invalid type")
        ranges.append(AcknowledgedRange(first, last, types))
        before = last
    return ranges


def led_partition(context: RequestContext, topic_id: UUID, index: int) -> Partition:
    """Return a partition that this broker leads.

    Raises:
        BrokerResponseError: The error for the client, real or injected.
    """
    try:
        topic = context.state.topic(None, topic_id)
    except UnknownTopicOrPartitionError as error:  # the zero id
        raise UnknownTopicIdError(str(error)) from error
    context.authorize(Operation.READ, Resource.TOPIC, topic.name)
    return context.led_partition(topic, index)


def find_leader(
    context: RequestContext, key: PartitionKey, error: BrokerResponseError | None
) -> Leader | None:
    """Return the leader to name in a response, after an error that says that it has moved."""
    if not isinstance(error, HINTED):
        return None
    topic = context.state.topics_by_id.get(key[0])
    return None if topic is None else topic.leader_of(key[1])


def by_topic(entries: Iterable[tuple[PartitionKey, P]]) -> list[tuple[UUID, Sequence[P]]]:
    """Group partitions by topic, in the order of the topics' first partitions."""
    found: dict[UUID, list[P]] = {}
    for (topic_id, _), entry in entries:
        found.setdefault(topic_id, []).append(entry)
    return list(found.items())
