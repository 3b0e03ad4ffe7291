"""An aiohttp service with one producer for all requests: `python examples/aiohttp_service.py`.

Kubernetes calls `/alive` to know when to restart it, and `/ready` to know when to send requests.
"""

import os
from collections.abc import AsyncIterator

from aiohttp import web

from aiokafka_lite import AIOKafkaProducer

PRODUCER = web.AppKey("PRODUCER", AIOKafkaProducer)


async def kafka(app: web.Application) -> AsyncIterator[None]:
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as app[PRODUCER]:
        yield


async def order(request: web.Request) -> web.Response:
    metadata = await request.app[PRODUCER].send_and_wait("orders", await request.read())
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
