"""A process that floods a producer and reports its memory use; driven by test_flood.py.

Arguments: bootstrap servers, topic, bytes of a value, "keep" or "drop" for the acks. It prints
"ready" once it is connected and waits for a line: the moment to pause the brokers. Then it sends
until `send` has waited for memory for seconds, and prints its figures as JSON.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import KafkaError

SENDERS = 200
FLOOD = 4.0  # seconds
PAGE = resource.getpagesize()


def resident() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def most_resident() -> int:
    """Peak resident bytes. (getrusage would include those of the parent at the fork.)"""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


async def flood(bootstrap_servers: str, topic: str, size: int, keep: bool) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, request_timeout_ms=2_000, delivery_timeout_ms=60_000
    ) as producer:
        await producer.send_and_wait(topic, b"first")
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        before = peak = resident()
        value, kept, sent = b"x" * size, [], 0

        async def sender() -> None:
            nonlocal sent
            while True:
                ack = await producer.send(topic, value)
                sent += 1
                if keep:
                    kept.append(ack)

        senders = [asyncio.create_task(sender()) for _ in range(SENDERS)]
        loop = asyncio.get_running_loop()
        ends = loop.time() + FLOOD
        # On a busy machine the senders fill the buffer later.
        while loop.time() < ends or not producer.metrics()["waiting-threads"]:
            await asyncio.sleep(0.05)
            peak = max(peak, resident())
        metrics = producer.metrics()
        for task in senders:
            task.cancel()
        ended = await asyncio.gather(*senders, return_exceptions=True)
        await producer.stop(0)
    figures = {
        "before": before,
        "peak": max(peak, most_resident()),
        "buffer_memory": metrics["buffer-total-bytes"],
        "available": metrics["buffer-available-bytes"],
        "waiting": metrics["waiting-threads"],
        "sent": sent,
        "failed": sum(isinstance(each, KafkaError) for each in ended),
    }
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    asyncio.run(flood(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "keep"))
