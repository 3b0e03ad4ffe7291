"""ShareRecord in both builds: a ConsumerRecord with a lock."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
from typing import Any

import pytest

from aiokafka_lite import ConsumerRecord, _build
from aiokafka_lite.errors import CorruptRecordException, IllegalStateError
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.legacy import encode_message_set
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.share.records._share_record_python import AcquiredRange
from aiokafka_lite.share.records.offset_states import ABSENT, ACCEPT, GAP, HELD, REJECT, RELEASE
from aiokafka_lite.share.records.record_marks import Marks, OutcomeCore

FIELDS = {
    "topic": "orders",
    "partition": 3,
    "offset": 2**62,
    "timestamp": 1_700_000_000_000,
    "timestamp_type": 0,
    "key": b"key",
    "value": None,
    "checksum": None,
    "serialized_key_size": 3,
    "serialized_value_size": -1,
    "headers": (("h", None), ("h", b"")),
    "leader_epoch": 7,
}


class Held(Marks):
    """Ten acquired offsets from 100 on."""

    __slots__ = ("calls",)

    def __init__(self, base: int = 100, size: int = 10) -> None:
        super().__init__(base, bytearray(size), 50.0)
        self.outcome = OutcomeCore()
        self.calls: list[tuple[object, ...]] = []

    def _mark_slowly(self, offset: int, kind: int) -> Any:
        self.calls.append(("slowly", offset, kind))

    def renew(self, offset: int) -> Any:
        self.calls.append(("renew", offset))


def encoded(count: int, first: int = 0) -> bytes:
    builder = BatchBuilder(16_384)
    for number in range(first, first + count):
        headers = [("h", b"%d" % number)] if number % 2 else []
        builder.append(number, None if number % 3 else b"k", b"v%d" % number, headers)
    return bytes(builder.seal())


def decoded(offsets: range) -> list[ConsumerRecord[Any, Any]]:
    found = RecordSet(encoded(len(offsets), offsets.start), "orders", 3, 0).read(len(offsets))
    for record, offset in zip(found, offsets, strict=True):
        record.offset = offset
    return found


def delivered(records: Any, *, marks: Marks | None = None) -> Any:
    ranges = [records.AcquiredRange(100, 109, 4)]
    [record] = records.AcquiredPicker(ranges, [marks or Held()]).pick(decoded(range(100, 101)))
    return record


@pytest.fixture
def records(records):
    records.AcquiredRange = AcquiredRange
    return records


def test_it_has_the_fields_of_the_decoded_record(records) -> None:
    plain = decoded(range(100, 110))
    shared = records.AcquiredPicker([records.AcquiredRange(100, 109, 2)], [Held()]).pick(plain)
    assert len(shared) == 10
    for one, other in zip(plain, shared, strict=True):
        assert isinstance(other, ConsumerRecord)
        assert type(other) is records.ShareRecord
        for field in dataclasses.fields(ConsumerRecord):
            assert getattr(one, field.name) == getattr(other, field.name)
        assert other.delivery_count == 2
        assert other.lock_deadline == 50.0
        assert not other.settled


def test_only_acquired_offsets_are_delivered_each_once(records) -> None:
    ranges = [
        records.AcquiredRange(*each) for each in ((101, 102, 1), (104, 104, 5), (205, 206, 2))
    ]
    first, second = Held(), Held(205, 2)
    first.states = bytearray([ABSENT, GAP, GAP, ABSENT, GAP, *[ABSENT] * 5])
    picker = records.AcquiredPicker(ranges, [first, second])
    shared = picker.pick(decoded(range(99, 108)))
    assert [(each.offset, each.delivery_count) for each in shared] == [(101, 1), (102, 1), (104, 5)]
    more = picker.pick(decoded(range(108, 300)))
    assert [(each.offset, each.delivery_count) for each in more] == [(205, 2), (206, 2)]
    assert picker.pick(decoded(range(300, 301))) == []
    again = records.AcquiredPicker(ranges, [first, second])
    assert again.pick(decoded(range(99, 300))) == []
    assert records.AcquiredPicker([], []).pick([]) == []
    assert records.AcquiredPicker([], []).pick(decoded(range(3))) == []


def test_a_record_set_is_read_until_the_last_acquired_offset(records) -> None:
    ranges = [records.AcquiredRange(*each) for each in ((2, 3, 1), (5, 5, 2))]
    marks = Held(2, 4)
    marks.states[2] = ABSENT
    picker = records.AcquiredPicker(ranges, [marks])
    found = RecordSet(encoded(10), "orders", 3, 0)
    first = picker.read(found, 3)
    assert [(each.offset, each.value, each.delivery_count) for each in first] == [(2, b"v2", 1)]
    assert found.next_offset == 3
    rest = picker.read(found, 100)
    assert [(each.offset, each.value, each.delivery_count) for each in rest] == [
        (3, b"v3", 1),
        (5, b"v5", 2),
    ]
    assert found.next_offset > 5
    assert marks.states == bytearray([HELD, HELD, ABSENT, HELD])


def test_a_malformed_record_ends_a_read_after_those_before_it(records) -> None:
    data = bytearray(encoded(9))
    data[-1] = 2  # the last record claims a header, which does not exist
    marks = Held(0, 9)
    picker = records.AcquiredPicker([records.AcquiredRange(0, 8, 1)], [marks])
    found = RecordSet(data, "orders", 3, 0, check_crcs=False)
    assert [each.offset for each in picker.read(found, 100)] == [*range(8)]
    with pytest.raises(CorruptRecordException):
        picker.read(found, 100)
    assert marks.states == bytearray([HELD] * 8 + [GAP])


def test_a_record_set_in_an_old_format_is_read(records) -> None:
    data = encode_message_set([(number, None, b"v%d" % number) for number in range(6)], magic=1)
    picker = records.AcquiredPicker([records.AcquiredRange(2, 3, 1)], [Held(2, 2)])
    found = picker.read(RecordSet(data, "orders", 3, 0), 100)
    assert [(each.offset, each.value) for each in found] == [(2, b"v2"), (3, b"v3")]


def test_facts_of_a_delivered_record_can_be_assigned_and_its_lock_stays(records) -> None:
    marks = Held()
    record, other = records.AcquiredPicker([records.AcquiredRange(100, 109, 4)], [marks]).pick(
        decoded(range(100, 102))
    )
    record.topic, record.partition, record.leader_epoch = "others", 9, 5
    record.timestamp_type, record.checksum = 1, 17
    record.delivery_count = 6
    assert (record.topic, record.partition, record.leader_epoch) == ("others", 9, 5)
    assert (record.timestamp_type, record.checksum, record.delivery_count) == (1, 17, 6)
    assert (other.topic, other.partition, other.delivery_count) == ("orders", 3, 4)
    record.accept()
    assert marks.states[:2] == bytearray([ACCEPT, HELD])


def test_the_four_methods_mark_the_record(records) -> None:
    for name, kind in (("accept", ACCEPT), ("release", RELEASE), ("reject", REJECT)):
        marks = Held()
        record = delivered(records, marks=marks)
        assert marks.states[0] == HELD
        assert getattr(record, name)() is not None
        assert (marks.states[0], record.settled) == (kind, True)
        getattr(record, name)()
        record.renew()
        assert marks.calls == [("slowly", 100, kind), ("renew", 100)]


def test_it_copies_and_pickles_as_a_plain_record(records) -> None:
    record = delivered(records)
    for other in (
        copy.copy(record),
        copy.deepcopy(record),
        pickle.loads(pickle.dumps(record)),
    ):
        assert type(other) is ConsumerRecord
        for field in dataclasses.fields(ConsumerRecord):
            assert getattr(other, field.name) == getattr(record, field.name)


def test_a_record_that_was_not_delivered_has_no_lock(records) -> None:
    record = records.ShareRecord(**FIELDS)
    assert (record.topic, record.leader_epoch, record.delivery_count) == ("orders", 7, 0)
    assert record == records.ShareRecord(**FIELDS)
    assert record != ConsumerRecord(**FIELDS)
    for use in (
        record.accept,
        record.renew,
        lambda: record.settled,
        lambda: record.lock_deadline,
    ):
        with pytest.raises(IllegalStateError, match="not delivered by a share consumer"):
            use()
    replaced = dataclasses.replace(delivered(records), value=b"other")
    assert (replaced.value, replaced.offset) == (b"other", 100)


def test_it_is_mutable_generic_and_not_hashable(records) -> None:
    record = delivered(records)
    record.value = {"any": "thing"}
    record.delivery_count = 9
    assert (record.value, record.delivery_count) == ({"any": "thing"}, 9)
    assert records.ShareRecord[str, bytes] is not None
    with pytest.raises(TypeError, match="unhashable"):
        hash(record)
    with pytest.raises(TypeError, match="`retry`"):
        record.process(retry=5)


def test_it_can_be_subclassed(records) -> None:
    noted = type("Noted", (records.ShareRecord,), {"__slots__": ("note",)})
    record = noted(**FIELDS)
    record.note = "kept"
    assert (record.note, record.offset) == ("kept", 2**62)
    assert type(pickle.loads(pickle.dumps(record))) is ConsumerRecord


def test_all_locked_wants_records_whose_locks_exist(records) -> None:
    marks = Held()
    picker = records.AcquiredPicker([records.AcquiredRange(100, 109, 1)], [marks])
    shared = picker.pick(decoded(range(100, 103)))
    assert records.all_locked(shared, 49.0)
    assert records.all_locked([], 0.0)
    assert not records.all_locked(shared, 50.0)
    assert not records.all_locked([*shared, ValueError()], 49.0)
    marks.renewed = {100: 60.0, 101: 60.0, 102: 60.0}
    assert records.all_locked(shared, 55.0)
    marks.states[1] = 0x21  # lost
    assert not records.all_locked(shared, 49.0)


@pytest.mark.skipif(not _build.NATIVE, reason="nothing was compiled")
def test_the_collector_does_not_track_native_records() -> None:
    from aiokafka_lite.share.records import _share_record_native as native

    picker = native.AcquiredPicker([AcquiredRange(100, 109, 1)], [Held()])
    [record] = picker.pick(decoded(range(100, 101)))
    assert not gc.is_tracked(record)
