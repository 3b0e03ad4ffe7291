"""An aiohttp service with one producer for all requests: `python examples/aiohttp_service.py`."""

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


app = web.Application()
app.cleanup_ctx.append(kafka)
app.add_routes([web.post("/orders", order)])

if __name__ == "__main__":
    web.run_app(app, port=int(os.environ.get("PORT", "8080")))
