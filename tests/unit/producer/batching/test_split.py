"""A batch that is too large for the broker is split (KIP-126), and no record is lost."""

import asyncio
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite.errors import (
    MessageSizeTooLargeError,
    ProducerClosed,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.producer.batching.split import pieces
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.record.record_set import RecordSet
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, list[Any]]]

LIMIT = 1000  # maximum batch size of the topic in bytes


def values(count: int, size: int = 100) -> list[bytes]:
    # Incompressible, so that a codec does not change which batches are too large.
    return [random.Random(number).randbytes(size) for number in range(count)]


def small_topic(cluster: FakeCluster, name: str = "orders") -> None:
    cluster.create_topic(name, 1, configs={"max.message.bytes": str(LIMIT)})


@pytest.mark.parametrize("codec", [None, "gzip", "lz4"])
@pytest.mark.parametrize("idempotent", [True, False])
async def test_every_record_of_a_split_batch_is_stored_once_with_its_offset(
    make_producer: Make, stored: Stored, codec: str | None, idempotent: bool
) -> None:
    async with FakeCluster() as cluster:
        small_topic(cluster)
        producer = make_producer(
            cluster, compression_type=codec, enable_idempotence=idempotent, linger_ms=1
        )
        await producer.start()
        sent = values(50)
        acks = [
            await producer.send("orders", value, timestamp_ms=1000 + index, headers=[("a", b"1")])
            for index, value in enumerate(sent)
        ]
        places = await asyncio.gather(*acks)
        assert [place.offset for place in places] == list(range(50))
        assert [place.timestamp for place in places] == list(range(1000, 1050))
        assert all(ack.exception() is None for ack in acks)
        records = stored(cluster, "orders")[0]
        assert [record.value for record in records] == sent
        assert records[7].headers == (("a", b"1"),)
        assert producer._sender.pool.used == 0


async def test_only_the_record_that_is_too_large_by_itself_fails(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster() as cluster:
        small_topic(cluster)
        producer = make_producer(cluster, linger_ms=1)
        await producer.start()
        sent = values(20)
        sent[11] = bytes(LIMIT + 1)
        acks = [await producer.send("orders", value) for value in sent]
        await asyncio.wait(acks)
        for index, ack in enumerate(acks):
            if index == 11:
                with pytest.raises(MessageSizeTooLargeError, match="1 record"):
                    ack.result()
                assert isinstance(ack.exception(), MessageSizeTooLargeError)
            else:
                assert ack.result().offset == index - (index > 11)
        assert [record.value for record in stored(cluster, "orders")[0]] == sent[:11] + sent[12:]
        following = await producer.send_and_wait("orders", b"after")
        assert following.offset == 19
        assert producer._sender.pool.used == 0


async def test_batches_behind_it_keep_their_order(make_producer: Make, stored: Stored) -> None:
    """Five in flight, each too large: the later ones' sequence numbers are refused, and they
    wait."""
    async with FakeCluster() as cluster:
        small_topic(cluster)
        producer = make_producer(cluster, max_batch_size=3000)
        await producer.start()
        await producer.send_and_wait("orders", b"first")  # numbered, so that more may be in flight
        sent = values(200)
        sent[5] = bytes(LIMIT + 1)  # its number is never used, so later ones are renumbered
        acks = [await producer.send("orders", value) for value in sent]
        async with asyncio.timeout(10):
            outcomes = await asyncio.gather(*acks, return_exceptions=True)
        assert isinstance(outcomes.pop(5), MessageSizeTooLargeError)
        assert [place.offset for place in outcomes] == list(range(1, 200))
        assert [record.value for record in stored(cluster, "orders")[0][1:]] == sent[:5] + sent[6:]


async def test_pieces_meet_the_same_faults_as_batches(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(2) as cluster:
        small_topic(cluster)
        producer = make_producer(cluster, linger_ms=1)
        await producer.start()
        faults = [
            cluster.control(ApiKey.PRODUCE, after_handling=True, disconnect=True, when=small),
            cluster.control(ApiKey.PRODUCE, error=6, when=small),
        ]
        sent = values(40)
        places = await asyncio.gather(*[await producer.send("orders", value) for value in sent])
        assert [place.offset for place in places] == list(range(40))
        assert [record.value for record in stored(cluster, "orders")[0]] == sent
        assert [fault.hits for fault in faults] == [1, 1]


def small(request: Any) -> bool:
    return all(
        len(data.records) <= LIMIT for topic in request.topic_data for data in topic.partition_data
    )


async def test_stored_pieces_stay_acknowledged_when_the_rest_fails(
    make_producer: Make,
) -> None:
    async with FakeCluster() as cluster:
        small_topic(cluster)
        producer = make_producer(cluster, linger_ms=1)
        await producer.start()
        stop_it = cluster.control(
            ApiKey.PRODUCE, error=TopicAuthorizationFailedError.errno, when=late, times=None
        )
        acks = [await producer.send("orders", value) for value in values(40)]
        outcomes = await asyncio.gather(*acks, return_exceptions=True)
        kept = [place.offset for place in outcomes if not isinstance(place, BaseException)]
        assert kept == list(range(len(kept)))
        assert 0 < len(kept) < 40
        assert all(
            isinstance(outcome, TopicAuthorizationFailedError) for outcome in outcomes[len(kept) :]
        )
        assert stop_it.hits >= 1
        assert producer._sender.pool.used == 0


def late(request: Any) -> bool:
    """A piece that is not the batch's first."""
    (topic,) = request.topic_data
    (data,) = topic.partition_data
    sequence = int.from_bytes(bytes(data.records[53:57]), "big")
    return sequence > 0


async def test_stop_during_a_split_gives_each_record_its_own_outcome(
    make_producer: Make,
) -> None:
    async with FakeCluster() as cluster:
        small_topic(cluster)
        producer = make_producer(cluster, linger_ms=1)
        await producer.start()
        hold = cluster.control(ApiKey.PRODUCE, drop=True, when=late)
        acks = [await producer.send("orders", value) for value in values(40)]
        await hold.struck()
        await producer.stop(timeout=0.05)
        outcomes = await asyncio.gather(*acks, return_exceptions=True)
        kept = [place.offset for place in outcomes if not isinstance(place, BaseException)]
        assert kept == list(range(len(kept)))
        assert kept
        assert all(isinstance(outcome, ProducerClosed) for outcome in outcomes[len(kept) :])


def test_records_keep_all_they_have() -> None:
    builder = BatchBuilder(10_000)
    fields = [
        (5, None, None, ()),
        (3, b"", b"", (("n", None), ("n", b"v"))),
        (9, b"key", bytes(700), ()),
        (9, b"key", b"x" * 100, (("h", b""),)),
    ]
    for each in fields:
        builder.append(*each)
    builder.seal(Compression.GZIP, producer_id=7, producer_epoch=0, base_sequence=3)
    made = pieces([builder], TopicPartition("orders", 0), 200)
    assert [each.count for each in made] == [2, 1, 1]
    found = [
        (record.timestamp, record.key, record.value, record.headers)
        for each in made
        for record in RecordSet(each.seal(), "orders", 0, 0).read(10)
    ]
    assert found == fields


async def test_a_batch_in_one_piece_has_no_pieces(acks: ModuleType) -> None:
    builder = BatchBuilder(1000)
    loop = asyncio.get_running_loop()
    batch = acks.ProducerBatch(loop, TopicPartition("orders", 0), builder, None, 0.0)
    ack = batch.append(1, None, b"v", ())
    with pytest.raises(RuntimeError, match="was not split"):
        batch.settle_piece(0, -1, -1)
    batch.split([builder])
    assert batch.remaining == 1
    assert not batch.settle_piece(-1, 77, 0)
    place = ack.result()
    assert (place.offset, place.timestamp, place.timestamp_type) == (-1, 77, 1)
    assert "split" in repr(ack)
