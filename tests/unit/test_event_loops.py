"""A call from another event loop or thread raises at once and has no effect."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.errors import IllegalStateError, KafkaError
from aiokafka_lite.testing import FakeCluster

Loop = asyncio.AbstractEventLoop

SEND_THREADSAFE = r"belongs to another event loop: call send_threadsafe\(\) from there"
RUN_THERE = r"belongs to another event loop.*run_coroutine_threadsafe\(\)"
CLOSED = r"event loop of .* is closed: create a new one"

ORDERS = TopicPartition("orders", 0)

LOOPS: list[Callable[[], Loop]] = [asyncio.new_event_loop]
if find_spec("uvloop") is not None:
    import uvloop

    LOOPS.append(uvloop.new_event_loop)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(topics={"orders": 1}) as cluster:
        yield cluster


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    """The clients' loop, which runs only when a test runs it."""
    loop = request.param()
    try:
        yield loop
    finally:
        loop.close()


@pytest.fixture
def producer(cluster: FakeCluster, loop: Loop) -> Iterator[AIOKafkaProducer]:
    async def make(**options: Any) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        await producer.start()
        return producer

    producer = loop.run_until_complete(make())
    yield producer
    loop.run_until_complete(producer.stop())


@pytest.fixture
def consumer(cluster: FakeCluster, loop: Loop) -> Iterator[AIOKafkaConsumer]:
    async def make() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="readers",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        consumer.assign([ORDERS])
        return consumer

    consumer = loop.run_until_complete(make())
    yield consumer
    loop.run_until_complete(consumer.stop())


async def send_nowait(producer: AIOKafkaProducer) -> Any:
    return producer.send_nowait("orders", b"v")


async def health(producer: AIOKafkaProducer) -> Any:
    return producer.health()


async def node_metrics(producer: AIOKafkaProducer) -> Any:
    return producer.node_metrics()


async def enter(producer: AIOKafkaProducer) -> Any:
    async with producer:
        pass


OF_A_PRODUCER: dict[str, Callable[[AIOKafkaProducer], Any]] = {
    "send": lambda producer: producer.send("orders", b"v"),
    "send_and_wait": lambda producer: producer.send_and_wait("orders", b"v"),
    "send_nowait": send_nowait,
    "send_many": lambda producer: producer.send_many("orders", [b"v"]),
    "send_batch": lambda producer: producer.send_batch(
        producer.create_batch(), "orders", partition=0
    ),
    "flush": lambda producer: producer.flush(),
    "partitions_for": lambda producer: producer.partitions_for("orders"),
    "health": health,
    "node_metrics": node_metrics,
    "start": lambda producer: producer.start(),
    "async with": enter,
    "stop": lambda producer: producer.stop(),
}

OF_A_TRANSACTION: dict[str, Callable[[AIOKafkaProducer], Any]] = {
    "begin_transaction": lambda producer: producer.begin_transaction(),
    "commit_transaction": lambda producer: producer.commit_transaction(),
    "abort_transaction": lambda producer: producer.abort_transaction(),
    "send_offsets_to_transaction": lambda producer: producer.send_offsets_to_transaction(
        {ORDERS: 1}, "readers"
    ),
}


async def iterate(consumer: AIOKafkaConsumer) -> Any:
    return await anext(aiter(consumer))


async def read_in_bulk(consumer: AIOKafkaConsumer) -> Any:
    async with consumer.batches() as batches:
        return await anext(batches)


def at_once(call: Callable[[AIOKafkaConsumer], Any]) -> Callable[[AIOKafkaConsumer], Any]:
    async def called(consumer: AIOKafkaConsumer) -> Any:
        return call(consumer)

    return called


OF_A_CONSUMER: dict[str, Callable[[AIOKafkaConsumer], Any]] = {
    "getone": lambda consumer: consumer.getone(),
    "getone of a partition": lambda consumer: consumer.getone(ORDERS),
    "getmany": lambda consumer: consumer.getmany(timeout_ms=100),
    "async for": iterate,
    "anext": lambda consumer: consumer.__anext__(),
    "batches": read_in_bulk,
    "commit": lambda consumer: consumer.commit({ORDERS: 1}),
    "committed": lambda consumer: consumer.committed(ORDERS),
    "position": lambda consumer: consumer.position(ORDERS),
    "seek": at_once(lambda consumer: consumer.seek(ORDERS, 0)),
    "seek_to_end": lambda consumer: consumer.seek_to_end(),
    "end_offsets": lambda consumer: consumer.end_offsets([ORDERS]),
    "topics": lambda consumer: consumer.topics(),
    "subscribe": at_once(lambda consumer: consumer.subscribe(["orders"])),
    "assign": at_once(lambda consumer: consumer.assign([ORDERS])),
    "unsubscribe": at_once(lambda consumer: consumer.unsubscribe()),
    "pause": at_once(lambda consumer: consumer.pause(ORDERS)),
    "resume": at_once(lambda consumer: consumer.resume(ORDERS)),
    "assignment": at_once(lambda consumer: consumer.assignment()),
    "paused": at_once(lambda consumer: consumer.paused()),
    "highwater": at_once(lambda consumer: consumer.highwater(ORDERS)),
    "last_stable_offset": at_once(lambda consumer: consumer.last_stable_offset(ORDERS)),
    "last_poll_timestamp": at_once(lambda consumer: consumer.last_poll_timestamp(ORDERS)),
    "metrics": at_once(lambda consumer: consumer.metrics()),
    "partition_metrics": at_once(lambda consumer: consumer.partition_metrics()),
    "node_metrics": at_once(lambda consumer: consumer.node_metrics()),
    "health": at_once(lambda consumer: consumer.health()),
    "start": lambda consumer: consumer.start(),
    "stop": lambda consumer: consumer.stop(),
}


def refused_by_another_loop(call: Callable[[Any], Any], client: Any, message: str) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            await call(client)

    with pytest.raises(IllegalStateError, match=message):
        asyncio.run(main())


@pytest.mark.parametrize("call", OF_A_PRODUCER)
def test_producer_raises_in_another_event_loop(
    cluster: FakeCluster, loop: Loop, producer: AIOKafkaProducer, call: str
) -> None:
    for _ in ("unknown", "known"):
        refused_by_another_loop(OF_A_PRODUCER[call], producer, SEND_THREADSAFE)
        loop.run_until_complete(producer.send_and_wait("orders", b"mine"))
    assert [record.value for record in cluster.records("orders")] == [b"mine", b"mine"]


@pytest.mark.parametrize("call", ["send", "send_and_wait"])
def test_record_awaited_in_another_loop_is_not_sent(
    cluster: FakeCluster, loop: Loop, producer: AIOKafkaProducer, call: str
) -> None:
    """The call is made while no loop runs, and awaited in another loop."""
    loop.run_until_complete(producer.send_and_wait("orders", b"known"))

    async def main(awaitable: Any) -> None:
        await awaitable

    with pytest.raises(IllegalStateError, match="another event loop"):
        asyncio.run(main(getattr(producer, call)("orders", b"v")))
    loop.run_until_complete(producer.flush())
    assert [record.value for record in cluster.records("orders")] == [b"known"]


def test_record_from_another_loop_is_not_added_to_an_open_batch(
    cluster: FakeCluster, loop: Loop
) -> None:
    async def begin() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)
        await producer.start()
        await producer.partitions_for("orders")
        await producer.send("orders", b"mine")
        return producer

    producer = loop.run_until_complete(begin())
    for call in ("send", "send_and_wait", "send_nowait"):
        refused_by_another_loop(OF_A_PRODUCER[call], producer, SEND_THREADSAFE)
    loop.run_until_complete(producer.stop())
    assert [record.value for record in cluster.records("orders")] == [b"mine"]


@pytest.mark.parametrize("call", OF_A_TRANSACTION)
def test_transaction_raises_in_another_event_loop(
    cluster: FakeCluster, loop: Loop, call: str
) -> None:
    async def begin() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id="t"
        )
        await producer.start()
        await producer.begin_transaction()
        await producer.send("orders", b"mine")
        return producer

    producer = loop.run_until_complete(begin())
    refused_by_another_loop(OF_A_TRANSACTION[call], producer, SEND_THREADSAFE)
    loop.run_until_complete(producer.commit_transaction())
    loop.run_until_complete(producer.stop())
    assert [record.value for record in cluster.records("orders")] == [b"mine"]


@pytest.mark.parametrize("call", OF_A_CONSUMER)
def test_consumer_raises_in_another_event_loop(
    cluster: FakeCluster, loop: Loop, consumer: AIOKafkaConsumer, call: str
) -> None:
    for _ in range(3):
        cluster.produce("orders", b"v")
    refused_by_another_loop(OF_A_CONSUMER[call], consumer, RUN_THERE)
    first = loop.run_until_complete(asyncio.wait_for(consumer.getone(), 10))
    # Again, with records buffered.
    refused_by_another_loop(OF_A_CONSUMER[call], consumer, RUN_THERE)
    second = loop.run_until_complete(asyncio.wait_for(consumer.getone(), 10))
    assert (first.offset, second.offset) == (0, 1)


@pytest.fixture
def in_background(loop: Loop) -> Iterator[Callable[[Any], Any]]:
    """Runs the clients' loop in a separate thread; runs a coroutine in it."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(loop.run_forever)

        def run(coroutine: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)

        run(asyncio.sleep(0))
        yield run
        loop.call_soon_threadsafe(loop.stop)
        running.result(20)


def test_send_nowait_raises_in_another_thread(
    cluster: FakeCluster, producer: AIOKafkaProducer, in_background: Callable[[Any], Any]
) -> None:
    for _ in ("unknown", "known"):
        with pytest.raises(IllegalStateError, match=r"another thread: call send_threadsafe\(\)"):
            producer.send_nowait("orders", b"v")
        in_background(producer.send_and_wait("orders", b"mine"))
    assert [record.value for record in cluster.records("orders")] == [b"mine", b"mine"]


def test_thread_that_ran_the_loop_before_is_refused(
    cluster: FakeCluster, loop: Loop, producer: AIOKafkaProducer
) -> None:
    loop.run_until_complete(producer.send_and_wait("orders", b"here"))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(loop.run_forever)
        sent = producer.send_and_wait("orders", b"there")
        asyncio.run_coroutine_threadsafe(sent, loop).result(20)
        with pytest.raises(IllegalStateError, match="another thread"):
            producer.send_nowait("orders", b"refused")
        loop.call_soon_threadsafe(loop.stop)
        running.result(20)
    loop.run_until_complete(producer.send_and_wait("orders", b"here again"))
    values = [record.value for record in cluster.records("orders")]
    assert values == [b"here", b"there", b"here again"]


def test_seek_raises_in_another_thread(
    consumer: AIOKafkaConsumer, in_background: Callable[[Any], Any]
) -> None:
    with pytest.raises(IllegalStateError, match="another thread"):
        consumer.seek(ORDERS, 7)
    assert in_background(consumer.position(ORDERS)) == 0


def test_inspecting_a_running_consumer_refuses_another_thread(
    consumer: AIOKafkaConsumer, in_background: Callable[[Any], Any]
) -> None:
    for inspect in (
        consumer.assignment,
        consumer.paused,
        consumer.metrics,
        consumer.partition_metrics,
    ):
        with pytest.raises(IllegalStateError, match="another thread"):
            inspect()


def test_subscription_and_topic_partitions_are_readable_in_any_thread(
    consumer: AIOKafkaConsumer, in_background: Callable[[Any], Any]
) -> None:
    in_background(consumer.end_offsets([ORDERS]))  # the metadata has arrived
    assert consumer.subscription() == {"orders"}
    assert consumer.partitions_for_topic("orders") == {0}


def test_a_stopped_consumer_is_inspected_from_anywhere(cluster: FakeCluster) -> None:
    async def main() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers)
        async with consumer:
            assert consumer.assignment() == {ORDERS}
        return consumer

    consumer = asyncio.run(main())  # its loop is closed
    assert consumer.assignment() == {ORDERS}
    assert consumer.paused() == set()
    assert consumer.highwater(ORDERS) in (None, 0)
    assert consumer.metrics()["assigned-partitions"] == 1.0
    assert list(consumer.partition_metrics()) == [ORDERS]


def test_coroutine_created_in_another_thread_may_run_in_the_loop(
    producer: AIOKafkaProducer,
    consumer: AIOKafkaConsumer,
    in_background: Callable[[Any], Any],
) -> None:
    for offset in range(3):
        assert in_background(producer.send_and_wait("orders", b"v")).offset == offset
        assert in_background(consumer.getone()).offset == offset


def test_producer_accepts_records_between_runs_of_its_loop(
    cluster: FakeCluster, loop: Loop, producer: AIOKafkaProducer
) -> None:
    loop.run_until_complete(producer.send_and_wait("orders", b"known"))
    ack = producer.send_nowait("orders", b"v")
    sent = producer.send_and_wait("orders", b"w")
    loop.run_until_complete(producer.flush())
    assert ack.result().offset == 1
    assert loop.run_until_complete(sent).offset == 2


def test_loop_may_move_to_another_thread(
    cluster: FakeCluster, loop: Loop, producer: AIOKafkaProducer
) -> None:
    offsets: list[int] = []

    async def send() -> None:
        offsets.append((await producer.send_and_wait("orders", b"v")).offset)
        ack = producer.send_nowait("orders", b"v")
        offsets.append((await ack).offset)

    thread = threading.Thread(target=loop.run_until_complete, args=(send(),))
    thread.start()
    thread.join()
    loop.run_until_complete(send())
    assert offsets == [0, 1, 2, 3]


@pytest.mark.parametrize("call", ["send", "send_and_wait", "send_nowait", "flush", "stop"])
def test_producer_with_a_closed_loop_raises(call: str) -> None:
    async def make() -> AIOKafkaProducer:
        return AIOKafkaProducer(bootstrap_servers="127.0.0.1:1")

    producer = asyncio.run(make())

    refused_by_another_loop(OF_A_PRODUCER[call], producer, CLOSED)
    gone = weakref.ref(producer)
    del producer
    with pytest.warns(ResourceWarning, match="Unclosed"):
        gc.collect()
    assert gone() is None


@pytest.mark.parametrize("call", ["getone", "getmany", "seek", "stop"])
def test_consumer_with_a_closed_loop_raises(call: str) -> None:
    async def make() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1")
        consumer.assign([ORDERS])
        return consumer

    consumer = asyncio.run(make())

    refused_by_another_loop(OF_A_CONSUMER[call], consumer, CLOSED)
    gone = weakref.ref(consumer)
    del consumer
    with pytest.warns(ResourceWarning, match="Unclosed"):
        gc.collect()
    assert gone() is None


async def test_stopped_client_can_be_stopped_again_in_any_loop(
    cluster: FakeCluster,
) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    consumer = AIOKafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers)
    for client in (producer, consumer):
        await client.start()
        await client.stop()

    def elsewhere() -> None:
        for client in (producer, consumer):
            asyncio.run(client.stop())

    await asyncio.to_thread(elsewhere)


def test_wrong_loop_error_is_a_runtime_error() -> None:
    assert issubclass(IllegalStateError, KafkaError)
    assert issubclass(IllegalStateError, RuntimeError)
