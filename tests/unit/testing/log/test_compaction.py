"""Compaction and retention: tables, and a model with every key's newest value."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, crc_matches
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.testing.log.compaction import DELETE_HORIZON
from aiokafka_lite.testing.log.control_batches import EndMarker
from aiokafka_lite.testing.log.conversion import to_message_set
from aiokafka_lite.testing.topics import Partition
from tests.unit.testing.raw import NOW_MS, SocketlessBroker, make_batch

Entry = tuple[bytes, bytes | None]  # key and value
RETENTION_MS = 1000


class Compacted:
    """A partition of a compacted topic."""

    def __init__(self, **configs: str) -> None:
        self.broker = SocketlessBroker()
        settings_ = {"cleanup.policy": "compact", "delete.retention.ms": str(RETENTION_MS)}
        settings_ |= {name.replace("_", "."): value for name, value in configs.items()}
        topic = self.broker.state.create_topic("orders", 1, configs=settings_)
        self.partition: Partition = topic.partitions[0]
        self.sequences: dict[int, int] = {}

    def write(
        self, *entries: Entry, producer: int = -1, compression: Compression = Compression.NONE
    ) -> None:
        now_ms = self.broker.clock.now_ms()
        fields: dict[str, Any] = {}
        if producer >= 0:
            sequence = self.sequences.get(producer, 0)
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            fields["transactional"] = True
            self.sequences[producer] = sequence + len(entries)
        records = [(now_ms + index, key, value) for index, (key, value) in enumerate(entries)]
        batch = memoryview(make_batch(*records, compression=compression, **fields))
        self.partition.append(batch, BatchHeader.read(batch), 1, now_ms, verified=True)

    def end(self, producer: int, *, committed: bool) -> None:
        self.partition.append_marker(
            producer, 0, EndMarker(committed, 0), 1, self.broker.clock.now_ms()
        )

    def compact(self) -> None:
        self.broker.state.compact("orders")

    def wait(self) -> None:
        """Wait until everything that may be deleted is."""
        self.broker.clock.advance(RETENTION_MS / 1000 + 1)

    def read(self, *, committed: bool = True) -> list[tuple[int, bytes, bytes | None]]:
        log = self.partition.log
        start = log.start_offset
        below = self.partition.last_stable_offset if committed else None
        data = log.read(start, 2**31, below=below)
        aborted = self.partition.aborted_between(start, log.end_offset) if committed else []
        records = RecordSet(data, "orders", 0, start, aborted=aborted).read(10**6)
        return [(record.offset, record.key or b"", record.value) for record in records]

    def headers(self) -> list[BatchHeader]:
        batches = list(self.partition.log.batches())
        assert all(crc_matches(batch, 0, len(batch)) for batch in batches)
        return [BatchHeader.read(batch) for batch in batches]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_clients_get_the_offsets_that_compaction_left(codec: Compression, magic: int) -> None:
    log = Compacted()
    log.write((b"a", b"0"), (b"b", b"1"), (b"c", b"2"), compression=codec)
    log.write((b"b", b"3"), compression=codec)
    log.compact()
    left = [(0, b"a", b"0"), (2, b"c", b"2"), (3, b"b", b"3")]
    assert log.read() == left
    data = to_message_set(log.partition.log.read(0, 2**31), 0, magic)
    records = RecordSet(data, "orders", 0, 0).read(10)
    assert [(record.offset, record.key, record.value) for record in records] == left


@pytest.mark.parametrize("codec", list(Compression))
def test_the_newest_of_each_key_stays_where_it_was(codec: Compression) -> None:
    log = Compacted()
    log.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), compression=codec)
    log.write((b"b", b"2"), compression=codec)
    log.write((b"c", b"1"), (b"c", b"2"), (b"d", b"1"), compression=codec)
    before = log.headers()
    log.compact()
    left = [(2, b"a", b"2"), (3, b"b", b"2"), (5, b"c", b"2"), (6, b"d", b"1")]
    assert log.read() == left
    after = log.headers()
    assert [(h.base_offset, h.last_offset, h.record_count) for h in after] == [
        (0, 2, 1),
        (3, 3, 1),
        (4, 6, 2),
    ]
    assert [header.codec for header in after] == [codec] * 3
    assert after[1] == before[1]
    assert (after[0].base_timestamp, after[0].max_timestamp) == (NOW_MS + 2, NOW_MS + 2)
    log.compact()
    assert log.headers() == after
    log.write((b"a", b"3"))
    assert log.read()[-1] == (7, b"a", b"3")


def test_a_tombstone_stays_until_its_time_is_up() -> None:
    log = Compacted()
    log.write((b"a", b"1"))
    log.write((b"a", None))
    log.write((b"b", b"1"))
    log.compact()
    assert log.read() == [(1, b"a", None), (2, b"b", b"1")]
    tombstone = log.headers()[0]
    assert tombstone.attributes & DELETE_HORIZON
    assert tombstone.base_timestamp == NOW_MS + RETENTION_MS
    records = RecordSet(next(log.partition.log.batches()), "orders", 0, 0).read(9)
    assert [record.timestamp for record in records] == [NOW_MS]
    log.compact()
    assert log.headers()[0] == tombstone
    log.wait()
    log.compact()
    assert log.read() == [(2, b"b", b"1")]
    assert len(log.headers()) == 1


def test_the_end_of_the_log_is_kept_by_an_empty_batch() -> None:
    log = Compacted()
    log.write((b"a", None))
    log.compact()
    log.wait()
    log.compact()
    (left,) = log.headers()
    assert (left.record_count, left.base_offset, left.size) == (0, 0, 61)
    assert log.read() == []
    assert log.partition.log.end_offset == 1


def test_aborted_records_go_at_once_and_their_marker_after_them() -> None:
    log = Compacted()
    log.write((b"a", b"1"))
    log.write((b"a", b"lost"), producer=7)
    log.end(7, committed=False)
    log.write((b"b", b"1"))
    log.write((b"b", b"2"), producer=7)
    log.end(7, committed=True)
    log.write((b"z", b"1"))
    log.compact()
    expected = [(0, b"a", b"1"), (4, b"b", b"2"), (6, b"z", b"1")]
    assert log.read() == log.read(committed=False) == expected
    assert [header.control for header in log.headers()] == [False, True, False, True, False]
    assert log.partition.aborted_between(0, 9) == [(7, 1)]
    log.compact()
    assert log.partition.aborted_between(0, 9) == []  # now none of it remains
    assert log.headers()[1].attributes & DELETE_HORIZON
    assert log.read() == expected
    log.wait()
    log.compact()
    assert [header.base_offset for header in log.headers()] == [0, 4, 5, 6]
    assert log.read() == expected


def test_an_open_transaction_is_left_alone() -> None:
    log = Compacted()
    log.write((b"a", b"1"))
    log.write((b"a", b"2"))
    log.write((b"a", b"3"), producer=7)
    log.write((b"a", b"4"))
    log.compact()
    assert log.read(committed=False) == [(1, b"a", b"2"), (2, b"a", b"3"), (3, b"a", b"4")]


def test_a_producer_is_remembered_by_an_empty_batch() -> None:
    log = Compacted()
    log.write((b"a", b"1"), (b"a", b"2"), producer=7)
    log.end(7, committed=True)
    log.write((b"a", b"3"))
    log.compact()
    emptied = log.headers()[0]
    assert (emptied.producer_id, emptied.base_sequence, emptied.last_offset_delta) == (7, 0, 1)
    assert (emptied.record_count, emptied.size, emptied.base_timestamp) == (0, 61, -1)
    log.partition.restore_producers()  # as after a restart
    log.write((b"b", b"1"), producer=7)
    assert log.read(committed=False)[-1] == (4, b"b", b"1")


def test_young_records_wait_for_their_lag() -> None:
    log = Compacted(min_compaction_lag_ms="5000")
    log.write((b"a", b"1"))
    log.write((b"a", b"2"))
    log.broker.clock.advance(4)
    log.write((b"a", b"3"))
    log.compact()
    assert len(log.read()) == 3
    log.broker.clock.advance(2)
    log.compact()
    assert log.read() == [(1, b"a", b"2"), (2, b"a", b"3")]


def test_only_compacted_topics_are_compacted(broker: SocketlessBroker) -> None:
    broker.state.create_topic("orders", 1)
    with pytest.raises(ValueError, match="'orders' cannot be compacted"):
        broker.state.compact("orders")


keys = st.sampled_from([b"a", b"b", b"c"])
entries = st.lists(
    st.tuples(keys, st.one_of(st.none(), st.binary(max_size=3))), min_size=1, max_size=4
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), entries, st.sampled_from([-1, 1, 2]), st.sampled_from([0, 4])),
        st.tuples(st.sampled_from(["commit", "abort"]), st.sampled_from([1, 2])),
        st.tuples(st.sampled_from(["compact", "wait"])),
    ),
    max_size=25,
)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_every_key_keeps_its_newest_value(done: list[tuple[Any, ...]]) -> None:
    log = Compacted()
    written: list[tuple[int, bytes, bytes | None, int]] = []  # offset, key, value, producer
    settled: dict[int, bool] = {}  # offset -> whether it was committed
    open_: dict[int, list[int]] = {}
    for what, *arguments in [*done, ("compact",)]:
        partition = log.partition
        if what == "write":
            records, producer, codec = arguments
            offset = partition.log.end_offset
            log.write(*records, producer=producer, compression=Compression(codec))
            for index, (key, value) in enumerate(records):
                written.append((offset + index, key, value, producer))
                if producer >= 0:
                    open_.setdefault(producer, []).append(offset + index)
                else:
                    settled[offset + index] = True
        elif what in ("commit", "abort"):
            (producer,) = arguments
            log.end(producer, committed=what == "commit")
            for offset in open_.pop(producer, []):
                settled[offset] = what == "commit"
        elif what == "wait":
            log.wait()
        else:
            end, stable = partition.log.end_offset, partition.last_stable_offset
            log.compact()
            assert (partition.log.end_offset, partition.last_stable_offset) == (end, stable)
            visible = [entry[:3] for entry in written if settled.get(entry[0])]
            below = [entry for entry in visible if entry[0] < stable]
            newest = {key: offset for offset, key, _ in below}
            read = log.read()
            assert set(read) <= set(below)
            assert [entry[0] for entry in read] == sorted(entry[0] for entry in read)
            # Of each key only the newest value remains, but a tombstone may be gone.
            assert {(o, k, v) for o, k, v in read if v is not None} == {
                (o, k, v) for o, k, v in below if newest[k] == o and v is not None
            }
            assert all(newest[key] == offset for offset, key, _ in read)
            undecided = [entry[:3] for entry in written if entry[0] >= stable]
            assert log.read(committed=False)[len(read) :] == undecided
            partition.restore_producers()  # as after a restart
            assert log.read() == read


# Retention


def retained(**configs: str) -> tuple[SocketlessBroker, Partition]:
    """Ten batches of one record each, a second apart."""
    broker = SocketlessBroker()
    names = {name.replace("_", "."): value for name, value in configs.items()}
    partition = broker.state.create_topic("orders", 1, configs=names).partitions[0]
    for _ in range(10):
        batch = memoryview(make_batch((broker.clock.now_ms(), b"k", b"v" * 20)))
        partition.append(batch, BatchHeader.read(batch), 1, broker.clock.now_ms())
        broker.clock.advance(1)
    return broker, partition


def starts_at(**configs: str) -> int:
    broker, partition = retained(**configs)
    broker.state.apply_retention()
    return partition.log.start_offset


SIZE = len(make_batch((NOW_MS, b"k", b"v" * 20)))


@pytest.mark.parametrize(
    ("configs", "start"),
    [
        ({}, 0),
        ({"retention_ms": "5000"}, 5),
        ({"retention_ms": "0"}, 10),
        ({"retention_ms": "-1"}, 0),
        ({"retention_bytes": str(3 * SIZE)}, 7),
        ({"retention_bytes": str(3 * SIZE + 1)}, 6),
        ({"retention_bytes": "0"}, 10),
        ({"retention_bytes": str(8 * SIZE), "retention_ms": "5000"}, 5),
        ({"retention_ms": "5000", "cleanup_policy": "compact"}, 0),
        ({"retention_ms": "5000", "cleanup_policy": "compact,delete"}, 5),
    ],
)
def test_retention(configs: dict[str, str], start: int) -> None:
    assert starts_at(**configs) == start


def test_retention_wakes_and_the_largest_timestamp_goes() -> None:
    broker, partition = retained(retention_ms="5000")
    woken: list[int] = []
    partition.watchers.add(lambda: woken.append(1))
    broker.clock.advance(60)
    broker.state.apply_retention()
    broker.state.apply_retention()
    assert (woken, partition.log.start_offset) == ([1], 10)
    assert partition.log.find_max_timestamp() is None
