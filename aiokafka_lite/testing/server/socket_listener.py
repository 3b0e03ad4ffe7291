"""Accepts the connections of one listening socket, and can stop at any time.

`asyncio.Server` cannot: no object owns a socket that it accepts while it is closing. `Listener`
tracks connections that are being established and closes them when it closes.

It owns the socket and a task for each connection that is being established; `close` ends them.
"""

import asyncio
import errno
import logging
import socket
import ssl
from abc import abstractmethod
from collections.abc import Callable
from typing import Final

__all__ = ["Guest", "Listener"]

logger: Final = logging.getLogger(__name__)

BACKLOG: Final = 128
RETRY_DELAY: Final = 1.0
"""Seconds between attempts to accept after a failure, which seldom clears sooner."""
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Guest(asyncio.BufferedProtocol):
    """The protocol of an accepted connection."""

    @abstractmethod
    def abort(self) -> None:
        """Close the connection now, or in `connection_made` if that is still to come."""


class Listener:
    """Accepts connections from its construction on.

    Args:
        listening: A bound, non-blocking socket.
        new_guest: Creates the protocol of a connection.
        ssl_context: Makes this a TLS listener.
    """

    def __init__(
        self,
        listening: socket.socket,
        new_guest: Callable[[], Guest],
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._new_guest = new_guest
        self._ssl_context = ssl_context
        self._arriving: dict[asyncio.Task[None], Guest] = {}
        self._accepting: asyncio.Task[None] | None = None  # for loops without add_reader
        self._resting: asyncio.TimerHandle | None = None  # suspended after a failure
        self._closed = False
        listening.listen(BACKLOG)
        self.resume()

    def pause(self) -> None:
        """Leave new connections in the kernel's queue, where clients see them as accepted."""
        self._stop_resting()
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        else:
            self._loop.remove_reader(self._socket)

    def resume(self) -> None:
        """Start or resume accepting."""
        self._stop_resting()
        try:
            self._loop.add_reader(self._socket, self._accept_waiting)
        except NotImplementedError:  # Windows' proactor loop
            self._accepting = self._loop.create_task(self._accept_in_turn())

    def close(self) -> None:
        """Stop accepting and close the connections that are being established."""
        if self._closed:
            return
        self._closed = True
        self.pause()
        self._socket.close()
        for task, guest in self._arriving.items():
            guest.abort()
            if self._ssl_context is not None:
                task.cancel()  # a client may stall its TLS handshake indefinitely

    async def wait_closed(self) -> None:
        """Wait until all connections that were being established are closed."""
        if self._arriving:
            await asyncio.wait(list(self._arriving))

    def _accept_waiting(self) -> None:
        for _ in range(BACKLOG):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.error("Accepting a connection failed: %s", error)
                if error.errno in _EXHAUSTED:
                    self._rest()
                return
            self._welcome(accepted)

    async def _accept_in_turn(self) -> None:
        while True:
            try:
                accepted, _ = await self._loop.sock_accept(self._socket)
            except OSError as error:
                logger.error("Accepting a connection failed: %s", error)
                await asyncio.sleep(RETRY_DELAY)
            else:
                self._welcome(accepted)

    def _rest(self) -> None:
        """Suspend accepting for a while, so that the failure does not busy-loop."""
        self.pause()
        self._resting = self._loop.call_later(RETRY_DELAY, self.resume)

    def _stop_resting(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    def _welcome(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        guest = self._new_guest()
        task = self._loop.create_task(self._establish(accepted, guest))
        self._arriving[task] = guest

        def on_done(task: asyncio.Task[None]) -> None:
            del self._arriving[task]
            if task.cancelled():  # maybe before it started: nothing else closes the socket
                accepted.close()

        task.add_done_callback(on_done)

    async def _establish(self, accepted: socket.socket, guest: Guest) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: guest, accepted, ssl=self._ssl_context)
        except OSError as error:  # includes TLS handshake failures
            logger.info("Establishing a connection failed: %s", error)
