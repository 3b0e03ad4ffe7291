"""Send ten keyed records and print where each was written: `python examples/produce.py`."""

import asyncio
import os

from aiokafka_lite import AIOKafkaProducer


async def main() -> None:
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        acks = [
            await producer.send("orders", b"order %d" % n, key=b"table %d" % (n % 3))
            for n in range(10)
        ]
        for ack in acks:
            metadata = await ack
            print(f"partition {metadata.partition} offset {metadata.offset}")


asyncio.run(main())
