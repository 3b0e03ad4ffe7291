"""Idempotent producers in one partition: duplicates and sequence gaps."""

import pytest

from aiokafka_lite.errors import InvalidProducerEpoch, OutOfOrderSequenceNumber
from aiokafka_lite.record.header import BatchHeader
from aiokafka_lite.testing.log.producer_state import ProducerTable
from tests.unit.testing.raw import make_batch


def header(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 0) -> BatchHeader:
    return BatchHeader.read(make_batch())._replace(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
        last_offset_delta=count - 1,
    )


def table_of(*batches: tuple[int, int]) -> ProducerTable:
    """A table that has seen batches of (sequence, count), at ten times their sequence."""
    table = ProducerTable()
    for sequence, count in batches:
        found = table.check(header(sequence, count))
        assert found is None
        table.on_append(header(sequence, count), sequence * 10, 99)
    return table


def test_a_repetition_is_known_by_both_its_ends() -> None:
    table = table_of((0, 2), (2, 1))
    found = table.check(header(0, 2))
    assert found is not None
    assert (found.base_offset, found.timestamp) == (0, 99)
    with pytest.raises(OutOfOrderSequenceNumber):
        table.check(header(0, 1))
    with pytest.raises(OutOfOrderSequenceNumber):
        table.check(header(1, 2))


def test_a_gap_is_refused_and_the_next_is_taken() -> None:
    table = table_of((0, 2))
    with pytest.raises(OutOfOrderSequenceNumber):
        table.check(header(3))
    assert table.check(header(2)) is None


def test_five_batches_are_remembered() -> None:
    table = table_of(*((sequence, 1) for sequence in range(6)))
    assert table.check(header(1)) is not None
    with pytest.raises(OutOfOrderSequenceNumber):
        table.check(header(0))


def test_an_unknown_producer_may_begin_anywhere() -> None:
    table = table_of((7, 1))
    table.forget(0)
    assert table.check(header(12)) is None


def test_a_new_epoch_begins_at_zero_and_ends_the_old_one() -> None:
    table = table_of((0, 1))
    with pytest.raises(OutOfOrderSequenceNumber):
        table.check(header(1, epoch=1))
    assert table.check(header(0, epoch=1)) is None
    table.on_append(header(0, epoch=1), 5, 99)
    with pytest.raises(InvalidProducerEpoch):
        table.check(header(1, epoch=0))


def test_the_sequence_wraps_around() -> None:
    table = table_of((2**31 - 2, 2))
    assert table.check(header(0)) is None


def test_producers_are_independent() -> None:
    table = table_of((0, 1))
    assert table.check(header(5, producer_id=1)) is None
