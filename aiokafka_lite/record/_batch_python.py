"""The pure-Python twin of the batch builder: its specification, and the build without a compiler.

A record of a v2 batch (KIP-82, KIP-98), every number a zigzag varint:

    length, attributes (one byte, 0), timestamp delta, offset delta,
    key length (-1 null), key, value length (-1 null), value,
    header count, then for each header: name length, name (UTF-8), value length (-1 null), value
"""

from collections.abc import Iterable
from typing import Final

from aiokafka_lite.errors import IllegalArgumentError, IllegalStateError, MessageSizeTooLargeError
from aiokafka_lite.record.compression import Compression, check_level, compress
from aiokafka_lite.record.header import (
    HEADER_SIZE,
    LENGTH_END,
    TRANSACTIONAL,
    BatchHeader,
    write_crc,
)

Bytes = bytes | bytearray | memoryview
Headers = Iterable[tuple[str, Bytes | None]]

_MAX_TIMESTAMP: Final = 2**63 - 1
_MAX_INT32: Final = 2**31 - 1
_FIRST_SIZE: Final = 16384  # initial bytes of the builder's own buffer, which then doubles
_RECORD_OVERHEAD: Final = 21  # length 5, attributes 1, timestamp delta 10, offset delta 5


def _varint(number: int) -> bytes:
    """Encode a signed 64-bit number as a zigzag varint."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


class _Varints(dict[int, bytes]):
    """Numbers as zigzag varints; keeps the small ones, each from its first use."""

    def __missing__(self, number: int) -> bytes:
        encoded = _varint(number)
        if -64 <= number < 2048:
            self[number] = encoded
        return encoded


_VARINTS: Final = _Varints()
_NULL: Final = _varint(-1)


def _sized(field: Bytes | None, what: str) -> bytes:
    """Encode a nullable field, preceded by its length."""
    if field is None:
        return _NULL
    if isinstance(field, memoryview):
        field = field.tobytes()
    elif not isinstance(field, bytes | bytearray):
        raise TypeError(
            f"{what} must be bytes, bytearray, memoryview or None, not {type(field).__name__}"
        )
    length = len(field)
    return _VARINTS[length] + field


def encoded_headers(headers: object) -> bytes:
    """Encode headers as in a record, preceded by their count."""
    parts: list[bytes] = []
    if not isinstance(headers, Iterable):
        raise TypeError(f"headers must be (str, bytes or None) pairs, not {headers!r}")
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2:
            raise TypeError(f"a header must be a (str, bytes or None) pair, not {header!r}")
        name, value = header
        if not isinstance(name, str):
            raise TypeError(f"a header's name must be str, not {type(name).__name__}")
        try:
            encoded = name.encode()
        except UnicodeEncodeError:
            raise IllegalArgumentError(
                f"a header's name cannot be encoded in UTF-8: {name!r}"
            ) from None
        parts.append(_sized(encoded, "a header's name"))
        parts.append(_sized(value, "a header's value"))
    parts.insert(0, _varint(len(parts) // 2))
    return b"".join(parts)


def record_size_upper_bound(
    key: Bytes | None, value: Bytes | None, headers: Headers | None = ()
) -> int:
    """Return the most bytes that a record can take in any batch, without the batch header.

    Raises:
        TypeError: As for `BatchBuilder.append()`.
    """
    return (
        _RECORD_OVERHEAD
        + len(_sized(key, "key"))
        + len(_sized(value, "value"))
        + (len(encoded_headers(headers)) if headers else 1)
    )


class BatchBuilder:
    """Appends records to one v2 batch until it is full, then seals it.

    The builder may write into a pool's buffer, which the pool reuses when the batch is done. It
    never resizes the pool's buffer, so the pool may reuse it while views of it exist. A first
    record that does not fit gets a separate buffer, and the pool's stays unchanged.

    Args:
        limit: Maximum size of the batch in bytes, including its header of 61 bytes.
        buffer: Buffer of at least `limit` bytes; None: a buffer of the builder's own that grows.
    """

    __slots__ = (
        "_buffer",
        "_payload",
        "_payload_of",
        "_position",
        "_storage",
        "count",
        "first_timestamp",
        "limit",
        "max_timestamp",
        "sealed",
    )

    def __init__(self, limit: int, buffer: bytearray | None = None) -> None:
        if buffer is not None and len(buffer) < limit:
            raise ValueError(f"a buffer of {len(buffer)} bytes cannot hold {limit}")
        self.limit = limit
        self.count = 0  # records appended
        self.first_timestamp = -1  # ms; the base of the deltas
        self.max_timestamp = -1  # ms
        self.sealed = False
        self._position = HEADER_SIZE  # where the next record goes
        self._buffer = buffer  # the pool's, or None
        self._storage = buffer  # where the records are: the pool's buffer or the builder's own
        self._payload: bytes | None = None  # the records, compressed
        self._payload_of: tuple[Compression, int | None] | None = None  # its codec and level

    @property
    def size(self) -> int:
        """Size of the batch so far in bytes, uncompressed, including its header."""
        return self._position

    def append(
        self,
        timestamp_ms: int,
        key: Bytes | None,
        value: Bytes | None,
        headers: Headers | None = (),
    ) -> int:
        """Append one record if it fits.

        Args:
            timestamp_ms: -1 (none) .. 2**63 - 1; may be lower than the previous record's.
            key: None (null) differs from empty.
            value: None (null) differs from empty.
            headers: (name, value) pairs; names may repeat, a value may be None.

        Returns:
            The record's index in the batch, or -1 if it would exceed `limit` or the batch is
            sealed. A first record is always accepted.

        Raises:
            TypeError: A field has the wrong type. Nothing was appended.
            ValueError: The timestamp is out of range, or a header's name is not encodable.
            MessageSizeTooLargeError: The record takes 2 GiB or more.
        """
        record = self._encoded(timestamp_ms, key, value, headers)
        end = self._position + len(record)
        index = self.count
        if end > self.limit or self.sealed:
            if index or self.sealed:
                return -1
            if end > _MAX_INT32:
                raise MessageSizeTooLargeError(f"A record of {len(record)} bytes cannot be written")
        storage = self._storage
        if storage is None or end > len(storage):
            storage = self._grown(end)
        storage[self._position : end] = record
        self._position = end
        if not index:
            self.first_timestamp = self.max_timestamp = timestamp_ms
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        self.count = index + 1
        return index

    def seal(
        self,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes | bytearray | memoryview:
        """Close the batch for appends and write its header.

        May be called again with another producer id, epoch or sequence; the records are not
        compressed a second time. That invalidates the result of an earlier call.

        Args:
            compression: Codec for the records.
            level: See `aiokafka_lite.record.compression.check_level`.

        Returns:
            The whole batch. Uncompressed, it is a view of the builder's buffer, valid until a pool
            reuses that buffer.

        Raises:
            IllegalStateError: The batch is empty.
            KafkaConfigurationError: The codec does not have this level.
        """
        compression = Compression(compression)
        check_level(compression, level)
        storage = self._storage
        if storage is None or not self.count:
            raise IllegalStateError("An empty batch cannot be sealed")
        self.sealed = True  # first, because the event loop continues while a thread compresses
        if compression is Compression.NONE:
            batch: bytearray | memoryview = memoryview(storage)[: self._position]
        else:
            if self._payload is None or self._payload_of != (compression, level):
                with memoryview(storage) as view:
                    records = view[HEADER_SIZE : self._position]
                    self._payload = compress(records, compression, level)
                self._payload_of = (compression, level)
            batch = bytearray(HEADER_SIZE)
            batch += self._payload
        BatchHeader(
            base_offset=0,
            batch_length=len(batch) - LENGTH_END,
            leader_epoch=-1,
            magic=2,
            crc=0,
            attributes=compression | (TRANSACTIONAL if transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.first_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self.count,
        ).write(batch)
        write_crc(batch, 0, len(batch))
        return batch

    def _grown(self, needed: int) -> bytearray:
        """Return a buffer of the builder's own with room for `needed` bytes; the pool's is never
        resized."""
        storage = self._storage
        if storage is None or storage is self._buffer:  # nothing is in it yet
            storage = self._storage = bytearray(max(needed, min(self.limit, _FIRST_SIZE)))
        else:
            size = max(needed, min(self.limit, 2 * len(storage)))
            storage += bytes(size - len(storage))
        return storage

    def _encoded(
        self, timestamp_ms: int, key: Bytes | None, value: Bytes | None, headers: Headers | None
    ) -> bytes:
        if not -1 <= timestamp_ms <= _MAX_TIMESTAMP:
            raise ValueError(f"timestamp_ms {timestamp_ms} is not within -1 .. 2**63 - 1")
        fields = (
            _sized(key, "key"),
            _sized(value, "value"),
            encoded_headers(headers) if headers else b"\x00",
        )
        # Only now, because iterating over the headers may have run code that appended here.
        delta = timestamp_ms - self.first_timestamp if self.count else 0
        if delta > _MAX_TIMESTAMP:
            delta -= 2**64  # from -1 to 2**63 - 1 wraps, and the reader wraps it back
        body = b"\x00%b%b%b%b%b" % (
            _VARINTS[delta],
            _VARINTS[self.count],
            *fields,
        )
        length = len(body)
        return b"%b%b" % (_VARINTS[length], body)
