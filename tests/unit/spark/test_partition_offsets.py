"""Ranges of offsets: Spark's JSON, the shares of a batch, and its tasks. No broker, no Spark."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lite.errors import KafkaConfigurationError
from aiokafka_lite.spark.partition_offsets import (
    EARLIEST,
    EARLY_RECORDS,
    EARLY_TASKS,
    LATER_RECORDS,
    LATEST,
    OffsetRange,
    begin_in,
    from_journal,
    grouped,
    listed,
    parse_offsets,
    parse_partitions,
    parse_timestamps,
    prorated,
    split,
    to_journal,
)
from aiokafka_lite.structs import TopicPartition

A0, A1, A2, B0 = (TopicPartition(*each) for each in [("a", 0), ("a", 1), ("a", 2), ("b", 0)])

ranges_of_any_size = st.lists(
    st.builds(
        lambda number, start, size: OffsetRange("t", number, start, start + size),
        st.integers(0, 40),
        st.integers(0, 10**6),
        st.integers(0, 10**6),
    ),
    max_size=30,
    unique_by=lambda each: each.partition,
)


# JSON


def test_offsets_of_partitions_and_of_whole_topics() -> None:
    told = parse_offsets('{"a":{"0":23,"1":-1,"2":"-2"},"b":"Earliest","c":"latest"}')
    assert told.partitions == {A0: 23, A1: LATEST, A2: EARLIEST}
    assert told.topics == {"b": EARLIEST, "c": LATEST}


@pytest.mark.parametrize(
    "text",
    ["", "soon", "[]", '{"a":7}', '{"a":{"x":1}}', '{"a":{"0":1.5}}', '{"a":{"0":true}}',
     '{"a":{"0":-3}}', '{"a":{"-1":3}}', '{"a":{"0":9223372036854775808}}', '{"a":"soon"}',
     '{"a":{"0":null}}'],
)  # fmt: skip
def test_invalid_offsets_show_an_example(text: str) -> None:
    with pytest.raises(KafkaConfigurationError) as error:
        parse_offsets(text)
    assert 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got ' in str(error.value)
    assert str(error.value).endswith(text)


def test_partitions() -> None:
    assert parse_partitions('{"b":[0],"a":[1,0,1]}') == [A0, A1, B0]
    for wrong in ('{"a":0}', '{"a":[-1]}', '{"a":["x"]}', "a"):
        with pytest.raises(KafkaConfigurationError, match=r"topicA.*got"):
            parse_partitions(wrong)


def test_timestamps() -> None:
    assert parse_timestamps('{"a":{"0":1700000000000}}') == {A0: 1700000000000}
    for wrong in ('{"a":{"0":-1}}', '{"a":1}', "7"):
        with pytest.raises(KafkaConfigurationError, match="123456789"):
            parse_timestamps(wrong)


def test_the_journal_is_the_json_of_sparks_own_connector() -> None:
    offsets = {B0: 4, A1: 2, A0: 1}
    text = json.dumps(to_journal(offsets), separators=(",", ":"))
    assert text == '{"a":{"0":1,"1":2},"b":{"0":4}}'
    assert from_journal(json.loads(text)) == offsets
    assert begin_in(json.loads(text)) is None


def test_the_first_end_contains_the_start() -> None:
    dashed = TopicPartition("with-a-dash-7", 3)
    journal = json.loads(json.dumps(to_journal({A0: 9}, {dashed: 1, A0: 4})))
    assert from_journal(journal) == {A0: 9}
    assert begin_in(journal) == {dashed: 1, A0: 4}
    assert begin_in(json.loads(json.dumps(to_journal({}, {})))) == {}
    assert parse_offsets(json.dumps(journal)).partitions == {A0: 9}  # copied by a user


def test_partitions_as_text() -> None:
    assert listed([B0, A1]) == "a-1, b-0"
    assert listed([]) == "none"


# Shares


def test_each_partition_gives_its_share() -> None:
    until = prorated(10, {A0: 0, A1: 100, A2: 7}, {A0: 60, A1: 140, A2: 7})
    assert until == {A0: 6, A1: 104, A2: 7}


def test_the_smallest_partition_does_not_starve() -> None:
    until = prorated(10, {A0: 0, A1: 0}, {A0: 1_000_000, A1: 1})
    assert until == {A0: 9, A1: 1}


def test_a_partition_without_a_start_is_taken_whole() -> None:
    assert prorated(1, {A0: 0}, {A0: 5, A1: 9}) == {A0: 1, A1: 9}


def test_no_new_records_give_an_empty_batch() -> None:
    assert prorated(5, {A0: 3, A1: 9}, {A0: 3, A1: 8}) == {A0: 3, A1: 8}


@given(st.integers(1, 10**9), st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_shares_do_not_exceed_the_available_offsets(limit: int, sizes: list[int]) -> None:
    starts = {TopicPartition("t", number): 5 for number in range(len(sizes))}
    ends = {TopicPartition("t", number): 5 + size for number, size in enumerate(sizes)}
    until = prorated(limit, starts, ends)
    assert until.keys() == ends.keys()
    for tp, end in ends.items():
        assert (until[tp] > 5) is (end > 5)  # each partition with records contributes some
        assert until[tp] <= end
    taken = sum(until.values()) - 5 * len(sizes)
    assert taken <= limit * (1 + 1e-9) + len(sizes)


# Pieces


def test_ranges_stay_whole_unless_more_pieces_are_wanted() -> None:
    ranges = [OffsetRange("b", 0, 0, 9), OffsetRange("a", 0, 3, 3), OffsetRange("a", 1, 5, 2)]
    assert split(ranges) == [OffsetRange("b", 0, 0, 9)]
    assert split(ranges, min_partitions=1) == [OffsetRange("b", 0, 0, 9)]


def test_pieces_of_one_range_leave_the_rest_to_the_last() -> None:
    assert split([OffsetRange("a", 0, 10, 20)], min_partitions=3) == [
        OffsetRange("a", 0, 10, 13),
        OffsetRange("a", 0, 13, 16),
        OffsetRange("a", 0, 16, 20),
    ]


def test_small_ranges_are_left_whole_and_large_ones_pay() -> None:
    ranges = [OffsetRange("a", 0, 0, 10000), OffsetRange("a", 1, 0, 100), OffsetRange("a", 2, 0, 1)]
    pieces = split(ranges, min_partitions=5)
    assert [each.partition for each in pieces] == [0, 0, 0, 1, 2]
    assert [each.size for each in pieces] == [3333, 3333, 3334, 100, 1]


def test_more_pieces_than_offsets() -> None:
    assert len(split([OffsetRange("a", 0, 0, 3)], min_partitions=10)) == 3


def test_pieces_have_at_most_max_records() -> None:
    pieces = split([OffsetRange("a", 0, 0, 25), OffsetRange("a", 1, 0, 10)], max_records=10)
    assert [each.size for each in pieces] == [8, 8, 9, 10]


def test_records_count_first_then_pieces() -> None:
    pieces = split([OffsetRange("a", 0, 0, 40)], max_records=20, min_partitions=4)
    assert [(each.start, each.end) for each in pieces] == [(0, 10), (10, 20), (20, 30), (30, 40)]


@given(
    ranges_of_any_size,
    st.none() | st.integers(1, 100),
    st.none() | st.integers(1_000, 10**6),
)
def test_pieces_are_the_ranges(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    pieces = split(ranges, min_partitions=min_partitions, max_records=max_records)
    assert pieces == sorted(pieces)
    assert all(each.size > 0 for each in pieces)
    _assert_same_offsets(pieces, ranges)
    if max_records is not None:
        assert all(each.size <= max_records for each in pieces)


def _assert_same_offsets(pieces: list[OffsetRange], ranges: list[OffsetRange]) -> None:
    for whole in ranges:
        parts = [each for each in pieces if each.partition == whole.partition]
        if whole.size <= 0:
            assert not parts
            continue
        assert parts[0].start == whole.start
        assert parts[-1].end == whole.end
        for one, other in pairwise(parts):
            assert one.end == other.start


# Tasks


def _of_sizes(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", number, 0, size) for number, size in enumerate(sizes)]


def test_small_batches_have_few_tasks_and_large_ones_one_for_each_partition() -> None:
    def tasks(records: int, partitions: int) -> int:
        return len(grouped(_of_sizes(*[records // partitions] * partitions)))

    assert tasks(256, 256) == 1
    assert tasks(3 * EARLY_RECORDS, 6) == 3
    assert tasks(100 * EARLY_RECORDS, 6) == 6
    assert tasks(EARLY_TASKS * EARLY_RECORDS, 256) == EARLY_TASKS
    assert tasks(100 * LATER_RECORDS, 400) == 100
    assert tasks(2 * LATER_RECORDS, 256) == EARLY_TASKS


def test_tasks_are_as_many_as_the_user_wants() -> None:
    ranges = _of_sizes(*[10] * 6)
    assert len(grouped(ranges, max_tasks=4)) == 4
    assert len(grouped(ranges, max_tasks=9)) == 6
    assert len(grouped(ranges, one_each=True)) == 6
    assert grouped([]) == []
    assert grouped([], max_tasks=3) == []


def test_tasks_are_about_equally_large() -> None:
    tasks = grouped(_of_sizes(9, 8, 7, 1, 1, 1, 1, 1, 1), max_tasks=3)
    assert sorted(sum(each.size for each in task) for task in tasks) == [10, 10, 10]


@given(ranges_of_any_size, st.none() | st.integers(1, 12))
def test_every_range_is_in_one_task_whatever_the_order(
    ranges: list[OffsetRange], max_tasks: int | None
) -> None:
    there = [each for each in ranges if each.size]
    tasks = grouped(there, max_tasks=max_tasks)
    assert sorted(each for task in tasks for each in task) == sorted(there)
    assert all(task and list(task) == sorted(task) for task in tasks)
    assert grouped(there[::-1], max_tasks=max_tasks) == tasks
