"""The pure-Python twin of RecordSet: its specification, and what runs without a compiler."""

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
    """A zigzag varint of up to 64 bits at `at`, and where it ends.

    Raises:
        ValueError: It does not fit into 64 bits.
        IndexError: It is cut off.
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

    Control batches, aborted transactions and what compaction removed are passed over, and the
    position with them. A batch cut off at the end is ignored, as every fetch may end in one. What
    is corrupt raises: whatever stands before it is delivered first, then every `read()` raises
    the same error, and the position stays until the application seeks past it.

    Args:
        data: The `records` field. It is not copied, so its memory must stay as it is until the
            set is exhausted or closed.
        topic: Name of the topic.
        partition: Number of the partition.
        offset: The position wanted; records below it are skipped.
        check_crcs: Whether to compare the CRC of every batch.
        aborted: (producer id, first offset) of the aborted transactions in `data`, for
            read_committed; none hides nothing.
        decompressed_limit: Bytes one compressed batch may decompress to.

    Attributes:
        next_offset: The position after what was read.
        leader_epoch: Leader epoch of the last batch that was read from or passed over, so of what
            stands before `next_offset`; -1 before the first one, and where the format has none.
        exhausted: Nothing more can come. Known at the latest when `read()` gave less than asked.
        only_partial: `data` held nothing but the beginning of one batch: it is larger than what
            the fetch asked for. Known when exhausted.
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
        self._records: Iterator[Record] | None = None  # those wanted of the batch being read
        self._next: Record | None = None  # the first of them, already taken from there
        self._after = 0  # the position once all of them were read
        self._epoch = -1  # the batch's leader epoch
        self._error: tuple[type[KafkaError], str] | None = None  # what comes after them

    def read(self, max_records: int) -> list[Record]:
        """The next records in offset order, at most `max_records`.

        Returns:
            Fewer than asked only when the set is exhausted or an error is next; [] when exhausted.

        Raises:
            CorruptRecordException: A CRC, a length, a count, a varint or compressed data is wrong,
                or the message format is unknown.
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
        self._open_next()  # so that `exhausted` and the position are known as soon as can be
        if self._error is not None and not out and max_records > 0:
            kind, message = self._error
            raise kind(message)
        return out

    def close(self) -> None:
        """Let go of `data` before the set is exhausted; nothing more is read."""
        self._records = self._next = None
        self._error = None
        self.exhausted = True
        self._data = memoryview(b"")

    def _open_next(self) -> bool:
        """Go to the next record to deliver; False at the end and at an error."""
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
        """Take the next record of the open batch; False behind its last one, and at an error."""
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
        """Go behind the batch, whose last offsets may hold no record."""
        if self._after > self.next_offset:
            self.next_offset = self._after
            self.leader_epoch = self._epoch

    def _measure(self) -> tuple[int, int]:
        """Size in bytes and magic of the entry that begins here; size 0 where none does."""
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
        """The wanted records of a batch; None where there is nothing to deliver of it."""
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
        """The records from offset `wanted` on.

        Raises:
            ValueError: A record is malformed, or bytes follow the last one.
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
                raise ValueError("a record's length")
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
                raise ValueError("a header count")
            if count:
                headers, at = _headers(data, at, count)
            if at != end:
                raise ValueError("a record that does not end where it should")
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
        # Java reads what is not UTF-8 as replacement characters; a consumer must not get stuck.
        out.append((name.decode(errors="replace"), value))
    return tuple(out), at
