"""Acquires records for one ShareFetch. No I/O.

Source: Kafka's `SharePartitionManager.fetchMessages`, `DelayedShareFetch` and `ShareFetchUtils`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aiokafka_lite.errors import (
    BrokerResponseError,
    UnknownError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchRequest
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.record.header import CONTROL, HEADER_SIZE, TRANSACTIONAL, BatchHeader
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.serving.share_replies import existing_partition
from aiokafka_lite.testing.share.acquiring import Acquired
from aiokafka_lite.testing.share.share_partition import AcquireRequest, SharePartition
from aiokafka_lite.testing.share.share_sessions import PartitionKey, ShareSession
from aiokafka_lite.testing.topics import Partition
from aiokafka_lite.testing.watchers import Watchers

__all__ = ["ShareRead", "ShareReader"]


class ShareRead(NamedTuple):
    """The records that a member acquires in a partition.

    Attributes:
        error: The error of the partition, if any.
        records: The batches that contain the acquired records.
        acquired: The acquired ranges.
    """

    error: BrokerResponseError | None = None
    records: Buffer = b""
    acquired: Sequence[Acquired] = ()


class ShareReader:
    """Reads the partitions of one request.

    The partitions are looked up once: if one of them gets another leader while the request waits,
    the response does not contain it, and the next request gets the error.

    Args:
        request: The request.
        context: Its context.
        session: Its session.

    Attributes:
        is_idle: True if waiting is useless: the request is for no records, or each partition has
            an error.
    """

    def __init__(
        self, request: ShareFetchRequest, context: RequestContext, session: ShareSession
    ) -> None:
        self._request = request
        self._context = context
        self._session = session
        self._share = context.state.share
        self._committed = self._share.settings_of(session.key.group_id).reads_committed
        self._errors: dict[PartitionKey, BrokerResponseError] = {}
        self._late_errors: dict[PartitionKey, BrokerResponseError] = {}
        self._partitions: dict[PartitionKey, SharePartition] = {}
        self.is_idle = not self._look_up()

    def _look_up(self) -> bool:
        """Find the partitions; return True if there is one to wait for."""
        found: dict[PartitionKey, Partition] = {}
        for place in self._places():
            try:
                found[place] = existing_partition(self._context, *place)
            except UnknownTopicIdError as error:
                self._errors[place] = error
                if place[0] in self._session.seen_topics:
                    self._errors[place] = UnknownTopicOrPartitionError(str(error))
            except BrokerResponseError as error:
                self._errors[place] = error
        if not self._request.max_records or not self._request.max_bytes:
            return False
        group_id = self._session.key.group_id
        errors = self._late_errors if group_id else self._errors
        for place, partition in found.items():
            try:
                self._context.state.check_leader(self._context.node_id, partition)
            except BrokerResponseError as error:
                self._errors[place] = error
                continue
            shared = self._share.partition(group_id, partition)
            if shared is None:
                errors[place] = UnknownError(
                    f"group {group_id} has no state for {partition}: no member has subscribed to"
                    " the topic"
                )
            elif self._request.max_bytes < 0:
                self._errors[place] = UnknownError("max_bytes must not be negative")
            else:
                self._partitions[place] = shared
        return bool(self._late_errors or self._partitions)

    def on_waiting(self) -> None:
        """Add the errors of states, which a leader reads while a request waits."""
        self._errors.update(self._late_errors)

    def _places(self) -> list[PartitionKey]:
        """Return the session's partitions; each request begins with another one."""
        places = list(self._session.partitions)
        if not places:
            return []
        start = self._request.share_session_epoch % len(places)
        return places[start:] + places[:start]

    @property
    def watched(self) -> list[Watchers]:
        """What notifies of records to acquire."""
        return [
            watchers
            for shared in self._partitions.values()
            for watchers in (shared.partition.watchers, shared.watchers)
        ]

    def _acquirable(self) -> dict[PartitionKey, SharePartition]:
        return {
            place: shared
            for place, shared in self._partitions.items()
            if shared.is_current and shared.may_acquire
        }

    def has_enough(self) -> bool:
        """Return True if there are as many bytes to acquire as the request waits for."""
        acquirable = self._acquirable().values()
        if not acquirable:
            return False
        if any(shared.is_out_of_range for shared in acquirable):
            return True
        share = self._share_of_bytes(len(acquirable))
        total = sum(self._available_bytes(one, share) for one in acquirable)
        return total >= self._request.min_bytes

    def _available_bytes(self, shared: SharePartition, share: int) -> int:
        """Return how many bytes a partition has to offer, at most its share of the response."""
        return min(
            share, shared.partition.log.available_bytes(shared.next_offset, self._end(shared))
        )

    def read(self) -> dict[PartitionKey, ShareRead]:
        """Acquire records in all partitions, as far as the request allows.

        Returns:
            The result of each partition, without those whose records are all locked.
        """
        found = {place: ShareRead(error) for place, error in self._errors.items()}
        acquirable = {} if self.is_idle else self._acquirable()
        left = self._request.max_records
        bytes_left = self._request.max_bytes
        share = self._share_of_bytes(len(acquirable))
        for place, shared in acquirable.items():
            result = self._read(
                shared,
                left,
                min(share, bytes_left),
                nothing_read=not any(one.records for one in found.values()),
            )
            found[place] = result
            left -= sum(one.size for one in result.acquired)
            bytes_left = max(0, bytes_left - len(result.records))
        return found

    def _share_of_bytes(self, count: int) -> int:
        """Return how many bytes each of several partitions may contribute."""
        return max(1, self._request.max_bytes // count) if count else 0

    def _end(self, shared: SharePartition) -> int | None:
        return shared.partition.last_stable_offset if self._committed else None

    def _read(
        self, shared: SharePartition, left: int, max_bytes: int, *, nothing_read: bool
    ) -> ShareRead:
        request = self._request
        if shared.is_out_of_range:
            shared.on_out_of_range()
            return ShareRead()  # the next request finds the records
        offset, log = shared.next_offset, shared.partition.log
        data = log.read(offset, max_bytes, at_least_one=nothing_read, below=self._end(shared))
        headers = list(_whole_batches(data))
        if not headers or left <= 0:
            return ShareRead()
        wanted = AcquireRequest(
            self._session.key.member_id, request.share_acquire_mode, request.batch_size
        )
        acquired = shared.acquire(wanted, left, offset, headers)
        if self._committed:
            acquired = self._without_aborted(shared, acquired, headers)
        if not acquired:
            return ShareRead()
        return ShareRead(None, _slice(data, headers, acquired), acquired)

    def _without_aborted(
        self, shared: SharePartition, acquired: list[Acquired], headers: Sequence[BatchHeader]
    ) -> list[Acquired]:
        partition = shared.partition
        for header in headers:
            if not header.attributes & TRANSACTIONAL or header.attributes & CONTROL:
                continue
            aborted = partition.aborted_between(header.base_offset, header.last_offset + 1)
            if any(
                producer == header.producer_id and first <= header.base_offset
                for producer, first in aborted
            ):
                acquired = shared.archive_aborted(acquired, header.base_offset, header.last_offset)
        return acquired


def _whole_batches(data: Buffer) -> Iterator[BatchHeader]:
    view, at = memoryview(data), 0
    while at + HEADER_SIZE <= len(view):
        header = BatchHeader.read(view, at)
        at += header.size
        if at > len(view):
            return
        yield header


def _slice(data: Buffer, headers: Sequence[BatchHeader], acquired: Sequence[Acquired]) -> Buffer:
    """Return the batches from the first to the last acquired offset; a single batch as it is."""
    if len(headers) == 1 and len(data) == headers[0].size:
        return data
    first, last = acquired[0].first, acquired[-1].last
    begin = end = at = 0
    for header in headers:
        if header.base_offset <= first:
            begin = at
        if at and header.base_offset > max(first, last):
            break
        at += header.size
        end = at
    return memoryview(data)[begin:end]
