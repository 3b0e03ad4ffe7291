"""Interceptors see and may change each record, get its outcome, and cannot break the producer."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.abc import ProducerInterceptor
from aiokafka_lite.errors import (
    BufferExhaustedError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka_lite.structs import ProducerRecord, RecordMetadata
from aiokafka_lite.testing import FakeCluster

pytestmark = pytest.mark.unhurried

Make = Callable[..., Any]
Stored = Callable[[FakeCluster, str], dict[int, list[Any]]]

PRODUCE = 0


class Recorder(ProducerInterceptor):
    def __init__(self) -> None:
        self.sent: list[ProducerRecord] = []
        self.outcomes: list[Any] = []
        self.closed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append(record)
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        self.outcomes.append(metadata.offset if metadata is not None else error)

    def close(self) -> None:
        self.closed += 1


class Stamper(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + "!", headers=[("seen", b"1")])


class Broken(Recorder):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise LookupError("on_send")

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        raise LookupError("on_acknowledgement")

    def close(self) -> None:
        raise LookupError("close")


async def test_a_chain_in_its_order_by_every_way_in(make_producer: Make, stored: Stored) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        recorder = Recorder()
        producer = make_producer(
            cluster, interceptors=[Stamper(), recorder], value_serializer=str.encode
        )
        await producer.start()
        await producer.send_and_wait("orders", "a", key=b"k")
        await (await producer.send("orders", "b"))
        await asyncio.gather(*await producer.send_many("orders", ["c", "d"]))
        await producer.send_nowait("orders", "e")
        await asyncio.wrap_future(producer.send_threadsafe("orders", "f"))
        assert [record.value for record in recorder.sent] == ["a!", "b!", "c!", "d!", "e!", "f!"]
        assert recorder.sent[0] == ProducerRecord("orders", "a!", b"k", headers=[("seen", b"1")])
        assert recorder.outcomes == list(range(6))
        found = stored(cluster, "orders")[0]
        assert [record.value for record in found] == [b"a!", b"b!", b"c!", b"d!", b"e!", b"f!"]
        assert {record.headers for record in found} == {(("seen", b"1"),)}
        await producer.stop()
        await producer.stop()
        assert recorder.closed == 1


async def test_interceptors_are_called_with_failures(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        recorder = Recorder()
        producer = make_producer(
            cluster,
            interceptors=(recorder,),
            max_request_size=1000,
            max_batch_size=1000,
            buffer_memory=1000,
            max_block_ms=50,
        )
        await producer.start()
        with pytest.raises(KafkaTimeoutError, match="not in the metadata"):
            producer.send_nowait("orders", b"v")
        assert isinstance(recorder.outcomes[0], KafkaTimeoutError)
        sent = False
        while not sent:  # after that the topic is known; that may take more than 50 ms
            with contextlib.suppress(KafkaTimeoutError):
                await producer.send_and_wait("orders", b"v")
                sent = True
        first = len(recorder.outcomes)
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send("orders", bytes(2000))
        with pytest.raises(TypeError):
            await producer.send("orders", "text")
        cluster.pause(0)
        held = await producer.send("orders", bytes(800))
        with pytest.raises(BufferExhaustedError):
            producer.send_nowait("orders", bytes(800))
        with pytest.raises(KafkaTimeoutError):
            await producer.send("orders", bytes(800))
        cluster.resume(0)
        await held
        cluster.control(PRODUCE, error=TopicAuthorizationFailedError.errno)
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("orders", b"v")
        kinds = [type(outcome).__name__ for outcome in recorder.outcomes[first:]]
        assert kinds == [
            "MessageSizeTooLargeError",
            "TypeError",
            "BufferExhaustedError",
            "KafkaTimeoutError",
            "int",
            "TopicAuthorizationFailedError",
        ]
        assert len(recorder.sent) == len(recorder.outcomes)


async def test_a_lost_record_is_logged_although_interceptors_hear_of_it(
    make_producer: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeCluster(topics=["orders"]) as cluster:
        recorder = Recorder()
        producer = make_producer(cluster, interceptors=[recorder])
        await producer.start()
        await producer.send_and_wait("orders", b"v")
        refusal = cluster.control(PRODUCE, error=TopicAuthorizationFailedError.errno, times=2)
        await producer.send("orders", b"nobody waits")
        await producer.flush()
        (line,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
        assert "lost 1 batch(es) whose acks were not awaited" in line.getMessage()
        caplog.clear()
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("orders", b"somebody waits")
        assert refusal.hits == 2
        assert not caplog.records
        assert [type(outcome) for outcome in recorder.outcomes[1:]] == 2 * [
            TopicAuthorizationFailedError
        ]


async def test_exceptions_of_interceptors_are_logged_and_change_nothing(
    make_producer: Make, stored: Stored, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        recorder = Recorder()

        class Nonsense(ProducerInterceptor):
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return None  # type: ignore[return-value]  # what is tested

        producer = make_producer(cluster, interceptors=[Broken(), Nonsense(), recorder])
        await producer.start()
        with caplog.at_level(logging.ERROR):
            assert (await producer.send_and_wait("orders", b"v")).offset == 0
            await producer.stop()
        assert recorder.outcomes == [0]
        assert recorder.closed == 1
        assert [record.value for record in stored(cluster, "orders")[0]] == [b"v"]
        calls = ("on_send", "on_send", "on_acknowledgement", "close")
        told = [line.getMessage().partition(" of ")[0] for line in caplog.records]
        assert told == [f"{producer._name}: {call}()" for call in calls]


async def test_a_cancelled_ack_does_not_reach_the_interceptors(make_producer: Make) -> None:
    async with FakeCluster(topics={"orders": 1}) as cluster:
        recorder = Recorder()
        producer = make_producer(cluster, interceptors=[recorder])
        await producer.start()
        ack = await producer.send("orders", b"v")
        ack.cancel()
        await producer.flush()
        await asyncio.sleep(0)
        assert recorder.outcomes == []


@pytest.mark.parametrize("given", [Recorder(), [Recorder], ["x"], None])
async def test_an_object_that_is_no_interceptor_is_refused(make_producer: Make, given: Any) -> None:
    async with FakeCluster() as cluster:
        with pytest.raises(TypeError, match="`interceptors`"):
            make_producer(cluster, interceptors=given)


class Counted(ProducerRecord):
    """A record with an attribute of its interceptor."""

    number: int


class Numbering(ProducerInterceptor):
    """Stores a number in each record, and finds it with its outcome."""

    def __init__(self) -> None:
        self.sent = 0
        self.outcomes: list[tuple[int, bytes, Any]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        numbered = Counted(*record)
        numbered.number = self.sent = self.sent + 1
        return numbered

    def on_completion(
        self,
        record: ProducerRecord,
        metadata: RecordMetadata | None,
        error: BaseException | None,
    ) -> None:
        assert isinstance(record, Counted)
        outcome = metadata.offset if metadata is not None else type(error)
        self.outcomes.append((record.number, record.value, outcome))


async def test_outcome_comes_with_the_record_that_on_send_returned(make_producer: Make) -> None:
    first, second, legacy = Numbering(), Numbering(), Recorder()
    async with FakeCluster(topics={"orders": 1}) as cluster:
        chain = [first, Stamper(), second, legacy]
        producer = make_producer(cluster, interceptors=chain, value_serializer=str.encode)
        await producer.start()
        await producer.send_and_wait("orders", "a")  # it waited for its topic
        await (await producer.send("orders", "b"))
        await producer.send_nowait("orders", "c")
        await asyncio.gather(*await producer.send_many("orders", ["d", "e"]))
        await asyncio.wrap_future(producer.send_threadsafe("orders", "f"))
        expected = [(n + 1, value, n) for n, value in enumerate("abcdef")]
        assert first.outcomes == expected
        assert second.outcomes == [(n, value + "!", offset) for n, value, offset in expected]
        assert legacy.outcomes == list(range(6))
        await producer.stop()


async def test_failure_comes_with_the_record(make_producer: Make) -> None:
    numbering = Numbering()
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, interceptors=[numbering])
        await producer.start()
        await producer.send_and_wait("orders", b"known")
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send("orders", b"x" * 2_000_000)
        with pytest.raises(KafkaTimeoutError):
            producer.send_nowait("not-known-yet", b"y")
        with pytest.raises(TypeError):
            await producer.send("orders", "not bytes")
        assert [(n, outcome) for n, _, outcome in numbering.outcomes] == [
            (1, 0),
            (2, MessageSizeTooLargeError),
            (3, KafkaTimeoutError),
            (4, TypeError),
        ]
        await producer.stop()


class Unwilling(Numbering):
    """Changes no record, because it raises."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise LookupError("on_send")

    def on_completion(
        self,
        record: ProducerRecord,
        metadata: RecordMetadata | None,
        error: BaseException | None,
    ) -> None:
        self.outcomes.append((0, record.value, error))


async def test_record_of_an_interceptor_whose_on_send_raised(make_producer: Make) -> None:
    unwilling = Unwilling()
    async with FakeCluster(topics={"orders": 1}) as cluster:
        producer = make_producer(cluster, interceptors=[unwilling])
        await producer.start()
        await producer.send_and_wait("orders", b"a")
        assert unwilling.outcomes == [(0, b"a", None)]
        await producer.stop()
