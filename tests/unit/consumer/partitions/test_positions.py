"""Positions of a consumer: tables without a broker."""

from uuid import UUID, uuid4

import pytest

from aiokafka_lite.cluster.metadata import Metadata, Node, Partition, Topic
from aiokafka_lite.consumer.consumer_options import OffsetReset
from aiokafka_lite.consumer.partitions.delivery import Chunk
from aiokafka_lite.consumer.partitions.fetch_source import NOWHERE
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions, error_of
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


def test_the_next_fetch_starts_after_the_records_being_delivered() -> None:
    state = positions(A0).state(A0)
    state.seek(5)
    state.fetched.chunk = Chunk([record(5), record(6)], 5, 9, True)
    assert (state.position, state.fetch_offset) == (5, 9)
    state.fetched.chunk.take_many(1)
    assert (state.position, state.fetch_offset) == (6, 9)
    state.fetched.chunk.take_many(1)
    assert (state.position, state.fetch_offset) == (9, 9)
    state.on_chunk_done()
    assert (state.position, state.fetch_offset) == (9, 9)
    assert state.fetched.chunk is None


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda state: setattr(state, "paused", True), id="paused"),
        pytest.param(lambda state: state.fail(ValueError(), stays=True), id="error"),
        pytest.param(lambda state: state.ask_reset(OffsetReset.LATEST), id="reset"),
        pytest.param(
            lambda state: setattr(state.fetched, "records", object()), id="undecoded records"
        ),
    ],
)
def test_reasons_not_to_fetch_a_partition(spoil: object) -> None:
    state = positions(A0).state(A0)
    state.seek(0)
    assert state.fetchable
    assert callable(spoil)
    spoil(state)
    assert not state.fetchable


@pytest.mark.parametrize("act", ["seek", "reset", "unassign", "assign again"])
def test_a_response_to_an_older_request_is_ignored(act: str) -> None:
    made = positions(A0)
    state = made.state(A0)
    state.seek(1)
    generation, asked_in = state.generation, state.fetch_generation
    assert made.is_current(state, generation)
    assert made.awaits_answer(state, asked_in)
    if act == "seek":
        state.seek(1)
    elif act == "reset":
        state.ask_reset(OffsetReset.LATEST)
    else:
        made.assign([])
        if act == "assign again":
            made.assign([A0])
    assert not made.is_current(state, generation)
    assert not made.awaits_answer(state, asked_in)


def test_giving_records_back_outdates_responses_but_not_taken_records() -> None:
    made = positions(A0)
    state = made.state(A0)
    state.follow(told(1, 4))
    state.seek(9, 3)
    generation, asked_in = state.generation, state.fetch_generation
    work = state.begin_work(4, 2)
    state.return_to(7, 3)
    assert (state.position, state.position_epoch) == (7, 3)
    assert state.unvalidated
    assert made.is_current(state, generation)
    assert not made.awaits_answer(state, asked_in)
    assert state.at_work is work
    assert (work.offset, work.epoch) == (4, 2)
    state.return_to(2, 1)  # the processed batch is gone: commit no further than the log's end
    assert (work.offset, work.epoch) == (2, 1)


def test_giving_records_back_keeps_only_earlier_ones_at_work() -> None:
    state = positions(A0).state(A0)
    state.seek(0)
    state.begin_work(0, -1)
    state.seek(9)
    assert state.at_work is None
    early, given_back, late = (state.begin_work(offset, -1) for offset in (2, 5, 7))
    state.give_back(5, -1)
    assert state.at_work is early
    assert early.generation == state.generation
    assert given_back.generation == late.generation == state.generation - 1
    state.end_work(early)
    assert state.at_work is None


def test_the_first_of_all_records_at_work_limits_the_auto_commit() -> None:
    state = positions(A0).state(A0)
    state.seek(9)
    early, late = state.begin_work(2, -1), state.begin_work(7, -1)
    assert state.at_work is early
    state.on_work_committed(5, 3)
    assert (early.offset, early.epoch, late.offset) == (5, 3, 7)
    state.end_work(early)
    assert state.at_work is late


@pytest.mark.parametrize(
    ("found", "kept", "committable"),
    [
        (9, True, (4, 2)),
        (4, True, (4, 2)),
        (2, True, (2, -1)),
        (10, False, None),
        (50, False, None),
    ],
)
def test_a_policy_reset_releases_a_batch_only_if_it_moves_forward(
    found: int, kept: bool, committable: tuple[int, int] | None
) -> None:
    made = positions(A0)
    state = made.state(A0)
    state.seek(10, 3)
    generation, asked_in = state.generation, state.fetch_generation
    work = state.begin_work(4, 2)
    state.reset_by_policy(OffsetReset.LATEST, 10)
    assert state.position is None
    assert made.is_current(state, generation)
    assert not made.awaits_answer(state, asked_in)
    assert state.at_work is work
    looked_up_in = state.fetch_generation
    state.resolve(found)
    assert state.position == found
    assert made.is_current(state, generation) is kept
    assert not made.awaits_answer(state, looked_up_in)
    left = state.at_work
    assert (None if left is None else (left.offset, left.epoch)) == committable


@pytest.mark.parametrize("why", ["seek", "reset", "recreated", "recreated meanwhile"])
def test_a_lookup_below_the_old_position_revives_no_ended_claim(why: str) -> None:
    made = positions(A0)
    state = made.state(A0)
    state.follow(told(1, 4, uuid4()))
    state.seek(10)
    generation = state.generation
    state.begin_work(4, 2)
    if why == "recreated":
        state.follow(told(1, 4, uuid4()))
        state.on_rival_confirmed()
    state.reset_by_policy(OffsetReset.LATEST, 10)
    if why == "seek":
        state.seek(12)
    elif why == "reset":
        state.ask_reset(OffsetReset.EARLIEST)
    elif why == "recreated meanwhile":
        state.follow(told(1, 4, uuid4()))
    if why != "seek":
        state.resolve(6)
    assert not made.is_current(state, generation)
    assert state.at_work is None


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


def test_partitions_that_failed_are_not_listed_as_without_position() -> None:
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
    while state.source.grow(3000):
        grown.append(state.source.fetch_bytes)
    assert grown == [2000, 3000]


def of_epoch(epoch: int, *offsets: int) -> list[ConsumerRecord[bytes, bytes]]:
    records = [record(offset) for offset in offsets]
    for each in records:
        each.leader_epoch = epoch
    return records


def test_a_position_has_the_leader_epoch_of_the_record_before_it() -> None:
    state = positions(A0).state(A0)
    assert (state.position_epoch, state.fetch_epoch) == (-1, -1)
    state.seek(5, 2)
    assert (state.position_epoch, state.fetch_epoch) == (2, 2)
    state.fetched.chunk = Chunk(of_epoch(3, 5, 6) + of_epoch(4, 7), 5, 9, True)
    state.fetched.chunk_epoch = 6  # of the marker behind them
    seen = [(state.position, state.position_epoch, state.fetch_epoch)]
    for _ in range(3):
        state.fetched.chunk.take_many(1)
        seen.append((state.position, state.position_epoch, state.fetch_epoch))
    assert seen == [(5, 2, 6), (6, 3, 6), (7, 3, 6), (9, 6, 6)]
    state.on_chunk_done()
    assert (state.position_epoch, state.fetch_epoch) == (6, 6)
    state.ask_reset(OffsetReset.LATEST)
    assert (state.position_epoch, state.fetch_epoch) == (-1, -1)
    state.seek(1)
    assert state.position_epoch == -1


def told(leader: int, epoch: int, topic_id: UUID | None = None) -> Metadata:
    topic = Topic("a", topic_id, partitions={0: Partition(0, leader, epoch)})
    return Metadata(brokers={i: Node(i, "host", 9092) for i in (1, 2)}, topics={"a": topic})


@pytest.mark.parametrize(
    ("known", "metadata", "doubtful"),
    [
        pytest.param(3, told(1, 4), False, id="nothing new"),
        pytest.param(3, told(2, 5), True, id="another leader"),
        pytest.param(3, told(1, 5), True, id="the same in a new epoch"),
        pytest.param(3, told(2, -1), False, id="an epoch that is not told"),
        pytest.param(3, told(-1, 5), False, id="no leader"),
        pytest.param(3, told(9, 5), False, id="a leader that is not alive"),
        pytest.param(-1, told(2, 5), False, id="a position without an epoch"),
        pytest.param(3, Metadata(), False, id="no such topic now"),
    ],
)
def test_leader_changes_that_require_validation(
    known: int, metadata: Metadata, doubtful: bool
) -> None:
    state = positions(A0).state(A0)
    state.follow(told(1, 4))
    assert (state.leader, state.leader_epoch, state.unvalidated) == (1, 4, False)
    state.seek(7, known)
    state.unvalidated = False
    state.source.replica = 2
    state.follow(metadata)
    assert state.unvalidated is doubtful
    assert state.fetchable is not doubtful
    moved = (state.leader, state.leader_epoch) != (1, 4)
    assert state.source.replica == (NOWHERE if moved else 2)  # the old leader named it


@pytest.mark.parametrize("epoch", [-1, 3])
@pytest.mark.parametrize("leads", [False, True])
def test_a_position_with_a_leader_epoch_needs_validation(epoch: int, leads: bool) -> None:
    state = positions(A0).state(A0)
    if leads:
        state.follow(told(1, 4))
    state.seek(7, epoch)
    assert state.unvalidated is (leads and epoch >= 0)
    state.follow(told(1, 4))
    assert state.unvalidated is (epoch >= 0)


def test_a_topic_made_again_makes_every_position_doubtful() -> None:
    old, new = uuid4(), uuid4()
    state = positions(A0).state(A0)
    state.follow(told(1, 4, old))
    state.seek(7)
    state.follow(told(1, 4, None))
    state.follow(told(1, 4, old))
    assert not state.unvalidated
    state.follow(told(1, 4, new))
    assert (state.remade, state.rival_id) == (False, new)
    assert not state.fetchable
    state.on_rival_confirmed()
    assert (state.remade, state.rival_id, state.topic_id) == (True, None, new)
    assert not state.fetchable
    state.follow(told(2, 5, new))  # which does not help
    assert state.unvalidated
    state.ask_reset(OffsetReset.EARLIEST)
    assert not state.remade
    generation = state.generation
    asked_in = state.fetch_generation
    state.follow(told(1, 0, old))
    assert state.fetch_generation > asked_in
    assert state.generation > generation  # the pending lookup is of the wrong topic
    assert not state.remade
    assert (state.rival_id, state.topic_id) == (None, old)


def test_an_id_that_is_taken_back_changes_no_position() -> None:
    known, other = uuid4(), uuid4()
    state = positions(A0).state(A0)
    state.follow(told(1, 4, known))
    state.seek(7)
    generation = state.generation
    state.follow(told(2, 9, other))
    assert (state.leader, state.leader_epoch) == (1, 4)  # 2 leads a topic that may be gone
    assert not state.fetchable
    state.follow(told(1, 4, known))
    assert (state.rival_id, state.topic_id, state.remade) == (None, known, False)
    assert (state.position, state.generation) == (7, generation)
    assert state.unvalidated  # again, by its epoch


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_seek_while_ids_contradict_each_other_stays(confirmed: bool) -> None:
    known, other = uuid4(), uuid4()
    state = positions(A0).state(A0)
    state.follow(told(1, 4, known))
    state.seek(7)
    state.follow(told(1, 4, other))
    state.seek(3)
    assert not state.fetchable
    state.follow(told(1, 4, other if confirmed else known))
    state.on_rival_confirmed()
    assert (state.topic_id, state.rival_id) == (other if confirmed else known, None)
    assert (state.position, state.remade) == (3, False)


@pytest.mark.parametrize("act", ["give_back", "return_to"])
@pytest.mark.parametrize("confirmed", [True, False])
def test_a_position_to_return_to_is_one_of_the_topic_that_was_read(
    act: str, confirmed: bool
) -> None:
    known, other = uuid4(), uuid4()
    state = positions(A0).state(A0)
    state.follow(told(1, 4, known))
    state.seek(10)
    state.follow(told(1, 4, other))
    if confirmed:
        state.on_rival_confirmed()
    getattr(state, act)(6, -1)
    assert (state.position, state.unvalidated, state.remade) == (6, True, confirmed)
    if not confirmed:
        assert (state.topic_id, state.rival_id) == (known, other)
        state.on_rival_confirmed()
        assert state.remade


def test_a_reset_while_ids_contradict_each_other_takes_the_next_one() -> None:
    known, other = uuid4(), uuid4()
    state = positions(A0).state(A0)
    state.follow(told(1, 4, known))
    state.seek(7)
    state.follow(told(1, 4, other))
    state.ask_reset(OffsetReset.EARLIEST)
    assert (state.topic_id, state.rival_id) == (None, None)
    state.seek(0)
    state.follow(told(1, 4, known))
    assert (state.topic_id, state.rival_id) == (known, None)
    assert state.fetchable
