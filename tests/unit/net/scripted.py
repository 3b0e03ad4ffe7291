"""A broker that follows a script for each connection, mostly to misbehave."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence

from aiokafka_lite.protocol.api_keys import ApiKey
from aiokafka_lite.protocol.framing import decode_request, encode_response
from aiokafka_lite.protocol.message import Request, Response
from aiokafka_lite.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from aiokafka_lite.protocol.messages.request_header import RequestHeader

MODERN = {
    ApiKey.PRODUCE: (0, 11),
    ApiKey.FETCH: (0, 16),
    ApiKey.METADATA: (0, 12),
    ApiKey.FIND_COORDINATOR: (0, 4),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LIST_GROUPS: (0, 4),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
}


def answer_to_api_versions(
    ranges: dict[ApiKey, tuple[int, int]] = MODERN, error_code: int = 0
) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=[ApiVersion(int(key), low, high) for key, (low, high) in ranges.items()],
    )


class Peer:
    """One accepted connection, for its script."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def read_frame(self) -> bytes:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(length)

    async def read(self) -> tuple[RequestHeader, Request]:
        return decode_request(await self.read_frame())

    def answer(self, header: RequestHeader, response: Response) -> None:
        self.write(encode_response(response, header.request_api_version, header.correlation_id))

    def write(self, data: bytes | bytearray) -> None:
        self.writer.write(bytes(data))

    async def greet(self, ranges: dict[ApiKey, tuple[int, int]] = MODERN) -> None:
        """Answer the first request of a connection, ApiVersions."""
        header, request = await self.read()
        assert isinstance(request, ApiVersionsRequest)
        self.answer(header, answer_to_api_versions(ranges))

    async def silence(self) -> None:
        """Send nothing until the client closes the connection."""
        while await self.reader.read(65536):
            pass


Script = Callable[[Peer], Awaitable[None]]


class ScriptedBroker:
    """Listens on loopback; its nth connection is served by the nth script, the last one again.

    A script that returns closes its connection. `stop` raises the script's exception; a client that
    hung up is no error.
    """

    def __init__(self, scripts: Sequence[Script]) -> None:
        self.scripts = scripts
        self.accepted = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []

    async def start(self, context: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def serving(self) -> int:
        """Number of open connections."""
        return len(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        script = self.scripts[min(self.accepted, len(self.scripts) - 1)]
        self.accepted += 1
        try:
            await script(Peer(reader, writer))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client closed the connection, or the test has ended
        except Exception as error:
            self._errors.append(error)
        finally:
            writer.close()
            self._tasks.discard(task)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        await asyncio.sleep(0)
        if self._errors:
            raise self._errors[0]
