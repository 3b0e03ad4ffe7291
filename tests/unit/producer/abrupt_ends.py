"""`test_hand_over` runs this in a separate process: event loops that end under a producer.

    python abrupt_ends.py closed asyncio | closed uvloop | cleaned

A loop that is closed without `stop` leaves sockets and tasks behind, which warn when they are
collected; the warnings are irrelevant here. Exits 0 if every future had its outcome.
"""

import asyncio
import os
import sys
import threading
from concurrent.futures import Future
from typing import Any

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import ProducerClosed
from aiokafka_lite.testing import FakeCluster

PRODUCE = 0


def outcome(future: Future[Any]) -> str:
    error = future.exception(10)
    if type(error) is not ProducerClosed:
        return repr(error)
    return "unknown" if error.ambiguous else "not sent"


def closed(loop: asyncio.AbstractEventLoop, cluster: FakeCluster) -> list[str]:
    """The loop is closed while a record is at each of its stages."""

    async def begin() -> AIOKafkaProducer:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        await producer.start()
        await producer.send_and_wait("orders", b"known")
        return producer

    producer = loop.run_until_complete(begin())
    cluster.control(PRODUCE, delay=60)
    in_batch = producer.send_threadsafe("orders", b"v")
    waiting = producer.send_threadsafe("nowhere", b"v")
    behind = producer.send_threadsafe("orders", b"v")
    loop.run_until_complete(asyncio.sleep(0.1))
    unseen = producer.send_threadsafe("orders", b"v")
    given_up = producer.send_threadsafe("orders", b"v")
    given_up.cancel()
    futures = [in_batch, waiting, behind, unseen]
    if any(future.done() for future in futures):
        return ["an outcome came too soon"]
    found: dict[int, str] = {}

    def wait(index: int) -> None:
        found[index] = outcome(futures[index])

    threads = [threading.Thread(target=wait, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    loop.close()
    for thread in threads:
        thread.join()
    try:
        producer.send_threadsafe("orders", b"v")
    except ProducerClosed:
        return [found.get(index, "none") for index in range(4)]
    return ["a closed loop took a record"]


async def cleaned(cluster: FakeCluster, pause: float, kept: list[Any]) -> list[Future[Any]]:
    """A main function that ends without `stop`: asyncio.run cancels the remaining tasks."""
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    kept.append(producer)
    await producer.start()

    def send() -> list[Future[Any]]:
        return [producer.send_threadsafe("nowhere", b"v") for _ in range(3)]

    futures = await asyncio.to_thread(send)
    await asyncio.sleep(pause)  # without one, the queue's task has not begun yet
    return futures


def main(what: str, kind: str = "asyncio") -> list[str]:
    with FakeCluster(topics={"orders": 1}, auto_create_topics=False) as cluster:
        if what == "closed":
            if kind == "uvloop":
                import uvloop

                loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            else:
                loop = asyncio.new_event_loop()
            found = closed(loop, cluster)
            wanted = ["unknown", "not sent", "not sent", "not sent"]
        else:
            kept: list[Any] = []
            found = [
                outcome(future)
                for pause in (0, 0.05)
                for future in asyncio.run(cleaned(cluster, pause, kept))
            ]
            wanted = ["not sent"] * 6
        print(found, flush=True)
        os._exit(found != wanted)  # without collecting the remaining objects


if __name__ == "__main__":
    main(*sys.argv[1:])
