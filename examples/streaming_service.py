"""A FastAPI service that streams a topic: `uvicorn examples.streaming_service:app`.

`/events` sends server-sent events, `/socket` is a websocket; both show records that arrive after
the client connected. One consumer serves all clients. A client that does not read fast enough is
disconnected, so that it cannot fill the memory. On SIGTERM the streams end at once: the server
waits for them before it ends the lifespan.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.responses import StreamingResponse

from aiokafka_lite import AIOKafkaConsumer

QUEUE = 1000  # records by which a slow client may lag


class Hub:
    """Passes each record to all clients."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[bytes | None]] = set()
        self._closed = False

    def publish(self, value: bytes) -> None:
        for queue in list(self._queues):
            if queue.qsize() >= QUEUE:
                self._end(queue)
            else:
                queue.put_nowait(value)

    def close(self) -> None:
        self._closed = True
        for queue in list(self._queues):
            self._end(queue)

    def _end(self, queue: asyncio.Queue[bytes | None]) -> None:
        self._queues.discard(queue)
        queue.put_nowait(None)

    async def values(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queues.add(queue)
        if self._closed:
            self._end(queue)
        try:
            while (value := await queue.get()) is not None:
                yield value
        finally:
            self._queues.discard(queue)


async def read(consumer: AIOKafkaConsumer[bytes, bytes], hub: Hub) -> None:
    try:
        async for record in consumer:
            hub.publish(record.value or b"")
    finally:
        hub.close()  # clients reconnect, to another instance


@contextmanager
def closed_by_signals(hub: Hub) -> Iterator[None]:
    """End the streams on SIGTERM and SIGINT, before the server's own handler runs."""
    loop = asyncio.get_running_loop()
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(signum: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(hub.close)
        if callable(server := before[signal.Signals(signum)]):
            server(signum, frame)

    for signum in before:
        signal.signal(signum, on_signal)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.hub = hub = Hub()
    consumer: AIOKafkaConsumer[bytes, bytes] = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092"),
        bootstrap_timeout_ms=30_000,  # without a group: each instance reads all partitions
    )
    async with consumer:
        app.state.consumer = consumer
        app.state.reading = asyncio.create_task(read(consumer, hub))
        with closed_by_signals(hub):
            yield
        await consumer.stop()
        await app.state.reading


app = FastAPI(lifespan=lifespan)


@app.get("/events")
async def events(request: Request) -> StreamingResponse:
    async def stream() -> AsyncIterator[bytes]:
        async for value in request.app.state.hub.values():
            for line in value.splitlines():  # an event's data must not contain line ends
                yield b"data: " + line + b"\n"
            yield b"\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


@app.websocket("/socket")
async def socket(websocket: WebSocket) -> None:
    await websocket.accept()

    async def send() -> None:
        async for value in websocket.app.state.hub.values():
            await websocket.send_bytes(value)

    sending = asyncio.create_task(send())
    leaving = asyncio.create_task(websocket.receive())  # this client sends no other messages
    await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
    if not leaving.done():
        await websocket.close(1001)
    for task in (sending, leaving):
        task.cancel()
    await asyncio.gather(sending, leaving, return_exceptions=True)


@app.get("/alive")
async def alive(request: Request) -> Response:
    state = request.app.state
    health = state.consumer.health()
    return Response(health.reason, 200 if health.alive and not state.reading.done() else 503)


@app.get("/ready")
async def ready(request: Request) -> Response:
    health = request.app.state.consumer.health()
    return Response(health.reason, 200 if health.ready else 503)
