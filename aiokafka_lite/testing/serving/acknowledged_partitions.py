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
    led_partition,
)
from aiokafka_lite.testing.share.share_sessions import SessionKey

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
    results: AcknowledgeResults = {}
    for topic in topics:
        for wanted in topic.partitions:
            if not wanted.acknowledgement_batches:
                continue
            place = (topic.topic_id, wanted.partition_index)
            try:
                _acknowledge(context, key, topic.topic_id, wanted, may_renew=may_renew)
                results[place] = None
            except BrokerResponseError as error:
                results[place] = error
    return results


def _acknowledge(
    context: RequestContext,
    key: SessionKey,
    topic_id: UUID,
    wanted: RequestedPartition,
    *,
    may_renew: bool,
) -> None:
    ranges = checked_ranges(wanted.acknowledgement_batches, may_renew=may_renew)
    partition = led_partition(context, topic_id, wanted.partition_index)
    held = context.state.share.known_partition(key.group_id, topic_id, partition.index)
    if held is None:
        raise UnknownTopicOrPartitionError(f"group {key.group_id} has acquired none of {partition}")
    held.acknowledge(key.member_id, ranges)
