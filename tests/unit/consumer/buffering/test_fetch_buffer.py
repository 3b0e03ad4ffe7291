"""Fetched records that were not handed out: queues, chunks, memory, errors; without broker or
loop."""

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.consumer.buffering import fetch_buffer
from aiokafka_lite.consumer.buffering.fetch_buffer import ALL, FetchBuffer
from aiokafka_lite.consumer.consumer_options import OffsetReset
from aiokafka_lite.consumer.partitions.delivery import EMPTY, Delivery, Record
from aiokafka_lite.consumer.partitions.positions import PartitionState, Positions
from aiokafka_lite.consumer.partitions.response_body import ResponseBody
from aiokafka_lite.errors import CorruptRecordException, KafkaError, RecordTooLargeError
from aiokafka_lite.record.compression import DEFAULT_LIMIT, Compression, decompress
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition
from tests.unit.consumer.makers import batch, control_batch, numbered


class Bench:
    """A buffer with partitions 0, 1, 2 of "t", and the calls it made."""

    def __init__(self, **deserializers: Any) -> None:
        self.drained: list[int] = []
        self.released: list[int] = []
        self.heavy: list[tuple[PartitionState, RecordSet]] = []
        self.awaited: list[list[TopicPartition]] = []
        self.buffer = FetchBuffer(
            Delivery(),
            key_deserializer=deserializers.get("key"),
            value_deserializer=deserializers.get("value"),
            fetch_max_bytes=4000,
            on_drained=lambda states: self.drained.extend(s.tp.partition for s in states),
            on_heavy=lambda state, records: self.heavy.append((state, records)),
            awaited=lambda: self.awaited,
        )
        self.buffer.delivery.until = float("inf")
        self.positions = Positions(OffsetReset.EARLIEST, 1000)
        self.positions.assign([TopicPartition("t", i) for i in range(3)])
        for state in self.positions:
            state.seek(0)

    def __getitem__(self, partition: int) -> PartitionState:
        return self.positions.state(TopicPartition("t", partition))

    def arrive(
        self,
        *parts: tuple[int, bytes | bytearray],
        heavy: bool = False,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        """One response with data for these partitions."""
        body = ResponseBody(sum(len(data) for _, data in parts), self.released.append)
        for partition, data in parts:
            state = self[partition]
            assert state.fetch_offset is not None
            records = RecordSet(data, "t", partition, state.fetch_offset, decompressed_limit=limit)
            self.buffer.add(state, records, body, heavy=heavy)

    def seek(self, partition: int, offset: int) -> None:
        self.buffer.forget(self[partition])
        self[partition].seek(offset)

    def decode(self, limit: int = 4) -> None:
        """What a thread does with the oldest heavy set."""
        state, records = self.heavy.pop(0)
        try:
            self.buffer.install(state, records, records.read(limit))
        except KafkaError as error:
            self.buffer.install(state, records, error)

    def read(self, limit: int = 4) -> list[tuple[int, int]]:
        """All records one by one, as `async for` takes them: (partition, offset)."""
        seen = []
        while (it := self.buffer.next_chunk(limit)) is not None:
            self.buffer.delivery.current = it
            while (taken := self.buffer.delivery.take()) is not None:
                seen.append((taken.partition, taken.offset))
        return seen

    def lists(self, limit: int = ALL, among: list[int] | None = None) -> dict[int, list[int]]:
        states = None if among is None else [self[i] for i in among]
        taken = self.buffer.take_lists(limit, states)
        return {tp.partition: offsets(records) for tp, records in taken.items()}


def offsets(records: list[Record]) -> list[int]:
    return [each.offset for each in records]


def test_records_come_in_the_order_their_responses_did() -> None:
    bench = Bench()
    bench.arrive((1, batch(numbered(3))), (0, batch(numbered(2))))
    bench.arrive((2, batch(numbered(1))))
    assert bench.read() == [(1, 0), (1, 1), (1, 2), (0, 0), (0, 1), (2, 0)]
    assert [bench[i].position for i in range(3)] == [2, 3, 1]
    assert bench.buffer.waiting == 0


def test_a_partition_may_be_fetched_once_decoded_before_it_is_delivered() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(10))))
    it = bench.buffer.next_chunk(4)
    assert it is not None
    assert bench.drained == []
    assert not bench[0].fetchable
    for _ in range(2):
        it.take_many(4)
        it = bench.buffer.next_chunk(4)
        assert it is not None
    # The last two records are decoded, none of them handed out.
    assert bench.drained == [0]
    assert bench[0].fetchable
    assert (bench[0].position, bench[0].fetch_offset) == (8, 10)


def test_an_early_response_waits_behind_the_others() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(2))), (1, batch(numbered(2))))
    first = bench.buffer.next_chunk(4)
    assert first is not None
    bench.arrive((0, batch(numbered(2), base_offset=2)))
    bench.buffer.delivery.current = first
    assert bench.read() == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3)]


def test_lists_hold_at_most_one_response_of_a_partition() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(2))), (1, batch(numbered(2))))
    first = bench.buffer.next_chunk(4)
    assert first is not None
    first.take_many(1)
    bench.arrive((0, batch(numbered(2), base_offset=2)))
    assert bench.lists() == {0: [1], 1: [0, 1]}
    assert bench.lists() == {0: [2, 3]}
    assert bench.lists() == {}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_lists_contain_exactly_the_requested_number_of_records(limit: int) -> None:
    bench = Bench()
    bench.arrive(*((i, batch(numbered(5))) for i in range(3)))
    counts, seen = [], set()
    while taken := bench.lists(limit):
        counts.append(sum(len(each) for each in taken.values()))
        seen |= {(partition, offset) for partition, each in taken.items() for offset in each}
    assert all(count == limit for count in counts[:-1])
    assert sum(counts) == len(seen) == 15


def test_lists_and_single_records_take_turns() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(10))))
    it = bench.buffer.next_chunk(4)
    assert it is not None
    assert offsets(it.take_many(1)) == [0]
    assert bench.lists(5) == {0: [1, 2, 3, 4, 5]}
    assert bench[0].position == 6
    assert bench.read() == [(0, 6), (0, 7), (0, 8), (0, 9)]


def test_only_the_requested_partitions_are_returned() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(2))), (1, batch(numbered(2))))
    assert bench.lists(among=[1, 2]) == {1: [0, 1]}
    assert bench.buffer.next_chunk(4, [bench[1]]) is None
    assert bench.lists() == {0: [0, 1]}


def test_the_requested_partitions_take_turns() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(2))), (1, batch(numbered(2))))
    among = [bench[0], bench[1]]
    first = bench.buffer.next_chunk(4, among)
    assert first is not None
    bench.arrive((0, batch(numbered(2), base_offset=2)))  # it always has something
    first.take_many(2)
    second = bench.buffer.next_chunk(4, among)
    assert second is not None
    assert second is bench[1].fetched.chunk


def test_a_lasting_error_does_not_starve_the_other_requested_partitions() -> None:
    bench = Bench()
    bench.buffer.fail(bench[0], KafkaError("stays"), stays=True)
    bench.arrive((1, batch(numbered(2))))
    with pytest.raises(KafkaError, match="stays"):
        bench.lists(among=[0, 1])
    assert bench.lists(among=[0, 1]) == {1: [0, 1]}


def test_memory_is_free_when_the_last_part_of_a_response_is_decoded() -> None:
    bench = Bench()
    small, large = batch(numbered(2)), batch(numbered(100))
    bench.arrive((0, small), (1, large))
    size = len(small) + len(large)
    assert bench.buffer.bytes == size
    assert bench.lists(among=[0]) == {0: [0, 1]}
    assert bench.buffer.bytes == size
    assert bench.released == []
    assert bench.buffer.next_chunk(100, [bench[1]]) is not None
    assert len(bench.lists()[1]) == 100
    assert bench.buffer.bytes == 0
    assert bench.released == [size]


def test_forget_drops_all_and_frees_the_memory() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(10))), (1, batch(numbered(1))))
    it = bench.buffer.next_chunk(4)
    assert it is not None
    bench.buffer.delivery.current = it
    bench.buffer.forget(bench[0])
    bench[0].seek(7)
    assert bench.buffer.delivery.current is EMPTY
    assert bench[0].position == 7
    assert bench.read() == [(1, 0)]
    assert bench.buffer.bytes == 0


def test_a_paused_partition_keeps_its_place() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(6))), (1, batch(numbered(1))))
    it = bench.buffer.next_chunk(4)
    assert it is not None
    bench.buffer.delivery.current = it
    assert bench.buffer.delivery.take() is not None
    bench.buffer.pause(bench[0])
    assert bench.buffer.delivery.take() is None
    assert bench[0].position == 1
    assert bench.read() == [(1, 0)]
    bench.buffer.resume(bench[0])
    assert bench.read() == [(0, i) for i in range(1, 6)]


def test_data_that_arrives_for_a_paused_partition_is_held() -> None:
    bench = Bench()
    bench.buffer.pause(bench[0])
    bench.arrive((0, batch(numbered(2))))
    assert bench.read() == []
    bench.buffer.resume(bench[0])
    assert bench.read() == [(0, 0), (0, 1)]


def test_evicting_paused_data_frees_memory_and_keeps_positions() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(10))))
    it = bench.buffer.next_chunk(4)
    assert it is not None
    it.take_many(2)
    bench.buffer.pause(bench[0])
    bench.buffer.evict_paused()
    assert bench.buffer.bytes == 0
    assert (bench[0].position, bench[0].fetch_offset) == (2, 4)
    bench.buffer.resume(bench[0])
    assert bench[0].fetchable
    assert bench.read() == [(0, 2), (0, 3)]
    bench.arrive((0, batch(numbered(10))))
    assert bench.read() == [(0, i) for i in range(4, 10)]


def test_the_position_moves_past_control_records_and_gaps() -> None:
    bench = Bench()
    bench.arrive((0, control_batch()))
    assert bench.read() == []
    assert bench[0].position == 1
    assert bench.drained == [0]
    bench.arrive((0, batch(numbered(2), 5) + control_batch(7)))
    assert bench.read() == [(0, 5), (0, 6)]
    assert bench[0].position == 8
    bench.arrive((0, control_batch(8)))
    assert bench.lists() == {}
    assert bench[0].position == 9


def corrupt(data: bytearray) -> bytearray:
    data[-1] ^= 0xFF
    return data


def test_records_before_a_corrupt_batch_are_delivered_and_none_is_skipped() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(3)) + corrupt(batch(numbered(3), 3))))
    before = bench.buffer.next_chunk(10)
    assert before is not None
    assert offsets(before.take_many(10)) == [0, 1, 2]
    with pytest.raises(CorruptRecordException, match="topic 't', partition 0, offset 3"):
        bench.buffer.next_chunk(10)
    assert bench[0].position == 3
    assert bench.buffer.bytes == 0
    assert bench[0].fetchable  # it is read again: the fault may have been in transit
    assert bench.drained == [0, 0]


def test_lists_come_before_the_error_behind_them() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(3)) + corrupt(batch(numbered(3), 3))))
    bench.arrive((1, batch(numbered(1))))
    assert bench.lists() == {0: [0, 1, 2]}
    with pytest.raises(CorruptRecordException):
        bench.lists()
    assert bench.lists() == {1: [0]}


def test_a_lasting_error_does_not_starve_other_partitions() -> None:
    bench = Bench()
    bench.buffer.fail(bench[0], KafkaError("no"), stays=True)
    bench.arrive((1, batch(numbered(1))))
    for _ in range(2):
        with pytest.raises(KafkaError, match="no"):
            bench.buffer.next_chunk(4)
        bench.lists(among=[1])
    bench.buffer.forget(bench[0])
    bench[0].seek(0)
    assert bench.read() == []


def test_an_error_is_raised_after_the_records_before_it() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(1))))
    bench.lists()
    bench.arrive((0, batch(numbered(1), 1)))
    bench.buffer.fail(bench[0], KafkaError("later"), stays=False)
    assert bench.lists() == {0: [1]}
    with pytest.raises(KafkaError, match="later"):
        bench.lists()
    assert bench.lists() == {}


def test_deserializers() -> None:
    bench = Bench(value=json.loads, key=lambda key: key.decode())
    bench.arrive((0, batch([b'{"a": 1}', b"[2]"])))
    (records,) = bench.buffer.take_lists(ALL).values()
    assert [each.value for each in records] == [{"a": 1}, [2]]
    assert [each.key for each in records] == ["k0", "k1"]
    assert records[0].serialized_value_size == 8


def test_a_record_that_cannot_be_deserialized_is_named_and_not_skipped() -> None:
    bench = Bench(value=json.loads)
    data = batch([b"1", b"2", b"poison", b"4"])
    bench.arrive((0, data))
    before = bench.buffer.next_chunk(10)
    assert before is not None
    assert [each.value for each in before.take_many(10)] == [1, 2]
    for _ in range(2):
        with pytest.raises(json.JSONDecodeError) as caught:
            bench.buffer.next_chunk(10)
        assert "value of t-0 offset 2" in caught.value.__notes__[0]
        assert bench[0].position == 2
        assert bench[0].fetchable
        bench.arrive((0, data))  # fetched again: the deserializer may succeed next time
    bench.buffer.forget(bench[0])
    bench[0].seek(3)
    bench.arrive((0, data))
    assert bench.read() == [(0, 3)]


def test_an_interrupted_deserializer_skips_nothing() -> None:
    interrupts = [KeyboardInterrupt()]

    def interrupted(value: bytes | None) -> bytes | None:
        if value == b"v5" and interrupts:
            raise interrupts.pop()
        return value

    bench = Bench(value=interrupted)
    bench.arrive((0, batch(numbered(10))))
    with pytest.raises(KeyboardInterrupt):
        bench.read()
    position = bench[0].position
    assert position == 4  # the records before it were handed out
    assert bench[0].fetchable
    assert (bench.drained, bench.released) == ([0], [len(batch(numbered(10)))])


@pytest.mark.parametrize("columns", [False, True])
def test_interrupted_decoding_skips_nothing(columns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(RecordSet.__module__)
    interrupts: list[BaseException] = [KeyboardInterrupt(), MemoryError()]

    def interrupted(*args: Any, **options: Any) -> bytes:
        if interrupts:
            raise interrupts.pop(0)
        return decompress(*args, **options)

    monkeypatch.setattr(module, "decompress", interrupted)
    bench = Bench()
    plain = batch(numbered(2))
    data = plain + batch(numbered(2, 2), 2, compression=Compression.LZ4)
    take = bench.buffer.take_columns if columns else bench.buffer.take_batch
    for kind in (KeyboardInterrupt, MemoryError):
        bench.arrive((0, data))
        with pytest.raises(kind):
            take(10)
        assert bench[0].position == 0
        assert bench[0].fetchable
    bench.arrive((0, data))
    taken = 0
    while (it := take(10)) is not None:
        taken += len(it)
    assert taken == 4


def interrupted_once(at: bytes) -> Callable[[bytes | None], bytes | None]:
    """A deserializer that raises KeyboardInterrupt the first time it sees `at`."""
    interrupts = [KeyboardInterrupt()]

    def deserialize(value: bytes | None) -> bytes | None:
        if value == at and interrupts:
            raise interrupts.pop()
        return value

    return deserialize


def test_lists_of_other_partitions_are_read_again_after_an_interrupt() -> None:
    bench = Bench(value=interrupted_once(b"v7"))
    parts = [(0, batch(numbered(3))), (1, batch(numbered(2), 0)), (2, batch([b"v7"]))]
    bench.arrive(*parts)
    assert bench.buffer.take_lists(1) != {}  # the first record of partition 0
    with pytest.raises(KeyboardInterrupt):
        bench.buffer.take_lists(ALL)
    assert [bench[each].position for each in range(3)] == [1, 0, 0]
    assert all(bench[each].fetchable for each in range(3))
    assert sorted(bench.drained) == [0, 1, 2]
    assert (bench.buffer.bytes, len(bench.released)) == (0, 1)
    bench.arrive(*parts)
    taken = bench.buffer.take_lists(ALL)
    assert {tp.partition: [each.offset for each in records] for tp, records in taken.items()} == {
        0: [1, 2],
        1: [0, 1],
        2: [0],
    }


def test_control_batches_are_not_read_again_after_another_partitions_error() -> None:
    bench = Bench()
    bench.arrive((0, control_batch()))
    bench.buffer.fail(bench[1], KafkaError(), stays=True)
    with pytest.raises(KafkaError):
        bench.buffer.take_lists(ALL)
    assert bench[0].position == 1


def test_decoded_records_are_read_again_after_an_interrupt_of_the_same_batch() -> None:
    bench = Bench(value=interrupted_once(b"v5"))
    bench.arrive((0, batch(numbered(10))))
    first = bench.buffer.next_chunk(4)
    assert first is not None
    first.take_many(1)
    with pytest.raises(KeyboardInterrupt):
        bench.buffer.take_batch(10)  # the chunk decoded before, then records 4 to 9
    assert bench[0].position == 1
    assert bench[0].fetchable
    bench.arrive((0, batch(numbered(10))))
    taken = bench.buffer.take_batch(10)
    assert taken is not None
    assert [each.offset for each in taken.records] == list(range(1, 10))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError, OverflowError])
def test_decoded_records_that_become_no_columns_are_read_again(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def columns_of(records: list[Record]) -> None:
        raise kind

    bench = Bench()
    bench.arrive((0, batch(numbered(10))))
    first = bench.buffer.next_chunk(4)
    assert first is not None
    first.take_many(1)
    with monkeypatch.context() as patch:
        patch.setattr(fetch_buffer, "columns_of", columns_of)
        with pytest.raises(kind):
            bench.buffer.take_columns(10)
    assert bench[0].position == 1
    assert bench[0].fetchable
    bench.arrive((0, batch(numbered(10))))
    taken = bench.buffer.take_columns(10)
    assert taken is not None
    assert (taken.start, taken.next_offset) == (1, 10)


def test_a_deserializer_that_seeks() -> None:
    bench: Bench = Bench(value=lambda value: bench.seek(0, 7))
    bench.arrive((0, batch(numbered(10))))
    assert bench.read() == []
    assert bench[0].position == 7
    assert bench.buffer.bytes == 0


def test_a_truncated_record_is_fetched_again_with_a_larger_limit() -> None:
    bench = Bench()
    cut = batch([bytes(5000)])[:1000]
    shares = []
    for _ in range(3):
        bench.arrive((0, cut))
        if bench[0].source.fetch_bytes == 4000:
            with pytest.raises(RecordTooLargeError, match="offset 0 is larger than"):
                bench.read()
            continue
        assert bench.read() == []
        shares.append(bench[0].source.fetch_bytes)
        assert bench[0].fetchable
    assert shares == [2000, 4000]
    assert bench[0].position == 0
    with pytest.raises(RecordTooLargeError):
        bench.read()
    bench.buffer.forget(bench[0])
    bench[0].seek(1)
    assert bench[0].fetchable


def test_a_heavy_set_is_decoded_elsewhere() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(10))), heavy=True)
    bench.arrive((1, batch(numbered(1))))
    seen = bench.read()
    assert seen == [(1, 0)]
    for _ in range(3):
        assert not bench[0].fetchable
        bench.decode()
        seen += bench.read()
    assert seen[1:] == [(0, i) for i in range(10)]
    assert bench.heavy == []
    assert bench[0].fetchable
    assert bench.buffer.bytes == 0


def bomb(start: int) -> bytearray:
    return batch([b"0" * 100_000] * 2, start, compression=Compression.GZIP)


@pytest.mark.parametrize("read", ["one by one", "lists", "batches", "columns"])
def test_a_batch_that_grows_beyond_the_limit_is_decoded_elsewhere(read: str) -> None:
    bench = Bench()
    data = batch(numbered(2)) + bomb(2) + batch(numbered(1, 4), 4)
    bench.arrive((0, data), (1, batch(numbered(1))), limit=50_000)
    seen: list[tuple[int, int]] = []

    def take() -> None:
        before = None
        while before != len(seen):
            before = len(seen)
            if read == "one by one":
                seen.extend(bench.read())
            elif read == "lists":
                for tp, records in bench.buffer.take_lists(100).items():
                    seen.extend((tp.partition, r.offset) for r in records)
            elif read == "batches":
                if (taken := bench.buffer.take_batch(100)) is not None:
                    seen.extend((r.partition, r.offset) for r in taken)
            elif (columns := bench.buffer.take_columns(100)) is not None:
                partition = columns.topic_partition.partition
                seen.extend((partition, columns.start + i) for i in range(len(columns)))

    take()
    assert sorted(seen) == [(0, 0), (0, 1), (1, 0)]  # the others do not wait for it
    assert [state.tp.partition for state, _ in bench.heavy] == [0]
    bench.decode(100)
    take()
    assert sorted(seen) == [*((0, i) for i in range(5)), (1, 0)]
    assert bench.heavy == []
    assert bench.buffer.bytes == 0
    assert sorted(bench.drained) == [0, 1]


def test_a_batch_beyond_the_limit_of_threads_fails() -> None:
    bench = Bench()
    bench.arrive((0, bomb(0)), limit=DEFAULT_LIMIT)
    assert bench.read() == [(0, 0), (0, 1)]
    too_large = RecordSet(bomb(2), "t", 0, 2, decompressed_limit=50_000)
    with pytest.raises(RecordTooLargeError):
        too_large.read(1)
    assert not too_large.raise_limit(50_000)


def test_a_seek_before_a_thread_has_decoded_drops_the_set() -> None:
    bench = Bench()
    bench.arrive((0, bomb(0)), limit=50_000)
    assert bench.read() == []
    bench.seek(0, 7)
    assert bench.buffer.bytes == 0
    bench.decode()
    assert bench.read() == []
    assert bench[0].position == 7


def test_a_heavy_set_in_lists() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(6))), heavy=True)
    assert bench.lists() == {}
    bench.decode()
    assert bench.lists(3) == {0: [0, 1, 2]}
    assert bench.lists() == {0: [3]}
    bench.decode()
    assert bench.lists() == {0: [4, 5]}


def test_a_heavy_set_that_arrives_behind_a_chunk_waits_for_it() -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(2))))
    first = bench.buffer.next_chunk(4)
    assert first is not None
    bench.arrive((0, batch(numbered(2, 2), 2)), heavy=True)
    assert bench.heavy == []
    bench.buffer.delivery.current = first
    assert bench.read() == [(0, 0), (0, 1)]
    bench.decode()
    assert bench.read() == [(0, 2), (0, 3)]


@pytest.mark.parametrize("act", ["seek", "pause", "clear"])
def test_a_partition_that_changes_while_a_thread_decodes_it(act: str) -> None:
    bench = Bench()
    bench.arrive((0, batch(numbered(4))), heavy=True)
    if act == "seek":
        bench.buffer.forget(bench[0])
        bench[0].seek(9)
    elif act == "pause":
        bench.buffer.pause(bench[0])
    else:
        bench.buffer.clear(bench.positions)
    bench.decode()
    assert bench.read() == []
    if act == "pause":
        bench.buffer.resume(bench[0])
        assert bench.read() == [(0, i) for i in range(4)]
    assert bench.buffer.bytes == 0


def begun(bench: Bench) -> list[int]:
    return [state.tp.partition for state, _ in bench.heavy]


def heavy_bench(*partitions: int) -> Bench:
    bench = Bench()
    for partition in partitions:
        bench.arrive((partition, batch(numbered(6))), heavy=True)
    return bench


def test_a_few_heavy_sets_are_open_at_once() -> None:
    bench = heavy_bench(0, 1, 2)
    assert begun(bench) == [0, 1]
    bench.decode()  # a batch of partition 0 is decompressed now
    assert bench.read() == [(0, i) for i in range(4)]
    assert begun(bench) == [1, 0]
    bench.decode()
    bench.decode()  # to its end, but the rest was not taken
    assert begun(bench) == []
    assert bench.read() == [(1, i) for i in range(4)] + [(0, 4), (0, 5)]
    assert begun(bench) == [1, 2]
    assert bench.buffer.bytes > 0


@pytest.mark.parametrize("decoded", [False, True])
def test_a_paused_partition_leaves_its_place(decoded: bool) -> None:
    bench = heavy_bench(0, 1, 2)
    if decoded:
        bench.decode()
    bench.buffer.pause(bench[0])
    assert begun(bench)[-1] == 2
    bench.buffer.pause(bench[1])
    bench.buffer.resume(bench[0])
    bench.buffer.resume(bench[1])
    if not decoded:
        bench.decode()  # the started set is finished
    bench.decode()
    assert bench.read() == [(p, i) for p in (0, 1) for i in range(4)]
    assert begun(bench) == [2, 0]  # the returned partition waits for a place
    bench.decode(6)
    assert bench.read() == [(2, i) for i in range(6)]
    assert begun(bench) == [0, 1]


def test_a_read_of_certain_partitions_has_one_of_them_decoded() -> None:
    bench = heavy_bench(0, 1, 2)
    bench.buffer.on_starved()
    assert begun(bench) == [0, 1]
    bench.awaited = [[], [bench[1].tp, bench[2].tp]]
    bench.buffer.on_starved()
    assert begun(bench) == [0, 1]
    bench.awaited = [[bench[2].tp]]
    bench.buffer.on_starved()
    assert begun(bench) == [0, 1, 2]


def test_a_waiting_read_gets_the_next_records() -> None:
    bench = heavy_bench(0, 1)
    bench.awaited = [[bench[2].tp]]
    bench.arrive((2, batch(numbered(1))), heavy=True)
    assert begun(bench) == [0, 1, 2]


def test_paused_data_without_a_slot_is_dropped_to_free_memory() -> None:
    bench = heavy_bench(0, 1, 2)
    before = bench.buffer.bytes
    bench.buffer.pause(bench[2])
    bench.buffer.evict_paused()
    assert bench.buffer.bytes == before * 2 / 3
    assert bench[2].fetched.records is None
    bench.buffer.resume(bench[2])
    assert bench[2].fetchable
    assert begun(bench) == [0, 1]


@pytest.mark.parametrize("act", ["forget", "clear"])
def test_a_cancelled_read_leaves_its_turn_to_the_next(act: str) -> None:
    bench = heavy_bench(0, 1, 2)
    if act == "forget":
        bench.buffer.forget(bench[0])
        assert begun(bench) == [0, 1, 2]
    else:
        bench.buffer.clear(bench.positions)
        assert begun(bench) == [0, 1]


def test_a_heavy_set_that_is_corrupt() -> None:
    bench = Bench()
    bench.arrive((0, corrupt(batch(numbered(4)))), heavy=True)
    bench.decode()
    with pytest.raises(CorruptRecordException):
        bench.read()
