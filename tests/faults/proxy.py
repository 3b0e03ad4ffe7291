"""A TCP proxy in front of one broker that can cut, delay and stall connections.

Its address is the one that the broker advertises. It has its own seeded generator, so the same seed
gives the same cuts for the same traffic.
"""

import asyncio
import random
import socket
from dataclasses import dataclass, field

__all__ = ["Proxy"]

CHUNK = 32 * 1024
_QUEUE = 4  # connections that certainly fill a queue of length zero


@dataclass(eq=False)
class _Link:
    """One connection of a client, and the proxy's own to the broker."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    left: dict[str, int] = field(default_factory=dict)  # direction -> bytes until it is cut

    def abort(self) -> None:
        for writer in (self.client, self.broker):
            writer.transport.abort()


class Proxy:
    """Listens on a port of loopback for as long as the `async with` lasts.

    Args:
        port: The port for clients; 0 for any.
        seed: Of its draws.
        host: The loopback address on which it listens.

    Attributes:
        target: (host, port) of the broker; None while there is none: clients are rejected.
        delay: Seconds by which answers are held back.
        delayed_share: How many of them are, 0 to 1.
        cuts: Connections cut in the middle so far.
    """

    def __init__(self, port: int = 0, seed: int = 0, host: str = "127.0.0.1") -> None:
        self.port = port
        self._host = host
        self.target: tuple[str, int] | None = None
        self.delay = 0.0
        self.delayed_share = 0.0
        self.cuts = 0
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._deaf: list[socket.socket] = []  # open while new connections get no answer

    async def __aenter__(self) -> "Proxy":
        await self.listen()
        assert self._server is not None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in self._deaf:
            each.close()
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    def cut_all_within(self, most: int) -> None:
        """Cut every open connection after at most this many more bytes, in one of the two
        directions."""
        for link in self._links:
            direction = self._random.choice(["requests", "answers"])
            link.left = {direction: self._random.randint(0, most)}

    def cut_all(self) -> None:
        """Reset every connection that is open now."""
        self.cuts += len(self._links)
        for link in list(self._links):
            link.abort()

    def refuse(self) -> None:
        """Reset every connection, and refuse new ones, as the machine of a dead broker does."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in list(self._links):
            link.abort()

    def drop(self) -> None:
        """Stall, and leave new connections without an answer, as a network that drops packets."""
        self.stall()
        if self._server is not None:
            self._server.close()
            self._server = None
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        deaf.bind((self._host, self.port))
        deaf.listen(0)
        self._deaf.append(deaf)
        # Its queue takes a connection or two; the kernel ignores further ones.
        for _ in range(_QUEUE):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((self._host, self.port))
            self._deaf.append(filler)

    async def listen(self) -> None:
        """Listen again, and let bytes pass."""
        for each in self._deaf:
            each.close()
        self._deaf.clear()
        self.flow()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, self._host, self.port)

    def stall(self) -> None:
        """Stall: connections stay open and new ones are accepted, but no bytes pass."""
        self._flows.clear()

    def flow(self) -> None:
        """End the stall."""
        self._flows.set()

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if self.target is None:
                client.transport.abort()
                return
            try:
                back, broker = await asyncio.open_connection(*self.target)
            except OSError:  # the broker is down: the client finds out as it would without us
                client.transport.abort()
                return
            link = _Link(client, broker)
            self._links.add(link)
            try:
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump("requests", link, reader, broker))
                    pumps.create_task(self._pump("answers", link, back, client))
            finally:
                self._links.discard(link)
                link.abort()
        except asyncio.CancelledError:
            client.transport.abort()  # we end; asyncio.start_server would log a cancelled task
        finally:
            self._serving.discard(task)

    async def _pump(
        self,
        direction: str,
        link: _Link,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
    ) -> None:
        """Forward bytes one way until either side closes or the link is cut."""
        try:
            while data := await source.read(CHUNK):
                await self._flows.wait()
                if direction == "answers" and self._random.random() < self.delayed_share:
                    await asyncio.sleep(self.delay)
                left = link.left.get(direction)
                if left is not None:
                    if left <= len(data):
                        sink.write(data[:left])
                        await sink.drain()
                        self.cuts += 1
                        break
                    link.left[direction] = left - len(data)
                if sink.is_closing():
                    break  # uvloop's would raise, and not an OSError
                sink.write(data)
                await sink.drain()
        except OSError:
            pass  # one end is gone; closing tells the other end
        link.abort()
