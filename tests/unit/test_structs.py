"""Applications can unpack, compare, hash and pickle the values of `structs`."""

import pickle

import pytest

from aiokafka_lite import structs


def test_values_unpack_compare_and_hash() -> None:
    partition = structs.TopicPartition("orders", 3)
    topic, number = partition
    assert (topic, number) == ("orders", 3)
    assert partition == structs.TopicPartition(topic="orders", partition=3)
    assert {partition: 1}[structs.TopicPartition("orders", 3)] == 1
    assert sorted([structs.TopicPartition("b", 0), structs.TopicPartition("a", 9)])[0].topic == "a"


def test_values_pickle() -> None:
    partition = structs.TopicPartition("orders", 3)
    metadata = structs.RecordMetadata("orders", 3, partition, 7, 1_700_000_000_000, 0, 0)
    assert pickle.loads(pickle.dumps(metadata)) == metadata


HEALTH = {"ConsumerHealth", "Health", "HealthState", "ProducerHealth"}
OURS = {"ProducerRecord", "StoredColumns", "StoredRun", "UndeserializedRecord"} | HEALTH


@pytest.mark.parametrize("name", sorted({*structs.__all__} - OURS))
def test_fields_match_aiokafka(name: str) -> None:
    theirs = pytest.importorskip("aiokafka.structs")
    if name == "ConsumerRecord":
        fields = list(theirs.ConsumerRecord.__dataclass_fields__)
        record = structs.ConsumerRecord("t", 0, 1, 2, 0, b"k", b"v", None, 1, 1, ())
        assert [getattr(record, field) for field in fields] == [
            "t", 0, 1, 2, 0, b"k", b"v", None, 1, 1, (),
        ]  # fmt: skip
    else:
        assert getattr(structs, name)._fields == getattr(theirs, name)._fields
