"""Accepts the connections of one listening socket, and can stop doing so at any moment.

`asyncio.Server` cannot: a socket that it has accepted while it is being closed belongs to nobody.
Here whoever is on the way in is known, and turned away when the listener closes.

Owns the socket and a task for each connection that is being established; `close` ends them.
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
"""Seconds after which one tries again who could not accept: until then nothing changes soon."""
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Guest(asyncio.BufferedProtocol):
    """What a connection becomes."""

    @abstractmethod
    def abort(self) -> None:
        """End it now; before `connection_made` it ends with that."""


class Listener:
    """Listens from its construction on.

    Args:
        listening: Bound, not blocking.
        new_guest: Makes the protocol of a connection.
        ssl_context: For a TLS listener.
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
        self._accepting: asyncio.Task[None] | None = None  # where the loop has no readers
        self._resting: asyncio.TimerHandle | None = None  # nothing can be accepted for a while
        self._closed = False
        listening.listen(BACKLOG)
        self.resume()

    def pause(self) -> None:
        """Leave the connections to come in the kernel's queue, where they look accepted."""
        self._stop_resting()
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        else:
            self._loop.remove_reader(self._socket)

    def resume(self) -> None:
        """Accept (again)."""
        self._stop_resting()
        try:
            self._loop.add_reader(self._socket, self._accept_waiting)
        except NotImplementedError:  # Windows' proactor loop
            self._accepting = self._loop.create_task(self._accept_in_turn())

    def close(self) -> None:
        """Accept nobody any more, and turn away those that are on the way in."""
        if self._closed:
            return
        self._closed = True
        self.pause()
        self._socket.close()
        for task, guest in self._arriving.items():
            guest.abort()
            if self._ssl_context is not None:
                task.cancel()  # a handshake may take as long as the client likes

    async def wait_closed(self) -> None:
        """Wait until all that were on the way in are gone."""
        if self._arriving:
            await asyncio.wait(list(self._arriving))

    def _accept_waiting(self) -> None:
        for _ in range(BACKLOG):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.error("a connection was not accepted: %s", error)
                if error.errno in _EXHAUSTED:
                    self._rest()
                return
            self._welcome(accepted)

    async def _accept_in_turn(self) -> None:
        while True:
            try:
                accepted, _ = await self._loop.sock_accept(self._socket)
            except OSError as error:
                logger.error("a connection was not accepted: %s", error)
                await asyncio.sleep(RETRY_DELAY)
            else:
                self._welcome(accepted)

    def _rest(self) -> None:
        """Leave the queue alone for a while, or the loop would do nothing but call again."""
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
            if task.cancelled():  # maybe before it began: then the socket is nobody's
                accepted.close()

        task.add_done_callback(on_done)

    async def _establish(self, accepted: socket.socket, guest: Guest) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: guest, accepted, ssl=self._ssl_context)
        except OSError as error:  # of TLS too: who does not speak it is not let in
            logger.info("a connection was not established: %s", error)
