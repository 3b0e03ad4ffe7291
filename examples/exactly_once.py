"""Copy a topic to another in upper case, exactly once: `python examples/exactly_once.py NAME`.

Start several, each with a different name: they share the partitions. You may kill them at any time.
"""

import asyncio
import os
import signal
import sys

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, exactly_once


async def main(name: str) -> None:
    servers = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        group_id="shouters",
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"shouter-{name}")
    async with consumer, producer:
        stopping: list[asyncio.Task[None]] = []
        for signum in (signal.SIGINT, signal.SIGTERM):  # finish the current batch, then end
            asyncio.get_running_loop().add_signal_handler(
                signum, lambda: stopping.append(asyncio.create_task(consumer.stop()))
            )
        async with exactly_once(consumer, producer) as batches:
            async for batch in batches:
                for record in batch:
                    shout = None if record.value is None else record.value.upper()
                    await producer.send("shouts", shout, key=record.key)
                print(len(batch), "records")
        await asyncio.gather(*stopping)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "1"))
