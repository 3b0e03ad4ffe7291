"""A record that cannot be deserialized: the error is raised with its offset; seek skips it."""

import asyncio
import json
from dataclasses import dataclass
from random import Random

import pytest

from aiokafka_lite.errors import KafkaError
from aiokafka_lite.reading.heavy_batches import is_heavy
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.structs import TopicPartition, UndeserializedRecord
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, append_batch, batch

TP0 = TopicPartition("orders", 0)


@dataclass(frozen=True)
class Frozen(Exception):
    """Takes no attributes."""

    value: bytes | None


def refuse(value: bytes | None) -> bytes | None:
    if value == b"bad":
        raise Frozen(value)
    return value


async def test_the_error_has_the_offset_and_seek_skips_it(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [b"1", b"{", b"3"])
    async with make("orders", value_deserializer=json.loads) as consumer:
        assert (await consumer.getone()).value == 1
        for _ in range(2):  # it stays where it is
            with pytest.raises(json.JSONDecodeError) as caught:
                await consumer.getone()
        bad = UndeserializedRecord.of(caught.value)
        assert bad == (TP0, 1, "value", b"k1", b"{", 1001, ())
        (note,) = caught.value.__notes__
        assert (
            note == "while deserializing the value of orders-0 offset 1; seek() past it to skip it"
        )
        assert await consumer.position(TP0) == 1
        consumer.seek(bad.topic_partition, bad.offset + 1)
        assert (await consumer.getone()).value == 3


async def test_the_error_has_the_raw_key(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, [b"fine"])

    def never(key: bytes | None) -> str:
        raise LookupError(key)

    async with make("orders", key_deserializer=never) as consumer:
        with pytest.raises(LookupError) as caught:
            await consumer.getone()
        assert UndeserializedRecord.of(caught.value)[2:5] == ("key", b"k0", b"fine")


async def test_the_key_is_undone_where_the_value_fails(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [b"bad"])
    async with make("orders", key_deserializer=str, value_deserializer=refuse) as consumer:
        with pytest.raises(Frozen) as caught:
            await consumer.getone()
    bad = UndeserializedRecord.of(caught.value)
    assert (bad.part, bad.key, bad.value) == ("value", b"k0", b"bad")
    assert "offset 0" in caught.value.__notes__[0]


@pytest.mark.parametrize("heavy", [False, True])
async def test_a_cancelled_error_of_a_deserializer_is_an_error_of_the_read(
    cluster: FakeCluster, make: MakeConsumer, heavy: bool
) -> None:
    """It must not look as if the reader's task was cancelled; nor must a read wait forever, if the
    batch was decoded in a thread."""
    random = Random(1)
    values = [random.randbytes(100) for _ in range(3000 if heavy else 3)]
    data = batch(values, compression=Compression.GZIP)
    assert is_heavy(data) is heavy
    append_batch(cluster, data, *TP0)

    def fails(value: bytes) -> bytes:
        if value == values[1]:
            raise asyncio.CancelledError
        return value

    async with make("orders", value_deserializer=fails) as consumer, asyncio.timeout(10):
        assert (await consumer.getone()).value == values[0]
        for _ in range(2):
            with pytest.raises(
                KafkaError, match="the deserializer raised CancelledError"
            ) as caught:
                await consumer.getone()
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert UndeserializedRecord.of(caught.value).offset == 1
        consumer.seek(TP0, 2)
        assert (await consumer.getone()).value == values[2]


@pytest.mark.parametrize("kind", [StopIteration, StopAsyncIteration])
async def test_an_error_that_ends_iterations_does_not_end_that_of_the_reader(
    cluster: FakeCluster, make: MakeConsumer, kind: type[Exception]
) -> None:
    append(cluster, [b"1", b"bad", b"3"])

    def fails(value: bytes) -> bytes:
        if value == b"bad":
            raise kind
        return value

    async with make("orders", value_deserializer=fails) as consumer, asyncio.timeout(10):
        records = aiter(consumer)
        assert (await anext(records)).value == b"1"
        with pytest.raises(KafkaError, match=f"the deserializer raised {kind.__name__}") as caught:
            await anext(records)
    assert UndeserializedRecord.of(caught.value).offset == 1


def test_other_errors_have_no_place() -> None:
    with pytest.raises(LookupError, match="was not raised by"):
        UndeserializedRecord.of(ValueError("mine"))
