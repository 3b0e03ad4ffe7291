"""A member of a group, until SIGTERM: `python examples/worker.py`; start several.

What was read is committed when it is done. A signal lets the records at hand be done first, so that
the next worker begins behind them.
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
        while not stopping.is_set():  # asked every second at the latest
            taken = await consumer.getmany(timeout_ms=1000, max_records=100)
            for records in taken.values():
                for record in records:
                    await serve(record)
            if taken:
                await consumer.commit()


asyncio.run(main())
