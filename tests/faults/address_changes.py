"""A cluster whose brokers change all their addresses and certificates, and traffic through it.

The brokers advertise a name. Relays at a new address of loopback replace those at the old one, the
name resolves to the new address, the brokers get certificates of a new authority, and the client's
files are replaced. No client is restarted; every record must arrive once and in order.
"""

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka_lite.net import dial
from tests.certificates import Authority, Certificate
from tests.faults.proxy import Proxy

TOPIC = "orders"
PARTITIONS = 3
PAUSE = 0.002
"""Seconds between two records."""


class Town:
    """The addresses and certificates of a cluster, as clients see them.

    Args:
        ports: Of the brokers, which listen at 127.0.0.1 and advertise localhost.
        authority: Signs the first certificates of the brokers, and all those of the client.
        folder: For the client's files.
        install: Makes the brokers use a certificate.
    """

    def __init__(
        self,
        ports: list[int],
        authority: Authority,
        folder: Path,
        install: Callable[[Certificate], Awaitable[None]],
    ) -> None:
        self._folder = folder
        self._install = install
        self._own = authority
        self._trusted = [authority]  # the last one signs the brokers' certificates
        self._round = 1
        self._relays = contextlib.AsyncExitStack()
        self.ports = ports
        self.options: dict[str, Any] = {
            "bootstrap_servers": [f"localhost:{port}" for port in self.ports],
            "security_protocol": "SSL",
            "ssl_cafile": folder / "ca.pem",
            "ssl_certfile": folder / "client.pem",
            "ssl_keyfile": folder / "client.key",
            "ssl_password": "hush",
        }
        self._renew_client(self._trusted)

    @property
    def address(self) -> str:
        return f"127.0.0.{self._round + 1}"

    def look_up(self, host: str, port: int) -> list[Any]:
        assert host == "localhost"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.address, port))]

    async def open(self) -> None:
        """Begin to relay connections at the current address."""
        for port in self.ports:
            relay = Proxy(port, host=self.address)
            relay.target = ("127.0.0.1", port)
            await self._relays.enter_async_context(relay)

    async def close(self) -> None:
        await self._relays.aclose()

    async def renew_certificates(self) -> None:
        """Make the brokers use certificates of another authority.

        The client trusts both authorities until the next change, and then no longer the older one.
        No connection may fail: a consumer's read would raise the error of an untrusted certificate.
        """
        present = self._trusted[-1]
        fresh = Authority(self._folder / f"authority-{self._round}", f"{self._round}")
        self._trusted = [present, fresh]
        self._renew_client(self._trusted)
        await self._install(fresh.issue("broker"))

    async def move(self) -> None:
        """Close every connection and listen at another address."""
        await self.close()
        self._round += 1
        await self.open()

    def _renew_client(self, authorities: list[Authority]) -> None:
        client = self._own.issue("client", password="hush")
        fresh = self._folder / "fresh"
        fresh.write_text("".join(each.cert.read_text() for each in authorities))
        os.replace(fresh, self._folder / "ca.pem")
        for source, name in ((client.cert, "client.pem"), (client.key, "client.key")):
            shutil.copy(source, fresh)
            os.replace(fresh, self._folder / name)


class Traffic:
    """Numbered records, and those that the group has read."""

    def __init__(self) -> None:
        self.acknowledged = [0] * PARTITIONS
        self.read: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.stopping = False
        self.working: list[asyncio.Task[None]] = []

    async def produce(self, producer: AIOKafkaProducer) -> None:
        while not self.stopping:
            for partition in range(PARTITIONS):
                number = self.acknowledged[partition]
                value = str(number).encode()
                await producer.send_and_wait(TOPIC, value, partition=partition)
                self.acknowledged[partition] += 1
            await asyncio.sleep(PAUSE)

    async def consume(self, consumer: AIOKafkaConsumer) -> None:
        async for record in consumer:
            assert record.value is not None
            self.read[record.partition].append(int(record.value))

    async def advance(self) -> None:
        """Wait until records sent from now on have passed through every partition."""
        marks = [count + 20 for count in self.acknowledged]
        async with asyncio.timeout(90):
            while any(len(read) < mark for read, mark in zip(self.read, marks, strict=True)):
                await asyncio.sleep(0.05)
                for task in self.working:
                    assert not task.done(), task.exception()


async def check_changes(
    town: Town, rounds: int, period: float, monkeypatch: pytest.MonkeyPatch
) -> Traffic:
    """Change addresses and certificates under traffic; return the traffic.

    Args:
        town: Not opened yet.
        rounds: The number of changes.
        period: Seconds between two of them.
        monkeypatch: Replaces the name lookup.
    """
    monkeypatch.setattr(dial, "_look_up", town.look_up)
    await town.open()
    traffic = Traffic()
    async with (
        contextlib.AsyncExitStack() as stack,
        AIOKafkaProducer(**town.options) as producer,
        AIOKafkaConsumer(
            TOPIC, group_id="g", auto_offset_reset="earliest", **town.options
        ) as consumer,
    ):
        stack.push_async_callback(town.close)
        traffic.working = working = [
            asyncio.create_task(traffic.produce(producer)),
            asyncio.create_task(traffic.consume(consumer)),
        ]
        await traffic.advance()
        for _ in range(rounds):
            await asyncio.sleep(period)
            await town.renew_certificates()
            await town.move()
            await traffic.advance()
        traffic.stopping = True
        await working[0]
        async with asyncio.timeout(90):
            while [len(each) for each in traffic.read] != traffic.acknowledged:
                await asyncio.sleep(0.05)
        working[1].cancel()
        await asyncio.gather(*working, return_exceptions=True)
    assert all(read == list(range(len(read))) for read in traffic.read)
    return traffic


async def check_log(bootstrap: str, traffic: Traffic, **options: Any) -> None:
    """Check that the brokers hold each acknowledged record once, in order."""
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, **options) as consumer:
        for partition, count in enumerate(traffic.acknowledged):
            place = TopicPartition(TOPIC, partition)
            consumer.assign([place])
            consumer.seek(place, 0)
            stored = [int((await consumer.getone()).value or b"") for _ in range(count)]
            assert stored == list(range(count))
            assert (await consumer.end_offsets([place]))[place] == count
