"""Read a topic from its start until interrupted: `python examples/consume.py`."""

import asyncio
import os

from aiokafka_lite import AIOKafkaConsumer


async def main() -> None:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092"),
        auto_offset_reset="earliest",
    )
    async with consumer:
        async for record in consumer:
            print(record.partition, record.offset, record.key, record.value)


try:
    asyncio.run(main())
except KeyboardInterrupt:
    pass  # Ctrl-C ends this example
