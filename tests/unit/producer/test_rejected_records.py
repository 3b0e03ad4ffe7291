"""A broker that rejects a batch names the invalid records (KIP-467): only their acks say so."""

import asyncio
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from aiokafka_lite.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
)
from aiokafka_lite.protocol.messages.produce import BatchIndexAndErrorMessage
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, Any]]

NO_KEY = "Compacted topic cannot accept message without key"
OTHERS = r"the broker rejected the batch because of {} other record\(s\) in it"


def compacted(cluster: FakeCluster) -> None:
    cluster.create_topic("orders", 1, configs={"cleanup.policy": "compact"})


async def sent(producer: Any, keys: list[bytes | None]) -> list[Any]:
    """Send one batch of records with these keys; return the acks, which have their outcomes."""
    acks = [await producer.send("orders", b"v", key=key) for key in keys]
    await asyncio.wait(acks)
    return acks


async def test_only_invalid_records_raise_the_broker_s_reason(
    make_producer: Make, stored: Stored
) -> None:
    async with FakeCluster() as cluster:
        compacted(cluster)
        producer = make_producer(cluster, linger_ms=5)
        await producer.start()
        acks = await sent(producer, [b"a", None, b"b", b"c"])
        with pytest.raises(InvalidRecordError, match=f"{NO_KEY}.*: 1 record"):
            acks[1].result()
        for valid in (acks[0], acks[2], acks[3]):
            with pytest.raises(KafkaError, match=OTHERS.format(1)) as caught:
                await valid
            assert type(caught.value) is KafkaError
            assert not caught.value.ambiguous
            assert isinstance(caught.value.__cause__, InvalidRecordError)
            assert NO_KEY in str(caught.value)
        assert stored(cluster, "orders")[0] == []
        assert producer._sender.pool.used == 0
        assert (await producer.send_and_wait("orders", b"v", key=b"k")).offset == 0


async def test_several_invalid_records_each_raise_their_own_reason(make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        compacted(cluster)
        producer = make_producer(cluster, linger_ms=5)
        await producer.start()
        acks = await sent(producer, [None, None, b"a", None])
        kinds = [type(ack.exception()) for ack in acks]
        assert kinds == [InvalidRecordError, InvalidRecordError, KafkaError, InvalidRecordError]
        assert NO_KEY in str(acks[3].exception())
        assert "3 other" in str(acks[2].exception())


async def test_the_reason_of_a_single_record_is_the_broker_s(make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        compacted(cluster)
        producer = make_producer(cluster)
        await producer.start()
        with pytest.raises(InvalidRecordError, match=NO_KEY):
            await producer.send_and_wait("orders", b"v")


async def test_one_invalid_timestamp_is_reported_as_such(make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("orders", 1, configs={"message.timestamp.before.max.ms": "1000"})
        producer = make_producer(cluster, linger_ms=5)
        await producer.start()
        acks = [
            await producer.send("orders", b"now"),
            await producer.send("orders", b"long ago", timestamp_ms=1),
        ]
        await asyncio.wait(acks)
        assert [type(ack.exception()) for ack in acks] == [KafkaError, InvalidTimestampError]


async def test_a_batch_by_hand_raises_one_error_with_the_first_reason(make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        compacted(cluster)
        producer = make_producer(cluster)
        await producer.start()
        batch = producer.create_batch()
        batch.append(key=b"a", value=b"v", timestamp=None)
        batch.append(key=None, value=b"v", timestamp=None)
        ack = await producer.send_batch(batch, "orders", partition=0)
        with pytest.raises(
            InvalidRecordError, match=f"record 1 of the batch: {NO_KEY}.*: 2 record"
        ):
            await ack


async def test_a_rejected_record_fails_its_transaction(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster() as cluster:
        compacted(cluster)
        producer = make_producer(cluster, transactional_id="t", linger_ms=5)
        await producer.start()
        await producer.begin_transaction()
        acks = await sent(producer, [b"a", None])
        assert [type(ack.exception()) for ack in acks] == [KafkaError, InvalidRecordError]
        with pytest.raises(InvalidRecordError, match=NO_KEY):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            place = await producer.send_and_wait("orders", b"v", key=b"k")
        assert place.offset >= 0
        values = [record.value for record in stored(cluster, "orders")[0]]
        assert values == [b"v"]


@pytest.mark.parametrize("named", [True, False], ids=["named", "not named"])
async def test_records_in_later_pieces_of_a_rejected_batch_are_not_invalid(
    make_producer: Make, named: bool
) -> None:
    async with FakeCluster() as cluster:
        configs = {"cleanup.policy": "compact", "max.message.bytes": "300"}
        cluster.create_topic("orders", 1, configs=configs)
        producer = make_producer(cluster, linger_ms=5)
        await producer.start()
        rejected: list[int] = []

        def forget(response: Any) -> None:
            answer = response.responses[0].partition_responses[0]
            if answer.error_code == InvalidRecordError.errno:
                rejected.append(len(answer.record_errors))
                answer.record_errors = answer.record_errors if named else []

        cluster.control(ApiKey.PRODUCE, edit=forget, times=None)
        keys = [None, *[b"k"] * 7]
        acks = [await producer.send("orders", b"v" * 50, key=key) for key in keys]
        await asyncio.wait(acks)
        assert rejected == [1]
        assert isinstance(acks[0].exception(), InvalidRecordError)
        with pytest.raises(KafkaError, match="were not sent: the broker rejected other") as caught:
            await acks[7]
        assert type(caught.value) is KafkaError
        assert isinstance(caught.value.__cause__, InvalidRecordError)
        assert producer._sender.pool.used == 0


async def test_unsent_records_of_a_failed_transaction_are_not_invalid(make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        compacted(cluster)
        producer = make_producer(cluster, transactional_id="t", max_batch_size=200)
        await producer.start()
        await producer.begin_transaction()
        keys = [None, *[b"k"] * 9]
        acks = [await producer.send("orders", b"v" * 100, key=key) for key in keys]
        with pytest.raises(InvalidRecordError, match=NO_KEY):
            await acks[0]
        with pytest.raises(KafkaError, match="were not sent: their transaction failed") as caught:
            await acks[9]
        assert type(caught.value) is KafkaError
        assert isinstance(caught.value.__cause__, InvalidRecordError)
        await producer.abort_transaction()


async def test_records_of_send_many_have_their_own_errors(make_producer: Make) -> None:
    async with FakeCluster() as cluster:
        compacted(cluster)
        producer = make_producer(cluster, linger_ms=5)
        await producer.start()
        many = await producer.send_many("orders", [b"v", b"v"], keys=[b"a", None])
        with pytest.raises(KafkaError, match=OTHERS.format(1)):
            await many
        assert [type(ack.exception()) for ack in many] == [KafkaError, InvalidRecordError]


@pytest.mark.parametrize("index", [-1, 3, 2**31 - 1])
async def test_an_index_outside_of_the_batch_is_ignored(make_producer: Make, index: int) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("orders", 1)
        producer = make_producer(cluster, linger_ms=5)
        await producer.start()

        def lie(response: Any) -> None:
            answer = response.responses[0].partition_responses[0]
            answer.error_code, answer.base_offset = InvalidRecordError.errno, -1
            answer.record_errors = [BatchIndexAndErrorMessage(index, "lie")]

        cluster.control(ApiKey.PRODUCE, edit=lie)
        acks = await sent(producer, [b"a", b"b", b"c"])
        assert {type(ack.exception()) for ack in acks} == {InvalidRecordError}


def test_runs_of_a_piece_have_their_own_errors(acks: ModuleType) -> None:
    loop = asyncio.new_event_loop()
    try:
        batch = acks.ProducerBatch(loop, TopicPartition("t", 0), builder(4), None, 0.0)
        waits = [batch.ack(index, 0) for index in range(4)]
        batch.split([builder(1), builder(2), builder(1)])
        batch.settle_piece(7, -1, -1)
        bad, other, rest = ValueError("bad"), ValueError("other"), ValueError("rest")
        batch.fail_in_runs([(1, bad), (1, other)], rest)
        assert batch.done
        assert waits[0].result().offset == 7
        outcomes = [str(wait.exception()) for wait in waits[1:]]
        assert outcomes == ["bad", "other", "rest"]
    finally:
        loop.close()


def builder(count: int) -> BatchBuilder:
    made = BatchBuilder(1000)
    for _ in range(count):
        made.append(0, None, b"v", ())
    return made
