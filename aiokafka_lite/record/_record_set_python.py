"""The pure-Python twin of RecordSet: its specification, and the build without a compiler."""

from collections.abc import Iterable, Iterator
from typing import Final

from aiokafka_lite._consumer_record import ConsumerRecord
from aiokafka_lite.errors import (
    CorruptRecordException,
    KafkaError,
    RecordTooLargeError,
    UnsupportedCodecError,
)
from aiokafka_lite.record.aborted import AbortedTransactions, is_abort_marker
from aiokafka_lite.record.compression import DEFAULT_LIMIT, Bytes, decompress
from aiokafka_lite.record.header import (
    HEADER_SIZE,
    LENGTH_AT,
    LENGTH_END,
    MAGIC_AT,
    BatchHeader,
    crc_matches,
)
from aiokafka_lite.record.message_set import MESSAGE_OVERHEAD, Message, open_messages

Record = ConsumerRecord[bytes, bytes]

_MAX_INT64: Final = 2**63 - 1


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the zigzag varint of up to 64 bits at `at`, and where it ends.

    Raises:
        ValueError: The varint does not fit into 64 bits.
        IndexError: The varint is truncated.
    """
    rest = data[at]
    at += 1
    if rest > 127:
        byte = data[at]
        at += 1
        rest = rest & 127 | (byte & 127) << 7
        shift = 7
        while byte > 127:
            byte = data[at]
            at += 1
            shift += 7
            rest |= (byte & 127) << shift
            if rest >> 64 or shift > 63:
                raise ValueError("a varint of more than 64 bits")
    return (rest >> 1) ^ -(rest & 1), at


class RecordSet:
    """The records of one partition in one fetch response, of any message format, read lazily.

    The set skips control batches, aborted transactions and compacted records, and the position
    moves past them. It ignores a truncated batch at the end, because every fetch may end in one.
    Corrupt data raises: the records before it are returned first, then every `read()` raises the
    same error, and the position stays until the application seeks past it.

    Args:
        data: The `records` field. It is not copied, so its memory must not change until the set
            is exhausted or closed.
        topic: Name of the topic.
        partition: Number of the partition.
        offset: Position to start at; records below it are skipped.
        check_crcs: True to check the CRC of every batch.
        aborted: (producer id, first offset) of the aborted transactions in `data`, for
            read_committed; empty: hide nothing.
        decompressed_limit: Maximum bytes of one decompressed batch.

    Attributes:
        next_offset: Position after the records read so far.
        leader_epoch: Leader epoch of the last batch read from or skipped, which is the one before
            `next_offset`; -1 before the first batch, and in formats without leader epochs.
        exhausted: True if no records are left. Set at the latest when `read()` returns fewer
            records than requested.
        only_partial: True if `data` held only the beginning of one batch, which is larger than
            the fetch size. Set when exhausted.
    """

    __slots__ = (
        "_aborted",
        "_after",
        "_at",
        "_check_crcs",
        "_data",
        "_epoch",
        "_error",
        "_limit",
        "_next",
        "_records",
        "exhausted",
        "leader_epoch",
        "next_offset",
        "only_partial",
        "partition",
        "topic",
    )

    def __init__(
        self,
        data: Bytes,
        topic: str,
        partition: int,
        offset: int,
        *,
        check_crcs: bool = True,
        aborted: Iterable[tuple[int, int]] = (),
        decompressed_limit: int = DEFAULT_LIMIT,
    ) -> None:
        aborted = tuple(aborted)
        self.topic = topic
        self.partition = partition
        self.next_offset = offset
        self.leader_epoch = -1
        self.exhausted = False
        self.only_partial = False
        self._check_crcs = check_crcs
        self._aborted = AbortedTransactions(aborted) if aborted else None
        self._limit = decompressed_limit
        self._data = memoryview(data).cast("B")
        self._at = 0  # where the next batch begins
        self._records: Iterator[Record] | None = None  # wanted records of the current batch
        self._next: Record | None = None  # the first of them, already taken from the iterator
        self._after = 0  # the position after all of them
        self._epoch = -1  # the batch's leader epoch
        self._error: tuple[type[KafkaError], str] | None = None  # raised after them

    def read(self, max_records: int) -> list[Record]:
        """Return the next records in offset order, at most `max_records`.

        Returns:
            Fewer than requested only if the set is exhausted or an error is next; [] if exhausted.

        Raises:
            CorruptRecordException: A CRC, a length, a count, a varint or compressed data is
                invalid, or the message format is unknown.
            RecordTooLargeError: A batch decompresses to more than the limit.
            UnsupportedCodecError: A batch's codec is unknown.
        """
        out: list[Record] = []
        while len(out) < max_records and self._open_next():
            record = self._next
            if record is not None:
                out.append(record)
                self.next_offset = record.offset + 1
                self.leader_epoch = self._epoch
                self._advance()
        self._open_next()  # so that `exhausted` and the position are set as early as possible
        if self._error is not None and not out and max_records > 0:
            kind, message = self._error
            raise kind(message)
        return out

    def raise_limit(self, decompressed_limit: int) -> bool:
        """Continue with a higher limit after a batch exceeded the old one.

        Args:
            decompressed_limit: Maximum bytes of one decompressed batch from now on.

        Returns:
            True if that RecordTooLargeError was pending; `read()` opens the batch again. False if
            nothing changed: another error or no error is pending, or the limit is not higher.
        """
        error = self._error
        if error is None or error[0] is not RecordTooLargeError:
            return False
        if decompressed_limit <= self._limit:
            return False
        self._limit = decompressed_limit
        self._error = None
        return True

    def close(self) -> None:
        """Release `data` before the set is exhausted; no more records are read."""
        self._records = self._next = None
        self._error = None
        self.exhausted = True
        self._data = memoryview(b"")

    def _open_next(self) -> bool:
        """Move to the next record to return; False at the end and at an error."""
        if self._next is not None:
            return True
        try:
            while self._error is None and not self.exhausted:
                size, magic = self._measure()
                if not size:
                    self.only_partial = self._at == 0 and len(self._data) > 0
                    self.close()
                    return False
                self._records = self._open_batch(size) if magic == 2 else self._open_messages(size)
                self._at += size
                if self._records is None:
                    self._pass_over()
                elif self._advance():
                    return True
        except (CorruptRecordException, RecordTooLargeError, UnsupportedCodecError) as error:
            self._fail(type(error), str(error.args[0]))
        return False

    def _advance(self) -> bool:
        """Take the next record of the open batch; False after its last one, and at an error."""
        self._next = None
        try:
            self._next = None if self._records is None else next(self._records, None)
        except (IndexError, ValueError) as error:
            self._fail(CorruptRecordException, f"A record is malformed ({error})")
        except CorruptRecordException as error:
            self._fail(CorruptRecordException, str(error.args[0]))
        else:
            if self._next is None:
                self._records = None
                self._pass_over()
        return self._next is not None

    def _pass_over(self) -> None:
        """Move past the batch, whose last offsets may hold no record."""
        if self._after > self.next_offset:
            self.next_offset = self._after
            self.leader_epoch = self._epoch

    def _measure(self) -> tuple[int, int]:
        """Return size in bytes and magic of the entry that begins here; size 0 if none does."""
        data, at = self._data, self._at
        left = len(data) - at
        if left < LENGTH_END:
            return 0, 0
        size = int.from_bytes(data[at + LENGTH_AT : at + LENGTH_END], signed=True) + LENGTH_END
        if size < LENGTH_END + MESSAGE_OVERHEAD:
            raise CorruptRecordException(f"A batch claims a length of {size - LENGTH_END}")
        if size > left:
            return 0, 0
        magic = data[at + MAGIC_AT]
        if magic > 2:
            raise CorruptRecordException(f"Message format v{magic} is unknown")
        return size, magic

    def _open_batch(self, size: int) -> Iterator[Record] | None:
        """Return the wanted records of a batch, None if it has none."""
        data, at = self._data, self._at
        if size < HEADER_SIZE:
            raise CorruptRecordException(f"A v2 batch claims a length of {size - LENGTH_END}")
        if self._check_crcs and not crc_matches(data, at, size):
            raise CorruptRecordException("A batch's CRC does not match its bytes")
        header = BatchHeader.read(data, at)
        if (
            header.base_offset < 0
            or header.last_offset_delta < 0
            or header.record_count < 0
            or header.last_offset >= _MAX_INT64
        ):
            raise CorruptRecordException("A batch header has impossible offsets or counts")
        self._after = header.last_offset + 1
        self._epoch = max(header.leader_epoch, -1)
        if self._aborted is not None and self._hidden(self._aborted, header, size):
            return None
        if header.control or self._after <= self.next_offset:
            return None
        if not header.record_count and size == HEADER_SIZE:
            return None  # after compaction, there is nothing to decompress
        return self._parse(header, self._payload(header, size), self.next_offset)

    def _payload(self, header: BatchHeader, size: int) -> bytes:
        records = self._data[self._at + HEADER_SIZE : self._at + size]
        if not header.codec:
            return bytes(records)  # slices of bytes are cheaper than slices of a view
        return decompress(records, header.codec, limit=self._limit)

    def _hidden(self, aborted: AbortedTransactions, header: BatchHeader, size: int) -> bool:
        hidden = aborted.hides(
            header.producer_id, header.last_offset, transactional=header.transactional
        )
        if header.control and header.record_count:
            try:
                data = self._payload(header, size)
                if is_abort_marker(next(self._parse(header, data, 0)).key):
                    aborted.on_abort_marker(header.producer_id)
            except (IndexError, ValueError) as error:
                raise CorruptRecordException(f"A control batch is malformed ({error})") from error
        return hidden

    def _parse(self, header: BatchHeader, data: bytes, wanted: int) -> Iterator[Record]:
        """Yield the records from offset `wanted` on.

        Raises:
            ValueError: A record is malformed, or bytes follow the last record.
            IndexError: The records end early.
        """
        topic, partition, kind = self.topic, self.partition, header.timestamp_type
        epoch = max(header.leader_epoch, -1)
        base_offset, last_delta = header.base_offset, header.last_offset_delta
        base_timestamp = header.base_timestamp
        total = len(data)
        previous = -1
        at = 0
        for _ in range(header.record_count):
            length, at = read_varint(data, at)
            end = at + length
            if length < 0 or end > total:
                raise ValueError("an invalid length")
            delta, at = read_varint(data, at + 1)  # past the attributes: none are defined
            timestamp = base_timestamp + delta
            if kind:
                timestamp = header.max_timestamp
            elif not -_MAX_INT64 <= timestamp <= _MAX_INT64:
                timestamp = (timestamp + 2**63) % 2**64 - 2**63  # as Java wraps
            delta, at = read_varint(data, at)
            if not previous < delta <= last_delta:
                raise ValueError("an offset out of order")
            previous = delta
            key, at = _nullable(data, at)
            value, at = _nullable(data, at)
            headers: tuple[tuple[str, bytes | None], ...] = ()
            count, at = read_varint(data, at)
            if count < 0 or 2 * count > end - at:
                raise ValueError("an invalid header count")
            if count:
                headers, at = _headers(data, at, count)
            if at != end:
                raise ValueError("its fields do not fill its length")
            if base_offset + delta >= wanted:
                record = ConsumerRecord(
                    topic,
                    partition,
                    base_offset + delta,
                    timestamp,
                    kind,
                    key,
                    value,
                    None,
                    -1 if key is None else len(key),
                    -1 if value is None else len(value),
                    headers,
                )
                record.leader_epoch = epoch
                yield record
        if at != total:
            raise ValueError("bytes after the last record")

    def _open_messages(self, size: int) -> Iterator[Record] | None:
        entry = self._data[self._at : self._at + size]
        last, messages = open_messages(entry, check_crcs=self._check_crcs, limit=self._limit)
        self._after = last + 1
        self._epoch = -1
        if self._after <= self.next_offset:
            return None
        return self._wanted(messages, self.next_offset)

    def _wanted(self, messages: Iterator[Message], wanted: int) -> Iterator[Record]:
        for message in messages:
            if message.offset >= wanted:
                yield ConsumerRecord(
                    self.topic,
                    self.partition,
                    message.offset,
                    message.timestamp,
                    message.timestamp_type,
                    message.key,
                    message.value,
                    message.crc,
                    -1 if message.key is None else len(message.key),
                    -1 if message.value is None else len(message.value),
                    (),
                )

    def _fail(self, kind: type[KafkaError], why: str) -> None:
        self._records = None
        where = f"topic {self.topic!r}, partition {self.partition}, offset {self.next_offset}"
        self._error = (kind, f"{why}: {where}")


def _nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        return None, at
    return data[at : at + length], at + length


def _headers(data: bytes, at: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    out: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _nullable(data, at)
        if name is None:
            raise ValueError("a header without a name")
        value, at = _nullable(data, at)
        # As in Java, invalid UTF-8 becomes replacement characters; a consumer must not get stuck.
        out.append((name.decode(errors="replace"), value))
    return tuple(out), at
