"""The asyncio protocol of a connection: writes requests, passes received frames to a callback.

Requests written during one pass of the event loop are sent together at its end, in as few system
calls as possible. Only a request on an idle connection is sent at once, to save that pass. When the
socket is full, requests wait here, not in the event loop's own buffer, which would copy them;
`writable` is False then.

Non-obvious:
- The event loop calls `on_lost` exactly once, after `connection_made`, and never within a call
  into this object.
- `get_buffer` returns a memoryview (see `frames`).
- A large request in pieces is not copied: the kernel reads the pieces in place. This bypasses the
  event loop, which is correct as long as the loop has nothing to send.
- The beginning of a large frame fills the window. The rest, which has usually arrived, too, is read
  at once instead of in the next pass of the event loop.
- The loop's write buffer has a high-water mark of one byte, so that "paused" means that the
  kernel's buffer is full. (With zero, asyncio's TLS would pause an empty buffer forever.)
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, cast

from aiokafka_lite.net.frames import Frame, FrameReceiver
from aiokafka_lite.protocol.primitives import Buffer

JOINED: Final = 32 * 1024
"""Size in bytes up to which requests are copied and sent in one write."""
MOST_WAITING: Final = 1024 * 1024
"""Bytes that may wait here before `writable` turns false, even if the socket takes them all."""
CLOSING_TIME: Final = 2.0
"""Seconds that a closing transport has to flush its queue to the socket."""

MOST_PIECES: Final = 1000
"""Maximum number of pieces per system call (IOV_MAX is 1024 on Linux and macOS)."""
_VECTORED: Final = hasattr(os, "writev")

_Written: TypeAlias = Callable[[], None] | None


class FrameTransport(asyncio.BufferedProtocol):
    """The transport of one socket, from connection to loss.

    Args:
        receiver: Splits received bytes into frames.
        on_frame: Called with each frame, in order. Must not raise.
        on_lost: Called when the socket is closed, with the reason, or None after `close` or when
            the other side closed it.
    """

    def __init__(
        self,
        receiver: FrameReceiver,
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[Exception | None], None],
    ) -> None:
        self._receiver = receiver
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[bytes | bytearray, _Written]] = deque()
        self._waiting_bytes = 0
        self._flush_is_due = False
        self._file = -1  # the socket's, where it may be used directly
        self._window = 0  # bytes that the event loop may receive at once
        self._paused = False  # by the event loop: the socket takes no more
        self._closing = False
        self._error: Exception | None = None  # why this side aborted
        self._abort_timer: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None  # shared by all callers of drain()
        self._lost: asyncio.Future[None] = self._loop.create_future()

    # What the connection calls

    @property
    def writable(self) -> bool:
        """True if a request written now would reach the socket soon."""
        return not self._paused and not self._closing and self._waiting_bytes < MOST_WAITING

    def write(
        self, data: bytes | bytearray, written: _Written = None, *, at_once: bool = False
    ) -> None:
        """Send a request with others at the end of this pass of the event loop.

        Args:
            data: The whole frame; it must not change afterwards.
            written: Called once the socket or the event loop has taken all of it.
            at_once: Send it now, because no other request is in flight.
        """
        if self._closing:
            return
        if at_once and not self._waiting and not self._paused and self._transport is not None:
            self._hand_over(self._transport, data, written)
            return
        self._waiting.append((data, written))
        self._waiting_bytes += len(data)
        if not self._flush_is_due and not self._paused:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def write_pieces(self, pieces: list[Buffer], *, at_once: bool = False) -> None:
        """Send a request in pieces, which may change as soon as this returns.

        A large request is sent at once, without a copy, as far as the socket accepts it. The rest
        of it, and all of a small request, is copied.

        Args:
            pieces: The whole frame, in order.
            at_once: As for `write`.
        """
        sent = 0
        size = sum(map(len, pieces))
        if self._file >= 0 and (at_once or size >= JOINED) and len(pieces) <= MOST_PIECES:
            if self._waiting:
                self._flush()
            sent = self._write_now(pieces)
            if sent == size:
                return
        rest = b"".join(_behind(pieces, sent) if sent else pieces)
        if rest:
            self.write(rest, at_once=at_once)

    async def drain(self) -> None:
        """Wait until the transport is writable or closing.

        Cancellation: stops the wait.
        """
        while not self.writable and not self._closing:
            if self._drained is None:
                self._drained = self._loop.create_future()
            await asyncio.shield(self._drained)

    def close(self) -> None:
        """Flush, then close; data that the socket does not take in two seconds is dropped."""
        if self._closing:
            return
        self._flush()
        self._closing = True
        self._wake()
        if self._transport is None:
            self._lost.set_result(None)
            return
        self._abort_timer = self._loop.call_later(CLOSING_TIME, self.abort)
        if not self._waiting:
            self._transport.close()

    def abort(self, error: Exception | None = None) -> None:
        """Close at once; `on_lost` receives `error`."""
        self._closing = True
        self._error = self._error or error
        self._waiting.clear()
        self._waiting_bytes = 0
        self._wake()
        if self._transport is not None:
            self._transport.abort()
        elif not self._lost.done():
            self._lost.set_result(None)

    async def wait_lost(self) -> None:
        """Wait until the socket is closed. Cancellation: stops the wait."""
        await asyncio.shield(self._lost)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=1)
        encrypted = self._transport.get_extra_info("sslcontext") is not None
        socket = self._transport.get_extra_info("socket")
        if _VECTORED and not encrypted and socket is not None:
            self._file = socket.fileno()
        if self._closing:
            # An earlier attempt was abandoned just as its socket connected, for example because the
            # event loop was blocked for long, and `dial` has tried the next address: nothing else
            # closes that socket.
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        window = self._receiver.window()
        self._window = len(window)
        return window

    def buffer_updated(self, nbytes: int) -> None:
        self._on_received(nbytes)
        if nbytes == self._window and not self._closing and not self._receiver.idle:
            count = self._read_now()
            if count:
                self._on_received(count)

    def _on_received(self, count: int) -> None:
        for frame in self._receiver.on_received(count):
            if self._closing:
                return
            self._on_frame(frame)
        if self._receiver.error is not None and not self._closing:
            self.abort(self._receiver.error)

    def _read_now(self) -> int:
        """Receive the rest of a frame whose beginning has filled the window; return the number of
        bytes, 0 if there are none, or the event loop has to read them."""
        if self._file < 0:
            return 0
        try:
            return os.readv(self._file, (self._receiver.window(),))
        except OSError:
            return 0  # there are none yet, or the socket is broken: the event loop finds out

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return  # the TLS handshake failed; `dial` reports it
        self._closing = True
        self._file = -1  # it is closed next, and its number may be reused
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        self._wake()
        if not self._lost.done():
            self._lost.set_result(None)
        self._on_lost(self._error or exc)

    # Inside

    def _flush(self) -> None:
        """Write as much as the socket takes."""
        self._flush_is_due = False
        transport = self._transport
        if transport is None:
            return
        waiting = self._waiting
        while waiting and not self._paused:
            data, written = waiting.popleft()
            size = len(data)
            if size < JOINED and waiting:
                size = self._send_joined(transport, data, written)
            else:
                self._hand_over(transport, data, written)
            self._waiting_bytes -= size
        if self._closing and not waiting:
            # Later, because asyncio reports a loss twice if closed while it calls resume_writing.
            self._loop.call_soon(transport.close)
        if self.writable:
            self._wake()

    def _write_now(self, pieces: list[Buffer]) -> int:
        """Write directly to the socket, bypassing the event loop if that has nothing to send.

        The loop may be closing the socket; it stays open until `connection_lost`, which resets
        the descriptor.
        """
        transport = self._transport
        if self._paused or self._waiting or transport is None or transport.get_write_buffer_size():
            return 0
        try:
            return os.writev(self._file, pieces)
        except OSError:
            return 0  # it takes nothing, or is broken: the event loop finds out which

    def _hand_over(
        self, transport: asyncio.Transport, data: bytes | bytearray, written: _Written
    ) -> None:
        # A view, because the rest after a partial write is a slice, and that of a bytearray copies.
        transport.write(memoryview(data))
        if written is not None:
            written()

    def _send_joined(
        self, transport: asyncio.Transport, data: bytes | bytearray, written: _Written
    ) -> int:
        """Send a small request and the small ones after it in one write; return its size."""
        waiting = self._waiting
        pieces = [data]
        callbacks = [written]
        size = len(data)
        while waiting and size + len(waiting[0][0]) <= JOINED:
            data, written = waiting.popleft()
            pieces.append(data)
            callbacks.append(written)
            size += len(data)
        transport.write(b"".join(pieces))
        for written in callbacks:
            if written is not None:
                written()
        return size

    def _wake(self) -> None:
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None


def _behind(pieces: list[Buffer], count: int) -> list[Buffer]:
    """Return the rest of the pieces after `count` bytes."""
    for position, piece in enumerate(pieces):
        if count < len(piece):
            return [memoryview(piece)[count:], *pieces[position + 1 :]]
        count -= len(piece)
    return []
