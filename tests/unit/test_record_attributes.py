"""Records accept attributes that are not fields, as aiokafka's do, in both builds."""

import copy
import dataclasses
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite._consumer_record_python import ConsumerRecord as Twin
from aiokafka_lite.structs import ConsumerRecord

FIELDS: Any = ("orders", 0, 1, 2, 0, b"k", b"v", None, 1, 1, ())


class Sub(ConsumerRecord[Any, Any]):
    pass


@dataclasses.dataclass(slots=True)
class Slotted(ConsumerRecord[Any, Any]):
    extra: int = 0


class Thing:
    pass


KINDS = pytest.mark.parametrize("kind", [ConsumerRecord, Twin, Sub, Slotted])


@KINDS
def test_attribute_is_read_replaced_and_deleted(kind: Any) -> None:
    record, other = kind(*FIELDS), kind(*FIELDS)
    record.seen = 1
    record.seen = 2
    assert (record.seen, vars(record)["seen"]) == (2, 2)
    assert not hasattr(other, "seen")
    del record.seen
    for use in (lambda: record.seen, lambda: delattr(record, "seen")):
        with pytest.raises(AttributeError, match="seen"):
            use()


@KINDS
def test_attributes_are_neither_compared_nor_shown(kind: Any) -> None:
    record, other = kind(*FIELDS), kind(*FIELDS)
    text = repr(record)
    record.seen = 1
    assert record == other
    assert repr(record) == text
    assert "seen" not in dataclasses.asdict(record)


@pytest.mark.parametrize("kind", [ConsumerRecord, Sub])
@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))]
)
def test_attributes_are_copied_and_pickled(kind: Any, duplicate: Callable[[Any], Any]) -> None:
    record = kind(*FIELDS)
    assert duplicate(record) == record
    record.seen = [1]
    made = duplicate(record)
    assert made == record
    assert type(made) is kind
    assert made.seen == [1]
    made.later = 2
    assert not hasattr(record, "later")


def test_fields_and_methods_keep_their_meaning() -> None:
    record: Any = ConsumerRecord(*FIELDS)
    record.value, record.topic = b"w", "other"
    assert vars(record) == {}
    assert (record.value, record.topic) == (b"w", "other")


@KINDS
def test_attributes_are_released_with_the_record(kind: Any) -> None:
    record, thing = kind(*FIELDS), Thing()
    record.thing = thing
    released = weakref.ref(thing)
    del thing
    gc.collect()
    assert released() is record.thing
    del record
    assert released() is None
