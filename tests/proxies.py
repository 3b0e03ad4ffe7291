"""Proxies on loopback for tests: SOCKS5, HTTP CONNECT and HTTPS, well-behaved or not."""

import asyncio
import base64
import ssl
from collections.abc import Callable
from typing import Self

READ = 64 * 1024


class ProxyServer:
    """A proxy.

    Args:
        scheme: "socks5", "http" or "https".
        credentials: "user:password" that it requires.
        context: The TLS context of an HTTPS proxy.
        answer: Bytes to send in place of the proxy's first answer.
        silent: True to accept connections and answer nothing.
        route: Returns the real address for a requested one; by default the same.

    Attributes:
        asked: The addresses that clients wanted, in order.
        accepted: The number of connections.
    """

    def __init__(
        self,
        scheme: str,
        *,
        credentials: str | None = None,
        context: ssl.SSLContext | None = None,
        answer: bytes | None = None,
        silent: bool = False,
        route: Callable[[str, int], tuple[str, int]] = lambda host, port: (host, port),
    ) -> None:
        self.asked: list[tuple[str, int]] = []
        self.accepted = 0
        self._scheme = scheme
        self._credentials = credentials
        self._context = context
        self._answer = answer
        self._silent = silent
        self._route = route
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def url(self, credentials: str | None = None) -> str:
        return f"{self._scheme}://{f'{credentials}@' if credentials else ''}localhost:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, ssl=self._context if self._scheme == "https" else None
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._closing = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        except asyncio.CancelledError:
            if not self._closing:
                raise  # otherwise asyncio would log it
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._silent:
            await reader.read()
            await asyncio.sleep(600)
        if self._answer is not None:
            await reader.read(READ)
            writer.write(self._answer)
            await writer.drain()
            while await reader.read(READ):
                pass
            return
        target = await (self._socks5 if self._scheme == "socks5" else self._connect)(reader, writer)
        if target is None:
            await writer.drain()
            return
        self.asked.append(target)
        there, back = await asyncio.open_connection(*self._route(*target))
        self._grant(writer)
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            back.transport.abort()

    def _grant(self, writer: asyncio.StreamWriter) -> None:
        if self._scheme == "socks5":
            writer.write(b"\5\0\0\3\7example\0\1")  # the proxy's own address, as a name
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")

    async def _socks5(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[str, int] | None:
        version, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        assert version == 5
        if self._credentials is None:
            writer.write(b"\5\0")
        elif 2 not in methods:
            writer.write(b"\5\xff")
            return None
        else:
            writer.write(b"\5\2")
            _, length = await reader.readexactly(2)
            name = await reader.readexactly(length)
            [length] = await reader.readexactly(1)
            given = name + b":" + await reader.readexactly(length)
            writer.write(b"\1\0" if given.decode() == self._credentials else b"\1\1")
            if given.decode() != self._credentials:
                return None
        assert await reader.readexactly(3) == b"\5\1\0"
        [kind] = await reader.readexactly(1)
        if kind == 3:
            [length] = await reader.readexactly(1)
            host = (await reader.readexactly(length)).decode()
        elif kind == 1:
            host = ".".join(map(str, await reader.readexactly(4)))
        else:
            host = (await reader.readexactly(16)).hex(":", 2)
        return host, int.from_bytes(await reader.readexactly(2), "big")

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[str, int] | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, version = head.split("\r\n")[0].split(" ")
        assert (method, version) == ("CONNECT", "HTTP/1.1")
        assert f"\r\nHost: {target}\r\n" in head
        if self._credentials is not None:
            expected = base64.b64encode(self._credentials.encode()).decode()
            if f"\r\nProxy-Authorization: Basic {expected}\r\n" not in head:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return None
        host, _, port = target.rpartition(":")
        return host.strip("[]"), int(port)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(READ):
        target.write(data)
        await target.drain()
    target.write_eof() if target.can_write_eof() else target.close()
