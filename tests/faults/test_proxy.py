"""The proxy itself: what it carries, cuts, delays and stalls."""

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest

from tests.faults.proxy import Proxy
from tools.kafka.broker import free_ports


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy in front of a server that answers every byte separately."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1000):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # cut, as intended by some of these tests
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    (port,) = free_ports(1)  # which nobody takes while the proxy refuses connections
    async with server, Proxy(port, seed=1) as opened:
        opened.target = server.sockets[0].getsockname()[:2]
        yield opened


async def test_proxy_forwards_bytes_both_ways(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"x" * 100_000)
    assert await reader.readexactly(100_000) == b"x" * 100_000
    writer.close()


async def test_proxy_cuts_within_a_number_of_bytes(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"before")
    assert await reader.readexactly(6) == b"before"
    proxy.cut_all_within(500)
    writer.write(b"y" * 600)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(600)
    assert proxy.cuts == 1
    writer.close()


async def test_proxy_delays_and_stalls_responses(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    loop = asyncio.get_running_loop()
    proxy.delay, proxy.delayed_share = 0.1, 1.0
    began = loop.time()
    writer.write(b"a")
    assert await reader.readexactly(1) == b"a"
    assert loop.time() - began >= 0.09
    proxy.delayed_share = 0.0
    proxy.stall()
    writer.write(b"b")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(1), 0.1)
    proxy.flow()
    assert await reader.readexactly(1) == b"b"
    writer.close()


async def test_proxy_refuses_clients_without_a_broker(proxy: Proxy) -> None:
    proxy.target = None
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(1)
    writer.close()


async def test_proxy_resets_all_connections(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"before")
    assert await reader.readexactly(6) == b"before"
    proxy.cut_all()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(1)
    assert proxy.cuts == 1
    writer.close()


async def test_proxy_refuses_connections_until_it_listens_again(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"before")
    assert await reader.readexactly(6) == b"before"
    proxy.refuse()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(1)
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", proxy.port)
    await proxy.listen()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"after")
    assert await reader.readexactly(5) == b"after"
    writer.close()


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels refuse beyond the queue")
async def test_proxy_that_drops_answers_neither_old_nor_new_connections(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"before")
    assert await reader.readexactly(6) == b"before"
    proxy.drop()
    writer.write(b"late")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(1), 0.1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.open_connection("127.0.0.1", proxy.port), 0.1)
    await proxy.listen()
    assert await reader.readexactly(4) == b"late"
    writer.close()
    _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.close()
