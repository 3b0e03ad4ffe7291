"""An aiohttp service with one producer for all requests: `python examples/aiohttp_service.py`.

Kubernetes calls `/alive` to know when to restart it, and `/ready` to know when to send requests.
"""

import os
from collections.abc import AsyncIterator

from aiohttp import web

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import KafkaError

PRODUCER = web.AppKey("PRODUCER", AIOKafkaProducer)


async def kafka(app: web.Application) -> AsyncIterator[None]:
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        bootstrap_timeout_ms=30_000,  # wait for a Kafka that starts later
        request_timeout_ms=2_000,
        delivery_timeout_ms=5_000,  # a request fails after at most seven seconds
        max_block_ms=2_000,
        stop_timeout_ms=10_000,
    ) as app[PRODUCER]:
        yield


async def order(request: web.Request) -> web.Response:
    try:
        metadata = await request.app[PRODUCER].send_and_wait("orders", await request.read())
    except KafkaError as error:
        status = 503 if error.retriable else 500
        return web.Response(text=type(error).__name__, status=status)
    return web.json_response({"partition": metadata.partition, "offset": metadata.offset})


async def alive(request: web.Request) -> web.Response:
    health = request.app[PRODUCER].health()
    return web.Response(text=health.reason, status=200 if health.alive else 503)


async def ready(request: web.Request) -> web.Response:
    health = request.app[PRODUCER].health()
    return web.Response(text=health.reason, status=200 if health.ready else 503)


app = web.Application()
app.cleanup_ctx.append(kafka)
app.add_routes([web.post("/orders", order), web.get("/alive", alive), web.get("/ready", ready)])

if __name__ == "__main__":
    web.run_app(app, port=int(os.environ.get("PORT", "8080")))
