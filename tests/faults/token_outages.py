"""Traffic with short-lived tokens during longer outages of their identity provider."""

import asyncio
import contextlib
from typing import Any, Final

from aiokafka_lite import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lite.oauth import ClientCredentials
from tests.faults.address_changes import TOPIC, Traffic
from tests.oidc_server import Answer, OidcServer, Received, success, unsigned_jwt

LIFETIME: Final = 4
"""The lifetime of a token in seconds."""


async def check_outages(bootstrap: str, rounds: int, outage: float) -> tuple[Traffic, int]:
    """Stop the provider under traffic repeatedly; return the traffic and the number of tokens.

    Args:
        bootstrap: The brokers' listener for OAUTHBEARER without TLS.
        rounds: The number of outages.
        outage: Seconds that each one lasts.
    """
    tokens = 0

    def answer(_: Received) -> Answer:
        nonlocal tokens
        tokens += 1
        return success(unsigned_jwt(LIFETIME))

    traffic = Traffic()
    server = OidcServer(answer)
    async with contextlib.AsyncExitStack() as stack:
        running = stack.enter_context(contextlib.ExitStack())
        running.enter_context(server)

        def options() -> dict[str, Any]:
            return {
                "bootstrap_servers": bootstrap,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": ClientCredentials(server.url, "orders", "secret"),
            }

        producer = await stack.enter_async_context(AIOKafkaProducer(**options()))
        consumer = await stack.enter_async_context(
            AIOKafkaConsumer(
                TOPIC,
                group_id="g",
                auto_offset_reset="earliest",
                session_timeout_ms=300_000,  # a lost membership would deliver records again
                **options(),
            )
        )
        traffic.working = working = [
            asyncio.create_task(traffic.produce(producer)),
            asyncio.create_task(traffic.consume(consumer)),
        ]
        await traffic.advance()
        for _ in range(rounds):
            await asyncio.to_thread(running.close)
            issued = tokens
            await asyncio.sleep(outage)
            assert tokens == issued
            assert not any(task.done() for task in working)
            running.enter_context(server)
            await traffic.advance()
            assert tokens > issued
        traffic.stopping = True
        await working[0]
        async with asyncio.timeout(90):
            while [len(each) for each in traffic.read] != traffic.acknowledged:
                await asyncio.sleep(0.05)
        working[1].cancel()
        await asyncio.gather(*working, return_exceptions=True)
    assert all(read == list(range(len(read))) for read in traffic.read)
    return traffic, tokens
