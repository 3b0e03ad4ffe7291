"""Interceptors of a share consumer see, change and drop records, and cannot break it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafka_lite import ConsumerRecord
from aiokafka_lite.abc import ConsumerInterceptor
from aiokafka_lite.errors import KafkaConnectionError

pytestmark = pytest.mark.unhurried

PATIENCE = 60.0

Records = list[ConsumerRecord[Any, Any]]


class Odd(ConsumerInterceptor):
    """Drops every second record, and marks the others."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.closed = 0

    def on_consume(self, records: Records) -> Records:
        self.seen += [record.value for record in records]
        kept = [record for record in records if record.offset % 2]
        for record in kept:
            record.value = b"odd " + record.value
        return kept

    def close(self) -> None:
        self.closed += 1


async def test_records_are_changed_and_left_out_ones_are_accepted(cluster, make) -> None:
    for value in range(6):
        cluster.produce("jobs", b"%d" % value, partition=0)
    odd = Odd()
    async with make("jobs", interceptors=[odd]) as consumer, asyncio.timeout(PATIENCE):
        seen = []
        while len(seen) < 3:
            record = await consumer.getone()
            seen.append(record.value)
            assert await record.accept() is None
        await consumer.flush()
    assert seen == [b"odd 1", b"odd 3", b"odd 5"]
    assert odd.seen == [b"%d" % value for value in range(6)]
    assert odd.closed == 1
    cluster.produce("jobs", b"6", partition=0)
    async with make("jobs") as consumer, asyncio.timeout(PATIENCE):
        record = await consumer.getone()
        assert (record.value, record.delivery_count) == (b"6", 1)


class Cancelled(ConsumerInterceptor):
    def on_consume(self, records: Records) -> Records:
        raise asyncio.CancelledError


async def test_an_interceptor_that_raises_a_cancellation_stops_no_fetches(cluster, make) -> None:
    async with make("jobs", interceptors=[Cancelled()]) as consumer, asyncio.timeout(PATIENCE):
        for value in range(2):
            cluster.produce("jobs", b"%d" % value, partition=0)
            record = await consumer.getone()
            assert record.value == b"%d" % value
            assert await record.accept() is None


class OddAtDelivery(Odd):
    at_delivery = True


async def test_an_interceptor_may_see_records_only_at_their_delivery(cluster, make) -> None:
    for value in range(20):
        cluster.produce("jobs", b"%d" % value, partition=value % 2)
    odd = OddAtDelivery()
    async with make("jobs", interceptors=[odd]) as consumer, asyncio.timeout(PATIENCE):
        seen = 0
        while seen < 5:
            record = await consumer.getone()
            assert record.value.startswith(b"odd ")
            assert odd.seen[-1] == record.value.removeprefix(b"odd ")  # none before it
            record.accept()
            seen += 1
        while seen < 10:
            records = await consumer.getmany(timeout_ms=1000)
            assert all(record.offset % 2 for record in records)
            records.accept()
            seen += len(records)
        await consumer.flush()
        assert len(odd.seen) == 20
        assert not await consumer.getmany(timeout_ms=100)
    async with make("jobs") as consumer:  # the dropped records are accepted
        assert not await consumer.getmany(timeout_ms=300)


class Replacing(ConsumerInterceptor):
    """Returns its own records."""

    def on_consume(self, records: Records) -> Records:
        fields = ("new", 0, 0, 0, 0, None, b"other", None, -1, 5, ())
        return [ConsumerRecord(*fields)]


class Failing(ConsumerInterceptor):
    """Raises."""

    def on_consume(self, records: Records) -> Records:
        raise ValueError("a bug")


@pytest.mark.parametrize(
    ("kind", "text"), [(Replacing, "that it did not receive"), (Failing, "a bug")]
)
async def test_a_faulty_interceptor_loses_no_record(cluster, make, kind, text, caplog) -> None:
    cluster.produce("jobs", b"0", partition=0)
    async with make("jobs", interceptors=[kind()]) as consumer, asyncio.timeout(PATIENCE):
        record = await consumer.getone()
        assert record.value == b"0"
        assert await record.accept() is None
    assert text in caplog.text


async def test_undecodable_records_pass_by_interceptors(cluster, make) -> None:
    for value in (b"0", b"x", b"2"):
        cluster.produce("jobs", value, partition=0)
    odd = Odd()
    odd.on_consume = lambda records: odd.seen.append(len(records)) or records  # type: ignore[method-assign, func-returns-value]
    options = {"interceptors": [odd], "value_deserializer": int, "on_undecodable": "raise"}
    async with make("jobs", **options) as consumer, asyncio.timeout(PATIENCE):
        assert (await consumer.getone()).value == 0
        with pytest.raises(ValueError, match="invalid literal"):
            await consumer.getone()
        assert (await consumer.getone()).value == 2
    assert odd.seen == [1, 1]


async def test_interceptors_outlive_a_start_that_failed(cluster, make) -> None:
    odd = Odd()
    consumer = make("jobs", interceptors=[odd], bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaConnectionError):
        await consumer.start()
    assert odd.closed == 0
    await consumer.stop()
    assert odd.closed == 1


async def test_interceptors_are_checked(make) -> None:
    for wrong in (Odd(), [5], "odd"):
        with pytest.raises(TypeError, match="interceptors"):
            make("jobs", interceptors=wrong)
