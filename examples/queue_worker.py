"""Deliver the mails of a queue until SIGTERM: `python examples/queue_worker.py`; start several.

A mail is accepted once `deliver` returns. It is delivered again later if a server is unreachable,
and becomes a dead letter at once if it is not a mail. On a signal, the worker finishes the mails
that it has begun.
"""

import asyncio
import json
import os
import signal

from aiokafka_lite import AIOKafkaShareConsumer, ShareRecord


async def deliver(record: ShareRecord[bytes, bytes]) -> None:
    mail = json.loads(record.value or b"")
    print(f"delivery {record.delivery_count} to {mail['to']}: {mail['text']}")


async def main() -> None:
    stopping = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stopping.set)
    consumer = AIOKafkaShareConsumer(
        "mails",
        bootstrap_servers=os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092"),
        group_id="mailers",
    )
    async with consumer, asyncio.TaskGroup() as tasks:
        retry = (ConnectionError, TimeoutError)
        tasks.create_task(consumer.run(deliver, concurrency=50, retry=retry))
        await stopping.wait()
        await consumer.stop()  # `run` returns once all handlers have ended


asyncio.run(main())
