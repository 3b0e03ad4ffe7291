"""A client for the comparison of faults, in its own process; `fault_bill` starts it.

    python -m tests.faults.bill_client CLIENT BOOTSTRAP TOPIC GROUP JOURNAL

CLIENT is "aiokafka_lite", "aiokafka" or "confluent". A producer sends a record to each partition
every `EVERY` seconds, regardless of earlier ones. A member of a group reads them, and those of the
other clients, which use the same topic, so that the faults hit the same partitions. Once a record
is both acknowledged and consumed, it is a line of the journal: the partition, and the time of the
machine's monotonic clock in nanoseconds. All settings are the clients' own defaults, except
`acks=all`, idempotence (as aiokafka_lite has by default), and the classic group protocol, which all
of them have.
"""

import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

__all__ = ["CLIENTS", "PARTITIONS", "Flow"]

CLIENTS: Final = ("aiokafka_lite", "aiokafka", "confluent")
PARTITIONS: Final = 3
EVERY: Final = 0.02  # seconds
UNDER_WAY: Final = 20_000  # records, at most, beyond which no more are sent


class Flow:
    """Records in transit; writes down those that have arrived.

    Args:
        client: Its name, with which the values of its records begin.
        journal: Created.
    """

    def __init__(self, client: str, journal: Path) -> None:
        self._name = client.encode()
        self._file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._half: dict[int, str] = {}  # record: what has happened to it, "acked" or "read"
        self._numbers = iter(range(1 << 60))
        self._lock = threading.Lock()
        self.under_way = 0

    def send(self) -> tuple[int, bytes]:
        """The number and the value of a new record."""
        with self._lock:
            self.under_way += 1
            number = next(self._numbers)
        return number, self._name + b" %d" % number

    def acknowledged(self, number: int, partition: int) -> None:
        """The producer reported that it is stored."""
        self._mark(number, partition, "acked")

    def consumed(self, value: bytes, partition: int) -> None:
        """The member was given a record, of this client or another."""
        client, number = value.split()
        if client == self._name:
            self._mark(int(number), partition, "read")

    def ended(self) -> None:
        """An acknowledgement succeeded or failed."""
        with self._lock:
            self.under_way -= 1

    def _mark(self, number: int, partition: int, what: str) -> None:
        with self._lock:
            before = self._half.setdefault(number, what)
            if before == what:
                return
            del self._half[number]
        os.write(self._file, f"{partition} {time.monotonic_ns()}\n".encode())


async def by_asyncio(package: str, bootstrap: str, topic: str, group: str, flow: Flow) -> None:
    """aiokafka_lite, or aiokafka: they have the same API."""
    clients, errors = importlib.import_module(package), importlib.import_module(f"{package}.errors")
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    producer = clients.AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True
    )
    consumer = clients.AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    )
    sends = set[asyncio.Task[None]]()

    async def send(partition: int) -> None:
        number, value = flow.send()
        try:
            await producer.send_and_wait(topic, value, partition=partition)
            flow.acknowledged(number, partition)
        except errors.KafkaError as error:
            logging.info("%s", error)
        finally:
            flow.ended()

    async def read() -> None:
        while True:
            try:
                async for record in consumer:
                    flow.consumed(record.value, record.partition)
            except errors.KafkaError as error:
                logging.info("%s", error)
                await asyncio.sleep(0.1)

    await producer.start()
    await consumer.start()
    reading = asyncio.create_task(read())
    while not end.is_set():
        for partition in range(PARTITIONS):
            if flow.under_way < UNDER_WAY:
                task = asyncio.create_task(send(partition))
                sends.add(task)
                task.add_done_callback(sends.discard)
        await asyncio.sleep(EVERY)
    reading.cancel()
    os._exit(0)  # records in flight are not awaited


def by_threads(bootstrap: str, topic: str, group: str, flow: Flow) -> None:
    """confluent-kafka: a thread that sends and takes reports, and a thread that reads."""
    from confluent_kafka import Consumer, KafkaException, Producer

    end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])

    def read() -> None:
        while not end.is_set():
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is not None:
                logging.info("%s", message.error())
                continue
            flow.consumed(message.value(), message.partition())

    def reported(number: int) -> Any:
        def report(error: Any, message: Any) -> None:
            flow.ended()
            if error is None:
                flow.acknowledged(number, message.partition())
            else:
                logging.info("%s", error)

        return report

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    while not end.is_set():
        began = time.monotonic()
        for partition in range(PARTITIONS):
            if flow.under_way < UNDER_WAY:
                number, value = flow.send()
                try:
                    producer.produce(
                        topic, value, partition=partition, on_delivery=reported(number)
                    )
                except (BufferError, KafkaException) as error:
                    flow.ended()
                    logging.info("%s", error)
        while (left := began + EVERY - time.monotonic()) > 0:
            producer.poll(left)
    os._exit(0)  # records in flight are not awaited


def main() -> None:
    """Run one client until SIGTERM."""
    client, bootstrap, topic, group, journal = sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level="INFO")
    flow = Flow(client, Path(journal))
    if client == "confluent":
        by_threads(bootstrap, topic, group, flow)
    else:
        asyncio.run(by_asyncio(client, bootstrap, topic, group, flow))


if __name__ == "__main__":
    main()
