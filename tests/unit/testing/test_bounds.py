"""A client's maximum cost for the broker: memory for its requests and for unread responses."""

import asyncio
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from aiokafka_lite.protocol.framing import encode_request
from aiokafka_lite.protocol.messages.metadata import MetadataRequest
from aiokafka_lite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lite.protocol.messages.sasl_handshake import SaslHandshakeRequest
from aiokafka_lite.protocol.registry import ApiKey
from aiokafka_lite.testing import FakeCluster
from aiokafka_lite.testing.server.client_connection import MOST_WAITING
from aiokafka_lite.testing.server.request_frames import LARGEST_TOKEN
from tests.unit.testing.raw import RawClient
from tests.unit.testing.server.test_broker_server import fetch_from, make_batch, produce_to

Connect = Callable[[str], Any]

METADATA = MetadataRequest([])
TOO_LONG = (LARGEST_TOKEN + 1).to_bytes(4, "big")


async def quiet(tell: Callable[[], int]) -> int:
    """A number once it has not changed for a tenth of a second."""
    async with asyncio.timeout(20):
        known = -1
        while known != (known := tell()):
            await asyncio.sleep(0.1)
    return known


async def test_no_request_is_taken_from_a_client_that_does_not_read(
    cluster: FakeCluster, connect: Connect
) -> None:
    client = await connect(cluster.address(0))
    await client.ask(produce_to(0, make_batch((1, None, bytes(900_000)))), 9)
    deaf = socket.create_connection(cluster.address(0).rsplit(":", 1))
    try:
        deaf.setblocking(False)
        requests = b"".join(encode_request(fetch_from(0, 0), 11, n, "deaf") for n in range(100))
        assert deaf.send(requests) == len(requests)
        answered = await quiet(lambda: cluster.count(ApiKey.FETCH))
        assert 0 < answered < 50
        correlation_ids = []
        raw = RawClient(*await asyncio.open_connection(sock=deaf))
        for _ in range(100):
            async with asyncio.timeout(20):
                correlation_ids.append((await raw.receive(fetch_from(0, 0), 11))[0])
        assert correlation_ids == list(range(100))
        await raw.close()
    finally:
        deaf.close()
    assert cluster.count(ApiKey.FETCH) == 100


async def test_requests_that_wait_are_not_read_without_end(
    cluster: FakeCluster, connect: Connect
) -> None:
    client = await connect(cluster.address(0))
    # Long enough for a busy machine to send 36 MB before the answer, which lets the broker read on.
    fault = cluster.control(ApiKey.METADATA, delay=5)
    client.send(METADATA, 9)
    await fault.struck()
    batch = make_batch((1, None, bytes(900_000)))
    for _ in range(40):
        client.send(produce_to(0, batch), 9)
    unsent = await quiet(client.writer.transport.get_write_buffer_size)
    assert unsent > 36_000_000 - MOST_WAITING - 24_000_000  # the rest are the sockets' own buffers
    cluster.pause(0)
    cluster.resume(0)
    await client.receive(METADATA, 9)
    for _ in range(40):
        async with asyncio.timeout(20):
            _, produced = await client.receive(produce_to(0), 9)
        assert produced.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("version", [None, 0, 1])
async def test_a_huge_token(connect: Connect, version: int | None) -> None:
    async with FakeCluster(users={"alice": "secret"}) as cluster:
        client = await connect(cluster.address(0))
        if version is not None:
            await client.ask(SaslHandshakeRequest("PLAIN"), version)
        client.writer.write(TOO_LONG)
        async with asyncio.timeout(5):
            assert await client.is_cut()


async def test_a_token_byte_by_byte_and_large_requests_after_it(connect: Connect) -> None:
    async with FakeCluster(topics={"orders": 1}, users={"alice": "secret"}) as cluster:
        client = await connect(cluster.address(0))
        await client.ask(SaslHandshakeRequest("PLAIN"), 1)
        token = SaslAuthenticateRequest(b"\0alice\0secret")
        for byte in encode_request(token, 1, 2, "raw"):
            client.writer.write(bytes([byte]))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert (await client.receive(token, 1))[1].error_code == 0
        large = produce_to(0, make_batch((1, None, bytes(LARGEST_TOKEN + 1))))
        client.send(large, 9)
        _, produced = await client.receive(large, 9)
        assert produced.responses[0].partition_responses[0].error_code == 0


WITHOUT_DESCRIPTORS = """
import asyncio, logging, os, resource, socket, sys
from aiokafka_lite.testing import FakeCluster

class Count(logging.Handler):
    told = 0
    def emit(self, record):
        self.told += 1

async def main(way):
    loop, count = asyncio.get_running_loop(), Count()
    logging.getLogger("aiokafka_lite.testing.server.socket_listener").addHandler(count)
    async with FakeCluster() as cluster:
        host, _, port = cluster.address(0).rpartition(":")
        clients = [socket.socket() for _ in range(8)]
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, hard))
        for client in clients:
            client.setblocking(False)
            await loop.sock_connect(client, (host, int(port)))
        while not count.told:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert count.told < 5, count.told
        if way == "pause":
            cluster.pause(0)
            known = count.told
            await asyncio.sleep(1.2)
            assert count.told == known, count.told
            cluster.resume(0)
        if way == "kill":
            cluster.kill(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 100, hard))
        if way == "kill":
            await asyncio.sleep(1.2)
            await cluster.restart(0)
            clients = [socket.create_connection((host, int(port)))]
            clients[0].setblocking(False)
        request = bytes.fromhex("0012 0000 00000007 ffff")
        for client in clients:
            await loop.sock_sendall(client, len(request).to_bytes(4, "big") + request)
        for client in clients:
            async with asyncio.timeout(5):
                assert len(await loop.sock_recv(client, 8)) == 8
        assert count.told < 10, count.told
    for client in clients:
        client.close()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are not limited there")
@pytest.mark.parametrize("way", ["wait", "pause", "kill"])
def test_without_a_free_descriptor_accepting_pauses_and_resumes(way: str) -> None:
    script = textwrap.dedent(WITHOUT_DESCRIPTORS)
    done = subprocess.run(
        [sys.executable, "-c", script, way], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
