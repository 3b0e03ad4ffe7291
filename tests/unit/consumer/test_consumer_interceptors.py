"""Interceptors see every record and commit, and cannot break the consumer."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from aiokafka_lite.abc import ConsumerInterceptor
from aiokafka_lite.structs import ConsumerRecord, OffsetAndMetadata, TopicPartition
from aiokafka_lite.testing import FakeCluster

from .conftest import MakeConsumer
from .makers import append, numbered, until

pytestmark = pytest.mark.unhurried

Record = ConsumerRecord[Any, Any]
TP0 = TopicPartition("orders", 0)


class Spy(ConsumerInterceptor):
    """Records its calls."""

    def __init__(self) -> None:
        self.consumed: list[object] = []
        self.committed: list[Mapping[TopicPartition, OffsetAndMetadata]] = []
        self.closed = 0

    def on_consume(self, records: list[Record]) -> list[Record]:
        self.consumed += [record.value for record in records]
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed.append(offsets)

    def close(self) -> None:
        self.closed += 1


class Odd(ConsumerInterceptor):
    """Drops every second record, and marks the others."""

    def on_consume(self, records: list[Record]) -> list[Record]:
        kept = [record for record in records if record.offset % 2]
        for record in kept:
            record.value += b"!"
        return kept


class Broken(ConsumerInterceptor):
    """Raises the given errors."""

    def on_consume(self, records: list[Record]) -> list[Record]:
        raise RuntimeError("consume")

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        raise RuntimeError("commit")

    def close(self) -> None:
        raise RuntimeError("close")


async def test_interceptors_receive_deserialized_records(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, [b"1", b"2", b"3"])
    spy = Spy()
    async with make("orders", value_deserializer=int, interceptors=[spy]) as consumer:
        assert [(await consumer.getone()).value for _ in range(3)] == [1, 2, 3]
        assert spy.consumed == [1, 2, 3]
        assert spy.closed == 0
    assert spy.closed == 1


async def test_interceptors_may_change_and_drop_records(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(5))
    spy = Spy()
    async with make("orders", interceptors=(Odd(), spy)) as consumer:
        seen = [await consumer.getone(), await consumer.getone()]
        assert [record.value for record in seen] == spy.consumed == [b"v1!", b"v3!"]
        # No record remains, and the position still moves past the last one.
        assert await consumer.getmany(timeout_ms=100) == {}
        assert await consumer.position(TP0) == 5


async def test_interceptors_may_drop_all_records(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(1))
    async with make("orders", interceptors=[Odd()]) as consumer:
        assert await consumer.getmany(timeout_ms=100) == {}
        append(cluster, numbered(1), base_offset=1)
        assert (await consumer.getone()).value == b"v0!"


async def test_exceptions_of_interceptors_are_logged(
    cluster: FakeCluster, make: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    append(cluster, numbered(1))
    spy = Spy()
    with caplog.at_level(logging.ERROR):
        async with make("orders", group_id="g", interceptors=[Broken(), spy]) as consumer:
            assert (await consumer.getone()).value == b"v0"
            await consumer.commit()
    assert spy.consumed == [b"v0"]
    assert [told[TP0] for told in spy.committed] == [OffsetAndMetadata(1, "")]
    assert spy.closed == 1
    told = "".join(caplog.messages)
    assert all(f"{name}() of" in told for name in ("on_consume", "on_commit", "close"))


async def test_a_cancellation_that_an_interceptor_raises_stops_no_revocation(
    cluster: FakeCluster, make: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the partition would stay assigned but withheld, and deliver no further records."""

    class Cancelled(Spy):
        def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
            super().on_commit(offsets)
            raise asyncio.CancelledError

        def close(self) -> None:
            super().close()
            raise asyncio.CancelledError

    append(cluster, numbered(1))
    spy = Cancelled()
    async with make("orders", group_id="g", interceptors=[spy]) as consumer:
        assert (await consumer.getone()).value == b"v0"
        consumer.enforce_rebalance()  # commits, and revokes the partition
        await until(lambda: bool(spy.committed))
        append(cluster, numbered(1, start=1), base_offset=1)
        async with asyncio.timeout(60):
            assert (await consumer.getone()).value == b"v1"
    assert spy.closed == 1
    told = "".join(caplog.messages)
    assert all(f"{name}() of" in told for name in ("on_commit", "close"))


async def test_a_result_that_is_no_list_is_ignored(
    cluster: FakeCluster, make: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    class Forgetful(Spy):
        def on_consume(self, records: list[Record]) -> list[Record]:
            return None  # type: ignore[return-value]  # the mistake

    append(cluster, numbered(1))
    async with make("orders", interceptors=[Forgetful()]) as consumer:
        assert (await consumer.getone()).value == b"v0"
    assert "on_consume() of" in caplog.text


@pytest.mark.parametrize("wrong", [5, "interceptor", [5], [Spy]])
async def test_the_argument_is_checked(make: MakeConsumer, wrong: object) -> None:
    with pytest.raises(TypeError, match="`interceptors`"):
        make("orders", interceptors=wrong)


class Forgetful(ConsumerInterceptor):
    """Keeps the list that it returns, and empties it later."""

    def __init__(self) -> None:
        self.list: list[Record] = []

    def on_consume(self, records: list[Record]) -> list[Record]:
        self.list = records
        return records


async def test_the_list_is_no_longer_theirs(cluster: FakeCluster, make: MakeConsumer) -> None:
    append(cluster, numbered(3))
    keeper = Forgetful()
    async with make("orders", interceptors=[keeper]) as consumer:
        values = [(await consumer.getone()).value]
        keeper.list.clear()
        values += [(await consumer.getone()).value for _ in range(2)]
        assert values == numbered(3)
        assert await consumer.position(TP0) == 3


class Careless(ConsumerInterceptor):
    """Returns objects that are not records."""

    def on_consume(self, records: list[Record]) -> list[Record]:
        return [(record.key, record.value) for record in records]  # type: ignore[misc]  # on purpose


async def test_items_that_are_no_records_are_dropped(
    cluster: FakeCluster, make: MakeConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    append(cluster, numbered(3))
    async with make("orders", interceptors=[Careless()]) as consumer:
        assert [(await consumer.getone()).value for _ in range(2)] == numbered(2)
        assert await consumer.position(TP0) == 2
    assert "on_consume() of" in caplog.text


class AtDelivery(Spy):
    at_delivery = True


@pytest.mark.parametrize("way", ["getone", "async for", "getone of a partition"])
async def test_consumption_is_seen_at_delivery(
    cluster: FakeCluster, make: MakeConsumer, way: str
) -> None:
    append(cluster, numbered(10))
    ahead, spy = Spy(), AtDelivery()
    async with make("orders", interceptors=[spy, ahead]) as consumer:
        if way == "async for":
            read = 0
            async for record in consumer:
                read += 1
                assert record.value == b"v%d" % (read - 1)
                assert spy.consumed == numbered(read)
                if read == 5:
                    break
        else:
            partitions = () if way == "getone" else (TP0,)
            for read in range(1, 6):
                await consumer.getone(*partitions)
                assert spy.consumed == numbered(read)
        consumer.seek(TP0, 8)
        await consumer.getone()
        assert spy.consumed == [*numbered(5), b"v8"]
        assert (await consumer.getmany(timeout_ms=1000, max_records=1)).keys() == {TP0}
        assert spy.consumed == [*numbered(5), b"v8", b"v9"]


async def test_without_at_delivery_runs_are_seen_ahead(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    append(cluster, numbered(10))
    spy = Spy()
    async with make("orders", interceptors=[spy]) as consumer:
        await consumer.getone()
        assert spy.consumed == numbered(10)
