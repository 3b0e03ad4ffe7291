"""The floor: a client that only writes prepared requests and awaits their responses.

Without metadata, retries, timeouts and batching, only the event loop, the socket and the broker
remain. The client connects to the bootstrap server, which must lead partition 0.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from aiokafka_lite.protocol.framing import encode_request
from aiokafka_lite.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lite.record.batch import BatchBuilder
from benchmarks.work import Meter, Work, values

VERSION = 9


class _Wire(asyncio.Protocol):
    """Detects complete frames by their length, and resolves `answered` for each."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.answered: asyncio.Future[None] | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            size = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < size:
                return
            self._received = self._received[size:]
            if self.answered is not None and not self.answered.done():
                self.answered.set_result(None)


def _frame(topic: str, value: bytes) -> bytes:
    builder = BatchBuilder(16384)
    builder.append(time.time_ns() // 1_000_000, None, value, ())
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(0, bytes(builder.seal()))]
            )
        ],
    )
    return bytes(encode_request(request, VERSION, 1, "floor"))


async def idle(work: Work) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    host, _, port = work.bootstrap.rpartition(":")
    wire = _Wire()
    await loop.create_connection(lambda: wire, host, int(port))
    meter = Meter()
    frames = [_frame(work.topic, value) for value in values(work.size, 100)]
    try:
        for count in (200, work.records):
            meter.start()
            for i in range(count):
                began = time.perf_counter()
                wire.answered = loop.create_future()
                wire.transport.write(frames[i % 100])
                await wire.answered
                meter.latencies.append(time.perf_counter() - began)
                await asyncio.sleep(0.002)
            result = meter.stop(count)
        return result
    finally:
        wire.transport.abort()
