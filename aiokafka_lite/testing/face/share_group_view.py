"""`ShareGroupView`: the records that a share group has in flight."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing.share.in_flight_records import InFlightRecords, RecordState
from aiokafka_lite.testing.topics import Topic

if TYPE_CHECKING:
    from aiokafka_lite.structs import ConsumerRecord

__all__ = ["ShareGroupView", "is_letter_of", "share_view_of"]

GROUP_HEADER = "__dlq.errors.group"


class ShareGroupView(NamedTuple):
    """A snapshot of the records of a share group, by partition and offset.

    Attributes:
        acquired: The member that holds each acquired record.
        delivery_counts: How often each record in flight was delivered. A record is in flight from
            its first delivery until it and all records before it are accepted or archived.
        start_offsets: The first offset of each partition that is neither accepted nor archived.
    """

    acquired: dict[TopicPartition, dict[int, str]]
    delivery_counts: dict[TopicPartition, dict[int, int]]
    start_offsets: dict[TopicPartition, int]


def share_view_of(
    partitions: Iterable[tuple[UUID, int, InFlightRecords]], topics: Mapping[UUID, Topic]
) -> ShareGroupView:
    """Return a snapshot of a group's records.

    Args:
        partitions: Topic id, number and records of each partition.
        topics: The cluster's topics.
    """
    view = ShareGroupView({}, {}, {})
    for topic_id, index, records in partitions:
        where = TopicPartition(topics[topic_id].name, index)
        view.start_offsets[where] = records.start_offset
        for batch in records:
            for offset in range(max(batch.first, records.start_offset), batch.last + 1):
                delivery = batch.at(offset)
                if delivery.count:
                    view.delivery_counts.setdefault(where, {})[offset] = delivery.count
                if delivery.state is RecordState.ACQUIRED:
                    view.acquired.setdefault(where, {})[offset] = delivery.member_id
    return view


def is_letter_of(record: "ConsumerRecord[bytes, bytes]", group: str) -> bool:
    """Return True if a record is a dead letter of a group."""
    return (GROUP_HEADER, group.encode()) in record.headers
