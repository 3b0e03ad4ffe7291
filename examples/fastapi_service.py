"""A FastAPI service with one producer for all requests: `uvicorn examples.fastapi_service:app`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request

from aiokafka_lite import AIOKafkaProducer


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as app.state.producer:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders")
async def order(request: Request) -> dict[str, int]:
    metadata = await request.app.state.producer.send_and_wait("orders", await request.body())
    return {"partition": metadata.partition, "offset": metadata.offset}
