"""The parts of share requests and responses that ShareFetch and ShareAcknowledge have in common."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar
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
from aiokafka_lite.testing.share.share_settings import check_share_enabled
from aiokafka_lite.testing.topics import Partition, Topic

__all__ = [
    "AcknowledgeResults",
    "Leader",
    "by_topic",
    "checked_key",
    "checked_ranges",
    "existing_partition",
    "existing_topic",
    "find_leader",
]

P = TypeVar("P")

Leader = tuple[int, int]
"""Node id and leader epoch of a partition's current leader."""

AcknowledgeResults = dict[PartitionKey, BrokerResponseError | None]
"""The error of each partition's acknowledgements, or None."""

LONGEST_MEMBER_ID: Final = 36

HINTED = (NotLeaderForPartitionError, FencedLeaderEpochError)


class RequestedBatch(Protocol):
    """The acknowledgements of adjacent offsets in a request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def checked_key(context: RequestContext, group_id: str | None, member_id: str | None) -> SessionKey:
    """Return the session's key.

    Raises:
        InvalidRequestError: The group is missing, or the member id is missing or too long.
        GroupAuthorizationFailedError: The client must not read with the group.
        UnsupportedVersionError: The cluster does not enable share groups.
    """
    check_share_enabled(context.state.features)
    if group_id is None:
        raise InvalidRequestError("a share request must contain its group id")
    context.authorize(Operation.READ, Resource.GROUP, group_id)
    if not member_id or len(member_id) > LONGEST_MEMBER_ID:
        raise InvalidRequestError(
            f"a member id must have 1 to {LONGEST_MEMBER_ID} characters, not {member_id!r:.50}"
        )
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


def existing_topic(context: RequestContext, topic_id: UUID) -> Topic:
    """Return the topic with an id.

    Raises:
        UnknownTopicIdError: There is none.
    """
    try:
        return context.state.topic(None, topic_id)
    except UnknownTopicOrPartitionError as error:  # the zero id
        raise UnknownTopicIdError(str(error)) from error


def existing_partition(context: RequestContext, topic_id: UUID, index: int) -> Partition:
    """Return a partition, which another broker may lead.

    Raises:
        BrokerResponseError: The error for the client, real or injected.
    """
    topic = existing_topic(context, topic_id)
    context.authorize(Operation.READ, Resource.TOPIC, topic.name)
    context.check(topic.name, index)
    return topic.partition(index)


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
