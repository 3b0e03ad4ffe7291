"""Requests and responses of a connection, and all its failures."""

import asyncio
import gc
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.errors import (
    CorrelationIdError,
    KafkaConnectionError,
    KafkaError,
    KafkaProtocolError,
    UnsupportedVersionError,
)
from aiokafka_lite.net.connection import LAST_CORRELATION_ID, Connection
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.open_connection import open_connection
from aiokafka_lite.protocol.framing import encode_response
from aiokafka_lite.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from aiokafka_lite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.testing import FakeCluster
from tests.unit.net.scripted import Peer

Serve = Callable[..., Any]
Connect = Callable[..., Any]

HEARTBEAT = 4
FETCH = 4


def heartbeat(number: int = 0) -> HeartbeatRequest:
    return HeartbeatRequest("group", number, "member")


def produce(size: int) -> ProduceRequest:
    partition = PartitionProduceData(0, b"x" * size)
    return ProduceRequest(None, 0, 1000, [TopicProduceData("t", partition_data=[partition])])


def send_unanswered(connection: Connection, request: ProduceRequest) -> asyncio.Future[None]:
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    connection.send_for(written, request, 7, expect_response=False)
    return written


async def answer_heartbeats(peer: Peer) -> None:
    await peer.greet()
    while True:
        header, request = await peer.read()
        assert isinstance(request, HeartbeatRequest)
        peer.answer(header, HeartbeatResponse(throttle_time_ms=request.generation_id))


async def answer_nothing(peer: Peer) -> None:
    await peer.greet()
    await peer.silence()


def fetched(records: bytes) -> FetchResponse:
    partition = PartitionData(partition_index=0, records=records)
    return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[partition])])


async def fails(future: asyncio.Future[Any], text: str) -> KafkaConnectionError:
    with pytest.raises(KafkaConnectionError, match=text) as caught:
        async with asyncio.timeout(5):
            await future
    return caught.value


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


# Responses


async def test_requests_are_answered_in_order(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(answer_heartbeats))
    futures = [connection.send(heartbeat(n), HEARTBEAT) for n in range(100)]
    assert connection.in_flight == 100
    assert [(await future).throttle_time_ms for future in futures] == list(range(100))
    assert connection.in_flight == 0
    assert connection.version_of(HeartbeatRequest) == HEARTBEAT
    assert connection.version_of(HeartbeatRequest, latest=2) == 2
    with pytest.raises(UnsupportedVersionError, match="Heartbeat"):
        connection.version_of(HeartbeatRequest, oldest=5)


async def test_request_awaits_its_response(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(answer_heartbeats))
    response = await connection.request(heartbeat(5), HEARTBEAT)
    assert response.throttle_time_ms == 5


async def test_requests_carry_the_client_id(serve: Serve, connect: Connect) -> None:
    names: list[str | None] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        header, _ = await peer.read()
        names.append(header.client_id)
        peer.answer(header, HeartbeatResponse())
        await peer.silence()

    connection = await connect(await serve(script), client_id="me")
    await connection.request(heartbeat(), HEARTBEAT)
    assert names == ["me"]


async def test_requests_of_one_loop_pass_are_sent_together(serve: Serve, connect: Connect) -> None:
    """Except the first, which is sent at once on the idle connection."""
    sizes: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read()
        sizes.append(len(await peer.reader.read(1 << 20)))
        await peer.silence()

    connection = await connect(await serve(script))
    for n in range(50):
        connection.send(heartbeat(n), HEARTBEAT)
    await until(lambda: bool(sizes))
    assert sizes[0] > 49 * 20


@pytest.mark.parametrize("cut", [1, 3, 7])
async def test_responses_arriving_in_pieces(serve: Serve, connect: Connect, cut: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        for _ in range(3):
            header, request = await peer.read()
            assert isinstance(request, HeartbeatRequest)
            response = HeartbeatResponse(throttle_time_ms=request.generation_id)
            data = encode_response(response, HEARTBEAT, header.correlation_id)
            for start in range(0, len(data), cut):
                peer.write(data[start : start + cut])
                await peer.writer.drain()
                await asyncio.sleep(0)
        await peer.silence()

    connection = await connect(await serve(script))
    futures = [connection.send(heartbeat(n), HEARTBEAT) for n in range(3)]
    assert [(await future).throttle_time_ms for future in futures] == [0, 1, 2]


async def huge_fetches(peer: Peer) -> None:
    """The nth response has n + 1 MiB of the byte n."""
    await peer.greet()
    n = 0
    while True:
        header, _ = await peer.read()
        peer.answer(header, fetched(bytes([n]) * ((n + 1) << 20)))
        await peer.writer.drain()
        n += 1


async def test_views_of_large_responses_stay_unchanged(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(huge_fetches))
    responses = [await connection.request(FetchRequest(), FETCH) for _ in range(4)]
    for n, response in enumerate(responses):
        records = response.responses[0].partitions[0].records
        assert isinstance(records, memoryview)
        assert records == bytes([n]) * ((n + 1) << 20)


async def test_response_memory_is_reused(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        while True:
            header, _ = await peer.read()
            peer.answer(header, fetched(b"x" * (1 << 20)))

    connection = await connect(await serve(script))
    seen = set()
    for _ in range(5):
        response = await connection.request(FetchRequest(), FETCH)
        seen.add(id(response.responses[0].partitions[0].records.obj))
        del response
    # Two buffers, if a frame still holds the last one while the next one is received.
    assert len(seen) <= 2


async def test_request_over_tls(
    serve: Serve, connect: Connect, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    broker = await serve(huge_fetches, context=server_tls)
    connection = await connect(
        broker, host="localhost", security_protocol="SSL", ssl_context=client_tls
    )
    futures = [connection.send(FetchRequest(), FETCH) for _ in range(4)]
    for n, future in enumerate(futures):
        records = (await future).responses[0].partitions[0].records
        assert records == bytes([n]) * ((n + 1) << 20)


async def test_tls_sends_and_receives_concurrently(
    serve: Serve, connect: Connect, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        while True:
            header, request = await peer.read()
            if isinstance(request, HeartbeatRequest):
                peer.answer(header, HeartbeatResponse(throttle_time_ms=request.generation_id))

    broker = await serve(script, context=server_tls)
    connection = await connect(
        broker, host="localhost", security_protocol="SSL", ssl_context=client_tls
    )
    for _ in range(3):
        send_unanswered(connection, produce(3 << 20))
        async with asyncio.timeout(10):
            await connection.drain()
            assert (await connection.request(heartbeat(3), HEARTBEAT)).throttle_time_ms == 3


async def test_correlation_ids_wrap_around(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(answer_heartbeats))
    connection._correlation_id = LAST_CORRELATION_ID - 1
    for n in range(3):
        assert (await connection.request(heartbeat(n), HEARTBEAT)).throttle_time_ms == n
    assert connection._correlation_id == 1


# Requests without a response


async def test_acks_0_expects_no_response(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(answer_heartbeats_and_swallow_produce))
    done = send_unanswered(connection, produce(10))
    assert connection.in_flight == 0
    assert await done is None
    assert (await connection.request(heartbeat(4), HEARTBEAT)).throttle_time_ms == 4


async def answer_heartbeats_and_swallow_produce(peer: Peer) -> None:
    await peer.greet()
    while True:
        header, request = await peer.read()
        if isinstance(request, HeartbeatRequest):
            peer.answer(header, HeartbeatResponse(throttle_time_ms=request.generation_id))


async def test_close_flushes_requests_already_sent(serve: Serve, connect: Connect) -> None:
    read: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        while True:
            read.append(len(await peer.read_frame()))

    connection = await connect(await serve(script))
    done = [send_unanswered(connection, produce(1 << 20)) for _ in range(5)]
    connection.close()
    async with asyncio.timeout(5):
        await connection.wait_closed()
    await until(lambda: len(read) == 5)
    assert [await future for future in done] == [None] * 5


# Failures


async def test_overdue_response_fails_the_connection(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(answer_nothing))
    patient = connection.send(heartbeat(), HEARTBEAT, timeout=30)
    hasty = connection.send(heartbeat(), HEARTBEAT, timeout=0.05)
    error = await fails(hasty, "Heartbeat v4 .* was not answered within 0")
    other = await fails(patient, "Heartbeat v4 .* was not answered within 0")
    assert error is not other
    assert connection.closed
    assert str(connection.last_error) == str(error)
    late = connection.send(heartbeat(), HEARTBEAT)
    assert late.done()
    await fails(late, "was not answered within 0")


async def test_responses_before_the_deadline_do_not_trigger_the_timer(
    serve: Serve, connect: Connect
) -> None:
    connection = await connect(await serve(answer_heartbeats), request_timeout=0.5)
    for n in range(10):
        assert (await connection.request(heartbeat(n), HEARTBEAT)).throttle_time_ms == n
        await asyncio.sleep(0.08)
    assert not connection.closed


async def hang_up(peer: Peer) -> None:
    await peer.greet()
    for _ in range(3):  # unread bytes would cause a reset
        await peer.read()


async def test_broker_closes_the_connection(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(hang_up))
    closed: list[KafkaError | None] = []
    connection.on_close = closed.append
    futures = [connection.send(heartbeat(n), HEARTBEAT) for n in range(3)]
    for future in futures:
        await fails(future, "broker closed the connection")
    assert closed == [connection.last_error]
    assert isinstance(connection.last_error, KafkaConnectionError)


async def test_broker_resets_the_connection(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read()
        linger = struct.pack("ii", 1, 0)
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    connection = await connect(await serve(script))
    await fails(connection.send(heartbeat(), HEARTBEAT), "127.0.0.1")
    assert connection.closed


async def test_partial_response_times_out(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        header, _ = await peer.read()
        data = encode_response(HeartbeatResponse(), HEARTBEAT, header.correlation_id)
        peer.write(data[:-2])
        await peer.silence()

    connection = await connect(await serve(script))
    await fails(connection.send(heartbeat(), HEARTBEAT, timeout=0.05), "not answered within 0")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\xff\xff\xff\xff", "length of -1 bytes"),
        (b"\x7f\xff\xff\xff", "larger than the limit"),
        (b"\x00\x00\x00\x00", "length of 0 bytes"),
        (b"HTTP/1.1 400", "speaks HTTP"),
    ],
)
async def test_invalid_frame_length_fails_the_connection(
    serve: Serve, connect: Connect, raw: bytes, text: str
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await peer.read()
        peer.write(raw)
        await peer.silence()

    connection = await connect(await serve(script))
    error = await fails(connection.send(heartbeat(), HEARTBEAT), text)
    assert isinstance(error.__cause__, KafkaProtocolError)
    assert isinstance(connection.last_error, KafkaProtocolError)


async def test_response_to_another_request_fails_the_connection(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        header, _ = await peer.read()
        peer.write(encode_response(HeartbeatResponse(), HEARTBEAT, header.correlation_id + 1))
        await peer.silence()

    connection = await connect(await serve(script))
    futures = [connection.send(heartbeat(n), HEARTBEAT) for n in range(2)]
    for future in futures:
        error = await fails(future, "correlation id")
        assert isinstance(error.__cause__, CorrelationIdError)


async def test_unexpected_response_fails_the_connection(serve: Serve, connect: Connect) -> None:
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.greet()
        await go.wait()
        peer.write(encode_response(HeartbeatResponse(), HEARTBEAT, 77))
        await peer.silence()

    connection = await connect(await serve(script))
    lost: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    connection.on_close = lost.set_result
    go.set()
    async with asyncio.timeout(5):
        assert isinstance(await lost, CorrelationIdError)


@pytest.mark.parametrize("garbage", [b"", b"\x00\x00\x00\x00\x00\x00\x00extra", b"\x05\xff"])
async def test_unreadable_response_fails_the_connection(
    serve: Serve, connect: Connect, garbage: bytes
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        header, _ = await peer.read()
        data = header.correlation_id.to_bytes(4, "big") + garbage
        peer.write(len(data).to_bytes(4, "big") + data)
        await peer.silence()

    connection = await connect(await serve(script))
    first, second = (connection.send(heartbeat(n), HEARTBEAT) for n in range(2))
    with pytest.raises(KafkaProtocolError, match=r"response to Heartbeat v4 .* cannot be read"):
        async with asyncio.timeout(5):
            await first
    error = await fails(second, "cannot be read")
    assert isinstance(error.__cause__, KafkaProtocolError)


async def test_cancelled_request_drops_only_its_own_response(
    serve: Serve, connect: Connect
) -> None:
    connection = await connect(await serve(answer_heartbeats))
    first, second, third = (connection.send(heartbeat(n), HEARTBEAT) for n in range(3))
    second.cancel()
    assert (await first).throttle_time_ms == 0
    assert (await third).throttle_time_ms == 2
    assert connection.in_flight == 0
    assert not connection.closed


async def test_a_request_that_cannot_be_encoded_is_not_sent(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(answer_heartbeats))
    with pytest.raises(UnsupportedVersionError):
        connection.send(heartbeat(), 99)
    assert connection.in_flight == 0
    assert (await connection.request(heartbeat(1), HEARTBEAT)).throttle_time_ms == 1


async def test_unawaited_failed_futures_do_not_warn(serve: Serve, connect: Connect) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    connection = await connect(await serve(answer_nothing))
    connection.send(heartbeat(), HEARTBEAT)
    send_unanswered(connection, produce(10))
    connection.close(KafkaConnectionError("enough"))
    connection.send(heartbeat(), HEARTBEAT)
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []


# Closing


async def test_close_fails_pending_requests_and_is_idempotent(
    serve: Serve, connect: Connect
) -> None:
    connection = await connect(await serve(answer_nothing))
    closed: list[KafkaError | None] = []
    connection.on_close = closed.append
    future = connection.send(heartbeat(), HEARTBEAT)
    connection.close()
    connection.close(KafkaConnectionError("later"))
    assert connection.closed
    assert not connection.writable
    assert connection.last_error is None
    assert closed == [None]
    await fails(future, "the connection was closed")
    with pytest.raises(KafkaConnectionError, match="the connection was closed"):
        await connection.drain()
    async with asyncio.timeout(5):
        await connection.wait_closed()


async def test_close_with_an_error_raises_it(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(answer_nothing))
    future = connection.send(heartbeat(), HEARTBEAT)
    reason = KafkaError("the house is on fire")
    connection.close(reason)
    error = await fails(future, "the house is on fire")
    assert error.__cause__ is reason
    assert connection.last_error is reason


async def test_close_ends_even_if_the_broker_does_not_read(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokafka_lite.net.transport.CLOSING_TIME", 0.05)

    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    connection = await connect(await serve(script))
    send_unanswered(connection, produce(64 << 20))
    connection.close()
    async with asyncio.timeout(5):
        await connection.wait_closed()


async def test_an_idle_connection_closes_without_an_error(serve: Serve, connect: Connect) -> None:
    connection = await connect(await serve(answer_heartbeats), connections_max_idle=1.0)
    closed: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    connection.on_close = closed.set_result
    for n in range(6):
        await connection.request(heartbeat(n), HEARTBEAT)
        await asyncio.sleep(0.2)
    assert not connection.closed  # busy for longer than the idle time
    async with asyncio.timeout(5):
        assert await closed is None
    assert connection.last_error is None


async def test_connection_with_a_pending_request_is_not_idle(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        header, _ = await peer.read()
        await asyncio.sleep(0.3)
        peer.answer(header, HeartbeatResponse(throttle_time_ms=9))
        await peer.silence()

    connection = await connect(await serve(script), connections_max_idle=0.1)
    closed: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    connection.on_close = closed.set_result
    assert (await connection.request(heartbeat(), HEARTBEAT)).throttle_time_ms == 9
    async with asyncio.timeout(10):  # although the request itself may take longer
        assert await closed is None


# Back-pressure


async def test_a_broker_that_reads_slowly_makes_the_connection_unwritable(
    serve: Serve, connect: Connect
) -> None:
    go = asyncio.Event()
    read: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.greet()
        await go.wait()
        while True:
            read.append(len(await peer.read_frame()))

    connection = await connect(await serve(script))
    sent = 0
    async with asyncio.timeout(10):
        while connection.writable:
            send_unanswered(connection, produce(1 << 20))
            sent += 1
            await asyncio.sleep(0.001)
        assert sent > 1
        draining = asyncio.create_task(connection.drain())
        await asyncio.sleep(0.05)
        assert not draining.done()
        go.set()
        await draining
        assert connection.writable
        await until(lambda: len(read) == sent)


async def test_request_not_sent_before_its_deadline_fails_the_connection(
    serve: Serve, connect: Connect
) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    connection = await connect(await serve(script), request_timeout=0.2)
    futures = []
    async with asyncio.timeout(10):
        while connection.writable:
            futures.append(send_unanswered(connection, produce(4 << 20)))
            await asyncio.sleep(0.001)
        futures.append(send_unanswered(connection, produce(1)))
    await fails(futures[-1], "could not be sent before its timeout")


async def test_drain_ends_when_the_connection_is_lost(serve: Serve, connect: Connect) -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.Event().wait()

    connection = await connect(await serve(script))
    send_unanswered(connection, produce(64 << 20))
    draining = asyncio.create_task(connection.drain())
    await asyncio.sleep(0.01)
    assert not draining.done()
    connection.close(KafkaConnectionError("given up"))
    with pytest.raises(KafkaConnectionError, match="given up"):
        await draining


# Opening


async def test_open_fails_without_a_listener(connect: Connect) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(KafkaConnectionError, match=f"cannot connect to 127.0.0.1:{port}"):
            await open_connection("127.0.0.1", port, ConnectionOptions())


async def test_cancelled_open_closes_its_socket(serve: Serve) -> None:
    gone = asyncio.Event()
    came = asyncio.Event()

    async def script(peer: Peer) -> None:
        came.set()
        await peer.silence()
        gone.set()

    broker = await serve(script)
    opening = asyncio.create_task(open_connection("127.0.0.1", broker.port, ConnectionOptions()))
    async with asyncio.timeout(5):
        await came.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await gone.wait()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_open_cancelled_at_any_step_leaves_nothing_open(
    serve: Serve, tls: bool, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    broker = await serve(answer_heartbeats, context=server_tls if tls else None)
    options = ConnectionOptions(
        security_protocol="SSL" if tls else "PLAINTEXT", ssl_context=client_tls if tls else None
    )
    host = "localhost" if tls else "127.0.0.1"
    opened = 0
    for steps in range(40):
        opening = asyncio.create_task(open_connection(host, broker.port, options))
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        try:
            connection = await opening
        except asyncio.CancelledError:
            continue
        opened += 1
        connection.close()
    assert opened < 40
    await until(lambda: broker.serving == 0)


async def test_the_same_options_serve_many_connections(serve: Serve, connect: Connect) -> None:
    broker = await serve(answer_heartbeats)
    options = ConnectionOptions()
    connections = [await connect(broker, options=options) for _ in range(5)]
    futures = [each.send(heartbeat(n), HEARTBEAT) for n, each in enumerate(connections)]
    assert [(await future).throttle_time_ms for future in futures] == list(range(5))
    assert repr(connections[0]) == f"<Connection to 127.0.0.1:{broker.port}: 0 in flight>"


async def test_a_response_that_arrived_while_the_loop_was_blocked_is_not_overdue() -> None:
    """Both loops read sockets before they run timers, as Java reads before it checks deadlines."""
    with FakeCluster() as cluster:  # in a separate thread: it answers while this loop is blocked
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        connection = await open_connection(host, int(port), ConnectionOptions())
        sent = connection.send(MetadataRequest(topics=[]), 1, timeout=1.0)
        await asyncio.sleep(0)  # uvloop writes in its next iteration
        transport: Any = connection._transport._transport
        if not sent.done():  # the broker is rarely this fast
            arrived, _, _ = select.select([transport.get_extra_info("socket")], [], [], 60)
            assert arrived
        time.sleep(1.2)  # noqa: ASYNC251 (the application blocks the loop beyond the deadline)
        assert (await sent).brokers
        connection.close()
