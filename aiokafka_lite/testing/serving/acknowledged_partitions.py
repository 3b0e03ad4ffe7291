"""Applies the acknowledgements of a ShareFetch or ShareAcknowledge to the partitions it names."""

from collections.abc import Iterable, Sequence
from typing import Protocol
from uuid import UUID

from aiokafka_lite.errors import BrokerResponseError, UnknownTopicOrPartitionError
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.serving.share_replies import (
    AcknowledgeResults,
    RequestedBatch,
    checked_ranges,
    existing_partition,
    existing_topic,
)
from aiokafka_lite.testing.share.acknowledging import AcknowledgedRange
from aiokafka_lite.testing.share.share_sessions import PartitionKey, SessionKey
from aiokafka_lite.testing.topics import Partition

__all__ = ["acknowledge"]


class RequestedPartition(Protocol):
    """A partition in a request."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[RequestedBatch]: ...


class RequestedTopic(Protocol):
    """A topic in a request."""

    topic_id: UUID

    @property
    def partitions(self) -> Sequence[RequestedPartition]: ...


def acknowledge(
    context: RequestContext, key: SessionKey, topics: Iterable[RequestedTopic], *, may_renew: bool
) -> AcknowledgeResults:
    """Apply the acknowledgements of a request; those of a partition are atomic.

    Args:
        context: The request's context.
        key: Its group and member.
        topics: The topics of the request.
        may_renew: True if the request may renew locks (`is_renew_ack`).
    """
    wanted = {
        (topic.topic_id, one.partition_index): one for topic in topics for one in topic.partitions
    }
    results: AcknowledgeResults = {}
    without: list[PartitionKey] = []
    reached_states = False
    for place, one in wanted.items():
        try:
            partition, ranges = _checked(context, place, one, may_renew=may_renew)
            if not ranges:
                without.append(place)
                continue
            reached_states = True
            _acknowledge(context, key, partition, ranges)
            results[place] = None
        except BrokerResponseError as error:
            results[place] = error
    # As in Kafka, partitions without acknowledgements get a result only if the request has valid
    # acknowledgements of another partition.
    if reached_states:
        results.update(dict.fromkeys(without))
    return results


def _checked(
    context: RequestContext, place: PartitionKey, wanted: RequestedPartition, *, may_renew: bool
) -> tuple[Partition, list[AcknowledgedRange]]:
    """Return a partition and its acknowledgements.

    Raises:
        BrokerResponseError: The error for the client, real or injected.
    """
    existing_topic(context, place[0])
    ranges = checked_ranges(wanted.acknowledgement_batches, may_renew=may_renew)
    return existing_partition(context, *place), ranges


def _acknowledge(
    context: RequestContext,
    key: SessionKey,
    partition: Partition,
    ranges: Sequence[AcknowledgedRange],
) -> None:
    topic_id, index = partition.topic.topic_id, partition.index
    held = context.state.share.known_partition(key.group_id, topic_id, index)
    if held is None or partition.leader != context.node_id:
        raise UnknownTopicOrPartitionError(
            f"broker {context.node_id} has acquired no records of {partition} for group"
            f" {key.group_id}"
        )
    held.acknowledge(key.member_id, ranges)
