"""A fetch in flight, and what happens in the loop iteration that delivers its response."""

import asyncio

import pytest

from aiokafka_lite.consumer.consumer import AIOKafkaConsumer
from aiokafka_lite.consumer.fetching.broker_fetch import FEW_BYTES, BrokerFetch
from aiokafka_lite.consumer.fetching.in_flight_fetch import FetchFlight
from aiokafka_lite.consumer.fetching.partition_response import Answers
from aiokafka_lite.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    NotLeaderForPartitionError,
)
from aiokafka_lite.net.connection import Connection
from aiokafka_lite.protocol.framing import encode_request, encode_response
from aiokafka_lite.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.structs import TopicPartition
from aiokafka_lite.testing import FakeCluster
from tests.unit.consumer.conftest import MakeConsumer
from tests.unit.consumer.makers import append, until


class Ends:
    """Records how a request ended."""

    def __init__(self) -> None:
        self.answers: list[FetchResponse] = []
        self.failures: list[BaseException] = []
        self.flight = FetchFlight(FetchRequest(), self.answers.append, self.failures.append)


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_the_frame_equals_the_generated_encoding(version: int) -> None:
    whole = b"".join(Ends().flight.encode_frame(version, 7, "me"))
    assert whole == encode_request(FetchRequest(), version, 7, "me")


@pytest.mark.parametrize("version", [4, 12])
def test_the_response_is_decoded(version: int) -> None:
    data = PartitionData(3, 0, 10, records=b"abc")
    answer = FetchResponse(responses=[FetchableTopicResponse("orders", partitions=[data])])
    frame = bytes(encode_response(answer, version, 7))[4:]
    read = Ends().flight.read_response(frame, version)
    assert bytes(read.responses[0].partitions[0].records or b"") == b"abc"
    with pytest.raises(KafkaProtocolError):
        Ends().flight.read_response(frame[:-1], version)


def test_a_fetch_has_one_outcome() -> None:
    answered, failed, cancelled = Ends(), Ends(), Ends()
    assert not answered.flight.done()
    answered.flight.set_result(answer := FetchResponse())
    failed.flight.set_exception(error := KafkaConnectionError("gone"))
    cancelled.flight.cancel()
    assert (answered.answers, answered.failures) == ([answer], [])
    assert (failed.answers, failed.failures) == ([], [error])
    assert failed.flight.exception() is error
    assert (cancelled.answers, cancelled.failures) == ([], [])
    assert all(each.flight.done() for each in (answered, failed, cancelled))


async def at_rest(consumer: AIOKafkaConsumer) -> BrokerFetch:
    """Wait until a fetch waits at the one broker; return its fetches."""
    brokers = consumer._core.fetcher._brokers
    await until(lambda: any(each._in_flight is not None for each in brokers.values()))
    (broker,) = brokers.values()
    return broker


def fetches(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    """Record each fetch that is sent."""
    send_for = Connection.send_for

    def noted(self: Connection, promise: FetchFlight, *args: object, **options: object) -> None:
        events.append("fetch")
        send_for(self, promise, *args, **options)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(Connection, "send_for", noted)


@pytest.mark.parametrize(
    ("values", "order"),
    [([b"one"], ["records", "fetch"]), ([bytes(FEW_BYTES)] * 2, ["fetch", "records"])],
    ids=["few", "many"],
)
async def test_few_records_come_before_the_next_fetch_leaves_and_many_after(
    cluster: FakeCluster,
    make: MakeConsumer,
    monkeypatch: pytest.MonkeyPatch,
    values: list[bytes | None],
    order: list[str],
) -> None:
    events: list[str] = []
    async with make("orders", fetch_max_wait_ms=10_000) as consumer:

        async def read() -> None:
            (records,) = (await consumer.getmany(timeout_ms=10_000)).values()
            assert [record.value for record in records] == values
            events.append("records")

        reading = asyncio.ensure_future(read())
        await until(lambda: bool(consumer._core._waiters))
        await at_rest(consumer)
        fetches(monkeypatch, events)
        append(cluster, values)
        await reading
        await until(lambda: len(events) == 2)
    assert events == order


async def test_a_bug_in_response_processing_is_reported(
    cluster: FakeCluster, make: MakeConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*args: object) -> bool:
        raise ZeroDivisionError("a mistake")

    async with make("orders") as consumer:
        monkeypatch.setattr(Answers, "take", wrong)
        append(cluster, [b"one"])
        with pytest.raises(KafkaError, match="ZeroDivisionError"):
            await consumer.getone()


async def test_a_lost_connection_is_made_again(cluster: FakeCluster, make: MakeConsumer) -> None:
    async with make("orders", fetch_max_wait_ms=10_000) as consumer:
        waiting = asyncio.ensure_future(consumer.getone())
        broker = await at_rest(consumer)
        cluster.kill(0)
        await until(lambda: broker._in_flight is None)
        await cluster.restart(0)
        append(cluster, [b"one"])
        assert (await asyncio.wait_for(waiting, 10)).value == b"one"


async def test_stopping_drops_the_answer(cluster: FakeCluster, make: MakeConsumer) -> None:
    consumer = make("orders", fetch_max_wait_ms=10_000)
    await consumer.start()
    flight = (await at_rest(consumer))._in_flight
    assert flight is not None
    await consumer.stop()
    assert flight.done()


async def test_partitions_refused_together_are_requested_together(
    cluster: FakeCluster, make: MakeConsumer
) -> None:
    """Otherwise some would wait locally for the long poll of the first."""
    for _ in range(3):
        async with make(fetch_max_wait_ms=10_000, retry_backoff_ms=200) as consumer:
            fault = cluster.control(ApiKey.FETCH, error=NotLeaderForPartitionError)
            partitions = [TopicPartition("orders", partition) for partition in range(3)]
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, 0)
            await fault.struck()
            asked = cluster.count(ApiKey.FETCH)
            await until(lambda: cluster.count(ApiKey.FETCH) > asked)  # noqa: B023 (awaited here)
            request = [r.body for r in cluster.requests if r.api_key == ApiKey.FETCH][-1]
            assert isinstance(request, FetchRequest)
            assert request.session_epoch == 1  # so partitions that it does not name are requested
            assert not request.forgotten_topics_data
