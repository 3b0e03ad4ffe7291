"""A FastAPI service that puts mails into a queue: `uvicorn examples.queue_service:app`.

`queue_worker.py` delivers them, in as many processes as you start. `queue_dead_letters.py` shows
those that could not be delivered. The queue is the topic "mails" with the share group "mailers".
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.admin import AIOKafkaAdminClient, ConfigResource, NewTopic
from aiokafka_lite.errors import TopicAlreadyExistsError

BOOTSTRAP = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")

TOPICS = [
    NewTopic("mails", num_partitions=6),
    NewTopic("dlq.mails", 1, topic_configs={"errors.deadletterqueue.group.enable": "true"}),
]
MAILERS = {
    "share.auto.offset.reset": "earliest",  # a queue starts with its first record
    "errors.deadletterqueue.topic.name": "dlq.mails",
    "errors.deadletterqueue.copy.record.enable": "true",
}


async def create_queue() -> None:
    async with AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP) as admin:
        for topic in TOPICS:
            with suppress(TopicAlreadyExistsError):
                await admin.create_topics([topic], raise_errors=True)
        group = ConfigResource("group", "mailers")
        (await admin.incremental_alter_configs({group: MAILERS})).raise_for_errors()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    await create_queue()
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as app.state.producer:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/mails")
async def mail(request: Request) -> dict[str, int]:
    metadata = await request.app.state.producer.send_and_wait("mails", await request.body())
    return {"partition": metadata.partition, "offset": metadata.offset}
