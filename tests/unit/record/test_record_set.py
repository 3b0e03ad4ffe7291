"""RecordSet in both builds: returned and skipped records, and the position."""

import gc
import sys
import tracemalloc

import pytest

from aiokafka_lite.errors import CorruptRecordException
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.header import BatchHeader, rebase
from aiokafka_lite.record.legacy import encode_message_set
from tests.unit.record.record_batches import T0, batch, control, patched, simple


def read_all(record_set, step=10**6):
    out = []
    while records := record_set.read(step):
        assert len(records) <= step
        out += records
    assert record_set.exhausted
    return out


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_records_of_several_batches_in_any_steps(build, codec, step):
    data = batch(simple(5), 10, codec) + batch(simple(7), 15, codec) + batch(simple(1), 22)
    record_set = build.RecordSet(data, "orders", 3, 10)
    records = read_all(record_set, step)
    assert [r.offset for r in records] == list(range(10, 23))
    assert [r.key for r in records[:5]] == [b"k0", b"k1", b"k2", b"k3", b"k4"]
    first = records[0]
    assert (first.topic, first.partition, first.timestamp, first.timestamp_type) == (
        "orders",
        3,
        T0,
        0,
    )
    assert (first.checksum, first.serialized_key_size, first.serialized_value_size) == (None, 2, 10)
    assert (first.headers, first.leader_epoch) == ((), 7)
    assert record_set.next_offset == 23
    assert not record_set.only_partial


def in_epoch(epoch, data, base_offset):
    rebase(data, 0, base_offset, epoch)
    return data


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_leader_epoch_is_that_of_the_record_before_the_position(build, step):
    data = (
        in_epoch(1, batch(simple(2)), 0)
        + in_epoch(4, batch(simple(3)), 2)
        + in_epoch(6, control(5, 1, commit=True), 5)
        + encode_message_set([(T0, b"k", b"v")], 1, base_offset=6)
    )
    epochs = {0: -1, 1: 1, 2: 1, 3: 4, 4: 4, 6: 6, 7: -1}
    record_set = build.RecordSet(data, "t", 0, 0)
    assert record_set.leader_epoch == -1
    while record_set.read(step):
        assert record_set.leader_epoch == epochs[record_set.next_offset]
    assert (record_set.next_offset, record_set.leader_epoch) == (7, -1)


def test_leader_epoch_of_skipped_batches(build):
    aborted = batch(simple(2), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    data = in_epoch(2, aborted, 0) + in_epoch(3, control(2, 1, commit=False), 2)
    record_set = build.RecordSet(data, "t", 0, 0, aborted=[(1, 0)])
    assert record_set.read(10) == []
    assert (record_set.next_offset, record_set.leader_epoch) == (3, 3)
    record_set = build.RecordSet(data[:-1], "t", 0, 0, aborted=[(1, 0)])
    assert record_set.read(10) == []
    assert (record_set.next_offset, record_set.leader_epoch) == (2, 2)


def test_leader_epoch_stops_before_a_corrupt_batch(build):
    bad = in_epoch(9, batch(simple(2)), 2)
    bad[-1] ^= 1
    record_set = build.RecordSet(in_epoch(1, batch(simple(2)), 0) + bad, "t", 0, 0)
    assert len(record_set.read(10)) == 2
    with pytest.raises(CorruptRecordException):
        record_set.read(10)
    assert (record_set.next_offset, record_set.leader_epoch) == (2, 1)


def test_headers_null_empty_and_repeated(build):
    headers = (("a", None), ("a", b""), ("ü", b"\x00\xff"), ("", b"x" * 300))
    (record,) = read_all(build.RecordSet(batch([(T0, None, b"", headers)]), "t", 0, 0))
    assert record.headers == headers
    assert (record.key, record.value) == (None, b"")
    assert (record.serialized_key_size, record.serialized_value_size) == (-1, 0)


def test_invalid_utf8_in_header_names_is_replaced_as_in_java(build):
    data = batch([(T0, None, None, [("ab", b"")])])
    at = data.index(b"ab")
    data[at : at + 2] = b"\xffb"
    (record,) = read_all(build.RecordSet(patched(data), "t", 0, 0))
    assert record.headers == (("\ufffdb", b""),)


def test_records_below_the_wanted_offset_are_skipped(build):
    data = batch(simple(5), 0) + batch(simple(5), 5, Compression.GZIP) + batch(simple(5), 10)
    record_set = build.RecordSet(data, "t", 0, 7)
    assert record_set.next_offset == 7
    assert [r.offset for r in record_set.read(2)] == [7, 8]
    assert record_set.next_offset == 9
    assert [r.offset for r in read_all(record_set)] == [9, 10, 11, 12, 13, 14]


def test_offset_past_the_end_returns_nothing_and_keeps_the_position(build):
    record_set = build.RecordSet(batch(simple(5), 0), "t", 0, 50)
    assert record_set.read(10) == []
    assert record_set.exhausted
    assert record_set.next_offset == 50


@pytest.mark.parametrize("cut", [1, 11, 12, 16, 17, 60, 61, 100])
def test_a_partial_tail_is_ignored(build, cut):
    whole = batch(simple(5), 0)
    record_set = build.RecordSet(whole + batch(simple(5), 5)[:cut], "t", 0, 0)
    assert len(read_all(record_set)) == 5
    assert record_set.next_offset == 5
    assert not record_set.only_partial
    alone = build.RecordSet(bytes(whole[:cut]), "t", 0, 0)
    assert alone.read(5) == []
    assert (alone.exhausted, alone.only_partial, alone.next_offset) == (True, True, 0)


def test_an_empty_set(build):
    record_set = build.RecordSet(b"", "t", 0, 9)
    assert record_set.read(5) == []
    assert (record_set.exhausted, record_set.only_partial, record_set.next_offset) == (
        True,
        False,
        9,
    )


def test_exhausted_and_position_are_known_with_the_last_record(build):
    data = batch(simple(2), 0) + control(2, 1, commit=True)
    record_set = build.RecordSet(data, "t", 0, 0)
    assert len(record_set.read(2)) == 2
    assert record_set.exhausted
    assert record_set.next_offset == 3


def test_reading_nothing_is_harmless(build):
    record_set = build.RecordSet(batch(simple(3)), "t", 0, 0)
    assert record_set.read(0) == []
    assert record_set.next_offset == 0
    assert len(record_set.read(5)) == 3


def test_the_position_moves_past_control_batches_and_compacted_gaps(build):
    compacted = patched(batch(simple(2), 10), last_offset_delta=9)
    data = control(8, 1, commit=True) + control(9, 1, commit=False) + compacted
    record_set = build.RecordSet(data, "t", 0, 8)
    assert [r.offset for r in record_set.read(10)] == [10, 11]
    assert record_set.next_offset == 20
    emptied = patched(batch(simple(1), 20)[:61], batch_length=49, record_count=0)
    record_set = build.RecordSet(emptied, "t", 0, 20)
    assert record_set.read(10) == []
    assert (record_set.exhausted, record_set.next_offset) == (True, 21)


@pytest.mark.parametrize("step", [1, 100])
def test_aborted_transactions_are_hidden_from_read_committed(build, step):
    def transaction(producer_id, base, count):
        return batch(simple(count), base, producer_id=producer_id, transactional=True)

    data = b"".join(
        [
            transaction(1, 0, 2),  # aborted
            transaction(2, 2, 2),  # committed
            batch(simple(1), 4, producer_id=1),  # not transactional: always visible
            control(5, 1, commit=False),
            transaction(1, 6, 1),  # the next transaction of the same producer, committed
            control(7, 2, commit=True),
            control(8, 1, commit=True),
            transaction(3, 9, 1),  # aborted, its marker not in this set
        ]
    )
    aborted = [(3, 9), (1, 0)]  # older brokers did not sort them
    seen = build.RecordSet(data, "t", 0, 0, aborted=aborted)
    assert [r.offset for r in read_all(seen, step)] == [2, 3, 4, 6]
    assert seen.next_offset == 10
    everything = build.RecordSet(data, "t", 0, 0)
    assert [r.offset for r in read_all(everything, step)] == [0, 1, 2, 3, 4, 6, 9]


def test_log_append_time(build):
    data = batch(simple(3))
    stamped = patched(data, attributes=8, max_timestamp=T0 + 77)
    records = read_all(build.RecordSet(stamped, "t", 0, 0))
    assert {(r.timestamp, r.timestamp_type) for r in records} == {(T0 + 77, 1)}


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda d: memoryview(d)[0:]])
def test_buffer_is_read_in_place_and_released_when_exhausted(build, wrap):
    storage = batch(simple(3))
    record_set = build.RecordSet(wrap(storage), "t", 0, 0)
    records = record_set.read(10)
    assert record_set.exhausted
    storage[:] = bytes(len(storage))
    storage.extend(b"a resize is refused while a view is held")
    assert [r.value for r in records] == [b"v" * 10] * 3


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("kind", [0, 0x20, 0x30])
@pytest.mark.parametrize("aborted", [(), [(1, 0)]])
def test_emptied_batches_are_passed_whatever_their_codec(build, codec, kind, aborted):
    empty = patched(
        batch(simple(1))[:61],
        batch_length=49,
        record_count=0,
        last_offset_delta=6,
        attributes=kind | codec,
    )
    record_set = build.RecordSet(empty + batch(simple(1), 7), "t", 0, 0, aborted=aborted)
    assert [record.offset for record in record_set.read(10)] == [7]
    columns = build.read_columns(
        build.RecordSet(empty + batch(simple(1), 7), "t", 0, 0, aborted=aborted), 10
    )
    assert columns.count == 1
    alone = build.RecordSet(empty, "t", 0, 0, aborted=aborted)
    assert alone.read(10) == []
    assert alone.next_offset == 7


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_close_between_reads_keeps_the_position(build, codec):
    record_set = build.RecordSet(batch(simple(5), 0, codec), "t", 0, 0)
    assert len(record_set.read(2)) == 2
    record_set.close()
    assert record_set.read(2) == []
    assert build.read_columns(record_set, 2) is None
    assert record_set.next_offset == 2


def test_close_releases_the_buffer_early(build):
    storage = batch(simple(3)) + batch(simple(3), 3)
    record_set = build.RecordSet(storage, "t", 0, 0)
    assert len(record_set.read(1)) == 1
    record_set.close()
    gc.collect()
    storage.clear()
    assert record_set.read(10) == []
    assert record_set.exhausted
    record_set.close()


def test_formats_can_be_mixed(build):
    old = [(T0 + i, None, b"old") for i in range(3)]
    data = (
        encode_message_set(old, 0, base_offset=0)
        + encode_message_set(old, 0, Compression.SNAPPY, base_offset=3)
        + encode_message_set(old, 1, Compression.GZIP, base_offset=6)
        + encode_message_set(old, 1, base_offset=9)
        + batch(simple(3), 12, Compression.LZ4)
    )
    record_set = build.RecordSet(data, "t", 0, 1)
    records = read_all(record_set, 2)
    assert [r.offset for r in records] == list(range(1, 15))
    assert [r.timestamp for r in records[:5]] == [-1] * 5
    assert [r.timestamp_type for r in records[:5]] == [-1] * 5
    assert [r.timestamp for r in records[5:8]] == [T0, T0 + 1, T0 + 2]
    assert records[5].checksum is not None
    assert records[11].checksum is None
    assert record_set.next_offset == 15


def test_crc_check_can_be_disabled(build):
    data = batch(simple(1))
    data[17] ^= 1
    assert len(read_all(build.RecordSet(data, "t", 0, 0, check_crcs=False))) == 1


def test_negative_lengths_are_null_as_java_reads_them(build):
    from tests.unit.record.record_batches import with_records

    payload = bytes([12, 0, 0, 0, 3, 5, 0])  # key length -2, value length -3
    (record,) = read_all(build.RecordSet(with_records(payload, 1), "t", 0, 0))
    assert (record.key, record.value) == (None, None)
    assert (record.serialized_key_size, record.serialized_value_size) == (-1, -1)


def test_batch_header_matches_what_was_written():
    header = BatchHeader.read(batch(simple(3), 40))
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (40, 42, 7)
    assert header.size == header.batch_length + 12


def test_close_during_decompression_in_a_thread(build, monkeypatch):
    """Decompression lets other threads run: one of them may close the set meanwhile."""
    module = sys.modules[build.RecordSet.__module__]
    genuine = module.decompress

    def closing(data, codec, *, limit):
        record_set.close()
        return genuine(data, codec, limit=limit)

    monkeypatch.setattr(module, "decompress", closing)
    storage = batch(simple(3), 0, Compression.LZ4) + batch(simple(3), 3)
    record_set = build.RecordSet(storage, "t", 0, 0)
    assert len(record_set.read(10)) <= 3
    assert record_set.exhausted
    assert record_set.read(10) == []
    storage.clear()  # nothing holds it now


def test_reentrant_read_raises(native, monkeypatch):
    module = sys.modules[native.RecordSet.__module__]

    def reading(data, codec, *, limit):
        return record_set.read(1)

    monkeypatch.setattr(module, "decompress", reading)
    record_set = native.RecordSet(batch(simple(3), 0, Compression.LZ4), "t", 0, 0)
    with pytest.raises(RuntimeError, match="one caller at a time"):
        record_set.read(1)


@pytest.mark.parametrize("epoch", [-1, -2, -(2**31)])
def test_negative_leader_epoch_means_none(build, epoch):
    data = batch(simple(1))
    data[12:16] = epoch.to_bytes(4, "big", signed=True)  # not covered by the CRC
    record_set = build.RecordSet(data, "t", 0, 0)
    (record,) = record_set.read(10)
    assert (record.leader_epoch, record_set.leader_epoch) == (-1, -1)


def test_records_are_decoded_lazily(build):
    count = 20_000
    data = batch(((T0, None, b"", ()) for _ in range(count)), codec=Compression.ZSTD)
    record_set = build.RecordSet(data, "t", 0, 0)
    tracemalloc.start()
    try:
        assert len(record_set.read(100)) == 100
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert len(record_set.read(count)) == count - 100
    assert record_set.exhausted


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs __buffer__ (Python 3.12)")
@pytest.mark.parametrize("wrap", [lambda data: data, memoryview])
def test_buffer_is_acquired_once(build, wrap):
    raw = batch(simple(100))

    class Fresh:
        def __buffer__(self, flags):
            return memoryview(bytearray(raw))

    records = build.RecordSet(wrap(Fresh()), "t", 0, 0)
    junk = [bytearray(b"\xff" * len(raw)) for _ in range(50)]
    assert [record.offset for record in records.read(1000)] == list(range(100))
    columns = build.read_columns(build.RecordSet(wrap(Fresh()), "t", 0, 0), 1000)
    assert columns.count == 100
    assert junk
