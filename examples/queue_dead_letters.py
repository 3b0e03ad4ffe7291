"""Show the dead letters of a queue: `python examples/queue_dead_letters.py`.

With `--again`, they are also put into the queue again. A letter's headers identify the original
record, and the reason why the group archived it.
"""

import asyncio
import os
import sys

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

BOOTSTRAP = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")


async def dead_letters() -> list[ConsumerRecord[bytes, bytes]]:
    found: list[ConsumerRecord[bytes, bytes]] = []
    async with AIOKafkaConsumer(
        "dlq.mails", bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest"
    ) as consumer:
        for partition, end in (await consumer.end_offsets(consumer.assignment())).items():
            while await consumer.position(partition) < end:
                records = await consumer.getmany(partition, timeout_ms=1000)
                found += records.get(partition, [])
    return found


async def main() -> None:
    letters = await dead_letters()
    for letter in letters:
        header = {name: (value or b"").decode() for name, value in letter.headers}
        where = f"{header['__dlq.errors.partition']}@{header['__dlq.errors.offset']}"
        print(f"{where}: {letter.value!r}: {header['__dlq.errors.message']}")
    if "--again" in sys.argv:
        async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
            for letter in letters:
                await producer.send_and_wait("mails", letter.value, letter.key)


asyncio.run(main())
