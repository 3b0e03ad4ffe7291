"""Fetch sessions with a real Kafka: both sides agree on the session's partitions at all times."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer
from aiokafka_lite.cluster.broker import Purpose
from aiokafka_lite.consumer.fetching.fetch_session import FetchSession
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.messages.fetch import FetchRequest
from aiokafka_lite.structs import TopicPartition
from tests.real.test_consumer import TopicFactory, numbered, reading, take, write, writer
from tools.kafka import RealKafka


class Spy:
    """Records the session requests and their errors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[FetchRequest] = []
        self.refusals: list[str] = []
        ask, reject = FetchSession.next_request, FetchSession._on_rejected

        def next_request(session: FetchSession, *args: Any, **options: Any) -> FetchRequest:
            request = ask(session, *args, **options)
            self.requests.append(request)
            return request

        def on_rejected(session: FetchSession, kind: Any, *, within: bool) -> None:
            self.refusals.append(kind.message)
            reject(session, kind, within=within)

        monkeypatch.setattr(FetchSession, "next_request", next_request)
        monkeypatch.setattr(FetchSession, "_on_rejected", on_rejected)

    @property
    def named(self) -> list[int]:
        """The number of partitions in each request."""
        return [sum(len(t.partitions) for t in request.topics) for request in self.requests]

    @property
    def ids(self) -> list[int]:
        return [request.session_id for request in self.requests]

    @property
    def begun(self) -> int:
        """The number of sessions."""
        return sum(request.session_epoch == 0 for request in self.requests)

    async def another_session(self, count: int) -> None:
        """Wait until more than this many sessions have begun."""
        await until(lambda: self.begun > count)

    async def another(self, count: int) -> None:
        """Wait for this many requests in total, and one more."""
        await until(lambda: len(self.requests) > count)


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Spy:
    return Spy(monkeypatch)


def session_of(consumer: AIOKafkaConsumer) -> FetchSession:
    (broker,) = consumer._core.fetcher._brokers.values()
    return broker._session


def connection_of(consumer: AIOKafkaConsumer) -> Connection:
    (broker,) = consumer._core.fetcher._brokers.values()
    assert broker._connection is not None
    return broker._connection


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def test_one_busy_partition_among_many(
    kafka: RealKafka, topic: TopicFactory, spy: Spy
) -> None:
    name = topic(100)
    async with reading(kafka, name, fetch_max_wait_ms=100) as consumer:
        tps = [TopicPartition(name, i) for i in range(100)]
        await until(lambda: all(consumer.highwater(tp) == 0 for tp in tps))  # the topic is new
        quiet = len(spy.requests)
        await spy.another(quiet + 1)
        for begin in range(0, 50, 10):
            await asyncio.to_thread(write, kafka, name, numbered(10, begin), partition=7)
            assert [r.value for r in await take(consumer, 10)] == numbered(10, begin)
        await spy.another(len(spy.requests))
        assert max(spy.named[quiet + 1 :]) == 1
        assert len(set(spy.ids[quiet + 1 :])) == 1
        assert len(session_of(consumer).asked) == 100
        assert consumer.highwater(tps[7]) == 50
        assert consumer.highwater(tps[8]) == 0


@pytest.mark.parametrize("what", ["id", "epoch", "ids of topics", "connection"])
async def test_evicted_session_is_replaced(
    kafka: RealKafka, topic: TopicFactory, spy: Spy, what: str
) -> None:
    name = topic(5)
    producer = writer(kafka)
    async with reading(kafka, name, fetch_max_wait_ms=50, retry_backoff_ms=20) as consumer:
        for turn in range(4):
            for partition in range(5):
                values = numbered(20, 20 * turn)
                await asyncio.to_thread(
                    write, kafka, name, values, partition=partition, by=producer
                )
            records = await take(consumer, 100)
            assert sorted((r.partition, r.offset) for r in records) == [
                (partition, offset)
                for partition in range(5)
                for offset in range(20 * turn, 20 * turn + 20)
            ]
            session = session_of(consumer)
            await until(lambda: session_of(consumer).epoch > 1)
            before, begun = len(spy.requests), spy.begun
            if what == "id":
                session.session_id ^= 1
            elif what == "epoch":
                session.epoch += 5
            elif what == "ids of topics":
                fetcher = consumer._core.fetcher
                for ids in ({}, fetcher.topic_ids):  # a session by names, then one by ids
                    fetcher.topic_ids = ids
                    for state in consumer._core.positions:
                        fetcher.update(state)
                    await spy.another(len(spy.requests) + 1)
            else:  # it may continue the session if nothing was in flight
                connection_of(consumer).close()
            await spy.another(before + 1)
            if what != "connection":
                await spy.another_session(begun)
    if what in ("id", "epoch"):
        assert len(spy.refusals) == 4
    else:
        assert spy.refusals == []


async def test_session_follows_pause_unassign_and_loss(
    kafka: RealKafka, topic: TopicFactory, spy: Spy
) -> None:
    name = topic(4)
    tps = [TopicPartition(name, i) for i in range(4)]
    for partition in range(4):
        write(kafka, name, numbered(10), partition=partition)
    async with reading(kafka, fetch_max_wait_ms=50) as consumer:
        consumer.assign(tps[:2])
        assert len(await take(consumer, 20)) == 20
        consumer.pause(tps[0])
        await until(lambda: spy.requests[-1].session_epoch > 1 and not spy.named[-1])
        # Such a request may have been sent before the pause.
        await until(lambda: set(session_of(consumer).asked) == {tps[1]})
        await asyncio.to_thread(write, kafka, name, [b"for later"], partition=0)
        await asyncio.to_thread(write, kafka, name, [b"for now"], partition=1)
        assert [r.value for r in await take(consumer, 1)] == [b"for now"]
        consumer.resume(tps[0])
        assert [r.value for r in await take(consumer, 1)] == [b"for later"]
        consumer.assign(tps[2:])
        assert len(await take(consumer, 20)) == 20
        await until(lambda: set(session_of(consumer).asked) == set(tps[2:]))
        assert len(set(spy.ids)) == 2
        assert spy.refusals == []


async def test_closed_session_is_removed_at_the_broker(
    kafka: RealKafka, topic: TopicFactory
) -> None:
    name = topic(3)
    write(kafka, name, numbered(5))
    async with reading(kafka, name, fetch_max_wait_ms=5000) as other:
        consumer = AIOKafkaConsumer(
            name, bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
        )
        async with consumer:
            assert len(await take(consumer, 5)) == 5
            session = session_of(consumer)
            await until(lambda: session.epoch > 1)
            session_id, epoch = session.session_id, session.epoch
        assert len(await take(other, 5)) == 5
        broker = other._core.cluster.broker(next(iter(other._core.fetcher._brokers)))
        connection = await broker.connection(Purpose.GENERAL)
        version = connection.version_of(FetchRequest)
        for mine in (epoch, epoch + 1):  # the last request may have been processed or not
            request = FetchRequest(session_id=session_id, session_epoch=mine, topics=[])
            response = await connection.request(request, version)
            assert response.error_code == 70, "FETCH_SESSION_ID_NOT_FOUND"
