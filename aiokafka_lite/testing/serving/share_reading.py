"""Acquires records for one ShareFetch. No I/O.

Source: Kafka's `DelayedShareFetch` and `ShareFetchUtils`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aiokafka_lite.errors import BrokerResponseError
from aiokafka_lite.protocol.messages.share_fetch import ShareFetchRequest
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.record.header import CONTROL, HEADER_SIZE, TRANSACTIONAL, BatchHeader
from aiokafka_lite.testing.context import RequestContext
from aiokafka_lite.testing.serving.share_replies import led_partition
from aiokafka_lite.testing.share.acquiring import Acquired
from aiokafka_lite.testing.share.share_partition import AcquireRequest, SharePartition
from aiokafka_lite.testing.share.share_sessions import PartitionKey, ShareSession

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

    Args:
        request: The request.
        context: Its context.
        session: Its session.
    """

    def __init__(
        self, request: ShareFetchRequest, context: RequestContext, session: ShareSession
    ) -> None:
        self._request = request
        self._context = context
        self._session = session
        self._share = context.state.share
        settings = self._share.settings_of(session.key.group_id)
        self._committed = settings.reads_committed

    def places(self) -> list[PartitionKey]:
        """Return the session's partitions; each request begins with another one."""
        places = list(self._session.partitions)
        if not places:
            return []
        start = self._request.share_session_epoch % len(places)
        return places[start:] + places[:start]

    def find(self, place: PartitionKey) -> SharePartition:
        """Return a share partition that this broker leads.

        Raises:
            BrokerResponseError: The error for the client.
        """
        partition = led_partition(self._context, *place)
        return self._share.partition(self._session.key.group_id, partition)

    def available_bytes(self, shared: SharePartition, share: int) -> int:
        """Return how many bytes a partition has to offer, at most its share of the response."""
        partition = shared.partition
        offset = max(shared.next_offset, partition.log.start_offset)
        return min(share, partition.log.available_bytes(offset, self._end(shared)))

    def read(self) -> dict[PartitionKey, ShareRead]:
        """Acquire records in all partitions, as far as the request allows.

        Returns:
            The result of each partition, without those whose records are all locked.
        """
        found: dict[PartitionKey, ShareRead] = {}
        acquirable: list[tuple[PartitionKey, SharePartition]] = []
        for place in self.places():
            try:
                shared = self.find(place)
            except BrokerResponseError as error:
                found[place] = ShareRead(error)
                continue
            if shared.may_acquire:
                acquirable.append((place, shared))
        left = self._request.max_records
        bytes_left = self._request.max_bytes
        share = self.share_of_bytes(len(acquirable))
        for place, shared in acquirable:
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

    def share_of_bytes(self, count: int) -> int:
        """Return how many bytes each of several partitions may contribute."""
        return max(1, self._request.max_bytes // count) if count else 0

    def _end(self, shared: SharePartition) -> int | None:
        return shared.partition.last_stable_offset if self._committed else None

    def _read(
        self, shared: SharePartition, left: int, max_bytes: int, *, nothing_read: bool
    ) -> ShareRead:
        request, log = self._request, shared.partition.log
        shared.on_log_start()
        offset = max(shared.next_offset, log.start_offset)
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
