"""Hostile handshakes: documented errors, bounded memory and CPU time; a short `make fuzz`."""

import asyncio

import pytest

from aiokafka_lite.errors import KafkaError
from aiokafka_lite.net.connection_options import ConnectionOptions
from aiokafka_lite.net.open_connection import LARGEST_HANDSHAKE, open_connection
from aiokafka_lite.net.sasl.plain import Plain
from tests.fuzz import handshake
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(1))
def test_hostile_bytes_end_in_documented_errors(
    seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert handshake.run(amount=3_000, seed=seed) == 0, capsys.readouterr()


@pytest.mark.parametrize("release", [None, "0.9"])  # asked for its versions, or assumed
async def test_unauthenticated_broker_cannot_claim_a_large_response(release: str | None) -> None:
    async def claim(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write((LARGEST_HANDSHAKE + 1).to_bytes(4, "big"))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(claim, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    options = ConnectionOptions(
        security_protocol="SASL_PLAINTEXT",
        mechanism=Plain("alice", "secret"),
        api_version=release,
        request_timeout=10,
    )
    with pytest.raises(KafkaError) as caught:
        await open_connection("127.0.0.1", port, options)
    assert "larger than the limit" in f"{caught.value} {caught.value.__cause__}"
    server.close()
    await server.wait_closed()
