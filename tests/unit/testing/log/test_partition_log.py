"""PartitionLog compared with a plain list of records, and the edge cases beyond the list."""

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lite.record.header import BatchHeader, crc_matches
from aiokafka_lite.testing.log.conversion import records_of
from aiokafka_lite.testing.log.partition_log import FIRST_SEGMENT_BYTES, LogStore, PartitionLog
from tests.unit.testing.raw import NOW_MS, make_batch


def append(log: PartitionLog, *records: tuple[int, bytes | None, bytes | None]) -> int:
    batch = memoryview(make_batch(*records))
    return log.append(batch, BatchHeader.read(batch), log.epochs[-1][0])


def new_log() -> PartitionLog:
    log = PartitionLog()
    log.begin_epoch(0)
    return log


def offsets_in(data: memoryview | bytes, offset: int) -> list[int]:
    """Offsets of the records in the whole batches of `data`."""
    found, at = [], 0
    while len(data) - at >= 61 and len(data) - at >= BatchHeader.read(data, at).size:
        size = BatchHeader.read(data, at).size
        found += [record.offset for record in records_of(data[at : at + size], offset)]
        at += size
    return found


batches = st.lists(
    st.lists(
        st.tuples(st.integers(0, 50), st.none(), st.binary(max_size=9000)), min_size=1, max_size=4
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(batches, st.data())
def test_reads_and_looks_up_as_a_list_would(
    contents: list[list[tuple[int, None, bytes]]], data: st.DataObject
) -> None:
    log = new_log()
    timestamps = []
    for records in contents:
        assert append(log, *records) == len(timestamps)
        timestamps += [timestamp for timestamp, _, _ in records]
    assert log.end_offset == log.high_watermark == len(timestamps)

    log.delete_before(data.draw(st.integers(0, len(timestamps)), "log start"))
    start = data.draw(st.integers(log.start_offset, len(timestamps)), "fetch offset")
    everything = list(range(start, len(timestamps)))
    whole = log.read(start, 2**31)
    assert offsets_in(whole, start) == everything
    assert len(whole) == log.available_bytes(start)

    limit = data.draw(st.integers(0, len(whole) + 1), "max bytes")
    first = BatchHeader.read(whole).size if len(whole) else 0
    assert log.read(start, limit) == whole[: max(limit, first)]
    held_back = b"" if limit < first else whole[:limit]
    assert log.read(start, limit, at_least_one=False) == held_back

    wanted = data.draw(st.integers(-1, 51), "timestamp")
    left = [(t, offset) for offset, t in enumerate(timestamps) if offset >= log.start_offset]
    late_enough = [(offset, t) for t, offset in left if t >= wanted]
    found = log.find_timestamp(wanted)
    assert (found and found[:2]) == (late_enough[0] if late_enough else None)

    largest = log.find_max_timestamp()
    entries = [(t, offset) for offset, t in enumerate(timestamps)]
    expected = min(entries, key=lambda entry: (-entry[0], entry[1])) if entries else None
    assert (largest and (largest.timestamp, largest.offset)) == expected


def test_rewrites_offset_and_epoch_and_nothing_else() -> None:
    log = new_log()
    append(log, (1, b"k", b"v"))
    log.begin_epoch(3)
    original = make_batch((5, b"k", b"v"), (6, None, None))
    append(log, (5, b"k", b"v"), (6, None, None))
    stored = bytes(log.read(1, 2**31))
    header = BatchHeader.read(stored)
    assert (header.base_offset, header.leader_epoch) == (1, 3)
    assert stored[8:12] + stored[16:] == original[8:12] + original[16:]
    assert crc_matches(stored, 0, len(stored))


def test_append_time_replaces_the_timestamps_and_keeps_the_checksum_right() -> None:
    log = new_log()
    batch = memoryview(make_batch((5, None, b"a"), (6, None, b"b")))
    log.append(batch, BatchHeader.read(batch), 0, NOW_MS)
    stored = log.read(0, 2**31)
    assert [record.timestamp for record in records_of(stored, 0)] == [NOW_MS, NOW_MS]
    assert BatchHeader.read(stored).timestamp_type == 1
    assert log.find_timestamp(7) == (0, NOW_MS, 0)


def test_a_read_may_run_over_segments_and_stops_below_an_offset() -> None:
    log = new_log()
    value = bytes(FIRST_SEGMENT_BYTES // 3)
    for _ in range(12):
        append(log, (NOW_MS, None, value))
    assert offsets_in(log.read(1, 2**31), 1) == list(range(1, 12))
    assert offsets_in(log.read(1, 2**31, below=5), 1) == [1, 2, 3, 4]
    assert log.read(5, 2**31, below=5) == b""


def test_bytes_that_were_read_never_change() -> None:
    log = new_log()
    append(log, (1, None, b"first"))
    held = log.read(0, 2**31)
    before = bytes(held)
    for _ in range(2000):
        append(log, (2, None, b"x" * 100))
    log.delete_before(log.end_offset)
    assert bytes(held) == before


def test_epochs() -> None:
    log = new_log()
    assert log.end_of_epoch(0) == (0, 0)
    append(log, (1, None, b""), (1, None, b""))
    log.begin_epoch(2)
    log.begin_epoch(4)  # nothing was appended in epoch 2
    append(log, (1, None, b""))
    assert [log.end_of_epoch(epoch) for epoch in range(-1, 6)] == [
        (-1, -1),
        (0, 2),
        (0, 2),
        (0, 2),
        (0, 2),
        (4, 3),
        (-1, -1),
    ]
    assert [log.epoch_of(offset) for offset in range(4)] == [0, 0, 4, 4]


def test_an_empty_log_finds_nothing() -> None:
    log = new_log()
    assert log.read(0, 100) == b""
    assert log.find_timestamp(0) is None
    assert log.find_max_timestamp() is None


class KeptBatches(LogStore):
    """Stands for a file."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []
        self.start = 0
        self.end = 0

    def append(self, batch: memoryview) -> None:
        self.kept.append(bytes(batch))
        self.end = BatchHeader.read(batch).last_offset + 1

    def rewrite(self, batches: Iterable[memoryview], start_offset: int, end_offset: int) -> None:
        self.kept = [bytes(batch) for batch in batches]
        self.start, self.end = start_offset, end_offset

    def move_start(self, offset: int) -> None:
        self.start = offset


class Model:
    """A log as a list of (base offset, last offset, epoch, timestamps); None is a gap."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[int | None], int]] = []
        self.start = self.end = 0
        self.epochs: list[tuple[int, int]] = [(0, 0)]

    def append(self, timestamps: list[int]) -> None:
        self.batches.append((self.end, list(timestamps), self.epochs[-1][0]))
        self.end += len(timestamps)

    def truncate(self, offset: int) -> None:
        if offset >= self.end:
            return
        if offset <= self.start:
            self.batches = []
        cut = [base for base, records, _ in self.batches if base + len(records) > offset]
        self.end = min([offset, *cut])
        self.batches = [batch for batch in self.batches if batch[0] < self.end]
        self.start = min(self.start, self.end)
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end]

    def delete_before(self, offset: int) -> None:
        if offset <= self.start:
            return
        self.start = min(offset, self.end)
        known = [entry for entry in self.epochs if entry[1] <= self.start]
        self.epochs = self.epochs[len(known) :]
        if known:
            self.epochs.insert(0, (known[-1][0], self.start))

    def begin_epoch(self, epoch: int) -> None:
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end]
        self.epochs.append((epoch, self.end))

    def drop(self, wanted: int) -> None:
        """Remove a batch from the middle, as compaction may; the last one stays."""
        live = [b for b in self.batches if b[0] + len(b[1]) > self.start][:-1]
        if live:
            self.batches.remove(live[wanted % len(live)])
        self.batches = [b for b in self.batches if b[0] + len(b[1]) > self.start]

    def records(self, offset: int) -> list[tuple[int, int]]:
        return [
            (base + index, timestamp)
            for base, timestamps, _ in self.batches
            for index, timestamp in enumerate(timestamps)
            if timestamp is not None and base + index >= offset
        ]


def read_all(log: PartitionLog, offset: int) -> list[tuple[int, int]]:
    data = log.read(offset, 2**31)
    found, at = [], 0
    while at < len(data):
        size = BatchHeader.read(data, at).size
        batch = data[at : at + size]
        found += [(record.offset, record.timestamp) for record in records_of(batch, offset)]
        at += size
    return found


changes = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
        st.tuples(st.just("append"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
        st.tuples(st.sampled_from(["truncate", "delete_before", "drop"]), st.integers(0, 40)),
        st.tuples(st.just("begin_epoch"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(changes, st.integers(1, 12000), st.data())
def test_truncation_deletion_and_compaction_match_a_list(
    done: list[tuple[str, object]], size: int, data: st.DataObject
) -> None:
    store = KeptBatches()
    log, model = PartitionLog(store), Model()
    log.begin_epoch(0)
    epoch = 0
    for what, argument in done:
        if what == "append":
            assert isinstance(argument, list)
            append(log, *[(timestamp, None, bytes(size)) for timestamp in argument])
            model.append(argument)
        elif what == "begin_epoch":
            epoch += 1
            log.begin_epoch(epoch)
            model.begin_epoch(epoch)
        else:
            assert isinstance(argument, int)
            getattr(model, what)(argument)
            if what == "drop":
                bases = {base for base, _, _ in model.batches}
                log.rewrite([b for b in log.batches() if BatchHeader.read(b).base_offset in bases])
            elif what == "truncate":
                assert log.truncate(argument) == model.end
                if not model.epochs:  # every new leader begins one
                    epoch += 1
                    log.begin_epoch(epoch)
                    model.begin_epoch(epoch)
            else:
                log.delete_before(argument)

        assert (log.start_offset, log.end_offset) == (model.start, model.end)
        assert log.epochs == model.epochs
        left = model.records(model.start)
        assert read_all(log, log.start_offset) == left
        # Deleted records may still count as long as they are stored.
        assert log.max_timestamp >= max((timestamp for _, timestamp in left), default=-1)

    wanted = data.draw(st.integers(0, 31), "timestamp")
    late_enough = [record for record in model.records(model.start) if record[1] >= wanted]
    found = log.find_timestamp(wanted)
    assert (found and found[:2]) == (late_enough[0] if late_enough else None)
    offset = data.draw(st.integers(model.start, model.end), "offset")
    assert len(log.read(offset, 2**31)) == log.available_bytes(offset)

    loaded = PartitionLog()
    loaded.load(store.kept, store.start, store.end, store)
    assert (loaded.start_offset, loaded.end_offset) == (model.start, model.end)
    assert read_all(loaded, loaded.start_offset) == model.records(model.start)
    everything = [timestamp for _, timestamp in model.records(model.start)]
    assert loaded.max_timestamp == max(everything, default=-1)
    loaded.begin_epoch(epoch)
    append(loaded, (99, None, b""))
    assert store.end == model.end + 1


def test_read_bytes_survive_a_truncation() -> None:
    log = new_log()
    append(log, (1, None, b"first"))
    append(log, (1, None, b"second"))
    held = log.read(0, 2**31)
    before = bytes(held)
    log.truncate(1)
    append(log, (2, None, b"another"))
    assert bytes(held) == before
    assert read_all(log, 0) == [(0, 1), (1, 2)]


def test_a_read_in_a_gap_returns_at_least_the_batch_after_it() -> None:
    log = new_log()
    value = bytes(FIRST_SEGMENT_BYTES // 2)
    for _ in range(9):
        append(log, (NOW_MS, None, value))
    kept = [batch for batch in log.batches() if BatchHeader.read(batch).base_offset in (0, 5, 8)]
    log.rewrite(kept)
    assert offsets_in(log.read(1, 1), 1) == [5]
    assert offsets_in(log.read(6, 2**31), 6) == [8]
    assert log.available_bytes(1) == sum(len(batch) for batch in kept[1:])
    assert log.available_bytes(0, below=8) == sum(len(batch) for batch in kept[:2])
