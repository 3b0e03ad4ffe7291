"""Converts between message format v2, which the logs store, and v0 and v1 of old clients.

It also reads a stored batch's records, which a broker needs only to search for a timestamp. This
module decodes records, so it is imported on first use.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from aiokafka_lite.errors import (
    InvalidRecordError,
    UnsupportedCodecError,
    UnsupportedCompressionTypeError,
)
from aiokafka_lite.protocol.primitives import Buffer
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import CODEC_MASK, MAGIC_AT, BatchHeader
from aiokafka_lite.record.legacy import encode_message_set, read_messages
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing.log.batch_checks import size_at

__all__ = ["records_of", "to_batch", "to_message_set"]

LEGACY_ATTRIBUTES_AT: Final = 17
ANY_SIZE: Final = 2**31 - 1


class StoredRecord(Protocol):
    """The attributes of a record that the broker uses."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


def records_of(batch: Buffer, offset: int) -> Sequence[StoredRecord]:
    """Return the records of one stored v2 batch from `offset` on."""
    return RecordSet(batch, "", 0, offset).read(ANY_SIZE)


def to_batch(records: Buffer | None) -> memoryview:
    """Convert a produced message set to one v2 batch with the same compression.

    Raises:
        CorruptRecordException: The message set is malformed.
        InvalidRecordError: It contains no complete message, or a v2 batch.
        UnsupportedCompressionTypeError: Its codec is unknown.
    """
    view = memoryview(b"" if records is None else records)
    messages = []
    codec, position = Compression.NONE, 0
    try:
        while size := size_at(view, position):
            entry = view[position : position + size]
            if entry[MAGIC_AT] > 1:
                raise InvalidRecordError("a v2 batch requires Produce version 3 or later")
            codec = Compression(entry[LEGACY_ATTRIBUTES_AT] & CODEC_MASK) or codec
            messages += read_messages(entry)
            position += size
    except (UnsupportedCodecError, ValueError) as error:
        raise UnsupportedCompressionTypeError(str(error)) from error
    if not messages:
        raise InvalidRecordError("the message set contains no complete message")
    builder = BatchBuilder(ANY_SIZE)
    for message in messages:
        builder.append(message.timestamp, message.key, message.value)
    return memoryview(builder.seal(codec))


def to_message_set(batches: Buffer, offset: int, magic: int) -> bytes:
    """Convert whole v2 batches, from `offset` on, to a message set; headers are lost.

    Raises:
        UnsupportedCompressionTypeError: A batch is compressed with zstd.
    """
    view = memoryview(batches)
    sets: list[bytes] = []
    position = 0
    while size := size_at(view, position):
        batch = view[position : position + size]
        position += size
        codec = Compression(BatchHeader.read(batch).codec)
        records = records_of(batch, offset)
        if not records:
            continue
        if codec is Compression.ZSTD:
            raise UnsupportedCompressionTypeError("message formats before v2 do not support zstd")
        sets += (
            encode_message_set(
                ((record.timestamp, record.key, record.value) for record in run),
                magic,
                codec,
                base_offset=run[0].offset,
            )
            for run in _runs(records)
        )
    return b"".join(sets)


def _runs(records: Sequence[StoredRecord]) -> Iterator[Sequence[StoredRecord]]:
    """Split records where compaction left a gap in their offsets."""
    first = 0
    for at in range(1, len(records) + 1):
        if at == len(records) or records[at].offset != records[at - 1].offset + 1:
            yield records[first:at]
            first = at
