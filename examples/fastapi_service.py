"""A FastAPI service with one producer for all requests: `uvicorn examples.fastapi_service:app`.

Kubernetes calls `/alive` to know when to restart it, and `/ready` to know when to send requests.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import KafkaError


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        bootstrap_timeout_ms=30_000,  # wait for a Kafka that starts later
        request_timeout_ms=2_000,
        delivery_timeout_ms=5_000,  # a request fails after at most seven seconds
        max_block_ms=2_000,
        stop_timeout_ms=10_000,
    ) as app.state.producer:
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(KafkaError)
async def kafka_failed(request: Request, error: KafkaError) -> Response:
    return Response(type(error).__name__, 503 if error.retriable else 500)


@app.post("/orders")
async def order(request: Request) -> dict[str, int]:
    metadata = await request.app.state.producer.send_and_wait("orders", await request.body())
    return {"partition": metadata.partition, "offset": metadata.offset}


@app.get("/alive")
async def alive(request: Request) -> Response:
    health = request.app.state.producer.health()
    return Response(health.reason, 200 if health.alive else 503)


@app.get("/ready")
async def ready(request: Request) -> Response:
    health = request.app.state.producer.health()
    return Response(health.reason, 200 if health.ready else 503)
