"""ShareRecord in both builds: a ConsumerRecord with a lock."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
from typing import Any

import pytest

from aiokafka_lite import ConsumerRecord, _build
from aiokafka_lite.errors import IllegalStateError
from aiokafka_lite.record.batch import BatchBuilder
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


def decoded(offsets: range) -> list[ConsumerRecord[Any, Any]]:
    builder = BatchBuilder(4096)
    for number in offsets:
        headers = [("h", b"%d" % number)] if number % 2 else []
        builder.append(number, None if number % 3 else b"k", b"v%d" % number, headers)
    found = RecordSet(bytes(builder.seal()), "orders", 3, 0).read(len(offsets))
    for record, offset in zip(found, offsets, strict=True):
        record.offset = offset
    return found


def delivered(records: Any, *, marks: Marks | None = None) -> Any:
    [record], _, _ = records.acquired_of(
        decoded(range(100, 101)), [records.AcquiredRange(100, 109, 4)], [marks or Held()], 0, 0
    )
    return record


@pytest.fixture
def records(records):
    records.AcquiredRange = AcquiredRange
    return records


def test_it_has_the_fields_of_the_decoded_record(records) -> None:
    plain = decoded(range(100, 110))
    shared, at, owner = records.acquired_of(
        plain, [records.AcquiredRange(100, 109, 2)], [Held()], 0, 0
    )
    assert (len(shared), at, owner) == (10, 0, 0)
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
    shared, at, owner = records.acquired_of(decoded(range(99, 108)), ranges, [first, second], 0, 0)
    assert [(each.offset, each.delivery_count) for each in shared] == [(101, 1), (102, 1), (104, 5)]
    more, at, owner = records.acquired_of(
        decoded(range(108, 300)), ranges, [first, second], at, owner
    )
    assert [(each.offset, each.delivery_count) for each in more] == [(205, 2), (206, 2)]
    again, _, _ = records.acquired_of(decoded(range(99, 300)), ranges, [first, second], 0, 0)
    assert again == []
    assert records.acquired_of([], [], [], 0, 0) == ([], 0, 0)
    assert records.acquired_of(decoded(range(3)), [], [], 0, 0) == ([], 0, 0)


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
    shared, _, _ = records.acquired_of(
        decoded(range(100, 103)), [records.AcquiredRange(100, 109, 1)], [marks], 0, 0
    )
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

    [record], _, _ = native.acquired_of(
        decoded(range(100, 101)), [AcquiredRange(100, 109, 1)], [Held()], 0, 0
    )
    assert not gc.is_tracked(record)
