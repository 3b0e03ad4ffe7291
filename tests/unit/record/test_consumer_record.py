"""ConsumerRecord in both builds behaves as aiokafka's dataclass."""

import copy
import dataclasses
import gc
import pickle
import weakref

import pytest

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
}


@pytest.fixture
def record(build):
    return build.ConsumerRecord(**FIELDS)


@pytest.fixture(params=["dict", "slots"])
def subclass(build, request, monkeypatch):
    """A subclass that pickle can import."""
    body = {"__module__": __name__}
    if request.param == "slots":
        body["__slots__"] = ("note",)
    made = type("Noted", (build.ConsumerRecord,), body)
    monkeypatch.setitem(globals(), "Noted", made)
    return made


def test_fields_match_aiokafka(build, record):
    structs = pytest.importorskip("aiokafka.structs")
    names = [field.name for field in dataclasses.fields(structs.ConsumerRecord)]
    assert list(FIELDS) == names
    for name in names:
        assert getattr(record, name) == FIELDS[name]
    assert build.ConsumerRecord(*FIELDS.values()) == record
    assert build.ConsumerRecord.__match_args__ == tuple(names)
    theirs = pytest.importorskip("aiokafka.structs").ConsumerRecord(**FIELDS)
    assert repr(record) == repr(theirs)
    with_epoch = dataclasses.asdict(record)
    assert with_epoch.pop("leader_epoch") == -1
    assert with_epoch == dataclasses.asdict(theirs)


def test_equal_by_value_and_by_every_field(build, record):
    assert record == build.ConsumerRecord(**FIELDS)
    assert record != "something else"
    changed = {
        "topic": "other",
        "partition": 4,
        "offset": 1,
        "timestamp": -1,
        "timestamp_type": 1,
        "key": None,
        "value": b"",
        "checksum": 5,
        "serialized_key_size": 4,
        "serialized_value_size": 0,
        "headers": (),
    }
    for name, value in changed.items():
        assert record != build.ConsumerRecord(**{**FIELDS, name: value})
    assert record == build.ConsumerRecord(**FIELDS, leader_epoch=9)


def test_not_hashable_as_in_aiokafka(record):
    with pytest.raises(TypeError, match="unhashable"):
        hash(record)


def test_copy_and_pickle(build):
    record = build.ConsumerRecord(**FIELDS, leader_epoch=8)
    for other in (
        copy.copy(record),
        copy.deepcopy(record),
        pickle.loads(pickle.dumps(record)),
        dataclasses.replace(record),
    ):
        assert other == record
        assert other is not record
        assert other.leader_epoch == 8


def test_assigning_a_field_does_not_change_other_records(build):
    from tests.unit.record.record_batches import batch, simple

    one, two = build.RecordSet(batch(simple(2)), "t", 0, 0).read(2)
    before = copy.copy(two)
    for name, value in {**FIELDS, "value": {"any": "thing"}, "leader_epoch": 3}.items():
        setattr(one, name, value)
        assert getattr(one, name) == value
    assert two == before
    assert two.leader_epoch == 7


def test_structural_pattern_matching(build, record):
    ConsumerRecord = build.ConsumerRecord
    match record:
        case ConsumerRecord("orders", 3, offset, key=b"key"):
            assert offset == 2**62
        case _:
            pytest.fail("it did not match")


def test_generic_in_annotations(build):
    assert build.ConsumerRecord[str, bytes] is not None


@pytest.mark.parametrize("wrong", [{"offset": "1"}, {"topic": None}, {"partition": None}])
def test_native_rejects_wrong_types(native, wrong):
    with pytest.raises(TypeError):
        native.ConsumerRecord(**{**FIELDS, **wrong})


def test_native_record_without_init_does_not_crash(native):
    empty = native.ConsumerRecord.__new__(native.ConsumerRecord)
    for use in (repr, copy.copy, lambda record: record.topic, lambda record: record == empty):
        with pytest.raises((AttributeError, TypeError)):
            use(empty)
    assert empty.value is None


def test_native_record_is_untracked_by_gc_and_freed(native):
    class Value:
        pass

    value = Value()
    gone = weakref.ref(value)
    record = native.ConsumerRecord(**{**FIELDS, "value": value})
    assert not gc.is_tracked(record)
    del value
    assert gone() is not None
    del record
    assert gone() is None


@pytest.mark.parametrize("name", ["key", "value", "headers"])
def test_slots_are_written_and_read(record, name):
    """Native slots are read without a call and release their objects."""
    for _ in range(100):  # so that the interpreter has specialized the access
        old, new = getattr(record, name), object()
        setattr(record, name, new)
        assert getattr(record, name) is new
        setattr(record, name, old)
        assert getattr(record, name) is old
    alive = weakref.ref(held := Held())
    setattr(record, name, held)
    del held
    assert alive() is not None
    setattr(record, name, None)
    assert alive() is None


def test_native_fields_cannot_be_deleted(record):
    if type(record).__module__.endswith("_python"):
        pytest.skip("a dataclass lets its fields be deleted")
    for name in FIELDS:
        with pytest.raises(AttributeError):
            delattr(record, name)
    with pytest.raises(AttributeError):
        type(record).value.__delete__(record)
    with pytest.raises(AttributeError):
        type(record).value.__set__(record, 5)  # past __setattr__
    assert record.value is None


def test_subclass_attributes_work(build, subclass):
    """Frameworks annotate their messages this way."""
    record = subclass(*FIELDS.values(), leader_epoch=7)
    record.note = "seen"
    record.value = held = Held()
    assert isinstance(record, build.ConsumerRecord)
    assert (record.topic, record.leader_epoch, record.value) == ("orders", 7, held)
    assert repr(record).startswith(f"{subclass.__qualname__}(topic='orders', partition=3, ")
    assert record != build.ConsumerRecord(*FIELDS.values())
    gone = weakref.ref(held)
    record.value = None
    del held
    assert gone() is None
    for other in (copy.copy(record), pickle.loads(pickle.dumps(record))):
        assert type(other) is subclass
        assert other == record
        assert (other.note, other.leader_epoch) == ("seen", 7)
    del record.note
    assert not hasattr(record, "note")


@pytest.mark.parametrize("slots", [False, True])
def test_dataclass_subclass_works(build, slots, monkeypatch):
    """As FastStream's messages, whose fields are assigned one by one."""
    made = dataclasses.make_dataclass(
        "Message", [("consumer", object)], bases=(build.ConsumerRecord,), slots=slots
    )
    monkeypatch.setitem(globals(), "Message", made)
    made.__module__ = __name__
    record = made(*FIELDS.values(), "me", leader_epoch=7)
    assert {name: getattr(record, name) for name in FIELDS} == FIELDS
    assert (record.consumer, record.leader_epoch) == ("me", 7)
    record.value = b"other"
    assert record.value == b"other"
    for other in (copy.copy(record), pickle.loads(pickle.dumps(record))):
        assert other == record
        assert (other.consumer, other.leader_epoch) == ("me", 7)
    assert record != dataclasses.replace(record, partition=9)


def test_subclass_controls_its_pickled_state(build, monkeypatch):
    class Own(build.ConsumerRecord):
        def __getstate__(self):
            return {"note": "kept"}

        def __setstate__(self, state):
            self.note = state["note"]
            self.topic = "put back"

    if build.ConsumerRecord.__module__.endswith("_python"):
        pytest.skip("a dataclass leaves all to that state")
    other = copy.copy(Own(**FIELDS))
    assert (other.note, other.topic, other.partition) == ("kept", "put back", FIELDS["partition"])


def test_records_and_subclass_records_can_be_mixed(build, subclass):
    """A freed record may be reused only for its own class."""
    for _ in range(3):
        several = [kind(**FIELDS) for kind in (build.ConsumerRecord, subclass) for _ in range(50)]
        assert [type(each) is subclass for each in several] == [False] * 50 + [True] * 50
        several.reverse()
        several.clear()


class Held:
    """An object that supports weak references."""
