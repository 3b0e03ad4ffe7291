"""The writes of the transport and their times, tested with a recording asyncio transport."""

import asyncio
import os
import random
import socket
from typing import Any

import pytest

from aiokafka_lite.errors import KafkaProtocolError
from aiokafka_lite.net.buffers import ReceiveBuffers
from aiokafka_lite.net.frames import Frame, FrameReceiver
from aiokafka_lite.net.transport import JOINED, MOST_PIECES, MOST_WAITING, FrameTransport
from aiokafka_lite.protocol.primitives import Buffer


class Notes:
    """An asyncio transport that records all calls."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.views: list[bool] = []
        self.closed = 0
        self.aborted = 0
        self.pause_after: int | None = None
        self.protocol: FrameTransport | None = None

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 1

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes | memoryview) -> None:
        self.written.append(bytes(data))
        self.views.append(isinstance(data, memoryview))
        if self.pause_after is not None and len(self.written) >= self.pause_after:
            assert self.protocol is not None
            self.protocol.pause_writing()

    def close(self) -> None:
        self.closed += 1

    def abort(self) -> None:
        self.aborted += 1


class Setup:
    def __init__(self, connected: bool = True) -> None:
        self.frames: list[Frame] = []
        self.lost: list[Exception | None] = []
        receiver = FrameReceiver(1000, ReceiveBuffers())
        self.transport = FrameTransport(receiver, self.frames.append, self.lost.append)
        self.notes = Notes()
        self.notes.protocol = self.transport
        if connected:
            self.transport.connection_made(self.notes)  # type: ignore[arg-type]

    def receive(self, data: bytes) -> None:
        window = self.transport.get_buffer(-1)
        window[: len(data)] = data
        self.transport.buffer_updated(len(data))


async def passes(count: int = 2) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_writes_of_one_loop_pass_are_joined() -> None:
    setup = Setup()
    for n in range(10):
        setup.transport.write(bytes([n]) * 10)
    assert setup.notes.written == []
    await passes()
    assert setup.notes.written == [b"".join(bytes([n]) * 10 for n in range(10))]
    setup.transport.write(b"later")
    await passes()
    assert setup.notes.written[1:] == [b"later"]


async def test_single_write_is_sent_at_once_if_the_queue_is_empty() -> None:
    setup = Setup()
    setup.transport.write(b"now", at_once=True)
    assert setup.notes.written == [b"now"]
    setup.transport.write(b"one", at_once=False)
    setup.transport.write(b"two", at_once=True)
    assert setup.notes.written == [b"now"]
    await passes()
    assert setup.notes.written == [b"now", b"onetwo"]
    setup.transport.pause_writing()
    setup.transport.write(b"held", at_once=True)
    assert len(setup.notes.written) == 2


async def test_large_writes_are_not_copied_and_order_is_kept() -> None:
    setup = Setup()
    large = bytearray(JOINED)
    for data in (b"a", b"b", large, b"c", large, large, b"d", b"e"):
        setup.transport.write(data)
    await passes()
    assert [len(each) for each in setup.notes.written] == [2, JOINED, 1, JOINED, JOINED, 2]
    assert [setup.notes.views[n] for n in (1, 3, 4)] == [True, True, True]
    assert (
        b"".join(setup.notes.written).strip(b"\0")
        == b"ab" + bytes(JOINED) + b"c" + bytes(2 * JOINED) + b"de"
    )


async def test_pieces_are_copied_without_vectored_writes() -> None:
    setup = Setup()
    large = bytearray(b"a" * JOINED)
    setup.transport.write_pieces([b"1", memoryview(large), b"2"])
    small = bytearray(b"b" * 10)
    setup.transport.write_pieces([b"3", memoryview(small)])
    large[:] = bytes(JOINED)
    small[:] = bytes(10)
    assert setup.notes.written == []
    await asyncio.sleep(0)
    assert b"".join(setup.notes.written) == b"1" + b"a" * JOINED + b"2" + b"3" + b"b" * 10


async def test_pieces_arrive_in_order_although_their_memory_is_reused() -> None:
    loop = asyncio.get_running_loop()
    taken, connected = socket.socketpair()
    taken.setblocking(False)
    connected.setblocking(False)
    transport = FrameTransport(FrameReceiver(1000, ReceiveBuffers()), print, lambda _: None)
    await loop.create_connection(lambda: transport, sock=connected)
    chance = random.Random(7)
    buffer = bytearray(4 * JOINED)
    expected = bytearray()
    received = bytearray()
    with taken:
        while len(expected) < 200 * JOINED:
            pieces: list[Buffer] = []
            for _ in range(chance.choice([1, 3, 2 * MOST_PIECES])):
                size = chance.choice([1, 100, JOINED]) if len(pieces) < 10 else 10
                begin = chance.randrange(len(buffer) - size)
                buffer[begin : begin + size] = chance.randbytes(size)
                pieces += b"between", memoryview(buffer)[begin : begin + size]
            expected += b"".join(pieces)
            transport.write_pieces(pieces, at_once=chance.random() < 0.3)
            pieces.clear()
            buffer[:] = bytes(len(buffer))
            if chance.random() < 0.3:
                small = chance.randbytes(50)
                expected += small
                transport.write(small, at_once=chance.random() < 0.5)
            if chance.random() < 0.3:
                await asyncio.sleep(0)
            if not transport.writable or chance.random() < 0.1:
                received += await loop.sock_recv(taken, 1_000_000)
        while len(received) < len(expected):
            async with asyncio.timeout(10):
                received += await loop.sock_recv(taken, 1_000_000)
        transport.abort()
        await transport.wait_lost()
    assert received == expected
    transport.write_pieces([b"too late"], at_once=True)


async def test_rest_of_a_large_frame_is_read_at_once_and_all_frames_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    direct = []
    readv = os.readv

    def counted(file: int, windows: Any) -> int:
        direct.append(readv(file, windows))
        return direct[-1]

    monkeypatch.setattr(os, "readv", counted)
    sender, connected = socket.socketpair()
    sender.setblocking(False)
    connected.setblocking(False)
    frames: list[bytes] = []
    receiver = FrameReceiver(1_000_000, ReceiveBuffers())
    lost: list[Exception | None] = []
    transport = FrameTransport(receiver, lambda frame: frames.append(bytes(frame)), lost.append)
    await loop.create_connection(lambda: transport, sock=connected)
    chance = random.Random(3)
    sizes = [chance.choice([8, 10, 1000, 70_000, 300_000]) for _ in range(200)]
    sent = [chance.randbytes(size) for size in sizes]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in sent)
    at = 0
    with sender:
        while at < len(stream):
            piece = stream[at : at + chance.choice([3, 5000, 100_000, 500_000])]
            await loop.sock_sendall(sender, piece)
            at += len(piece)
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            while len(frames) < len(sent):
                await asyncio.sleep(0.001)
    async with asyncio.timeout(10):
        await transport.wait_lost()  # the end of the stream, which a direct read leaves to the loop
    assert frames == sent
    assert sum(direct) > 100_000
    assert lost == [None]


async def test_a_paused_socket_gets_nothing_until_it_resumes() -> None:
    setup = Setup()
    setup.notes.pause_after = 1
    written: list[int] = []
    for n in range(3):
        setup.transport.write(bytearray(JOINED + n), lambda n=n: written.append(n))  # type: ignore[misc]
    await passes()
    assert written == [0]
    assert not setup.transport.writable
    setup.notes.pause_after = None
    setup.transport.resume_writing()
    assert written == [0, 1, 2]
    assert setup.transport.writable


async def test_large_queue_is_not_writable() -> None:
    setup = Setup()
    setup.transport.write(bytearray(MOST_WAITING))
    assert not setup.transport.writable
    await setup.transport.drain()
    assert setup.transport.writable


async def test_close_flushes_pending_writes() -> None:
    setup = Setup()
    setup.notes.pause_after = 1
    setup.transport.write(bytearray(JOINED))
    setup.transport.write(bytearray(JOINED))
    setup.transport.close()
    await passes()
    assert (len(setup.notes.written), setup.notes.closed) == (1, 0)
    setup.transport.write(b"too late")
    setup.transport.resume_writing()
    await passes()
    assert (len(setup.notes.written), setup.notes.closed) == (2, 1)
    setup.transport.connection_lost(None)
    assert setup.lost == [None]
    await setup.transport.wait_lost()


async def test_abort_drops_pending_writes() -> None:
    setup = Setup()
    setup.transport.write(b"dropped")
    setup.transport.abort()
    await passes()
    assert setup.notes.written == []
    assert setup.notes.aborted == 1


async def test_invalid_length_aborts_with_the_error() -> None:
    setup = Setup()
    setup.receive(b"\0\0\0\x04good\xff\xff\xff\xff")
    assert setup.frames == [b"good"]
    assert setup.notes.aborted == 1
    setup.transport.connection_lost(None)
    assert [type(error) for error in setup.lost] == [KafkaProtocolError]


async def test_nothing_is_delivered_after_a_close() -> None:
    setup = Setup()
    frames: list[Frame] = []

    def close_at_first(frame: Frame) -> None:
        frames.append(frame)
        setup.transport.abort()

    setup.transport._on_frame = close_at_first
    setup.receive(b"\0\0\0\x04one.\0\0\0\x04two.")
    setup.receive(b"\0\0\0\x04tri.")
    assert frames == [b"one."]


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_transport_that_never_connected_is_lost_at_once(how: str) -> None:
    setup = Setup(connected=False)
    getattr(setup.transport, how)()
    async with asyncio.timeout(5):
        await setup.transport.wait_lost()
    setup.transport.connection_lost(OSError("handshake"))
    assert setup.lost == []


async def test_socket_that_connects_after_the_loss_of_another_is_closed() -> None:
    setup = Setup()
    setup.transport.connection_lost(None)
    notes = Notes()
    setup.transport.connection_made(notes)  # type: ignore[arg-type]
    assert notes.aborted == 1


async def test_drain_wakes_all_callers_but_cancelled_ones() -> None:
    setup = Setup()
    setup.notes.pause_after = 1
    setup.transport.write(b"x")
    await passes()
    draining: list[asyncio.Task[Any]] = [
        asyncio.create_task(setup.transport.drain()) for _ in range(3)
    ]
    await passes()
    draining[1].cancel()
    await passes()
    setup.notes.pause_after = None
    setup.transport.resume_writing()
    async with asyncio.timeout(5):
        await asyncio.wait(draining)
    assert [task.cancelled() for task in draining] == [False, True, False]
