"""Process records in a consumer group until SIGTERM: `python examples/worker.py`; start several.

Offsets are committed after their records are processed. On a signal the worker finishes its current
records first, so that the next worker starts after them.
"""

import asyncio
import os
import signal

from aiokafka_lite import AIOKafkaConsumer, ConsumerRecord


async def serve(record: ConsumerRecord[bytes, bytes]) -> None:
    print(record.partition, record.offset, record.key, record.value)


async def main() -> None:
    stopping = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stopping.set)
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092"),
        group_id="kitchen",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with consumer:
        while not stopping.is_set():  # checked at least once a second
            batches = await consumer.getmany(timeout_ms=1000, max_records=100)
            for records in batches.values():
                for record in records:
                    await serve(record)
            if batches:
                await consumer.commit()


asyncio.run(main())
