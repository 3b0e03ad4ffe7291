"""Helpers of the tests here: batches, a socketless broker, a raw client."""

import asyncio
from random import Random
from typing import Any

from aiokafka_lite.protocol.framing import decode_response, encode_request
from aiokafka_lite.protocol.message import Request
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.record.batch import BatchBuilder
from aiokafka_lite.record.compression import Compression
from aiokafka_lite.testing.apis import SERVED
from aiokafka_lite.testing.client_session import Session
from aiokafka_lite.testing.clock import VirtualClock
from aiokafka_lite.testing.context import Delayed
from aiokafka_lite.testing.control import Control, Fault
from aiokafka_lite.testing.node import Node
from aiokafka_lite.testing.server.request_exchange import Dispatcher
from aiokafka_lite.testing.state import ClusterState

NOW_MS = 1_700_000_000_000

RecordFields = tuple[int, bytes | None, bytes | None]


def make_batch(
    *records: RecordFields, compression: Compression = Compression.NONE, **seal: Any
) -> bytes:
    """One v2 batch of (timestamp, key, value)."""
    builder = BatchBuilder(2**20)
    for timestamp, key, value in records or ((NOW_MS, b"key", b"value"),):
        builder.append(timestamp, key, value, ())
    return bytes(builder.seal(compression, **seal))


class SocketlessBroker:
    """A broker without sockets: every request and response is encoded and decoded."""

    def __init__(self, nodes: int = 1, **options: Any) -> None:
        self.clock = VirtualClock(NOW_MS)
        self.state = ClusterState(
            [Node(node_id, "127.0.0.1", None) for node_id in range(nodes)],
            clock=self.clock,
            random=Random(0),
            **options,
        )
        for node_id in range(nodes):
            self.state.nodes[node_id].port = 9092 + node_id
            self.state.on_node_up(node_id)
        self.control = Control()
        self.session = Session(0)
        self.dispatchers = [
            Dispatcher(self.state, node_id, SERVED, self.control) for node_id in range(nodes)
        ]

    def fail_next(self, api_key: ApiKey, error: int) -> None:
        """Put an error code into every item of the response to an API's next request."""
        nothing = dict.fromkeys(("node", "when", "partitions", "respond_with", "edit", "tamper"))
        calm = {"after_handling": False, "delay": 0.0, "drop": False, "disconnect": False}
        fault = Fault(api_key, times=1, error=error, **nothing, **calm)
        self.control.faults.append(fault)

    def begin(self, request: Request, version: int, node: int = 0) -> Any:
        """The result of `handle`: a response, a Delayed or None."""
        frame = encode_request(request, version, 7, "test")
        return self.dispatchers[node].receive(bytes(frame[4:]), self.session, 0.0).handle()

    def ask(self, request: Request, version: int, node: int = 0) -> Any:
        """The response, encoded and decoded again."""
        frame = encode_request(request, version, 7, "test")
        exchange = self.dispatchers[node].receive(bytes(frame[4:]), self.session, 0.0)
        answer = exchange.handle()
        assert answer is not None
        assert not isinstance(answer, Delayed), "it waits"
        correlation_id, response = decode_response(
            memoryview(exchange.encode(answer))[4:], type(request), version
        )
        assert correlation_id == 7
        return response


class RawClient:
    """A connection that sends given requests and reads the responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0

    @classmethod
    async def connect(cls, address: str) -> "RawClient":
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, request: Request, version: int) -> int:
        self._correlation_id += 1
        self.writer.write(encode_request(request, version, self._correlation_id, "raw"))
        return self._correlation_id

    async def frame(self) -> bytes:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(length)

    async def receive(self, request: Request, version: int) -> tuple[int, Any]:
        return decode_response(await self.frame(), type(request), version)

    async def ask(self, request: Request, version: int) -> Any:
        sent = self.send(request, version)
        correlation_id, response = await self.receive(request, version)
        assert correlation_id == sent
        return response

    async def is_cut(self) -> bool:
        """Wait for the end of the connection; True if no bytes arrived before it."""
        try:
            return not await self.reader.read()
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.transport.abort()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass  # the broker was the first to cut it
