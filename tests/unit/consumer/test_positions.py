"""Where the consumer stands: tables without a broker."""

import pytest

from aiokafka_lite.consumer.delivery import Chunk
from aiokafka_lite.consumer.options import OffsetReset
from aiokafka_lite.consumer.positions import PartitionState, Positions, error_of
from aiokafka_lite.errors import IllegalStateError, KafkaError
from aiokafka_lite.structs import ConsumerRecord, TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def record(offset: int) -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("a", 0, offset, 0, 0, None, b"v", None, -1, 1, ())


def positions(*partitions: TopicPartition) -> Positions:
    made = Positions(OffsetReset.EARLIEST, 1000)
    made.assign(partitions)
    return made


def test_a_new_partition_waits_for_its_position() -> None:
    state = positions(A0).state(A0)
    assert state.position is None
    assert state.fetch_offset is None
    assert not state.fetchable
    assert state.reset is OffsetReset.EARLIEST
    state.seek(5)
    assert (state.position, state.fetch_offset, state.reset) == (5, 5, None)
    assert state.fetchable


def test_while_records_are_handed_out_the_next_fetch_begins_behind_them() -> None:
    state = positions(A0).state(A0)
    state.seek(5)
    state.chunk = Chunk([record(5), record(6)], 5, 9, True)
    assert (state.position, state.fetch_offset) == (5, 9)
    state.chunk.take_many(1)
    assert (state.position, state.fetch_offset) == (6, 9)
    state.chunk.take_many(1)
    assert (state.position, state.fetch_offset) == (9, 9)
    state.on_chunk_done()
    assert (state.position, state.fetch_offset) == (9, 9)
    assert state.chunk is None


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda state: setattr(state, "paused", True), id="paused"),
        pytest.param(lambda state: state.fail(ValueError(), stays=True), id="error"),
        pytest.param(lambda state: state.ask_reset(OffsetReset.LATEST), id="reset"),
        pytest.param(lambda state: setattr(state, "records", object()), id="undecoded records"),
    ],
)
def test_what_is_not_fetched(spoil: object) -> None:
    state = positions(A0).state(A0)
    state.seek(0)
    assert state.fetchable
    assert callable(spoil)
    spoil(state)
    assert not state.fetchable


@pytest.mark.parametrize("act", ["seek", "reset", "unassign", "assign again"])
def test_an_answer_asked_for_before_counts_no_more(act: str) -> None:
    made = positions(A0)
    state = made.state(A0)
    state.seek(1)
    generation = state.generation
    assert made.is_current(state, generation)
    if act == "seek":
        state.seek(1)
    elif act == "reset":
        state.ask_reset(OffsetReset.LATEST)
    else:
        made.assign([])
        if act == "assign again":
            made.assign([A0])
    assert not made.is_current(state, generation)


def test_assign_keeps_the_position_of_those_that_stay() -> None:
    made = positions(A0, A1)
    made.state(A1).seek(7)
    came, gone = made.assign([A1, B0, A1])
    assert [state.tp for state in came] == [B0]
    assert [state.tp for state in gone] == [A0]
    assert made.partitions() == {A1, B0}
    assert made.state(A1).position == 7
    assert made.get(A0) is None
    assert A0 not in made
    assert B0 in made
    with pytest.raises(IllegalStateError, match="is not assigned"):
        made.state(A0)


def test_without_position_leaves_out_what_has_failed() -> None:
    made = positions(A0, A1, B0)
    made.state(A0).seek(1)
    made.state(A1).fail(ValueError(), stays=False)
    assert [state.tp for state in made.without_position()] == [B0]


def test_an_error_is_raised_once_or_until_a_seek() -> None:
    state = positions(A0).state(A0)
    passing, lasting = ValueError("once"), ValueError("again")
    state.fail(passing, stays=False)
    assert error_of(state) is passing
    assert state.error is None
    state.fail(lasting, stays=True)
    assert error_of(state) is lasting
    assert error_of(state) is lasting
    state.seek(0)
    assert state.error is None
    with pytest.raises(KafkaError):
        error_of(state)


def test_the_share_grows_up_to_a_limit() -> None:
    state = PartitionState(A0, OffsetReset.LATEST, 1000)
    grown = []
    while state.grow(3000):
        grown.append(state.fetch_bytes)
    assert grown == [2000, 3000]
