"""Builds ShareFetch and ShareAcknowledge requests, and checks what their responses contain.

Sans-IO. Source: ShareFetchRequest.json, ShareAcknowledgeRequest.json, KIP-932, KIP-1206, KIP-1222.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from aiokafka_lite.cluster.metadata import LeaderHint, Node
from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.protocol.messages import share_acknowledge, share_fetch
from aiokafka_lite.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from aiokafka_lite.share.pending_acknowledgements import Part
from aiokafka_lite.share.records._share_record_python import AcquiredRange
from aiokafka_lite.share.share_session import PartitionId, SessionFetch

__all__ = [
    "MOST_OF_PARTITION",
    "MOST_OF_RESPONSE",
    "RECORD_LIMIT",
    "AcquiredRange",
    "Limits",
    "acknowledge_request",
    "acquired_ranges",
    "batches",
    "fetch_request",
    "leader_hints",
]

MOST_OF_PARTITION: Final = 2**20
"""Offsets that one response can acquire of one partition. A broker locks at most 10,000 records of
a partition, but it acquires whole batches, of which compaction may have left few records."""

MOST_OF_RESPONSE: Final = 2**24
"""Offsets that one response can acquire. The state of each takes a byte, so no response can use up
the memory, however large the offsets in it are."""

RECORD_LIMIT: Final = 1
RENEWALS_FROM: Final = 2
"""The version of both requests that has renewals and the acquire mode."""


@dataclass(slots=True)
class Limits:
    """What a fetch may return.

    Attributes:
        max_wait: Seconds that the broker may wait for records.
        min_bytes: Bytes that end its wait.
        max_bytes: Maximum bytes of the response.
        max_records: Maximum records to acquire.
        batch_size: The preferred number of records per acquired batch.
        record_limit: True if `max_records` is strict (KIP-1206).
    """

    max_wait: float
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    record_limit: bool


def fetch_request(
    group_id: str,
    member_id: str,
    session: SessionFetch,
    limits: Limits,
    parts: Mapping[PartitionId, Part],
) -> ShareFetchRequest:
    """Build a fetch that also carries terminal acknowledgements."""
    topics: dict[UUID, dict[int, list[share_fetch.AcknowledgementBatch]]] = {}
    for key in session.added:
        topics.setdefault(key.topic_id, {})[key.partition] = []
    for key, part in parts.items():
        topics.setdefault(key.topic_id, {})[key.partition] = [
            share_fetch.AcknowledgementBatch(first, last, list(types))
            for first, last, types in batches(part)
        ]
    forgotten: dict[UUID, list[int]] = {}
    for key in session.forgotten:
        forgotten.setdefault(key.topic_id, []).append(key.partition)
    return ShareFetchRequest(
        group_id=group_id,
        member_id=member_id,
        share_session_epoch=session.epoch,
        max_wait_ms=round(1000 * limits.max_wait),
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        max_records=limits.max_records,
        batch_size=limits.batch_size,
        share_acquire_mode=RECORD_LIMIT if limits.record_limit else 0,
        topics=[
            share_fetch.FetchTopic(
                topic_id,
                [share_fetch.FetchPartition(number, batches) for number, batches in some.items()],
            )
            for topic_id, some in topics.items()
        ],
        forgotten_topics_data=[
            share_fetch.ForgottenTopic(topic_id, sorted(numbers))
            for topic_id, numbers in forgotten.items()
        ],
    )


def acknowledge_request(
    group_id: str, member_id: str, epoch: int, parts: Mapping[PartitionId, Part], *, renews: bool
) -> ShareAcknowledgeRequest:
    """Build a request with acknowledgements only: all terminal, or all renewals."""
    topics: dict[UUID, list[share_acknowledge.AcknowledgePartition]] = {}
    for key, part in parts.items():
        topics.setdefault(key.topic_id, []).append(
            share_acknowledge.AcknowledgePartition(
                key.partition,
                [
                    share_acknowledge.AcknowledgementBatch(first, last, list(types))
                    for first, last, types in batches(part)
                ],
            )
        )
    return ShareAcknowledgeRequest(
        group_id=group_id,
        member_id=member_id,
        share_session_epoch=epoch,
        is_renew_ack=renews,
        topics=[
            share_acknowledge.AcknowledgeTopic(topic_id, partitions)
            for topic_id, partitions in topics.items()
        ],
    )


def batches(part: Part) -> Iterable[tuple[int, int, bytes]]:
    """(first, last, types) of each run; one type if all offsets have the same."""
    for run in part.runs:
        types = run.types
        uniform = types.count(types[0]) == len(types)
        yield run.first, run.last, types[:1] if uniform else types


def acquired_ranges(
    acquired: Iterable[share_fetch.AcquiredRecords], most: int = MOST_OF_PARTITION
) -> list[AcquiredRange]:
    """Check the acquired offsets of a partition; the result is ascending and disjoint.

    Args:
        acquired: As the response has them.
        most: Offsets that they may have together, at most `MOST_OF_PARTITION`.

    Raises:
        KafkaProtocolError: An offset or a delivery count is impossible, or there are too many
            offsets.
    """
    limit = min(most, MOST_OF_PARTITION)
    ranges: list[AcquiredRange] = []
    total = 0
    found = [(each.first_offset, each.last_offset, each.delivery_count) for each in acquired]
    if len(found) > 1:
        found.sort()
    for first, last, count in found:
        if not 0 <= first <= last or count < 0:
            raise KafkaProtocolError(
                f"The broker acquired impossible offsets: {first} to {last}, delivery {count}"
            )
        if ranges and first <= ranges[-1].last:  # ranges can repeat
            first = ranges[-1].last + 1
            if first > last:
                continue
        total += last + 1 - first
        if total > limit:
            raise KafkaProtocolError(
                f"The broker acquired too many offsets at once: {first} to {last} exceed the limit "
                f"of {MOST_OF_PARTITION} of a partition, or of {MOST_OF_RESPONSE} in a response"
            )
        ranges.append(AcquiredRange(first, last, count))
    return ranges


def leader_hints(
    response: ShareFetchResponse | ShareAcknowledgeResponse,
    names_of: Callable[[], Mapping[UUID, str]],
) -> list[LeaderHint]:
    """The current leaders that a response reports for partitions that moved (KIP-951).

    Args:
        names_of: Returns the names of the topics by id; called if there is a leader.
    """
    hints: list[LeaderHint] = []
    if all(
        partition.current_leader.leader_id < 0
        for topic in response.responses
        for partition in topic.partitions
    ):
        return hints
    nodes = {
        each.node_id: Node(each.node_id, each.host, each.port, each.rack)
        for each in response.node_endpoints
    }
    names = names_of()
    for topic in response.responses:
        name = names.get(topic.topic_id)
        for partition in topic.partitions:
            leader = partition.current_leader
            if name is not None and leader.leader_id >= 0 and leader.leader_epoch >= 0:
                hints.append(
                    LeaderHint(
                        name,
                        partition.partition_index,
                        leader.leader_id,
                        leader.leader_epoch,
                        nodes.get(leader.leader_id),
                    )
                )
    return hints
