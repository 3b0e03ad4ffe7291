"""Every asynchronous test in this folder runs on asyncio's loop and on uvloop's."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from aiokafka_lite.net.connection import Connection
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.open_connection import open_connection
from tests.fair_loop import new_loop
from tests.unit.net.scripted import Script, ScriptedBroker


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": new_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def nothing_is_only_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail a test in which a callback raised; the event loop would only log it."""
    yield
    logged = [each for each in caplog.get_records("call") if each.levelno >= logging.ERROR]
    assert logged == []


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Any]]:
    """Starts scripted brokers; an error in a script fails the test."""
    brokers: list[ScriptedBroker] = []

    async def start(*scripts: Script, context: ssl.SSLContext | None = None) -> ScriptedBroker:
        broker = ScriptedBroker(scripts)
        await broker.start(context)
        brokers.append(broker)
        return broker

    yield start
    for broker in brokers:
        await broker.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., Any]]:
    """Opens connections and closes them after the test."""
    connections: list[Connection] = []

    async def open_one(broker: ScriptedBroker, host: str = "127.0.0.1", **given: Any) -> Connection:
        expected = given.pop("expected", None)
        options = given.pop("options", None) or ConnectionOptions(**given)
        connection = await open_connection(host, broker.port, options, expected=expected)
        connections.append(connection)
        return connection

    yield open_one
    for connection in connections:
        connection.close()
        async with asyncio.timeout(5):
            await connection.wait_closed()


@pytest.fixture
def server_tls(tls_files: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*tls_files)
    return context


@pytest.fixture
def client_tls(tls_files: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(tls_files[0]))
