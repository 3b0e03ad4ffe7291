"""Which batches of a client are rejected, and with which error."""

import struct

import pytest

from aiokafka_lite import errors
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, write_crc
from aiokafka_lite.record.legacy import encode_message_set
from aiokafka_lite.testing.log.batch_checks import check_batch, last_sequence, only_batch
from tests.unit.testing.raw import make_batch

GOOD = make_batch((1, b"k", b"v"), (2, None, b"w"))


def changed(**fields: int) -> bytes:
    """The valid batch with other header fields and a correct checksum."""
    batch = bytearray(GOOD)
    BatchHeader.read(batch)._replace(**fields).write(batch)
    write_crc(batch, 0, len(batch))
    return bytes(batch)


def check(batch: bytes, limit: int = 1000) -> None:
    check_batch(memoryview(batch), BatchHeader.read(batch), limit)


def test_a_good_batch_passes() -> None:
    batch, header = only_batch(GOOD, 9)
    assert batch == GOOD
    check_batch(batch, header, len(GOOD))


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, errors.InvalidRecordError),
        (b"", errors.InvalidRecordError),
        (GOOD[:-1], errors.InvalidRecordError),
        (GOOD + GOOD, errors.InvalidRecordError),
        (encode_message_set([(1, b"k", b"v")], 1), errors.InvalidRecordError),
        (GOOD[:8] + struct.pack(">i", 3) + GOOD[12:], errors.CorruptRecordException),
        (GOOD[:8] + struct.pack(">i", -1) + GOOD[12:], errors.CorruptRecordException),
        (GOOD[:8] + struct.pack(">i", 48) + GOOD[12:60], errors.CorruptRecordException),
        (GOOD[:16] + b"\x03" + GOOD[17:], errors.CorruptRecordException),
    ],
)
def test_not_exactly_one_batch(records: bytes | None, error: type[Exception]) -> None:
    with pytest.raises(error):
        only_batch(records, 9)


def test_a_cut_off_second_batch_is_left_away() -> None:
    assert only_batch(GOOD + GOOD[:20], 9)[0] == GOOD


def test_zstd_needs_produce_7() -> None:
    batch = make_batch((1, b"k", b"v" * 100), compression=Compression.ZSTD)
    assert only_batch(batch, 7)[1].codec == Compression.ZSTD
    with pytest.raises(errors.UnsupportedCompressionTypeError):
        only_batch(batch, 6)


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (GOOD[:-1] + b"\xff", errors.CorruptRecordException),
        (changed(base_offset=5), errors.InvalidRecordError),
        (changed(record_count=0), errors.InvalidRecordError),
        (changed(record_count=3), errors.InvalidRecordError),
        (changed(last_offset_delta=0), errors.InvalidRecordError),
        (changed(attributes=0x20), errors.InvalidRecordError),
        (changed(attributes=0x05), errors.UnknownError),
        (changed(producer_id=4), errors.InvalidRecordError),
    ],
)
def test_refused(batch: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        check(batch)


def test_too_large() -> None:
    with pytest.raises(errors.MessageSizeTooLargeError):
        check(GOOD, len(GOOD) - 1)


def test_sequences_wrap() -> None:
    header = BatchHeader.read(GOOD)._replace(base_sequence=2**31 - 1)
    assert last_sequence(header) == 0
