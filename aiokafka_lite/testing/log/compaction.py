"""Log compaction: keeps the newest record of each key, at its old offset.

A batch keeps its first and last offset whichever records are removed. An empty batch is kept only
if it holds a producer's last sequence or the end of the log. Tombstones stay for
`delete.retention.ms` after the first pass that finds them, transaction markers after the first
pass that finds nothing else of their transaction; the batch header stores that deadline
(KIP-534). Records of aborted transactions are removed immediately.

Source: Kafka's `Cleaner`, `CleanedTransactionMetadata` and `MemoryRecords.filterTo`. Kafka
never cleans the active segment; here a call cleans everything before the last stable offset.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from aiokafka_lite.record.aborted import is_abort_marker
from aiokafka_lite.record.compression import Compression, compress, decompress
from aiokafka_lite.record.header import HEADER_SIZE, BatchHeader
from aiokafka_lite.testing.log.batch_rewriting import sealed
from aiokafka_lite.testing.log.open_transactions import AbortedTransaction
from aiokafka_lite.testing.log.varints import read_varint, write_varint

__all__ = ["Compacted", "LastRecord", "compact"]

DELETE_HORIZON: Final = 0x40  # attribute: the base timestamp is the delete horizon
NO_TIMESTAMP: Final = -1
CODEC: Final = 0x07


class LastRecord(NamedTuple):
    """The last write of a producer in the producer state.

    Attributes:
        offset: Offset of its last record; None if a marker in a new epoch followed.
        epoch: The producer's epoch.
    """

    offset: int | None
    epoch: int


class Compacted(NamedTuple):
    """The remaining batches, and the aborted transactions that fetches must still report."""

    batches: list[memoryview]
    aborted: list[AbortedTransaction]


class _Record(NamedTuple):
    """The parts of a record that compaction uses; `rest` is all that follows its timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool
    attributes: int
    rest: bytes


class _Transactions:
    """Examines every batch in order to find the batches of aborted transactions, and the markers
    of transactions with no remaining records."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen_of_aborted: set[int] = set()  # producer ids
        self._seen_of_committed: set[int] = set()
        self.gone: set[AbortedTransaction] = set()  # fetches no longer report these

    def is_discarded(self, batch: memoryview, header: BatchHeader) -> bool:
        """Return True for an aborted data batch, or a marker without remaining records."""
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            aborted = self._coming.pop()
            self._aborted.setdefault(aborted.producer_id, aborted)
        if header.control:
            return self._ends_nothing(batch, header)
        if not header.transactional:
            return False
        is_aborted = header.producer_id in self._aborted
        (self._seen_of_aborted if is_aborted else self._seen_of_committed).add(header.producer_id)
        return is_aborted

    def _ends_nothing(self, batch: memoryview, header: BatchHeader) -> bool:
        if not header.record_count:
            return True  # its record was removed earlier
        producer_id = header.producer_id
        if is_abort_marker(_records(batch, header)[0].key):
            aborted = self._aborted.pop(producer_id, None)
            if aborted is not None and producer_id in self._seen_of_aborted:
                self._seen_of_aborted.discard(producer_id)
                return False
            if aborted is not None:
                self.gone.add(aborted)
            return True
        if producer_id in self._seen_of_committed:
            self._seen_of_committed.discard(producer_id)
            return False
        return True


def compact(
    batches: Sequence[memoryview],
    *,
    end: int,
    now_ms: int,
    delete_retention_ms: int,
    aborted: Sequence[AbortedTransaction],
    producers: Mapping[int, LastRecord],
) -> Compacted:
    """Remove records that newer records replace.

    Args:
        batches: The whole log.
        end: Batches from this offset on (the last stable offset) stay unchanged.
        now_ms: The broker's current time in ms.
        delete_retention_ms: How long tombstones and markers are kept.
        aborted: The log's aborted transactions.
        producers: The last write of each known producer, by producer id.
    """
    headers = [BatchHeader.read(batch) for batch in batches]
    log = list(zip(batches, headers, strict=True))
    cleaned = [entry for entry in log if entry[1].last_offset < end]
    rest = log[len(cleaned) :]
    newest = _newest(cleaned, aborted)
    transactions = _Transactions(aborted)
    left: list[memoryview] = []
    for batch, header in cleaned:
        discarded = transactions.is_discarded(batch, header)
        marker_of_nothing = discarded and header.control
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON else None
        is_over = horizon is not None and horizon <= now_ms
        records: list[_Record] = []
        if header.control:
            if not (discarded and is_over):
                records = _records(batch, header)
        elif not discarded:
            records = [
                record
                for record in _records(batch, header)
                if record.key is not None
                and record.offset >= newest.get(record.key, -1)
                and (record.has_value or horizon is None or now_ms < horizon)
            ]
        if records:
            expires = marker_of_nothing or not all(record.has_value for record in records)
            if expires and horizon is None:
                left.append(_rebuilt(header, records, now_ms + delete_retention_ms))
            elif len(records) == header.record_count:
                left.append(batch)
            else:
                left.append(_rebuilt(header, records, horizon))
        elif _has_last_write(header, producers) or header.last_offset + 1 == end:
            left.append(_emptied(header))
    left += [batch for batch, _ in rest]
    return Compacted(left, [each for each in aborted if each not in transactions.gone])


def _newest(
    cleaned: Iterable[tuple[memoryview, BatchHeader]], aborted: Sequence[AbortedTransaction]
) -> dict[bytes, int]:
    """Return the last offset of each key among records that were not aborted."""
    newest: dict[bytes, int] = {}
    transactions = _Transactions(aborted)
    for batch, header in cleaned:
        if transactions.is_discarded(batch, header) or header.control:
            continue
        for record in _records(batch, header):
            if record.key is not None:
                newest[record.key] = record.offset
    return newest


def _has_last_write(header: BatchHeader, producers: Mapping[int, LastRecord]) -> bool:
    """Return True if a batch is the last trace of a producer's writes."""
    last = producers.get(header.producer_id) if header.producer_id >= 0 else None
    if last is None:
        return False
    if last.offset is None:
        return header.control and header.producer_epoch == last.epoch
    return header.last_offset == last.offset


def _records(batch: memoryview, header: BatchHeader) -> list[_Record]:
    payload = batch[HEADER_SIZE:]
    data = decompress(payload, header.codec) if header.codec else bytes(payload)
    return list(_parse(data, header))


def _parse(data: bytes, header: BatchHeader) -> Iterator[_Record]:
    at = 0
    for _ in range(header.record_count):
        length, at = read_varint(data, at)
        end = at + length
        attributes = data[at]
        delta, rest = read_varint(data, at + 1)
        offset_delta, at = read_varint(data, rest)
        key_length, at = read_varint(data, at)
        key = data[at : at + key_length] if key_length >= 0 else None
        value_length, _ = read_varint(data, at + max(key_length, 0))
        yield _Record(
            header.base_offset + offset_delta,
            header.max_timestamp if header.timestamp_type else header.base_timestamp + delta,
            key,
            value_length >= 0,
            attributes,
            data[rest:end],
        )
        at = end


def _rebuilt(header: BatchHeader, records: Sequence[_Record], horizon: int | None) -> memoryview:
    """Rebuild a batch with fewer records, or with a horizon after which its tombstones expire."""
    base = records[0].timestamp if horizon is None else horizon
    data = bytearray()
    for record in records:
        body = bytearray((record.attributes,))
        write_varint(body, record.timestamp - base)
        body += record.rest
        write_varint(data, len(body))
        data += body
    packed = compress(data, Compression(header.codec)) if header.codec else bytes(data)
    attributes = header.attributes & ~DELETE_HORIZON | (0 if horizon is None else DELETE_HORIZON)
    return sealed(
        header._replace(
            attributes=attributes,
            base_timestamp=base,
            max_timestamp=max(record.timestamp for record in records),
            record_count=len(records),
        ),
        packed,
    )


def _emptied(header: BatchHeader) -> memoryview:
    """Return the batch without records, for its producer's sequence and its last offset."""
    attributes = header.attributes & ~(DELETE_HORIZON | CODEC)
    return sealed(
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b""
    )
