"""Publish changes of a database, each at least once: `python examples/outbox.py`.

An order and its record are written in one SQLite transaction. The relay sends the rows of the table
`outbox`, in order, and deletes a row after Kafka has stored its record. If the relay dies before
that, or an earlier record fails, it sends the record again: the header "id" lets consumers ignore
the second one. Start one relay at a time.
"""

import asyncio
import os
import signal
import sqlite3
import sys

from aiokafka_lite import AIOKafkaProducer
from aiokafka_lite.errors import KafkaError

TABLES = """
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, guest TEXT, item TEXT);
CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT, key BLOB, value BLOB
);
"""


def connect(path: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=30)
    database.executescript(TABLES)
    return database


def place(database: sqlite3.Connection, guest: str, item: str) -> None:
    """Store an order together with its record, or neither."""
    with database:
        database.execute("INSERT INTO orders (guest, item) VALUES (?, ?)", (guest, item))
        database.execute(
            "INSERT INTO outbox (topic, key, value) VALUES ('orders', ?, ?)",
            (guest.encode(), item.encode()),
        )


async def relay_once(database: sqlite3.Connection, producer: AIOKafkaProducer[bytes, bytes]) -> int:
    """Send the records in the outbox and return how many were stored."""
    rows = database.execute("SELECT * FROM outbox ORDER BY id LIMIT 500").fetchall()
    acks = []
    stored = 0
    try:
        for number, topic, key, value in rows:
            headers = [("id", b"%d" % number)]
            acks.append(await producer.send(topic, value, key=key, headers=headers))
        for ack in acks:  # in order: the rows before a failure are deleted
            await ack
            stored += 1
    finally:
        with database:
            done = [(number,) for number, *_ in rows[:stored]]
            database.executemany("DELETE FROM outbox WHERE id = ?", done)
        await asyncio.gather(*acks, return_exceptions=True)  # no record is still in flight
    return stored


async def relay(database: sqlite3.Connection, stopping: asyncio.Event) -> None:
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP", "localhost:9092")
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        while not stopping.is_set():
            try:
                stored = await relay_once(database, producer)
            except KafkaError as error:
                print(f"not stored, to be sent again: {error}", file=sys.stderr)
                stored = 0
            if stored:
                print(stored, "records")
            else:  # an application in the same process sets an event instead of waiting
                await asyncio.sleep(0.2)


async def main(path: str) -> None:
    stopping = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stopping.set)
    database = connect(path)
    try:
        await relay(database, stopping)
    finally:
        database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "orders.db"))
